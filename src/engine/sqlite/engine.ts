import type { Log } from "../../base/log.ts";
import type { Clock, Tick } from "../../base/time.ts";
import { BufferedTx, keyText, type Snapshot, Ticks } from "../buffered.ts";
import type { Disk } from "../disk.ts";
import { isDiskFull } from "../disk-full.ts";
import type { Engine, Given, RangeQuery, ReadTx, WriteTx } from "../engine.ts";
import { Checkpointer } from "./checkpointer.ts";
import { type Database, openDatabase, PAGE_SIZE } from "./database.ts";

/** How long the event loop may be kept before the next turn; the rest of a queue waits for it. */
const TURN_MS = 2;
/** How long and how much may gather that nobody waits for. */
const GATHER_MS = 10;
const GATHERED_MAX = 1000;
/** The log of writes is copied into the database when it is about this long, and begun anew. */
const WAL_PAGES_MAX = (32 * 1024 * 1024) / PAGE_SIZE;
/** While the disk is full, a checkpoint is tried so often. */
const RESCUE_MS = 1_000;

export type SqliteOptions = {
  readonly directory: string;
  readonly clock: Clock;
  readonly disk: Disk;
  readonly log: Log;
  /** Called when the disk failed to sync: what is durable is then unknown, and the process must end. */
  readonly onFatal: (error: unknown) => void;
};

/** The transactions that become durable with one sync, and the reads that saw them. */
class Group {
  readonly settled: (() => void)[] = [];
  readonly failed: ((error: unknown) => void)[] = [];
  readonly dirty = new Set<string>();
  /** Whether anybody waits for it; what nobody waits for may gather a while. */
  isAwaited = false;
}

type Job = { run(): Promise<void>; fail(error: unknown): void };

/**
 * Keeps keys in SQLite. Bodies that arrive together run one after another in one SQLite transaction; while
 * one sync of the log of writes is under way on the thread pool, the next transaction fills up, so that each
 * sync serves all that came during the one before (see docs/decisions/0002-group-commit.md).
 */
export async function sqliteEngine(options: SqliteOptions): Promise<Engine> {
  const database = await openDatabase(options.directory, options.disk);
  return new SqliteEngine(database, options);
}

class SqliteEngine implements Engine {
  readonly #database: Database;
  readonly #disk: Disk;
  readonly #clock: Clock;
  readonly #onFatal: (error: unknown) => void;
  readonly #ticks: Ticks;
  readonly #checkpointer: Checkpointer;
  readonly #reads: Job[] = [];
  readonly #writes: Job[] = [];
  readonly #whenIdle: (() => void)[] = [];
  /** Filling up in the open SQLite transaction. */
  #open: Group | undefined;
  /** Committed, and being synced. */
  #syncing: Group | undefined;
  #gathering: NodeJS.Timeout | undefined;
  #turnIsDue = false;
  #inTurn = false;
  /** Whether SQLite is in a transaction to write in; it may hold nothing yet. */
  #inTransaction = false;
  #held = false;
  #closed = false;
  #pages = 0;
  #nextRescue = 0;

  constructor(database: Database, { clock, disk, log, onFatal }: SqliteOptions) {
    this.#database = database;
    this.#disk = disk;
    this.#clock = clock;
    this.#onFatal = onFatal;
    this.#ticks = new Ticks(database.lastTick());
    this.#checkpointer = new Checkpointer(database.path, log);
  }

  read<T>(body: (tx: ReadTx) => Promise<T>, given: Given = "durable"): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#add(this.#reads, {
        run: async () => {
          const view = new DirtyView(this.#database, [this.#syncing, this.#open]);
          const now = this.#ticks.now(this.#clock.now());
          const tx = new SnapshotTx(view, now);
          const settle = await body(tx).then(
            (result) => () => resolve(result),
            (error) => () => reject(error),
          );
          if (view.seen === undefined || given === "soon") settle();
          else {
            view.seen.isAwaited = true;
            view.seen.settled.push(settle);
            view.seen.failed.push(reject);
          }
        },
        fail: reject,
      });
    });
  }

  write<T>(body: (tx: WriteTx) => Promise<T>, given: Given = "durable"): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#add(this.#writes, {
        run: async () => {
          const tx = new BufferedTx(this.#database, this.#ticks, this.#clock.now());
          const { last } = this.#ticks;
          let result: T;
          try {
            result = await body(tx);
          } catch (error) {
            // What it refused by may not be durable yet, and a refusal tells of it too.
            if (given === "soon") reject(error);
            else this.#whenDurable(() => reject(error), reject);
            return;
          }
          const isIdle = tx.writes.size + tx.heap.size + tx.effects.length === 0;
          if (isIdle && this.#ticks.last === last) {
            // It changed nothing, so there is nothing to sync but what it may have seen.
            if (given === "soon") resolve(result);
            else this.#whenDurable(() => resolve(result), reject);
            return;
          }
          this.#open ??= new Group();
          const group = this.#open;
          group.failed.push(reject);
          for (const [text, { key, value }] of tx.writes) {
            group.dirty.add(text);
            if (value === undefined) this.#database.delete(key);
            else this.#database.put(key, value);
          }
          for (const [id, value] of tx.heap) {
            if (value === undefined) this.#database.deleteHeap(id);
            else {
              this.#database.putHeap(id, value);
              this.#pages += Math.floor(value.length / PAGE_SIZE);
            }
          }
          this.#pages += tx.writes.size + tx.heap.size;
          group.settled.push(...tx.effects, () => resolve(result));
          if (given === "soon") resolve(result);
          else group.isAwaited = true;
        },
        fail: reject,
      });
    });
  }

  settled(): Promise<void> {
    return new Promise((resolve, reject) => this.#whenDurable(resolve, reject));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    // A checkpoint that holds writes back lets them go on afterwards, and they may ask for another one.
    do {
      await this.#checkpointer.finished();
      await this.#idle();
    } while (this.#checkpointer.busy || this.#reads.length + this.#writes.length > 0);
    await this.#checkpointer.close();
    await this.#database.close();
  }

  #add(queue: Job[], job: Job): void {
    if (this.#closed) {
      job.fail(new Error("the engine is closed"));
      return;
    }
    queue.push(job);
    this.#wake();
  }

  #wake(): void {
    if (this.#turnIsDue || this.#inTurn) return;
    this.#turnIsDue = true;
    setImmediate(() => void this.#turn());
  }

  /** Runs what is queued, for a while; then what is open is committed, unless a sync is still under way. */
  async #turn(): Promise<void> {
    this.#turnIsDue = false;
    this.#inTurn = true;
    const until = performance.now() + TURN_MS;
    try {
      await this.#runReads(until);
      while (!this.#held && performance.now() < until) {
        const job = this.#writes.shift();
        if (job === undefined) break;
        await this.#run(job, "write");
      }
      if (this.#inTransaction && this.#open === undefined) this.#end(); // nothing was written
      if (this.#open !== undefined && this.#syncing === undefined) this.#commitSoon(this.#open);
    } catch (error) {
      this.#rollback(error);
    }
    this.#inTurn = false;
    if (this.#reads.length > 0 || (this.#writes.length > 0 && !this.#held)) this.#wake();
    else this.#tellIdle();
  }

  /** Runs a job; if the database fails it, it is told even where it is in no group yet. */
  async #run(job: Job, kind: "read" | "write"): Promise<void> {
    try {
      if (kind === "write" && !this.#inTransaction) this.#begin();
      await job.run();
    } catch (error) {
      job.fail(error);
      throw error;
    }
  }

  async #runReads(until: number): Promise<void> {
    if (this.#reads.length === 0) return;
    const apart = !this.#inTransaction; // else the open transaction holds the snapshot
    if (apart) this.#database.beginReading();
    try {
      do {
        const job = this.#reads.shift();
        if (job === undefined) break;
        await this.#run(job, "read");
      } while (performance.now() < until);
    } finally {
      if (apart) this.#database.endReading();
    }
  }

  #begin(): void {
    this.#database.begin();
    this.#inTransaction = true;
  }

  #end(): void {
    this.#database.commit();
    this.#inTransaction = false;
  }

  /** Calls `settle` when all that is committed or open by now is durable; at once if everything is. */
  #whenDurable(settle: () => void, fail: (error: unknown) => void): void {
    const group = this.#open ?? this.#syncing;
    if (group === undefined) {
      settle();
      return;
    }
    group.settled.push(settle);
    group.failed.push(fail);
    group.isAwaited = true;
    this.#wake();
  }

  /** Commits what somebody waits for, or what is much; the rest gathers for a few milliseconds. */
  #commitSoon(group: Group): void {
    const isDue = group.isAwaited || this.#whenIdle.length > 0 || group.dirty.size > GATHERED_MAX;
    if (isDue) {
      clearTimeout(this.#gathering);
      this.#gathering = undefined;
      this.#commit(group);
    } else {
      this.#gathering ??= setTimeout(() => {
        this.#gathering = undefined;
        if (this.#open !== undefined) this.#open.isAwaited = true;
        this.#wake();
      }, GATHER_MS);
    }
  }

  #commit(group: Group): void {
    this.#database.setLastTick(this.#ticks.last);
    this.#end();
    this.#open = undefined;
    this.#syncing = group;
    this.#disk.sync(this.#database.wal).then(
      () => this.#synced(group),
      (error) => {
        for (const fail of group.failed) fail(error);
        this.#onFatal(error);
      },
    );
  }

  #synced(group: Group): void {
    this.#syncing = undefined;
    for (const settle of group.settled) settle();
    if (this.#open !== undefined && !this.#inTurn) this.#wake();
    if (this.#pages > WAL_PAGES_MAX) this.#checkpoint();
    this.#tellIdle();
  }

  /** The disk is full, or worse: all that was open fails, and the state before it stands. */
  #rollback(error: unknown): void {
    const group = this.#open;
    this.#open = undefined;
    this.#inTransaction = false;
    this.#database.rollback();
    for (const fail of group?.failed ?? []) fail(error);
    // What the log holds may fit into the database, and then there is room in the log again.
    if (isDiskFull(error) && performance.now() >= this.#nextRescue) {
      this.#nextRescue = performance.now() + RESCUE_MS;
      this.#checkpoint();
    }
  }

  /** Copies the log into the database beside the running writes, then holds them for the last of it. */
  #checkpoint(): void {
    this.#pages = 0;
    if (this.#checkpointer.busy) return;
    void this.#checkpointer.run(async (step) => {
      const left = await step("PASSIVE");
      // A backup or a check reads an old state; the log cannot be begun anew before that ends.
      if (left > 2 * WAL_PAGES_MAX) return;
      this.#held = true;
      await this.#idle();
      await step("RESTART");
      this.#held = false;
      if (this.#writes.length > 0) this.#wake();
    });
  }

  /** Resolves when no transaction is open or being synced, and none can begin but by new requests. */
  #idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#whenIdle.push(resolve);
      this.#wake();
    });
  }

  #tellIdle(): void {
    if (this.#inTurn || this.#open !== undefined || this.#syncing !== undefined) return;
    const isLeft = this.#reads.length > 0 || (this.#writes.length > 0 && !this.#held);
    if (this.#closed && isLeft) return;
    for (const tell of this.#whenIdle.splice(0)) tell();
  }
}

/** A view that remembers whether it showed anything that is not durable yet. */
class DirtyView implements Snapshot {
  /** The newest group whose writes were seen. */
  seen: Group | undefined;
  readonly #database: Database;
  readonly #groups: readonly (Group | undefined)[];

  constructor(database: Database, groups: readonly (Group | undefined)[]) {
    this.#database = database;
    this.#groups = groups;
  }

  get(key: Uint8Array): Uint8Array | undefined {
    for (const group of this.#groups) {
      if (group?.dirty.has(keyText(key))) this.seen = group;
    }
    return this.#database.get(key);
  }

  range(query: RangeQuery) {
    for (const group of this.#groups) {
      if (group !== undefined && touches(group.dirty, query)) this.seen = group;
    }
    return this.#database.range(query);
  }

  getHeap(id: Tick): Uint8Array | undefined {
    return this.#database.getHeap(id); // found only through a key, which was looked at
  }

  heapIds(after: Tick, limit: number): Tick[] {
    this.seen = this.#groups.findLast((group) => group !== undefined) ?? this.seen;
    return this.#database.heapIds(after, limit);
  }
}

function touches(dirty: ReadonlySet<string>, { from, to }: RangeQuery): boolean {
  const first = keyText(from);
  const end = keyText(to);
  for (const key of dirty) if (key >= first && key < end) return true;
  return false;
}

/** A transaction that only reads. */
export class SnapshotTx implements ReadTx {
  readonly now: number;
  readonly #view: Snapshot;

  constructor(view: Snapshot, now: number) {
    this.#view = view;
    this.now = now;
  }

  async get(key: Uint8Array) {
    return this.#view.get(key);
  }

  async range(query: RangeQuery) {
    return this.#view.range(query);
  }

  async getHeap(id: Tick) {
    return this.#view.getHeap(id);
  }

  async heapIds(after: Tick, limit: number) {
    return this.#view.heapIds(after, limit);
  }
}
