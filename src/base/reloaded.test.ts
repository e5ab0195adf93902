import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Log } from "./log.ts";
import { silentLog } from "./log.ts";
import { reloaded } from "./reloaded.ts";

test("reloaded(): a bad file at first throws, later it is told and the value stays", () => {
  const folder = mkdtempSync(join(tmpdir(), "lazuli-reloaded-"));
  const told: string[] = [];
  const changes: number[] = [];
  const log: Log = { ...silentLog, error: (message) => void told.push(message) };
  let next: number | undefined;
  const read = () => {
    if (next === undefined) throw new Error("it is bad.");
    return next;
  };
  const options = { what: "the numbers", paths: [join(folder, "n")], read, log };
  const start = () =>
    reloaded({ ...options, onChange: (value: number) => void changes.push(value) });
  assert.throws(start, /it is bad/);
  next = 1;
  const value = start();
  assert.equal(value.get(), 1);
  next = 2;
  assert.equal(value.get(), 1);
  value.reload();
  assert.equal(value.get(), 2);
  next = undefined;
  value.reload();
  assert.equal(value.get(), 2);
  assert.deepEqual([told, changes], [["the numbers stay as they were"], [2]]);
  value.stop();
  rmSync(folder, { recursive: true });
});
