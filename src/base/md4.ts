const ORDERS = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15],
  [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15],
] as const;
const SHIFTS = [
  [3, 7, 11, 19],
  [3, 5, 9, 13],
  [3, 9, 11, 15],
] as const;
const CONSTANTS = [0, 0x5a827999, 0x6ed9eba1] as const;

function mixed(round: number, x: number, y: number, z: number): number {
  if (round === 0) return (x & y) | (~x & z);
  return round === 1 ? (x & y) | (x & z) | (y & z) : x ^ y ^ z;
}

/** MD4 (RFC 1320), which OpenSSL offers no more; NTLM makes passwords into keys with it. */
export function md4(message: Uint8Array): Buffer {
  const blocks = Math.floor((message.length + 8) / 64) + 1;
  const padded = Buffer.alloc(blocks * 64);
  padded.set(message);
  padded[message.length] = 0x80;
  padded.writeBigUInt64LE(BigInt(message.length) * 8n, padded.length - 8);
  let [s0, s1, s2, s3] = [0x67452301, 0xefcdab89 | 0, 0x98badcfe | 0, 0x10325476];
  for (let at = 0; at < padded.length; at += 64) {
    let [a, b, c, d] = [s0, s1, s2, s3];
    for (let step = 0; step < 48; step++) {
      const round = step >> 4;
      const word = padded.readInt32LE(at + 4 * (ORDERS[round]?.[step & 15] ?? 0));
      const sum = (a + mixed(round, b, c, d) + word + (CONSTANTS[round] ?? 0)) | 0;
      const shift = SHIFTS[round]?.[step & 3] ?? 0;
      [a, b, c, d] = [d, (sum << shift) | (sum >>> (32 - shift)), b, c];
    }
    s0 = (s0 + a) | 0;
    s1 = (s1 + b) | 0;
    s2 = (s2 + c) | 0;
    s3 = (s3 + d) | 0;
  }
  const digest = Buffer.alloc(16);
  for (const [index, word] of [s0, s1, s2, s3].entries()) digest.writeInt32LE(word, index * 4);
  return digest;
}
