import { ShareServiceClient } from "@azure/storage-file-share";

const connection = process.env.AZURE_STORAGE_CONNECTION_STRING ?? "UseDevelopmentStorage=true";
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
