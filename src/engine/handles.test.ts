import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { type Disk, realDisk } from "./disk.ts";
import { Handles } from "./handles.ts";

/** A disk that only counts: descriptors go up from 1. */
function counting() {
  const calls: string[] = [];
  let last = 0;
  const disk: Disk = {
    ...realDisk,
    async open(path, which) {
      calls.push(`open ${path} ${which}`);
      await turn();
      if (path.endsWith("missing"))
        throw Object.assign(new Error("no such file"), { code: "ENOENT" });
      return ++last;
    },
    async close(file) {
      calls.push(`close ${file}`);
    },
  };
  return { calls, handles: new Handles(disk, (name) => `at/${name}`) };
}

test("Handles: a file is opened once for all who use it, at once or one after another", async () => {
  const { calls, handles } = counting();
  assert.deepEqual(await Promise.all([handles.take("a", "new"), handles.take("a", "old")]), [1, 1]);
  handles.give("a");
  handles.give("a");
  assert.equal(await handles.take("a", "old"), 1);
  assert.deepEqual(calls, ["open at/a new"]);
});

test("Handles: of those that nobody uses the last 128 stay open, and all that are used", async () => {
  const { calls, handles } = counting();
  await handles.take("used", "old");
  for (let i = 0; i < 129; i++) {
    await handles.take(`f${i}`, "old");
    handles.give(`f${i}`);
    // The first one is used again and again, so that it is not the oldest.
    if (i > 0) await handles.take("f0", "old");
    if (i > 0) handles.give("f0");
  }
  await turn();
  assert.deepEqual(
    calls.filter((call) => call.startsWith("close")),
    ["close 3"],
    "f1 was the oldest",
  );
});

test("Handles: a file that is dropped is closed when nobody uses it any more", async () => {
  const { calls, handles } = counting();
  await handles.take("a", "old");
  await handles.take("a", "old");
  handles.drop("a");
  handles.give("a");
  await turn();
  assert.deepEqual(calls, ["open at/a old"]);
  handles.give("a");
  await turn();
  assert.deepEqual(calls, ["open at/a old", "close 1"]);
  assert.equal(await handles.take("a", "old"), 2, "and opened anew by the next one");
});

test("Handles: a file that cannot be opened fails all who wait for it, and is tried again", async () => {
  const { calls, handles } = counting();
  const take = () => assert.rejects(handles.take("missing", "old"), { code: "ENOENT" });
  await Promise.all([take(), take()]);
  await take();
  assert.equal(calls.length, 2);
  await handles.close();
});

test("Handles: close closes what nobody uses at once, and the rest later", async () => {
  const { calls, handles } = counting();
  await handles.take("a", "old");
  await handles.take("b", "old");
  handles.give("a");
  await handles.close();
  assert.deepEqual(calls.slice(2), ["close 1"]);
  handles.give("b");
  await turn();
  assert.deepEqual(calls.slice(2), ["close 1", "close 2"]);
});
