import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import type { TestServer } from "../acceptance/server.ts";
import { backUp, bodyOf, path, put, restore, startWithFiles } from "./backups.ts";
import { run } from "./command.ts";

const ATTEMPTS = 20;

/**
 * Begins a command and kills it as soon as `isDue`. One that was over by then is begun again, after `again` has put
 * things back as they were before.
 */
async function killed(
  command: readonly string[],
  isDue: () => boolean,
  again: () => Promise<void> | void,
): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const args = ["src/main.ts", ...command];
    const child: ChildProcess = spawn(process.execPath, args, { stdio: "ignore" });
    const exited = once(child, "exit");
    while (!isDue() && child.exitCode === null) await wait(1);
    child.kill("SIGKILL");
    await exited;
    if (child.signalCode === "SIGKILL") return;
    await again();
  }
  assert.fail(`${command[0]} was too fast ${ATTEMPTS} times`);
}

const backup = (server: TestServer, target: string) => [
  ...["backup", "--location", server.directory],
  ...["--to", target],
];

const gone = (directory: string) => () => rmSync(directory, { recursive: true, force: true });

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
    await killed(backup(server, target), () => isDue(target), gone(target));
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
  assert.match(serving.stderr, /^The directory \S+ holds a backup that was not finished/);
  const finished = await backUp(server, path("killed-2"));
  assert.match(finished.stdout, /63 files with/);
  assert.match(finished.stdout, /of which [1-4]\d with/, "what was copied before is used");

  // One that renews a backup leaves the state before it whole, until it switches.
  const target = path("killed-2");
  let count = 0;
  const more = async () => {
    for (const end = count + 40; count < end; count++) {
      await put(server, `b${count}`, bodyOf(1000 + count));
    }
  };
  await more();
  const isDue = () => globSync(join(target, "chunks/*/*.new")).length > 3;
  await killed(backup(server, target), isDue, more);
  const restored = await restore(target, path("before"));
  assert.equal(restored.code, 0, restored.stdout + restored.stderr);
  assert.equal(await server.stop("keep"), 0);
  const checked = await run("check", "--location", server.directory);
  assert.equal(checked.code, 0, checked.stdout);
  rmSync(server.directory, { recursive: true });
});

test("SIGKILL in the middle of a restore: the directory is refused until the restore is run again", async () => {
  const server = await startWithFiles(60);
  assert.equal((await backUp(server, path("whole"))).code, 0);
  assert.equal(await server.stop("keep"), 0);
  const saysSwitching = (to: string) => {
    const mark = join(to, "lazuli.backup");
    return existsSync(mark) && readFileSync(mark, "utf8").includes("switching");
  };
  const places: [what: string, isDue: (to: string) => boolean][] = [
    ["at the files", (to) => globSync(join(to, "chunks/*/*")).length > 20],
    ["at its switch or its check", saysSwitching],
  ];
  for (const [index, [what, isDue]] of places.entries()) {
    const to = path(`restored-${index}`);
    const args = ["restore", "--from", path("whole"), "--location", to];
    await killed(args, () => isDue(to), gone(to));
    const { code, stderr } = await run("--location", to, "--blobPort", "0");
    assert.equal(code, 1, what);
    assert.match(
      stderr,
      /^The directory \S+ holds a restore that was not finished: run lazuli restore again\.\n$/,
    );
    if (index === 0) {
      assert.match((await restore(to, path("none"))).stderr, /holds no backup\.\n$/);
      assert.match((await backUp(server, to)).stderr, /neither empty nor a backup\.\n$/);
    }
    const again = await restore(path("whole"), to);
    assert.equal(again.code, 0, again.stdout + again.stderr);
    assert.equal(globSync(join(to, "chunks/*/*")).length, 60, what);
    assert.ok(!existsSync(join(to, "lazuli.backup")), what);
  }
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
  const stopped = await backUp(server, target);
  assert.match(stopped.stdout, / 60 files with /, "and a stopped store is backed up as well");
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
