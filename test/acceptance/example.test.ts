import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { promisify } from "node:util";
import { send } from "./raw.ts";
import { startServer } from "./server.ts";

/** Each example, and what it prints. */
const examples: [path: string, prints: string][] = [
  ["examples/counter.ts", "20\n"],
  ["examples/work-queue.ts", "55\n"],
  ["examples/seats.ts", "1 1\n"],
  ["examples/files.ts", "Monday: it rains.\nMonday: the sun shines.\n"],
];

for (const [path, prints] of examples) {
  test(`${path} runs, and is what the README shows`, async () => {
    const server = await startServer();
    const env = { ...process.env, AZURE_STORAGE_CONNECTION_STRING: server.connectionString };
    const { stdout } = await promisify(execFile)(process.execPath, [path], { env });
    await server.stop();
    assert.equal(stdout, prints);
    const shown = readFileSync("README.md", "utf8").matchAll(/```ts\n([\s\S]*?)```/g);
    const text = readFileSync(path, "utf8");
    assert.ok(
      [...shown].some(([, block]) => block === text),
      `the README does not show ${path}`,
    );
  });
}

test("examples/concurrency tells its story, which docs/concurrency.md is about", async () => {
  const server = await startServer({ args: ["--smbPort", "any"] });
  const env = {
    ...process.env,
    AZURE_STORAGE_CONNECTION_STRING: server.connectionString,
    LAZULI_SMB_PORT: /^\s*Smb\s+[\d.]+:(\d+)$/m.exec(server.output())?.[1],
  };
  const path = "examples/concurrency/main.ts";
  const { stdout } = await promisify(execFile)(process.execPath, [path], { env });
  const listed = await send(server, { method: "GET", path: "/", query: { comp: "list" } });
  await server.stop();
  assert.equal(stdout, readFileSync("examples/concurrency/story.txt", "utf8"));
  assert.ok(!listed.text.includes("<Container>"), "it leaves nothing behind");
  assert.ok(readFileSync("docs/concurrency.md", "utf8").includes("npm run example:concurrency"));
  assert.ok(readFileSync("README.md", "utf8").includes("npm run example:concurrency"));
});

test("examples/sas.ts runs, as docs/authorization.md says", async () => {
  const server = await startServer();
  const env = { ...process.env, AZURE_STORAGE_CONNECTION_STRING: server.connectionString };
  const args = ["tools/run.mjs", "examples/sas.ts"];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env });
  await server.stop();
  assert.equal(stdout, "attachment; filename=greeting.txt: hello\n");
  assert.ok(readFileSync("docs/authorization.md", "utf8").includes(`node ${args.join(" ")}`));
});

test("examples/from-azurite.ts takes blobs along, as docs/azurite.md says", async () => {
  const [from, to] = await Promise.all([startServer(), startServer()]);
  await send(from, { method: "PUT", path: "/old", query: { restype: "container" } });
  const headers = { "x-ms-blob-type": "BlockBlob", "x-ms-meta-a": "1", "content-type": "a/b" };
  await send(from, { method: "PUT", path: "/old/a b/ü+%", headers, body: "kept" });
  const env = { ...process.env, FROM: from.connectionString, TO: to.connectionString };
  const args = ["tools/run.mjs", "examples/from-azurite.ts"];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env });
  const moved = await send(to, { method: "GET", path: "/old/a b/ü+%" });
  await Promise.all([from.stop(), to.stop()]);
  assert.equal(stdout, "old: 1 blobs\n");
  const { "content-type": type, "x-ms-meta-a": metadata } = moved.headers;
  assert.deepEqual([moved.text, type, metadata], ["kept", "a/b", "1"]);
  assert.ok(readFileSync("docs/azurite.md", "utf8").includes(`node ${args.join(" ")}`));
});
