import assert from "node:assert/strict";
import { test } from "node:test";
import { compareBytes } from "../base/bytes.ts";
import { memoryEngine } from "../engine/memory.ts";
import { type Codec, number, ordinal, type Part, subspace, text } from "./subspace.ts";

const utf8: Codec<string> = {
  encode: (value) => Buffer.from(value),
  decode: (bytes) => Buffer.from(bytes).toString(),
};
const pairs = subspace(7, [text, text], utf8);
const numbered = subspace(8, [text, number], utf8);

// Texts in the order of their UTF-8: a prefix first, then by code point, not by UTF-16 unit.
const texts = [
  "",
  " ",
  "!",
  "-",
  "0",
  "A",
  "a",
  "a ",
  "a!",
  "a-b",
  "a/b",
  "aa",
  "b",
  "ä",
  "€",
  "\uffff",
  "😀",
];
const numbers = [
  0n,
  1n,
  255n,
  256n,
  2n ** 32n,
  638_000_000_000_000_000n,
  2n ** 63n,
  2n ** 64n - 1n,
];

function packedPart<T>(part: Part<T>, value: T): Buffer {
  const bytes = Buffer.alloc(part.sizeOf(value));
  assert.equal(part.pack(value, bytes, 0), bytes.length);
  return bytes;
}

test("text: unpacks what it packed, and says where the next part begins", () => {
  for (const value of texts) {
    const bytes = Buffer.concat([Buffer.of(9), packedPart(text, value), Buffer.of(9)]);
    assert.deepEqual(text.unpack(bytes, 1), [value, bytes.length - 1]);
  }
});

test("number: unpacks what it packed, and says where the next part begins", () => {
  for (const value of numbers) {
    const bytes = Buffer.concat([Buffer.of(9), packedPart(number, value), Buffer.of(9)]);
    assert.deepEqual(number.unpack(bytes, 1), [value, 9]);
  }
});

test("text: packed texts sort as the texts", () => {
  const packed = texts.map((value) => packedPart(text, value));
  assert.deepEqual([...packed].reverse().sort(compareBytes), packed);
});

test("number: packed numbers sort as the numbers", () => {
  const packed = numbers.map((value) => packedPart(number, value));
  assert.deepEqual([...packed].reverse().sort(compareBytes), packed);
});

test("subspace(): keys sort by their first part, then by their second", () => {
  const keys = texts.flatMap((first) => texts.map((second) => [first, second]));
  const packed = keys.map((key) => pairs.packed(key));
  assert.deepEqual([...packed].reverse().sort(compareBytes), packed);
});

test("subspace(): keys with numbers sort by text, then by number", () => {
  const keys = texts.flatMap((first) => numbers.map((second) => [first, second]));
  const packed = keys.map((key) => numbered.packed(key));
  assert.deepEqual([...packed].reverse().sort(compareBytes), packed);
});

test("subspace(): a key begins with the subspace's number and with the packed first parts", () => {
  assert.equal(pairs.packed(["a", "b"]).toString("latin1"), "\x07a\0b\0");
  assert.equal(pairs.packed(["a"]).toString("latin1"), "\x07a\0");
  assert.equal(pairs.packed([]).toString("latin1"), "\x07");
  assert.equal(pairs.packed(["a"], "pre").toString("latin1"), "\x07a\0pre");
  assert.equal(numbered.packed(["a", 1n]).toString("hex"), "0861000000000000000001");
});

const open = () => memoryEngine({ clock: { now: () => 0 } });

test("subspace(): gets what was put, and nothing after it was deleted", async () => {
  const engine = open();
  await engine.write(async (tx) => pairs.put(tx, ["a", "b"], "value"));
  assert.equal(await engine.read((tx) => pairs.get(tx, "a", "b")), "value");
  assert.equal(await engine.read((tx) => pairs.get(tx, "a", "c")), undefined);
  assert.equal(await engine.read((tx) => pairs.get(tx, "ab", "")), undefined);
  await engine.write(async (tx) => pairs.delete(tx, "a", "b"));
  assert.equal(await engine.read((tx) => pairs.get(tx, "a", "b")), undefined);
  await engine.close();
});

test("subspace(): a walk gives the keys below a prefix, whole and in order", async () => {
  const engine = open();
  await engine.write(async (tx) => {
    for (const first of ["a", "aa", "b"]) {
      for (const value of numbers) numbered.put(tx, [first, value], `${first} ${value}`);
    }
    pairs.put(tx, ["a", "x"], "of another subspace");
  });
  const walk = (prefix: unknown[], limit: number, reverse = false) =>
    engine.read((tx) => numbered.walk(tx, prefix, { limit, reverse }));
  const below = numbers.map((value) => ({ key: ["a", value], value: `a ${value}` }));
  assert.deepEqual(await walk(["a"], 100), below);
  assert.deepEqual(await walk(["a"], 3), below.slice(0, 3));
  assert.deepEqual(await walk(["a"], 3, true), below.toReversed().slice(0, 3));
  assert.equal((await walk([], 100)).length, 3 * numbers.length);
  assert.deepEqual(await walk(["none"], 100), []);
  await engine.close();
});

test("subspace(): a walk goes from and to packed bytes, the end left out", async () => {
  const engine = open();
  await engine.write(async (tx) => {
    for (const name of ["a", "b", "ba", "c"]) pairs.put(tx, ["f", name], name);
  });
  const between = { from: pairs.packed(["f", "a"]), to: pairs.packed(["f"], "c"), limit: 9 };
  const rows = await engine.read((tx) => pairs.walk(tx, ["f"], between));
  assert.deepEqual(
    rows.map(({ value }) => value),
    ["a", "b", "ba"],
  );
  await engine.close();
});

test("ordinal: sorts by UTF-16 code units, and unpacks what it packed", () => {
  const all = [
    ...texts,
    "\ud800",
    "\udfff",
    "\ue000",
    "\ud7ff",
    "a\ud83d",
    "a😀",
    "😀😀",
    "é",
  ].sort();
  const packed = all.map((value) => packedPart(ordinal, value));
  for (let i = 0; i < all.length; i++) {
    const bytes = packed[i] as Buffer;
    assert.deepEqual(ordinal.unpack(bytes, 0), [all[i], bytes.length]);
    if (i > 0) assert.equal(compareBytes(packed[i - 1] as Buffer, bytes), -1);
  }
});
