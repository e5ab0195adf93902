import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as b from "./blobs.ts";
import * as p from "./pages.ts";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
before(async () => {
  server = await startServer();
  await b.createContainer(server, "refused");
  await p.putPageBlob(server, "/refused/b", 8 * p.PAGE);
  await p.putPage(server, "/refused/b", 0, Buffer.alloc(p.PAGE, 1));
});
after(() => server.stop());

type Headers = Record<string, string>;

const MADE: Headers = { "x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "1024" };
const creations: [what: string, headers: Headers, want: string, body?: string][] = [
  [
    "a size that is not whole pages",
    { ...MADE, "x-ms-blob-content-length": "1000" },
    "400 InvalidHeaderValue",
  ],
  [
    "a size that is no number",
    { ...MADE, "x-ms-blob-content-length": "many" },
    "400 InvalidHeaderValue",
  ],
  ["a size below zero", { ...MADE, "x-ms-blob-content-length": "-512" }, "400 InvalidHeaderValue"],
  [
    "more than 8 TiB",
    { ...MADE, "x-ms-blob-content-length": "8796093022720" },
    "413 RequestBodyTooLarge",
  ],
  ["no size", { "x-ms-blob-type": "PageBlob" }, "400 MissingRequiredHeader"],
  ["a body", MADE, "400 InvalidHeaderValue", "text"],
  [
    "a sequence number below zero",
    { ...MADE, "x-ms-blob-sequence-number": "-1" },
    "400 InvalidHeaderValue",
  ],
  [
    "a sequence number of 64 bits",
    { ...MADE, "x-ms-blob-sequence-number": "9223372036854775808" },
    "400 InvalidHeaderValue",
  ],
  [
    "a tier of block blobs",
    { ...MADE, "x-ms-access-tier": "Cool" },
    "400 AccessTierNotSupportedForBlobType",
  ],
  [
    "a tier of premium accounts",
    { ...MADE, "x-ms-access-tier": "P10" },
    "409 BlobAccessTierNotSupportedForAccountType",
  ],
  ["a tier that there is not", { ...MADE, "x-ms-access-tier": "Warm" }, "400 InvalidHeaderValue"],
  ["an MD5 that is none", { ...MADE, "content-md5": "x" }, "400 InvalidMd5"],
  ["another blob type", { ...MADE, "x-ms-blob-type": "StoneBlob" }, "400 InvalidHeaderValue"],
  ["no blob type", { "x-ms-blob-content-length": "512" }, "400 MissingRequiredHeader"],
  [
    "a lease id without a lease",
    { ...MADE, "x-ms-lease-id": "3f2504e0-4f89-11d3-9a0c-0305e82c3301" },
    "412 LeaseNotPresentWithBlobOperation",
  ],
];
for (const [what, headers, want, body] of creations) {
  test(`Put Blob (page blob): ${what}: ${want}`, async () => {
    const request = { method: "PUT", path: "/refused/new", headers };
    const reply = await send(server, body === undefined ? request : { ...request, body });
    assert.equal(`${reply.status} ${reply.code}`, want, reply.text.slice(0, 300));
    b.assertReply(await b.headBlob(server, "/refused/new"), 404);
  });
}

const write = (range: string, more: Headers = {}): Headers => ({
  "x-ms-page-write": "update",
  "x-ms-range": range,
  ...more,
});
const erase = (range: string, more: Headers = {}): Headers => ({
  "x-ms-page-write": "clear",
  "x-ms-range": range,
  ...more,
});
const RANGE = "bytes=0-511";
const changes: [what: string, headers: Headers, size: number, want: string][] = [
  ["(update) a range off the pages", write("bytes=1-512"), 512, "416 InvalidPageRange"],
  ["(update) a range of half a page", write("bytes=0-255"), 256, "416 InvalidPageRange"],
  [
    "(update) a range that ends behind the blob",
    write("bytes=4096-4607"),
    512,
    "416 InvalidPageRange",
  ],
  [
    "(update) a range that goes over the end",
    write("bytes=3584-4607"),
    1_024,
    "416 InvalidPageRange",
  ],
  ["(update) a range without an end", write("bytes=0-"), 512, "400 InvalidHeaderValue"],
  ["(update) a range in another unit", write("pages=0-0"), 512, "400 InvalidHeaderValue"],
  ["(update) two ranges", write("bytes=0-511,1024-1535"), 512, "400 InvalidHeaderValue"],
  ["(update) no range", { "x-ms-page-write": "update" }, 512, "400 MissingRequiredHeader"],
  ["(update) fewer bytes than the range", write("bytes=0-1023"), 512, "400 InvalidHeaderValue"],
  ["(update) more bytes than the range", write(RANGE), 1_024, "400 InvalidHeaderValue"],
  ["(update) no bytes", write(RANGE), 0, "400 InvalidHeaderValue"],
  [
    "(update) both sums",
    write(RANGE, {
      "content-md5": "1B2M2Y8AsgTpgAmY7PhCfg==",
      "x-ms-content-crc64": "AAAAAAAAAAA=",
    }),
    512,
    "400 BothCrc64AndMd5HeaderPresent",
  ],
  [
    "(update) a sequence number that is none",
    write(RANGE, { "x-ms-if-sequence-number-eq": "one" }),
    512,
    "400 InvalidHeaderValue",
  ],
  [
    "(update) a wrong sequence number",
    write(RANGE, { "x-ms-if-sequence-number-eq": "1" }),
    512,
    "412 SequenceNumberConditionNotMet",
  ],
  [
    "(update) conditions that exclude each other",
    write(RANGE, { "if-match": '"0x1"', "if-none-match": '"0x2"' }),
    512,
    "400 MultipleConditionHeadersNotSupported",
  ],
  ["(clear) a range off the pages", erase("bytes=1-512"), 0, "416 InvalidPageRange"],
  ["(clear) a range over the end", erase("bytes=0-4607"), 0, "416 InvalidPageRange"],
  ["(clear) a body", erase(RANGE), 512, "400 InvalidHeaderValue"],
  [
    "(clear) an MD5",
    erase(RANGE, { "content-md5": "1B2M2Y8AsgTpgAmY7PhCfg==" }),
    0,
    "400 InvalidHeaderValue",
  ],
  [
    "(clear) a CRC-64",
    erase(RANGE, { "x-ms-content-crc64": "AAAAAAAAAAA=" }),
    0,
    "400 InvalidHeaderValue",
  ],
  ["(clear) no range", { "x-ms-page-write": "clear" }, 0, "400 MissingRequiredHeader"],
  ["no x-ms-page-write", { "x-ms-range": RANGE }, 512, "400 MissingRequiredHeader"],
  [
    "another x-ms-page-write",
    { "x-ms-page-write": "append", "x-ms-range": RANGE },
    512,
    "400 InvalidHeaderValue",
  ],
];
for (const [what, headers, size, want] of changes) {
  test(`Put Page ${what}: ${want}`, async () => {
    const before = await b.getBlob(server, "/refused/b");
    const call = { headers, body: Buffer.alloc(size, 9) };
    const reply = await b.putComp(server, "/refused/b", "page", call);
    assert.equal(`${reply.status} ${reply.code}`, want, reply.text.slice(0, 300));
    const now = await b.getBlob(server, "/refused/b");
    assert.equal(now.headers.etag, before.headers.etag);
    assert.ok(now.body.equals(before.body));
  });
}

test("Put Page: a blob or container that is not there gives 404", async () => {
  const body = Buffer.alloc(p.PAGE);
  b.assertReply(await p.tryPutPage(server, "/refused/none", 0, body), 404, "BlobNotFound");
  b.assertReply(await p.tryClearPage(server, "/refused/none", 0, p.PAGE), 404, "BlobNotFound");
  b.assertReply(await p.tryPutPage(server, "/no-such/none", 0, body), 404, "ContainerNotFound");
});

test("Set Blob Tier: a page blob has none", async () => {
  const call = { headers: { "x-ms-access-tier": "Cool" } };
  const reply = await b.putComp(server, "/refused/b", "tier", call);
  b.assertReply(reply, 400, "AccessTierNotSupportedForBlobType");
});

test("Set Blob Properties: a size that is not whole pages, or more than 8 TiB", async () => {
  for (const [size, status, code] of [
    ["1000", 400, "InvalidHeaderValue"],
    ["8796093022720", 413, "RequestBodyTooLarge"],
  ] as const) {
    const call = { headers: { "x-ms-blob-content-length": size } };
    b.assertReply(await b.putComp(server, "/refused/b", "properties", call), status, code);
  }
  assert.equal((await b.headBlob(server, "/refused/b")).headers["content-length"], "4096");
});
