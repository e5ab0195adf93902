/** How many bytes of values one generation holds; there are two of them. */
const GENERATION_SIZE = 4 * 1024 * 1024;
/** Larger values are not worth the room: a page of SQLite's own cache has them. */
const VALUE_SIZE_MAX = 16 * 1024;
/** So that many small values, or keys without one, do not take more room than large ones. */
const GENERATION_COUNT = 32 * 1024;

type Generation<K> = {
  /** Where each value begins and ends in `bytes`; `ABSENT` for keys that are known to have none. */
  places: Map<K, number>;
  readonly bytes: Buffer;
  used: number;
};

const ABSENT = -1;
/** A place is one number: where the value begins, times this, and its size. */
const SIZES = 32 * 1024;

/**
 * What was read or written last, also that there is nothing under a key. It is never behind the database: who
 * changes that tells it. Values lie one after another in one buffer, so that it takes as much memory as it
 * says; when a generation is full, the one before it goes, and with it what nobody has asked for since.
 * What it gives out is a copy, because the room of a value is used again.
 */
export class Cache<K> {
  #young: Generation<K> = generation();
  #old: Generation<K> = generation();

  /** The value, `null` if it is known that there is none, undefined if nothing is known. */
  get(key: K): Uint8Array | null | undefined {
    const young = this.#young.places.get(key);
    if (young !== undefined) return valueAt(this.#young, young);
    const old = this.#old.places.get(key);
    if (old === undefined) return undefined;
    const value = valueAt(this.#old, old);
    this.set(key, value ?? undefined);
    return value;
  }

  set(key: K, value: Uint8Array | undefined): void {
    const size = value?.length ?? 0;
    if (size > VALUE_SIZE_MAX) {
      this.forget(key);
      return;
    }
    if (this.#young.used + size > GENERATION_SIZE || this.#young.places.size >= GENERATION_COUNT) {
      const oldest = this.#old;
      this.#old = this.#young;
      this.#young = oldest;
      emptied(oldest);
    }
    const { places, bytes, used } = this.#young;
    if (value === undefined) {
      places.set(key, ABSENT);
      return;
    }
    bytes.set(value, used);
    places.set(key, used * SIZES + size);
    this.#young.used = used + size;
  }

  forget(key: K): void {
    this.#young.places.delete(key);
    this.#old.places.delete(key);
  }

  clear(): void {
    emptied(this.#young);
    emptied(this.#old);
  }
}

const generation = <K>(): Generation<K> => ({
  places: new Map(),
  bytes: Buffer.allocUnsafeSlow(GENERATION_SIZE),
  used: 0,
});

function emptied<K>(generation: Generation<K>): void {
  generation.places = new Map();
  generation.used = 0;
}

function valueAt<K>({ bytes }: Generation<K>, place: number): Uint8Array | null {
  if (place === ABSENT) return null;
  const at = Math.floor(place / SIZES);
  return Buffer.from(bytes.subarray(at, at + (place % SIZES)));
}
