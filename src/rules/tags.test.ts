import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, errors, StorageError } from "./errors.ts";
import { checkedTags, parseTagHeader } from "./tags.ts";

// SEMANTICS c.14: at most 10; key 1 to 128, value 0 to 256 characters of a-zA-Z0-9 +-./:=_ and space;
// case-sensitive.
type Pairs = [string, string][];
const many = (count: number): Pairs =>
  Array.from({ length: count }, (_, i): [string, string] => [`k${i}`, `v${i}`]);
const good: [what: string, pairs: Pairs][] = [
  ["none", []],
  ["one", [["key", "value"]]],
  ["ten", many(10)],
  ["an empty value", [["key", ""]]],
  ["every character allowed", [["azAZ09 +-./:=_", "azAZ09 +-./:=_"]]],
  ["a key of 128 characters", [["k".repeat(128), "v"]]],
  ["a value of 256 characters", [["k", "v".repeat(256)]]],
  [
    "names that differ by case",
    [
      ["key", "a"],
      ["Key", "b"],
    ],
  ],
  [
    "names of every object",
    [
      ["__proto__", "a"],
      ["constructor", "b"],
    ],
  ],
];
for (const [what, pairs] of good) {
  test(`checkedTags(): ${what}`, () => assert.deepEqual(Object.entries(checkedTags(pairs)), pairs));
}

const bad: [what: string, pairs: Pairs, want: ErrorCode][] = [
  ["eleven", many(11), "TagsTooLarge"],
  ["an empty key", [["", "v"]], "EmptyTagName"],
  ["a key of 129 characters", [["k".repeat(129), "v"]], "TagsTooLarge"],
  ["a value of 257 characters", [["k", "v".repeat(257)]], "TagsTooLarge"],
  ["a sign that is not allowed in a key", [["a&b", "v"]], "InvalidTag"],
  ["a sign that is not allowed in a value", [["k", "a*b"]], "InvalidTag"],
  ["a letter beyond ASCII", [["k", "ü"]], "InvalidTag"],
  ["a line feed", [["k", "a\n"]], "InvalidTag"],
  [
    "a name twice",
    [
      ["k", "a"],
      ["k", "b"],
    ],
    "DuplicateTagNames",
  ],
];
for (const [what, pairs, want] of bad) {
  test(`checkedTags(): ${what} is refused`, () => {
    assert.throws(() => checkedTags(pairs), { code: want });
    assert.equal(errors[want][0], 400);
  });
}

// c.14: x-ms-tags is a query string of at most 2 KiB.
const headers: [text: string | undefined, want: Pairs | undefined][] = [
  [undefined, undefined],
  ["a=b", [["a", "b"]]],
  [
    "a=b&c=d",
    [
      ["a", "b"],
      ["c", "d"],
    ],
  ],
  ["a=", [["a", ""]]],
  ["a%20b=c%3Ad", [["a b", "c:d"]]],
  ["a+b=c", [["a b", "c"]]],
  ["a=b%2Bc", [["a", "b+c"]]],
];
for (const [text, want] of headers) {
  test(`parseTagHeader(): ${text ?? "no header"}`, () => {
    const tags = parseTagHeader(text);
    assert.deepEqual(tags === undefined ? undefined : Object.entries(tags), want);
  });
}

const badHeaders: [text: string, want: ErrorCode][] = [
  ["a=b%26c", "InvalidTag"],
  ["a=%zz", "InvalidTag"],
  ["a=%ff", "InvalidTag"],
  ["=b", "EmptyTagName"],
  ["a=b&a=c", "DuplicateTagNames"],
];
for (const [text, want] of badHeaders) {
  test(`parseTagHeader(): ${text} is refused`, () =>
    assert.throws(() => parseTagHeader(text), { code: want }));
}

test("parseTagHeader(): a header over 2 KiB is refused", () => {
  const text = Array.from({ length: 10 }, (_, i) => `k${i}=${"v".repeat(210)}`).join("&");
  assert.ok(text.length > 2048);
  assert.throws(
    () => parseTagHeader(text),
    (error) => error instanceof StorageError && errors[error.code][0] === 400,
  );
});
