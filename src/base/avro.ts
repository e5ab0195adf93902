/**
 * Writing Avro (specification 1.8): the few primitives we need, and object container files, whose blocks
 * can be sent one after another as they come. Nothing here reads Avro.
 */

/** A whole number: zigzag, then seven bits to a byte, lowest first. */
export function avroLong(value: number | bigint): Buffer {
  const wide = BigInt(value);
  let rest = wide >= 0n ? wide << 1n : (-wide << 1n) - 1n;
  const bytes: number[] = [];
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

/** Bytes behind their count. */
export const avroBytes = (bytes: Uint8Array): Buffer =>
  Buffer.concat([avroLong(bytes.length), bytes]);

/** A text is its UTF-8 behind the count of bytes. */
export const avroString = (text: string): Buffer => avroBytes(Buffer.from(text, "utf8"));

export const avroBoolean = (value: boolean): Buffer => Buffer.from([value ? 1 : 0]);

const MAGIC = Buffer.from("Obj\x01", "latin1");

/** The head of a container file; `sync` is sixteen bytes that end each block. */
export const avroHead = (schema: unknown, sync: Uint8Array): Buffer =>
  Buffer.concat([
    MAGIC,
    avroLong(2),
    avroString("avro.codec"),
    avroString("null"),
    avroString("avro.schema"),
    avroString(JSON.stringify(schema)),
    avroLong(0),
    sync,
  ]);

/** A block of `count` records that were written one after another. */
export const avroBlock = (count: number, records: Uint8Array, sync: Uint8Array): Buffer =>
  Buffer.concat([avroLong(count), avroLong(records.length), records, sync]);

/** A map from texts: one block of pairs, and the empty one that ends it. */
export function avroMap<T>(
  values: Readonly<Record<string, T>>,
  write: (value: T) => Buffer,
): Buffer {
  const pairs = Object.entries(values);
  const written = pairs.flatMap(([key, value]) => [avroString(key), write(value)]);
  return pairs.length === 0
    ? avroLong(0)
    : Buffer.concat([avroLong(pairs.length), ...written, avroLong(0)]);
}

/** A union of null and one other type, in that order. */
export const avroOptional = <T>(value: T | undefined, write: (value: T) => Buffer): Buffer =>
  value === undefined ? avroLong(0) : Buffer.concat([avroLong(1), write(value)]);
