import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import * as b from "./blobs.ts";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
before(async () => {
  server = await startServer();
  await b.createContainer(server, "blocks");
});
after(() => server.stop());

const KIB = 1024;
const MIB = 1024 * KIB;
const md5 = (data: Buffer | string) => createHash("md5").update(data).digest("base64");

async function contentOf(path: string): Promise<string> {
  return b.assertReply(await b.getBlob(server, path), 200).text;
}

async function blockListOf(path: string, type?: string) {
  const query = { comp: "blocklist", ...(type === undefined ? {} : { blocklisttype: type }) };
  const reply = b.assertReply(await b.getBlob(server, path, { query }), 200);
  const blocks = (element: string) => {
    const inner = new RegExp(`<${element}>(.*?)</${element}>|<${element} ?/>`, "s").exec(
      reply.text,
    );
    if (inner === null) return undefined;
    const sizes = b.texts(inner[1] ?? "", "Size");
    return b.texts(inner[1] ?? "", "Name").map((name, index) => [name, Number(sizes[index])]);
  };
  const committed = blocks("CommittedBlocks");
  return { committed, uncommitted: blocks("UncommittedBlocks"), headers: reply.headers };
}

for (const size of [0, 1, KIB, 64 * KIB, 64 * KIB + 1, 300 * KIB, 5 * MIB]) {
  test(`Put Blob: ${size} bytes come back as they went in, with both checksums`, async () => {
    const path = `/blocks/size-${size}`;
    const data = b.bytes(size);
    const put = await b.putBlob(server, path, data);
    assert.match(String(put.headers.etag), /^"0x[0-9A-F]+"$/);
    assert.equal(put.headers["content-md5"], md5(data));
    assert.equal(put.headers["x-ms-content-crc64"], b.crc64(data));
    assert.equal(put.headers["x-ms-request-server-encrypted"], "true");
    const get = b.assertReply(await b.getBlob(server, path), 200);
    assert.ok(get.body.equals(data), "the bytes differ");
    assert.equal(get.headers["content-length"], String(size));
    assert.equal(get.headers["content-md5"], md5(data));
    assert.equal(get.headers.etag, put.headers.etag);
    assert.equal(get.headers["last-modified"], put.headers["last-modified"]);
    assert.ok((await sdk("blocks", `size-${size}`).downloadToBuffer()).equals(data));
  });
}

test("Put Block List: the reply names the CRC64 of the list, or its MD5 where one was sent", async () => {
  const path = "/blocks/list-sums";
  const body = "<BlockList></BlockList>";
  const put = async (headers: Record<string, string>) =>
    b.assertReply(
      await send(server, { method: "PUT", path, query: { comp: "blocklist" }, headers, body }),
      201,
    ).headers;
  const plain = await put({});
  assert.equal(plain["x-ms-content-crc64"], b.crc64(Buffer.from(body)));
  assert.equal(plain["content-md5"], undefined);
  const checked = await put({ "content-md5": md5(body) });
  assert.equal(checked["content-md5"], md5(body));
  assert.equal(checked["x-ms-content-crc64"], undefined);
});

const sdk = (container: string, blob: string) =>
  b.containerClient(server, container).getBlockBlobClient(blob);

// A standard header is stored; its x-ms-blob- counterpart beats it (SEMANTICS c.4).
const stored: [what: string, sent: Record<string, string>, header: string, want: unknown][] = [
  ["no type", {}, "content-type", "application/octet-stream"],
  ["Content-Type", { "content-type": "text/a" }, "content-type", "text/a"],
  ...["type", "encoding", "language"].flatMap((name): typeof stored => [
    [
      `x-ms-blob-content-${name}`,
      { [`x-ms-blob-content-${name}`]: "text" },
      `content-${name}`,
      "text",
    ],
    [`Content-${name}`, { [`content-${name}`]: "plain" }, `content-${name}`, "plain"],
    [
      `both of content-${name}`,
      { [`content-${name}`]: "plain", [`x-ms-blob-content-${name}`]: "ours" },
      `content-${name}`,
      "ours",
    ],
  ]),
  ["x-ms-blob-cache-control", { "x-ms-blob-cache-control": "a=1" }, "cache-control", "a=1"],
  ["Cache-Control", { "cache-control": "max-age=1" }, "cache-control", "max-age=1"],
  [
    "x-ms-blob-content-disposition",
    { "x-ms-blob-content-disposition": 'attachment; filename="x"' },
    "content-disposition",
    'attachment; filename="x"',
  ],
  ["no encoding", {}, "content-encoding", undefined],
  ["metadata", { "x-ms-meta-colour": "Blue & red" }, "x-ms-meta-colour", "Blue & red"],
  ["tags", { "x-ms-tags": "a=1&b=two%20words" }, "x-ms-tag-count", "2"],
  ["no tags", {}, "x-ms-tag-count", undefined],
];
for (const [what, sent, header, want] of stored) {
  test(`Put Blob: ${what} gives ${header} ${want} on reads`, async () => {
    await b.putBlob(server, "/blocks/stored", "x", sent);
    assert.equal((await b.getBlob(server, "/blocks/stored")).headers[header], want);
    assert.equal((await b.headBlob(server, "/blocks/stored")).headers[header], want);
  });
}

const body = "123456789";
const other = md5("other");
const checks: [what: string, headers: Record<string, string>, status: number, code?: string][] = [
  ["a right Content-MD5", { "content-md5": md5(body) }, 201],
  ["a wrong Content-MD5", { "content-md5": other }, 400, "Md5Mismatch"],
  ["a Content-MD5 of 3 bytes", { "content-md5": "YWJj" }, 400, "InvalidMd5"],
  ["a right CRC64", { "x-ms-content-crc64": "iJh5CoYUi64=" }, 201],
  ["a wrong CRC64", { "x-ms-content-crc64": "AAAAAAAAAAA=" }, 400, "Crc64Mismatch"],
  ["a CRC64 of 3 bytes", { "x-ms-content-crc64": "YWJj" }, 400, "InvalidHeaderValue"],
  [
    "MD5 and CRC64 at once",
    { "content-md5": md5(body), "x-ms-content-crc64": "iJh5CoYUi64=" },
    400,
    "BothCrc64AndMd5HeaderPresent",
  ],
  ["a right x-ms-blob-content-md5", { "x-ms-blob-content-md5": md5(body) }, 201],
  ["a wrong x-ms-blob-content-md5", { "x-ms-blob-content-md5": other }, 400, "Md5Mismatch"],
  ["an x-ms-blob-content-md5 of 3 bytes", { "x-ms-blob-content-md5": "YWJj" }, 400, "InvalidMd5"],
  [
    "a right x-ms-blob-content-md5 over a wrong Content-MD5",
    { "x-ms-blob-content-md5": md5(body), "content-md5": other },
    201,
  ],
  ["an unknown blob type", { "x-ms-blob-type": "Blob" }, 400, "InvalidHeaderValue"],
  ["x-ms-blob-content-length", { "x-ms-blob-content-length": "9" }, 400],
  ["a metadata name that is no identifier", { "x-ms-meta-a-b": "1" }, 400, "InvalidMetadata"],
  ["an empty metadata name", { "x-ms-meta-": "1" }, 400, "EmptyMetadataKey"],
  ["9 KiB of metadata", { "x-ms-meta-a": "m".repeat(9 * KIB) }, 400, "MetadataTooLarge"],
  ["an unknown tier", { "x-ms-access-tier": "Tepid" }, 400],
];
for (const [index, [what, headers, status, code]] of checks.entries()) {
  test(`Put Blob: ${what} gives ${status} ${code ?? ""}`, async () => {
    const path = `/blocks/check-${index}`;
    b.assertReply(await b.tryPutBlob(server, path, body, headers), status, code);
    assert.equal((await b.headBlob(server, path)).status, status === 201 ? 200 : 404);
  });
}

test("Put Blob: a mismatch names both checksums", async () => {
  const reply = await b.tryPutBlob(server, "/blocks/named", body, { "content-md5": other });
  assert.deepEqual(b.texts(reply.text, "UserSpecifiedMd5"), [other]);
  assert.deepEqual(b.texts(reply.text, "ServerCalculatedMd5"), [md5(body)]);
});

test("Put Blob: no blob type, no container and a name too long are refused", async () => {
  const bare = await send(server, { method: "PUT", path: "/blocks/bare", body: "x" });
  b.assertReply(bare, 400, "MissingRequiredHeader");
  b.assertReply(await b.tryPutBlob(server, "/no-such/x", "x"), 404, "ContainerNotFound");
  await b.putBlob(server, `/blocks/${"n".repeat(1024)}`, "x");
  const long = await b.tryPutBlob(server, `/blocks/${"n".repeat(1025)}`, "x");
  b.assertReply(long, 400, "OutOfRangeInput");
});

test("Put Blob: an overwrite replaces metadata, headers and tags, and keeps lease and snapshots", async () => {
  const path = "/blocks/over";
  const first = await b.putBlob(server, path, "old", {
    "x-ms-meta-a": "1",
    "x-ms-tags": "t=1",
    "x-ms-blob-content-type": "text/plain",
    "x-ms-blob-cache-control": "no-store",
  });
  const snapshot = await b.takeSnapshot(server, path);
  await b.putBlock(server, path, 1, "uncommitted");
  const lease = await sdk("blocks", "over").getBlobLeaseClient().acquireLease(-1);
  const second = await b.putBlob(server, path, "new", { "x-ms-lease-id": String(lease.leaseId) });
  assert.notEqual(second.headers.etag, first.headers.etag);
  const { headers, text } = await b.getBlob(server, path);
  assert.equal(text, "new");
  assert.equal(headers["x-ms-lease-state"], "leased");
  assert.equal(headers["content-type"], "application/octet-stream");
  for (const name of ["x-ms-meta-a", "x-ms-tag-count", "cache-control"]) {
    assert.equal(headers[name], undefined, name);
  }
  assert.equal((await b.getBlob(server, path, { query: { snapshot } })).text, "old");
  assert.deepEqual((await blockListOf(path, "all")).uncommitted, []);
});

test("Put Block: changes nothing that can be read, and gives the checksum asked for", async () => {
  const path = "/blocks/staged";
  const put = await b.putBlob(server, path, "kept");
  const plain = await b.putBlock(server, path, 1, body);
  assert.equal(plain.headers["x-ms-content-crc64"], "iJh5CoYUi64=");
  assert.equal(plain.headers["content-md5"], undefined);
  const headers = { "content-md5": md5(body) };
  const checked = await b.tryPutBlock(server, path, b.blockId(2), { body, headers });
  assert.equal(b.assertReply(checked, 201).headers["content-md5"], md5(body));
  const get = await b.getBlob(server, path);
  assert.deepEqual([get.text, get.headers.etag], ["kept", put.headers.etag]);
});

const id8 = b.blockId(1);
const blockRows: [what: string, id: string, headers: Record<string, string>, code?: string][] = [
  ["a wrong MD5", id8, { "content-md5": other }, "Md5Mismatch"],
  ["a wrong CRC64", id8, { "x-ms-content-crc64": "AAAAAAAAAAA=" }, "Crc64Mismatch"],
  ["an id of another length", "YWI=", {}, "InvalidBlobOrBlock"],
  ["an id that is not Base64", "***", {}],
  ["an id of 65 bytes", Buffer.alloc(65, "i").toString("base64"), {}],
];
for (const [what, id, headers, code] of blockRows) {
  test(`Put Block: ${what} gives 400 ${code ?? ""}`, async () => {
    const path = "/blocks/refused";
    await b.putBlock(server, path, 9, "first");
    b.assertReply(await b.tryPutBlock(server, path, id, { body, headers }), 400, code);
    assert.deepEqual((await blockListOf(path, "all")).uncommitted, [[b.blockId(9), 5]]);
  });
}

test("Put Block: ids are of one length before they are encoded: the eleventh of 0, 1, … is refused", async () => {
  const put = (n: number) =>
    b.tryPutBlock(server, "/blocks/numbered", Buffer.from(String(n)).toString("base64"), { body });
  for (let n = 0; n < 10; n++) b.assertReply(await put(n), 201);
  b.assertReply(await put(10), 400, "InvalidBlobOrBlock");
});

test("Put Block: the blob is not there until its list is committed, and Delete Blob removes it", async () => {
  const path = "/blocks/unborn";
  await b.putBlock(server, path, 1, "a");
  b.assertReply(await b.getBlob(server, path), 404, "BlobNotFound");
  b.assertReply(await b.headBlob(server, path), 404, "BlobNotFound");
  const list = await blockListOf(path, "all");
  assert.deepEqual([list.committed, list.uncommitted], [[], [[b.blockId(1), 1]]]);
  assert.deepEqual([list.headers.etag, list.headers["x-ms-blob-content-length"]], [undefined, "0"]);
  b.assertReply(await b.deleteBlob(server, path), 202);
  const query = { comp: "blocklist", blocklisttype: "all" };
  b.assertReply(await b.getBlob(server, path, { query }), 404, "BlobNotFound");
});

test("Get Block List: shows the lists asked for, by default the committed one", async () => {
  const path = "/blocks/lists";
  const one = [[b.blockId(1), 3]];
  const two = [[b.blockId(2), 4]];
  const commit = await b.putBlocks(server, path, [[1, "one"]]);
  await b.putBlock(server, path, 2, "four");
  const rows: [type: string | undefined, committed: unknown, uncommitted: unknown][] = [
    [undefined, one, []],
    ["committed", one, []],
    ["uncommitted", [], two],
    ["all", one, two],
  ];
  for (const [type, committed, uncommitted] of rows) {
    const list = await blockListOf(path, type);
    assert.deepEqual(list.committed ?? [], committed, String(type));
    assert.deepEqual(list.uncommitted ?? [], uncommitted, String(type));
    assert.equal(list.headers.etag, commit.headers.etag);
    assert.equal(list.headers["x-ms-blob-content-length"], "3");
  }
  const bad = { comp: "blocklist", blocklisttype: "some" };
  b.assertReply(await b.getBlob(server, path, { query: bad }), 400, "InvalidQueryParameterValue");
  const missing = await b.getBlob(server, "/blocks/none", { query: { comp: "blocklist" } });
  b.assertReply(missing, 404, "BlobNotFound");
});

test("Get Block List: a blob of Put Blob has no blocks", async () => {
  await b.putBlob(server, "/blocks/whole", "whole");
  const list = await blockListOf("/blocks/whole", "all");
  assert.deepEqual([list.committed, list.uncommitted], [[], []]);
  assert.equal(list.headers["x-ms-blob-content-length"], "5");
});

// The blob holds a1 b1; a2 and c1 are uncommitted.
const commits: [list: string, want: string | undefined][] = [
  ["Uncommitted c, Committed a, Latest b", "c1a1b1"],
  ["Latest b, Latest a, Uncommitted c", "b1a2c1"],
  ["Committed b, Uncommitted a, Committed b", "b1a2b1"],
  ["Latest c", "c1"],
  ["", ""],
  ["Committed c", undefined],
  ["Uncommitted b", undefined],
  ["Latest a, Latest x", undefined],
];
const entriesOf = (list: string) =>
  [...list.matchAll(/(\w+) (\w)/g)].map((match) => match.slice(1) as unknown as b.Entry);

for (const [index, [words, want]] of commits.entries()) {
  test(`Put Block List: [${words}] gives ${want ?? "InvalidBlockList and no change"}`, async () => {
    const path = `/blocks/commit-${index}`;
    const list = entriesOf(words);
    await b.putBlocks(server, path, [
      ["a", "a1"],
      ["b", "b1"],
    ]);
    await b.putBlock(server, path, "a", "lost");
    await b.putBlock(server, path, "a", "a2");
    await b.putBlock(server, path, "c", "c1");
    const reply = await b.tryPutBlockList(server, path, list);
    if (want === undefined) {
      b.assertReply(reply, 400, "InvalidBlockList");
      assert.equal(await contentOf(path), "a1b1");
      assert.equal((await blockListOf(path, "all")).uncommitted?.length, 2);
      return;
    }
    b.assertReply(reply, 201);
    assert.equal(await contentOf(path), want);
    const { committed, uncommitted } = await blockListOf(path, "all");
    assert.deepEqual(
      committed,
      list.map(([, name]) => [b.blockId(name), 2]),
    );
    assert.deepEqual(uncommitted, []);
  });
}

test("Put Block List: replaces headers and metadata, and stores an MD5 unchecked", async () => {
  const path = "/blocks/replaced";
  const first = await b.putBlob(server, path, "x", { "x-ms-meta-a": "1", "x-ms-tags": "t=1" });
  await b.putBlock(server, path, 1, "one");
  const commit = await b.tryPutBlockList(server, path, [["Latest", 1]], {
    "x-ms-blob-content-type": "text/plain",
    "x-ms-blob-content-md5": other,
    "x-ms-meta-b": "2",
  });
  assert.notEqual(b.assertReply(commit, 201).headers.etag, first.headers.etag);
  const { headers } = await b.headBlob(server, path);
  assert.equal(headers.etag, commit.headers.etag);
  assert.deepEqual([headers["content-type"], headers["content-md5"]], ["text/plain", other]);
  assert.deepEqual([headers["x-ms-meta-a"], headers["x-ms-meta-b"]], [undefined, "2"]);
  assert.equal(headers["x-ms-tag-count"], undefined);
  const xml = { "content-type": "application/xml" };
  b.assertReply(await b.tryPutBlockList(server, path, [["Committed", 1]], xml), 201);
  const bare = (await b.headBlob(server, path)).headers;
  assert.equal(bare["content-type"], "application/octet-stream");
  assert.deepEqual([bare["content-md5"], bare["x-ms-meta-b"]], [undefined, undefined]);
});

test("Put Block List: bad bodies are refused", async () => {
  const path = "/blocks/bad-list";
  await b.putBlock(server, path, 1, "x");
  const json = await b.putComp(server, path, "blocklist", { body: '{"latest":[]}' });
  b.assertReply(json, 400, "InvalidXmlDocument");
  const sum = await b.tryPutBlockList(server, path, [["Latest", 1]], { "content-md5": other });
  b.assertReply(sum, 400, "Md5Mismatch");
  const many = Array.from({ length: 50_001 }, (): b.Entry => ["Latest", 1]);
  b.assertReply(await b.tryPutBlockList(server, path, many), 400, "BlockListTooLong");
  b.assertReply(await b.tryPutBlockList(server, "/no-such/x", []), 404, "ContainerNotFound");
  b.assertReply(await b.getBlob(server, path), 404, "BlobNotFound");
});

test("Put Block List: 1,000 blocks of many sizes read as one, also across their borders", async () => {
  const path = "/blocks/thousand";
  const parts = Array.from({ length: 1000 }, (_, i) =>
    b.bytes(i % 250 === 0 ? 70 * KIB : 1 + (i % 37), i + 1),
  );
  await b.atOnce(
    16,
    parts.map((part, i) => () => b.putBlock(server, path, i, part)),
  );
  const list = parts.map((_, i): b.Entry => ["Latest", i]);
  b.assertReply(await b.tryPutBlockList(server, path, list), 201);
  const whole = Buffer.concat(parts);
  assert.ok((await b.getBlob(server, path)).body.equals(whole));
  for (let start = 0; start < whole.length; start += 9_973) {
    for (const size of [1, 100, 80 * KIB]) {
      const end = Math.min(start + size, whole.length) - 1;
      const range = { range: `bytes=${start}-${end}` };
      const reply = b.assertReply(await b.getBlob(server, path, { headers: range }), 206);
      assert.ok(reply.body.equals(whole.subarray(start, end + 1)), `${start}-${end}`);
    }
  }
});

test("Put Block List: one block after another is appended by committing the list again", async () => {
  const client = sdk("blocks", "grown");
  const ids: string[] = [];
  let want = "";
  for (let count = 0; count < 5; count++) {
    const part = `part ${count};`;
    want += part;
    ids.push(b.blockId(count));
    await client.stageBlock(b.blockId(count), part, part.length);
    await client.commitBlockList(ids);
    assert.equal((await client.downloadToBuffer()).toString(), want);
  }
  const list = await client.getBlockList("all");
  assert.deepEqual(
    list.committedBlocks?.map((block) => block.name),
    ids,
  );
});

test("uploadData(): 5 MiB in parallel blocks, read back in parallel ranges", async () => {
  const data = b.bytes(5 * MIB + 7);
  const client = sdk("blocks", "parallel");
  const sizes = { blockSize: 512 * KIB, concurrency: 4 };
  await client.uploadData(data, { ...sizes, maxSingleShotSize: MIB });
  assert.ok((await client.downloadToBuffer(0, undefined, sizes)).equals(data));
  assert.equal((await client.getBlockList("committed")).committedBlocks?.length, 11);
});
