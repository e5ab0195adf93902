import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorCode } from "./errors.ts";
import { badBlobName, badContainerName, badQueueName, isAccountName, parseGuid } from "./names.ts";

// SEMANTICS c.1: 3 to 63 lower-case letters, digits and single dashes between them; characters give
// InvalidResourceName, length OutOfRangeInput.
const containers: [name: string, want: ErrorCode | undefined][] = [
  ["abc", undefined],
  ["a-b", undefined],
  ["0ab", undefined],
  ["a-1-b", undefined],
  ["123", undefined],
  ["a".repeat(63), undefined],
  ["$root", undefined],
  ["$web", undefined],
  ["$logs", undefined],
  ["ab", "OutOfRangeInput"],
  ["a", "OutOfRangeInput"],
  ["", "OutOfRangeInput"],
  ["a".repeat(64), "OutOfRangeInput"],
  ["-ab", "InvalidResourceName"],
  ["ab-", "InvalidResourceName"],
  ["a--b", "InvalidResourceName"],
  ["Abc", "InvalidResourceName"],
  ["a_b", "InvalidResourceName"],
  ["a.b", "InvalidResourceName"],
  ["a b", "InvalidResourceName"],
  ["äbc", "InvalidResourceName"],
  ["abc\n", "InvalidResourceName"],
  ["$rooted", "InvalidResourceName"],
  ["$other", "InvalidResourceName"],
];
for (const [name, want] of containers) {
  test(`badContainerName(): ${JSON.stringify(name)} (${name.length}) gives ${want ?? "nothing"}`, () =>
    assert.equal(badContainerName(name), want));
}

for (const [name, want] of containers) {
  // SEMANTICS f: the same letters, without the special names.
  const wanted = name.startsWith("$") ? "InvalidResourceName" : want;
  test(`badQueueName(): ${JSON.stringify(name)} (${name.length}) gives ${wanted ?? "nothing"}`, () =>
    assert.equal(badQueueName(name), wanted));
}

test("badContainerName(): a hostile name is judged at once", () =>
  assert.equal(badContainerName(`${"a-".repeat(31)}-`), "InvalidResourceName"));

// c.1: 1 to 1,024 characters of any kind but control characters and code points like U+E000; at most
// 254 segments; none in $root.
const segments = (count: number) => Array.from({ length: count }, () => "a").join("/");
const blobs: [what: string, name: string, container: string, want: ErrorCode | undefined][] = [
  ["one character", "a", "abc", undefined],
  ["1,024 characters", "a".repeat(1024), "abc", undefined],
  ["1,024 characters beyond ASCII", "ä".repeat(1024), "abc", undefined],
  ["no character", "", "abc", "OutOfRangeInput"],
  ["1,025 characters", "a".repeat(1025), "abc", "OutOfRangeInput"],
  ["upper case, spaces, signs", "A b%&?#+~'\"<>|*:\\", "abc", undefined],
  ["an emoji", "😀", "abc", undefined],
  ["dots", "../..", "abc", undefined],
  ["a trailing dot or slash is only to be avoided", "a./", "abc", undefined],
  ["NUL", "a\u0000b", "abc", "InvalidResourceName"],
  ["a line feed", "a\nb", "abc", "InvalidResourceName"],
  ["a tab", "a\tb", "abc", "InvalidResourceName"],
  ["U+001F", "a\u001fb", "abc", "InvalidResourceName"],
  ["DEL", "a\u007fb", "abc", "InvalidResourceName"],
  ["a C1 control", "a\u0081b", "abc", "InvalidResourceName"],
  ["half a surrogate pair", "a\ud800b", "abc", "InvalidResourceName"],
  ["254 segments", segments(254), "abc", undefined],
  ["255 segments", segments(255), "abc", "InvalidResourceName"],
  ["a plain name in $root", "a.txt", "$root", undefined],
  ["a slash in $root", "a/b", "$root", "InvalidResourceName"],
];
for (const [what, name, container, want] of blobs) {
  test(`badBlobName(): ${what} gives ${want ?? "nothing"}`, () =>
    assert.equal(badBlobName(name, container), want));
}

// b.1: a lease id is a GUID in any of .NET's string forms.
const guid = "12345678-9abc-def0-1234-56789abcdef0";
const guids: [what: string, text: string, want: string | undefined][] = [
  ["form D", guid, guid],
  ["form N", "123456789abcdef0123456789abcdef0", guid],
  ["form B", `{${guid}}`, guid],
  ["form P", `(${guid})`, guid],
  ["form X", "{0x12345678,0x9abc,0xdef0,{0x12,0x34,0x56,0x78,0x9a,0xbc,0xde,0xf0}}", guid],
  ["upper case", guid.toUpperCase(), guid],
  ["nothing", "", undefined],
  ["a word", "lease", undefined],
  ["one digit too few", guid.slice(1), undefined],
  ["one digit too many", `${guid}0`, undefined],
  ["a letter that is no digit", guid.replace("a", "g"), undefined],
  ["a dash out of place", "1234567-89abc-def0-1234-56789abcdef0", undefined],
  ["two kinds of brackets", `{${guid})`, undefined],
  ["an open bracket", `{${guid}`, undefined],
  ["a line feed at the end", `${guid}\n`, undefined],
];
for (const [what, text, want] of guids) {
  test(`parseGuid(): ${what}`, () => assert.equal(parseGuid(text), want));
}

const accounts: [name: string, want: boolean][] = [
  ["abc", true],
  ["devstoreaccount1", true],
  ["a".repeat(24), true],
  ["ab", false],
  ["a".repeat(25), false],
  ["Abc", false],
  ["a-b", false],
  ["", false],
];
for (const [name, want] of accounts) {
  test(`isAccountName(): ${JSON.stringify(name)} is ${want}`, () =>
    assert.equal(isAccountName(name), want));
}
