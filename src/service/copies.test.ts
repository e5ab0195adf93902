import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { silentLog } from "../base/log.ts";
import { memoryEngine } from "../engine/memory.ts";
import { BackgroundCopies } from "./copies.ts";

test("copies that fail by themselves are tried again after a second, and those behind them at once", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const tried: string[] = [];
  const left = new Set(["a", "b", "c", "d"]);
  let isFull = true;
  const copies = new BackgroundCopies<readonly [string], string>({
    engine: memoryEngine({ clock: { now: () => 0 } }),
    log: silentLog,
    isWanted: async (_tx, [name]) => left.has(name),
    waiting: async (_tx, limit) =>
      [...left].slice(0, limit).map((name) => ({ key: [name] as const, value: name })),
    async make([name]) {
      tried.push(name);
      await turn();
      if (isFull && name < "c") throw new Error("the disk is full");
      left.delete(name);
    },
  });
  const settled = async () => {
    for (let i = 0; i < 50; i++) await turn();
  };
  await copies.wake();
  await settled();
  assert.deepEqual(tried, ["a", "b", "c", "d"]);
  isFull = false;
  t.mock.timers.tick(999);
  await settled();
  assert.equal(tried.length, 4);
  t.mock.timers.tick(1);
  await settled();
  assert.deepEqual(tried.slice(4).toSorted(), ["a", "b"]);
  assert.equal(left.size, 0);
  await copies.stop();
});
