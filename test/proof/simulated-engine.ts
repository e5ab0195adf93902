import { setImmediate as settled } from "node:timers/promises";
import type { Clock, Instant, Tick } from "../../src/base/time.ts";
import { BufferedTx, keyText, type Snapshot, Ticks } from "../../src/engine/buffered.ts";
import type { Engine, Entry, ReadTx, WriteTx } from "../../src/engine/engine.ts";
import type { Random } from "../simulation/power-cut.ts";

/** Lets one of those that wait go on at a time, by a seed: so a run can be had again exactly. */
export class Scheduler {
  readonly #random: Random;
  #waiting: (() => void)[] = [];
  steps = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  pause(): Promise<void> {
    return new Promise((resolve) => void this.#waiting.push(resolve));
  }

  /** Those that wait now never go on: their process is gone. */
  drop(): void {
    this.#waiting = [];
  }

  /** Lets one go on, and waits until it and all that follows at once from it stand still. */
  async step(): Promise<boolean> {
    if (this.#waiting.length === 0) return false;
    const index = this.#random.below(this.#waiting.length);
    const [next] = this.#waiting.splice(index, 1);
    this.steps++;
    next?.();
    await settled();
    return true;
  }
}

/** One committed state. */
class Version implements Snapshot {
  readonly values: ReadonlyMap<string, Entry>;
  readonly heap: ReadonlyMap<Tick, Uint8Array>;
  readonly tick: Tick;
  #keys: string[] | undefined;

  constructor(values: ReadonlyMap<string, Entry>, heap: ReadonlyMap<Tick, Uint8Array>, tick: Tick) {
    this.values = values;
    this.heap = heap;
    this.tick = tick;
  }

  get(key: Uint8Array): Uint8Array | undefined {
    return this.values.get(keyText(key))?.value;
  }

  range({ from, to, limit, reverse = false }: Parameters<Snapshot["range"]>[0]): Entry[] {
    this.#keys ??= [...this.values.keys()].sort();
    const [first, end] = [keyText(from), keyText(to)];
    const keys = this.#keys.filter((key) => key >= first && key < end);
    if (reverse) keys.reverse();
    return keys.slice(0, limit).flatMap((key) => this.values.get(key) ?? []);
  }

  getHeap(id: Tick): Uint8Array | undefined {
    return this.heap.get(id);
  }

  heapIds(after: Tick, limit: number): Tick[] {
    const ids = [...this.heap.keys()].filter((id) => id > after);
    return ids.sort((a, b) => (a < b ? -1 : 1)).slice(0, limit);
  }

  /** The state after a transaction's writes. */
  after({ writes, heap }: BufferedTx, tick: Tick): Version {
    const values = new Map(this.values);
    for (const [text, { key, value }] of writes) {
      if (value === undefined) values.delete(text);
      else values.set(text, { key, value });
    }
    const all = new Map(this.heap);
    for (const [id, value] of heap) {
      if (value === undefined) all.delete(id);
      else all.set(id, value);
    }
    return new Version(values, all, tick);
  }
}

export const emptyVersion = new Version(new Map(), new Map(), 0n);
export type { Version };

/** As the system says it. */
export class DiskFull extends Error {
  readonly code = "ENOSPC";
}

const ATTEMPTS_APART = 3;

/**
 * An engine in memory that does all that the contract allows and a kind engine would not: bodies run beside
 * each other on states of their own, and again whenever another one was faster; commits become durable only a
 * while later; a power cut takes those that are not, and a full disk refuses them.
 */
export class SimulatedEngine implements Engine {
  readonly #scheduler: Scheduler;
  readonly #clock: Clock;
  readonly #ticks: Ticks;
  #current: Version;
  #waiting: { readonly version: Version; readonly tell: () => void }[] = [];
  #isSyncing = false;
  #latest = 0;
  /** Bodies of reads that are under way. */
  readonly #reading = new Set<Promise<void>>();
  durable: Version;
  isFull = false;
  conflicts = 0;
  commits = 0;

  constructor(scheduler: Scheduler, clock: Clock, from: Version) {
    this.#scheduler = scheduler;
    this.#clock = clock;
    this.#ticks = new Ticks(from.tick);
    this.#ticks.now(clock.now()); // a process that begins reads the clock, as its sweeps do
    this.#current = from;
    this.durable = from;
  }

  async read<T>(body: (tx: ReadTx) => Promise<T>): Promise<T> {
    await this.#scheduler.pause();
    const version = this.#current;
    const now = this.#begun(this.#ticks.now(this.#clock.now()));
    const tx: ReadTx = {
      now,
      get: (key) => this.#later(() => version.get(key)),
      range: (query) => this.#later(() => version.range(query)),
      getHeap: (id) => this.#later(() => version.getHeap(id)),
      heapIds: (after, limit) => this.#later(() => version.heapIds(after, limit)),
    };
    const reading = body(tx);
    const ended = reading.then(
      () => void this.#reading.delete(ended),
      () => void this.#reading.delete(ended),
    );
    this.#reading.add(ended);
    const settle = await reading.then(
      (result) => () => result,
      (error) => () => {
        throw error;
      },
    );
    await this.#whenDurable(version);
    return settle();
  }

  async write<T>(body: (tx: WriteTx) => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      await this.#scheduler.pause();
      const version = this.#current;
      const buffered = new BufferedTx(version, this.#ticks, this.#clock.now());
      this.#begun(buffered.now);
      // One that is overtaken again and again runs through without a pause, so that it comes to its end.
      const tx = attempt < ATTEMPTS_APART ? this.#paused(buffered) : buffered;
      let result: T;
      try {
        result = await body(tx);
      } catch (error) {
        await this.#whenDurable(version);
        throw error;
      }
      // Nor may it come behind one that was at a later time, even if that one only read.
      if (this.#current !== version || this.#latest > buffered.now) {
        this.conflicts++;
        continue;
      }
      if (this.isFull) throw new DiskFull("the disk is full");
      const next = version.after(buffered, this.#ticks.last);
      this.#current = next;
      this.commits++;
      await this.#whenDurable(next);
      await Promise.all(this.#reading);
      for (const effect of buffered.effects) effect();
      return result;
    }
  }

  /** Notes when a transaction begins, which is never before one that began earlier: the contract says so. */
  #begun(now: Instant): Instant {
    if (now < this.#latest) throw new Error(`time went back by ${this.#latest - now} ms`);
    this.#latest = now;
    return now;
  }

  async settled(): Promise<void> {
    await this.#whenDurable(this.#current);
  }

  async close(): Promise<void> {}

  async #later<T>(read: () => T): Promise<T> {
    await this.#scheduler.pause();
    return read();
  }

  #paused(tx: BufferedTx): WriteTx {
    return {
      now: tx.now,
      get: (key) => this.#scheduler.pause().then(() => tx.get(key)),
      range: (query) => this.#scheduler.pause().then(() => tx.range(query)),
      getHeap: (id) => this.#scheduler.pause().then(() => tx.getHeap(id)),
      heapIds: (after, limit) => this.#scheduler.pause().then(() => tx.heapIds(after, limit)),
      tick: () => tx.tick(),
      put: (key, value) => tx.put(key, value),
      delete: (key) => tx.delete(key),
      putHeap: (id, value) => tx.putHeap(id, value),
      deleteHeap: (id) => tx.deleteHeap(id),
      moveHeap: (from, to) => tx.moveHeap(from, to),
      afterCommit: (effect) => tx.afterCommit(effect),
    };
  }

  /** Resolves when a state that was committed is durable; states become so in their order. */
  #whenDurable(version: Version): Promise<void> {
    if (version === this.durable) return Promise.resolve();
    return new Promise((tell) => {
      this.#waiting.push({ version, tell });
      void this.#sync();
    });
  }

  async #sync(): Promise<void> {
    if (this.#isSyncing) return;
    this.#isSyncing = true;
    while (this.#waiting.length > 0) {
      const begun = this.#waiting;
      const version = this.#current;
      this.#waiting = [];
      await this.#scheduler.pause();
      await this.#scheduler.pause();
      this.durable = version;
      for (const { tell } of begun) tell();
    }
    this.#isSyncing = false;
  }
}
