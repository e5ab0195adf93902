import { SmbError } from "../status.ts";

/** A field of fixed size in a message; all numbers have their low byte first. */
export type Field<T> = {
  readonly size: number;
  read(bytes: Buffer, at: number): T;
  write(bytes: Buffer, at: number, value: T): void;
};

export const u8: Field<number> = {
  size: 1,
  read: (bytes, at) => bytes[at] ?? 0,
  write: (bytes, at, value) => void bytes.writeUInt8(value & 0xff, at),
};
export const u16: Field<number> = {
  size: 2,
  read: (bytes, at) => bytes.readUInt16LE(at),
  write: (bytes, at, value) => void bytes.writeUInt16LE(value & 0xffff, at),
};
export const u32: Field<number> = {
  size: 4,
  read: (bytes, at) => bytes.readUInt32LE(at),
  write: (bytes, at, value) => void bytes.writeUInt32LE(value >>> 0, at),
};
export const u64: Field<bigint> = {
  size: 8,
  read: (bytes, at) => bytes.readBigUInt64LE(at),
  write: (bytes, at, value) => void bytes.writeBigUInt64LE(BigInt.asUintN(64, value), at),
};

/** So many bytes as they are; a view of the message, not a copy. */
export const raw = (size: number): Field<Buffer> => ({
  size,
  read: (bytes, at) => bytes.subarray(at, at + size),
  write: (bytes, at, value) => void value.copy(bytes, at, 0, size),
});

// biome-ignore lint/suspicious/noExplicitAny: fields of different types; ValuesOf gives each its own
export type Fields = Readonly<Record<string, Field<any>>>;
export type ValuesOf<F extends Fields> = {
  readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never;
};

/** Fields one after another, in the order of the specification. */
export type Layout<F extends Fields> = {
  readonly size: number;
  /** Reads all fields; bytes that are too few are the client's mistake. */
  read(bytes: Buffer, at?: number): ValuesOf<F>;
  /** The fields as bytes; those that are not given are zero. */
  bytes(values: Partial<ValuesOf<F>>): Buffer;
};

export function layout<const F extends Fields>(fields: F): Layout<F> {
  const entries: { name: string; field: Field<unknown>; at: number }[] = [];
  let size = 0;
  for (const [name, field] of Object.entries(fields)) {
    entries.push({ name, field, at: size });
    size += field.size;
  }
  return {
    size,
    read(bytes, at = 0) {
      if (at < 0 || at + size > bytes.length) throw new SmbError("STATUS_INVALID_PARAMETER");
      const values: Record<string, unknown> = {};
      for (const entry of entries) values[entry.name] = entry.field.read(bytes, at + entry.at);
      return values as ValuesOf<F>;
    },
    bytes(values) {
      const result = Buffer.alloc(size);
      for (const { name, field, at } of entries) {
        const value = values[name];
        if (value !== undefined) field.write(result, at, value);
      }
      return result;
    },
  };
}

/** A part of a message that the client says the place of; beyond its end is the client's mistake. */
export function partOf(message: Buffer, offset: number, size: number): Buffer {
  if (size === 0) return Buffer.alloc(0);
  if (offset + size > message.length) throw new SmbError("STATUS_INVALID_PARAMETER");
  return message.subarray(offset, offset + size);
}

/** Bytes filled up with zeros to a multiple of `unit`. */
export function padded(bytes: Buffer, unit: number): Buffer {
  const rest = bytes.length % unit;
  return rest === 0 ? bytes : Buffer.concat([bytes, Buffer.alloc(unit - rest)]);
}
