import assert from "node:assert/strict";
import { test } from "node:test";
import { decryption, encryption } from "./cipher.ts";

const key = Buffer.alloc(32, 7);
const text = Buffer.from(Array.from({ length: 1000 }, (_, i) => i % 251));

for (const [what, iv] of [
  ["a small counter", Buffer.alloc(16, 1)],
  ["a counter that runs over", Buffer.alloc(16, 0xff)],
  ["a low half that runs over", Buffer.from("0102030405060708fffffffffffffffe", "hex")],
] as const) {
  test(`decryption(): reads from anywhere, with ${what}`, () => {
    const encrypt = encryption(key, iv);
    const parts = [text.subarray(0, 13), text.subarray(13, 500), text.subarray(500)];
    const secret = Buffer.concat(parts.map(encrypt));
    assert.notDeepEqual(secret, text);
    for (const at of [0, 1, 15, 16, 17, 31, 32, 500, 999]) {
      assert.deepEqual(
        Buffer.from(decryption(key, iv, at)(secret.subarray(at))),
        text.subarray(at),
      );
    }
  });
}

test("decryption(): another key or counter gives other bytes", () => {
  const iv = Buffer.alloc(16, 1);
  const secret = encryption(key, iv)(text);
  assert.notDeepEqual(Buffer.from(decryption(Buffer.alloc(32, 8), iv, 0)(secret)), text);
  assert.notDeepEqual(Buffer.from(decryption(key, Buffer.alloc(16, 2), 0)(secret)), text);
});
