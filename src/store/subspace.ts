import { afterPrefix } from "../base/bytes.ts";
import type { Instant } from "../base/time.ts";
import type { ReadTx, WriteTx } from "../engine/engine.ts";

export type Codec<T> = { encode(value: T): Uint8Array; decode(bytes: Uint8Array): T };

/** One part of a key, packed so that packed keys sort as their parts do. */
export type Part<T> = {
  sizeOf(value: T): number;
  /** Writes the part at `at`; gives where the next one begins. */
  pack(value: T, into: Buffer, at: number): number;
  /** Reads the part that begins at `at`; gives it and where the next one begins. */
  unpack(bytes: Buffer, at: number): [value: T, next: number];
};

/** UTF-8 ended by a zero byte; names never hold one, rules/names.ts sees to that. */
export const text: Part<string> = {
  sizeOf: (value) => Buffer.byteLength(value, "utf8") + 1,
  pack(value, into, at) {
    const end = at + into.write(value, at, "utf8");
    into[end] = 0;
    return end + 1;
  },
  unpack(bytes, at) {
    const end = bytes.indexOf(0, at);
    return [bytes.toString("utf8", at, end), end + 1];
  },
};

const SURROGATE = /[\ud800-\udfff]/;

/**
 * Text that sorts by UTF-16 code units, ended by a zero byte: as UTF-8, but each half of a surrogate pair is
 * written for itself, so that it stands before U+E000, and one without its other half is kept.
 */
export const ordinal: Part<string> = {
  sizeOf: (value) => ordinalSize(value) + 1,
  pack(value, into, at) {
    const end = SURROGATE.test(value)
      ? packedUnits(value, into, at)
      : at + into.write(value, at, "utf8");
    into[end] = 0;
    return end + 1;
  },
  unpack(bytes, at) {
    const end = bytes.indexOf(0, at);
    return [ordinalText(bytes.subarray(at, end)), end + 1];
  },
};

function ordinalSize(value: string): number {
  if (!SURROGATE.test(value)) return Buffer.byteLength(value, "utf8");
  let size = 0;
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i);
    size += unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
  }
  return size;
}

function packedUnits(value: string, into: Buffer, at: number): number {
  let end = at;
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i);
    if (unit < 0x80) into[end++] = unit;
    else if (unit < 0x800) {
      into[end++] = 0xc0 | (unit >> 6);
      into[end++] = 0x80 | (unit & 0x3f);
    } else {
      into[end++] = 0xe0 | (unit >> 12);
      into[end++] = 0x80 | ((unit >> 6) & 0x3f);
      into[end++] = 0x80 | (unit & 0x3f);
    }
  }
  return end;
}

/** The bytes of a text in the order-keeping form of `ordinal`, without an end. */
export function ordinalBytes(value: string): Buffer {
  const bytes = Buffer.allocUnsafe(ordinalSize(value) + 1);
  return bytes.subarray(0, ordinal.pack(value, bytes, 0) - 1);
}

/** The text behind `ordinalBytes`. */
export function ordinalText(bytes: Buffer): string {
  // 0xed begins U+D000 and all surrogates; UTF-8 has no other use of the latter.
  if (!bytes.includes(0xed)) return bytes.toString("utf8");
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const lead = bytes[at++] ?? 0;
    let unit = lead;
    if (lead >= 0xe0) {
      unit =
        ((lead & 0x0f) << 12) | (((bytes[at++] ?? 0) & 0x3f) << 6) | ((bytes[at++] ?? 0) & 0x3f);
    } else if (lead >= 0xc0) unit = ((lead & 0x1f) << 6) | ((bytes[at++] ?? 0) & 0x3f);
    text += String.fromCharCode(unit);
  }
  return text;
}

/** A 64-bit number, high byte first. */
export const number: Part<bigint> = {
  sizeOf: () => 8,
  pack: (value, into, at) => into.writeBigUInt64BE(value, at),
  unpack: (bytes, at) => [bytes.readBigUInt64BE(at), at + 8],
};

/** A point in time, in six bytes: enough for 8,900 years of milliseconds. */
export const instant: Part<Instant> = {
  sizeOf: () => 6,
  pack: (value, into, at) => into.writeUIntBE(value, at, 6),
  unpack: (bytes, at) => [bytes.readUIntBE(at, 6), at + 6],
};

// biome-ignore lint/suspicious/noExplicitAny: a tuple of parts of different types; KeyOf gives each its own
type Parts = readonly Part<any>[];
type KeyOf<P extends Parts> = { readonly [I in keyof P]: P[I] extends Part<infer T> ? T : never };
type PrefixOf<P extends Parts> =
  Partial<KeyOf<P>> extends readonly unknown[] ? readonly unknown[] : never;

export type Row<K, V> = { readonly key: K; readonly value: V };

/** Which rows a walk gives. */
export type Walk = {
  /** Packed bytes to begin at, and to end before; `packed` of the subspace makes them. */
  readonly from?: Uint8Array;
  readonly to?: Uint8Array;
  readonly limit: number;
  readonly reverse?: boolean;
};

/** All keys of one kind: a number that is on disk for ever, the parts of the key, and the record's format. */
export type Subspace<P extends Parts, V> = {
  get(tx: ReadTx, ...key: KeyOf<P>): Promise<V | undefined>;
  put(tx: WriteTx, key: KeyOf<P>, value: V): void;
  delete(tx: WriteTx, ...key: KeyOf<P>): void;
  /** Rows below the first parts of a key, in order. */
  walk(tx: ReadTx, prefix: PrefixOf<P>, walk: Walk): Promise<Row<KeyOf<P>, V>[]>;
  /** The bytes that the keys with these first parts begin with; `open` more bytes may follow as they are. */
  packed(prefix: PrefixOf<P>, open?: string): Buffer;
  /** The parts of a whole key, as the engine has it. */
  unpacked(key: Uint8Array): KeyOf<P>;
  /** The record, as the engine has it; throws `BrokenRecord` if it cannot be read. */
  decoded(value: Uint8Array): V;
};

/** A record that this version cannot read: damaged, or written by a newer one. */
export class BrokenRecord extends Error {}

export function subspace<const P extends Parts, V>(
  id: number,
  parts: P,
  codec: Codec<V>,
): Subspace<P, V> {
  const packed = (values: readonly unknown[], open = ""): Buffer => {
    let size = 1 + Buffer.byteLength(open, "utf8");
    for (let i = 0; i < values.length; i++) size += (parts[i] as Part<unknown>).sizeOf(values[i]);
    const bytes = Buffer.allocUnsafe(size);
    bytes[0] = id;
    let at = 1;
    for (let i = 0; i < values.length; i++) {
      at = (parts[i] as Part<unknown>).pack(values[i], bytes, at);
    }
    if (open !== "") bytes.write(open, at, "utf8");
    return bytes;
  };
  const unpacked = (bytes: Uint8Array): KeyOf<P> => {
    const key = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let at = 1;
    return parts.map((part) => {
      const [value, next] = part.unpack(key, at);
      at = next;
      return value;
    }) as unknown as KeyOf<P>;
  };
  const decoded = (bytes: Uint8Array): V => {
    try {
      return codec.decode(bytes);
    } catch (error) {
      throw new BrokenRecord(`its record cannot be read: ${(error as Error).message}`);
    }
  };
  return {
    async get(tx, ...key) {
      const bytes = await tx.get(packed(key));
      return bytes === undefined ? undefined : decoded(bytes);
    },
    put: (tx, key, value) => tx.put(packed(key), codec.encode(value)),
    delete: (tx, ...key) => tx.delete(packed(key)),
    async walk(tx, prefix, { from, to, limit, reverse = false }) {
      const begin = packed(prefix);
      const query = { from: from ?? begin, to: to ?? afterPrefix(begin), limit, reverse };
      const rows = await tx.range(query);
      return rows.map(({ key, value }) => ({ key: unpacked(key), value: decoded(value) }));
    },
    packed,
    unpacked,
    decoded,
  };
}
