import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, errors } from "./errors.ts";
import { checkedMetadata, noMetadata } from "./metadata.ts";

// SEMANTICS 0, "Common wire facts": names are C# identifiers, case-preserving and case-insensitive;
// duplicates are 400; at most 8 KiB in all.
type Pairs = [string, string][];
const KIB = 1024;
const good: [what: string, pairs: Pairs][] = [
  ["one pair", [["name", "value"]]],
  [
    "names keep their case",
    [
      ["MixedCase", "v"],
      ["other", "w"],
    ],
  ],
  ["an empty value", [["name", ""]]],
  ["a value of all that ASCII shows", [["name", "\t !~"]]],
  ["an underscore first", [["_name1", "v"]]],
  ["letters beyond ASCII", [["größe", "v"]]],
  [
    "names of every object",
    [
      ["__proto__", "a"],
      ["constructor", "b"],
      ["toString", "c"],
    ],
  ],
  ["8 KiB in all", [["name", "v".repeat(8 * KIB - 4)]]],
  [
    "8 KiB in two pairs",
    [
      ["n1", "v".repeat(4 * KIB - 2)],
      ["n2", "v".repeat(4 * KIB - 2)],
    ],
  ],
];
for (const [what, pairs] of good) {
  test(`checkedMetadata(): ${what}`, () =>
    assert.deepEqual(Object.entries(checkedMetadata(pairs)), pairs));
}

test("checkedMetadata(): no pairs are no metadata", () =>
  assert.equal(checkedMetadata([]), noMetadata));

const bad: [what: string, pairs: Pairs, want: ErrorCode][] = [
  ["an empty name", [["", "v"]], "EmptyMetadataKey"],
  ["a dash", [["a-b", "v"]], "InvalidMetadata"],
  ["a digit first", [["1a", "v"]], "InvalidMetadata"],
  ["a dot", [["a.b", "v"]], "InvalidMetadata"],
  ["a space", [["a b", "v"]], "InvalidMetadata"],
  ["a value beyond ASCII", [["a", "caf\u00e9"]], "InvalidMetadata"],
  [
    "the same name twice",
    [
      ["a", "v"],
      ["a", "w"],
    ],
    "InvalidMetadata",
  ],
  [
    "the same name in another case",
    [
      ["Name", "v"],
      ["nAME", "w"],
    ],
    "InvalidMetadata",
  ],
  ["one byte over 8 KiB", [["name", "v".repeat(8 * KIB - 3)]], "MetadataTooLarge"],
  [
    "over 8 KiB in many pairs",
    Array.from({ length: 9 }, (_, i): [string, string] => [`n${i}`, "v".repeat(KIB)]),
    "MetadataTooLarge",
  ],
];
for (const [what, pairs, want] of bad) {
  test(`checkedMetadata(): ${what} is refused`, () => {
    assert.throws(() => checkedMetadata(pairs), { code: want });
    assert.equal(errors[want][0], 400);
  });
}
