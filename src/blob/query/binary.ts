/**
 * A text whose characters are the bytes of a blob, one each. Readers cut such texts, so that every offset is
 * the blob's own whatever its encoding, and a column that is not looked at is never decoded.
 */
export type BinaryText = string;

const BEYOND_ASCII = /[^\x00-\x7f]/;

/** The text that the bytes stand for, in UTF-8. */
export const decoded = (bytes: BinaryText): string =>
  BEYOND_ASCII.test(bytes) ? Buffer.from(bytes, "latin1").toString("utf8") : bytes;

/** The bytes of a text, in UTF-8. */
export const encoded = (text: string): BinaryText =>
  BEYOND_ASCII.test(text) ? Buffer.from(text, "utf8").toString("latin1") : text;

/** Bytes as a text of bytes. */
export const binaryOf = (parts: readonly Uint8Array[]): BinaryText =>
  Buffer.concat(parts).toString("latin1");

export const BYTE_ORDER_MARK: BinaryText = "\xef\xbb\xbf";

/** The longest row that a query takes; it must be in memory whole. */
export const ROW_SIZE_MAX = 1024 * 1024;
