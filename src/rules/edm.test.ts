import assert from "node:assert/strict";
import { test } from "node:test";
import {
  canonicalJson,
  doubleJson,
  type EdmType,
  needsAnnotation,
  parseDateTime,
  valueOfJson,
} from "./edm.ts";

// What a request says of a value, and how a reply writes it; undefined where it is none.
const rows: [type: EdmType, text: string, want: string | undefined][] = [
  ["Int32", "0", "0"],
  ["Int32", "-0", "0"],
  ["Int32", "2147483647", "2147483647"],
  ["Int32", "-2147483648", "-2147483648"],
  ["Int32", "2147483648", undefined],
  ["Int32", "-2147483649", undefined],
  ["Int32", "1.0", undefined],
  ["Int32", "1e3", undefined],
  ["Int32", "", undefined],
  ["Int32", "x", undefined],
  ["Int64", "0", '"0"'],
  ["Int64", "9223372036854775807", '"9223372036854775807"'],
  ["Int64", "-9223372036854775808", '"-9223372036854775808"'],
  ["Int64", "9223372036854775808", undefined],
  ["Int64", "-9223372036854775809", undefined],
  ["Int64", "9007199254740993", '"9007199254740993"'],
  ["Int64", "1.5", undefined],
  ["Int64", "1".repeat(41), undefined],
  ["Double", "0", "0.0"],
  ["Double", "-0.0", "-0.0"],
  ["Double", "1", "1.0"],
  ["Double", "1.0", "1.0"],
  ["Double", "1.50", "1.5"],
  ["Double", "0.1", "0.1"],
  ["Double", "1e3", "1000.0"],
  ["Double", "1e21", "1e+21"],
  ["Double", "1.7976931348623157e308", "1.7976931348623157e+308"],
  ["Double", "5e-324", "5e-324"],
  ["Double", "1e309", undefined],
  ["Double", "-1e309", undefined],
  ["Double", "NaN", '"NaN"'],
  ["Double", "Infinity", '"Infinity"'],
  ["Double", "-Infinity", '"-Infinity"'],
  ["Double", "INF", '"Infinity"'],
  ["Double", "-INF", '"-Infinity"'],
  ["Double", "nan", undefined],
  ["Double", "0x10", undefined],
  ["Double", " 1", undefined],
  ["Boolean", "true", "true"],
  ["Boolean", "False", "false"],
  ["Boolean", "1", undefined],
  ["DateTime", "2023-01-17T19:07:37.4472913Z", '"2023-01-17T19:07:37.4472913Z"'],
  ["DateTime", "2023-01-17T19:07:37.4472910Z", '"2023-01-17T19:07:37.447291Z"'],
  ["DateTime", "2023-01-17T19:07:37.000Z", '"2023-01-17T19:07:37Z"'],
  ["DateTime", "2023-01-17T19:07:37Z", '"2023-01-17T19:07:37Z"'],
  ["DateTime", "2023-01-17T19:07Z", '"2023-01-17T19:07:00Z"'],
  ["DateTime", "2023-01-17", '"2023-01-17T00:00:00Z"'],
  ["DateTime", "2023-01-17T19:07:37", '"2023-01-17T19:07:37Z"'],
  ["DateTime", "2023-01-17T19:07:37+02:00", '"2023-01-17T17:07:37Z"'],
  ["DateTime", "2023-01-17T23:07:37.1-02:30", '"2023-01-18T01:37:37.1Z"'],
  ["DateTime", "2023-01-17T19:07:37.123456789Z", '"2023-01-17T19:07:37.1234567Z"'],
  ["DateTime", "1601-01-01T00:00:00Z", '"1601-01-01T00:00:00Z"'],
  ["DateTime", "1600-12-31T23:59:59.9999999Z", undefined],
  ["DateTime", "9999-12-31T23:59:59.9999999Z", '"9999-12-31T23:59:59.9999999Z"'],
  ["DateTime", "9999-12-31T23:59:59-01:00", undefined],
  ["DateTime", "2023-02-30T00:00:00Z", undefined],
  ["DateTime", "2023-01-17T24:00:00Z", undefined],
  ["DateTime", "2023-01-17T23:60:00Z", undefined],
  ["DateTime", "2023-13-01T00:00:00Z", undefined],
  ["DateTime", "17.1.2023", undefined],
  ["DateTime", "", undefined],
  ["Guid", "C9DA6455-213D-42C9-9A79-3E9149A57833", '"c9da6455-213d-42c9-9a79-3e9149a57833"'],
  ["Guid", "c9da6455213d42c99a793e9149a57833", '"c9da6455-213d-42c9-9a79-3e9149a57833"'],
  ["Guid", "c9da6455-213d-42c9-9a79", undefined],
  ["Binary", "", '""'],
  ["Binary", "AQID", '"AQID"'],
  ["Binary", "AQ==", '"AQ=="'],
  ["Binary", "AR==", '"AQ=="'],
  ["Binary", "AQ", undefined],
  ["Binary", "A Q=", undefined],
  ["Binary", "****", undefined],
  ["String", 'a"b\\c\n', '"a\\"b\\\\c\\n"'],
];
for (const [type, text, want] of rows) {
  test(`canonicalJson(): ${type} ${JSON.stringify(text)}`, () => {
    assert.equal(canonicalJson(type, text), want);
    // What a reply says means the same when it comes back.
    if (want === undefined) return;
    const said = want.startsWith('"') ? (JSON.parse(want) as string) : want;
    assert.equal(canonicalJson(type, said), want);
  });
}

const values: [type: EdmType, json: string, want: unknown][] = [
  ["Int32", "-5", -5],
  ["Int64", '"9007199254740993"', 9007199254740993n],
  ["Double", "1.0", 1],
  ["Double", '"NaN"', Number.NaN],
  ["Double", '"-Infinity"', Number.NEGATIVE_INFINITY],
  ["Boolean", "true", true],
  ["Boolean", "false", false],
  ["Guid", '"c9da6455-213d-42c9-9a79-3e9149a57833"', "c9da6455-213d-42c9-9a79-3e9149a57833"],
  ["Binary", '"AP8="', "\u0000ÿ"],
  ["String", '"a\\"b"', 'a"b'],
  ["DateTime", '"2023-01-17T19:07:37.0000001Z"', 638_095_792_570_000_001n],
];
for (const [type, json, want] of values) {
  test(`valueOfJson(): ${type} ${json}`, () => assert.deepEqual(valueOfJson(type, json), want));
}

test("doubleJson(): every double comes back", () => {
  let state = 1n;
  const bytes = Buffer.alloc(8);
  for (let i = 0; i < 5_000; i++) {
    state = (state * 6_364_136_223_846_793_005n + 1_442_695_040_888_963_407n) & (2n ** 64n - 1n);
    bytes.writeBigUInt64LE(state);
    const number = bytes.readDoubleLE();
    assert.deepEqual(valueOfJson("Double", doubleJson(number)), number);
    assert.ok(Number.isNaN(number) || /[.e"]/.test(doubleJson(number)), doubleJson(number));
  }
});

test("parseDateTime(): orders times to 100 ns", () => {
  const earlier = parseDateTime("2023-01-17T19:07:37.4472913Z") ?? 0n;
  assert.equal((parseDateTime("2023-01-17T19:07:37.4472914Z") ?? 0n) - earlier, 1n);
});

test("needsAnnotation(): only where JSON does not tell the type", () => {
  const needing = (["Binary", "DateTime", "Guid", "Int64"] as const).map((type) =>
    needsAnnotation(type, '"x"'),
  );
  assert.deepEqual(needing, [true, true, true, true]);
  assert.equal(needsAnnotation("Double", "1.0"), false);
  assert.equal(needsAnnotation("Double", '"NaN"'), true);
  assert.equal(needsAnnotation("Int32", "1"), false);
  assert.equal(needsAnnotation("String", '"x"'), false);
  assert.equal(needsAnnotation("Boolean", "true"), false);
});
