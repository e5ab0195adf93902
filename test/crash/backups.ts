import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { send } from "../acceptance/raw.ts";
import { startServer, type TestServer } from "../acceptance/server.ts";
import { run } from "./command.ts";

const root = mkdtempSync(join(tmpdir(), "lazuli-backup-"));
const started: TestServer[] = [];
after(async () => {
  for (const server of started) await server.kill().catch(() => {}); // most have ended by themselves
  rmSync(root, { recursive: true, force: true });
});
export async function start(directory = newDirectory()): Promise<TestServer> {
  const server = await startServer({ directory });
  started.push(server);
  return server;
}
export const path = (name: string) => join(root, name);
const newDirectory = () => mkdtempSync(join(root, "data-"));
export const backUp = (server: TestServer, to: string) =>
  run("backup", "--location", server.directory, "--to", to);
export const restore = (from: string, to: string) =>
  run("restore", "--from", from, "--location", to);

export async function put(server: TestServer, name: string, body: Buffer): Promise<void> {
  const headers = { "x-ms-blob-type": "BlockBlob" };
  const reply = await send(server, { method: "PUT", path: `/files/${name}`, headers, body });
  assert.equal(reply.status, 201, reply.text);
}

export async function startWithFiles(count: number): Promise<TestServer> {
  const server = await start();
  const query = { restype: "container" };
  assert.equal((await send(server, { method: "PUT", path: "/files", query })).status, 201);
  for (let i = 0; i < count; i++) await put(server, `b${i}`, bodyOf(i));
  return server;
}

export const bodyOf = (index: number) => Buffer.alloc(300_000, `${index};`);
