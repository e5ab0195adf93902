import { ShareServiceClient } from "@azure/storage-file-share";

// "UseDevelopmentStorage=true" is not enough for this SDK.
const development = [
  "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1",
  "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
  "FileEndpoint=http://127.0.0.1:10003/devstoreaccount1",
].join(";");
const connection = process.env.AZURE_STORAGE_CONNECTION_STRING ?? development;
const share = ShareServiceClient.fromConnectionString(connection).getShareClient("example");
await share.createIfNotExists();
const file = share.rootDirectoryClient.getFileClient("Diary.txt");
await file.uploadData(Buffer.from("Monday: it rains."));

/** What was so then can still be read, whatever is written now. */
const { snapshot } = await share.createSnapshot();
await file.uploadData(Buffer.from("Monday: the sun shines."));
const then = share.withSnapshot(snapshot ?? "").rootDirectoryClient.getFileClient("diary.TXT");
process.stdout.write(`${await then.downloadToBuffer()}\n`); // Monday: it rains.
process.stdout.write(`${await file.downloadToBuffer()}\n`); // Monday: the sun shines.
