import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BlobServiceClient, type ContainerClient, RestError } from "@azure/storage-blob";
import {
  BlobChangeFeedClient,
  type BlobChangeFeedEvent,
  type BlobChangeFeedEventPage,
} from "@azure/storage-blob-changefeed";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
let service: BlobServiceClient;
let container: ContainerClient;
before(async () => {
  server = await startServer({ args: ["--changeFeed", "--changeFeedInterval", "1"] });
  service = BlobServiceClient.fromConnectionString(server.connectionString);
  container = service.getContainerClient("watched");
  await container.create();
});
after(() => server.stop());

/** All events so far, once there are at least so many. */
async function events(count: number): Promise<BlobChangeFeedEvent[]> {
  const until = Date.now() + 30_000;
  for (;;) {
    const found: BlobChangeFeedEvent[] = [];
    const feed = BlobChangeFeedClient.fromConnectionString(server.connectionString);
    for await (const event of feed.listChanges()) found.push(event);
    if (found.length >= count || Date.now() > until) return found;
  }
}

const byCode = (a: string, b: string) => (a < b ? -1 : 1);

const short = ({ eventType, subject, data }: BlobChangeFeedEvent) =>
  `${eventType} ${data.api} ${subject.replace("/blobServices/default/containers/watched/blobs/", "")}`;

test("change feed: the official reader gets every change, in order, with what it was about", async () => {
  const blob = container.getBlockBlobClient("dir/a b");
  const made = await blob.upload("hello", 5, {
    blobHTTPHeaders: { blobContentType: "text/plain" },
  });
  await blob.setMetadata({ a: "b" });
  await blob.setHTTPHeaders({ blobContentType: "text/html", blobCacheControl: "no-cache" });
  await blob.setTags({ x: "y" });
  const { snapshot } = await blob.createSnapshot();
  await blob.setAccessTier("Cool");
  await blob.withSnapshot(snapshot ?? "").delete();
  await blob.stageBlock("AAAA", "world", 5); // no change of the blob yet
  await blob.commitBlockList(["AAAA"]);
  await container
    .getBlobClient("copy")
    .syncCopyFromURL(blob.url)
    .catch(() => {});
  await blob.delete();
  await assert.rejects(blob.delete()); // what fails is no change
  const all = await events(9);
  const mine = all.filter(({ subject }) => subject.endsWith("/dir/a b"));
  assert.deepEqual(mine.map(short), [
    "BlobCreated PutBlob dir/a b",
    "BlobPropertiesUpdated SetBlobMetadata dir/a b",
    "BlobPropertiesUpdated SetBlobProperties dir/a b",
    "BlobPropertiesUpdated SetBlobTags dir/a b",
    "BlobSnapshotCreated SnapshotBlob dir/a b",
    "BlobTierChanged SetBlobTier dir/a b",
    "BlobDeleted DeleteBlob dir/a b",
    "BlobCreated PutBlockList dir/a b",
    "BlobDeleted DeleteBlob dir/a b",
  ]);
  const [created, , headers, tags, taken, tiered, past] = mine;
  assert.ok(created?.topic.endsWith(`/storageAccounts/${server.account}`));
  assert.ok(Math.abs(Number(created?.eventTime) - Date.now()) < 60_000);
  assert.equal(`"${created?.data.etag}"`, made.etag);
  assert.equal(created?.data.contentType, "text/plain");
  assert.equal(created?.data.contentLength, 5);
  assert.equal(created?.data.blobType, "BlockBlob");
  assert.equal(created?.data.requestId, made.requestId);
  assert.equal(created?.data.clientRequestId, made.clientRequestId);
  const changed = headers?.data.updatedBlobProperties as
    | Record<string, { oldValue: string; newValue: string }>
    | undefined;
  assert.equal(changed?.ContentType?.oldValue, "text/plain");
  assert.equal(changed?.ContentType?.newValue, "text/html");
  assert.equal(changed?.CacheControl?.newValue, "no-cache");
  assert.deepEqual(tags?.data.updatedBlobTags, { newTags: { x: "y" }, oldTags: {} });
  assert.equal(taken?.data.snapshot, snapshot);
  assert.equal(tiered?.data.blobAccessTier, "Cool");
  assert.equal(tiered?.data.previousInfo?.previousTier, "Hot");
  assert.equal(past?.data.snapshot, snapshot);
  const order = mine.map(({ data }) => data.sequencer);
  assert.deepEqual(order, [...order].sort(byCode));
});

test("change feed: pages go on where they stopped", async () => {
  for (let i = 0; i < 25; i++) await container.getBlockBlobClient(`page/${i}`).upload("x", 1);
  const all = await events(34);
  const feed = BlobChangeFeedClient.fromConnectionString(server.connectionString);
  const seen: string[] = [];
  const end = new Date(Date.now() + 7_200_000); // without one, the reader loses itself on the third page
  let token: string | undefined;
  do {
    const settings: { maxPageSize: number; continuationToken?: string } = { maxPageSize: 10 };
    if (token !== undefined) settings.continuationToken = token;
    const page: { value?: BlobChangeFeedEventPage } = await feed
      .listChanges({ end })
      .byPage(settings)
      .next();
    for (const event of page.value?.events ?? []) seen.push(event.id);
    token = page.value?.continuationToken;
  } while (token);
  assert.deepEqual(seen.sort(byCode), all.map(({ id }) => id).sort(byCode));
});

test("change feed: it can be read and listed, and not written", async () => {
  await events(1);
  const feed = service.getContainerClient("$blobchangefeed");
  const names: string[] = [];
  for await (const { name } of feed.listBlobsFlat()) names.push(name);
  assert.ok(names.some((name) => /^log\/00\/\d{4}\/\d\d\/\d\d\/\d\d00\/00000\.avro$/.test(name)));
  assert.ok(names.includes("meta/segments.json"));
  assert.ok(names.includes("idx/segments/1601/01/01/0000/meta.json"));
  const writes: (() => Promise<unknown>)[] = [
    () => feed.getBlockBlobClient("x").upload("x", 1),
    () => feed.getBlobClient("meta/segments.json").delete(),
    () => feed.getBlobClient("meta/segments.json").setMetadata({ a: "b" }),
    () => feed.delete(),
    () => feed.getBlobLeaseClient().acquireLease(15),
    () =>
      service
        .getBlobBatchClient()
        .deleteBlobs([feed.getBlobClient("meta/segments.json")])
        .then(({ subResponses: [first] }) => {
          if (first?.status !== 202)
            throw new RestError("part", { statusCode: first?.status ?? 0 });
        }),
  ];
  for (const write of writes) {
    await assert.rejects(
      write(),
      (error) => error instanceof RestError && error.statusCode === 403,
    );
  }
  const listed = async (includeSystem: boolean) => {
    const found: string[] = [];
    for await (const { name } of service.listContainers({ includeSystem })) found.push(name);
    return found;
  };
  assert.deepEqual(await listed(false), ["watched"]);
  assert.deepEqual(await listed(true), ["$blobchangefeed", "watched"]);
});
