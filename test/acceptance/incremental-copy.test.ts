import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BlobSASPermissions, BlobServiceClient, type ContainerClient } from "@azure/storage-blob";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

const PAGE = 512;
let server: TestServer;
let container: ContainerClient;
before(async () => {
  server = await startServer();
  const service = BlobServiceClient.fromConnectionString(server.connectionString, {
    retryOptions: { maxTries: 1 },
  });
  container = service.getContainerClient("increments");
  await container.create();
});
after(() => server.stop());

const page = (fill: string) => Buffer.alloc(PAGE, fill);

/** A page blob and a snapshot of it for each letter. */
async function source(name: string, letters: string) {
  const blob = container.getPageBlobClient(name);
  await blob.create(4 * PAGE);
  const snapshots: string[] = [];
  for (const letter of letters) {
    await blob.uploadPages(page(letter), 0, PAGE);
    snapshots.push((await blob.createSnapshot()).snapshot ?? "");
  }
  return { blob, snapshots };
}

test("Incremental Copy Blob: each copy leaves a snapshot with the source's bytes", async () => {
  const { blob, snapshots } = await source("source", "ab");
  const copy = container.getPageBlobClient("copy");
  const taken: string[] = [];
  for (const snapshot of snapshots) {
    const reply = await copy.startCopyIncremental(blob.withSnapshot(snapshot).url);
    assert.equal(reply.copyStatus, "success");
    const properties = await copy.getProperties();
    assert.equal(properties.isIncrementalCopy, true);
    taken.push(properties.destinationSnapshot ?? "");
  }
  for (const [i, letter] of ["a", "b"].entries()) {
    const bytes = await copy.withSnapshot(taken[i] ?? "").downloadToBuffer(0, PAGE);
    assert.deepEqual(bytes, page(letter));
  }
});

test("Incremental Copy Blob: the source is the same blob, whichever signature lets it be read", async () => {
  const { blob, snapshots } = await source("signed", "ab");
  const copy = container.getPageBlobClient("of-signed");
  for (const [i, snapshot] of snapshots.entries()) {
    const expiresOn = new Date(Date.now() + (i + 1) * 3_600_000);
    const permissions = BlobSASPermissions.parse("r");
    const url = await blob.withSnapshot(snapshot).generateSasUrl({ permissions, expiresOn });
    assert.equal((await copy.startCopyIncremental(url)).copyStatus, "success");
  }
});

test("Incremental Copy Blob: the copy itself cannot be read, written or copied", async () => {
  const { blob, snapshots } = await source("whole", "a");
  const copy = container.getPageBlobClient("locked");
  await copy.startCopyIncremental(blob.withSnapshot(snapshots[0] ?? "").url);
  const refused = { statusCode: 409, code: "OperationNotAllowedOnIncrementalCopyBlob" };
  await assert.rejects(copy.download(), refused);
  await assert.rejects(copy.uploadPages(page("x"), 0, PAGE), refused);
  await assert.rejects(copy.createSnapshot(), refused);
  await assert.rejects(copy.setMetadata({ a: "1" }), refused);
  const expiry = await send(server, {
    method: "PUT",
    path: "/increments/locked",
    query: { comp: "expiry" },
    headers: { "x-ms-expiry-option": "RelativeToNow", "x-ms-expiry-time": "100000" },
  });
  assert.deepEqual([expiry.status, expiry.code], [refused.statusCode, refused.code]);
  const further = container.getPageBlobClient("further");
  await assert.rejects(further.beginCopyFromURL(copy.url), refused);
  await copy.delete({ deleteSnapshots: "include" });
});

test("Incremental Copy Blob: refusals", async () => {
  const { blob, snapshots } = await source("one", "ab");
  const other = await source("other", "c");
  const copy = container.getPageBlobClient("refused");
  const [early = "", late = ""] = snapshots;
  const code = (name: string) => ({ statusCode: 409, code: name });
  await copy.startCopyIncremental(blob.withSnapshot(late).url);
  await assert.rejects(
    copy.startCopyIncremental(blob.withSnapshot(early).url),
    code("IncrementalCopyOfEarlierVersionSnapshotNotAllowed"),
  );
  await assert.rejects(
    copy.startCopyIncremental(other.blob.withSnapshot(other.snapshots[0] ?? "").url),
    code("IncrementalCopyBlobMismatch"),
  );
  await assert.rejects(
    copy.startCopyIncremental("http://127.0.0.1:9/a/b"),
    code("InvalidSourceBlobUrl"),
  );
  await assert.rejects(container.getPageBlobClient("new").startCopyIncremental(blob.url), {
    statusCode: 409,
    code: "IncrementalCopySourceMustBeSnapshot",
  });
});
