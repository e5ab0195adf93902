import assert from "node:assert/strict";
import { test } from "node:test";
import { parseRange, type Range, type RangeAsked, rangeOf } from "./ranges.ts";

// SEMANTICS c.12: only `bytes=a-` and `bytes=a-b` count; any other form is ignored.
const texts: [text: string | undefined, want: RangeAsked | undefined][] = [
  [undefined, undefined],
  ["bytes=0-", { start: 0 }],
  ["bytes=7-", { start: 7 }],
  ["bytes=0-0", { start: 0, end: 0 }],
  ["bytes=5-9", { start: 5, end: 9 }],
  ["bytes=007-010", { start: 7, end: 10 }],
  ["bytes=-5", undefined],
  ["bytes=-", undefined],
  ["bytes=", undefined],
  ["bytes=0-4,6-9", undefined],
  ["bytes=9-5", undefined],
  ["bytes=a-b", undefined],
  ["bytes=1.5-2", undefined],
  ["bytes=0x1-0x2", undefined],
  ["items=0-4", undefined],
  ["0-4", undefined],
  ["", undefined],
  ["bytes=0-4\n", undefined],
];
for (const [text, want] of texts) {
  test(`parseRange(): ${JSON.stringify(text)}`, () => assert.deepEqual(parseRange(text), want));
}

// c.12: a start at or after the length is 416, an end is clipped; an empty blob refuses an end that is not 0.
const wholes: [text: string | undefined, size: number, want: Range | "InvalidRange"][] = [
  [undefined, 10, { start: 0, count: 10 }],
  [undefined, 0, { start: 0, count: 0 }],
  ["bytes=-5", 10, { start: 0, count: 10 }],
  ["bytes=0-", 10, { start: 0, count: 10 }],
  ["bytes=0-9", 10, { start: 0, count: 10 }],
  ["bytes=0-0", 10, { start: 0, count: 1 }],
  ["bytes=3-5", 10, { start: 3, count: 3 }],
  ["bytes=9-", 10, { start: 9, count: 1 }],
  ["bytes=9-9", 10, { start: 9, count: 1 }],
  ["bytes=5-99", 10, { start: 5, count: 5 }],
  ["bytes=5-9007199254740991", 10, { start: 5, count: 5 }],
  ["bytes=5-9223372036854775807", 10, { start: 5, count: 5 }],
  ["bytes=10-", 10, "InvalidRange"],
  ["bytes=10-20", 10, "InvalidRange"],
  ["bytes=11-", 10, "InvalidRange"],
  ["bytes=9223372036854775807-", 10, "InvalidRange"],
  ["bytes=0-9", 0, "InvalidRange"],
  ["bytes=0-1", 0, "InvalidRange"],
  ["bytes=0-0", 0, { start: 0, count: 0 }],
  ["bytes=0-", 0, "InvalidRange"],
  ["bytes=1-", 0, "InvalidRange"],
];
for (const [text, size, want] of wholes) {
  test(`rangeOf(): ${text ?? "no range"} of ${size} bytes`, () => {
    if (want === "InvalidRange") {
      assert.throws(() => rangeOf(parseRange(text), size), { code: "InvalidRange" });
    } else {
      assert.deepEqual(rangeOf(parseRange(text), size), want);
    }
  });
}
