import { createCipheriv } from "node:crypto";

const BLOCK = 16;
const ZEROS = Buffer.alloc(BLOCK);

/** Twice a block, as a number of GF(2^128). */
function doubled(block: Uint8Array): Buffer {
  const result = Buffer.alloc(BLOCK);
  let carry = 0;
  for (let i = BLOCK - 1; i >= 0; i--) {
    const byte = block[i] ?? 0;
    result[i] = (byte << 1) | carry;
    carry = byte >>> 7;
  }
  if (carry === 1) result[BLOCK - 1] = (result[BLOCK - 1] ?? 0) ^ 0x87;
  return result;
}

/** AES-128-CMAC (RFC 4493) with one key; the bulk goes through one pass of AES-CBC. */
export class Cmac {
  readonly #key: Uint8Array;
  readonly #whole: Buffer;
  readonly #padded: Buffer;

  constructor(key: Uint8Array) {
    this.#key = key;
    const cipher = createCipheriv("aes-128-ecb", key, null).setAutoPadding(false);
    this.#whole = doubled(cipher.update(ZEROS));
    this.#padded = doubled(this.#whole);
  }

  of(message: Uint8Array): Buffer {
    const start = Math.max(0, Math.ceil(message.length / BLOCK) - 1) * BLOCK;
    const rest = message.subarray(start);
    const last = Buffer.alloc(BLOCK);
    last.set(rest);
    if (rest.length < BLOCK) last[rest.length] = 0x80;
    const mask = rest.length < BLOCK ? this.#padded : this.#whole;
    for (let i = 0; i < BLOCK; i++) last[i] = (last[i] ?? 0) ^ (mask[i] ?? 0);
    const cipher = createCipheriv("aes-128-cbc", this.#key, ZEROS).setAutoPadding(false);
    cipher.update(message.subarray(0, start));
    return cipher.update(last);
  }
}
