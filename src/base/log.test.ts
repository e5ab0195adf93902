import assert from "node:assert/strict";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileLog, type Log, type LogLevel, logLevels, silentLog } from "./log.ts";

const time = Date.UTC(2026, 0, 2, 3, 4, 5, 6);

/** What `use` makes a log of this level write, as lines. */
function written(level: LogLevel, use: (log: Log, read: () => string) => void): string[] {
  const folder = mkdtempSync(join(tmpdir(), "lazuli-log-"));
  const file = join(folder, "log");
  const descriptor = openSync(file, "w");
  try {
    const log = fileLog({ descriptor }, level, () => time);
    use(log, () => readFileSync(file, "utf8"));
    log.flush();
    const text = readFileSync(file, "utf8");
    assert.ok(text === "" || text.endsWith("\n"), "the last line is ended too");
    return text.split("\n").slice(0, -1);
  } finally {
    closeSync(descriptor);
    rmSync(folder, { recursive: true });
  }
}

const all = ["debug", "info", "warn", "error"] as const;
const speak = (log: Log) => {
  for (const level of all) log[level](`a ${level}`);
};

// A log says what is of its level or graver.
const levels: [level: LogLevel, want: readonly string[], requests: boolean][] = [
  ["debug", all, true],
  ["info", ["info", "warn", "error"], true],
  ["warn", ["warn", "error"], false],
  ["error", ["error"], false],
  ["off", [], false],
];
for (const [level, want, requests] of levels) {
  test(`fileLog(): ${level} says ${want.join(", ") || "nothing"}`, () => {
    const lines = written(level, (log) => {
      assert.equal(log.requests, requests);
      speak(log);
    });
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).level),
      want,
    );
  });
}

test("fileLog(): a line is one JSON object with time, level, message and fields", () => {
  const lines = written("info", (log) => log.info("served", { status: 200, path: "/a" }));
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)),
    [
      {
        time: "2026-01-02T03:04:05.006Z",
        level: "info",
        message: "served",
        status: 200,
        path: "/a",
      },
    ],
  );
});

test("fileLog(): nothing in a field can end a line", () => {
  const path = 'a\nb\r\n"{}\u2028\u0000';
  const lines = written("info", (log) => {
    log.info("one", { path });
    log.info("two");
  });
  assert.equal(lines.length, 2);
  assert.equal(JSON.parse(lines[0] ?? "").path, path);
});

test("fileLog(): an error is written at once, after what was held back", () => {
  written("info", (log, read) => {
    log.info("first");
    log.error("second");
    const messages = read()
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line).message);
    assert.deepEqual(messages, ["first", "second"]);
  });
});

test("fileLog(): many lines are not held back for ever", () => {
  const lines = written("info", (log, read) => {
    for (let i = 0; i < 1_000; i++) log.info("served", { path: "a".repeat(200) });
    assert.ok(read().length > 0);
  });
  assert.equal(lines.length, 1_000);
});

test("fileLog(): flush() writes once, and twice is no harm", () => {
  const lines = written("info", (log) => {
    log.info("one");
    log.flush();
    log.flush();
  });
  assert.equal(lines.length, 1);
});

test("fileLog(): a descriptor that takes nothing does not stop the server", () => {
  const log = fileLog({ descriptor: 1_000_000 }, "info", () => time);
  log.error("lost");
  log.info("lost too");
  log.flush();
});

test("silentLog: says nothing of requests", () => {
  assert.equal(silentLog.requests, false);
  speak(silentLog);
  silentLog.flush();
});

test("logLevels: from most to least", () =>
  assert.deepEqual(logLevels, ["debug", "info", "warn", "error", "off"]));
