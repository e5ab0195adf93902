import assert from "node:assert/strict";
import { test } from "node:test";
import { Crc64, crc64 } from "./crc64.ts";

// SEMANTICS c.12: CRC-64/NVME, the header's value is base64 of eight bytes, little-endian.
const checks: [text: string, want: string][] = [
  ["123456789", "iJh5CoYUi64="],
  ["", "AAAAAAAAAAA="],
];
for (const [text, want] of checks) {
  test(`crc64(): ${JSON.stringify(text)} is ${want}`, () =>
    assert.equal(crc64(Buffer.from(text)), want));
}

test("crc64(): the check value is 0xAE8B14860A799888", () => {
  const value = Buffer.from(crc64(Buffer.from("123456789")), "base64").readBigUInt64LE();
  assert.equal(value, 0xae8b14860a799888n);
});

/** The definition, a bit at a time. */
function slow(bytes: Uint8Array): string {
  const ones = 2n ** 64n - 1n;
  let crc = ones;
  for (const byte of bytes) {
    crc ^= BigInt(byte);
    for (let bit = 0; bit < 8; bit++)
      crc = crc & 1n ? (crc >> 1n) ^ 0x9a6c9329ac4bc9b5n : crc >> 1n;
  }
  const result = Buffer.alloc(8);
  result.writeBigUInt64LE(crc ^ ones);
  return result.toString("base64");
}

const bytes = Buffer.from(Array.from({ length: 70 }, (_, i) => (i * i * 89 + i * 31 + 7) % 256));

test("crc64(): every length agrees with the definition", () => {
  for (let length = 0; length <= bytes.length; length++) {
    const part = bytes.subarray(0, length);
    assert.equal(crc64(part), slow(part), `${length} bytes`);
  }
});

test("crc64(): bytes 0x00 and 0xff agree with the definition", () => {
  for (const fill of [0x00, 0xff]) {
    for (const length of [1, 7, 8, 9, 64]) {
      const part = Buffer.alloc(length, fill);
      assert.equal(crc64(part), slow(part), `${length} of ${fill}`);
    }
  }
});

test("Crc64: however the bytes are split, the sum is the same", () => {
  const want = crc64(bytes);
  for (let first = 0; first <= bytes.length; first++) {
    for (const second of [first, Math.min(first + 3, bytes.length), bytes.length]) {
      const crc = new Crc64();
      crc.update(bytes.subarray(0, first)).update(bytes.subarray(first, second));
      assert.equal(crc.update(bytes.subarray(second)).digest(), want, `${first}, ${second}`);
    }
  }
  const single = new Crc64();
  for (let i = 0; i < bytes.length; i++) single.update(bytes.subarray(i, i + 1));
  assert.equal(single.digest(), want);
});

test("Crc64: digest() may be asked for on the way", () => {
  const crc = new Crc64().update(bytes.subarray(0, 10));
  assert.equal(crc.digest(), crc64(bytes.subarray(0, 10)));
  assert.equal(crc.digest(), crc64(bytes.subarray(0, 10)));
  assert.equal(crc.update(bytes.subarray(10)).digest(), crc64(bytes));
});
