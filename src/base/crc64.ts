/**
 * CRC-64/NVME, the checksum of `x-ms-content-crc64`: reflected polynomial 0x9A6C9329AC4BC9B5, all ones
 * in and out. JavaScript has no 64-bit integers that are fast, so low and high halves go side by side,
 * eight bytes at a step.
 */
const POLYNOMIAL = 0x9a6c9329ac4bc9b5n;

const low = Array.from({ length: 8 }, () => new Int32Array(256));
const high = Array.from({ length: 8 }, () => new Int32Array(256));

function fillTables(): void {
  const rows: bigint[] = [];
  for (let byte = 0; byte < 256; byte++) {
    let crc = BigInt(byte);
    for (let bit = 0; bit < 8; bit++) crc = crc & 1n ? (crc >> 1n) ^ POLYNOMIAL : crc >> 1n;
    rows.push(crc);
  }
  for (let byte = 0; byte < 256; byte++) {
    let crc = rows[byte] ?? 0n;
    for (let step = 0; step < 8; step++) {
      (low[step] as Int32Array)[byte] = Number(BigInt.asIntN(32, crc));
      (high[step] as Int32Array)[byte] = Number(BigInt.asIntN(32, crc >> 32n));
      crc = (crc >> 8n) ^ (rows[Number(crc & 0xffn)] ?? 0n);
    }
  }
}
fillTables();

const [l0, l1, l2, l3, l4, l5, l6, l7] = low as [
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
];
const [h0, h1, h2, h3, h4, h5, h6, h7] = high as [
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
];

/** A checksum that grows with the bytes it is given. */
export class Crc64 {
  #low = -1;
  #high = -1;

  update(bytes: Uint8Array): this {
    let lo = this.#low;
    let hi = this.#high;
    const length = bytes.length;
    const whole = length - (length % 8);
    const t0 = l0,
      t1 = l1,
      t2 = l2,
      t3 = l3,
      t4 = l4,
      t5 = l5,
      t6 = l6,
      t7 = l7;
    const u0 = h0,
      u1 = h1,
      u2 = h2,
      u3 = h3,
      u4 = h4,
      u5 = h5,
      u6 = h6,
      u7 = h7;
    let at = 0;
    for (; at < whole; at += 8) {
      const a = (lo & 255) ^ (bytes[at] as number);
      const b = ((lo >>> 8) & 255) ^ (bytes[at + 1] as number);
      const c = ((lo >>> 16) & 255) ^ (bytes[at + 2] as number);
      const d = (lo >>> 24) ^ (bytes[at + 3] as number);
      const e = (hi & 255) ^ (bytes[at + 4] as number);
      const f = ((hi >>> 8) & 255) ^ (bytes[at + 5] as number);
      const g = ((hi >>> 16) & 255) ^ (bytes[at + 6] as number);
      const h = (hi >>> 24) ^ (bytes[at + 7] as number);
      lo =
        (t7[a] as number) ^
        (t6[b] as number) ^
        (t5[c] as number) ^
        (t4[d] as number) ^
        (t3[e] as number) ^
        (t2[f] as number) ^
        (t1[g] as number) ^
        (t0[h] as number);
      hi =
        (u7[a] as number) ^
        (u6[b] as number) ^
        (u5[c] as number) ^
        (u4[d] as number) ^
        (u3[e] as number) ^
        (u2[f] as number) ^
        (u1[g] as number) ^
        (u0[h] as number);
    }
    for (; at < length; at++) {
      const index = (lo ^ (bytes[at] as number)) & 255;
      lo = ((lo >>> 8) | (hi << 24)) ^ (t0[index] as number);
      hi = (hi >>> 8) ^ (u0[index] as number);
    }
    this.#low = lo;
    this.#high = hi;
    return this;
  }

  /** The eight bytes as the header has them: little-endian, in base64. */
  digest(): string {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeInt32LE(~this.#low, 0);
    bytes.writeInt32LE(~this.#high, 4);
    return bytes.toString("base64");
  }
}

export const crc64 = (bytes: Uint8Array): string => new Crc64().update(bytes).digest();
