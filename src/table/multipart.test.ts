import assert from "node:assert/strict";
import { test } from "node:test";
import { boundaryOf, MultipartError, partOf, partsOf } from "./multipart.ts";

const boundaries: [type: string | undefined, want: string | undefined][] = [
  ["multipart/mixed; boundary=batch_1", "batch_1"],
  ["multipart/mixed;boundary=batch_1", "batch_1"],
  ['Multipart/Mixed; boundary="a b=c"', "a b=c"],
  ["multipart/mixed; charset=utf-8; boundary=x=y; more=1", "x=y"],
  ["multipart/mixed; boundary=", undefined],
  ["multipart/mixed", undefined],
  ["multipart/form-data; boundary=x", undefined],
  ["application/json", undefined],
  ["", undefined],
  [undefined, undefined],
];
for (const [type, want] of boundaries) {
  test(`boundaryOf(): ${type}`, () => assert.equal(boundaryOf(type), want));
}

const bodies: [what: string, text: string, want: string[]][] = [
  ["one part", "--x\r\na\r\n--x--\r\n", ["a"]],
  ["two parts", "--x\r\na\r\n--x\r\nb\r\n--x--", ["a", "b"]],
  ["bare line ends", "--x\na\n--x\nb\n--x--\n", ["a", "b"]],
  ["space behind a boundary", "--x \t\r\na\r\n--x--", ["a"]],
  ["a preamble and an epilogue", "hello\r\n--x\r\na\r\n--x--\r\nbye\r\n--x\r\n", ["a"]],
  ["an empty part", "--x\r\n\r\n--x--", [""]],
  ["a part of no line", "--x\r\n--x--", [""]],
  ["blank lines within", "--x\r\n\r\na\r\n\r\n\r\n--x--", ["\r\na\r\n\r\n"]],
  ["the boundary within a line", "--x\r\na--x\r\nb --x--\r\n--x--", ["a--x\r\nb --x--"]],
  ["a longer boundary's name", "--x\r\na\r\n--xy\r\nb\r\n--x--", ["a\r\n--xy\r\nb"]],
  ["no part", "--x--", []],
];
for (const [what, text, want] of bodies) {
  test(`partsOf(): ${what}`, () => assert.deepEqual(partsOf(text, "x", 10), want));
}

for (const text of [
  "",
  "x",
  "--x",
  "--x\r\n",
  "--x\r\na",
  "--x\r\na\r\n--x\r\nb",
  "--x y\r\na\r\n--x--",
]) {
  test(`partsOf(): refuses ${JSON.stringify(text)}`, () => {
    assert.throws(() => partsOf(text, "x", 10), MultipartError);
  });
}

test("partsOf(): gives no more than it is asked for", () => {
  const text = `${"--x\r\na\r\n".repeat(1_000)}--x--`;
  assert.equal(partsOf(text, "x", 101).length, 101);
});

test("partOf(): headers in any case, and the rest", () => {
  const { headers, body } = partOf(
    "Content-Type: application/http\r\nA:b\r\nX:  y z \r\n\r\nrest\r\n\r\n",
  );
  assert.deepEqual(
    [...headers],
    [
      ["content-type", "application/http"],
      ["a", "b"],
      ["x", "y z"],
    ],
  );
  assert.equal(body, "rest\r\n\r\n");
});

test("partOf(): without an empty line there is no rest", () => {
  assert.deepEqual(partOf("a: b").body, "");
  assert.deepEqual(partOf("").body, "");
});

test("partOf(): a header twice is both", () => {
  assert.equal(partOf("a: b\na: c\n\n").headers.get("a"), "b,c");
});

for (const text of [
  "nonsense\r\n\r\n",
  ": x\r\n\r\n",
  "a b: c\r\n",
  `${"a: b\r\n".repeat(9)}x\r\n`,
]) {
  test(`partOf(): refuses ${JSON.stringify(text)}`, () => {
    assert.throws(() => partOf(text), MultipartError);
  });
}
