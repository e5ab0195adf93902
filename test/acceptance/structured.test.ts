import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import {
  assertReply,
  bytes,
  crc64,
  createContainer,
  getBlob,
  putBlob,
  tryPutBlock,
} from "./blobs.ts";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
before(async () => {
  server = await startServer();
  await createContainer(server, "framed");
});
after(() => server.stop());

const FORM = "XSM/1.0; properties=crc64";

/** A message of one segment. */
function message(content: Buffer, changes: { segmentSum?: string; sum?: string } = {}): Buffer {
  const head = Buffer.alloc(23);
  head[0] = 1;
  head.writeBigUInt64LE(BigInt(content.length + 39), 1);
  head.writeUInt16LE(1, 9);
  head.writeUInt16LE(1, 11);
  head.writeUInt16LE(1, 13);
  head.writeBigUInt64LE(BigInt(content.length), 15);
  const sums = [changes.segmentSum, changes.sum].map((sum) =>
    Buffer.from(sum ?? crc64(content), "base64"),
  );
  return Buffer.concat([head, content, ...sums]);
}

const headers = (size: number, more: Record<string, string> = {}) => ({
  "x-ms-structured-body": FORM,
  "x-ms-structured-content-length": String(size),
  ...more,
});

const put = (path: string, body: Buffer, more: Record<string, string>) =>
  send(server, { method: "PUT", path, headers: { "x-ms-blob-type": "BlockBlob", ...more }, body });

test("structured messages: the SDK uploads and downloads with checksums", async () => {
  const client = BlobServiceClient.fromConnectionString(server.connectionString);
  const blob = client.getContainerClient("framed").getBlockBlobClient("sdk");
  for (const size of [1, 1000, 100_000, 9_000_000]) {
    const content = bytes(size);
    const reply = await blob.upload(content, size, { contentChecksumAlgorithm: "StorageCrc64" });
    assert.equal(reply.structuredBodyType, FORM);
    const whole = await blob.download(0, undefined, { contentChecksumAlgorithm: "StorageCrc64" });
    const parts: Buffer[] = [];
    for await (const part of whole.readableStreamBody ?? []) parts.push(Buffer.from(part));
    assert.ok(Buffer.concat(parts).equals(content), `${size} bytes`);
    if (size < 10) continue;
    const some = await blob.downloadToBuffer(5, size - 7, {
      contentChecksumAlgorithm: "StorageCrc64",
    });
    assert.ok(some.equals(content.subarray(5, size - 2)));
  }
  const large = bytes(5_000_000);
  await blob.uploadData(large, {
    contentChecksumAlgorithm: "StorageCrc64",
    maxSingleShotSize: 1_000_000,
    blockSize: 1_000_000,
  });
  assert.ok((await blob.downloadToBuffer()).equals(large));
});

test("structured messages: a wrong sum stores nothing, in memory or on the disk", async () => {
  const zero = Buffer.alloc(8).toString("base64");
  for (const size of [10, 60_000, 3_000_000]) {
    const content = bytes(size);
    for (const changes of [{ sum: zero }, { segmentSum: zero }]) {
      const reply = await put("/framed/none", message(content, changes), headers(size));
      assertReply(reply, 400, "Crc64Mismatch");
    }
    const changed = message(content);
    changed[30] = (changed[30] ?? 0) ^ 1;
    assertReply(await put("/framed/none", changed, headers(size)), 400, "Crc64Mismatch");
    const block = { headers: headers(size), body: message(content, { sum: zero }) };
    assertReply(await tryPutBlock(server, "/framed/none", "AAAA", block), 400, "Crc64Mismatch");
    assertReply(await getBlob(server, "/framed/none"), 404);
  }
});

test("structured messages: uploads of no byte are checked too", async () => {
  const nothing = Buffer.alloc(0);
  const made = assertReply(await put("/framed/empty", message(nothing), headers(0)), 201);
  assert.equal(made.headers["x-ms-structured-body"], FORM);
  const wrong = message(nothing, { sum: "AAAAAAAAAAE=" });
  assertReply(await put("/framed/empty", wrong, headers(0)), 400, "Crc64Mismatch");
  const reply = assertReply(
    await getBlob(server, "/framed/empty", { headers: { "x-ms-structured-body": FORM } }),
    200,
  );
  assert.ok(reply.body.equals(message(nothing)));
});

test("structured messages: ranges are framed, with their own lengths", async () => {
  const content = bytes(200_000);
  await putBlob(server, "/framed/ranges", content);
  const ranges: [range: string | undefined, start: number, end: number][] = [
    [undefined, 0, 200_000],
    ["bytes=0-0", 0, 1],
    ["bytes=100-199", 100, 200],
    ["bytes=199999-", 199_999, 200_000],
  ];
  for (const [range, start, end] of ranges) {
    const more = range === undefined ? {} : { "x-ms-range": range };
    const reply = await getBlob(server, "/framed/ranges", {
      headers: { "x-ms-structured-body": FORM, ...more },
    });
    assertReply(reply, range === undefined ? 200 : 206);
    const part = content.subarray(start, end);
    assert.ok(reply.body.equals(message(part)), `${range}`);
    assert.equal(reply.headers["content-length"], String(part.length + 39));
    assert.equal(reply.headers["x-ms-structured-content-length"], String(part.length));
    assert.equal(reply.headers["x-ms-structured-body"], FORM);
    if (range !== undefined) {
      assert.equal(reply.headers["content-range"], `bytes ${start}-${end - 1}/200000`);
    }
  }
});

test("structured messages: what cannot be meant is refused", async () => {
  const content = Buffer.from("hello");
  const good = message(content);
  const cases: [what: string, body: Buffer, headers: Record<string, string>, code: string][] = [
    ["another form", good, headers(5, { "x-ms-structured-body": "XSM/2.0" }), "InvalidHeaderValue"],
    ["no length", good, { "x-ms-structured-body": FORM }, "MissingRequiredHeader"],
    [
      "a length that is none",
      good,
      { ...headers(5), "x-ms-structured-content-length": "-1" },
      "InvalidHeaderValue",
    ],
    ["another length", good, headers(4), "InvalidInput"],
    ["a body that is no message", content, headers(5), "InvalidInput"],
    ["an empty body", Buffer.alloc(0), headers(0), "InvalidInput"],
    ["more body than segments can explain", bytes(1_300_000), headers(5), "RequestBodyTooLarge"],
    ["more content than a blob may have", good, headers(6e12), "RequestBodyTooLarge"],
  ];
  for (const [what, body, given, code] of cases) {
    const reply = await put("/framed/refused", body, given);
    assert.equal(reply.code, code, what);
  }
  await putBlob(server, "/framed/there", "x");
  const elsewhere = {
    method: "HEAD",
    path: "/framed/there",
    headers: { "x-ms-structured-body": FORM },
  };
  assertReply(await send(server, elsewhere), 400, "UnsupportedHeader");
});

test("structured messages: appends and pages take them too", async () => {
  const content = bytes(512);
  const kinds: [type: string, comp: string, headers: Record<string, string>][] = [
    ["AppendBlob", "appendblock", {}],
    ["PageBlob", "page", { "x-ms-page-write": "update", "x-ms-range": "bytes=0-511" }],
  ];
  for (const [type, comp, more] of kinds) {
    const path = `/framed/${comp}`;
    const made = { "x-ms-blob-type": type, "x-ms-blob-content-length": "512" };
    const { "x-ms-blob-content-length": _size, ...plain } = made;
    const create = type === "PageBlob" ? made : plain;
    assertReply(await send(server, { method: "PUT", path, headers: create }), 201);
    const write = { method: "PUT", path, query: { comp } };
    const wrong = message(content, { sum: "AAAAAAAAAAE=" });
    const refused = await send(server, { ...write, headers: headers(512, more), body: wrong });
    assertReply(refused, 400, "Crc64Mismatch");
    const body = message(content);
    const taken = await send(server, { ...write, headers: headers(512, more), body });
    assert.equal(assertReply(taken, 201).headers["x-ms-structured-body"], FORM);
    assert.ok((await getBlob(server, path)).body.equals(content), type);
  }
});
