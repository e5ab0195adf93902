import { writeSync } from "node:fs";

const levels = ["debug", "info", "warn", "error", "off"] as const;
export type LogLevel = (typeof levels)[number];
export const logLevels: readonly string[] = levels;

/** One JSON object a line; `fields` are named values, and the message is a fixed text. */
export type Log = {
  readonly requests: boolean;
  debug(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
  /** Writes what is still held back; lines are gathered so that a busy server writes seldom. */
  flush(): void;
};

type Fields = Readonly<Record<string, unknown>>;

/** JSON has no numbers of 64 bits. */
const plain = (_name: string, value: unknown) =>
  typeof value === "bigint" ? String(value) : value;

const FLUSH_MS = 50;
const HELD_MAX = 64 * 1024;

/** Where a log goes; the descriptor may change. */
export type LogFile = { readonly descriptor: number };

/** A log to a file. A pipe that takes no more loses lines rather than stopping the server. */
export function fileLog(file: LogFile, least: LogLevel, now: () => number): Log {
  const from = levels.indexOf(least);
  let held = "";
  let timer: NodeJS.Timeout | undefined;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    const text = held;
    held = "";
    if (text === "") return;
    try {
      writeSync(file.descriptor, text);
    } catch {
      // Nobody reads it, or not fast enough; the server goes on.
    }
  };
  const line = (level: LogLevel) => {
    if (levels.indexOf(level) < from) return () => {};
    return (message: string, fields?: Fields) => {
      const entry = { time: new Date(now()).toISOString(), level, message, ...fields };
      held += `${JSON.stringify(entry, plain)}\n`;
      if (held.length > HELD_MAX || level === "error") flush();
      else timer ??= setTimeout(flush, FLUSH_MS).unref();
    };
  };
  return {
    requests: from <= levels.indexOf("info"),
    debug: line("debug"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
    flush,
  };
}

/** Says nothing; for tests. */
export const silentLog: Log = fileLog({ descriptor: 1 }, "off", () => 0);
