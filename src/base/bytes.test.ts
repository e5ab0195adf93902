import assert from "node:assert/strict";
import { test } from "node:test";
import { afterPrefix, compareBytes, parseBase64 } from "./bytes.ts";

// The order of every engine's keys: byte by byte, a prefix before what it begins.
const ordered = ["", "00", "0000", "0001", "00ff", "01", "7f", "80", "80ff", "ff", "ff00", "ffff"];
for (const [i, a] of ordered.entries()) {
  for (const [j, b] of ordered.entries()) {
    test(`compareBytes(): ${a || "nothing"} and ${b || "nothing"}`, () => {
      const order = compareBytes(Buffer.from(a, "hex"), Buffer.from(b, "hex"));
      assert.equal(Math.sign(order), Math.sign(i - j));
    });
  }
}

const prefixes: [prefix: string, want: string][] = [
  ["00", "01"],
  ["61", "62"],
  ["6162", "6163"],
  ["fe", "ff"],
  ["61ff", "62"],
  ["61ffff", "62"],
  ["00ff", "01"],
  ["61ff61", "61ff62"],
];
for (const [prefix, want] of prefixes) {
  test(`afterPrefix(): after all that begins with ${prefix} stands ${want}`, () => {
    const begin = Buffer.from(prefix, "hex");
    const end = afterPrefix(begin);
    assert.equal(Buffer.from(end).toString("hex"), want);
    assert.ok(compareBytes(Buffer.concat([begin, Buffer.alloc(40, 0xff)]), end) < 0);
    assert.equal(begin.toString("hex"), prefix, "the prefix itself is left as it was");
  });
}

const base64s: [text: string, want: string | undefined][] = [
  ["", ""],
  ["AA==", "00"],
  ["AAA=", "0000"],
  ["AAAA", "000000"],
  ["+/+/", "fbffbf"],
  ["AA", undefined],
  ["AA=", undefined],
  ["AB==", undefined],
  ["A", undefined],
  ["====", undefined],
  ["AA==AA==", undefined],
  ["-_-_", undefined],
  ["AA ==", undefined],
  ["AA==\n", undefined],
  ["*", undefined],
  ["ü", undefined],
];
for (const [text, want] of base64s) {
  test(`parseBase64(): ${JSON.stringify(text)} ${want === undefined ? "is refused" : "is read"}`, () =>
    assert.equal(parseBase64(text)?.toString("hex"), want));
}
