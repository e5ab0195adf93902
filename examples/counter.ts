import { BlobServiceClient, RestError } from "@azure/storage-blob";

const connection = process.env.AZURE_STORAGE_CONNECTION_STRING ?? "UseDevelopmentStorage=true";
const container = BlobServiceClient.fromConnectionString(connection).getContainerClient("example");
await container.createIfNotExists();
const blob = container.getBlockBlobClient("counter");
await blob.upload("0", 1);

/** Adds one, however many do so at once: a write goes through only on the version that was read. */
async function increment(): Promise<void> {
  for (;;) {
    const { etag } = await blob.getProperties();
    const text = String(Number(await blob.downloadToBuffer()) + 1);
    try {
      await blob.upload(text, text.length, { conditions: { ifMatch: etag ?? "" } });
      return;
    } catch (error) {
      if (!(error instanceof RestError) || error.statusCode !== 412) throw error;
    }
  }
}

await Promise.all(Array.from({ length: 20 }, increment));
process.stdout.write(`${await blob.downloadToBuffer()}\n`); // 20
