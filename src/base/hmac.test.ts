import assert from "node:assert/strict";
import { createHmac, createSecretKey } from "node:crypto";
import { test } from "node:test";
import { hmacSha256 } from "./hmac.ts";

test("hmacSha256 is what the platform makes, for every size of key and text", () => {
  for (const keySize of [1, 20, 32, 63, 64, 65, 131]) {
    const key = createSecretKey(Buffer.alloc(keySize, keySize));
    for (const size of [0, 1, 55, 56, 64, 1000, 2730, 2731, 9000]) {
      for (const text of ["x".repeat(size), "ä€".repeat(size / 2)]) {
        const wanted = createHmac("sha256", key).update(text).digest("hex");
        assert.equal(hmacSha256(key, text).toString("hex"), wanted, `${keySize} ${size}`);
      }
    }
  }
});

// RFC 4231, test case 2.
test("hmacSha256 gives the published value", () => {
  const sum = hmacSha256(createSecretKey(Buffer.from("Jefe")), "what do ya want for nothing?");
  const wanted = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
  assert.equal(sum.toString("hex"), wanted);
});
