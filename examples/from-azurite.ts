import { BlobServiceClient, ContainerSASPermissions } from "@azure/storage-blob";

const { FROM, TO = "UseDevelopmentStorage=true" } = process.env;
if (FROM === undefined)
  throw new Error("FROM is the connection string of the server to copy from.");
const source = BlobServiceClient.fromConnectionString(FROM);
const target = BlobServiceClient.fromConnectionString(TO);
const permissions = ContainerSASPermissions.parse("r");
const expiresOn = new Date(Date.now() + 24 * 60 * 60 * 1000);

/** Copies one container; the target reads each blob from the source by a signature, with metadata and headers. */
async function copyContainer(name: string): Promise<number> {
  const from = source.getContainerClient(name);
  const to = target.getContainerClient(name);
  const { metadata = {} } = await from.getProperties();
  await to.createIfNotExists({ metadata });
  const { blobPublicAccess, signedIdentifiers } = await from.getAccessPolicy();
  await to.setAccessPolicy(blobPublicAccess, signedIdentifiers);
  const { search } = new URL(await from.generateSasUrl({ permissions, expiresOn }));
  let count = 0;
  for await (const { name } of from.listBlobsFlat()) {
    const url = from.getBlobClient(name).url + search;
    const copy = await to.getBlobClient(name).beginCopyFromURL(url, { intervalInMs: 100 });
    await copy.pollUntilDone();
    count++;
  }
  return count;
}

for await (const { name } of source.listContainers()) {
  process.stdout.write(`${name}: ${await copyContainer(name)} blobs\n`);
}
