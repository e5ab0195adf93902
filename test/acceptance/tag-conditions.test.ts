import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import * as b from "./blobs.ts";
import { type RawRequest, send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

// SEMANTICS a.1: which operations take x-ms-if-tags, and a.4: false gives 412, and what is none gives 400.

let server: TestServer;
before(async () => {
  server = await startServer({ args: ["--immutableStorage"] });
  await b.createContainer(server, "tagged");
  await b.putBlob(server, "/tagged/source", "source");
});
after(() => server.stop());

const ID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";
const OTHER = "6f9619ff-8b86-d011-b42d-00c04fc964ff";
const TAGS = "<Tags><TagSet><Tag><Key>kind</Key><Value>b</Value></Tag></TagSet></Tags>";

type Row = [name: string, request: Omit<RawRequest, "path">, status: number, make?: Make];
/** What there must be for the operation, beside the tags kind=b. */
type Make = "leased" | "append" | "page";

const put = (query = {}, headers = {}, body = ""): Omit<RawRequest, "path"> => ({
  ...{ method: "PUT", query, headers, body },
});
const lease = (action: string, headers = {}) =>
  put({ comp: "lease" }, { "x-ms-lease-action": action, ...headers });
const leased = { "x-ms-lease-id": ID };
const PAGE = { "x-ms-blob-type": "PageBlob" };
const SIZE = { "x-ms-blob-content-length": "1024" };
const RANGE = { "x-ms-range": "bytes=0-511" };
const PAGES = "p".repeat(512);
const copy =
  (headers = {}) =>
  () =>
    put({}, { "x-ms-copy-source": `${server.url}/tagged/source`, ...headers });

const rows: Row[] = [
  ["Get Blob", { method: "GET" }, 200],
  ["Get Blob Properties", { method: "HEAD" }, 200],
  ["Get Blob Metadata", { method: "GET", query: { comp: "metadata" } }, 200],
  ["Get Blob Metadata by HEAD", { method: "HEAD", query: { comp: "metadata" } }, 200],
  ["Get Block List", { method: "GET", query: { comp: "blocklist" } }, 200],
  ["Get Blob Tags", { method: "GET", query: { comp: "tags" } }, 200],
  ["Set Blob Tags", put({ comp: "tags" }, {}, TAGS), 204],
  ["Set Blob Tier", put({ comp: "tier" }, { "x-ms-access-tier": "Cool" }), 200],
  ["Put Blob", put({}, { "x-ms-blob-type": "BlockBlob" }, "new"), 201],
  ["Put Block List", put({ comp: "blocklist" }, {}, "<BlockList></BlockList>"), 201],
  ["Set Blob Metadata", put({ comp: "metadata" }, { "x-ms-meta-a": "1" }), 200],
  ["Set Blob Properties", put({ comp: "properties" }, { "x-ms-blob-content-type": "a/b" }), 200],
  ["Snapshot Blob", put({ comp: "snapshot" }), 201],
  ["Delete Blob", { method: "DELETE" }, 202],
  ["Lease Blob: acquire", lease("acquire", { "x-ms-lease-duration": "-1" }), 201],
  ["Lease Blob: renew", lease("renew", leased), 200, "leased"],
  [
    "Lease Blob: change",
    lease("change", { ...leased, "x-ms-proposed-lease-id": OTHER }),
    200,
    "leased",
  ],
  ["Lease Blob: release", lease("release", leased), 200, "leased"],
  ["Lease Blob: break", lease("break", { "x-ms-lease-break-period": "0" }), 202, "leased"],
  ["Put Blob (append blob)", put({}, { "x-ms-blob-type": "AppendBlob" }), 201, "append"],
  ["Append Block", put({ comp: "appendblock" }, {}, "more"), 201, "append"],
  ["Put Blob (page blob)", put({}, { ...PAGE, "x-ms-blob-content-length": "512" }), 201, "page"],
  [
    "Put Page",
    put({ comp: "page" }, { ...RANGE, "x-ms-page-write": "update" }, PAGES),
    201,
    "page",
  ],
  [
    "Put Page (clear)",
    put({ comp: "page" }, { ...RANGE, "x-ms-page-write": "clear" }),
    201,
    "page",
  ],
  ["Get Page Ranges", { method: "GET", query: { comp: "pagelist" } }, 200, "page"],
];
const copies: [name: string, request: () => Omit<RawRequest, "path">, status: number][] = [
  ["Copy Blob", copy(), 202],
  ["Copy Blob From URL", copy({ "x-ms-requires-sync": "true" }), 202],
  ["Put Blob From URL", copy({ "x-ms-blob-type": "BlockBlob" }), 201],
];

async function make(path: string, what?: Make): Promise<void> {
  const types = { append: { "x-ms-blob-type": "AppendBlob" }, page: { ...PAGE, ...SIZE } };
  const own = what === "append" || what === "page" ? types[what] : undefined;
  const headers = { ...(own ?? { "x-ms-blob-type": "BlockBlob" }), "x-ms-tags": "kind=b" };
  const body = own === undefined ? "old" : "";
  b.assertReply(await send(server, { method: "PUT", path, headers, body }), 201);
  if (what !== "leased") return;
  const acquire = lease("acquire", { "x-ms-lease-duration": "-1", "x-ms-proposed-lease-id": ID });
  b.assertReply(await send(server, { ...acquire, path }), 201);
}

/** All that can be seen of a blob, but the time. */
async function stateOf(path: string): Promise<unknown> {
  const { headers } = await b.headBlob(server, path);
  const { date: _date, "x-ms-request-id": _id, ...rest } = headers;
  const tags = await b.getBlob(server, path, { query: { comp: "tags" } });
  const prefix = path.split("/")[2] ?? "";
  const query = { restype: "container", comp: "list", include: "snapshots,versions", prefix };
  const list = await b.getBlob(server, "/tagged", { query });
  return [rest, tags.text, list.text];
}

let made = 0;
type Case = { name: string; request(): Omit<RawRequest, "path">; status: number; what?: Make };
const cases: Case[] = [
  ...rows.map(([name, request, status, what]) => ({
    ...{ name, request: () => request, status },
    ...(what && { what }),
  })),
  ...copies.map(([name, request, status]) => ({ name, request, status })),
];
suite("x-ms-if-tags", () => {
  for (const { name, request, status, what } of cases) {
    test(name, async () => {
      const path = `/tagged/${made++}-blob`;
      await make(path, what);
      const before = await stateOf(path);
      const ask = (condition: string) => {
        const { headers, ...rest } = request();
        return send(server, { ...rest, path, headers: { ...headers, "x-ms-if-tags": condition } });
      };
      for (const condition of [
        "kind = 'c'",
        "other = 'b'",
        "kind <> 'b'",
        "kind = 'b' AND x = ''",
      ]) {
        b.assertReply(await ask(condition), 412, "ConditionNotMet", condition);
      }
      for (const condition of ["kind", "kind = b", "kind == 'b'", "(kind = 'b'", "kind = '*'"]) {
        b.assertReply(await ask(condition), 400, "InvalidHeaderValue", condition);
      }
      assert.deepEqual(await stateOf(path), before, "what was refused changed nothing");
      b.assertReply(await ask("kind = 'b' AND (kind > 'a' OR x = 'y')"), status);
    });
  }

  // SEMANTICS a.1: none of these takes a condition on tags.
  const refused: Row[] = [
    ["Put Block", put({ comp: "block", blockid: "AAAA" }, {}, "x"), 400],
    ["Undelete Blob", put({ comp: "undelete" }), 400],
    ["Set Blob Expiry", put({ comp: "expiry" }, { "x-ms-expiry-option": "NeverExpire" }), 400],
    ["Set Blob Legal Hold", put({ comp: "legalhold" }, { "x-ms-legal-hold": "true" }), 400],
    [
      "Delete Blob Immutability Policy",
      { method: "DELETE", query: { comp: "immutabilityPolicies" } },
      400,
    ],
  ];
  for (const [name, request, status] of refused) {
    test(`${name} refuses it, true or not`, async () => {
      const path = `/tagged/${made++}-blob`;
      await make(path);
      const before = await stateOf(path);
      for (const condition of ["kind = 'b'", "kind = 'c'"]) {
        const headers = { ...request.headers, "x-ms-if-tags": condition };
        b.assertReply(await send(server, { ...request, path, headers }), status);
      }
      assert.deepEqual(await stateOf(path), before);
    });
  }

  test("List Blobs, Get Container Properties and Find Blobs by Tags refuse it", async () => {
    for (const [path, query] of [
      ["/tagged", { restype: "container", comp: "list" }],
      ["/tagged", { restype: "container" }],
      ["/", { comp: "blobs", where: "kind = 'b'" }],
    ] as const) {
      const headers = { "x-ms-if-tags": "kind = 'b'" };
      b.assertReply(await send(server, { method: "GET", path, query, headers }), 400);
    }
  });

  test("a blob that is not there is 404 for what reads or changes it, whatever the condition", async () => {
    const headers = { "x-ms-if-tags": "kind = 'b'" };
    const path = "/tagged/none";
    const asked: Omit<RawRequest, "path">[] = [
      { method: "GET" },
      { method: "HEAD" },
      { method: "GET", query: { comp: "blocklist" } },
      { method: "GET", query: { comp: "tags" } },
      { method: "DELETE" },
      put({ comp: "metadata" }),
      put({ comp: "tags" }, {}, TAGS),
      put({ comp: "snapshot" }),
    ];
    for (const request of asked) {
      const reply = await send(server, { ...request, path, headers });
      b.assertReply(reply, 404, "BlobNotFound", JSON.stringify(request));
    }
  });

  test("a blob that is not there has no tags: a write that would make it is refused", async () => {
    for (const condition of ["kind = 'b'", "kind <> 'b'"]) {
      const reply = await b.tryPutBlob(server, "/tagged/none", "x", { "x-ms-if-tags": condition });
      b.assertReply(reply, 412, "ConditionNotMet");
    }
    b.assertReply(await b.getBlob(server, "/tagged/none"), 404);
  });

  test("together with If-Match: both must hold, and the lease comes first", async () => {
    const path = "/tagged/both";
    await make(path, "leased");
    const { headers } = await b.headBlob(server, path);
    const etag = String(headers.etag);
    const put = (more: Record<string, string>) => b.tryPutBlob(server, path, "new", more);
    const yes = { "if-match": etag, "x-ms-if-tags": "kind = 'b'", ...leased };
    b.assertReply(
      await put({ ...yes, "x-ms-lease-id": OTHER }),
      412,
      "LeaseIdMismatchWithBlobOperation",
    );
    b.assertReply(
      await put({ "if-match": "x", "x-ms-if-tags": "kind = 'c'" }),
      412,
      "LeaseIdMissing",
    );
    b.assertReply(await put({ ...yes, "if-match": '"0x1"' }), 412, "ConditionNotMet");
    b.assertReply(await put({ ...yes, "x-ms-if-tags": "kind = 'c'" }), 412, "ConditionNotMet");
    b.assertReply(await put({ ...yes, "x-ms-tags": "kind=c" }), 201);
    b.assertReply(await put({ ...leased, "x-ms-if-tags": "kind = 'b'" }), 412, "ConditionNotMet");
    const unlessSame = { "if-none-match": "*", "x-ms-if-tags": "kind = 'c'", ...leased };
    b.assertReply(await put(unlessSame), 409, "BlobAlreadyExists");
  });

  test("a read that is both not modified and not met is one of the two, and shows no bytes", async () => {
    const path = "/tagged/unmodified";
    await make(path);
    const { headers } = await b.headBlob(server, path);
    const same = { "if-none-match": String(headers.etag) };
    const met = { ...same, "x-ms-if-tags": "kind = 'b'" };
    const reply = await b.getBlob(server, path, { headers: met });
    assert.equal(reply.status, 304);
    const neither = { ...same, "x-ms-if-tags": "kind = 'c'" };
    const refused = await b.getBlob(server, path, { headers: neither });
    assert.ok([304, 412].includes(refused.status));
    assert.ok(!refused.text.includes("old"));
  });

  test("of a snapshot or a version: its own tags count", async () => {
    const path = "/tagged/past";
    await make(path);
    const versionid = String((await b.headBlob(server, path)).headers["x-ms-version-id"]);
    const snapshot = await b.takeSnapshot(server, path);
    await b.putBlob(server, path, "new", { "x-ms-tags": "kind=c" });
    for (const query of [{ snapshot }, { versionid }]) {
      const read = (condition: string) =>
        b.getBlob(server, path, { query, headers: { "x-ms-if-tags": condition } });
      b.assertReply(await read("kind = 'b'"), 200);
      b.assertReply(await read("kind = 'c'"), 412, "ConditionNotMet");
    }
  });
});

suite("x-ms-blob-if-* on Get and Set Blob Tags", () => {
  const path = "/tagged/conditions";
  let etag = "";
  let modified = "";
  before(async () => {
    await make(path);
    const { headers } = await b.headBlob(server, path);
    etag = String(headers.etag);
    modified = String(headers["last-modified"]);
  });
  const past = "Sat, 01 Jan 2000 00:00:00 GMT";

  const cells: [what: string, headers: () => Record<string, string>, get: number, set: number][] = [
    ["if-match, the same", () => ({ "x-ms-blob-if-match": etag }), 200, 204],
    ["if-match, another", () => ({ "x-ms-blob-if-match": '"0x1"' }), 412, 412],
    ["if-match, any", () => ({ "x-ms-blob-if-match": "*" }), 200, 204],
    ["if-none-match, the same", () => ({ "x-ms-blob-if-none-match": etag }), 304, 412],
    ["if-none-match, another", () => ({ "x-ms-blob-if-none-match": '"0x1"' }), 200, 204],
    ["if-modified-since, before", () => ({ "x-ms-blob-if-modified-since": past }), 200, 204],
    ["if-modified-since, not", () => ({ "x-ms-blob-if-modified-since": modified }), 304, 412],
    ["if-unmodified-since, before", () => ({ "x-ms-blob-if-unmodified-since": past }), 412, 412],
    ["if-unmodified-since, not", () => ({ "x-ms-blob-if-unmodified-since": modified }), 200, 204],
    ["if-modified-since, no date", () => ({ "x-ms-blob-if-modified-since": "x" }), 400, 400],
    ["If-Match itself is refused", () => ({ "if-match": etag }), 400, 400],
    ["If-None-Match itself is refused", () => ({ "if-none-match": "*" }), 400, 400],
  ];
  for (const [what, headers, get, set] of cells) {
    test(what, async () => {
      const query = { comp: "tags" };
      const read = await b.getBlob(server, path, { query, headers: headers() });
      assert.equal(read.status, get, read.text);
      const write = await b.putComp(server, path, "tags", { headers: headers(), body: TAGS });
      assert.equal(write.status, set, write.text);
    });
  }

  test("no other operation heeds them, so each refuses them", async () => {
    for (const request of [
      { method: "GET" },
      { method: "DELETE" },
      put({ comp: "metadata" }),
      put({}, { "x-ms-blob-type": "BlockBlob" }, "x"),
    ]) {
      const headers = { ...request.headers, "x-ms-blob-if-match": etag };
      b.assertReply(await send(server, { ...request, path, headers }), 400);
    }
    assert.equal((await b.headBlob(server, path)).headers.etag, etag);
  });
});

suite("leases and tags", () => {
  test("Set Blob Tags needs the id of a lease; Get Blob Tags does not, but one that is sent must be right", async () => {
    const path = "/tagged/lease";
    await make(path, "leased");
    const tags = (headers: Record<string, string>) =>
      b.putComp(server, path, "tags", { headers, body: TAGS });
    const read = (headers: Record<string, string>) =>
      b.getBlob(server, path, { query: { comp: "tags" }, headers });
    b.assertReply(await tags({}), 412, "LeaseIdMissing");
    b.assertReply(await tags({ "x-ms-lease-id": OTHER }), 412, "LeaseIdMismatchWithBlobOperation");
    b.assertReply(await tags(leased), 204);
    b.assertReply(await read({}), 200);
    b.assertReply(await read({ "x-ms-lease-id": OTHER }), 412, "LeaseIdMismatchWithBlobOperation");
    b.assertReply(await read(leased), 200);
    const tier = { "x-ms-access-tier": "Cool" };
    const move = (headers: Record<string, string>) => b.putComp(server, path, "tier", { headers });
    b.assertReply(await move({ ...tier, "x-ms-lease-id": OTHER }), 412);
    b.assertReply(await move(tier), 200);
  });
});
