import { compareBytes } from "../base/bytes.ts";
import { type Instant, instantOf, type Tick, tickAt } from "../base/time.ts";
import type { Entry, RangeQuery, WriteTx } from "./engine.ts";

/** What an engine can read synchronously: the state that a body's own writes are laid over. */
export type Snapshot = {
  get(key: Uint8Array): Uint8Array | undefined;
  range(query: RangeQuery): Entry[];
  getHeap(id: Tick): Uint8Array | undefined;
  heapIds(after: Tick, limit: number): Tick[];
};

/** Byte keys as texts, one character a byte: they compare, and serve a Map, as the bytes would. */
export const keyText = (key: Uint8Array): string =>
  Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString("latin1");

/** Gives out ticks: at least the clock's, and always more than the one before. */
export class Ticks {
  last: Tick;
  #now: Instant = 0;

  constructor(last: Tick) {
    this.last = last;
  }

  /**
   * The time of a transaction that begins when the clock says this. It is never before that of an earlier one,
   * also where that one wrote nothing: what somebody has seen to have ended, such as a lease, has.
   */
  now(clock: Instant): Instant {
    this.#now = Math.max(this.#now, clock, instantOf(this.last));
    return this.#now;
  }

  next(now: Instant): Tick {
    const wanted = tickAt(now);
    this.last = wanted > this.last ? wanted : this.last + 1n;
    return this.last;
  }
}

/** One run of a body: its writes are held here until the engine applies them, or drops them. */
export class BufferedTx implements WriteTx {
  readonly now: Instant;
  readonly writes = new Map<string, { key: Uint8Array; value: Uint8Array | undefined }>();
  readonly heap = new Map<Tick, Uint8Array | undefined>();
  readonly effects: (() => void)[] = [];
  readonly #snapshot: Snapshot;
  readonly #ticks: Ticks;
  readonly #clockNow: Instant;

  constructor(snapshot: Snapshot, ticks: Ticks, now: Instant) {
    this.#snapshot = snapshot;
    this.#ticks = ticks;
    this.#clockNow = now;
    this.now = ticks.now(now);
  }

  tick(): Tick {
    return this.#ticks.next(this.#clockNow);
  }

  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    if (this.writes.size > 0) {
      const own = this.writes.get(keyText(key));
      if (own !== undefined) return own.value;
    }
    return this.#snapshot.get(key);
  }

  async range(query: RangeQuery): Promise<readonly Entry[]> {
    if (this.writes.size === 0) return this.#snapshot.range(query);
    const own = [...this.writes.values()].filter(
      ({ key }) => compareBytes(key, query.from) >= 0 && compareBytes(key, query.to) < 0,
    );
    if (own.length === 0) return this.#snapshot.range(query);
    const covered = new Set(own.map(({ key }) => keyText(key)));
    const stored = this.#snapshot
      .range({ ...query, limit: query.limit + own.length })
      .filter(({ key }) => !covered.has(keyText(key)));
    const added = own.flatMap(({ key, value }) => (value === undefined ? [] : [{ key, value }]));
    const sign = query.reverse ? -1 : 1;
    return [...stored, ...added]
      .sort((a, b) => sign * compareBytes(a.key, b.key))
      .slice(0, query.limit);
  }

  async getHeap(id: Tick): Promise<Uint8Array | undefined> {
    return this.heap.has(id) ? this.heap.get(id) : this.#snapshot.getHeap(id);
  }

  async heapIds(after: Tick, limit: number): Promise<readonly Tick[]> {
    const stored = this.#snapshot.heapIds(after, limit + this.heap.size);
    const added = [...this.heap.keys()].filter((id) => id > after && this.heap.get(id));
    return [...stored.filter((id) => !this.heap.has(id)), ...added]
      .sort((a, b) => (a < b ? -1 : 1))
      .slice(0, limit);
  }

  put(key: Uint8Array, value: Uint8Array): void {
    this.writes.set(keyText(key), { key, value });
  }

  delete(key: Uint8Array): void {
    this.writes.set(keyText(key), { key, value: undefined });
  }

  putHeap(id: Tick, value: Uint8Array): void {
    this.heap.set(id, value);
  }

  deleteHeap(id: Tick): void {
    this.heap.set(id, undefined);
  }

  moveHeap(from: Tick, to: Tick): boolean {
    const value = this.heap.get(from);
    if (value === undefined) return false;
    this.heap.delete(from);
    this.heap.set(to, value);
    return true;
  }

  afterCommit(effect: () => void): void {
    this.effects.push(effect);
  }
}
