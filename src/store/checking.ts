import { afterPrefix } from "../base/bytes.ts";
import type { Engine } from "../engine/engine.ts";
import { BrokenRecord, type Subspace } from "./subspace.ts";

const BATCH = 200;

/** What all parts of `check` do with what they find. */
export type Checking = {
  readonly engine: Engine;
  problem(line: string): void;
  /** Called for every row that was looked at. */
  counted(): void;
};

// biome-ignore lint/suspicious/noExplicitAny: a subspace of whatever key; KeyIn gives each its own
type AnySubspace = Subspace<any, any>;
type KeyIn<S extends AnySubspace> = ReturnType<S["unpacked"]>;
type RecordIn<S extends AnySubspace> = ReturnType<S["decoded"]>;

/**
 * Calls `visit` for every row of a subspace, a batch of them in memory at a time. A row that cannot be read is
 * a problem of its own; where `visit` comes upon such a record elsewhere, that one's own walk tells of it.
 */
export async function each<S extends AnySubspace>(
  { engine, problem, counted }: Checking,
  what: string,
  kind: S,
  visit: (key: KeyIn<S>, value: RecordIn<S>) => Promise<void> | void = () => {},
): Promise<void> {
  const begin = kind.packed([]);
  let from: Uint8Array = begin;
  for (;;) {
    const range = { from, to: afterPrefix(begin), limit: BATCH };
    const rows = await engine.read((tx) => tx.range(range));
    for (const row of rows) {
      counted();
      let key: KeyIn<S> | undefined;
      try {
        key = kind.unpacked(row.key) as KeyIn<S>;
        await visit(key, kind.decoded(row.value) as RecordIn<S>);
      } catch (error) {
        const isOwn = !(error instanceof BrokenRecord) || isBroken(kind, row.value);
        if (isOwn) problem(`${what} ${keyText(key, row.key)}: ${(error as Error).message}`);
      }
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH) return;
    from = Buffer.concat([last.key, Buffer.of(0)]);
  }
}

function isBroken(kind: AnySubspace, value: Uint8Array): boolean {
  try {
    kind.decoded(value);
    return false;
  } catch {
    return true;
  }
}

const keyText = (key: readonly unknown[] | undefined, bytes: Uint8Array): string =>
  key === undefined
    ? `with the key ${Buffer.from(bytes).toString("hex")}`
    : key.map((part) => (typeof part === "bigint" ? part.toString(16) : String(part))).join("/");

/** Numbers, and how often each was named; twelve bytes for each, because there may be many millions. */
export class Census {
  #ids = new BigUint64Array(1024);
  #counts = new Uint32Array(0);
  #sums: Uint32Array | undefined;
  #size = 0;

  add(id: bigint): void {
    if (this.#size === this.#ids.length) {
      const more = new BigUint64Array(this.#size * 2);
      more.set(this.#ids);
      this.#ids = more;
    }
    this.#ids[this.#size++] = id;
  }

  /** To be called when all are there, before any is named. */
  close(): void {
    this.#ids = this.#ids.subarray(0, this.#size).sort();
    this.#counts = new Uint32Array(this.#size);
  }

  /** Counts one name more; gives how many there are now, or undefined if there is no such number. */
  name(id: bigint): number | undefined {
    const index = this.#indexOf(id);
    if (index === undefined) return undefined;
    const count = (this.#counts[index] ?? 0) + 1;
    this.#counts[index] = count;
    return count;
  }

  /** Keeps a sum with a number that there is; four bytes more for each. */
  keepSum(id: bigint, sum: number): void {
    this.#sums ??= new Uint32Array(this.#size);
    this.#sums[this.#indexOf(id) ?? this.#size] = sum;
  }

  sumOf(id: bigint): number | undefined {
    return this.#sums?.[this.#indexOf(id) ?? this.#size];
  }

  has(id: bigint): boolean {
    return this.#indexOf(id) !== undefined;
  }

  *[Symbol.iterator](): Generator<readonly [id: bigint, count: number]> {
    for (let i = 0; i < this.#size; i++) yield [this.#ids[i] as bigint, this.#counts[i] as number];
  }

  countOf(id: bigint): number {
    const index = this.#indexOf(id);
    return index === undefined ? 0 : (this.#counts[index] as number);
  }

  #indexOf(id: bigint): number | undefined {
    let low = 0;
    let high = this.#size;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ids[middle] as bigint) < id) low = middle + 1;
      else high = middle;
    }
    return low < this.#size && this.#ids[low] === id ? low : undefined;
  }
}
