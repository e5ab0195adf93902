import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { randomIds } from "../base/ids.ts";
import { silentLog } from "../base/log.ts";
import { askToHold, type Hold, openDoor } from "./door.ts";
import { memoryFiles } from "./memory-files.ts";
import { OpenError } from "./open-error.ts";

const root = mkdtempSync(join(tmpdir(), "lazuli-door-"));
after(() => rmSync(root, { recursive: true, force: true }));
const newDirectory = () => mkdtempSync(join(root, "data-"));

/** Files of which it is known how many keep them. */
function watchedFiles() {
  const files = memoryFiles(randomIds);
  const watched = { keepers: 0 };
  const keepFreed = () => {
    watched.keepers++;
    return () => void watched.keepers--;
  };
  return { files: { ...files, keepFreed }, watched };
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await wait(1);
}

test("openDoor(): files are kept as long as somebody is connected", async () => {
  const directory = newDirectory();
  writeFileSync(join(directory, "lazuli.sock"), ""); // what a crash left
  const { files, watched } = watchedFiles();
  const gate = Promise.withResolvers<void>();
  const engine = { settled: () => gate.promise };
  const door = await openDoor(directory, { engine, files }, silentLog);
  assert.equal(statSync(join(directory, "lazuli.sock")).mode & 0o777, 0o600);
  const asked = [askToHold(directory), askToHold(directory)];
  await until(() => watched.keepers === 2);
  const early = await Promise.race([...asked, wait(50, "nothing")]);
  assert.equal(early, "nothing", "what was answered is not in the snapshot yet");
  gate.resolve();
  const [one, other] = (await Promise.all(asked)) as [Hold, Hold];
  assert.equal(watched.keepers, 2);
  await Promise.all([one.confirm(), other.confirm(), one.confirm()]);
  one.letGo();
  await until(() => watched.keepers === 1);
  await other.confirm();
  door.close();
  await assert.rejects(other.confirm(), (error) => {
    return error instanceof OpenError && /has stopped meanwhile/.test(error.message);
  });
  await until(() => watched.keepers === 0);
});

test("askToHold(): a directory that nobody serves, or that cannot be asked, is an OpenError", async () => {
  await assert.rejects(askToHold(newDirectory()), OpenError);
  const engine = { settled: async () => {} };
  const long = join(root, "x".repeat(120));
  const door = await openDoor(long, { engine, files: memoryFiles(randomIds) }, silentLog);
  await assert.rejects(askToHold(long), OpenError);
  door.close();
});
