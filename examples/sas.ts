import {
  BlobSASPermissions,
  BlobServiceClient,
  generateBlobSASQueryParameters,
  type StorageSharedKeyCredential,
} from "@azure/storage-blob";

const connection = process.env.AZURE_STORAGE_CONNECTION_STRING ?? "UseDevelopmentStorage=true";
const service = BlobServiceClient.fromConnectionString(connection);
const container = service.getContainerClient("example-sas");
await container.createIfNotExists();
await container.getBlockBlobClient("greeting").upload("hello\n", 6);

/** A URL that reads this one blob for ten minutes, whoever holds it, and names the file it is saved as. */
const query = generateBlobSASQueryParameters(
  {
    containerName: container.containerName,
    blobName: "greeting",
    permissions: BlobSASPermissions.parse("r"),
    expiresOn: new Date(Date.now() + 10 * 60_000),
    contentDisposition: "attachment; filename=greeting.txt",
  },
  service.credential as StorageSharedKeyCredential,
);
const reply = await fetch(`${container.url}/greeting?${query}`);
process.stdout.write(`${reply.headers.get("content-disposition")}: ${await reply.text()}`);
