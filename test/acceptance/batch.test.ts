import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BlobBatch, BlobServiceClient, type ContainerClient } from "@azure/storage-blob";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
let service: BlobServiceClient;
let container: ContainerClient;
before(async () => {
  server = await startServer();
  service = BlobServiceClient.fromConnectionString(server.connectionString, {
    retryOptions: { maxTries: 1 },
  });
  container = service.getContainerClient("batches");
  await container.create();
});
after(() => server.stop());

const put = async (...names: string[]) => {
  for (const name of names) await container.getBlockBlobClient(name).upload("x", 1);
  return names.map((name) => container.getBlockBlobClient(name));
};

test("Blob Batch: deletes many, and tells of each what became of it", async () => {
  const blobs = await put("a", "b");
  const none = container.getBlockBlobClient("none");
  const reply = await service.getBlobBatchClient().deleteBlobs([...blobs, none]);
  assert.deepEqual([reply.subResponsesSucceededCount, reply.subResponsesFailedCount], [2, 1]);
  assert.deepEqual(
    reply.subResponses.map(({ status, errorCode }) => [status, errorCode]),
    [
      [202, undefined],
      [202, undefined],
      [404, "BlobNotFound"],
    ],
  );
  assert.equal(await container.getBlobClient("a").exists(), false);
});

test("Blob Batch: sets tiers, also of a container alone", async () => {
  const blobs = await put("c", "d");
  const reply = await container.getBlobBatchClient().setBlobsAccessTier(blobs, "Cool");
  assert.equal(reply.subResponsesSucceededCount, 2);
  for (const blob of blobs) assert.equal((await blob.getProperties()).accessTier, "Cool");
});

test("Blob Batch: a leased blob is not deleted without its lease id, others are", async () => {
  const [leased, free] = await put("leased", "free");
  await leased?.getBlobLeaseClient().acquireLease(-1);
  const batch = new BlobBatch();
  for (const blob of [leased, free]) if (blob !== undefined) await batch.deleteBlob(blob);
  const reply = await service.getBlobBatchClient().submitBatch(batch);
  assert.deepEqual(
    reply.subResponses.map(({ errorCode }) => errorCode),
    ["LeaseIdMissing", undefined],
  );
});

const part = (line: string, id = "0") =>
  `--b\r\nContent-Type: application/http\r\nContent-ID: ${id}\r\n\r\n${line}\r\n\r\n\r\n`;

const refused: [
  what: string,
  type: string | undefined,
  body: string,
  status: number,
  code: string,
][] = [
  ["no content type", undefined, "--b--", 400, "MissingRequiredHeader"],
  ["no boundary", "multipart/mixed", "--b--", 400, "InvalidHeaderValue"],
  ["nothing in it", "multipart/mixed; boundary=b", "--b--\r\n", 400, "InvalidInput"],
  ["no multipart body", "multipart/mixed; boundary=b", "hello", 400, "InvalidInput"],
  [
    "two kinds",
    "multipart/mixed; boundary=b",
    `${part("DELETE /a/b HTTP/1.1")}${part("PUT /a/b?comp=tier HTTP/1.1")}--b--`,
    400,
    "InvalidInput",
  ],
  [
    "257 parts",
    "multipart/mixed; boundary=b",
    `${Array.from({ length: 257 }, (_, i) => part("DELETE /a/b HTTP/1.1", String(i))).join("")}--b--`,
    400,
    "ExceedsMaxBatchRequestCount",
  ],
];
for (const [what, type, body, status, code] of refused) {
  test(`Blob Batch is refused with ${what}`, async () => {
    const headers: Record<string, string> = type === undefined ? {} : { "content-type": type };
    const reply = await send(server, {
      method: "POST",
      path: "/",
      query: { comp: "batch" },
      headers,
      body,
    });
    assert.deepEqual([reply.status, reply.code], [status, code]);
  });
}

for (const [what, url] of [
  ["escapes that are none", "/batches/%zz"],
  ["no path", "//"],
  ["no host", "http://["],
  ["another container", "/others/x"],
  ["dots that lead elsewhere", "/../other/batches/x"],
] as const) {
  test(`Blob Batch: a part of a container's batch with ${what} is refused with 400, by itself`, async () => {
    const body = `${part(`DELETE /${server.account}${url} HTTP/1.1`)}${part(`DELETE ${url} HTTP/1.1`)}--b--`;
    const reply = await send(server, {
      method: "POST",
      path: "/batches",
      query: { restype: "container", comp: "batch" },
      headers: { "content-type": "multipart/mixed; boundary=b" },
      body,
    });
    const statuses = [...reply.text.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, status]) => status);
    assert.deepEqual([reply.status, statuses], [202, ["400", "400"]]);
  });
}

test("Blob Batch: a part that is not authorized is refused by itself", async () => {
  await put("guarded");
  const body = `${part(`DELETE /${server.account}/batches/guarded HTTP/1.1`)}--b--`;
  const headers = { "content-type": "multipart/mixed; boundary=b" };
  const reply = await send(server, {
    method: "POST",
    path: "/",
    query: { comp: "batch" },
    headers,
    body,
  });
  assert.equal(reply.status, 202);
  assert.match(reply.text, /HTTP\/1\.1 401 /);
  assert.equal(await container.getBlobClient("guarded").exists(), true);
});
