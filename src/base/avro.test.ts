import assert from "node:assert/strict";
import { test } from "node:test";
import {
  avroBlock,
  avroBoolean,
  avroHead,
  avroLong,
  avroMap,
  avroOptional,
  avroString,
} from "./avro.ts";

// The examples of the specification ("Primitive Types", "Maps", "Unions"), and the ends of 64 bits.
const longs: [value: number | bigint, hex: string][] = [
  [0, "00"],
  [-1, "01"],
  [1, "02"],
  [-2, "03"],
  [2, "04"],
  [-64, "7f"],
  [64, "8001"],
  [2 ** 40, "808080808040"],
  [2n ** 63n - 1n, "feffffffffffffffff01"],
  [-(2n ** 63n), "ffffffffffffffffff01"],
];
for (const [value, hex] of longs) {
  test(`avroLong(): ${value}`, () => assert.equal(avroLong(value).toString("hex"), hex));
}

test("avro: texts, booleans, maps and unions", () => {
  assert.equal(avroString("foo").toString("hex"), "06666f6f");
  assert.equal(avroString("ä").toString("hex"), "04c3a4");
  assert.equal(avroBoolean(true).toString("hex"), "01");
  assert.equal(avroMap({}, avroString).toString("hex"), "00");
  assert.equal(avroMap({ a: "b" }, avroString).toString("hex"), "020261026200");
  assert.equal(avroOptional(undefined, avroString).toString("hex"), "00");
  assert.equal(avroOptional("a", avroString).toString("hex"), "020261");
});

test("avro: a file is a head and blocks that end with its marker", () => {
  const sync = Buffer.alloc(16, 7);
  const head = avroHead("string", sync);
  assert.equal(head.toString("latin1", 0, 4), "Obj\x01");
  assert.deepEqual(head.subarray(-16), sync);
  assert.ok(head.includes(avroString('"string"')));
  const block = avroBlock(2, Buffer.from("abcd"), sync);
  assert.equal(block.toString("hex"), `040861626364${"07".repeat(16)}`);
});
