import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  type AppendBlobClient,
  BlobServiceClient,
  type ContainerClient,
} from "@azure/storage-blob";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
let container: ContainerClient;
before(async () => {
  server = await startServer();
  const service = BlobServiceClient.fromConnectionString(server.connectionString, {
    retryOptions: { maxTries: 1 },
  });
  container = service.getContainerClient("appends");
  await container.create();
});
after(() => server.stop());

const made = async (name: string): Promise<AppendBlobClient> => {
  const blob = container.getAppendBlobClient(name);
  await blob.create();
  return blob;
};
const text = async (blob: AppendBlobClient) => (await blob.downloadToBuffer()).toString();

test("Append Block: each block stands behind the one before", async () => {
  const blob = await made("log");
  const first = await blob.appendBlock("one,", 4);
  const second = await blob.appendBlock("two", 3);
  assert.deepEqual([first.blobAppendOffset, first.blobCommittedBlockCount], ["0", 1]);
  assert.deepEqual([second.blobAppendOffset, second.blobCommittedBlockCount], ["4", 2]);
  assert.notEqual(first.etag, second.etag);
  assert.equal(await text(blob), "one,two");
  const properties = await blob.getProperties();
  assert.deepEqual([properties.blobType, properties.blobCommittedBlockCount], ["AppendBlob", 2]);
});

test("Append Block: 8 writers at once lose nothing, and each is told its own place", async () => {
  const blob = await made("crowd");
  const lines = Array.from({ length: 80 }, (_, i) => `line ${String(i).padStart(3, "0")}\n`);
  const writers = Array.from({ length: 8 }, async (_, w) => {
    const told: [string, number][] = [];
    for (const line of lines.slice(w * 10, w * 10 + 10)) {
      const { blobAppendOffset } = await blob.appendBlock(line, line.length);
      told.push([line, Number(blobAppendOffset)]);
    }
    return told;
  });
  const told = (await Promise.all(writers)).flat();
  const whole = await text(blob);
  assert.equal(whole.length, lines.join("").length);
  for (const [line, at] of told) assert.equal(whole.slice(at, at + line.length), line);
});

test("Append Block: a counter by If-Match loses nothing under 8 writers", async () => {
  const blob = await made("counter");
  let done = 0;
  const write = async () => {
    for (let i = 0; i < 5; ) {
      const { etag = "" } = await blob.getProperties();
      try {
        await blob.appendBlock("x", 1, { conditions: { ifMatch: etag } });
        done++;
        i++;
      } catch (error) {
        assert.equal((error as { statusCode: number }).statusCode, 412);
      }
    }
  };
  await Promise.all(Array.from({ length: 8 }, write));
  assert.equal((await text(blob)).length, done);
});

test("Append Block: the conditions on position and size", async () => {
  const blob = await made("conditions");
  await blob.appendBlock("12345", 5);
  await assert.rejects(blob.appendBlock("x", 1, { conditions: { appendPosition: 4 } }), {
    statusCode: 412,
    code: "AppendPositionConditionNotMet",
  });
  await assert.rejects(blob.appendBlock("x", 1, { conditions: { maxSize: 5 } }), {
    statusCode: 412,
    code: "MaxBlobSizeConditionNotMet",
  });
  await blob.appendBlock("x", 1, { conditions: { appendPosition: 5, maxSize: 6 } });
  assert.equal(await text(blob), "12345x");
});

test("Append Block From URL", async () => {
  const source = container.getBlockBlobClient("source");
  await source.upload("0123456789", 10);
  const blob = await made("from-url");
  await blob.appendBlockFromURL(source.url, 2, 3);
  await blob.appendBlockFromURL(source.url, 0, 2);
  assert.equal(await text(blob), "23401");
});

test("Append Blob Seal: nothing can be appended any more", async () => {
  const blob = await made("sealed");
  await blob.appendBlock("a", 1);
  const sealed = await blob.seal();
  assert.equal((await blob.seal()).etag, sealed.etag);
  await assert.rejects(blob.appendBlock("b", 1), { statusCode: 409, code: "BlobIsSealed" });
  assert.equal((await blob.getProperties()).isSealed, true);
  await blob.setMetadata({ still: "writable" });
});

test("Copy Blob: the copy is sealed as its source is, unless x-ms-seal-blob says otherwise", async () => {
  const sealed = await made("seal-source");
  const open = await made("open-source");
  await sealed.seal();
  const block = container.getBlockBlobClient("block-source");
  await block.upload("x", 1);
  const cases = [
    [sealed, undefined, true],
    [sealed, false, undefined],
    [open, true, true],
    [open, undefined, undefined],
    [block, true, undefined],
  ] as const;
  for (const [index, [source, sealBlob, expected]] of cases.entries()) {
    const copy = container.getAppendBlobClient(`seal-copy-${index}`);
    await copy.beginCopyFromURL(source.url, sealBlob === undefined ? {} : { sealBlob });
    assert.equal((await copy.getProperties()).isSealed, expected);
  }
});

test("snapshots and copies of an append blob keep their bytes while it grows", async () => {
  const blob = await made("growing");
  await blob.appendBlock("one", 3);
  const { snapshot = "" } = await blob.createSnapshot();
  const copy = container.getAppendBlobClient("grown");
  await (await copy.beginCopyFromURL(blob.url)).pollUntilDone();
  await blob.appendBlock("two", 3);
  await copy.appendBlock("three", 5);
  assert.equal(await text(blob), "onetwo");
  assert.equal(await text(blob.withSnapshot(snapshot) as AppendBlobClient), "one");
  assert.equal(await text(copy), "onethree");
  assert.equal((await copy.getProperties()).blobCommittedBlockCount, 2);
});

const refused: [
  what: string,
  path: string,
  query: Record<string, string>,
  headers: Record<string, string>,
  body: string,
  status: number,
  code: string,
][] = [
  [
    "Append Block to nothing",
    "/appends/none",
    { comp: "appendblock" },
    {},
    "x",
    404,
    "BlobNotFound",
  ],
  [
    "Append Block to a block blob",
    "/appends/source",
    { comp: "appendblock" },
    {},
    "x",
    409,
    "InvalidBlobType",
  ],
  [
    "Append Block without bytes",
    "/appends/log",
    { comp: "appendblock" },
    {},
    "",
    400,
    "InvalidHeaderValue",
  ],
  [
    "Append Blob Seal of a block blob",
    "/appends/source",
    { comp: "seal" },
    {},
    "",
    409,
    "InvalidBlobType",
  ],
  [
    "Put Block on an append blob",
    "/appends/log",
    { comp: "block", blockid: "AAAA" },
    {},
    "x",
    409,
    "InvalidBlobType",
  ],
  [
    "Put Blob (append blob) with bytes",
    "/appends/new",
    {},
    { "x-ms-blob-type": "AppendBlob" },
    "x",
    400,
    "InvalidHeaderValue",
  ],
  [
    "Get Block List is refused too",
    "/appends/log",
    { comp: "appendblock" },
    { "x-ms-blob-condition-appendpos": "x" },
    "x",
    400,
    "InvalidHeaderValue",
  ],
];
for (const [what, path, query, headers, body, status, code] of refused) {
  test(`refused: ${what}`, async () => {
    const reply = await send(server, { method: "PUT", path, query, headers, body });
    assert.deepEqual([reply.status, reply.code], [status, code]);
  });
}
