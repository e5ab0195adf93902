import assert from "node:assert/strict";
import { test } from "node:test";
import { QuerySyntaxError, tokens } from "./lexer.ts";
import { parseQuery } from "./parser.ts";
import type { Expression } from "./syntax.ts";

test("tokens(): words, quoted names, strings, numbers and signs", () => {
  const list = tokens(`SELECT "a ""b""", 'it''s', 1.5e3 <> .5 FROM x;`);
  assert.deepEqual(
    list.map(({ kind, text }) => `${kind}:${text}`),
    [
      "word:SELECT",
      'quoted:a "b"',
      "sign:,",
      "string:it's",
      "sign:,",
      "number:1.5e3",
      "sign:<>",
      "number:.5",
      "word:FROM",
      "word:x",
      "sign:;",
      "end:",
    ],
  );
});

/** An expression written with all its parentheses. */
function shape(node: Expression): string {
  switch (node.kind) {
    case "literal":
      return typeof node.value === "string" ? `'${node.value}'` : String(node.value);
    case "field":
      return node.path.map((step) => (typeof step === "number" ? step : step.text)).join(".");
    case "and":
    case "or":
      return `(${node.all.map(shape).join(` ${node.kind} `)})`;
    case "comparison":
    case "arithmetic":
      return `(${shape(node.left)} ${node.sign} ${shape(node.right)})`;
    case "in":
      return `(${shape(node.of)} in ${node.list.map(shape).join("|")})`;
    case "between":
      return `(${shape(node.of)} between ${shape(node.low)} ${shape(node.high)})`;
    case "like":
      return `(${shape(node.of)} like ${shape(node.pattern)}${node.escapeMark ? ` escape ${shape(node.escapeMark)}` : ""})`;
    case "call":
      return `${node.name}(${node.of.map(shape).join(",")})`;
    case "cast":
      return `cast(${shape(node.of)} ${node.to})`;
    case "trim":
      return `trim(${node.side} ${node.characters ? shape(node.characters) : ""} ${shape(node.of)})`;
    case "extract":
      return `extract(${node.part} ${shape(node.of)})`;
    case "dateAdd":
    case "dateDiff":
      return `${node.kind}(${node.part} ${shape(node.left)} ${shape(node.right)})`;
    default:
      return `${node.kind}(${shape(node.of)})`;
  }
}

const shapes: [where: string, want: string][] = [
  ["a = 1 OR b = 2 AND c = 3", "((a = 1) or ((b = 2) and (c = 3)))"],
  ["NOT a = 1 AND b", "(not((a = 1)) and b)"],
  ["NOT NOT a", "a"],
  ["1 + 2 * 3 - 4 / 5 % 6", "((1 + (2 * 3)) - ((4 / 5) % 6))"],
  ["(1 + 2) * 3", "((1 + 2) * 3)"],
  ["a <> 1 AND b != -2", "((a <> 1) and (b <> -2))"],
  ["a < - - 2.5", "(a < 2.5)"],
  ["-a > +1", "(negative(a) > 1)"],
  ["a BETWEEN 1 AND 2 AND b", "((a between 1 2) and b)"],
  ["a NOT BETWEEN 1 AND 2", "not((a between 1 2))"],
  ["a IN (1, 'x', b)", "(a in 1|'x'|b)"],
  ["a NOT IN (1)", "not((a in 1))"],
  ["a LIKE 'x%' ESCAPE '!'", "(a like 'x%' escape '!')"],
  ["a NOT LIKE 'x%'", "not((a like 'x%'))"],
  ["a IS NULL OR b IS NOT NULL OR c IS MISSING", "(null(a) or not(null(b)) or missing(c))"],
  ['warehouses[0]."Long itude"', "warehouses.0.Long itude"],
  ["cast(a as int) = CAST(b AS Timestamp)", "(cast(a INT) = cast(b TIMESTAMP))"],
  ["lower(substring(a, 1, 5)) = 'x'", "(LOWER(SUBSTRING(a,1,5)) = 'x')"],
  ["TRIM(a) = TRIM(LEADING '12' FROM b)", "(trim(BOTH  a) = trim(LEADING '12' b))"],
  ["TRIM(BOTH FROM a) = ''", "(trim(BOTH  a) = '')"],
  ["EXTRACT(YEAR FROM a) = 1", "(extract(year a) = 1)"],
  ["extract(timezone_hour from a) = 1", "(extract(timezone_hour a) = 1)"],
  ["DATE_ADD('minute', 1, a) < UTCNOW()", "(dateAdd(minute 1 a) < UTCNOW())"],
  ["DATE_DIFF(hour, a, b) > 1", "(dateDiff(hour a b) > 1)"],
  ["TRUE AND NULL IS NULL AND false", "(true and null(null) and false)"],
  ["9223372036854775807 > a", "(9223372036854775807 > a)"],
];
for (const [where, want] of shapes) {
  test(`parseQuery(): ${where}`, () => {
    const query = parseQuery(`select * from BlobStorage where ${where};`);
    assert.equal(query.where && shape(query.where), want);
  });
}

test("parseQuery(): lists, aliases, table paths and limits", () => {
  assert.deepEqual(
    parseQuery('SELECT _1, a.b AS "x y", 1+1 z FROM BlobStorage[*].c[*].d[2] LIMIT 7'),
    {
      select: {
        kind: "columns",
        columns: [
          { value: { kind: "field", path: [{ text: "_1", exact: false }] }, name: "_1" },
          {
            value: {
              kind: "field",
              path: [
                { text: "a", exact: false },
                { text: "b", exact: false },
              ],
            },
            name: "x y",
          },
          {
            value: {
              kind: "arithmetic",
              sign: "+",
              left: { kind: "literal", value: 1n },
              right: { kind: "literal", value: 1n },
            },
            name: "z",
          },
        ],
      },
      from: [
        { member: { text: "c", exact: false } },
        { index: "*" },
        { member: { text: "d", exact: false } },
        { index: 2 },
      ],
      where: undefined,
      limit: 7,
    },
  );
  assert.deepEqual(parseQuery("select count(*), average(_2) as mean from blobstorage").select, {
    kind: "aggregates",
    columns: [
      { value: { name: "COUNT", of: undefined }, name: undefined },
      {
        value: { name: "AVG", of: { kind: "field", path: [{ text: "_2", exact: false }] } },
        name: "mean",
      },
    ],
  });
  assert.deepEqual(parseQuery("SELECT sys.split(10485760)FROM BlobStorage").select, {
    kind: "split",
    size: 10_485_760,
  });
});

const deep = (open: string, close: string, count: number) =>
  `select * from BlobStorage where ${open.repeat(count)}1${close.repeat(count)}`;

const refused: [what: string, query: string][] = [
  ["nothing", ""],
  ["another statement", "delete from BlobStorage"],
  ["another table", "select * from Other"],
  ["no table", "select *"],
  ["more behind the end", "select * from BlobStorage where _1 = 1 2"],
  ["a join", "select * from BlobStorage, BlobStorage"],
  ["an open string", "select 'a from BlobStorage"],
  ["an open parenthesis", "select * from BlobStorage where (_1 = 1"],
  ["no operand", "select * from BlobStorage where _1 ="],
  ["an unknown function", "select sleep(1) from BlobStorage"],
  ["a name of Object's", "select constructor(1) from BlobStorage"],
  ["too few arguments", "select lower() from BlobStorage"],
  ["too many arguments", "select nullif(1, 2, 3) from BlobStorage"],
  ["an unknown type", "select cast(_1 as money) from BlobStorage"],
  ["an unknown part of a date", "select extract(eon from _1) from BlobStorage"],
  ["columns with aggregates", "select _1, count(*) from BlobStorage"],
  ["an aggregate in an expression", "select 1 + count(*) from BlobStorage"],
  ["an aggregate in WHERE", "select * from BlobStorage where sum(_1) > 1"],
  ["a keyword as a name", "select from from BlobStorage"],
  ["50 columns", `select ${Array.from({ length: 50 }, (_, i) => `_${i + 1}`)} from BlobStorage`],
  ["a small split", "select sys.split(10485759) from BlobStorage"],
  ["a split with WHERE", "select sys.split(10485760) from BlobStorage where 1 = 1"],
  ["a path without [*]", "select * from BlobStorage.a"],
  ["a limit that is none", "select * from BlobStorage limit 1.5"],
  ["a number beyond 64 bits", "select 9223372036854775808 from BlobStorage"],
  ["a number of 100,000 digits", `select ${"9".repeat(100_000)} from BlobStorage`],
  ["a strange character", "select # from BlobStorage"],
  ["letters behind a number", "select 1a from BlobStorage"],
  ["201 parentheses", deep("(", ")", 201)],
  ["100,000 parentheses", deep("(", ")", 100_000)],
  ["300 functions in each other", deep("lower(", ")", 300)],
  ["a long sum", deep("1+", "", 300)],
  ["a long chain of comparisons", deep("1=", "", 300)],
  ["sums in parentheses", deep("(", "+1+1+1+1)", 100)],
  ["10,001 nodes", `select * from BlobStorage where ${"1 or ".repeat(10_001)}1`],
  ["257 KiB", `select '${"x".repeat(257 * 1024)}' from BlobStorage`],
];
for (const [what, query] of refused) {
  test(`parseQuery(): refuses ${what}`, () => {
    assert.throws(() => parseQuery(query), QuerySyntaxError);
  });
}

test("parseQuery(): takes what is as large as it may be", () => {
  parseQuery(deep("(", ")", 150));
  parseQuery(`select * from BlobStorage where _1 in (${"1,".repeat(9_000)}1)`);
  parseQuery(`select ${Array.from({ length: 49 }, (_, i) => `_${i + 1}`)} from BlobStorage`);
});
