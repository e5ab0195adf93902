import { createCipheriv, createDecipheriv } from "node:crypto";

/**
 * AES-256 in counter mode: as many bytes come out as go in, and reading may begin anywhere. A pair of key and
 * first counter must never be used for two texts, so every chunk has a random one of its own.
 */
export const KEY_SIZE = 32;
export const IV_SIZE = 16;
const BLOCK_SIZE = 16;
const ALGORITHM = "aes-256-ctr";

/** Turns bytes into others, one after another. */
export type Transform = (bytes: Uint8Array) => Uint8Array;

export function encryption(key: Uint8Array, iv: Uint8Array): Transform {
  const cipher = createCipheriv(ALGORITHM, key, iv);
  return (bytes) => cipher.update(bytes);
}

/** Reads what `encryption` wrote, from `offset` on. */
export function decryption(key: Uint8Array, iv: Uint8Array, offset: number): Transform {
  const decipher = createDecipheriv(ALGORITHM, key, counterAt(iv, Math.floor(offset / BLOCK_SIZE)));
  const skipped = offset % BLOCK_SIZE;
  if (skipped > 0) decipher.update(Buffer.alloc(skipped));
  return (bytes) => decipher.update(bytes);
}

/** The counter of a block: the first one plus the block's number, over all 128 bits. */
function counterAt(iv: Uint8Array, block: number): Buffer {
  const counter = Buffer.from(iv);
  const low = counter.readBigUInt64BE(8) + BigInt(block);
  const high = counter.readBigUInt64BE(0) + (low >> 64n);
  counter.writeBigUInt64BE(BigInt.asUintN(64, low), 8);
  counter.writeBigUInt64BE(BigInt.asUintN(64, high), 0);
  return counter;
}
