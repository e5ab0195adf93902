import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as b from "./blobs.ts";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
before(async () => {
  server = await startServer();
  await b.createContainer(server, "snaps");
});
after(() => server.stop());

const KIB = 1024;
const LEASE = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";
const OTHER = "6f9619ff-8b86-d011-b42d-00c04fc964ff";
const gone = "2011-03-09T01:42:34.9360000Z";

const readAt = (path: string, snapshot: string) => b.getBlob(server, path, { query: { snapshot } });

test("Snapshot Blob: without metadata it has the ETag, time, headers, metadata and tags of its base", async () => {
  const path = "/snaps/same";
  const put = await b.putBlob(server, path, "data", {
    "x-ms-blob-content-type": "text/plain",
    "x-ms-blob-cache-control": "no-cache",
    "x-ms-meta-a": "1",
    "x-ms-tags": "t=1",
  });
  const reply = b.assertReply(await b.putComp(server, path, "snapshot"), 201);
  const snapshot = String(reply.headers["x-ms-snapshot"]);
  assert.match(snapshot, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z$/);
  assert.equal(reply.headers.etag, put.headers.etag);
  assert.equal(reply.headers["last-modified"], put.headers["last-modified"]);
  const get = b.assertReply(await readAt(path, snapshot), 200);
  const head = b.assertReply(await b.headBlob(server, path, { query: { snapshot } }), 200);
  const base = await b.headBlob(server, path);
  assert.equal(get.text, "data");
  const names = ["etag", "last-modified", "content-length", "content-type", "content-md5"];
  names.push("cache-control", "x-ms-meta-a", "x-ms-tag-count", "x-ms-blob-type");
  for (const name of names) {
    assert.equal(get.headers[name], base.headers[name], name);
    assert.equal(head.headers[name], base.headers[name], name);
  }
});

test("Snapshot Blob: with metadata it has an ETag of its own, and the base stays as it is", async () => {
  const path = "/snaps/other";
  const put = await b.putBlob(server, path, "data", { "x-ms-meta-a": "1" });
  const headers = { "x-ms-meta-b": "2" };
  const reply = b.assertReply(await b.putComp(server, path, "snapshot", { headers }), 201);
  assert.notEqual(reply.headers.etag, put.headers.etag);
  const query = { comp: "metadata", snapshot: String(reply.headers["x-ms-snapshot"]) };
  for (const read of [b.getBlob, b.headBlob]) {
    const snap = b.assertReply(await read(server, path, { query }), 200);
    assert.deepEqual([snap.headers["x-ms-meta-a"], snap.headers["x-ms-meta-b"]], [undefined, "2"]);
    assert.equal(snap.headers.etag, reply.headers.etag);
  }
  const base = await b.headBlob(server, path);
  assert.deepEqual([base.headers["x-ms-meta-a"], base.headers["x-ms-meta-b"]], ["1", undefined]);
  assert.equal(base.headers.etag, put.headers.etag);
});

type Content = readonly (readonly [name: string, body: Buffer])[];
const contents: [what: string, blocks: Content | Buffer][] = [
  ["an empty blob", b.bytes(0)],
  ["1 KiB", b.bytes(KIB)],
  ["300 KiB", b.bytes(300 * KIB)],
  [
    "blocks of many sizes",
    [
      ["a", b.bytes(KIB, 2)],
      ["b", b.bytes(100 * KIB, 3)],
      ["c", b.bytes(1, 4)],
      ["d", b.bytes(70 * KIB, 5)],
    ],
  ],
];
const changes: [what: string, change: (path: string) => Promise<unknown>][] = [
  ["Put Blob", (path) => b.putBlob(server, path, b.bytes(300 * KIB, 9))],
  ["Put Block List", (path) => b.putBlocks(server, path, [["z", "z"]])],
  ["an empty Put Block List", (path) => b.tryPutBlockList(server, path, [])],
  ["Set Blob Metadata", (path) => b.putComp(server, path, "metadata")],
  ["Set Blob Properties", (path) => b.putComp(server, path, "properties")],
];
for (const [index, [what, content]] of contents.entries()) {
  test(`Snapshot Blob: ${what} stays as it was, whatever is done to the base`, async () => {
    for (const [number, [how, change]] of changes.entries()) {
      const path = `/snaps/kept-${index}-${number}`;
      const whole = Buffer.isBuffer(content)
        ? content
        : Buffer.concat(content.map(([, body]) => body));
      if (Buffer.isBuffer(content)) await b.putBlob(server, path, content);
      else await b.putBlocks(server, path, content);
      const before = await b.headBlob(server, path);
      const snapshot = await b.takeSnapshot(server, path);
      const sibling = await b.takeSnapshot(server, path);
      await change(path);
      b.assertReply(await b.deleteBlob(server, path, { query: { snapshot: sibling } }), 202);
      const reply = b.assertReply(await readAt(path, snapshot), 200, undefined, how);
      assert.ok(reply.body.equals(whole), how);
      for (const name of ["etag", "last-modified", "content-type", "content-md5"]) {
        assert.equal(reply.headers[name], before.headers[name], `${how}: ${name}`);
      }
      const query = { comp: "blocklist", snapshot };
      const list = b.assertReply(await b.getBlob(server, path, { query }), 200);
      const ids = Buffer.isBuffer(content) ? [] : content.map(([name]) => b.blockId(name));
      assert.deepEqual(b.texts(list.text, "Name"), ids, how);
      const middle = Math.floor(whole.length / 2);
      if (whole.length < 2) continue;
      const call = { headers: { range: `bytes=1-${middle}` }, query: { snapshot } };
      const part = b.assertReply(await b.getBlob(server, path, call), 206);
      assert.ok(part.body.equals(whole.subarray(1, middle + 1)), how);
    }
  });
}

test("Snapshot Blob: uncommitted blocks are not in it, and stay with the base", async () => {
  const path = "/snaps/uncommitted";
  await b.putBlob(server, path, "data");
  await b.putBlock(server, path, 1, "later");
  const snapshot = await b.takeSnapshot(server, path);
  b.assertReply(await b.tryPutBlockList(server, path, [["Uncommitted", 1]]), 201);
  assert.equal((await b.getBlob(server, path)).text, "later");
  assert.equal((await readAt(path, snapshot)).text, "data");
});

test("Snapshot Blob: taken at once, all have times of their own and are listed in their order", async () => {
  const path = "/snaps/many";
  await b.putBlob(server, path, "data");
  const tasks = Array.from({ length: 20 }, () => () => b.takeSnapshot(server, path));
  const times = await b.atOnce(20, tasks);
  assert.equal(new Set(times).size, 20);
  const listed: (string | undefined)[] = [];
  const container = b.containerClient(server, "snaps");
  for await (const blob of container.listBlobsFlat({ prefix: "many", includeSnapshots: true })) {
    listed.push(blob.snapshot);
  }
  const snapshots = listed.filter((time) => time !== undefined && time !== "");
  const ascending = times.toSorted((one, two) => (one < two ? -1 : 1));
  assert.deepEqual(snapshots, ascending);
  assert.equal(listed.length, 21);
});

test("Snapshot Blob: a lease is neither needed nor copied, but an id that is given must be right", async () => {
  const path = "/snaps/leased";
  await b.putBlob(server, path, "data");
  const withId = (id: string) =>
    b.putComp(server, path, "snapshot", { headers: { "x-ms-lease-id": id } });
  b.assertReply(await withId(LEASE), 412, "LeaseNotPresentWithBlobOperation");
  const lease = {
    "x-ms-lease-action": "acquire",
    "x-ms-lease-duration": "-1",
    "x-ms-proposed-lease-id": LEASE,
  };
  b.assertReply(await b.putComp(server, path, "lease", { headers: lease }), 201);
  b.assertReply(await withId(OTHER), 412, "LeaseIdMismatchWithBlobOperation");
  b.assertReply(await withId(LEASE), 201);
  const snapshot = await b.takeSnapshot(server, path);
  const { headers } = await b.headBlob(server, path, { query: { snapshot } });
  assert.notEqual(headers["x-ms-lease-state"], "leased");
  assert.notEqual(headers["x-ms-lease-status"], "locked");
  const include = { "x-ms-delete-snapshots": "include" };
  b.assertReply(await b.deleteBlob(server, path, { headers: include }), 412, "LeaseIdMissing");
  b.assertReply(await readAt(path, snapshot), 200);
  const both = { ...include, "x-ms-lease-id": LEASE };
  b.assertReply(await b.deleteBlob(server, path, { headers: both }), 202);
});

test("Snapshot Blob: what is not there gives 404", async () => {
  const none = await b.putComp(server, "/snaps/none", "snapshot");
  b.assertReply(none, 404, "BlobNotFound");
  const lost = await b.putComp(server, "/no-such/none", "snapshot");
  b.assertReply(lost, 404, "ContainerNotFound");
  await b.putBlock(server, "/snaps/unborn", 1, "x");
  const unborn = await b.putComp(server, "/snaps/unborn", "snapshot");
  b.assertReply(unborn, 404, "BlobNotFound");
});

test("Get Blob, Get Blob Properties, Delete Blob: a snapshot that is not there, or no time at all", async () => {
  const path = "/snaps/times";
  await b.putBlob(server, path, "data");
  const query = { snapshot: gone };
  b.assertReply(await b.getBlob(server, path, { query }), 404, "BlobNotFound");
  b.assertReply(await b.headBlob(server, path, { query }), 404, "BlobNotFound");
  b.assertReply(await b.deleteBlob(server, path, { query }), 404, "BlobNotFound");
  const bad = { query: { snapshot: "yesterday" } };
  b.assertReply(await b.getBlob(server, path, bad), 400, "InvalidQueryParameterValue");
});

test("Delete Blob: a base with snapshots needs to be told what to do with them", async () => {
  const path = "/snaps/present";
  await b.putBlob(server, path, "data");
  const first = await b.takeSnapshot(server, path);
  const second = await b.takeSnapshot(server, path);
  b.assertReply(await b.deleteBlob(server, path), 409, "SnapshotsPresent");
  for (const time of [first, second]) b.assertReply(await readAt(path, time), 200);

  const one = b.assertReply(await b.deleteBlob(server, path, { query: { snapshot: first } }), 202);
  assert.equal(one.headers["x-ms-delete-type-permanent"], "true");
  b.assertReply(await readAt(path, first), 404, "BlobNotFound");
  b.assertReply(await readAt(path, second), 200);
  b.assertReply(await b.getBlob(server, path), 200);
  b.assertReply(await b.deleteBlob(server, path), 409, "SnapshotsPresent");

  const third = await b.takeSnapshot(server, path);
  const only = { headers: { "x-ms-delete-snapshots": "only" } };
  b.assertReply(await b.deleteBlob(server, path, only), 202);
  for (const time of [second, third]) {
    b.assertReply(await readAt(path, time), 404, "BlobNotFound");
  }
  assert.equal((await b.getBlob(server, path)).text, "data");

  const fourth = await b.takeSnapshot(server, path);
  const include = { headers: { "x-ms-delete-snapshots": "include" } };
  b.assertReply(await b.deleteBlob(server, path, include), 202);
  b.assertReply(await b.getBlob(server, path), 404, "BlobNotFound");
  b.assertReply(await readAt(path, fourth), 404, "BlobNotFound");

  await b.putBlob(server, path, "anew");
  b.assertReply(await readAt(path, fourth), 404, "BlobNotFound");
  b.assertReply(await b.deleteBlob(server, path), 202);
});

test("Delete Blob: x-ms-delete-snapshots is refused on a snapshot, and if it is neither word", async () => {
  const path = "/snaps/both";
  await b.putBlob(server, path, "data");
  const snapshot = await b.takeSnapshot(server, path);
  for (const word of ["include", "only"]) {
    const headers = { "x-ms-delete-snapshots": word };
    b.assertReply(await b.deleteBlob(server, path, { headers, query: { snapshot } }), 400);
  }
  const bad = { headers: { "x-ms-delete-snapshots": "all" } };
  b.assertReply(await b.deleteBlob(server, path, bad), 400, "InvalidHeaderValue");
  b.assertReply(await readAt(path, snapshot), 200);
});

const lease = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
const writes: [what: string, comp: string | undefined, call: b.BlobCall][] = [
  ["Put Blob", undefined, { headers: { "x-ms-blob-type": "BlockBlob" }, body: "x" }],
  ["Put Block", "block", { query: { blockid: b.blockId(1) }, body: "x" }],
  ["Put Block List", "blocklist", { body: b.blockListXml([]) }],
  ["Set Blob Metadata", "metadata", { headers: { "x-ms-meta-a": "1" } }],
  ["Set Blob Properties", "properties", { headers: { "x-ms-blob-content-type": "a/b" } }],
  ["Lease Blob", "lease", { headers: lease }],
  ["Snapshot Blob", "snapshot", {}],
];
for (const [what, comp, call] of writes) {
  test(`${what}: against a snapshot it gives 400 and changes nothing`, async () => {
    const path = "/snaps/readonly";
    const put = await b.putBlob(server, path, "data");
    const snapshot = await b.takeSnapshot(server, path);
    const query = { ...(comp === undefined ? {} : { comp }), ...call.query, snapshot };
    b.assertReply(await send(server, { method: "PUT", path, ...call, query }), 400);
    const snap = b.assertReply(await readAt(path, snapshot), 200);
    const base = b.assertReply(await b.getBlob(server, path), 200);
    for (const reply of [snap, base]) {
      assert.equal(reply.text, "data");
      assert.equal(reply.headers.etag, put.headers.etag);
      assert.notEqual(reply.headers["x-ms-lease-state"], "leased");
    }
  });
}

test("Set Blob Tier: a snapshot has a tier of its own", async () => {
  const path = "/snaps/tier";
  await b.putBlob(server, path, "data");
  const snapshot = await b.takeSnapshot(server, path);
  const call = { query: { snapshot }, headers: { "x-ms-access-tier": "Cool" } };
  b.assertReply(await b.putComp(server, path, "tier", call), 200);
  const tier = "x-ms-access-tier";
  assert.equal((await b.headBlob(server, path, { query: { snapshot } })).headers[tier], "Cool");
  assert.equal((await b.headBlob(server, path)).headers[tier], "Hot");
});

test("createSnapshot(), withSnapshot(): the SDK reads the old bytes of an overwritten blob", async () => {
  const client = b.containerClient(server, "snaps").getBlockBlobClient("sdk");
  const old = b.bytes(200 * KIB);
  await client.uploadData(old, { metadata: { age: "old" } });
  const { snapshot } = await client.createSnapshot();
  await client.uploadData(Buffer.from("new"));
  const snap = client.withSnapshot(String(snapshot));
  assert.ok((await snap.downloadToBuffer()).equals(old));
  assert.deepEqual((await snap.getProperties()).metadata, { age: "old" });
  await snap.delete();
  assert.equal(await snap.exists(), false);
  await client.createSnapshot();
  await client.delete({ deleteSnapshots: "include" });
  assert.equal(await client.exists(), false);
});
