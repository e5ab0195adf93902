import assert from "node:assert/strict";
import { test } from "node:test";
import { badPath, badShareName, folded, withoutTrailingDots } from "./file-names.ts";

const shares: [name: string, want: string | undefined][] = [
  ["abc", undefined],
  ["a-b-c", undefined],
  ["0".repeat(63), undefined],
  ["ab", "OutOfRangeInput"],
  ["a".repeat(64), "OutOfRangeInput"],
  ["Abc", "InvalidResourceName"],
  ["a--b", "InvalidResourceName"],
  ["-abc", "InvalidResourceName"],
  ["abc-", "InvalidResourceName"],
  ["$root", "InvalidResourceName"],
];
for (const [name, want] of shares) {
  test(`badShareName(): ${name.slice(0, 8)} (${name.length}): ${want}`, () =>
    assert.equal(badShareName(name), want));
}

const deep = (count: number) => Array.from({ length: count }, () => "d");
const paths: [what: string, path: string[], want: string | undefined][] = [
  ["the root", [], undefined],
  ["plain names", ["Directory", "file.txt"], undefined],
  ["letters of any script", ["Ordner", "файл", "文件", "😀"], undefined],
  ["spaces and dots inside", [" a . b "], undefined],
  ["255 characters", ["x".repeat(255)], undefined],
  ["256 characters", ["x".repeat(256)], "InvalidFileOrDirectoryPathName"],
  ["250 deep", deep(250), undefined],
  ["251 deep", deep(251), "InvalidFileOrDirectoryPathName"],
  ["2,048 characters", [...Array(8).fill("x".repeat(255)), "y".repeat(0)].slice(0, 8), undefined],
  ["more than 2,048", Array(9).fill("x".repeat(255)), "InvalidFileOrDirectoryPathName"],
  ["no name", ["a", "", "b"], "InvalidResourceName"],
  ["a control character", ["a\u0001"], "InvalidResourceName"],
  ["a non-character", ["a\uffff"], "InvalidResourceName"],
  ["half a pair", ["a\ud800"], "InvalidResourceName"],
  [".", ["."], "InvalidResourceName"],
  ["..", ["a", ".."], "InvalidResourceName"],
  ...[...'"\\/:|<>*?'].map((char): [string, string[], string] => [
    `the character ${char}`,
    [`a${char}b`],
    "InvalidResourceName",
  ]),
  ...["LPT1", "com9", "PRN", "Aux", "NUL", "con", "CLOCK$"].map(
    (name): [string, string[], string] => [`the device ${name}`, [name], "InvalidResourceName"],
  ),
  ["a device's name with more behind it", ["con.txt", "com10"], undefined],
];
for (const [what, path, want] of paths) {
  test(`badPath(): ${what}: ${want}`, () => assert.equal(badPath(path), want));
}

const dots: [name: string, want: string][] = [
  ["a", "a"],
  ["a.", "a"],
  ["a.b...", "a.b"],
  [".a", ".a"],
  ["...", ""],
];
for (const [name, want] of dots) {
  test(`withoutTrailingDots(): ${name}`, () => assert.equal(withoutTrailingDots(name), want));
}

const same: [a: string, b: string, isOne: boolean][] = [
  ["File.TXT", "fILE.txt", true],
  ["Ärger", "äRGER", true],
  ["ФАЙЛ", "файл", true],
  ["straße", "STRASSE", false],
  ["straße", "STRAßE", true],
  ["ﬀ", "FF", false],
  ["ı", "I", false],
  ["𐐨", "𐐀", true],
];
for (const [a, b, isOne] of same) {
  test(`folded(): ${a} and ${b} are ${isOne ? "one" : "two"}`, () =>
    assert.equal(folded(a) === folded(b), isOne));
}
