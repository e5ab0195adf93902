import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import { BlobSASPermissions } from "@azure/storage-blob";
import * as b from "./blobs.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
const MIB = 1024 * 1024;
const digits = "0123456789";
const large = b.bytes(5 * MIB);

before(async () => {
  server = await startServer();
  await b.createContainer(server, "reads");
  await b.createContainer(server, "$root");
  await b.putBlob(server, "/reads/digits", digits);
  await b.putBlob(server, "/reads/empty", "");
  await b.putBlob(server, "/reads/large", large);
});
after(() => server.stop());

const md5 = (data: Buffer | string) => createHash("md5").update(data).digest("base64");

// SEMANTICS c.12; the blob holds 0123456789.
type RangeRow = [
  headers: Record<string, string>,
  status: number,
  text?: string | undefined,
  range?: string,
];
const ranges: RangeRow[] = [
  [{ range: "bytes=0-0" }, 206, "0", "bytes 0-0/10"],
  [{ range: "bytes=3-5" }, 206, "345", "bytes 3-5/10"],
  [{ range: "bytes=9-9" }, 206, "9", "bytes 9-9/10"],
  [{ range: "bytes=0-9" }, 206, digits, "bytes 0-9/10"],
  [{ range: "bytes=0-" }, 206, digits, "bytes 0-9/10"],
  [{ range: "bytes=5-" }, 206, "56789", "bytes 5-9/10"],
  [{ range: "bytes=8-99" }, 206, "89", "bytes 8-9/10"],
  [{ "x-ms-range": "bytes=1-2" }, 206, "12", "bytes 1-2/10"],
  [{ range: "bytes=0-1", "x-ms-range": "bytes=2-3" }, 206, "23", "bytes 2-3/10"],
  [{ range: "bytes=10-" }, 416, undefined, "bytes */10"],
  [{ range: "bytes=10-20" }, 416, undefined, "bytes */10"],
  [{ "x-ms-range": "bytes=99-" }, 416, undefined, "bytes */10"],
  [{ range: "bytes=-3" }, 200, digits],
  [{ range: "bytes=0-1,3-4" }, 200, digits],
  [{ range: "bytes=a-b" }, 200, digits],
  [{ range: "items=0-1" }, 200, digits],
];
for (const [headers, status, text, range] of ranges) {
  test(`Get Blob: ${JSON.stringify(headers)} gives ${status} ${text ?? ""}`, async () => {
    const reply = await b.getBlob(server, "/reads/digits", { headers });
    b.assertReply(reply, status, status === 416 ? "InvalidRange" : undefined);
    assert.equal(reply.headers["content-range"], range);
    if (text === undefined) return;
    assert.equal(reply.text, text);
    assert.equal(reply.headers["content-length"], String(text.length));
    assert.equal(reply.headers["accept-ranges"], "bytes");
    const [own, whole] = status === 206 ? [undefined, md5(digits)] : [md5(digits), undefined];
    assert.equal(reply.headers["content-md5"], own);
    if (whole !== undefined) assert.equal(reply.headers["x-ms-blob-content-md5"], whole);
  });
}

test("Get Blob: a range of an empty blob gives 416", async () => {
  const headers = { range: "bytes=0-10" };
  b.assertReply(await b.getBlob(server, "/reads/empty", { headers }), 416, "InvalidRange");
});

test("Get Blob: the first byte of an empty blob is the whole of it, and no Content-Range tells of it", async () => {
  const headers = { range: "bytes=0-0" };
  const reply = b.assertReply(await b.getBlob(server, "/reads/empty", { headers }), 200);
  assert.deepEqual([reply.text, reply.headers["content-range"]], ["", undefined]);
});

test("Get Blob: ranges of 5 MiB are the bytes of that place", async () => {
  for (const [from, to] of [
    [0, 0],
    [65_535, 65_536],
    [MIB - 1, 3 * MIB],
    [5 * MIB - 1, 5 * MIB - 1],
    [4 * MIB + 1, 5 * MIB - 1],
  ] as const) {
    const headers = { "x-ms-range": `bytes=${from}-${to}` };
    const reply = b.assertReply(await b.getBlob(server, "/reads/large", { headers }), 206);
    assert.ok(reply.body.equals(large.subarray(from, to + 1)), `${from}-${to}`);
  }
});

const hashed: [what: string, headers: Record<string, string>, status: number][] = [
  ["md5 of a range", { "x-ms-range-get-content-md5": "true", range: "bytes=2-4" }, 206],
  ["md5 of 4 MiB", { "x-ms-range-get-content-md5": "true", range: "bytes=1-4194304" }, 206],
  ["crc64 of a range", { "x-ms-range-get-content-crc64": "true", range: "bytes=2-4" }, 206],
  ["md5 without a range", { "x-ms-range-get-content-md5": "true" }, 400],
  ["crc64 without a range", { "x-ms-range-get-content-crc64": "true" }, 400],
  ["md5 of over 4 MiB", { "x-ms-range-get-content-md5": "true", range: "bytes=0-4194304" }, 400],
  ["crc64 of over 4 MiB", { "x-ms-range-get-content-crc64": "true", range: "bytes=0-" }, 400],
  [
    "md5 and crc64",
    {
      "x-ms-range-get-content-md5": "true",
      "x-ms-range-get-content-crc64": "true",
      range: "bytes=2-4",
    },
    400,
  ],
];
for (const [what, headers, status] of hashed) {
  test(`Get Blob: ${what} gives ${status}`, async () => {
    const reply = b.assertReply(await b.getBlob(server, "/reads/large", { headers }), status);
    if (status !== 206) return;
    const crc = what.startsWith("crc64");
    assert.equal(reply.headers["content-md5"], crc ? undefined : md5(reply.body));
    if (crc) assert.equal(reply.headers["x-ms-content-crc64"], b.crc64(reply.body));
    assert.equal(reply.headers["x-ms-blob-content-md5"], md5(large));
  });
}

test("Get Blob, Get Blob Properties: a missing blob or container gives 404", async () => {
  for (const [path, code] of [
    ["/reads/none", "BlobNotFound"],
    ["/no-such/none", "ContainerNotFound"],
  ] as const) {
    b.assertReply(await b.getBlob(server, path), 404, code);
    const head = b.assertReply(await b.headBlob(server, path), 404, code);
    assert.deepEqual([head.text, head.headers["content-type"]], ["", undefined]);
  }
});

test("Get Blob, Get Blob Properties: both give every property of the blob", async () => {
  const put = await b.putBlob(server, "/reads/props", "data", {
    "x-ms-blob-content-type": "text/plain",
    "x-ms-blob-content-encoding": "identity",
    "x-ms-blob-content-language": "en",
    "x-ms-blob-content-disposition": "inline",
    "x-ms-blob-cache-control": "no-cache",
    "x-ms-meta-one": "1",
    "x-ms-meta-two": "2",
    "x-ms-tags": "a=1",
  });
  const want = {
    etag: put.headers.etag,
    "last-modified": put.headers["last-modified"],
    "content-length": "4",
    "content-type": "text/plain",
    "content-encoding": "identity",
    "content-language": "en",
    "content-disposition": "inline",
    "cache-control": "no-cache",
    "content-md5": md5("data"),
    "accept-ranges": "bytes",
    "x-ms-blob-type": "BlockBlob",
    "x-ms-lease-state": "available",
    "x-ms-lease-status": "unlocked",
    "x-ms-lease-duration": undefined,
    "x-ms-server-encrypted": "true",
    "x-ms-meta-one": "1",
    "x-ms-meta-two": "2",
    "x-ms-tag-count": "1",
    "x-ms-copy-id": undefined,
    "x-ms-blob-sequence-number": undefined,
  };
  const get = b.assertReply(await b.getBlob(server, "/reads/props"), 200);
  const head = b.assertReply(await b.headBlob(server, "/reads/props"), 200);
  assert.equal(head.body.length, 0);
  for (const reply of [get, head]) {
    for (const [name, value] of Object.entries(want)) {
      assert.equal(reply.headers[name], value, name);
    }
    assert.equal(reply.headers["x-ms-creation-time"], put.headers["last-modified"]);
    assert.ok(reply.headers["x-ms-request-id"], "x-ms-request-id");
    assert.ok(reply.headers["x-ms-version"], "x-ms-version");
    assert.ok(reply.headers.date, "date");
  }
  assert.equal(head.headers["x-ms-access-tier"], "Hot");
  assert.equal(head.headers["x-ms-access-tier-inferred"], "true");
});

const six = ["type", "encoding", "language", "disposition"].map((name) => `content-${name}`);
six.push("cache-control", "content-md5");
const filled = Object.fromEntries(
  six.map((name) => [`x-ms-blob-${name}`, name === "content-md5" ? md5("any") : `my-${name}`]),
);

test("Set Blob Properties: one header replaces all six, none clears them; the rest stays", async () => {
  const path = "/reads/six";
  const put = await b.putBlob(server, path, "data", { "x-ms-meta-a": "1" });
  const set = await b.putComp(server, path, "properties", { headers: filled });
  b.assertReply(set, 200);
  assert.notEqual(set.headers.etag, put.headers.etag);
  const first = await b.headBlob(server, path);
  assert.equal(first.headers.etag, set.headers.etag);
  assert.equal(first.headers["x-ms-meta-a"], "1");
  for (const name of six) assert.equal(first.headers[name], filled[`x-ms-blob-${name}`], name);

  const headers = { "x-ms-blob-content-language": "de" };
  b.assertReply(await b.putComp(server, path, "properties", { headers }), 200);
  const second = (await b.headBlob(server, path)).headers;
  assert.equal(second["content-language"], "de");
  for (const name of ["content-encoding", "content-disposition", "cache-control", "content-md5"]) {
    assert.equal(second[name], undefined, name);
  }
  assert.notEqual(second["content-type"], "my-content-type");

  b.assertReply(await b.putComp(server, path, "properties", { headers: filled }), 200);
  b.assertReply(await b.putComp(server, path, "properties"), 200);
  const third = await b.getBlob(server, path);
  for (const name of six.slice(1)) assert.equal(third.headers[name], undefined, name);
  assert.notEqual(third.headers["content-type"], "my-content-type");
  assert.deepEqual([third.text, third.headers["x-ms-meta-a"]], ["data", "1"]);
});

test("Set Blob Metadata, Get Blob Metadata: all names are replaced, none clears them", async () => {
  const path = "/reads/meta";
  const put = await b.putBlob(server, path, "data", {
    "x-ms-meta-a": "1",
    "x-ms-blob-content-type": "text/plain",
  });
  const headers = { "x-ms-meta-b": "2", "x-ms-meta-c": "3" };
  const set = b.assertReply(await b.putComp(server, path, "metadata", { headers }), 200);
  assert.notEqual(set.headers.etag, put.headers.etag);
  for (const read of [b.getBlob, b.headBlob]) {
    const reply = b.assertReply(await read(server, path, { query: { comp: "metadata" } }), 200);
    const names = Object.keys(reply.headers).filter((name) => name.startsWith("x-ms-meta-"));
    assert.deepEqual(new Set(names), new Set(["x-ms-meta-b", "x-ms-meta-c"]));
    assert.equal(reply.headers.etag, set.headers.etag);
    assert.equal(reply.text, "");
  }
  assert.equal((await b.headBlob(server, path)).headers["content-type"], "text/plain");
  b.assertReply(await b.putComp(server, path, "metadata"), 200);
  const bare = await b.getBlob(server, path);
  assert.deepEqual([bare.text, bare.headers["x-ms-meta-b"]], ["data", undefined]);
  const bad = { "x-ms-meta-1a": "x" };
  b.assertReply(
    await b.putComp(server, path, "metadata", { headers: bad }),
    400,
    "InvalidMetadata",
  );
});

test("Set Blob Properties, Set Blob Metadata, Set Blob Tier, Delete Blob: a missing blob gives 404", async () => {
  const headers = { "x-ms-access-tier": "Cool" };
  for (const comp of ["properties", "metadata", "tier"]) {
    b.assertReply(await b.putComp(server, "/reads/none", comp, { headers }), 404, "BlobNotFound");
  }
  b.assertReply(await b.deleteBlob(server, "/reads/none"), 404, "BlobNotFound");
  b.assertReply(await b.deleteBlob(server, "/no-such/none"), 404, "ContainerNotFound");
});

test("Delete Blob: it is gone at once, for good, and may be made anew", async () => {
  const path = "/reads/deleted";
  const old = await b.putBlob(server, path, "old", { "x-ms-meta-a": "1" });
  const reply = b.assertReply(await b.deleteBlob(server, path), 202);
  assert.equal(reply.headers["x-ms-delete-type-permanent"], "true");
  b.assertReply(await b.getBlob(server, path), 404, "BlobNotFound");
  b.assertReply(await b.headBlob(server, path), 404, "BlobNotFound");
  b.assertReply(await b.deleteBlob(server, path), 404, "BlobNotFound");
  await b.putBlob(server, path, "new");
  const { text, headers } = await b.getBlob(server, path);
  assert.deepEqual([text, headers["x-ms-meta-a"]], ["new", undefined]);
  assert.notEqual(headers.etag, old.headers.etag);
});

const setTier = (path: string, tier: string) =>
  b.putComp(server, path, "tier", { headers: { "x-ms-access-tier": tier } });

for (const tier of ["Hot", "Cool", "Cold", "Archive"]) {
  test(`Set Blob Tier, Put Blob: ${tier} is kept, and is no longer inferred`, async () => {
    const put = await b.putBlob(server, `/reads/put-${tier}`, "x", { "x-ms-access-tier": tier });
    const plain = await b.putBlob(server, `/reads/set-${tier}`, "x");
    b.assertReply(await setTier(`/reads/set-${tier}`, tier), 200);
    for (const [path, etag] of [
      [`/reads/put-${tier}`, put.headers.etag],
      [`/reads/set-${tier}`, plain.headers.etag],
    ] as const) {
      const { headers } = b.assertReply(await b.headBlob(server, path), 200);
      assert.deepEqual([headers["x-ms-access-tier"], headers.etag], [tier, etag]);
      assert.notEqual(headers["x-ms-access-tier-inferred"], "true");
      assert.ok(headers["x-ms-access-tier-change-time"]);
    }
  });
}

test("Set Blob Tier: no tier and an unknown one give 400", async () => {
  b.assertReply(await b.putComp(server, "/reads/digits", "tier"), 400, "MissingRequiredHeader");
  b.assertReply(await setTier("/reads/digits", "Tepid"), 400);
});

test("Set Blob Tier: an archived blob is not read, nor written in blocks", async () => {
  const path = "/reads/archived";
  await b.putBlocks(server, path, [[1, "x"]]);
  b.assertReply(await setTier(path, "Archive"), 200);
  b.assertReply(await b.getBlob(server, path), 409, "BlobArchived");
  b.assertReply(await b.putComp(server, path, "snapshot"), 409, "BlobArchived");
  const block = await b.tryPutBlock(server, path, b.blockId(2), { body: "y" });
  b.assertReply(block, 409, "BlobArchived");
  b.assertReply(await b.tryPutBlockList(server, path, [["Latest", 1]]), 409, "BlobArchived");
  b.assertReply(await b.headBlob(server, path), 200);
  b.assertReply(await setTier(path, "Archive"), 200);
  b.assertReply(await b.deleteBlob(server, path), 202);
});

test("Set Blob Tier: an archived blob is rehydrated to one tier only (SEMANTICS c.13)", async () => {
  for (const [to, other] of [
    ["Hot", "Cool"],
    ["Cool", "Hot"],
  ] as const) {
    const path = `/reads/rehydrated-${to}`;
    await b.putBlob(server, path, "x", { "x-ms-access-tier": "Archive" });
    b.assertReply(await setTier(path, to), 202);
    const { headers } = await b.headBlob(server, path);
    assert.equal(headers["x-ms-archive-status"], `rehydrate-pending-to-${to.toLowerCase()}`);
    b.assertReply(await setTier(path, to), 202);
    b.assertReply(await setTier(path, other), 409, "BlobBeingRehydrated");
    b.assertReply(await setTier(path, "Archive"), 409, "BlobBeingRehydrated");
  }
});

test("$root: a blob is reached with and without the container's name", async () => {
  await b.putBlob(server, "/at-root.txt", "root");
  assert.equal((await b.getBlob(server, "/$root/at-root.txt")).text, "root");
  assert.equal((await b.getBlob(server, "/at-root.txt")).text, "root");
  assert.equal((await b.headBlob(server, "/at-root.txt")).headers["content-length"], "4");
  const headers = { "x-ms-meta-a": "1" };
  b.assertReply(await b.putComp(server, "/at-root.txt", "metadata", { headers }), 200);
  assert.equal((await b.headBlob(server, "/$root/at-root.txt")).headers["x-ms-meta-a"], "1");
  b.assertReply(await b.deleteBlob(server, "/at-root.txt"), 202);
  b.assertReply(await b.getBlob(server, "/$root/at-root.txt"), 404, "BlobNotFound");
});

const names = [
  "ü/日本語/😀",
  "a b",
  " a",
  "100%",
  "a%20b",
  "a+b",
  "a?b=c",
  "a#b",
  "end.",
  "end...",
];
names.push("a//b", "a/b", "/a", "a/", "it's \"&<>", "(a)*!~", "\u00e9", "e\u0301", "A B");
for (const [index, name] of names.entries()) {
  test(`Put Blob: the name ${JSON.stringify(name)} is kept as it is`, async () => {
    await b.putBlob(server, `/reads/names/${name}`, `${index}`);
    assert.equal((await b.getBlob(server, `/reads/names/${name}`)).text, `${index}`);
    const container = b.containerClient(server, "reads");
    const viaSdk = await container.getBlobClient(`names/${name}`).downloadToBuffer();
    assert.equal(viaSdk.toString(), `${index}`);
  });
}

test("Put Blob: a backslash in a name is a slash, to the SDK's signatures too", async () => {
  const blob = b.containerClient(server, "reads").getBlockBlobClient("windows\\a\\b.txt");
  await blob.upload("path", 4);
  assert.equal((await b.getBlob(server, "/reads/windows/a/b.txt")).text, "path");
  const listed = await b
    .containerClient(server, "reads")
    .listBlobsFlat({ prefix: "windows" })
    .next();
  assert.equal(listed.value?.name, "windows/a/b.txt");
  const permissions = BlobSASPermissions.parse("r");
  const url = await blob.generateSasUrl({ permissions, expiresOn: new Date(Date.now() + 600_000) });
  assert.equal(await (await fetch(url)).text(), "path");
  const copy = b.containerClient(server, "reads").getBlobClient("windows-copy");
  await (await copy.beginCopyFromURL(blob.url)).pollUntilDone();
  assert.equal(String(await copy.downloadToBuffer()), "path");
});

test("Put Blob: no two of these names are the same blob", async () => {
  const listed: string[] = [];
  const container = b.containerClient(server, "reads");
  for await (const blob of container.listBlobsFlat({ prefix: "names/" })) listed.push(blob.name);
  assert.equal(listed.length, names.length);
  assert.deepEqual(new Set(listed), new Set(names.map((name) => `names/${name}`)));
  for (const [index, name] of names.entries()) {
    assert.equal((await b.getBlob(server, `/reads/names/${name}`)).text, `${index}`, name);
  }
});
