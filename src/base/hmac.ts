import { createHmac, hash, type KeyObject } from "node:crypto";

const BLOCK_SIZE = 64;
const SUM_SIZE = 32;
/** Longer texts are rare, and take the usual way. */
const TEXT_SIZE_MAX = 8 * 1024;

/** Room for both rounds, the key already mixed in. */
type Rounds = { readonly inner: Buffer; readonly outer: Buffer };

const known = new WeakMap<KeyObject, Rounds>();

/**
 * HMAC-SHA256 (RFC 2104) of a text. It is made of two plain sums, because every request needs one and an object
 * for it costs more than the sums themselves.
 */
export function hmacSha256(key: KeyObject, text: string): Buffer {
  if (text.length * 3 > TEXT_SIZE_MAX) return createHmac("sha256", key).update(text).digest();
  let rounds = known.get(key);
  if (rounds === undefined) {
    rounds = roundsOf(key);
    known.set(key, rounds);
  }
  const { inner, outer } = rounds;
  const size = inner.write(text, BLOCK_SIZE, "utf8");
  outer.set(hash("sha256", inner.subarray(0, BLOCK_SIZE + size), "buffer"), BLOCK_SIZE);
  return hash("sha256", outer, "buffer");
}

function roundsOf(key: KeyObject): Rounds {
  const secret = key.export();
  const short = secret.length > BLOCK_SIZE ? hash("sha256", secret, "buffer") : secret;
  const inner = Buffer.alloc(BLOCK_SIZE + TEXT_SIZE_MAX);
  const outer = Buffer.alloc(BLOCK_SIZE + SUM_SIZE);
  for (let i = 0; i < BLOCK_SIZE; i++) {
    inner[i] = 0x36 ^ (short[i] ?? 0);
    outer[i] = 0x5c ^ (short[i] ?? 0);
  }
  return { inner, outer };
}
