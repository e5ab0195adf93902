import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BlobServiceClient, RestError, StorageSharedKeyCredential } from "@azure/storage-blob";
import { containerClient, putBlob } from "./blobs.ts";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
let secondary: BlobServiceClient;
before(async () => {
  server = await startServer();
  const credential = new StorageSharedKeyCredential(server.account, server.key);
  secondary = new BlobServiceClient(`${server.url}-secondary`, credential);
  await containerClient(server, "copied").create();
  await putBlob(server, "/copied/blob", "hello");
});
after(() => server.stop());

test("secondary: shows what the primary has, at once", async () => {
  const container = secondary.getContainerClient("copied");
  assert.equal(String(await container.getBlobClient("blob").downloadToBuffer()), "hello");
  const names: string[] = [];
  for await (const { name } of container.listBlobsFlat()) names.push(name);
  assert.deepEqual(names, ["blob"]);
  assert.equal((await container.getBlobClient("blob").getProperties()).contentLength, 5);
  await secondary.getProperties();
});

test("secondary: takes no writes", async () => {
  const container = secondary.getContainerClient("copied");
  const blob = container.getBlockBlobClient("blob");
  const writes: (() => Promise<unknown>)[] = [
    () => blob.upload("x", 1),
    () => blob.delete(),
    () => blob.setMetadata({ a: "b" }),
    () => blob.getBlobLeaseClient().acquireLease(15),
    () => container.delete(),
    () => secondary.createContainer("other"),
    () => secondary.setProperties({ defaultServiceVersion: "2020-02-10" }),
  ];
  for (const write of writes) {
    await assert.rejects(
      write(),
      (error) =>
        error instanceof RestError &&
        error.statusCode === 403 &&
        error.code === "InsufficientAccountPermissions",
    );
  }
  assert.equal(String(await blob.downloadToBuffer()), "hello");
});

test("Get Blob Service Stats: on the secondary, and only there", async () => {
  const { geoReplication } = await secondary.getStatistics();
  assert.equal(geoReplication?.status, "live");
  const behind = Date.now() - Number(geoReplication?.lastSyncOn);
  assert.ok(behind >= -1000 && behind < 60_000, `${behind} ms behind`);
  const query = { restype: "service", comp: "stats" };
  const reply = await send(server, { method: "GET", query });
  assert.deepEqual(
    { status: reply.status, code: reply.code },
    { status: 400, code: "InvalidQueryParameterValue" },
  );
});
