import assert from "node:assert/strict";
import { test } from "node:test";
import { rc4 } from "./rc4.ts";

const rows: [key: string, plain: string, want: string][] = [
  ["Key", "Plaintext", "bbf316e8d940af0ad3"],
  ["Wiki", "pedia", "1021bf0420"],
  ["Secret", "Attack at dawn", "45a01f645fc35b383552544b9bf5"],
];
for (const [key, plain, want] of rows) {
  test(`rc4(): ${plain}`, () => {
    assert.equal(rc4(Buffer.from(key), Buffer.from(plain)).toString("hex"), want);
  });
}
