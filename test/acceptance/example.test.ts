import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { promisify } from "node:util";
import { startServer } from "./server.ts";

test("examples/counter.ts runs, and is what the README shows", async () => {
  const server = await startServer();
  const env = { ...process.env, AZURE_STORAGE_CONNECTION_STRING: server.connectionString };
  const { stdout } = await promisify(execFile)(process.execPath, ["examples/counter.ts"], { env });
  await server.stop();
  assert.equal(stdout, "20\n");
  const shown = /```ts\n([\s\S]*?)```/.exec(readFileSync("README.md", "utf8"))?.[1];
  assert.equal(shown, readFileSync("examples/counter.ts", "utf8"));
});
