import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { PageBlobClient } from "@azure/storage-blob";
import * as b from "./blobs.ts";
import * as p from "./pages.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
before(async () => {
  server = await startServer();
  await b.createContainer(server, "ranges");
});
after(() => server.stop());

const { PAGE } = p;
const body = (pages: number, value = 1) => Buffer.alloc(pages * PAGE, value);
/** Whole pages as a list has them. */
const pages = (first: number, last: number): p.Listed => [
  "PageRange",
  first * PAGE,
  last * PAGE + PAGE - 1,
];
const clears = (first: number, last: number): p.Listed => [
  "ClearRange",
  first * PAGE,
  last * PAGE + PAGE - 1,
];

const client = (name: string): PageBlobClient =>
  b.containerClient(server, "ranges").getPageBlobClient(name);

test("Get Page Ranges: neighbours are one, whoever wrote them, and what was cleared is not there", async () => {
  const path = "/ranges/joined";
  await p.putPageBlob(server, path, 100 * PAGE);
  for (const at of [10, 12, 11, 30, 31, 50]) await p.putPage(server, path, at * PAGE, body(1, at));
  await p.putPage(server, path, 40 * PAGE, body(10));
  await p.clearPage(server, path, 44 * PAGE, PAGE);
  const reply = b.assertReply(await p.tryGetRanges(server, path), 200);
  assert.deepEqual(p.listed(reply.text), [
    pages(10, 12),
    pages(30, 31),
    pages(40, 43),
    pages(45, 50),
  ]);
  const head = await b.headBlob(server, path);
  assert.equal(reply.headers["content-type"], "application/xml");
  assert.equal(reply.headers["x-ms-blob-content-length"], String(100 * PAGE));
  assert.deepEqual(
    [reply.headers.etag, reply.headers["last-modified"]],
    [head.headers.etag, head.headers["last-modified"]],
  );
});

test("Get Page Ranges: a range cuts the list to its pages, also where it does not begin at one", async () => {
  const path = "/ranges/cut";
  await p.putPageBlob(server, path, 20 * PAGE);
  await p.putPage(server, path, 4 * PAGE, body(8));
  const rows: [range: string, want: p.Listed[]][] = [
    [p.rangeText(0, 20 * PAGE), [pages(4, 11)]],
    [p.rangeText(5 * PAGE, 2 * PAGE), [pages(5, 6)]],
    [p.rangeText(5 * PAGE + 100, 2 * PAGE), [pages(5, 7)]],
    ["bytes=5120-", [pages(10, 11)]],
    ["bytes=0-2047", []],
    ["bytes=5632-999999", [pages(11, 11)]],
  ];
  for (const [range, want] of rows) {
    for (const name of ["x-ms-range", "range"]) {
      assert.deepEqual(
        await p.getRanges(server, path, { headers: { [name]: range } }),
        want,
        range,
      );
    }
  }
  const beyond = { headers: { "x-ms-range": "bytes=10240-20479" } };
  b.assertReply(await p.tryGetRanges(server, path, beyond), 416, "InvalidRange");
});

test("Get Page Ranges: long lists come in parts that together are the whole", async () => {
  const blob = client("parts");
  await blob.create(1_000 * PAGE);
  const want: [number, number][] = [];
  for (let i = 0; i < 25; i++) {
    await blob.uploadPages(body(3), i * 7 * PAGE, 3 * PAGE);
    want.push([i * 7 * PAGE, 3 * PAGE]);
  }
  const found: (readonly [number, number])[] = [];
  let count = 0;
  for await (const part of blob.listPageRanges(0, 1_000 * PAGE).byPage({ maxPageSize: 4 })) {
    count++;
    const ranges = part.pageRange ?? [];
    assert.ok(ranges.length <= 4);
    for (const { start, end } of ranges) found.push([start, end - start + 1]);
  }
  assert.deepEqual(found, want);
  assert.equal(count, 7);
  const path = "/ranges/parts";
  const first = await p.tryGetRanges(server, path, { query: { maxresults: "2" } });
  assert.match(first.text, /<NextMarker>[^<]+<\/NextMarker><\/PageList>$/);
  const last = await p.tryGetRanges(server, path);
  assert.match(last.text, /<NextMarker ?(\/>|><\/NextMarker>)<\/PageList>$/);
  const old = await p.tryGetRanges(server, path, { headers: { "x-ms-version": "2019-12-12" } });
  assert.ok(!old.text.includes("NextMarker"));
  for (const [query, code] of [
    [{ maxresults: "0" }, "OutOfRangeQueryParameterValue"],
    [{ maxresults: "many" }, "InvalidQueryParameterValue"],
    [{ marker: "elsewhere" }, "InvalidQueryParameterValue"],
  ] as const) {
    b.assertReply(await p.tryGetRanges(server, path, { query }), 400, code);
  }
});

test("Get Page Ranges: thousands of ranges come whole, also in a version that knows no parts", async () => {
  const path = "/ranges/thousands";
  const count = 2_200;
  await p.putPageBlob(server, path, 2 * count * PAGE);
  const prevsnapshot = await b.takeSnapshot(server, path);
  const tasks = Array.from(
    { length: count },
    (_, i) => () => p.putPage(server, path, 2 * i * PAGE, body(1)),
  );
  await b.atOnce(16, tasks);
  const want = Array.from({ length: count }, (_, i) => pages(2 * i, 2 * i));
  assert.deepEqual(await p.getRanges(server, path), want);
  assert.deepEqual(await p.getRanges(server, path, { query: { prevsnapshot } }), want);
  const headers = { "x-ms-version": "2019-12-12" };
  assert.deepEqual(await p.getRanges(server, path, { headers }), want);
  const query = { maxresults: "2100" };
  const part = await p.tryGetRanges(server, path, { query });
  assert.deepEqual(p.listed(part.text), want.slice(0, 2_100));
  const marker = /<NextMarker>([^<]+)</.exec(part.text)?.[1] ?? "";
  assert.deepEqual(await p.getRanges(server, path, { query: { marker } }), want.slice(2_100));
});

test("Get Page Ranges: compared with a snapshot it tells what was written and what was cleared since", async () => {
  const path = "/ranges/diff";
  await p.putPageBlob(server, path, 100 * PAGE);
  await p.putPage(server, path, 0, body(10));
  await p.putPage(server, path, 50 * PAGE, body(10));
  const first = await b.takeSnapshot(server, path);
  const compare = (prevsnapshot: string, query: Record<string, string> = {}) =>
    p.getRanges(server, path, { query: { prevsnapshot, ...query } });
  assert.deepEqual(await compare(first), []);
  await p.putPage(server, path, 5 * PAGE, body(10, 2));
  await p.clearPage(server, path, 52 * PAGE, 4 * PAGE);
  await p.clearPage(server, path, 80 * PAGE, 4 * PAGE);
  assert.deepEqual(await compare(first), [pages(5, 14), clears(52, 55)]);
  const second = await b.takeSnapshot(server, path);
  assert.deepEqual(await compare(second), []);
  await p.putPage(server, path, 54 * PAGE, body(1, 3));
  await p.clearPage(server, path, 0, 2 * PAGE);
  const third = await b.takeSnapshot(server, path);
  await p.putPage(server, path, 99 * PAGE, body(1, 4));
  assert.deepEqual(await compare(second), [clears(0, 1), pages(54, 54), pages(99, 99)]);
  assert.deepEqual(await compare(second, { snapshot: third }), [clears(0, 1), pages(54, 54)]);
  assert.deepEqual(await compare(first, { snapshot: second }), [pages(5, 14), clears(52, 55)]);
  const whole = [
    clears(0, 1),
    pages(5, 14),
    clears(52, 53),
    pages(54, 54),
    clears(55, 55),
    pages(99, 99),
  ];
  assert.deepEqual(await compare(first), whole);
  const parts: p.Listed[] = [];
  for (let marker = ""; ; ) {
    const query = { prevsnapshot: first, maxresults: "2", marker };
    const reply = b.assertReply(await p.tryGetRanges(server, path, { query }), 200);
    parts.push(...p.listed(reply.text));
    marker = /<NextMarker>([^<]+)</.exec(reply.text)?.[1] ?? "";
    if (marker === "") break;
  }
  assert.deepEqual(parts, whole);
  const headers = { "x-ms-range": p.rangeText(10 * PAGE, 43 * PAGE) };
  const query = { prevsnapshot: first };
  assert.deepEqual(await p.getRanges(server, path, { headers, query }), [
    pages(10, 14),
    clears(52, 52),
  ]);
  // A snapshot in between goes; those around it still tell.
  b.assertReply(await b.deleteBlob(server, path, { query: { snapshot: second } }), 202);
  assert.deepEqual(await compare(first), whole);
  b.assertReply(
    await p.tryGetRanges(server, path, { query: { prevsnapshot: second } }),
    409,
    "PreviousSnapshotNotFound",
  );
  const newer = { prevsnapshot: third, snapshot: first };
  b.assertReply(
    await p.tryGetRanges(server, path, { query: newer }),
    400,
    "PreviousSnapshotCannotBeNewer",
  );
  const bad = { prevsnapshot: "yesterday" };
  b.assertReply(
    await p.tryGetRanges(server, path, { query: bad }),
    400,
    "InvalidQueryParameterValue",
  );
});

test("Get Page Ranges: a blob that was put anew cannot be compared with what it was", async () => {
  const path = "/ranges/anew";
  await p.putPageBlob(server, path, 10 * PAGE);
  const pageSnapshot = await b.takeSnapshot(server, path);
  await p.putPageBlob(server, path, 10 * PAGE);
  const compare = (prevsnapshot: string) =>
    p.tryGetRanges(server, path, { query: { prevsnapshot } });
  b.assertReply(await compare(pageSnapshot), 409, "BlobOverwritten");
  await b.putBlob(server, path, "block");
  const blockSnapshot = await b.takeSnapshot(server, path);
  await p.putPageBlob(server, path, 10 * PAGE);
  b.assertReply(await compare(blockSnapshot), 409, "BlobOverwritten");
});

test("Get Page Ranges: a blob that shrank and grew tells that the end was cleared", async () => {
  const path = "/ranges/shrunk";
  await p.putPageBlob(server, path, 10 * PAGE);
  await p.putPage(server, path, 0, body(10));
  const prevsnapshot = await b.takeSnapshot(server, path);
  for (const size of [4 * PAGE, 12 * PAGE]) {
    const headers = { "x-ms-blob-content-length": String(size) };
    b.assertReply(await b.putComp(server, path, "properties", { headers }), 200);
  }
  assert.deepEqual(await p.getRanges(server, path, { query: { prevsnapshot } }), [clears(4, 9)]);
});

test("Get Page Ranges: x-ms-previous-snapshot-url names a snapshot of the same blob", async () => {
  const path = "/ranges/by url";
  await p.putPageBlob(server, path, 10 * PAGE);
  const snapshot = await b.takeSnapshot(server, path);
  await p.putPage(server, path, 0, body(1));
  const ask = (url: string, query: Record<string, string> = {}) =>
    p.tryGetRanges(server, path, { query, headers: { "x-ms-previous-snapshot-url": url } });
  const url = `${server.url}/ranges/by%20url?snapshot=${encodeURIComponent(snapshot)}`;
  assert.deepEqual(p.listed(b.assertReply(await ask(url), 200).text), [pages(0, 0)]);
  const other = url.replace("by%20url", "other");
  b.assertReply(await ask(other), 409, "PreviousSnapshotOperationNotSupported");
  b.assertReply(await ask(`${server.url}/ranges/by%20url`), 400, "InvalidHeaderValue");
  b.assertReply(await ask("nonsense"), 400, "InvalidHeaderValue");
  b.assertReply(await ask(url, { prevsnapshot: snapshot }), 400, "InvalidHeaderValue");
});

test("getPageRanges(), getPageRangesDiff(), listPageRangesDiff(): the SDK reads the lists", async () => {
  const blob = client("sdk");
  await blob.create(50 * PAGE);
  await blob.uploadPages(body(5), 0, 5 * PAGE);
  const { snapshot = "" } = await blob.createSnapshot();
  await blob.clearPages(PAGE, PAGE);
  await blob.uploadPages(body(2, 2), 20 * PAGE, 2 * PAGE);
  const list = await blob.getPageRanges(0, 50 * PAGE);
  assert.deepEqual(p.pairs(list.pageRange), [
    [0, PAGE],
    [2 * PAGE, 3 * PAGE],
    [20 * PAGE, 2 * PAGE],
  ]);
  const diff = await blob.getPageRangesDiff(0, 50 * PAGE, snapshot);
  assert.deepEqual(p.pairs(diff.pageRange), [[20 * PAGE, 2 * PAGE]]);
  assert.deepEqual(p.pairs(diff.clearRange), [[PAGE, PAGE]]);
  const kinds: string[] = [];
  for await (const { start, end, isClear } of blob.listPageRangesDiff(0, 50 * PAGE, snapshot)) {
    kinds.push(`${isClear ? "clear" : "pages"} ${start}-${end}`);
  }
  assert.deepEqual(new Set(kinds), new Set(["clear 512-1023", "pages 10240-11263"]));
});

test("Get Page Ranges: conditions are judged, and what is not there gives 404", async () => {
  const path = "/ranges/judged";
  const made = await p.putPageBlob(server, path, PAGE);
  const etag = String(made.headers.etag);
  b.assertReply(await p.tryGetRanges(server, path, { headers: { "if-match": etag } }), 200);
  b.assertReply(await p.tryGetRanges(server, path, { headers: { "if-none-match": etag } }), 304);
  b.assertReply(
    await p.tryGetRanges(server, path, { headers: { "if-match": '"0x1"' } }),
    412,
    "ConditionNotMet",
  );
  b.assertReply(await p.tryGetRanges(server, "/ranges/none"), 404, "BlobNotFound");
  b.assertReply(await p.tryGetRanges(server, "/no-such/none"), 404, "ContainerNotFound");
});
