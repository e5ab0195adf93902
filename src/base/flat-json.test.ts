import assert from "node:assert/strict";
import { test } from "node:test";
import { FlatJsonError, parseFlatJson, unquoted } from "./flat-json.ts";

const good: [text: string, want: [name: string, json: string][]][] = [
  ["{}", []],
  [" \t\r\n{ } \n", []],
  ['\ufeff{"a":1}', [["a", "1"]]],
  [
    '{"a":1,"b":-2.50,"c":1e9}',
    [
      ["a", "1"],
      ["b", "-2.50"],
      ["c", "1e9"],
    ],
  ],
  [
    '{"a":true,"b":false,"c":null}',
    [
      ["a", "true"],
      ["b", "false"],
      ["c", "null"],
    ],
  ],
  [
    '{"a" : "x" , "b":""}',
    [
      ["a", '"x"'],
      ["b", '""'],
    ],
  ],
  ['{"a":"\\u0041\\/\\n\\""}', [["a", '"A/\\n\\""']]],
  ['{"a":"\\\\"}', [["a", '"\\\\"']]],
  [
    '{"a":"plain","b":"\\\\","c":"plain"}',
    [
      ["a", '"plain"'],
      ["b", '"\\\\"'],
      ["c", '"plain"'],
    ],
  ],
  ['{"\\u0061":1}', [["a", "1"]]],
  ['{"a":"\\ud800"}', [["a", '"\\ud800"']]],
  ['{"a":"é😀"}', [["a", '"é😀"']]],
  [
    '{"a":1,"a":2}',
    [
      ["a", "1"],
      ["a", "2"],
    ],
  ],
];
for (const [text, want] of good) {
  test(`parseFlatJson(): ${JSON.stringify(text)}`, () => {
    assert.deepEqual(
      parseFlatJson(text).map(({ name, json }) => [name, json]),
      want,
    );
  });
}

const bad = [
  "",
  " ",
  "{",
  "}",
  "[]",
  "1",
  '"a"',
  "null",
  '{"a"}',
  '{"a":}',
  '{"a":1,}',
  '{,"a":1}',
  '{"a":1 "b":2}',
  '{"a":1}x',
  '{"a":1}{}',
  '{"a":{}}',
  '{"a":[1]}',
  "{a:1}",
  "{'a':1}",
  '{"a":01}',
  '{"a":+1}',
  '{"a":.5}',
  '{"a":5.}',
  '{"a":1e}',
  '{"a":NaN}',
  '{"a":Infinity}',
  '{"a":truee}',
  '{"a":tru}',
  '{"a":"x}',
  '{"a":"\\x"}',
  '{"a":"\\u12"}',
  '{"a":"\\"}',
  '{"a":"line\nend"}',
  '{"a":"\u0001"}',
  '{"a":1/**/}',
  `{"a":${"[".repeat(100_000)}`,
];
for (const text of bad) {
  test(`parseFlatJson(): refuses ${JSON.stringify(text.slice(0, 40))}`, () => {
    assert.throws(() => parseFlatJson(text), FlatJsonError);
  });
}

test("parseFlatJson(): agrees with JSON.parse on what both can read", () => {
  let state = 7;
  const below = (bound: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
  const pieces = ["a", '"', "\\", "\n", "é", "😀", "\u2028", "/", "{", ",", ":", " ", "0"];
  const word = () => Array.from({ length: below(8) }, () => pieces[below(pieces.length)]).join("");
  for (let round = 0; round < 2_000; round++) {
    const value: Record<string, unknown> = {};
    for (let i = below(6); i > 0; i--) {
      const kinds = [word(), below(1000) / 8, true, null, -1 - below(9)];
      value[word()] = kinds[below(kinds.length)];
    }
    const text = JSON.stringify(value, null, below(2));
    const back = Object.fromEntries(
      parseFlatJson(text).map(({ name, json }) => [
        name,
        json.startsWith('"') ? unquoted(json) : JSON.parse(json),
      ]),
    );
    assert.deepEqual(back, value);
  }
});

test("parseFlatJson(): bounds the members it gathers", () => {
  const members = Array.from({ length: 3_000 }, (_, i) => `"a${i}":1`).join(",");
  assert.throws(() => parseFlatJson(`{${members}}`), FlatJsonError);
});

test("parseFlatJson(): takes a time that grows with the text alone", () => {
  const members = Array.from({ length: 1_900 }, (_, i) => `"a${i}":"${"x".repeat(1_000)}"`).join(
    ",",
  );
  const begin = performance.now();
  parseFlatJson(`{${members},"last":"\\n"}`);
  assert.ok(performance.now() - begin < 1_000);
});
