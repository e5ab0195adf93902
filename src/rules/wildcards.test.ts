import assert from "node:assert/strict";
import { test } from "node:test";
import { matcher } from "./wildcards.ts";

const rows: [pattern: string, name: string, want: boolean][] = [
  ["*", "", true],
  ["*", "a.b", true],
  ["a", "A", true],
  ["a", "ab", false],
  ["?", "a", true],
  ["?", "", false],
  ["a*c", "abbbc", true],
  ["a*c", "abbb", false],
  ["*.txt", "x.TXT", true],
  ["*.txt", "x.txt.bak", false],
  ["a?c", "abc", true],
  ["a?c", "ac", false],
  // DOS's own: a star that stops at the last dot, a question mark that may be nothing, a dot that may be the end.
  ["<.c", "a.b.c", true],
  ["<.c", "a.b.d", false],
  // Windows asks so for "*.": what has no dot.
  ["<", "a", true],
  ["<", "a.b", false],
  ["<", "a.b.c", false],
  ["a<", "abc", true],
  ["a<", "ab.c", false],
  ["a.<", "a.bc", true],
  ["a<c.d", "abc.d", true],
  ["a<c.d", "ac.d", true],
  ['a<"<', "ab.c.d", true],
  ['a<"<', "ab", true],
  ["a>", "a", true],
  ["a>", "ab", true],
  ["a>", "abc", false],
  ['a"', "a", true],
  ['a"', "a.", true],
  ['a"b', "a.b", true],
  ["***************a", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", false],
];
for (const [pattern, name, want] of rows) {
  test(`matcher(${pattern}): ${name}`, () => assert.equal(matcher(pattern)(name), want));
}

test("matcher(): a pattern made to take long does not", () => {
  const begun = performance.now();
  assert.equal(matcher("*a".repeat(200))("b".repeat(255)), false);
  assert.ok(performance.now() - begun < 1000);
});
