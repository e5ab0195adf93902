import { join } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { type Instant, instantOf } from "../../base/time.ts";
import type { Engine } from "../engine.ts";
import { OpenError } from "../open-error.ts";
import { isNewDatabase, lastIn, lockedDirectory, reading } from "./database.ts";
import { SnapshotTx } from "./engine.ts";

/** How many pages are copied in one go: a few milliseconds' work, between which others get the disk. */
const COPY_PAGES = 256;
const COMPLAINTS_MAX = 20;

/** One state of a store's records, whoever else writes to it meanwhile. */
export type RecordSnapshot = {
  /** Reads that state, and cannot write. */
  readonly engine: Engine;
  /** What SQLite finds wrong with the file itself, a line each. */
  complaints(): readonly string[];
  /** Makes a database of that state at `path`, which the caller syncs; tells how far it has come, from 0 to 1. */
  copyTo(path: string, told: (share: number) => void): Promise<void>;
  close(): void;
};

/**
 * Opens the records below `directory` as they are now. Beside a running server this takes no lock that it
 * waits for; only the log of writes grows until the snapshot is closed.
 */
export function openSnapshot(directory: string, file = "lazuli.db"): RecordSnapshot {
  const path = join(directory, file);
  let sql: DatabaseSync | undefined;
  let last: bigint;
  try {
    sql = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
    sql.exec("BEGIN");
    if (isNewDatabase(sql, path)) throw new OpenError(`${path} is empty.`);
    const tick = sql.prepare("SELECT last FROM tick");
    tick.setReadBigInts(true);
    last = lastIn(tick, path);
  } catch (error) {
    sql?.close();
    if (error instanceof OpenError) throw error;
    throw new OpenError(`${path} cannot be read: ${(error as Error).message}.`);
  }
  const source = sql;
  const now: Instant = instantOf(last);
  const tx = new SnapshotTx(reading(source), now);
  return {
    engine: {
      read: (body) => body(tx),
      write: () => Promise.reject(new Error("a snapshot is not written to")),
      settled: async () => {},
      close: async () => source.close(),
    },
    complaints() {
      try {
        const rows = source.prepare(`PRAGMA quick_check(${COMPLAINTS_MAX})`).all();
        const lines = rows.map((row) => String(Object.values(row)[0]));
        if (lines[0] !== "ok") return lines.map((line) => line.replaceAll("\n", ", "));
        const beyond = source.prepare("SELECT count(*) AS n FROM heap WHERE id > ?").get(last)?.n;
        return beyond === 0 ? [] : [`${beyond} heap values are newer than its last number`];
      } catch (error) {
        return [(error as Error).message];
      }
    },
    async copyTo(to, told) {
      // SQLite begins such a copy anew when another process writes; here the open transaction keeps the state.
      const progress = ({
        totalPages,
        remainingPages,
      }: {
        readonly totalPages: number;
        readonly remainingPages: number;
      }) => told(1 - remainingPages / totalPages);
      await backup(source, to, { rate: COPY_PAGES, progress });
      // One file by itself, which can be read where nothing can be written.
      const copy = new DatabaseSync(to);
      copy.exec("PRAGMA journal_mode = DELETE");
      copy.close();
    },
    close() {
      if (source.isOpen) source.close();
    },
  };
}

/** Keeps servers out of a directory until the returned function is called; throws if there is one. */
export function lockDirectory(directory: string): () => void {
  const lock = lockedDirectory(directory);
  return () => lock.close();
}
