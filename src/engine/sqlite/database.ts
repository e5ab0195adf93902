import { closeSync, openSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { Tick } from "../../base/time.ts";
import { keyText, type Snapshot } from "../buffered.ts";
import type { Disk } from "../disk.ts";
import { hasChunkFiles } from "../disk-files.ts";
import type { Entry, RangeQuery } from "../engine.ts";
import { OpenError } from "../open-error.ts";
import { Cache } from "./cache.ts";

/** Of the layout below and of all keys and records; a newer one than ours is refused. */
const FORMAT = 1;
/** "Lazu", so that `file` and others can tell whose database it is. */
const APPLICATION_ID = 0x4c617a75;
const CACHE_KIB = 32 * 1024;
/** A long copy keeps the log of writes from being begun anew; afterwards it is cut to this size again. */
const WAL_SIZE_MAX = 256 * 1024 * 1024;
/** Twice SQLite's own: a tenth more small writes a second here, and half the pages of a large value. */
export const PAGE_SIZE = 8 * 1024;

const LAYOUT = `
  CREATE TABLE record (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
  CREATE TABLE heap (id INTEGER PRIMARY KEY, value BLOB NOT NULL);
  CREATE TABLE tick (id INTEGER PRIMARY KEY CHECK (id = 1), last INTEGER NOT NULL);
  INSERT INTO tick VALUES (1, 0);
`;

/** Another process has the directory's lock. */
export class DirectoryInUse extends OpenError {
  constructor(directory: string) {
    super(`The directory ${directory} is already served by another process.`);
  }
}

/** The SQLite file and its statements: no promise and no rule, only what SQL can say. */
export type Database = Snapshot & {
  readonly path: string;
  /** A descriptor of the log of writes: syncing it makes every commit before it durable. */
  readonly wal: number;
  put(key: Uint8Array, value: Uint8Array): void;
  delete(key: Uint8Array): void;
  putHeap(id: Tick, value: Uint8Array): void;
  deleteHeap(id: Tick): void;
  lastTick(): Tick;
  setLastTick(tick: Tick): void;
  /** Begins a transaction to write in. */
  begin(): void;
  commit(): void;
  rollback(): void;
  /** Reads from here to `endReading` see one state; what the cache has costs nothing. */
  beginReading(): void;
  endReading(): void;
  close(): Promise<void>;
};

/** Opens the database below `directory`, or makes it. */
export async function openDatabase(directory: string, disk: Disk): Promise<Database> {
  const lock = lockedDirectory(directory);
  const path = join(directory, "lazuli.db");
  let sql: DatabaseSync | undefined;
  let wal: number | undefined;
  try {
    sql = new DatabaseSync(path);
    sql.exec(`PRAGMA page_size = ${PAGE_SIZE}; PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
      PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = ${WAL_SIZE_MAX}; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA temp_store = MEMORY`);
    prepareLayout(sql, path, directory);
    wal = openSync(`${path}-wal`, "r+");
    await disk.sync(wal);
    await disk.syncDirectory(directory);
    await disk.syncDirectory(dirname(directory));
  } catch (error) {
    if (wal !== undefined) closeSync(wal);
    sql?.close();
    lock.close();
    if (error instanceof OpenError) throw error;
    throw new OpenError(`${path} cannot be opened: ${(error as Error).message}.`);
  }
  return statements(sql, path, wal, lock);
}

/** An SQLite lock on an empty file beside the data: the system frees it however the process ends. */
export function lockedDirectory(directory: string): DatabaseSync {
  const path = join(directory, "lazuli.lock");
  try {
    const lock = new DatabaseSync(path);
    lock.exec("PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    if (/locked|busy/i.test((error as Error).message)) throw new DirectoryInUse(directory);
    throw new OpenError(
      `The directory ${directory} cannot be written: ${(error as Error).message}.`,
    );
  }
}

/** Refuses a database that a newer version or another program made; gives whether it is still empty. */
export function isNewDatabase(sql: DatabaseSync, path: string): boolean {
  const number = (pragma: string) =>
    Number(Object.values(sql.prepare(`PRAGMA ${pragma}`).get() ?? {})[0]);
  const format = number("user_version");
  if (format > FORMAT) {
    throw new OpenError(
      `${path} has the on-disk format ${format}, and this version of Lazuli knows formats up to ${FORMAT}: use a newer one.`,
    );
  }
  if (format > 0 && number("application_id") !== APPLICATION_ID) {
    throw new OpenError(`${path} is a database of another program.`);
  }
  return format === 0;
}

/** The last number that was given out; without it, numbers would be given out again. */
export function lastIn(tick: StatementSync, path: string): Tick {
  const last = tick.get()?.last;
  if (typeof last === "bigint") return last;
  throw new OpenError(`${path} is damaged: it does not tell its last number.`);
}

function prepareLayout(sql: DatabaseSync, path: string, directory: string): void {
  if (isNewDatabase(sql, path)) {
    // A new store would take what is there for leftovers, and remove it.
    if (hasChunkFiles(directory)) {
      throw new OpenError(
        `The directory ${directory} has files with data, but lazuli.db or its -wal, which says whose they are, is missing or empty: put it back, or restore a backup into a new directory.`,
      );
    }
    const pragmas = `PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${FORMAT}`;
    sql.exec(`BEGIN IMMEDIATE; ${LAYOUT} ${pragmas}; COMMIT`);
  } else {
    const tick = sql.prepare("SELECT last FROM tick");
    tick.setReadBigInts(true);
    lastIn(tick, path);
    sql.exec("UPDATE tick SET last = last"); // so that the log of writes exists, to be synced
  }
}

/** The statements that read. */
export function reading(sql: DatabaseSync): Snapshot {
  const arrays = (text: string) => {
    const statement = sql.prepare(text);
    statement.setReturnArrays(true);
    return statement;
  };
  const get = arrays("SELECT value FROM record WHERE key = ?");
  const up = arrays(
    "SELECT key, value FROM record WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
  );
  const down = arrays(
    "SELECT key, value FROM record WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT ?",
  );
  const getHeap = arrays("SELECT value FROM heap WHERE id = ?");
  const heapIds = sql.prepare("SELECT id FROM heap WHERE id > ? ORDER BY id LIMIT ?");
  heapIds.setReadBigInts(true);
  const firstOf = (row: unknown) => (row as [Uint8Array] | undefined)?.[0];
  return {
    get: (key) => firstOf(get.get(key)),
    range({ from, to, limit, reverse }: RangeQuery): Entry[] {
      const rows = (reverse ? down : up).all(from, to, limit) as unknown as [
        Uint8Array,
        Uint8Array,
      ][];
      return rows.map(([key, value]) => ({ key, value }));
    },
    getHeap: (id) => firstOf(getHeap.get(id)),
    heapIds: (after, limit) => heapIds.all(after, limit).map(({ id }) => id as bigint),
  };
}

function statements(sql: DatabaseSync, path: string, wal: number, lock: DatabaseSync): Database {
  /** The result of a run names the last number of the heap, which is too large for a double. */
  const running = (text: string) => {
    const statement = sql.prepare(text);
    statement.setReadBigInts(true);
    return statement;
  };
  const put = running("INSERT OR REPLACE INTO record VALUES (?, ?)");
  const remove = running("DELETE FROM record WHERE key = ?");
  const putHeap = running("INSERT OR REPLACE INTO heap VALUES (?, ?)");
  const removeHeap = running("DELETE FROM heap WHERE id = ?");
  const lastTick = running("SELECT last FROM tick");
  const setLastTick = running("UPDATE tick SET last = ?");
  const deferred = running("BEGIN");
  const immediate = running("BEGIN IMMEDIATE");
  const commit = running("COMMIT");
  const stored = reading(sql);
  const records = new Cache<string>();
  const heap = new Cache<Tick>();
  /** Whether the next statement that reads is the first of several, and whether there was one. */
  let readsFollow = false;
  let hasRead = false;
  const willRead = () => {
    if (!readsFollow || hasRead) return;
    deferred.run();
    hasRead = true;
  };
  return {
    path,
    wal,
    get(key) {
      const text = keyText(key);
      const known = records.get(text);
      if (known !== undefined) return known ?? undefined;
      willRead();
      const value = stored.get(key);
      records.set(text, value);
      return value;
    },
    range(query) {
      willRead();
      return stored.range(query);
    },
    getHeap(id) {
      const known = heap.get(id);
      if (known !== undefined) return known ?? undefined;
      willRead();
      const value = stored.getHeap(id);
      heap.set(id, value);
      return value;
    },
    heapIds(after, limit) {
      willRead();
      return stored.heapIds(after, limit);
    },
    put(key, value) {
      put.run(key, value);
      records.set(keyText(key), value);
    },
    delete(key) {
      remove.run(key);
      records.set(keyText(key), undefined);
    },
    putHeap(id, value) {
      putHeap.run(id, value);
      heap.set(id, value);
    },
    deleteHeap(id) {
      removeHeap.run(id);
      heap.forget(id); // nobody asks for its number again
    },
    lastTick: () => lastTick.get()?.last as bigint,
    setLastTick: (tick) => void setLastTick.run(tick),
    begin: () => void immediate.run(),
    commit: () => void commit.run(),
    rollback() {
      records.clear();
      heap.clear();
      if (sql.isTransaction) sql.exec("ROLLBACK");
    },
    beginReading() {
      readsFollow = true;
    },
    endReading() {
      readsFollow = false;
      if (hasRead) commit.run();
      hasRead = false;
    },
    async close() {
      closeSync(wal);
      sql.close();
      lock.close();
    },
  };
}
