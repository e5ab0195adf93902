import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import * as b from "./blobs.ts";
import { keepDeleted, shown, undelete, wordsOf } from "./past.ts";
import { type RawRequest, send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

// SEMANTICS c.8: its table, cell by cell, first without versions and then with them.

type Fields = Record<string, string>;
const BOX = "box";
const include = { headers: { "x-ms-delete-snapshots": "include" } };

let soft: TestServer;
let versioned: TestServer;
before(async () => {
  [soft, versioned] = await Promise.all([startServer(), startServer({ args: ["--versioning"] })]);
  for (const server of [soft, versioned]) {
    await b.createContainer(server, BOX);
    await keepDeleted(server, 7);
    await b.putBlob(server, `/${BOX}/source`, "source");
  }
});
after(async () => {
  await soft.stop();
  await versioned.stop();
});

/** What a list shows of one blob, deleted things and snapshots and versions included. */
const past = async (server: TestServer, name: string) =>
  wordsOf(
    await shown(server, BOX, "deleted,snapshots,versions,uncommittedblobs", { prefix: name }),
  );

const text = async (server: TestServer, path: string, query: Fields = {}) =>
  b.assertReply(await b.getBlob(server, path, { query }), 200).text;

const isPermanent = (reply: { headers: Record<string, unknown> }) =>
  reply.headers["x-ms-delete-type-permanent"];

const snapshotsOf = async (server: TestServer, name: string) =>
  (await shown(server, BOX, "deleted,snapshots", { prefix: name })).flatMap((item) =>
    item.snapshot === undefined ? [] : [item.snapshot],
  );

const versionsOf = async (server: TestServer, name: string) =>
  (await shown(server, BOX, "deleted,versions", { prefix: name })).flatMap((item) =>
    item.version === undefined ? [] : [item.version],
  );

type Write = (server: TestServer, path: string) => Promise<unknown>;
const copy = async (server: TestServer, path: string, headers: Fields, status: number) => {
  const source = { "x-ms-copy-source": `${server.url}/${BOX}/source`, ...headers };
  b.assertReply(await send(server, { method: "PUT", path, headers: source }), status);
};
const overwrites: [name: string, write: Write, result: string][] = [
  ["put-blob", (server, path) => b.putBlob(server, path, "new"), "new"],
  ["put-block-list", (server, path) => b.putBlocks(server, path, [["z", "new"]]), "new"],
  ["copy-blob", (server, path) => copy(server, path, {}, 202), "source"],
  [
    "copy-blob-from-url",
    (server, path) => copy(server, path, { "x-ms-requires-sync": "true" }, 202),
    "source",
  ],
  [
    "put-blob-from-url",
    (server, path) => copy(server, path, { "x-ms-blob-type": "BlockBlob" }, 201),
    "source",
  ],
];

suite("Delete Blob", () => {
  test("soft delete only: the blob is marked, and its snapshots when they are included", async () => {
    const path = `/${BOX}/del`;
    await b.putBlob(soft, path, "one");
    assert.equal(isPermanent(b.assertReply(await b.deleteBlob(soft, path), 202)), "false");
    assert.deepEqual(await past(soft, "del"), ["del deleted"]);
    b.assertReply(await b.getBlob(soft, path), 404, "BlobNotFound");
    await undelete(soft, path);
    await b.takeSnapshot(soft, path);
    b.assertReply(await b.deleteBlob(soft, path), 409, "SnapshotsPresent");
    assert.equal(isPermanent(b.assertReply(await b.deleteBlob(soft, path, include), 202)), "false");
    assert.deepEqual(await past(soft, "del"), ["del deleted snapshot", "del deleted"]);
  });

  test("with versions: the current one becomes a past one, and nothing is soft-deleted", async () => {
    const path = `/${BOX}/del`;
    await b.putBlob(versioned, path, "one");
    assert.deepEqual(await past(versioned, "del"), ["del version current"]);
    b.assertReply(await b.deleteBlob(versioned, path), 202);
    assert.deepEqual(await past(versioned, "del"), ["del version"]);
    b.assertReply(await b.getBlob(versioned, path), 404, "BlobNotFound");
    const [versionid = ""] = await versionsOf(versioned, "del");
    assert.equal(await text(versioned, path, { versionid }), "one");
    b.assertReply(await b.deleteBlob(versioned, path), 404, "BlobNotFound");
  });

  test("x-ms-delete-snapshots: only marks the snapshots and leaves the blob", async () => {
    const path = `/${BOX}/only`;
    await b.putBlob(soft, path, "one");
    await b.takeSnapshot(soft, path);
    await b.takeSnapshot(soft, path);
    const only = { headers: { "x-ms-delete-snapshots": "only" } };
    assert.equal(isPermanent(b.assertReply(await b.deleteBlob(soft, path, only), 202)), "false");
    const two = ["only deleted snapshot", "only deleted snapshot", "only"];
    assert.deepEqual(await past(soft, "only"), two);
    b.assertReply(await b.deleteBlob(soft, path), 202); // deleted snapshots are none that would hinder it
    await undelete(soft, path);
    assert.deepEqual(await past(soft, "only"), ["only snapshot", "only snapshot", "only"]);
  });

  test("twice under one name: both are kept", async () => {
    const path = `/${BOX}/twice`;
    for (const body of ["one", "two"]) {
      await b.putBlob(soft, path, body);
      b.assertReply(await b.deleteBlob(soft, path), 202);
    }
    assert.deepEqual(await past(soft, "twice"), ["twice deleted snapshot", "twice deleted"]);
    await undelete(soft, path);
    assert.equal(await text(soft, path), "two");
    const [snapshot = ""] = await snapshotsOf(soft, "twice");
    assert.equal(await text(soft, path, { snapshot }), "one");
  });
});

suite("Delete Blob of a snapshot or a version", () => {
  for (const [column, server] of [
    ["soft delete only", () => soft],
    ["with versions", () => versioned],
  ] as const) {
    test(`${column}: a snapshot is marked`, async () => {
      const path = `/${BOX}/snap`;
      await b.putBlob(server(), path, "one");
      const snapshot = await b.takeSnapshot(server(), path);
      const reply = b.assertReply(await b.deleteBlob(server(), path, { query: { snapshot } }), 202);
      assert.equal(isPermanent(reply), "false");
      b.assertReply(await b.getBlob(server(), path, { query: { snapshot } }), 404, "BlobNotFound");
      assert.ok((await past(server(), "snap")).includes("snap deleted snapshot"));
      await undelete(server(), path);
      assert.equal(await text(server(), path, { snapshot }), "one");
    });
  }

  test("with versions: a version is marked, and comes back as one that is not current", async () => {
    const path = `/${BOX}/ver`;
    const first = String((await b.putBlob(versioned, path, "one")).headers["x-ms-version-id"]);
    await b.putBlob(versioned, path, "two");
    const query = { versionid: first };
    const reply = b.assertReply(await b.deleteBlob(versioned, path, { query }), 202);
    assert.equal(isPermanent(reply), "false");
    assert.deepEqual(await past(versioned, "ver"), ["ver deleted version", "ver version current"]);
    assert.deepEqual(wordsOf(await shown(versioned, BOX, "versions", { prefix: "ver" })), [
      "ver version current",
    ]);
    await undelete(versioned, path);
    assert.deepEqual(await past(versioned, "ver"), ["ver version", "ver version current"]);
    assert.equal(await text(versioned, path, query), "one");
    assert.equal(await text(versioned, path), "two");
  });
});

for (const [name, write, result] of overwrites) {
  suite(`${name} over a blob`, () => {
    test("soft delete only: the state before it is a deleted snapshot", async () => {
      const path = `/${BOX}/${name}`;
      await b.putBlob(soft, path, "old", { "x-ms-meta-old": "1", "x-ms-tags": "old=1" });
      await write(soft, path);
      assert.deepEqual(await past(soft, name), [`${name} deleted snapshot`, name]);
      const [snapshot = ""] = await snapshotsOf(soft, name);
      b.assertReply(await b.getBlob(soft, path, { query: { snapshot } }), 404);
      await undelete(soft, path);
      assert.equal(await text(soft, path), result);
      const reply = b.assertReply(await b.getBlob(soft, path, { query: { snapshot } }), 200);
      assert.equal(reply.text, "old");
      assert.equal(reply.headers["x-ms-meta-old"], "1");
      assert.equal(reply.headers["x-ms-tag-count"], "1");
    });

    test("with versions: the state before it is a version", async () => {
      const path = `/${BOX}/${name}`;
      await b.putBlob(versioned, path, "old", { "x-ms-meta-old": "1" });
      await write(versioned, path);
      assert.deepEqual(await past(versioned, name), [`${name} version`, `${name} version current`]);
      const [versionid = ""] = await versionsOf(versioned, name);
      const reply = b.assertReply(await b.getBlob(versioned, path, { query: { versionid } }), 200);
      assert.deepEqual([reply.text, reply.headers["x-ms-meta-old"]], ["old", "1"]);
      assert.equal(await text(versioned, path), result);
    });

    test("soft delete only, over a deleted blob: what was deleted is a deleted snapshot", async () => {
      const path = `/${BOX}/gone-${name}`;
      await b.putBlob(soft, path, "old");
      b.assertReply(await b.deleteBlob(soft, path), 202);
      await write(soft, path);
      const words = [`gone-${name} deleted snapshot`, `gone-${name}`];
      assert.deepEqual(await past(soft, `gone-${name}`), words);
      await undelete(soft, path);
      assert.equal(await text(soft, path), result);
      const [snapshot = ""] = await snapshotsOf(soft, `gone-${name}`);
      assert.equal(await text(soft, path, { snapshot }), "old");
    });

    test("with versions, over a deleted blob: what was deleted is a version", async () => {
      const path = `/${BOX}/gone-${name}`;
      await b.putBlob(versioned, path, "old");
      b.assertReply(await b.deleteBlob(versioned, path), 202);
      await write(versioned, path);
      const words = [`gone-${name} version`, `gone-${name} version current`];
      assert.deepEqual(await past(versioned, `gone-${name}`), words);
      assert.equal(await text(versioned, path), result);
    });
  });
}

suite("over a deleted blob of another type", () => {
  test("soft delete only: its data is gone", async () => {
    const path = `/${BOX}/type`;
    await b.putBlob(soft, path, "old");
    b.assertReply(await b.deleteBlob(soft, path), 202);
    const headers = { "x-ms-blob-type": "AppendBlob" };
    b.assertReply(await send(soft, { method: "PUT", path, headers }), 201);
    assert.deepEqual(await past(soft, "type"), ["type"]);
    assert.equal((await b.headBlob(soft, path)).headers["x-ms-blob-type"], "AppendBlob");
  });
});

suite("Put Block on a deleted blob", () => {
  test("soft delete only: a new blob, and what was deleted is a deleted snapshot", async () => {
    const path = `/${BOX}/block`;
    await b.putBlob(soft, path, "old");
    b.assertReply(await b.deleteBlob(soft, path), 202);
    await b.putBlock(soft, path, 1, "new");
    assert.deepEqual(await past(soft, "block"), ["block deleted snapshot", "block"]);
    b.assertReply(await b.getBlob(soft, path), 404, "BlobNotFound");
    await undelete(soft, path);
    const [snapshot = ""] = await snapshotsOf(soft, "block");
    assert.equal(await text(soft, path, { snapshot }), "old");
    b.assertReply(await b.tryPutBlockList(soft, path, [["Latest", 1]]), 201);
    assert.equal(await text(soft, path), "new");
  });

  test("with versions: no change", async () => {
    const path = `/${BOX}/block`;
    await b.putBlob(versioned, path, "old");
    b.assertReply(await b.deleteBlob(versioned, path), 202);
    await b.putBlock(versioned, path, 1, "new");
    assert.deepEqual(await past(versioned, "block"), ["block version", "block"]);
  });
});

suite("what is not protected", () => {
  const writes: [name: string, write: Write, withVersions: boolean][] = [
    [
      "append-block",
      (server, path) => b.putComp(server, path, "appendblock", { body: "more" }),
      false,
    ],
    [
      "put-page",
      (server, path) =>
        b.putComp(server, path, "page", {
          headers: { "x-ms-page-write": "update", "x-ms-range": "bytes=0-511" },
          body: "p".repeat(512),
        }),
      false,
    ],
    ["set-properties", (server, path) => b.putComp(server, path, "properties"), false],
    [
      "set-metadata",
      (server, path) => b.putComp(server, path, "metadata", { headers: { "x-ms-meta-a": "1" } }),
      true,
    ],
    [
      "set-tags",
      (server, path) => b.putComp(server, path, "tags", { body: "<Tags><TagSet></TagSet></Tags>" }),
      false,
    ],
  ];
  for (const [name, write, withVersions] of writes) {
    test(`${name}: soft delete keeps no state before it${withVersions ? ", versions do" : ""}`, async () => {
      const path = `/${BOX}/${name}`;
      for (const server of [soft, versioned]) {
        const types: Record<string, Fields> = {
          "append-block": { "x-ms-blob-type": "AppendBlob" },
          "put-page": { "x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512" },
        };
        const headers = types[name] ?? { "x-ms-blob-type": "BlockBlob" };
        b.assertReply(await send(server, { method: "PUT", path, headers, body: "" }), 201);
        const reply = (await write(server, path)) as { status: number };
        assert.ok(reply.status < 300);
      }
      assert.deepEqual(await past(soft, name), [name]);
      const current = `${name} version current`;
      const words = withVersions ? [`${name} version`, current] : [current];
      assert.deepEqual(await past(versioned, name), words);
    });
  }

  test("set-tier: the base moves, its snapshots and versions stay, and no state is kept", async () => {
    const path = `/${BOX}/tier`;
    for (const server of [soft, versioned]) {
      await b.putBlob(server, path, "one");
      const snapshot = await b.takeSnapshot(server, path);
      const before = await past(server, "tier");
      const headers = { "x-ms-access-tier": "Cool" };
      b.assertReply(await b.putComp(server, path, "tier", { headers }), 200);
      assert.deepEqual(await past(server, "tier"), before);
      assert.equal((await b.headBlob(server, path)).headers["x-ms-access-tier"], "Cool");
      const query = { snapshot };
      const kept = await b.headBlob(server, path, { query });
      assert.equal(kept.headers["x-ms-access-tier"], "Hot");
    }
  });

  test("Delete Container: blob soft delete does not keep what is in it", async () => {
    const query = { restype: "container" };
    await b.createContainer(soft, "whole");
    await b.putBlob(soft, "/whole/a", "one");
    b.assertReply(await send(soft, { method: "DELETE", path: "/whole", query }), 202);
    await b.createContainer(soft, "whole");
    assert.deepEqual(await shown(soft, "whole", "deleted,snapshots"), []);
    b.assertReply(await b.putComp(soft, "/whole/a", "undelete"), 404, "BlobNotFound");
  });
});

suite("Undelete Blob", () => {
  test("restores the blob and all deleted snapshots, with tags, metadata and properties", async () => {
    const path = `/${BOX}/restore`;
    await b.putBlob(soft, path, "one", {
      ...{ "x-ms-meta-a": "1", "x-ms-tags": "t=1", "x-ms-blob-content-type": "text/plain" },
    });
    const before = await b.headBlob(soft, path);
    await b.takeSnapshot(soft, path);
    await b.takeSnapshot(soft, path);
    b.assertReply(await b.deleteBlob(soft, path, include), 202);
    await undelete(soft, path);
    assert.deepEqual(await past(soft, "restore"), [
      "restore snapshot",
      "restore snapshot",
      "restore",
    ]);
    const after = await b.headBlob(soft, path);
    for (const name of ["etag", "last-modified", "content-type", "x-ms-meta-a", "x-ms-tag-count"]) {
      assert.equal(after.headers[name], before.headers[name], name);
    }
  });

  test("does nothing where there is nothing to do; what never was is 404", async () => {
    const path = `/${BOX}/noop`;
    const { headers } = await b.putBlob(soft, path, "one");
    await undelete(soft, path);
    assert.equal((await b.headBlob(soft, path)).headers.etag, headers.etag);
    b.assertReply(await b.putComp(soft, `/${BOX}/never`, "undelete"), 404, "BlobNotFound");
    b.assertReply(await b.putComp(soft, "/no-box/never", "undelete"), 404, "ContainerNotFound");
  });

  test("with versions it makes nothing current", async () => {
    const path = `/${BOX}/demoted`;
    await b.putBlob(versioned, path, "one");
    b.assertReply(await b.deleteBlob(versioned, path), 202);
    const [versionid = ""] = await versionsOf(versioned, "demoted");
    b.assertReply(await b.deleteBlob(versioned, path, { query: { versionid } }), 202);
    assert.deepEqual(await past(versioned, "demoted"), ["demoted deleted version"]);
    await undelete(versioned, path);
    assert.deepEqual(await past(versioned, "demoted"), ["demoted version"]);
    b.assertReply(await b.getBlob(versioned, path), 404, "BlobNotFound");
    assert.equal(await text(versioned, path, { versionid }), "one");
  });

  test("takes no condition, no snapshot and no version; a lease id that is sent must be right", async () => {
    const path = `/${BOX}/strict`;
    const { headers } = await b.putBlob(soft, path, "one");
    const snapshot = await b.takeSnapshot(soft, path);
    const call = (more: b.BlobCall) => b.putComp(soft, path, "undelete", more);
    b.assertReply(await call({ headers: { "if-match": String(headers.etag) } }), 400);
    b.assertReply(await call({ query: { snapshot } }), 400);
    b.assertReply(await call({ query: { versionid: snapshot } }), 400);
    const wrong = { "x-ms-lease-id": "3f2504e0-4f89-11d3-9a0c-0305e82c3301" };
    b.assertReply(await call({ headers: wrong }), 412);
  });

  test("through the SDK: a deleted blob shows its time, and no lease", async () => {
    const container = b.containerClient(soft, BOX);
    const blob = container.getBlockBlobClient("sdk");
    await blob.upload("one", 3);
    await blob.delete();
    for await (const item of container.listBlobsFlat({ prefix: "sdk", includeDeleted: true })) {
      assert.equal(item.deleted, true);
      assert.ok(Math.abs((item.properties.deletedOn?.getTime() ?? 0) - Date.now()) < 60_000);
      assert.equal(item.properties.remainingRetentionDays, 6);
      assert.equal(item.properties.leaseState, undefined);
      assert.equal(item.properties.leaseStatus, undefined);
    }
    await blob.undelete();
    assert.equal((await blob.downloadToBuffer()).toString(), "one");
  });
});

suite("what is deleted", () => {
  const TAGS = "<Tags><TagSet></TagSet></Tags>";
  const ID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";
  const put = (comp: string, headers: Fields = {}, body = ""): RawRequest => ({
    ...{ method: "PUT", query: { comp }, headers, body },
  });
  const onBlob: [name: string, request: RawRequest][] = [
    ["Get Blob", { method: "GET" }],
    ["Get Blob Properties", { method: "HEAD" }],
    ["Get Blob Metadata", { method: "GET", query: { comp: "metadata" } }],
    ["Get Block List", { method: "GET", query: { comp: "blocklist" } }],
    ["Get Blob Tags", { method: "GET", query: { comp: "tags" } }],
    ["Set Blob Tags", put("tags", {}, TAGS)],
    ["Set Blob Metadata", put("metadata")],
    ["Set Blob Properties", put("properties")],
    ["Set Blob Tier", put("tier", { "x-ms-access-tier": "Cool" })],
    ["Set Blob Expiry", put("expiry", { "x-ms-expiry-option": "NeverExpire" })],
    ["Snapshot Blob", put("snapshot")],
    ["Lease Blob", put("lease", { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" })],
    ["Lease Blob: break", put("lease", { "x-ms-lease-action": "break" })],
    ["Append Block", put("appendblock", {}, "more")],
    ["Delete Blob", { method: "DELETE" }],
    ["Delete Blob with If-Match", { method: "DELETE", headers: { "if-match": "*" } }],
    ["Get Blob with a lease id", { method: "GET", headers: { "x-ms-lease-id": ID } }],
  ];
  before(async () => {
    await b.putBlob(soft, `/${BOX}/dead`, "one");
    b.assertReply(await b.deleteBlob(soft, `/${BOX}/dead`), 202);
  });
  for (const [name, request] of onBlob) {
    test(`${name}: 404`, async () => {
      const reply = await send(soft, { ...request, path: `/${BOX}/dead` });
      b.assertReply(reply, 404, "BlobNotFound");
      assert.deepEqual(await past(soft, "dead"), ["dead deleted"]);
    });
  }

  const onPast: [name: string, request: RawRequest][] = onBlob.filter(([name]) =>
    [
      "Get Blob",
      "Get Blob Properties",
      "Get Blob Metadata",
      "Get Blob Tags",
      "Set Blob Tier",
      "Delete Blob",
    ].includes(name),
  );
  for (const [name, request] of onPast) {
    test(`${name} of a deleted snapshot or version: 404`, async () => {
      const path = `/${BOX}/dead-past`;
      const first = String((await b.putBlob(versioned, path, "one")).headers["x-ms-version-id"]);
      const snapshot = await b.takeSnapshot(versioned, path);
      for (const query of [{ versionid: first }, { snapshot }]) {
        b.assertReply(await b.deleteBlob(versioned, path, { query }), 202);
        const all = { ...request.query, ...query };
        b.assertReply(await send(versioned, { ...request, path, query: all }), 404, "BlobNotFound");
      }
    });
  }

  test("is no source of a copy", async () => {
    const headers = { "x-ms-copy-source": `${soft.url}/${BOX}/dead` };
    const reply = await send(soft, { method: "PUT", path: `/${BOX}/from-dead`, headers });
    assert.equal(reply.status, 404, reply.text);
  });
});

suite("deletetype=permanent", () => {
  const permanent = { deletetype: "permanent" };
  const remove = (server: TestServer, path: string, query: Fields) =>
    b.deleteBlob(server, path, { query: { ...permanent, ...query } });

  test("needs an account that allows it, and a snapshot or version that is deleted", async () => {
    const path = `/${BOX}/for-good`;
    const first = String((await b.putBlob(versioned, path, "one")).headers["x-ms-version-id"]);
    const snapshot = await b.takeSnapshot(versioned, path);
    await b.putBlob(versioned, path, "two");
    const kinds = [{ versionid: first }, { snapshot }];
    for (const query of kinds) b.assertReply(await remove(versioned, path, query), 409);
    for (const query of kinds) b.assertReply(await b.deleteBlob(versioned, path, { query }), 202);
    for (const query of kinds) b.assertReply(await remove(versioned, path, query), 409);
    await keepDeleted(versioned, 7, true);
    try {
      const headers = { "if-match": '"0x1"' };
      for (const query of kinds) {
        const call = { query: { ...permanent, ...query }, headers };
        b.assertReply(await b.deleteBlob(versioned, path, call), 412, "ConditionNotMet");
        assert.equal(isPermanent(b.assertReply(await remove(versioned, path, query), 202)), "true");
        b.assertReply(await remove(versioned, path, query), 404, "BlobNotFound");
      }
      await undelete(versioned, path);
      for (const query of kinds) b.assertReply(await b.getBlob(versioned, path, { query }), 404);
      assert.ok(!(await past(versioned, "for-good")).some((words) => words.includes("deleted")));
    } finally {
      await keepDeleted(versioned, 7, false);
    }
  });

  test("is refused for the blob itself, deleted or not, and for what lives", async () => {
    const path = `/${BOX}/not-for-good`;
    await keepDeleted(soft, 7, true);
    await keepDeleted(versioned, 7, true);
    try {
      await b.putBlob(soft, path, "one");
      const snapshot = await b.takeSnapshot(soft, path);
      b.assertReply(await remove(soft, path, {}), 409);
      b.assertReply(await remove(soft, path, { snapshot }), 409);
      b.assertReply(await b.deleteBlob(soft, path, include), 202);
      const gone = await remove(soft, path, {});
      assert.ok([404, 409].includes(gone.status), gone.text);
      await undelete(soft, path);
      assert.equal(await text(soft, path), "one");
      assert.equal(await text(soft, path, { snapshot }), "one");
      const id = String((await b.putBlob(versioned, path, "one")).headers["x-ms-version-id"]);
      const current = await remove(versioned, path, { versionid: id });
      assert.ok([403, 409].includes(current.status), current.text);
      assert.equal(await text(versioned, path), "one");
      const never = { snapshot: "2011-03-09T01:42:34.9360000Z" };
      b.assertReply(await remove(soft, path, never), 404, "BlobNotFound");
    } finally {
      await keepDeleted(soft, 7, false);
      await keepDeleted(versioned, 7, false);
    }
  });

  test("another word is 400", async () => {
    const path = `/${BOX}/word`;
    await b.putBlob(soft, path, "one");
    for (const deletetype of ["soft", "", "permanently"]) {
      b.assertReply(await b.deleteBlob(soft, path, { query: { deletetype } }), 400);
    }
    b.assertReply(await b.getBlob(soft, path), 200);
  });
});

suite("DeleteRetentionPolicy", () => {
  test("comes back as it was set, and refuses what is none", async () => {
    const query = { restype: "service", comp: "properties" };
    await keepDeleted(soft, 7, true);
    const { text: xml } = await send(soft, { method: "GET", path: "/", query });
    assert.match(
      xml,
      /<DeleteRetentionPolicy>.*<Enabled>true<.*<Days>7<.*<\/DeleteRetentionPolicy>/s,
    );
    assert.match(xml, /<AllowPermanentDelete>true</);
    await keepDeleted(soft, 7);
    for (const policy of [
      "<Enabled>true</Enabled>",
      "<Enabled>true</Enabled><Days>0</Days>",
      "<Enabled>true</Enabled><Days>366</Days>",
      "<Enabled>true</Enabled><Days>many</Days>",
      "<Enabled>perhaps</Enabled><Days>7</Days>",
      "<Days>7</Days>",
    ]) {
      const body = `<StorageServiceProperties><DeleteRetentionPolicy>${policy}</DeleteRetentionPolicy></StorageServiceProperties>`;
      b.assertReply(
        await send(soft, { method: "PUT", path: "/", query, body }),
        400,
        undefined,
        policy,
      );
    }
  });
});
