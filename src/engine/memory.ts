import { compareBytes } from "../base/bytes.ts";
import type { Clock, Tick } from "../base/time.ts";
import { BufferedTx, keyText, type Snapshot, Ticks } from "./buffered.ts";
import type { Engine, Entry, RangeQuery, ReadTx } from "./engine.ts";

export type MemoryOptions = {
  readonly clock: Clock;
  /** Whether the next body meets a conflict and runs once more; tests use it to prove that bodies may. */
  readonly conflicts?: () => boolean;
};

/** Keeps everything in this process: for tests and throw-away servers. */
export function memoryEngine({ clock, conflicts = () => false }: MemoryOptions): Engine {
  const data = new SortedMap();
  const heap = new Map<Tick, Uint8Array>();
  const ticks = new Ticks(0n);
  const snapshot: Snapshot = {
    get: (key) => data.get(key),
    range: (query) => data.range(query),
    getHeap: (id) => heap.get(id),
    heapIds: (after, limit) =>
      [...heap.keys()]
        .filter((id) => id > after)
        .sort((a, b) => (a < b ? -1 : 1))
        .slice(0, limit),
  };
  let tail: Promise<unknown> = Promise.resolve();
  let closed = false;

  /** One at a time, in the order they came. */
  function inTurn<T>(body: () => Promise<T>): Promise<T> {
    if (closed) return Promise.reject(new Error("the engine is closed"));
    const result = tail.then(body);
    tail = result.catch(() => {});
    return result;
  }

  return {
    read: (body) =>
      inTurn(() => {
        const tx: ReadTx = {
          now: ticks.now(clock.now()),
          get: async (key) => snapshot.get(key),
          range: async (query) => snapshot.range(query),
          getHeap: async (id) => snapshot.getHeap(id),
          heapIds: async (after, limit) => snapshot.heapIds(after, limit),
        };
        return body(tx);
      }),
    write: (body) =>
      inTurn(async () => {
        if (conflicts()) await body(new BufferedTx(snapshot, ticks, clock.now())).catch(() => {});
        const tx = new BufferedTx(snapshot, ticks, clock.now());
        const result = await body(tx);
        for (const { key, value } of tx.writes.values()) data.set(key, value);
        for (const [id, value] of tx.heap) {
          if (value === undefined) heap.delete(id);
          else heap.set(id, value);
        }
        for (const effect of tx.effects) effect();
        return result;
      }),
    async settled() {
      await tail;
    },
    async close() {
      closed = true;
      await tail;
    },
  };
}

/** A map whose keys can be walked in order. */
class SortedMap {
  readonly #values = new Map<string, Entry>();
  readonly #keys: Uint8Array[] = [];

  get(key: Uint8Array): Uint8Array | undefined {
    return this.#values.get(keyText(key))?.value;
  }

  set(key: Uint8Array, value: Uint8Array | undefined): void {
    const text = keyText(key);
    const known = this.#values.has(text);
    if (value === undefined) {
      if (known) this.#keys.splice(this.#indexOf(key), 1);
      this.#values.delete(text);
    } else {
      if (!known) this.#keys.splice(this.#indexOf(key), 0, key);
      this.#values.set(text, { key, value });
    }
  }

  range({ from, to, limit, reverse = false }: RangeQuery): Entry[] {
    const begin = this.#indexOf(from);
    const end = Math.max(begin, this.#indexOf(to));
    const keys = reverse
      ? this.#keys.slice(Math.max(begin, end - limit), end).reverse()
      : this.#keys.slice(begin, Math.min(end, begin + limit));
    return keys.flatMap((key) => this.#values.get(keyText(key)) ?? []);
  }

  /** Where `key` is, or would be. */
  #indexOf(key: Uint8Array): number {
    let low = 0;
    let high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareBytes(this.#keys[middle] as Uint8Array, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
