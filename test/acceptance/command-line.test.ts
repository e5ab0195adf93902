import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { TableClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { startServer } from "./server.ts";

// All that compose files, test containers and package.json scripts give to Azurite.
const HOSTS = ["blob", "queue", "table"].flatMap((name) => [`--${name}Host`, "0.0.0.0"]);
const FLAGS = [
  ...HOSTS,
  ..."--silent --loose --skipApiVersionCheck --disableProductStyleUrl --disableTelemetry".split(
    " ",
  ),
  ..."--inMemoryPersistence --extentMemoryLimit 512 --blobKeepAliveTimeout 5".split(" "),
];

test("the command line of Azurite serves the SDKs", async () => {
  const directory = mkdtempSync(join(tmpdir(), "lazuli-test-"));
  const log = join(directory, "not-there-yet", "debug.log");
  const server = await startServer({ args: [...FLAGS, "--debug", log] });
  try {
    const connection = server.connectionString.replaceAll("0.0.0.0", "127.0.0.1");
    const blobs = BlobServiceClient.fromConnectionString(connection);
    await blobs.getContainerClient("swapped").create();
    const queues = QueueServiceClient.fromConnectionString(connection);
    await queues.getQueueClient("swapped").create();
    const options = { allowInsecureConnection: true };
    const table = TableClient.fromConnectionString(connection, "swapped", options);
    await table.createTable();
    await table.createEntity({ partitionKey: "p", rowKey: "r" });
    assert.equal((await table.getEntity("p", "r")).rowKey, "r");
  } finally {
    assert.equal(await server.stop(), 0);
    assert.match(readFileSync(log, "utf8"), /"Create Container"/);
    rmSync(directory, { recursive: true });
  }
});

test("a directory with Azurite's data is told of, and left as it is", async () => {
  const directory = mkdtempSync(join(tmpdir(), "lazuli-test-"));
  const path = join(directory, "__azurite_db_blob__.json");
  writeFileSync(path, "{}");
  const server = await startServer({ directory });
  assert.match(server.output(), /^ {2}Azurite's data, .* is not served: docs\/azurite\.md /m);
  await server.stop("keep");
  assert.equal(readFileSync(path, "utf8"), "{}");
  rmSync(directory, { recursive: true });
});

test("who reads what the server says may go", async () => {
  const child = spawn(process.execPath, ["src/main.ts", "--help"], { stdio: "pipe" });
  child.stdout.destroy();
  const [said, [code]] = await Promise.all([text(child.stderr), once(child, "exit")]);
  assert.deepEqual([code, said], [0, ""]);
});
