import assert from "node:assert/strict";
import {
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { send } from "../acceptance/raw.ts";
import { RoundLoad } from "./backup-load.ts";
import { backUp, bodyOf, path, put, restore, start, startWithFiles } from "./backups.ts";
import { run } from "./command.ts";

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

test("A backup that was cut short at its switch of names is finished by a restore, and by the next backup", async () => {
  const server = await startWithFiles(3);
  const cut = async (target: string) => {
    assert.equal((await backUp(server, target)).code, 0);
    const before = globSync(join(target, "chunks/*/*"));
    renameSync(join(target, "lazuli.db"), join(target, "lazuli.db.new"));
    writeFileSync(join(target, "lazuli.db"), "of the state before");
    for (const [index, file] of before.entries()) {
      if (index === 0) continue; // this one has its name already
      renameSync(file, `${file}.new`);
      if (index === 1) writeFileSync(file, "of the state before");
    }
    writeFileSync(join(dirname(before[0] ?? ""), "old-1024"), "of the state before");
    const mark = { state: "switching", at: "then" };
    writeFileSync(join(target, "lazuli.backup"), JSON.stringify(mark));
    const { stderr } = await run("check", "--location", target);
    assert.match(stderr, /: lazuli restore --from \S+ finishes it\.\n$/);
  };
  await cut(path("cut"));
  const restored = await restore(path("cut"), path("from-cut"));
  assert.equal(restored.code, 0, restored.stdout + restored.stderr);
  assert.match(restored.stdout, /from the backup of then /);
  const { code, stdout } = await run("check", "--location", path("cut"));
  assert.equal(code, 0, stdout);
  await cut(path("cut-again"));
  const again = await backUp(server, path("cut-again"));
  assert.match(again.stdout, /3 files with .*, of which 0 with/, again.stderr);
  await server.stop();
});

test("Records that are damaged do not take the place of good ones in a backup, and are told of in sentences", async () => {
  const server = await startWithFiles(1);
  const target = path("last-good");
  assert.equal((await backUp(server, target)).code, 0);
  await server.stop("keep");
  const database = join(server.directory, "lazuli.db");
  const bytes = readFileSync(database);
  writeFileSync(database, bytes.fill(0xee, 8192, 2 * 8192));
  const renewed = await backUp(server, target);
  assert.equal(renewed.code, 1);
  assert.match(renewed.stderr, /^The records of \S+ are damaged \(.*\): what is in \S+ stays/);
  const checked = await run("check", "--location", server.directory);
  assert.equal(checked.code, 1);
  assert.match(checked.stdout, /^database: .*malformed/);
  assert.match(checked.stderr, /^The records of \S+ cannot be read to their end: .*\.\n$/);
  const restored = await restore(target, path("from-last-good"));
  assert.equal(restored.code, 0, restored.stdout + restored.stderr);
});

test("Data and backups are their owner's alone, also in directories that others may look into", async () => {
  const data = path("open-data");
  const copy = path("open-copy");
  for (const directory of [data, copy]) mkdirSync(directory, { mode: 0o755 });
  const server = await start(data);
  assert.equal((await backUp(server, copy)).code, 0);
  for (const file of globSync(`{${data},${copy}}/*`)) {
    assert.equal(statSync(file).mode & 0o077, 0, file);
  }
  await server.stop();
});

test("What cannot be is refused with a sentence", async () => {
  const server = await startWithFiles(1);
  const full = path("full");
  mkdirSync(full);
  const note = join(full, "note");
  writeFileSync(note, "mine");
  const linked = join(path("link"), "monday");
  symlinkSync(server.directory, path("link"));
  assert.equal((await backUp(server, path("good"))).code, 0);
  for (const [args, message] of [
    [["backup", "--location", server.directory, "--to", full], /neither empty nor a backup\.\n$/],
    [["backup", "--location", server.directory, "--to", "/proc/lazuli"], /cannot be made: .*\.\n$/],
    [["backup", "--location", path("none"), "--to", path("x")], /^There is no data in /],
    [["restore", "--from", full, "--location", path("x")], /holds no backup\.\n$/],
    [["restore", "--from", path("good"), "--location", full], /is not empty: a restore needs/],
    [["backup", "--location", server.directory, "--to", linked], /is inside of .*\.\n$/],
    [["backup", "--location", path("good"), "--to", path("good")], /is inside of .*\.\n$/],
    [["check", "--location", note], /^The directory \S+ cannot be used: ENOTDIR[^\n]*\.\n$/],
    [["restore", "--from", note, "--location", path("x")], /cannot be used: ENOTDIR[^\n]*\.\n$/],
    [["restore", "--from", path("good"), "--location", note], /be used: ENOTDIR[^\n]*\.\n$/],
  ] as const) {
    const { code, stderr } = await run(...args);
    assert.equal(code, 1, args.join(" "));
    assert.match(stderr, message);
  }
  await server.stop();
});
