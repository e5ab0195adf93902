import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import type { PageBlobClient } from "@azure/storage-blob";
import * as b from "./blobs.ts";
import * as p from "./pages.ts";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
before(async () => {
  server = await startServer();
  await b.createContainer(server, "pages");
});
after(() => server.stop());

const { PAGE } = p;
const KIB = 1024;
const MIB = 1024 * KIB;
const TIB = 1024 ** 4;
const LEASE = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";

const client = (name: string): PageBlobClient =>
  b.containerClient(server, "pages").getPageBlobClient(name);

const read = async (path: string, start: number, count: number, query = {}) => {
  const headers = { "x-ms-range": p.rangeText(start, count) };
  return b.assertReply(await b.getBlob(server, path, { headers, query }), 206).body;
};

test("Put Blob (page blob): it has its size, type, sequence number and properties at once, and is zeros", async () => {
  const path = "/pages/new";
  const put = await p.putPageBlob(server, path, 4 * PAGE, {
    "x-ms-blob-sequence-number": "7",
    "x-ms-blob-content-type": "disk/image",
    "x-ms-blob-content-md5": createHash("md5").update("x").digest("base64"),
    "x-ms-meta-a": "1",
    "x-ms-tags": "t=1",
  });
  assert.equal(put.headers["x-ms-request-server-encrypted"], "true");
  for (const reply of [await b.headBlob(server, path), await b.getBlob(server, path)]) {
    b.assertReply(reply, 200);
    assert.equal(reply.headers["content-length"], String(4 * PAGE));
    assert.equal(reply.headers["x-ms-blob-type"], "PageBlob");
    assert.equal(reply.headers["x-ms-blob-sequence-number"], "7");
    assert.equal(reply.headers["content-type"], "disk/image");
    assert.equal(reply.headers["x-ms-meta-a"], "1");
    assert.equal(reply.headers["x-ms-tag-count"], "1");
    assert.equal(reply.headers.etag, put.headers.etag);
    assert.equal(reply.headers["x-ms-access-tier"], undefined);
  }
  assert.ok((await b.getBlob(server, path)).body.equals(Buffer.alloc(4 * PAGE)));
  assert.deepEqual(await p.getRanges(server, path), []);
});

test("Put Blob (page blob): 8 TiB cost nothing, and are read and written at the end", async () => {
  const blob = client("huge");
  await blob.create(8 * TIB);
  assert.equal((await blob.getProperties()).contentLength, 8 * TIB);
  const last = b.bytes(PAGE);
  await blob.uploadPages(last, 8 * TIB - PAGE, PAGE);
  assert.ok((await blob.downloadToBuffer(8 * TIB - PAGE, PAGE)).equals(last));
  assert.ok((await blob.downloadToBuffer(4 * TIB, 3 * MIB)).equals(Buffer.alloc(3 * MIB)));
  assert.deepEqual(p.pairs((await blob.getPageRanges()).pageRange), [[8 * TIB - PAGE, PAGE]]);
  await blob.delete();
});

test("Put Blob (page blob): over one of another type and back, and never by anything but Put Blob", async () => {
  const path = "/pages/types";
  await b.putBlob(server, path, "block");
  const tier = { "x-ms-access-tier": "Cool" };
  b.assertReply(await b.putComp(server, path, "tier", { headers: tier }), 200);
  await b.putBlock(server, path, 1, "waits");
  await p.putPageBlob(server, path, PAGE);
  const head = await b.headBlob(server, path);
  assert.equal(head.headers["x-ms-blob-type"], "PageBlob");
  assert.equal(head.headers["x-ms-access-tier"], undefined, "it had another type's tier");
  b.assertReply(
    await b.tryPutBlock(server, path, b.blockId(1), { body: "x" }),
    409,
    "InvalidBlobType",
  );
  b.assertReply(await b.tryPutBlockList(server, path, []), 409, "InvalidBlobType");
  const query = { comp: "blocklist", blocklisttype: "all" };
  b.assertReply(await b.getBlob(server, path, { query }), 409, "InvalidBlobType");
  await b.putBlob(server, path, "block again");
  assert.equal((await b.headBlob(server, path)).headers["x-ms-blob-sequence-number"], undefined);
  b.assertReply(await p.tryPutPage(server, path, 0, Buffer.alloc(PAGE)), 409, "InvalidBlobType");
  b.assertReply(await p.tryClearPage(server, path, 0, PAGE), 409, "InvalidBlobType");
  b.assertReply(await p.tryGetRanges(server, path), 409, "InvalidBlobType");
  const resize = { headers: { "x-ms-blob-content-length": "512" } };
  b.assertReply(await b.putComp(server, path, "properties", resize), 400, "InvalidHeaderValue");
  assert.equal((await b.getBlob(server, path)).text, "block again");
});

test("Put Page (update), Put Page (clear): bytes stand where they were put, all else is zeros", async () => {
  const path = "/pages/model";
  const size = 2 * MIB;
  const model = Buffer.alloc(size);
  await p.putPageBlob(server, path, size);
  let state = 99;
  const below = (bound: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
  for (let i = 0; i < 120; i++) {
    const count = PAGE * (1 + below([4, 64, 512][i % 3] ?? 4));
    const start = PAGE * below((size - count) / PAGE + 1);
    if (i % 5 === 4) {
      await p.clearPage(server, path, start, count);
      model.fill(0, start, start + count);
    } else {
      const body = b.bytes(count, i + 1);
      await p.putPage(server, path, start, body);
      body.copy(model, start);
    }
    if (i % 10 !== 9) continue;
    const from = below(size);
    const some = 1 + below(size - from);
    assert.ok((await read(path, from, some)).equals(model.subarray(from, from + some)));
  }
  const whole = b.assertReply(await b.getBlob(server, path), 200);
  assert.ok(whole.body.equals(model));
  const written = (await p.getRanges(server, path)).map(([, start, end]) => [start, end + 1]);
  for (const [start = 0, end = 0] of written) {
    model.fill(0, start, end);
    assert.deepEqual([start % PAGE, end % PAGE], [0, 0]);
  }
  assert.ok(model.equals(Buffer.alloc(size)), "nothing was written that is not listed");
});

test("Put Page (update): ETag and time change, sums are told and checked, 4 MiB are the limit", async () => {
  const path = "/pages/sums";
  const made = await p.putPageBlob(server, path, 8 * MIB);
  const body = b.bytes(PAGE, 5);
  const md5 = createHash("md5").update(body).digest("base64");
  const first = await p.putPage(server, path, 0, body, { "content-md5": md5 });
  assert.notEqual(first.headers.etag, made.headers.etag);
  assert.equal(first.headers["content-md5"], md5);
  assert.equal(first.headers["x-ms-content-crc64"], b.crc64(body));
  assert.equal(first.headers["x-ms-blob-sequence-number"], "0");
  assert.equal(first.headers["x-ms-request-server-encrypted"], "true");
  const crc = { "x-ms-content-crc64": b.crc64(body) };
  const second = await p.putPage(server, path, PAGE, body, crc);
  assert.equal(second.headers["content-md5"], undefined);
  const wrongMd5 = { "content-md5": createHash("md5").update("x").digest("base64") };
  b.assertReply(
    await p.tryPutPage(server, path, 0, Buffer.alloc(PAGE), wrongMd5),
    400,
    "Md5Mismatch",
  );
  const wrongCrc = { "x-ms-content-crc64": b.crc64(Buffer.from("x")) };
  b.assertReply(
    await p.tryPutPage(server, path, 0, Buffer.alloc(PAGE), wrongCrc),
    400,
    "Crc64Mismatch",
  );
  const large = b.bytes(4 * MIB, 6);
  await p.putPage(server, path, 2 * MIB, large);
  const tooLarge = await p.tryPutPage(server, path, 0, Buffer.alloc(4 * MIB + PAGE));
  b.assertReply(tooLarge, 413, "RequestBodyTooLarge");
  const whole = (await b.getBlob(server, path)).body;
  const want = Buffer.alloc(8 * MIB);
  body.copy(want, 0);
  body.copy(want, PAGE);
  large.copy(want, 2 * MIB);
  assert.ok(whole.equals(want));
});

test("Put Page (update): Range serves as x-ms-range does, which counts first", async () => {
  const path = "/pages/range";
  await p.putPageBlob(server, path, 4 * PAGE);
  const call = (headers: Record<string, string>) =>
    b.putComp(server, path, "page", {
      headers: { "x-ms-page-write": "Update", ...headers },
      body: Buffer.alloc(PAGE, 1),
    });
  b.assertReply(await call({ range: "bytes=512-1023" }), 201);
  b.assertReply(await call({ range: "bytes=0-511", "x-ms-range": "bytes=1536-2047" }), 201);
  assert.deepEqual(await p.getRanges(server, path), [
    ["PageRange", 512, 1_023],
    ["PageRange", 1_536, 2_047],
  ]);
});

test("Put Page (update), Put Page (clear): sequence numbers guard them", async () => {
  const path = "/pages/guarded";
  await p.putPageBlob(server, path, PAGE, { "x-ms-blob-sequence-number": "10" });
  const body = Buffer.alloc(PAGE, 1);
  const rows: [name: string, value: string, status: number][] = [
    ["le", "9", 412],
    ["le", "10", 201],
    ["lt", "10", 412],
    ["lt", "11", 201],
    ["eq", "9", 412],
    ["eq", "10", 201],
  ];
  for (const [name, value, status] of rows) {
    const headers = { [`x-ms-if-sequence-number-${name}`]: value };
    const code = status === 412 ? "SequenceNumberConditionNotMet" : undefined;
    const what = `${name} ${value}`;
    b.assertReply(await p.tryPutPage(server, path, 0, body, headers), status, code, what);
    b.assertReply(await p.tryClearPage(server, path, 0, PAGE, headers), status, code, what);
  }
  const both = { "x-ms-if-sequence-number-le": "10", "x-ms-if-sequence-number-eq": "11" };
  const reply = await p.tryPutPage(server, path, 0, body, both);
  b.assertReply(reply, 412, "SequenceNumberConditionNotMet");
  const elsewhere = await b.putComp(server, path, "metadata", {
    headers: { "x-ms-if-sequence-number-eq": "10" },
  });
  b.assertReply(elsewhere, 400, "UnsupportedHeader");
});

test("Put Page (update), Put Page (clear): conditions and leases guard them", async () => {
  const path = "/pages/leased";
  const made = await p.putPageBlob(server, path, PAGE);
  const body = Buffer.alloc(PAGE, 1);
  const write = (headers: Record<string, string>) => p.tryPutPage(server, path, 0, body, headers);
  const clear = (headers: Record<string, string>) => p.tryClearPage(server, path, 0, PAGE, headers);
  const etag = String(made.headers.etag);
  const second = b.assertReply(await write({ "if-match": etag }), 201);
  for (const call of [write, clear]) {
    b.assertReply(await call({ "if-match": etag }), 412, "ConditionNotMet");
    b.assertReply(
      await call({ "if-none-match": String(second.headers.etag) }),
      412,
      "ConditionNotMet",
    );
    b.assertReply(await call({ "x-ms-lease-id": LEASE }), 412, "LeaseNotPresentWithBlobOperation");
  }
  const acquire = {
    "x-ms-lease-action": "acquire",
    "x-ms-lease-duration": "-1",
    "x-ms-proposed-lease-id": LEASE,
  };
  b.assertReply(await b.putComp(server, path, "lease", { headers: acquire }), 201);
  for (const call of [write, clear]) {
    b.assertReply(await call({}), 412, "LeaseIdMissing");
    b.assertReply(await call({ "x-ms-lease-id": LEASE }), 201);
  }
  const head = await b.headBlob(server, path);
  assert.equal(head.headers["x-ms-lease-state"], "leased");
});

test("Set Blob Properties: a page blob shrinks and grows, and what was cut off is zeros", async () => {
  const path = "/pages/resized";
  await p.putPageBlob(server, path, 4 * PAGE, { "x-ms-blob-content-type": "disk/image" });
  await p.putPage(server, path, 0, Buffer.alloc(4 * PAGE, 1));
  const resize = (size: number) =>
    b.putComp(server, path, "properties", {
      headers: { "x-ms-blob-content-length": String(size) },
    });
  const smaller = b.assertReply(await resize(2 * PAGE), 200);
  assert.equal(smaller.headers["x-ms-blob-sequence-number"], "0");
  assert.equal((await b.getBlob(server, path)).body.length, 2 * PAGE);
  b.assertReply(await resize(6 * PAGE), 200);
  const want = Buffer.concat([Buffer.alloc(2 * PAGE, 1), Buffer.alloc(4 * PAGE)]);
  const reply = await b.getBlob(server, path);
  assert.ok(reply.body.equals(want));
  assert.equal(reply.headers["content-type"], "disk/image", "the other properties stay");
  assert.deepEqual(await p.getRanges(server, path), [["PageRange", 0, 2 * PAGE - 1]]);
  const all = { "x-ms-blob-cache-control": "no-cache", "x-ms-blob-content-length": "512" };
  b.assertReply(await b.putComp(server, path, "properties", { headers: all }), 200);
  const { headers } = await b.headBlob(server, path);
  assert.deepEqual(
    [headers["content-length"], headers["cache-control"], headers["content-type"]],
    ["512", "no-cache", "application/octet-stream"],
  );
});

test("Set Blob Properties: the sequence number is set, raised and counted, up to its end", async () => {
  const path = "/pages/numbers";
  const max = String(2n ** 63n - 1n);
  const made = await p.putPageBlob(server, path, PAGE);
  const act = async (action: string, number?: string) => {
    const headers: Record<string, string> = { "x-ms-sequence-number-action": action };
    if (number !== undefined) headers["x-ms-blob-sequence-number"] = number;
    return b.putComp(server, path, "properties", { headers });
  };
  const rows: [action: string, number: string | undefined, want: string][] = [
    ["update", "5", "5"],
    ["max", "3", "5"],
    ["max", "8", "8"],
    ["increment", undefined, "9"],
    ["update", "0", "0"],
    ["update", max, max],
  ];
  let etag = made.headers.etag;
  for (const [action, number, want] of rows) {
    const reply = b.assertReply(await act(action, number), 200, undefined, action);
    assert.equal(reply.headers["x-ms-blob-sequence-number"], want);
    assert.notEqual(reply.headers.etag, etag);
    etag = reply.headers.etag;
    assert.equal((await b.headBlob(server, path)).headers["x-ms-blob-sequence-number"], want);
  }
  b.assertReply(await act("increment"), 409, "SequenceNumberIncrementTooLarge");
  b.assertReply(await act("increment", "1"), 400, "InvalidHeaderValue");
  b.assertReply(await act("max"), 400, "MissingRequiredHeader");
  b.assertReply(await act("subtract", "1"), 400, "InvalidHeaderValue");
  assert.equal((await b.headBlob(server, path)).headers.etag, etag);
});

test("Snapshot Blob: a page blob's snapshot stays as it was, whatever is done to the base", async () => {
  const path = "/pages/kept";
  await p.putPageBlob(server, path, MIB, { "x-ms-blob-sequence-number": "3" });
  const old = b.bytes(200 * KIB, 7);
  await p.putPage(server, path, 100 * KIB, old);
  const snapshot = await b.takeSnapshot(server, path);
  const head = await b.headBlob(server, path);
  const check = async (how: string) => {
    const reply = await b.getBlob(server, path, { query: { snapshot } });
    b.assertReply(reply, 200, undefined, how);
    const want = Buffer.alloc(MIB);
    old.copy(want, 100 * KIB);
    assert.ok(reply.body.equals(want), how);
    assert.equal(reply.headers.etag, head.headers.etag, how);
    assert.equal(reply.headers["x-ms-blob-sequence-number"], "3", how);
    assert.deepEqual(
      await p.getRanges(server, path, { query: { snapshot } }),
      [["PageRange", 100 * KIB, 300 * KIB - 1]],
      how,
    );
  };
  await p.putPage(server, path, 150 * KIB, b.bytes(8 * KIB, 8));
  await check("Put Page");
  await p.clearPage(server, path, 0, MIB);
  await check("a clear of everything");
  const size = { headers: { "x-ms-blob-content-length": "512" } };
  b.assertReply(await b.putComp(server, path, "properties", size), 200);
  await check("a resize");
  await p.putPageBlob(server, path, PAGE);
  await check("Put Blob");
  const query = { comp: "page", snapshot };
  const write = { "x-ms-page-write": "update", "x-ms-range": "bytes=0-511" };
  const refused = await send(server, {
    method: "PUT",
    path,
    query,
    headers: write,
    body: Buffer.alloc(PAGE),
  });
  b.assertReply(refused, 400, "InvalidQueryParameterValue");
  await check("a refused write");
  b.assertReply(await b.deleteBlob(server, path, { query: { snapshot } }), 202);
});

test("Copy Blob: a page blob and its copy go apart", async () => {
  const path = "/pages/source";
  await p.putPageBlob(server, path, 8 * PAGE, { "x-ms-blob-sequence-number": "4" });
  await p.putPage(server, path, PAGE, Buffer.alloc(PAGE, 1));
  const headers = { "x-ms-copy-source": `${server.url}${path}` };
  const copy = await send(server, { method: "PUT", path: "/pages/copy", headers });
  b.assertReply(copy, 202);
  await p.putPage(server, "/pages/copy", 0, Buffer.alloc(PAGE, 2));
  await p.putPage(server, path, 2 * PAGE, Buffer.alloc(PAGE, 3));
  assert.deepEqual(await p.getRanges(server, "/pages/copy"), [["PageRange", 0, 1_023]]);
  assert.deepEqual(await p.getRanges(server, path), [["PageRange", 512, 1_535]]);
  const reply = await b.getBlob(server, "/pages/copy");
  assert.deepEqual([reply.body[0], reply.body[PAGE], reply.body[2 * PAGE]], [2, 1, 0]);
  assert.equal(reply.headers["x-ms-blob-sequence-number"], "4");
  assert.equal(reply.headers["x-ms-blob-type"], "PageBlob");
});

test("List Blobs: a page blob is told by its type and sequence number, and has no tier", async () => {
  await p.putPageBlob(server, "/pages/listed", 2 * PAGE, { "x-ms-blob-sequence-number": "12" });
  const found = [];
  for await (const blob of b.containerClient(server, "pages").listBlobsFlat({ prefix: "listed" })) {
    found.push(blob.properties);
  }
  const [blob] = found;
  assert.equal(found.length, 1);
  assert.deepEqual(
    [blob?.blobType, blob?.blobSequenceNumber, blob?.contentLength, blob?.accessTier],
    ["PageBlob", 12, 2 * PAGE, undefined],
  );
});

test("PageBlobClient: create, uploadPages, clearPages, resize, updateSequenceNumber, download, delete", async () => {
  const blob = client("sdk");
  const created = await blob.create(MIB, {
    blobSequenceNumber: 1,
    metadata: { disk: "one" },
    blobHTTPHeaders: { blobContentType: "disk/image" },
  });
  assert.ok(created.etag);
  const data = b.bytes(64 * KIB, 3);
  const uploaded = await blob.uploadPages(data, 0, data.length);
  assert.equal(uploaded.blobSequenceNumber, 1);
  const guarded = { conditions: { ifMatch: uploaded.etag ?? "", ifSequenceNumberEqualTo: 1 } };
  const cleared = await blob.clearPages(0, 4 * KIB, guarded);
  await assert.rejects(blob.clearPages(0, 4 * KIB, guarded), { statusCode: 412 });
  data.fill(0, 0, 4 * KIB);
  assert.ok((await blob.downloadToBuffer(0, data.length)).equals(data));
  await blob.updateSequenceNumber("increment", undefined, {
    conditions: { ifMatch: cleared.etag ?? "" },
  });
  assert.equal((await blob.getProperties()).blobSequenceNumber, 2);
  await blob.resize(32 * KIB);
  const properties = await blob.getProperties();
  assert.deepEqual(
    [properties.contentLength, properties.blobType, properties.metadata?.disk],
    [32 * KIB, "PageBlob", "one"],
  );
  assert.deepEqual(p.pairs((await blob.getPageRanges()).pageRange), [[4 * KIB, 28 * KIB]]);
  await blob.delete();
  assert.equal(await blob.exists(), false);
});

test("Put Page (update): pages are encrypted with a customer's key, and read with it alone", async () => {
  const path = "/pages/sealed";
  const keyOf = (fill: number) => {
    const key = Buffer.alloc(32, fill);
    return {
      "x-ms-encryption-key": key.toString("base64"),
      "x-ms-encryption-key-sha256": createHash("sha256").update(key).digest("base64"),
      "x-ms-encryption-algorithm": "AES256",
    };
  };
  const mine = keyOf(1);
  const sum = mine["x-ms-encryption-key-sha256"];
  const size = MIB;
  const made = await p.putPageBlob(server, path, size, mine);
  assert.equal(made.headers["x-ms-encryption-key-sha256"], sum);
  const model = Buffer.alloc(size);
  const write = async (start: number, body: Buffer) => {
    const reply = await p.putPage(server, path, start, body, mine);
    assert.equal(reply.headers["x-ms-encryption-key-sha256"], sum);
    body.copy(model, start);
  };
  await write(100 * KIB, b.bytes(300 * KIB, 1));
  await write(0, b.bytes(16 * KIB, 2));
  await write(4 * KIB, b.bytes(2 * KIB, 3));
  await write(200 * KIB, b.bytes(PAGE, 4));
  b.assertReply(await p.tryClearPage(server, path, 300 * KIB, KIB, mine), 201);
  model.fill(0, 300 * KIB, 301 * KIB);
  const whole = b.assertReply(await b.getBlob(server, path, { headers: mine }), 200);
  assert.ok(whole.body.equals(model));
  for (const [start, count] of [
    [5_000, 3],
    [4 * KIB + 1, 20 * KIB],
    [150 * KIB + 7, 160 * KIB],
  ] as const) {
    const headers = { ...mine, "x-ms-range": p.rangeText(start, count) };
    const part = b.assertReply(await b.getBlob(server, path, { headers }), 206);
    assert.ok(part.body.equals(model.subarray(start, start + count)), `${count} from ${start}`);
  }
  const page = Buffer.alloc(PAGE);
  const none = "BlobUsesCustomerSpecifiedEncryption";
  const other = "BlobCustomerSpecifiedEncryptionMismatch";
  b.assertReply(await p.tryPutPage(server, path, 0, page), 409, none);
  b.assertReply(await p.tryPutPage(server, path, 0, page, keyOf(2)), 409, other);
  b.assertReply(await b.getBlob(server, path), 409, none);
  const resize = { "x-ms-blob-content-length": "512" };
  const wrong = { headers: { ...resize, ...keyOf(2) } };
  b.assertReply(await b.putComp(server, path, "properties", wrong), 409, other);
  b.assertReply(
    await b.putComp(server, path, "properties", { headers: { ...resize, ...mine } }),
    200,
  );
});

test("Put Page From URL: pages of another blob, checked by sum and condition", async () => {
  const source = "/pages/url-source";
  const data = b.bytes(16 * PAGE, 9);
  const put = await b.putBlob(server, source, data);
  const path = "/pages/url-target";
  await p.putPageBlob(server, path, 64 * PAGE);
  const from = (start: number, count: number, headers: Record<string, string> = {}) =>
    b.putComp(server, path, "page", {
      headers: {
        "x-ms-page-write": "update",
        "x-ms-copy-source": `${server.url}${source}`,
        "x-ms-source-range": p.rangeText(start, count),
        "x-ms-range": p.rangeText(8 * PAGE, count),
        ...headers,
      },
    });
  const part = data.subarray(2 * PAGE, 6 * PAGE);
  const md5 = createHash("md5").update(part).digest("base64");
  const reply = b.assertReply(
    await from(2 * PAGE, 4 * PAGE, {
      "x-ms-source-content-md5": md5,
      "x-ms-source-if-match": String(put.headers.etag),
      "x-ms-if-sequence-number-eq": "0",
    }),
    201,
  );
  assert.equal(reply.headers["content-md5"], md5);
  assert.equal(reply.headers["x-ms-content-crc64"], b.crc64(part));
  assert.equal(reply.headers["x-ms-blob-sequence-number"], "0");
  assert.ok((await read(path, 8 * PAGE, 4 * PAGE)).equals(part));
  const etag = (await b.headBlob(server, path)).headers.etag;
  const wrong = { "x-ms-source-content-md5": createHash("md5").update("x").digest("base64") };
  b.assertReply(await from(0, PAGE, wrong), 400, "Md5Mismatch");
  b.assertReply(
    await from(0, PAGE, { "x-ms-if-sequence-number-eq": "1" }),
    412,
    "SequenceNumberConditionNotMet",
  );
  b.assertReply(
    await from(0, PAGE, { "x-ms-source-range": "bytes=0-1023" }),
    400,
    "InvalidHeaderValue",
  );
  b.assertReply(await from(0, PAGE, { "x-ms-range": "bytes=1-512" }), 416, "InvalidPageRange");
  b.assertReply(await from(15 * PAGE, 2 * PAGE), 416);
  b.assertReply(await from(0, PAGE, { "x-ms-source-if-match": '"0x1"' }), 412);
  b.assertReply(await from(0, PAGE, { "x-ms-copy-source": `${server.url}/pages/none` }), 404);
  const missing = {
    "x-ms-page-write": "update",
    "x-ms-copy-source": `${server.url}${source}`,
    "x-ms-range": "bytes=0-511",
  };
  b.assertReply(
    await b.putComp(server, path, "page", { headers: missing }),
    400,
    "MissingRequiredHeader",
  );
  assert.equal((await b.headBlob(server, path)).headers.etag, etag);
});
