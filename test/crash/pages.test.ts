import assert from "node:assert/strict";
import { randomBytes, randomInt } from "node:crypto";
import { rmSync } from "node:fs";
import http from "node:http";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { type RawRequest, send } from "../acceptance/raw.ts";
import { startServer, type TestServer } from "../acceptance/server.ts";
import { run } from "./command.ts";

const PAGE = 512;
const PAGES = 1_024;
const SIZE = PAGES * PAGE;
const BLOBS = 24;
const ROUNDS = 2;

/** A page blob that one client writes, one request after another. */
type Disk = {
  readonly path: string;
  bytes: Buffer;
  /** What it may be as well: the request was sent, its reply did not come. */
  inDoubt: Buffer | undefined;
  snapshots: { readonly time: string; readonly bytes: Buffer }[];
};

test("SIGKILL under page writes, twice: nothing acknowledged is lost, nothing is half there", async (t) => {
  const disks = Array.from(
    { length: BLOBS },
    (_, i): Disk => ({
      path: `/disks/${i}`,
      bytes: Buffer.alloc(SIZE),
      inDoubt: undefined,
      snapshots: [],
    }),
  );
  const state = { isDying: false, acknowledged: 0 };
  let server = await startServer();
  const { directory } = server;
  try {
    await made(server, { method: "PUT", path: "/disks", query: { restype: "container" } });
    const headers = { "x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": String(SIZE) };
    for (const { path } of disks) await made(server, { method: "PUT", path, headers });
    for (let round = 0; round < ROUNDS; round++) {
      state.isDying = false;
      const before = state.acknowledged;
      const agent = new http.Agent({ keepAlive: true });
      const running = Promise.all(disks.map((disk) => writeOn(server, disk, state, agent)));
      await Promise.race([running, wait(900 + randomInt(400))]);
      state.isDying = true;
      await server.kill();
      await running;
      agent.destroy();
      assert.ok(state.acknowledged > before, "nothing was acknowledged before the kill");
      server = await startServer({ directory });
      for (const disk of disks) await verify(server, disk);
      t.diagnostic(`round ${round}: ${state.acknowledged - before} acknowledged`);
    }
    assert.equal(await server.stop("keep"), 0, server.output());
    const checked = await run("check", "--location", directory);
    assert.equal(checked.code, 0, `check: ${checked.stdout}${checked.stderr}`);
  } finally {
    await server.kill().catch(() => {});
    rmSync(directory, { recursive: true, force: true });
  }
});

async function made(server: TestServer, request: RawRequest) {
  const reply = await send(server, request);
  assert.equal(reply.status, 201, reply.text);
  return reply;
}

/** Writes, clears and takes snapshots until the server is gone. */
async function writeOn(
  server: TestServer,
  disk: Disk,
  state: { isDying: boolean; acknowledged: number },
  agent: http.Agent,
): Promise<void> {
  const { path } = disk;
  for (;;) {
    const dice = randomInt(100);
    try {
      if (dice < 3) {
        const query = { comp: "snapshot" };
        const reply = await made(server, { method: "PUT", path, query, agent });
        const time = String(reply.headers["x-ms-snapshot"]);
        disk.snapshots.push({ time, bytes: Buffer.from(disk.bytes) });
        continue;
      }
      const isLarge = dice >= 97;
      const count = PAGE * (1 + randomInt(isLarge ? PAGES / 2 : 16));
      const start = PAGE * randomInt((SIZE - count) / PAGE + 1);
      const isClear = dice < 15;
      const next = Buffer.from(disk.bytes);
      const body = isClear ? Buffer.alloc(0) : randomBytes(count);
      if (isClear) next.fill(0, start, start + count);
      else body.copy(next, start);
      disk.inDoubt = next;
      const headers = {
        "x-ms-page-write": isClear ? "clear" : "update",
        "x-ms-range": `bytes=${start}-${start + count - 1}`,
      };
      await made(server, { method: "PUT", path, query: { comp: "page" }, headers, body, agent });
      disk.bytes = next;
      disk.inDoubt = undefined;
      state.acknowledged++;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (!state.isDying || code === undefined || !/^(ECONN|EPIPE)/.test(code)) throw error;
      return;
    }
  }
}

async function verify(server: TestServer, disk: Disk): Promise<void> {
  const { body } = await send(server, { method: "GET", path: disk.path });
  const isNew = disk.inDoubt?.equals(body) ?? false;
  assert.ok(isNew || disk.bytes.equals(body), `${disk.path} is not what it should be`);
  disk.bytes = body;
  disk.inDoubt = undefined;
  for (const { time, bytes } of disk.snapshots.slice(-3)) {
    const query = { snapshot: time };
    const snapshot = await send(server, { method: "GET", path: disk.path, query });
    assert.ok(bytes.equals(snapshot.body), `${disk.path} at ${time} is not what it was`);
  }
}
