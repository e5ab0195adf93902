import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { send } from "../acceptance/raw.ts";
import { startServer, type TestServer } from "../acceptance/server.ts";
import { RoundLoad } from "./backup-load.ts";
import { run } from "./command.ts";

const root = mkdtempSync(join(tmpdir(), "lazuli-backup-"));
const started: TestServer[] = [];
after(async () => {
  for (const server of started) await server.kill().catch(() => {}); // most have ended by themselves
  rmSync(root, { recursive: true, force: true });
});
async function start(directory = newDirectory()): Promise<TestServer> {
  const server = await startServer({ directory });
  started.push(server);
  return server;
}
const path = (name: string) => join(root, name);
const newDirectory = () => mkdtempSync(join(root, "data-"));
const backUp = (server: TestServer, to: string) =>
  run("backup", "--location", server.directory, "--to", to);
const restore = (from: string, to: string) => run("restore", "--from", from, "--location", to);

async function put(server: TestServer, name: string, body: Buffer): Promise<void> {
  const headers = { "x-ms-blob-type": "BlockBlob" };
  const reply = await send(server, { method: "PUT", path: `/files/${name}`, headers, body });
  assert.equal(reply.status, 201, reply.text);
}

async function startWithFiles(count: number): Promise<TestServer> {
  const server = await start();
  const query = { restype: "container" };
  assert.equal((await send(server, { method: "PUT", path: "/files", query })).status, 201);
  for (let i = 0; i < count; i++) await put(server, `b${i}`, bodyOf(i));
  return server;
}

const bodyOf = (index: number) => Buffer.alloc(300_000, `${index};`);

test("Backups and checks under load: all that was acknowledged is in them, and nothing half", async (t) => {
  const server = await start();
  const load = new RoundLoad(6);
  await load.prepare(server);
  const running = load.run(server);
  await wait(500);

  const checked = await run("check", "--location", server.directory);
  assert.equal(checked.code, 0, checked.stdout + checked.stderr);

  const first = await backUp(server, path("loaded"));
  assert.equal(first.code, 0, first.stdout + first.stderr);
  const laterLeast = load.least();
  const second = await backUp(server, path("loaded"));
  assert.equal(second.code, 0, second.stdout + second.stderr);
  const laterBounds = load.bounds(laterLeast);
  load.end();
  await running;
  t.diagnostic(`${load.rounds} rounds; ${first.stdout.trim()}`);
  assert.equal(await server.stop("keep"), 0, server.output());

  const restored = await restore(path("loaded"), path("restored"));
  assert.equal(restored.code, 0, restored.stdout + restored.stderr);
  assert.match(restored.stdout, / 0 problems\nRestored /);
  const again = await start(path("restored"));
  await load.verify(again, laterBounds);
  await again.stop();

  const served = await start(path("loaded"));
  await load.verify(served, laterBounds);
  await served.stop("keep");
  assert.ok(!existsSync(join(path("loaded"), "lazuli.backup")), "it is a data directory now");
  const refused = await restore(path("loaded"), path("none"));
  assert.match(refused.stderr, /^The directory \S+ holds no backup\.\n$/);
  rmSync(server.directory, { recursive: true });
});

test("A backup is renewed: only new files are copied, old ones go, and reused names are noticed", async () => {
  const server = await startWithFiles(6);
  const target = path("renewed");
  assert.match((await backUp(server, target)).stdout, /6 files with .* of which 6 with/);
  assert.match((await backUp(server, target)).stdout, /6 files with .* of which 0 with/);
  // The new bytes go into files that were freed, whose names the backup knows.
  const before = new Set(globSync(join(target, "chunks/*/*")));
  await put(server, "b0", bodyOf(100));
  await put(server, "b1", bodyOf(101));
  await put(server, "b2", bodyOf(102));
  const { stdout } = await backUp(server, target);
  assert.match(stdout, /6 files with .* of which 3 with/);
  const now = globSync(join(target, "chunks/*/*"));
  assert.equal(now.length, 6);
  assert.ok(now.filter((name) => before.has(name)).length > 3, "no name was used again");
  // One that is damaged in the backup is copied anew.
  const [broken = ""] = now;
  const bytes = readFileSync(broken);
  bytes[1000] = (bytes[1000] ?? 0) + 1;
  writeFileSync(broken, bytes);
  assert.match((await backUp(server, target)).stdout, /of which 1 with/);
  await server.stop();
  assert.equal((await restore(target, path("renewed-data"))).code, 0);
  const again = await start(path("renewed-data"));
  for (const [name, index] of [
    ["b0", 100],
    ["b1", 101],
    ["b2", 102],
    ["b3", 3],
  ] as const) {
    const reply = await send(again, { method: "GET", path: `/files/${name}` });
    assert.ok(reply.body.equals(bodyOf(index)), name);
  }
  await again.stop();
});

/** Begins a backup and kills it as soon as `isDue`; whether it was still at it. */
async function killedBackup(
  server: TestServer,
  target: string,
  isDue: () => boolean,
): Promise<boolean> {
  const args = ["src/main.ts", "backup", "--location", server.directory, "--to", target];
  const child: ChildProcess = spawn(process.execPath, args, { stdio: "ignore" });
  const exited = once(child, "exit");
  while (!isDue() && child.exitCode === null) await wait(1);
  child.kill("SIGKILL");
  await exited;
  return child.signalCode === "SIGKILL";
}

test("SIGKILL in the middle of a backup: the server goes on, and the target is refused", async () => {
  const server = await startWithFiles(60);
  const files = (target: string) => globSync(join(target, "chunks/*/*")).length;
  const places: [what: string, isDue: (target: string) => boolean][] = [
    ["at the beginning", (target) => existsSync(join(target, "lazuli.backup"))],
    ["at the records", (target) => existsSync(join(target, "lazuli.db.new"))],
    ["at the files", (target) => files(target) > 20],
  ];
  for (const [index, [what, isDue]] of places.entries()) {
    const target = path(`killed-${index}`);
    assert.ok(await killedBackup(server, target, () => isDue(target)), `${what}: it was too fast`);
    const refused = await restore(target, path("none"));
    assert.equal(refused.code, 1, what);
    assert.match(
      refused.stderr,
      /^The backup in \S+ was not finished: run lazuli backup again\.\n$/,
    );
    await put(server, `after-${index}`, bodyOf(index));
  }
  const serving = await run("--location", path("killed-0"), "--blobPort", "0");
  assert.equal(serving.code, 1);
  assert.match(
    serving.stderr,
    /^The directory \S+ holds a backup or restore that was not finished/,
  );
  const finished = await backUp(server, path("killed-2"));
  assert.match(finished.stdout, /63 files with/);
  assert.match(finished.stdout, /of which [1-4]\d with/, "what was copied before is used");

  // One that renews a backup leaves the state before it whole, until it switches.
  for (let i = 0; i < 40; i++) await put(server, `b${i}`, bodyOf(1000 + i));
  const target = path("killed-2");
  const isDue = () => globSync(join(target, "chunks/*/*.new")).length > 3;
  assert.ok(await killedBackup(server, target, isDue), "it was too fast");
  const restored = await restore(target, path("before"));
  assert.equal(restored.code, 0, restored.stdout + restored.stderr);
  assert.equal(await server.stop("keep"), 0);
  const checked = await run("check", "--location", server.directory);
  assert.equal(checked.code, 0, checked.stdout);
  rmSync(server.directory, { recursive: true });
});

test("A server that is killed in the middle of a backup ends it with a sentence", async () => {
  const server = await startWithFiles(60);
  const target = path("orphaned");
  const ended = backUp(server, target);
  while (globSync(join(target, "chunks/*/*")).length === 0) await wait(1);
  await server.kill();
  const { code, stderr } = await ended;
  assert.equal(code, 1);
  assert.match(stderr, /^The server of \S+ has stopped meanwhile: run this again\.\n$/);
  const { code: checked, stdout } = await run("check", "--location", server.directory);
  assert.equal(checked, 0, stdout);
  assert.equal((await backUp(server, target)).code, 0, "and a stopped store is backed up as well");
});

test("A target that is full is told in a sentence", async (t) => {
  const target = path("small");
  mkdirSync(target);
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=3m", "lazuli", target]);
  if (mounted.status !== 0) return t.skip("needs the right to mount a small disk");
  try {
    const server = await startWithFiles(20);
    const { code, stderr } = await backUp(server, target);
    assert.equal(code, 1);
    assert.match(stderr, /^There is not enough room in \S+: what is there is not finished\.\n$/);
    assert.match((await restore(target, path("none"))).stderr, /was not finished/);
    await put(server, "after", bodyOf(1));
    await server.stop();
  } finally {
    spawnSync("umount", [target]);
  }
});

test("What cannot be is refused with a sentence", async () => {
  const server = await startWithFiles(1);
  const full = path("full");
  mkdirSync(full);
  writeFileSync(join(full, "note"), "mine");
  assert.equal((await backUp(server, path("good"))).code, 0);
  for (const [args, message] of [
    [["backup", "--location", server.directory, "--to", full], /neither empty nor a backup\.\n$/],
    [["backup", "--location", path("none"), "--to", path("x")], /^There is no data in /],
    [["restore", "--from", full, "--location", path("x")], /holds no backup\.\n$/],
    [["restore", "--from", path("good"), "--location", full], /is not empty: a restore needs/],
  ] as const) {
    const { code, stderr } = await run(...args);
    assert.equal(code, 1, args.join(" "));
    assert.match(stderr, message);
  }
  await server.stop();
});
