import { TableClient, RestError as TableError } from "@azure/data-tables";
import { BlobServiceClient, type ContainerClient, RestError } from "@azure/storage-blob";
import { ShareServiceClient } from "@azure/storage-file-share";
import { type QueueClient, QueueServiceClient } from "@azure/storage-queue";

/** What `npm start` prints; "UseDevelopmentStorage=true" is not enough for the SDK of files. */
const development = [
  "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1",
  "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
  "BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1",
  "QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1",
  "TableEndpoint=http://127.0.0.1:10002/devstoreaccount1",
  "FileEndpoint=http://127.0.0.1:10003/devstoreaccount1",
].join(";");
const connection = process.env.AZURE_STORAGE_CONNECTION_STRING ?? development;

/** Makes names that no other run uses, so that the story can be told again on the same server. */
const run = `${Date.now().toString(36)}${process.pid.toString(36)}`;

const blobs = BlobServiceClient.fromConnectionString(connection);
const queues = QueueServiceClient.fromConnectionString(connection);

/** One part of the story: what it is about, and what happens in it. */
export type Scene = {
  readonly title: string;
  play(tell: (line: string) => void): Promise<void>;
};

/** What a scene has made; main.ts removes it when all is told. */
const made: (() => Promise<unknown>)[] = [];

export async function newContainer(name: string): Promise<ContainerClient> {
  const container = blobs.getContainerClient(`${name}-${run}`);
  await container.create();
  made.push(() => container.deleteIfExists());
  return container;
}

export async function newQueue(name: string): Promise<QueueClient> {
  const queue = queues.getQueueClient(`${name}-${run}`);
  await queue.create();
  made.push(() => queue.deleteIfExists());
  return queue;
}

export async function newTable(name: string): Promise<TableClient> {
  // The SDK must be told that plain HTTP is meant, as on this machine.
  const options = { allowInsecureConnection: true };
  const table = TableClient.fromConnectionString(connection, `${name}${run}`, options);
  await table.createTable();
  made.push(() => table.deleteTable());
  return table;
}

export async function newShare(name: string) {
  const share = ShareServiceClient.fromConnectionString(connection).getShareClient(
    `${name}-${run}`,
  );
  await share.create();
  made.push(() => share.deleteIfExists());
  return share;
}

/** What cannot be removed stays: to tell why a scene failed is worth more. */
export async function removeAll(): Promise<void> {
  await Promise.allSettled(made.map((remove) => remove()));
}

/** The status and code of a refusal, as "412 ConditionNotMet"; undefined if it is none. */
export function refusalOf(error: unknown): string | undefined {
  if (!(error instanceof RestError || error instanceof TableError)) return undefined;
  const details = error.details as
    | { errorCode?: string; odataError?: { code?: string } }
    | undefined;
  const code = details?.errorCode ?? details?.odataError?.code ?? error.code ?? "";
  return `${error.statusCode} ${code}`;
}

/** What the server answers to something that is to be refused. */
export async function refused(attempt: Promise<unknown>): Promise<string> {
  try {
    await attempt;
    return "done";
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === undefined) throw error;
    return refusal;
  }
}

export const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));
