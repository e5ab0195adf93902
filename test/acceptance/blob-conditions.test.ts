import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as b from "./blobs.ts";
import type { RawReply } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
before(async () => {
  server = await startServer();
  await b.createContainer(server, "conds");
});
after(() => server.stop());

type Headers = Readonly<Record<string, string>>;
type Run = (path: string, headers: Headers) => Promise<RawReply>;
type Verdict = "absent" | "ok" | "fail";
/** What each of the four headers says of the blob. */
type Cell = { readonly im: Verdict; readonly ius: Verdict; readonly inm: Verdict; ims: Verdict };

const OTHER = '"0x123456789ABCDEF"';
const ID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";
const verdicts: Verdict[] = ["absent", "ok", "fail"];
const cells: Cell[] = verdicts.flatMap((im) =>
  verdicts.flatMap((ius) =>
    verdicts.flatMap((inm) => verdicts.map((ims) => ({ im, ius, inm, ims }))),
  ),
);

/** The headers that make a cell true for a blob of this ETag and time; times are compared by the second. */
function headersOf(cell: Cell, etag: string, modified: string): Record<string, string> {
  const hourBefore = new Date(Date.parse(modified) - 3_600_000).toUTCString();
  const headers: Record<string, string> = {};
  if (cell.im !== "absent") headers["if-match"] = cell.im === "ok" ? etag : OTHER;
  if (cell.inm !== "absent") headers["if-none-match"] = cell.inm === "ok" ? OTHER : etag;
  if (cell.ius !== "absent")
    headers["if-unmodified-since"] = cell.ius === "ok" ? modified : hourBefore;
  if (cell.ims !== "absent")
    headers["if-modified-since"] = cell.ims === "ok" ? hourBefore : modified;
  return headers;
}

const words = (cell: Cell) =>
  Object.entries(cell)
    .map(([name, verdict]) => `${name} ${verdict}`)
    .join(", ");

const readRuns: [what: string, run: Run][] = [
  ["Get Blob", (path, headers) => b.getBlob(server, path, { headers })],
  ["Get Blob Properties", (path, headers) => b.headBlob(server, path, { headers })],
  [
    "Get Blob Metadata",
    (path, headers) => b.getBlob(server, path, { headers, query: { comp: "metadata" } }),
  ],
];

/** SEMANTICS a.2. */
function readStatus({ im, ius, inm, ims }: Cell): number {
  if (im === "fail" || ius === "fail") return 412;
  const group = [inm, ims].filter((verdict) => verdict !== "absent");
  return group.length === 0 || group.includes("ok") ? 200 : 304;
}

for (const [what, run] of readRuns) {
  test(`${what}: every combination of the four conditions`, async () => {
    const path = "/conds/read";
    const put = await b.putBlob(server, path, "data");
    const etag = String(put.headers.etag);
    const modified = String(put.headers["last-modified"]);
    for (const cell of cells) {
      const reply = await run(path, headersOf(cell, etag, modified));
      const status = readStatus(cell);
      const code = status === 200 ? undefined : "ConditionNotMet";
      b.assertReply(reply, status, code, words(cell));
      if (status === 304) assert.equal(reply.body.length, 0, words(cell));
    }
  });

  test(`${what}: lists of ETags, bare ETags, * and values that are none`, async () => {
    const path = "/conds/lists";
    const put = await b.putBlob(server, path, "data");
    const etag = String(put.headers.etag);
    const bare = etag.slice(1, -1);
    const now = String(put.headers["last-modified"]);
    const rows: [headers: Headers, status: number, code?: string][] = [
      [{ "if-match": `${OTHER}, ${etag}` }, 200],
      [{ "if-match": `${etag},${OTHER}` }, 200],
      [{ "if-match": `${OTHER}, "0x1"` }, 412, "ConditionNotMet"],
      [{ "if-none-match": `${OTHER}, ${etag}` }, 304, "ConditionNotMet"],
      [{ "if-none-match": `${OTHER}, "0x1"` }, 200],
      [{ "if-match": bare }, 200],
      [{ "if-none-match": bare }, 304, "ConditionNotMet"],
      [{ "if-match": "*" }, 200],
      [{ "if-none-match": "*" }, 400, "UnsatisfiableCondition"],
      [{ "if-modified-since": "yesterday" }, 400, "InvalidHeaderValue"],
      [{ "if-unmodified-since": "2026-13-45" }, 400, "InvalidHeaderValue"],
      [{ "if-modified-since": `${now}, ${now}` }, 400],
      [{ "if-unmodified-since": `${now}, ${now}` }, 400],
    ];
    for (const [headers, status, code] of rows) {
      b.assertReply(await run(path, headers), status, code, JSON.stringify(headers));
    }
  });

  test(`${what}: a missing blob gives 404, whatever the condition`, async () => {
    const since = new Date(0).toUTCString();
    const rows: Headers[] = [
      { "if-match": "*" },
      { "if-match": OTHER },
      { "if-none-match": OTHER },
    ];
    for (const headers of [...rows, { "if-modified-since": since }]) {
      b.assertReply(
        await run("/conds/none", headers),
        404,
        "BlobNotFound",
        JSON.stringify(headers),
      );
    }
    const lost = await run("/no-such/none", { "if-match": OTHER });
    b.assertReply(lost, 404, "ContainerNotFound");
  });
}

const acquire = {
  "x-ms-lease-action": "acquire",
  "x-ms-lease-duration": "-1",
  "x-ms-proposed-lease-id": ID,
};
const comp =
  (name: string, more: Headers = {}): Run =>
  (path, headers) =>
    b.putComp(server, path, name, { headers: { ...more, ...headers } });
type WriteRun = [what: string, status: number, run: Run];
const creators: WriteRun[] = [
  ["Put Blob", 201, (path, headers) => b.tryPutBlob(server, path, "new", headers)],
  ["Put Block List", 201, (path, headers) => b.tryPutBlockList(server, path, [], headers)],
];
const others: WriteRun[] = [
  ["Set Blob Metadata", 200, comp("metadata", { "x-ms-meta-new": "1" })],
  ["Set Blob Properties", 200, comp("properties", { "x-ms-blob-content-type": "new/new" })],
  ["Delete Blob", 202, (path, headers) => b.deleteBlob(server, path, { headers })],
  ["Lease Blob", 201, comp("lease", acquire)],
];
const snapshotRun: WriteRun = ["Snapshot Blob", 201, comp("snapshot")];
const allWrites: WriteRun[] = [...creators, ...others, snapshotRun];

/** SEMANTICS a.3: only two pairs may be sent, and the ETag decides them. */
function writeOutcome({ im, ius, inm, ims }: Cell): string {
  const given = Object.entries({ im, ius, inm, ims }).filter(([, verdict]) => verdict !== "absent");
  const names = given.map(([name]) => name).join("+");
  if (given.length > 1 && names !== "im+ius" && names !== "inm+ims") {
    return "MultipleConditionHeadersNotSupported";
  }
  const judges = [im, inm, ius, ims].filter((verdict) => verdict !== "absent");
  return judges[0] === "fail" ? "ConditionNotMet" : "ok";
}

/** Snapshot Blob counts as a read, and fails with 412 (SEMANTICS a.1, DESIGN 6). */
const snapshotOutcome = (cell: Cell) => (readStatus(cell) === 200 ? "ok" : "ConditionNotMet");

for (const [what, success, run] of allWrites) {
  test(`${what}: every combination of the four conditions, and a refusal changes nothing`, async () => {
    const outcome = what === "Snapshot Blob" ? snapshotOutcome : writeOutcome;
    const tasks = cells.map((cell, index) => async () => {
      const path = `/conds/${what.replaceAll(" ", "")}-${index}`;
      const put = await b.putBlob(server, path, "old");
      const etag = String(put.headers.etag);
      const reply = await run(path, headersOf(cell, etag, String(put.headers["last-modified"])));
      const want = outcome(cell);
      if (want === "ok") return b.assertReply(reply, success, undefined, words(cell));
      const status = want === "ConditionNotMet" ? 412 : 400;
      b.assertReply(reply, status, want, words(cell));
      const kept = b.assertReply(await b.getBlob(server, path), 200);
      const { headers } = kept;
      assert.deepEqual(
        [kept.text, headers.etag, headers["x-ms-lease-state"]],
        ["old", etag, "available"],
        words(cell),
      );
      return b.assertReply(await b.deleteBlob(server, path), 202);
    });
    await b.atOnce(8, tasks);
  });

  test(`${what}: bare ETags and * hold, a list and a bad date are refused`, async () => {
    const rows: [headers: (etag: string) => Headers, status: number, code?: string][] = [
      [(etag) => ({ "if-match": etag.slice(1, -1) }), success],
      [(etag) => ({ "if-none-match": etag.slice(1, -1) }), 412, "ConditionNotMet"],
      [() => ({ "if-match": "*" }), success],
      [() => ({ "if-modified-since": "yesterday" }), 400, "InvalidHeaderValue"],
    ];
    if (what !== "Snapshot Blob") {
      rows.push([(etag) => ({ "if-match": `${etag}, ${OTHER}` }), 400, "InvalidHeaderValue"]);
      rows.push([(etag) => ({ "if-none-match": `"0x1", ${etag}` }), 400, "InvalidHeaderValue"]);
    }
    for (const [index, [headers, status, code]] of rows.entries()) {
      const path = `/conds/star-${what.replaceAll(" ", "")}-${index}`;
      const put = await b.putBlob(server, path, "old");
      const given = headers(String(put.headers.etag));
      b.assertReply(await run(path, given), status, code, JSON.stringify(given));
    }
  });
}

for (const [what, , run] of creators) {
  const past = new Date(0).toUTCString();
  // What a condition says of a blob that is not there yet (SEMANTICS a.4).
  const rows: [headers: Headers, status: number, code?: string][] = [
    [{ "if-none-match": "*" }, 201],
    [{ "if-none-match": OTHER }, 201],
    [{ "if-match": "*" }, 412, "ConditionNotMet"],
    [{ "if-match": OTHER }, 412, "ConditionNotMet"],
    [{ "if-modified-since": past }, 201],
    [{ "if-unmodified-since": past }, 201],
  ];
  for (const [index, [headers, status, code]] of rows.entries()) {
    test(`${what}: ${JSON.stringify(headers)} on a missing blob gives ${status}`, async () => {
      const path = `/conds/create-${what.replaceAll(" ", "")}-${index}`;
      b.assertReply(await run(path, headers), status, code);
      assert.equal((await b.headBlob(server, path)).status, status === 201 ? 200 : 404);
    });
  }

  test(`${what}: If-None-Match * on a blob that is there gives 409 and changes nothing`, async () => {
    const path = `/conds/exists-${what.replaceAll(" ", "")}`;
    const put = await b.putBlob(server, path, "old");
    b.assertReply(await run(path, { "if-none-match": "*" }), 409, "BlobAlreadyExists");
    const { text, headers } = await b.getBlob(server, path);
    assert.deepEqual([text, headers.etag], ["old", put.headers.etag]);
  });

  test(`${what}: of many that create at once with If-None-Match *, one does`, async () => {
    const path = `/conds/race-${what.replaceAll(" ", "")}`;
    const tasks = Array.from({ length: 16 }, () => () => run(path, { "if-none-match": "*" }));
    const replies = await b.atOnce(16, tasks);
    assert.equal(replies.filter((reply) => reply.status === 201).length, 1);
    assert.equal(replies.filter((reply) => reply.code === "BlobAlreadyExists").length, 15);
  });

  test(`${what}: uncommitted blocks alone are no blob to a condition`, async () => {
    for (const [number, headers, status] of [
      [1, { "if-none-match": "*" }, 201],
      [2, { "if-match": "*" }, 412],
    ] as const) {
      const path = `/conds/unborn-${number}-${what.replaceAll(" ", "")}`;
      await b.putBlock(server, path, 1, "x");
      b.assertReply(await run(path, headers), status);
    }
  });
}

for (const [what, , run] of [...others, snapshotRun]) {
  test(`${what}: a missing blob gives 404, whatever the condition`, async () => {
    for (const headers of [
      { "if-match": "*" },
      { "if-match": OTHER },
      { "if-none-match": OTHER },
    ]) {
      b.assertReply(
        await run("/conds/none", headers),
        404,
        "BlobNotFound",
        JSON.stringify(headers),
      );
    }
  });
}

// Azurite notes that the service ignores the header here; to ignore a condition is worse than to refuse.
test("Set Blob Properties: If-None-Match * is judged as on every write", async () => {
  await b.putBlob(server, "/conds/ignored", "x");
  const headers = { "if-none-match": "*" };
  const reply = await b.putComp(server, "/conds/ignored", "properties", { headers });
  b.assertReply(reply, 412, "ConditionNotMet");
});

test("Put Block: takes no conditions", async () => {
  const call = { body: "x", headers: { "if-match": "*" } };
  const reply = await b.tryPutBlock(server, "/conds/block", b.blockId(1), call);
  b.assertReply(reply, 400, "ConditionHeadersNotSupported");
});

test("Put Blob, Set Blob Metadata, Delete Blob: the lease is judged before the condition", async () => {
  const path = "/conds/leased";
  await b.putBlob(server, path, "old");
  b.assertReply(await b.putComp(server, path, "lease", { headers: acquire }), 201);
  for (const [, , run] of [...creators, ...others.slice(0, 3)]) {
    for (const headers of [{ "if-none-match": "*" }, { "if-match": OTHER }]) {
      b.assertReply(await run(path, headers), 412, "LeaseIdMissing");
    }
    const held = { "x-ms-lease-id": ID, "if-match": OTHER };
    b.assertReply(await run(path, held), 412, "ConditionNotMet");
  }
  const create = { "x-ms-lease-id": ID, "if-none-match": "*" };
  b.assertReply(await b.tryPutBlob(server, path, "new", create), 409, "BlobAlreadyExists");
});

const counters: [what: string, read: (reply: RawReply) => number, write: Run][] = [
  [
    "Put Blob",
    (reply) => Number(reply.text),
    (path, { next = "", ...headers }) => b.tryPutBlob(server, path, next, headers),
  ],
  [
    "Set Blob Metadata",
    (reply) => Number(reply.headers["x-ms-meta-count"] ?? 0),
    (path, { next = "", ...headers }) =>
      b.putComp(server, path, "metadata", { headers: { "x-ms-meta-count": next, ...headers } }),
  ],
];
for (const [what, read, write] of counters) {
  test(`${what}: a counter kept by If-Match by many writers loses no count`, async () => {
    const path = `/conds/counter-${what.replaceAll(" ", "")}`;
    await b.putBlob(server, path, "0");
    const count = async () => {
      for (let done = 0; done < 5; ) {
        const now = b.assertReply(await b.getBlob(server, path), 200);
        const headers = { "if-match": String(now.headers.etag), next: String(read(now) + 1) };
        const reply = await write(path, headers);
        if (reply.status < 300) done++;
        else b.assertReply(reply, 412, "ConditionNotMet");
      }
    };
    await Promise.all(Array.from({ length: 8 }, count));
    assert.equal(read(await b.getBlob(server, path)), 40);
  });
}
