import assert from "node:assert/strict";
import { test } from "node:test";
import { Progress, sizeText } from "./progress.ts";

function watched(isTerminal: boolean) {
  const clock = { at: 0 };
  const written: string[] = [];
  const write = (text: string) => void written.push(text);
  return { clock, written, progress: new Progress({ write, isTerminal, now: () => clock.at }) };
}

test("Progress: a terminal's line is written over, and taken away at the end", () => {
  const { clock, written, progress } = watched(true);
  for (const text of ["a", "b"]) progress.tell(() => text);
  clock.at = 100;
  progress.tell(() => "c");
  progress.clear();
  progress.clear();
  assert.deepEqual(written, ["\r\u001b[Ka", "\r\u001b[Kc", "\r\u001b[K"]);
});

test("Progress: elsewhere a line comes every five seconds, and none for what is short", () => {
  const { clock, written, progress } = watched(false);
  for (clock.at = 0; clock.at <= 10_000; clock.at += 500) progress.tell(() => String(clock.at));
  progress.clear();
  assert.deepEqual(written, ["5000\n", "10000\n"]);
});

test("sizeText(): sizes as people read them", () => {
  const sizes = [0, 1023, 1024, 1536 * 1024, 5 * 2 ** 40, 2 ** 60].map(sizeText);
  const want = ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "5.0 TiB", "1048576.0 TiB"];
  assert.deepEqual(sizes, want);
});
