import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import * as b from "./blobs.ts";
import { keepDeleted, shown, wordsOf } from "./past.ts";
import { type RawReply, type RawRequest, send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

// SEMANTICS c.7: which writes make a version, where ?versionid= may stand, and what may be done to versions.

type Fields = Record<string, string>;
const BOX = "box";
const ID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";
const OTHER = "6f9619ff-8b86-d011-b42d-00c04fc964ff";
const TAGS = "<Tags><TagSet><Tag><Key>t</Key><Value>2</Value></Tag></TagSet></Tags>";
const NEVER = "2011-03-09T01:42:34.9360000Z";
const FORM = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z$/;

let server: TestServer;
before(async () => {
  server = await startServer({ args: ["--immutableStorage"] });
  await b.createContainer(server, BOX);
  await b.putBlob(server, `/${BOX}/source`, "source");
});
after(() => server.stop());

const versionOf = (reply: RawReply) => String(reply.headers["x-ms-version-id"]);
const versions = async (name: string) =>
  (await shown(server, BOX, "versions", { prefix: name }))
    .filter((item) => item.name === name)
    .map(({ version }) => version ?? "");
const put = (comp: string, headers: Fields = {}, body = ""): RawRequest => ({
  ...{ method: "PUT", query: comp === "" ? {} : { comp }, headers, body },
});
const copy = (headers: Fields = {}): RawRequest =>
  put("", { "x-ms-copy-source": `${server.url}/${BOX}/source`, ...headers });

suite("a new version", () => {
  const makes: [name: string, request: () => RawRequest][] = [
    ["Put Blob", () => put("", { "x-ms-blob-type": "BlockBlob" }, "new")],
    ["Put Block List", () => put("blocklist", {}, "<BlockList></BlockList>")],
    ["Copy Blob", () => copy()],
    ["Copy Blob From URL", () => copy({ "x-ms-requires-sync": "true" })],
    ["Put Blob From URL", () => copy({ "x-ms-blob-type": "BlockBlob" })],
    ["Set Blob Metadata", () => put("metadata", { "x-ms-meta-a": "1" })],
    ["Snapshot Blob", () => put("snapshot")],
  ];
  for (const [name, request] of makes) {
    test(`is made by ${name}, and named in its reply`, async () => {
      const blob = name.replaceAll(" ", "-");
      const path = `/${BOX}/${blob}`;
      const first = versionOf(await b.putBlob(server, path, "old", { "x-ms-tags": "t=1" }));
      assert.match(first, FORM);
      const reply = await send(server, { ...request(), path });
      assert.ok(reply.status < 300, reply.text);
      const second = versionOf(reply);
      assert.match(second, FORM);
      assert.ok(second > first, "a later version has a later name");
      assert.deepEqual(await versions(blob), [first, second]);
      const head = await b.headBlob(server, path);
      assert.deepEqual(
        [versionOf(head), head.headers["x-ms-is-current-version"]],
        [second, "true"],
      );
      const old = b.assertReply(
        await b.getBlob(server, path, { query: { versionid: first } }),
        200,
      );
      assert.deepEqual([old.text, versionOf(old)], ["old", first]);
      assert.notEqual(old.headers["x-ms-is-current-version"], "true");
      assert.equal(old.headers["x-ms-tag-count"], "1");
    });
  }

  const makesNone: [name: string, request: RawRequest][] = [
    ["Put Block", { ...put("block", {}, "x"), query: { comp: "block", blockid: "AAAA" } }],
    ["Set Blob Properties", put("properties", { "x-ms-blob-content-type": "a/b" })],
    ["Set Blob Tags", put("tags", {}, TAGS)],
    ["Set Blob Tier", put("tier", { "x-ms-access-tier": "Cool" })],
    ["Lease Blob", put("lease", { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" })],
    ["Set Blob Legal Hold", put("legalhold", { "x-ms-legal-hold": "false" })],
    ["Undelete Blob", put("undelete")],
  ];
  for (const [name, request] of makesNone) {
    test(`is not made by ${name}`, async () => {
      const blob = name.replaceAll(" ", "-");
      const path = `/${BOX}/${blob}`;
      const first = versionOf(await b.putBlob(server, path, "old"));
      const reply = await send(server, { ...request, path });
      assert.ok(reply.status < 300, reply.text);
      assert.deepEqual(await versions(blob), [first]);
    });
  }

  test("is not made by Append Block", async () => {
    const path = `/${BOX}/append`;
    const headers = { "x-ms-blob-type": "AppendBlob" };
    const first = versionOf(
      b.assertReply(await send(server, { method: "PUT", path, headers }), 201),
    );
    assert.match(first, FORM);
    const reply = await b.putComp(server, path, "appendblock", { body: "more" });
    b.assertReply(reply, 201);
    assert.deepEqual(await versions("append"), [first]);
    assert.equal((await b.getBlob(server, path)).text, "more");
  });

  test("is made by each of many writes at once, and each keeps its own bytes", async () => {
    const path = `/${BOX}/crowd`;
    const bodies = Array.from({ length: 24 }, (_, i) => `body ${i}`);
    const ids = await b.atOnce(
      8,
      bodies.map((body) => async () => versionOf(await b.putBlob(server, path, body))),
    );
    assert.equal(new Set(ids).size, bodies.length);
    assert.deepEqual(
      await versions("crowd"),
      ids.toSorted((x, y) => (x < y ? -1 : 1)),
    );
    for (const [i, versionid] of ids.entries()) {
      assert.equal((await b.getBlob(server, path, { query: { versionid } })).text, bodies[i]);
    }
  });

  test("shares nothing with a later one: blocks, long lists and files stay with each", async () => {
    const path = `/${BOX}/shared`;
    const large = b.bytes(200_000, 3);
    await b.putBlock(server, path, "a", large);
    await b.putBlock(server, path, "b", "small");
    const many = Array.from({ length: 100 }, (_, i) => ["Latest", i % 2 ? "a" : "b"] as const);
    const first = versionOf(b.assertReply(await b.tryPutBlockList(server, path, many), 201));
    const second = versionOf(
      b.assertReply(await b.tryPutBlockList(server, path, [["Committed", "a"]]), 201),
    );
    const third = versionOf(await b.putBlob(server, path, "third"));
    b.assertReply(await b.deleteBlob(server, path), 202);
    b.assertReply(await b.deleteBlob(server, path, { query: { versionid: first } }), 202);
    const read = await b.getBlob(server, path, { query: { versionid: second } });
    assert.ok(b.assertReply(read, 200).body.equals(large));
    b.assertReply(await b.deleteBlob(server, path, { query: { versionid: second } }), 202);
    assert.equal((await b.getBlob(server, path, { query: { versionid: third } })).text, "third");
  });
});

suite("?versionid=", () => {
  const path = `/${BOX}/where`;
  let past = "";
  let current = "";
  before(async () => {
    past = versionOf(
      await b.putBlob(server, path, "one", { "x-ms-meta-a": "1", "x-ms-tags": "t=1" }),
    );
    current = versionOf(await b.putBlob(server, path, "two", { "x-ms-meta-a": "2" }));
  });

  const LATER = { "x-ms-immutability-policy-until-date": "Fri, 01 Jan 2100 00:00:00 GMT" };
  const takes: [name: string, request: RawRequest, status: number][] = [
    ["Get Blob", { method: "GET" }, 200],
    ["Get Blob Properties", { method: "HEAD" }, 200],
    ["Get Blob Metadata", { method: "GET", query: { comp: "metadata" } }, 200],
    ["Get Blob Metadata by HEAD", { method: "HEAD", query: { comp: "metadata" } }, 200],
    ["Get Blob Tags", { method: "GET", query: { comp: "tags" } }, 200],
    ["Set Blob Tags", put("tags", {}, TAGS), 204],
    ["Set Blob Tier", put("tier", { "x-ms-access-tier": "Cool" }), 200],
    ["Set Blob Immutability Policy", put("immutabilityPolicies", LATER), 200],
    [
      "Delete Blob Immutability Policy",
      { method: "DELETE", query: { comp: "immutabilityPolicies" } },
      200,
    ],
    ["Set Blob Legal Hold", put("legalhold", { "x-ms-legal-hold": "true" }), 200],
    ["Set Blob Legal Hold, off", put("legalhold", { "x-ms-legal-hold": "false" }), 200],
  ];
  for (const [name, request, status] of takes) {
    test(`${name} takes it, of a past version and of the current one; 404 if there is none`, async () => {
      const ask = (versionid: string, more: Fields = {}) =>
        send(server, { ...request, path, query: { ...request.query, versionid, ...more } });
      const before = await b.headBlob(server, path);
      b.assertReply(await ask(past), status);
      const after = await b.headBlob(server, path);
      for (const header of ["x-ms-access-tier", "x-ms-tag-count", "x-ms-legal-hold", "etag"]) {
        assert.equal(after.headers[header], before.headers[header], `the current one's ${header}`);
      }
      b.assertReply(await ask(current), status);
      b.assertReply(await ask(NEVER), 404, "BlobNotFound");
      b.assertReply(await ask("yesterday"), 400, "InvalidQueryParameterValue");
      b.assertReply(await ask(past, { snapshot: NEVER }), 400, "InvalidQueryParameterValue");
    });
  }

  test("Delete Blob refuses it together with a snapshot, and the word for snapshots", async () => {
    const both = { query: { versionid: past, snapshot: NEVER } };
    b.assertReply(await b.deleteBlob(server, path, both), 400, "InvalidQueryParameterValue");
    for (const word of ["include", "only"]) {
      const call = { query: { versionid: past }, headers: { "x-ms-delete-snapshots": word } };
      b.assertReply(await b.deleteBlob(server, path, call), 400);
    }
    assert.equal((await b.getBlob(server, path, { query: { versionid: past } })).text, "one");
  });

  const refuses: [name: string, request: () => RawRequest][] = [
    ["Put Blob", () => put("", { "x-ms-blob-type": "BlockBlob" }, "x")],
    ["Put Block", () => ({ ...put("block", {}, "x"), query: { comp: "block", blockid: "AAAA" } })],
    ["Put Block List", () => put("blocklist", {}, "<BlockList></BlockList>")],
    ["Copy Blob", () => copy()],
    ["Set Blob Metadata", () => put("metadata")],
    ["Set Blob Properties", () => put("properties")],
    ["Set Blob Expiry", () => put("expiry", { "x-ms-expiry-option": "NeverExpire" })],
    ["Snapshot Blob", () => put("snapshot")],
    ["Undelete Blob", () => put("undelete")],
    ["Append Block", () => put("appendblock", {}, "x")],
    ["Append Blob Seal", () => put("seal")],
    [
      "Lease Blob: acquire",
      () => put("lease", { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" }),
    ],
    ["Lease Blob: break", () => put("lease", { "x-ms-lease-action": "break" })],
  ];
  for (const [name, request] of refuses) {
    test(`${name} refuses it, of a past version and of the current one`, async () => {
      const { query, ...rest } = request();
      const before = await b.headBlob(server, path);
      for (const versionid of [past, current]) {
        const reply = await send(server, { ...rest, path, query: { ...query, versionid } });
        b.assertReply(reply, 400);
      }
      const after = await b.headBlob(server, path);
      assert.equal(after.headers.etag, before.headers.etag);
      assert.equal(after.headers["x-ms-lease-state"], "available");
    });
  }

  test("on a container or the service it means nothing, or is refused; never a fault", async () => {
    for (const query of [{ restype: "container" }, { restype: "container", comp: "list" }]) {
      const all = { ...query, versionid: past };
      const reply = await send(server, { method: "GET", path: `/${BOX}`, query: all });
      assert.ok([200, 400].includes(reply.status), reply.text);
    }
  });
});

suite("reads of a version", () => {
  const path = `/${BOX}/reads`;
  const body = b.bytes(150_000, 7);
  let past = "";
  let etag = "";
  before(async () => {
    const reply = await b.putBlob(server, path, body, { "x-ms-blob-content-type": "text/plain" });
    past = versionOf(reply);
    etag = String(reply.headers.etag);
    await b.putBlob(server, path, "two");
  });

  test("have its bytes, ranges, headers and ETag", async () => {
    const query = { versionid: past };
    const whole = b.assertReply(await b.getBlob(server, path, { query }), 200);
    assert.ok(whole.body.equals(body));
    assert.deepEqual([whole.headers.etag, whole.headers["content-type"]], [etag, "text/plain"]);
    const headers = { range: "bytes=70000-139999" };
    const part = b.assertReply(await b.getBlob(server, path, { query, headers }), 206);
    assert.ok(part.body.equals(body.subarray(70_000, 140_000)));
  });

  test("are judged by its own ETag and time", async () => {
    const query = { versionid: past };
    const read = (headers: Fields) => b.getBlob(server, path, { query, headers });
    b.assertReply(await read({ "if-match": etag }), 200);
    b.assertReply(await read({ "if-match": '"0x1"' }), 412, "ConditionNotMet");
    assert.equal((await read({ "if-none-match": etag })).status, 304);
    const current = String((await b.headBlob(server, path)).headers.etag);
    b.assertReply(await read({ "if-match": current }), 412, "ConditionNotMet");
  });

  test("of the current one, by its id, are the same as without", async () => {
    const plain = await b.getBlob(server, path);
    const query = { versionid: versionOf(plain) };
    const named = b.assertReply(await b.getBlob(server, path, { query }), 200);
    for (const name of ["etag", "x-ms-version-id", "x-ms-is-current-version", "content-length"]) {
      assert.equal(named.headers[name], plain.headers[name], name);
    }
  });

  test("have no lease, though the blob is leased", async () => {
    const lease = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
    const headers = { ...lease, "x-ms-proposed-lease-id": ID };
    b.assertReply(await b.putComp(server, path, "lease", { headers }), 201);
    const head = await b.headBlob(server, path, { query: { versionid: past } });
    assert.notEqual(head.headers["x-ms-lease-state"], "leased");
    const release = { "x-ms-lease-action": "release", "x-ms-lease-id": ID };
    b.assertReply(await b.putComp(server, path, "lease", { headers: release }), 200);
  });
});

suite("Delete Blob of a version", () => {
  test("of the current one, by its id, is refused, and nothing is deleted", async () => {
    const path = `/${BOX}/root`;
    const versionid = versionOf(await b.putBlob(server, path, "one"));
    const reply = await b.deleteBlob(server, path, { query: { versionid } });
    b.assertReply(reply, 403, "OperationNotAllowedOnRootBlob");
    assert.equal((await b.getBlob(server, path)).text, "one");
    b.assertReply(await b.deleteBlob(server, path), 202);
    b.assertReply(await b.deleteBlob(server, path, { query: { versionid } }), 202);
    b.assertReply(await b.deleteBlob(server, path, { query: { versionid } }), 404, "BlobNotFound");
  });

  test("is judged by If-Match on the version's own ETag", async () => {
    const path = `/${BOX}/conditional`;
    const first = await b.putBlob(server, path, "one");
    const second = await b.putBlob(server, path, "two");
    const remove = (etag: unknown) =>
      b.deleteBlob(server, path, {
        ...{ query: { versionid: versionOf(first) }, headers: { "if-match": String(etag) } },
      });
    b.assertReply(await remove(second.headers.etag), 412, "ConditionNotMet");
    b.assertReply(await remove(first.headers.etag), 202);
    assert.equal((await b.getBlob(server, path)).text, "two");
  });

  test("without soft delete is for good", async () => {
    const path = `/${BOX}/good`;
    const first = versionOf(await b.putBlob(server, path, "one"));
    await b.putBlob(server, path, "two");
    const reply = await b.deleteBlob(server, path, { query: { versionid: first } });
    assert.equal(b.assertReply(reply, 202).headers["x-ms-delete-type-permanent"], "true");
    b.assertReply(await b.putComp(server, path, "undelete"), 200);
    b.assertReply(await b.getBlob(server, path, { query: { versionid: first } }), 404);
  });

  test("of the blob itself needs its lease, its snapshots' word, and meets conditions", async () => {
    const path = `/${BOX}/guarded`;
    const { headers } = await b.putBlob(server, path, "one");
    const lease = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
    const acquire = { headers: { ...lease, "x-ms-proposed-lease-id": ID } };
    b.assertReply(await b.putComp(server, path, "lease", acquire), 201);
    const held = { "x-ms-lease-id": ID };
    const remove = (more: Fields) => b.deleteBlob(server, path, { headers: more });
    b.assertReply(await remove({}), 412, "LeaseIdMissing");
    b.assertReply(
      await remove({ "x-ms-lease-id": OTHER }),
      412,
      "LeaseIdMismatchWithBlobOperation",
    );
    b.assertReply(await remove({ ...held, "if-match": '"0x1"' }), 412, "ConditionNotMet");
    const snapshot = await b.takeSnapshot(server, path);
    b.assertReply(await remove(held), 409, "SnapshotsPresent");
    b.assertReply(await remove({ ...held, "x-ms-delete-snapshots": "include" }), 202);
    b.assertReply(await b.getBlob(server, path, { query: { snapshot } }), 404);
    const { headers: again } = await b.putBlob(server, path, "anew");
    assert.notEqual(again.etag, headers.etag);
    assert.equal((await b.headBlob(server, path)).headers["x-ms-lease-state"], "available");
  });
});

suite("Copy Blob of a version", () => {
  test("over its own blob makes it current again: the way to restore one", async () => {
    const path = `/${BOX}/promoted`;
    const first = versionOf(await b.putBlob(server, path, "one", { "x-ms-meta-a": "1" }));
    const second = versionOf(await b.putBlob(server, path, "two"));
    b.assertReply(await b.deleteBlob(server, path), 202);
    const source = `${server.url}${path}?versionid=${first}`;
    const headers = { "x-ms-copy-source": source };
    const reply = b.assertReply(await send(server, { method: "PUT", path, headers }), 202);
    const now = await b.getBlob(server, path);
    assert.deepEqual([now.text, now.headers["x-ms-meta-a"]], ["one", "1"]);
    const third = versionOf(reply);
    assert.equal(versionOf(now), third);
    assert.deepEqual(await versions("promoted"), [first, second, third]);
    for (const versionid of [first, second]) {
      b.assertReply(await b.deleteBlob(server, path, { query: { versionid } }), 202);
    }
    assert.equal((await b.getBlob(server, path)).text, "one");
  });
});

suite("versions and soft delete together, through the SDK", () => {
  test("a deleted version is listed as such, comes back, and is read", async () => {
    await keepDeleted(server, 3);
    try {
      const container = b.containerClient(server, BOX);
      const blob = container.getBlockBlobClient("sdk");
      const { versionId: first = "" } = await blob.upload("one", 3);
      await blob.upload("two", 3);
      await blob.withVersion(first).delete();
      const listed: (readonly [string | undefined, boolean, boolean | undefined])[] = [];
      const options = { prefix: "sdk", includeVersions: true, includeDeleted: true };
      for await (const item of container.listBlobsFlat(options)) {
        listed.push([item.versionId, Boolean(item.deleted), item.isCurrentVersion]);
      }
      const { versionId: second } = await blob.getProperties();
      assert.deepEqual(listed, [
        [first, true, undefined],
        [second, false, true],
      ]);
      await blob.undelete();
      assert.equal((await blob.withVersion(first).downloadToBuffer()).toString(), "one");
      await assert.rejects(blob.withVersion(second ?? "").delete(), { statusCode: 403 });
    } finally {
      await keepDeleted(server, undefined);
    }
  });
});

test("a server that keeps no versions any more still has those it kept", async () => {
  const first = await startServer({ args: ["--versioning"] });
  await b.createContainer(first, BOX);
  const path = `/${BOX}/a`;
  const ids: string[] = [];
  for (const body of ["one", "two", "three"]) {
    ids.push(versionOf(await b.putBlob(first, path, body)));
  }
  await first.stop("keep");
  const second = await startServer({ directory: first.directory });
  try {
    for (const [i, body] of ["one", "two", "three"].entries()) {
      const query = { versionid: ids[i] ?? "" };
      assert.equal((await b.getBlob(second, path, { query })).text, body);
    }
    const written = await b.putBlob(second, `/${BOX}/b`, "unversioned");
    assert.equal(written.headers["x-ms-version-id"], undefined);
    await b.putBlob(second, `/${BOX}/b`, "again");
    assert.deepEqual(wordsOf(await shown(second, BOX, "versions")), [
      ...["a version", "a version", "a version current", "b"],
    ]);
    const query = { versionid: ids[0] ?? "" };
    b.assertReply(await b.deleteBlob(second, path, { query }), 202);
    b.assertReply(await b.getBlob(second, path, { query }), 404);
  } finally {
    await second.stop();
  }
});
