/** Bytes on their way in or out; whoever reads them sets the pace. */
export type ByteStream = AsyncIterable<Uint8Array>;

/** Byte by byte, a prefix before what it begins: the order of every engine's keys. */
export const compareBytes = (a: Uint8Array, b: Uint8Array): number => Buffer.compare(a, b);

/** The first key after every key that begins with `prefix`; the prefix must not be all 0xff. */
export function afterPrefix(prefix: Uint8Array): Uint8Array {
  let end = prefix.length;
  while (end > 0 && prefix[end - 1] === 0xff) end--;
  const next = Buffer.from(prefix.subarray(0, end));
  next[end - 1] = (next[end - 1] ?? 0) + 1;
  return next;
}

/** The bytes of a base64 text that is written exactly as it should be; undefined otherwise. */
export function parseBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text ? bytes : undefined;
}
