import assert from "node:assert/strict";
import { test } from "node:test";
import { md4 } from "./md4.ts";

// RFC 1320, appendix A.5; the last is the NT hash of the development account's key.
const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const rows: [text: string, encoding: "latin1" | "utf16le", want: string][] = [
  ["", "latin1", "31d6cfe0d16ae931b73c59d7e0c089c0"],
  ["a", "latin1", "bde52cb31de33e46245e05fbdbd6fb24"],
  ["abc", "latin1", "a448017aaf21d8525fc10ae87aa6729d"],
  ["message digest", "latin1", "d9130a8164549fe818874806e1c7014b"],
  ["abcdefghijklmnopqrstuvwxyz", "latin1", "d79e1c308aa5bbcdeea8ed63df412da9"],
  [
    "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
    "latin1",
    "e33b4ddc9c38f2199c3e7b164fcc0536",
  ],
  [KEY, "utf16le", "9f309c5840bd070991c81133b05c3a0f"],
];
for (const [text, encoding, want] of rows) {
  test(`md4(): ${text.length} characters`, () => {
    assert.equal(md4(Buffer.from(text, encoding)).toString("hex"), want);
  });
}
