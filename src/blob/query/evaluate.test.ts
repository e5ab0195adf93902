import assert from "node:assert/strict";
import { test } from "node:test";
import { compiled, Work } from "./evaluate.ts";
import { fieldValue } from "./json.ts";
import { parseQuery } from "./parser.ts";
import { QueryFault, Timestamp, timestampText, type Value } from "./values.ts";

const now = Date.UTC(2026, 0, 2, 3, 4, 5, 6);

const record = {
  one: 1,
  half: 0.5,
  big: 9_007_199_254_740_993n,
  text: "Hello",
  digits: "100",
  empty: "",
  none: null,
  yes: true,
  Spaced: { "In ner": [10, 20, { deep: "x" }] },
  emoji: "a😀b",
};

function value(expression: string, row: unknown = record): Value {
  const { select } = parseQuery(`select ${expression} from BlobStorage`);
  assert.equal(select.kind, "columns");
  const [column] = select.kind === "columns" ? select.columns : [];
  assert.ok(column);
  const work = new Work();
  const found = compiled<unknown>(column.value, {
    field: (path) => (each) => fieldValue(each, path),
    now,
    work,
  })(row);
  return found instanceof Timestamp ? timestampText(found) : found;
}

const rows: [expression: string, want: Value][] = [
  // Fields
  ["one", 1n],
  ["ONE", 1n],
  ['"one"', 1n],
  ["half", 0.5],
  ["big", 9_007_199_254_740_993n],
  ['spaced."In ner"[1]', 20n],
  ['spaced."In ner"[2].deep', "x"],
  ['"ONE" IS MISSING', true],
  ["none IS MISSING", false],
  ["none IS NULL", true],
  ["nowhere IS NULL", true],
  ["nowhere IS MISSING", true],
  ["nowhere.more[3] IS MISSING", true],
  ["text IS NOT NULL", true],
  ["text IS NOT MISSING", true],
  // Comparisons, by Transact-SQL's precedence of types
  ["one = 1", true],
  ["one <> 1", false],
  ["digits = 100", true],
  ["digits > 99.5", true],
  ["digits < '20'", true], // two texts
  ["'b' > 'a'", true],
  ["half < one", true],
  ["1 = 1.0", true],
  ["big > 9007199254740992", true],
  ["yes = 'true'", true],
  ["yes = 1", true],
  ["CAST('2020-01-01' AS TIMESTAMP) < '2020-01-01T00:00:01Z'", true],
  ["CAST('2020-01-01T02:00+02:00' AS TIMESTAMP) = '2020-01-01'", true],
  ["none = 1", null],
  ["none <> none", null],
  // Three values
  ["yes AND none = 1", null],
  ["one = 2 AND none = 1", false],
  ["one = 1 OR none = 1", true],
  ["one = 2 OR none = 1", null],
  ["NOT none = 1", null],
  ["NOT one = 2", true],
  ["6 AND 3", 2n],
  ["6 OR 3", 7n],
  // Arithmetic
  ["7 / 2", 3n],
  ["-7 / 2", -3n],
  ["7 / 2.0", 3.5],
  ["7 % 4", 3n],
  ["digits + 1", 101n],
  ["'1.5' * 2", 3],
  ["1 + none", null],
  ["-digits", -100n],
  ["CAST('2020-02-28' AS TIMESTAMP) + 2", "2020-03-01T00:00:00.000Z"],
  ["CAST('2020-03-01' AS TIMESTAMP) - 1", "2020-02-29T00:00:00.000Z"],
  // LIKE
  ["text LIKE 'H%o'", true],
  ["text LIKE 'H_llo'", true],
  ["text LIKE 'h%'", false],
  ["text LIKE '%'", true],
  ["text LIKE ''", false],
  ["empty LIKE ''", true],
  ["empty LIKE '%%'", true],
  ["text LIKE '%l%l%'", true],
  ["text LIKE '%l%l%l%'", false],
  ["text NOT LIKE 'x%'", true],
  ["'50%' LIKE '50!%' ESCAPE '!'", true],
  ["'500' LIKE '50!%' ESCAPE '!'", false],
  ["'a!b' LIKE 'a!!b' ESCAPE '!'", true],
  ["'a_b' LIKE 'a%_b' ESCAPE '%'", true],
  ["emoji LIKE 'a_b'", true],
  ["none LIKE 'x'", null],
  // IN, BETWEEN
  ["one IN (3, 2, 1)", true],
  ["one IN (3, 2)", false],
  ["one IN (3, NULL)", null],
  ["one IN (1, NULL)", true],
  ["digits IN (100)", true],
  ["one NOT IN (2)", true],
  ["one BETWEEN 1 AND 2", true],
  ["one BETWEEN 2 AND 3", false],
  ["one NOT BETWEEN 2 AND 3", true],
  ["none BETWEEN 1 AND 2", null],
  // CAST
  ["CAST('12' AS INT)", 12n],
  ["CAST(' -12 ' AS INT)", -12n],
  ["CAST(12.9 AS INT)", 12n],
  ["CAST(-12.9 AS INT)", -12n],
  ["CAST('1e3' AS FLOAT)", 1000],
  ["CAST(1 AS FLOAT)", 1],
  ["CAST(1 AS STRING)", "1"],
  ["CAST(1.5 AS STRING)", "1.5"],
  ["CAST(1 AS BOOLEAN)", true],
  ["CAST('False' AS BOOLEAN)", false],
  ["CAST(TRUE AS INT)", 1n],
  ["CAST(NULL AS INT)", null],
  ['CAST(spaced."In ner" AS STRING)', '[10,20,{"deep":"x"}]'],
  // Functions on texts
  ["LOWER('AbCdEfG')", "abcdefg"],
  ["UPPER('AbCdEfG')", "ABCDEFG"],
  ["CHARACTER_LENGTH('abcdefg')", 7n],
  ["CHAR_LENGTH(emoji)", 3n],
  ["SUBSTRING('123456789', 1, 5)", "23456"],
  ["SUBSTRING('123456789', 7)", "89"],
  ["SUBSTRING('123', 5, 2)", ""],
  ["SUBSTRING('123', -1, 2)", "1"],
  ["SUBSTRING(emoji, 1, 1)", "😀"],
  ["TRIM(BOTH '123' FROM '1112211Microsoft22211122')", "Microsoft"],
  ["TRIM(LEADING '1' FROM '1121')", "21"],
  ["TRIM(TRAILING '1' FROM '1121')", "112"],
  ["TRIM('  a b  ')", "a b"],
  ["TRIM(NULL)", null],
  ["LOWER(none)", null],
  ["COALESCE(none, nowhere, 'x', 'y')", "x"],
  ["COALESCE(none)", null],
  ["NULLIF(one, 1)", null],
  ["NULLIF(one, 2)", 1n],
  // Dates
  ["UTCNOW()", "2026-01-02T03:04:05.006Z"],
  ["TO_TIMESTAMP('2007T')", "2007-01-01T00:00:00.000Z"],
  ["TO_TIMESTAMP('2007-02T')", "2007-02-01T00:00:00.000Z"],
  ["TO_TIMESTAMP('1969-07-20T20:18Z')", "1969-07-20T20:18:00.000Z"],
  ["TO_TIMESTAMP('2017-01-02T03:04:05.006+05:30')", "2017-01-02T03:04:05.006+05:30"],
  [
    "DATE_ADD('minute', 1, CAST('2017-01-02T03:04:05.006Z' AS TIMESTAMP))",
    "2017-01-02T03:05:05.006Z",
  ],
  ["DATE_ADD(month, 1, '2020-01-31')", "2020-02-29T00:00:00.000Z"],
  ["DATE_ADD(year, -1, '2020-02-29')", "2019-02-28T00:00:00.000Z"],
  ["DATE_ADD(day, 1, '2020-02-28')", "2020-02-29T00:00:00.000Z"],
  ["DATE_ADD(hour, -1, '2020-01-01')", "2019-12-31T23:00:00.000Z"],
  ["DATE_ADD(second, 61, '2020-01-01')", "2020-01-01T00:01:01.000Z"],
  ["DATE_DIFF('hour','2018-11-09T00:00+05:30','2018-11-09T01:00:23-08:00')", 14n],
  ["DATE_DIFF(year, '2010-01-01T', '2010-05-01T')", 0n],
  ["DATE_DIFF(month, '2010T', '2010-05T')", 4n],
  ["DATE_DIFF(month, '2010-05T', '2010T')", -4n],
  ["DATE_DIFF(month, '2020-01-31', '2020-02-28')", 0n],
  ["DATE_DIFF(year, '2019-06-01', '2021-05-31')", 1n],
  ["DATE_DIFF(day, '2010-01-01T23:00Z', '2010-01-02T01:00Z')", 0n],
  ["EXTRACT(YEAR FROM '2010-01-01T')", 2010n],
  ["EXTRACT(month FROM '2010-03-04T05:06:07Z')", 3n],
  ["EXTRACT(day FROM '2010-03-04T05:06:07Z')", 4n],
  ["EXTRACT(hour FROM '2010-03-04T05:06:07+02:00')", 5n],
  ["EXTRACT(minute FROM '2010-03-04T05:06:07Z')", 6n],
  ["EXTRACT(second FROM '2010-03-04T05:06:07Z')", 7n],
  ["EXTRACT(timezone_hour FROM '2010-03-04T05:06:07-07:30')", -7n],
  ["EXTRACT(timezone_minute FROM '2010-03-04T05:06:07-07:30')", -30n],
  ["TO_STRING(CAST('1969-07-20T20:18Z' AS TIMESTAMP),  'MMMM d, y')", "July 20, 1969"],
  [
    "TO_STRING('1999-05-06T07:08:09.123Z', 'yy y yyyy M MM MMM d dd')",
    "99 1999 1999 5 05 May 6 06",
  ],
  [
    "TO_STRING('1999-05-06T17:08:09.123Z', 'a h hh H HH m mm s ss S SS SSS')",
    "PM 5 05 17 17 8 08 9 09 1 12 123",
  ],
  ["TO_STRING('1999-05-06T00:08Z', 'h a')", "12 AM"],
  ["TO_STRING('1999-05-06T00:00-07:30', 'X XX XXX x xx xxx')", "-07 -0730 -07:30 -07 -0730 -07:30"],
  ["TO_STRING('1999-05-06T00:00Z')", "1999-05-06T00:00:00.000Z"],
];
for (const [expression, want] of rows) {
  test(`compiled(): ${expression}`, () => assert.deepEqual(value(expression), want));
}

const faults: [expression: string, name: string][] = [
  ["text > 100", "InvalidTypeConversion"],
  ["text + 1", "InvalidTypeConversion"],
  ["CAST('12.5' AS INT)", "InvalidTypeConversion"],
  ["CAST('x' AS FLOAT)", "InvalidTypeConversion"],
  ["CAST('maybe' AS BOOLEAN)", "InvalidTypeConversion"],
  ["CAST('2020-02-30' AS TIMESTAMP)", "InvalidTypeConversion"],
  ["CAST('2020-13-01' AS TIMESTAMP)", "InvalidTypeConversion"],
  ["CAST('yesterday' AS TIMESTAMP)", "InvalidTypeConversion"],
  ["CAST(1 AS TIMESTAMP)", "InvalidTypeConversion"],
  ["spaced > 1", "InvalidTypeConversion"],
  ["NOT text", "InvalidTypeConversion"],
  ["1 / 0", "DivideByZero"],
  ["1 % 0.0", "DivideByZero"],
  ["9223372036854775807 + 1", "ArithmeticOverflow"],
  ["CAST('99999999999999999999' AS INT)", "ArithmeticOverflow"],
  ["CAST(1e300 AS INT)", "ArithmeticOverflow"],
  ["DATE_ADD(year, 9000, '2020T')", "DateOutOfRange"],
  ["DATE_ADD(second, 9223372036854775807, '2020T')", "DateOutOfRange"],
  ["SUBSTRING('abc', 1, -1)", "InvalidArgument"],
  ["text LIKE 'x' ESCAPE 'ab'", "InvalidArgument"],
  ["text LIKE 'x!' ESCAPE '!'", "InvalidArgument"],
];
for (const [expression, name] of faults) {
  test(`compiled(): ${expression} is ${name}`, () => {
    assert.throws(
      () => value(expression),
      (error) => error instanceof QueryFault && error.name === name,
    );
  });
}

test("compiled(): a pattern that goes back and back is given up, not suffered", () => {
  const row = { text: "a".repeat(200_000) };
  const pattern = `%${"a".repeat(1000)}b`;
  assert.throws(
    () => value(`text LIKE '${pattern}'`, row),
    (error) => error instanceof QueryFault && error.isFatal && error.name === "ResourceLimit",
  );
});
