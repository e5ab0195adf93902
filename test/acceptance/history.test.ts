import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { startServer, type TestServer } from "./server.ts";

const clientOf = (server: TestServer) =>
  BlobServiceClient.fromConnectionString(server.connectionString, {
    retryOptions: { maxTries: 1 },
  });

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const body = async (blob: { downloadToBuffer(): Promise<Buffer> }) =>
  (await blob.downloadToBuffer()).toString();

describe("an account that keeps versions", () => {
  let server: TestServer;
  before(async () => {
    server = await startServer({ args: ["--immutableStorage", "--containerRetention", "7"] });
  });
  after(() => server.stop());

  test("each write makes a version, and each version keeps its bytes", async () => {
    const container = clientOf(server).getContainerClient("versions");
    await container.create();
    const blob = container.getBlockBlobClient("a");
    const first = await blob.upload("one", 3);
    const second = await blob.upload("two!", 4);
    const third = await blob.setMetadata({ k: "v" });
    const ids = [first, second, third].map(({ versionId }) => versionId ?? "");
    assert.equal(new Set(ids).size, 3);
    assert.equal(await body(blob.withVersion(ids[0] ?? "")), "one");
    assert.equal(await body(blob.withVersion(ids[1] ?? "")), "two!");
    assert.equal(await body(blob.withVersion(ids[2] ?? "")), "two!");
    const listed = await all(container.listBlobsFlat({ includeVersions: true }));
    assert.deepEqual(
      listed.map(({ versionId, isCurrentVersion }) => [versionId, isCurrentVersion]),
      [
        [ids[0], undefined],
        [ids[1], undefined],
        [ids[2], true],
      ],
    );
    await blob.delete();
    await assert.rejects(blob.getProperties(), { statusCode: 404 });
    assert.equal(await body(blob.withVersion(ids[2] ?? "")), "two!");
    await blob.withVersion(ids[0] ?? "").delete();
    await assert.rejects(blob.withVersion(ids[0] ?? "").getProperties(), { statusCode: 404 });
  });

  test("Set Blob Immutability Policy, Delete Blob Immutability Policy, Set Blob Legal Hold", async () => {
    const container = clientOf(server).getContainerClient("held");
    await container.create();
    const blob = container.getBlockBlobClient("a");
    await blob.upload("one", 3);
    const expiriesOn = new Date(Date.now() + 3_600_000);
    await blob.setImmutabilityPolicy({ expiriesOn, policyMode: "Unlocked" });
    await assert.rejects(blob.delete(), { code: "BlobImmutableDueToPolicy" });
    await assert.rejects(container.delete(), { code: "ContainerImmutabilityPolicyLocked" });
    await blob.deleteImmutabilityPolicy();
    await blob.setLegalHold(true);
    await assert.rejects(blob.setMetadata({ a: "1" }), { code: "BlobImmutableDueToLegalHold" });
    await blob.setLegalHold(false);
    await blob.delete();
  });

  test("Incremental Copy Blob: the snapshot that it takes is no version", async () => {
    const container = clientOf(server).getContainerClient("increments");
    await container.create();
    const source = container.getPageBlobClient("source");
    await source.create(512);
    const { snapshot = "" } = await source.createSnapshot();
    const copy = container.getPageBlobClient("copy");
    await copy.startCopyIncremental(source.withSnapshot(snapshot).url);
    const { destinationSnapshot = "", versionId } = await copy.getProperties();
    assert.notEqual(versionId, undefined);
    const taken = await copy.withSnapshot(destinationSnapshot).getProperties();
    assert.equal(taken.versionId, undefined);
  });

  test("Restore Container", async () => {
    const service = clientOf(server);
    const container = service.getContainerClient("restored");
    await container.create();
    await container.getBlockBlobClient("a").upload("one", 3);
    await container.delete();
    assert.equal(await container.exists(), false);
    const listed = await all(service.listContainers({ includeDeleted: true, prefix: "restored" }));
    assert.equal(listed[0]?.deleted, true);
    await service.undeleteContainer("restored", listed[0]?.version ?? "");
    assert.equal(await body(container.getBlockBlobClient("a")), "one");
  });
});

test("a state from before versions were kept becomes one, and tells its name", async () => {
  let server = await startServer();
  await clientOf(server).getContainerClient("late").create();
  await clientOf(server).getContainerClient("late").getBlockBlobClient("a").upload("one", 3);
  await server.stop("keep");
  server = await startServer({ directory: server.directory, args: ["--versioning"] });
  const container = clientOf(server).getContainerClient("late");
  const blob = container.getBlockBlobClient("a");
  await blob.upload("two!", 4);
  const [first] = await all(container.listBlobsFlat({ includeVersions: true }));
  const old = blob.withVersion(first?.versionId ?? "");
  assert.equal(await body(old), "one");
  const { versionId, isCurrentVersion } = await old.getProperties();
  assert.deepEqual([versionId, isCurrentVersion], [first?.versionId, undefined]);
  await server.stop();
});

test("what is immutable stays, also where the account no longer keeps versions", async () => {
  let server = await startServer();
  const again = async (...args: string[]) => {
    await server.stop("keep");
    server = await startServer({ directory: server.directory, args });
    return clientOf(server).getContainerClient("worm").getBlockBlobClient("a");
  };
  const container = clientOf(server).getContainerClient("worm");
  await container.create();
  await container.getBlockBlobClient("a").upload("one", 3); // of before versions were kept
  const blob = await again("--immutableStorage");
  const expiriesOn = new Date(Date.now() + 3_600_000);
  await blob.setImmutabilityPolicy({ expiriesOn, policyMode: "Locked" });
  const same = await again();
  const refused = { statusCode: 409, code: "BlobImmutableDueToPolicy" };
  await assert.rejects(same.upload("two!", 4), refused);
  await assert.rejects(same.commitBlockList([]), refused);
  await assert.rejects(same.syncCopyFromURL(same.url), refused);
  await assert.rejects(same.delete(), refused);
  assert.equal(await body(same), "one");
  await server.stop();
});

describe("an account that keeps deleted blobs", () => {
  let server: TestServer;
  before(async () => {
    server = await startServer();
    await clientOf(server).setProperties({ deleteRetentionPolicy: { enabled: true, days: 3 } });
  });
  after(() => server.stop());

  test("Undelete Blob brings back the blob and its snapshots", async () => {
    const container = clientOf(server).getContainerClient("soft");
    await container.create();
    const blob = container.getBlockBlobClient("a");
    await blob.upload("one", 3);
    const { snapshot = "" } = await blob.createSnapshot();
    await blob.upload("two!", 4);
    await blob.delete({ deleteSnapshots: "include" });
    assert.equal(await blob.exists(), false);
    assert.deepEqual(await all(container.listBlobsFlat()), []);
    const listed = await all(
      container.listBlobsFlat({ includeDeleted: true, includeSnapshots: true }),
    );
    assert.deepEqual(
      listed.map(({ deleted, properties: { remainingRetentionDays } }) => [
        deleted,
        remainingRetentionDays,
      ]),
      [
        [true, 2],
        [true, 2],
        [true, 2],
      ],
    );
    await blob.undelete();
    assert.equal(await body(blob), "two!");
    assert.equal(await body(blob.withSnapshot(snapshot)), "one");
  });

  test("Set Blob Expiry: a blob vanishes by itself", async () => {
    const container = clientOf(server).getContainerClient("expiry");
    await container.create();
    const blob = container.getBlockBlobClient("a");
    await blob.upload("one", 3);
    // biome-ignore lint/suspicious/noExplicitAny: the SDK keeps this operation for its own use
    const context = (blob as any).blobContext;
    await context.setExpiry("RelativeToNow", { expiresOn: "3600000" });
    const { expiresOn } = await blob.getProperties();
    assert.ok((expiresOn?.getTime() ?? 0) > Date.now());
  });
});

test("Find Blobs by Tags, Find Blobs by Tags in Container", async (t) => {
  const server = await startServer();
  t.after(() => server.stop());
  const service = clientOf(server);
  for (const name of ["one", "two"]) {
    const container = service.getContainerClient(name);
    await container.create();
    for (let i = 0; i < 5; i++) {
      const tags = { kind: i % 2 === 0 ? "even" : "odd", number: `${i}` };
      await container.getBlockBlobClient(`b${i}`).upload("x", 1, { tags });
    }
  }
  const found = await all(service.findBlobsByTags("kind = 'even' AND number > '1'"));
  assert.deepEqual(
    found.map(({ containerName, name }) => `${containerName}/${name}`),
    ["one/b2", "one/b4", "two/b2", "two/b4"],
  );
  const inOne = service.getContainerClient("two").findBlobsByTags("number >= '3'");
  assert.deepEqual(
    (await all(inOne)).map(({ name }) => name),
    ["b3", "b4"],
  );
  await assert.rejects(all(service.findBlobsByTags("kind <> 'a'")), { statusCode: 400 });
});
