import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { meetsTags, parseTagCondition, parseTagSearch } from "./tag-expressions.ts";
import type { Tags } from "./tags.ts";

const tags: Tags = {
  kind: "b",
  Kind: "upper",
  number: "10",
  empty: "",
  _under: "1",
  "two words": "yes",
  "a+b-c.d/e:f=g": "odd",
  and: "1",
};

/** Whether the tags above meet a condition; undefined if it is none. */
const judged = (text: string): boolean | undefined => {
  const expression = parseTagCondition(text);
  return expression === undefined ? undefined : meetsTags(expression, tags);
};

// SEMANTICS a.5: six operators on texts, which compare by the codes of their characters.
const comparisons: [text: string, want: boolean][] = [
  ["kind = 'b'", true],
  ["kind = 'a'", false],
  ["kind <> 'b'", false],
  ["kind <> 'a'", true],
  ["kind > 'a'", true],
  ["kind > 'b'", false],
  ["kind >= 'b'", true],
  ["kind >= 'c'", false],
  ["kind < 'c'", true],
  ["kind < 'b'", false],
  ["kind <= 'b'", true],
  ["kind <= 'a'", false],
  ["kind = 'B'", false],
  ["Kind = 'upper'", true],
  ["KIND = 'upper'", false],
  ["kind > 'B'", true],
  ["kind > 'ab'", true],
  ["kind < 'ba'", true],
  ["number > '9'", false],
  ["number < '9'", true],
  ["number > '1'", true],
  ["empty = ''", true],
  ["empty < ' '", true],
  ["empty <> ''", false],
  ["_under = '1'", true],
  ["\"kind\" = 'b'", true],
  ["\"two words\" = 'yes'", true],
  ["\"a+b-c.d/e:f=g\" = 'odd'", true],
  ["\"and\" = '1'", true],
];
for (const [text, want] of comparisons) {
  test(`meetsTags(): ${text} is ${want}`, () => assert.equal(judged(text), want));
}

for (const operator of ["=", "<>", ">", ">=", "<", "<="]) {
  test(`meetsTags(): a tag that is not there meets no ${operator}, also where there are none`, () => {
    assert.equal(judged(`missing ${operator} 'x'`), false);
    assert.equal(judged(`missing ${operator} ''`), false);
    const expression = parseTagCondition(`kind ${operator} ''`);
    assert.ok(expression !== undefined);
    assert.equal(meetsTags(expression, undefined), false);
    assert.equal(meetsTags(expression, {}), false);
  });
}

test("meetsTags(): what every object has is no tag", () => {
  for (const name of ["constructor", "toString", "__proto__", "hasOwnProperty"]) {
    for (const operator of ["<>", ">=", "<="]) {
      assert.equal(judged(`${name} ${operator} ''`), false, `${name} ${operator}`);
      assert.equal(judged(`${name} ${operator} 'zzz'`), false, `${name} ${operator}`);
    }
  }
});

const T = "kind = 'b'";
const F = "kind = 'x'";
const joined: [text: string, want: boolean][] = [
  [`${T} AND ${T}`, true],
  [`${T} AND ${F}`, false],
  [`${F} AND ${T}`, false],
  [`${F} AND ${F}`, false],
  [`${T} OR ${T}`, true],
  [`${T} OR ${F}`, true],
  [`${F} OR ${T}`, true],
  [`${F} OR ${F}`, false],
  // AND binds more than OR.
  [`${T} OR ${T} AND ${F}`, true],
  [`${F} AND ${T} OR ${T}`, true],
  [`${T} OR ${F} AND ${F}`, true],
  [`(${T} OR ${T}) AND ${F}`, false],
  [`${F} AND (${T} OR ${T})`, false],
  [`(${T})`, true],
  [`((${F}))`, false],
  [`(${T}) AND (${T})`, true],
  [`(${T} AND (${F} OR ${T})) OR ${F}`, true],
  [`(${T}AND(${F}OR ${T}))OR ${F}`, true],
];
for (const [text, want] of joined) {
  test(`parseTagCondition(): ${text} is ${want}`, () => assert.equal(judged(text), want));
}

suite("parseTagCondition(): the form", () => {
  const same: [what: string, text: string][] = [
    ["no blanks", "kind='b'AND number='10'"],
    ["many blanks", "   kind   =   'b'   AND   number   =   '10'   "],
    ["tabs", "kind\t=\t'b'\tAND\tnumber\t=\t'10'"],
    ["words in small letters", "kind = 'b' and number = '10'"],
    ["words in mixed letters", "kind = 'b' And number = '10'"],
  ];
  for (const [what, text] of same) test(what, () => assert.equal(judged(text), true));

  test("a value may look like anything else that there is", () => {
    for (const value of ["AND", "a = b", "=", "kind", "1 OR 1=1"]) {
      const expression = parseTagCondition(`kind = '${value}'`);
      assert.ok(expression !== undefined, value);
      assert.equal(meetsTags(expression, { kind: value }), true, value);
      assert.equal(meetsTags(expression, tags), false, value);
    }
  });
});

const ands = (count: number, join = "AND") =>
  Array(count + 1)
    .fill(T)
    .join(` ${join} `);

suite("parseTagCondition(): limits", () => {
  test("ten logical operators are taken, of either kind and of both", () => {
    assert.equal(judged(ands(10)), true);
    assert.equal(judged(ands(10, "OR")), true);
    assert.equal(judged(`${ands(4)} OR ${ands(5)}`), true);
    assert.equal(judged(`(${ands(4)}) OR (${ands(5)})`), true);
  });

  test("eleven are refused", () => {
    assert.equal(judged(ands(11)), undefined);
    assert.equal(judged(ands(11, "OR")), undefined);
    assert.equal(judged(`${ands(5)} OR ${ands(5)}`), undefined);
    assert.equal(judged(`(${ands(5)}) OR (${ands(5)})`), undefined);
  });

  test("a name of 128 and a value of 256 characters are found", () => {
    const long: Tags = { ["k".repeat(128)]: "v".repeat(256) };
    const expression = parseTagCondition(`${"k".repeat(128)} = '${"v".repeat(256)}'`);
    assert.ok(expression !== undefined);
    assert.equal(meetsTags(expression, long), true);
  });

  test("a name that is too long for a tag is simply not met", () => {
    assert.equal(judged(`${"k".repeat(129)} = 'v'`), false);
  });
});

// SEMANTICS a.5 and k: names are bare only if SQL identifiers; a value with a character no tag can have is
// refused; a value is always in single quotes.
const malformed: [what: string, text: string][] = [
  ["nothing", ""],
  ["blanks", "   "],
  ["a name alone", "kind"],
  ["no value", "kind ="],
  ["no name", "= 'b'"],
  ["a value first", "'b' = kind"],
  ["two names", "kind = number"],
  ["two values", "'a' = 'a'"],
  ["a number as value", "number = 10"],
  ["a value in double quotes", 'kind = "b"'],
  ["a name in single quotes", "'kind' = 'b'"],
  ["an operator of other languages", "kind == 'b'"],
  ["another one", "kind != 'b'"],
  ["LIKE", "kind LIKE 'b'"],
  ["IN", "kind IN ('b')"],
  ["NOT", "NOT kind = 'b'"],
  ["BETWEEN", "kind BETWEEN 'a' AND 'c'"],
  ["IS NULL", "kind IS NULL"],
  ["an operator with a blank in it", "kind < > 'b'"],
  ["an operator turned round", "kind => 'b'"],
  ["an open value", "kind = 'b"],
  ["an open name", "\"kind = 'b'"],
  ["an empty name", "\"\" = 'b'"],
  ["a name that begins with a digit", "1kind = 'b'"],
  ["a bare name with a dash", "a-b = 'b'"],
  ["a bare name with a dot", "a.b = 'b'"],
  ["a bare name with a blank", "two words = 'yes'"],
  ["a bare name beyond ASCII", "küche = 'b'"],
  ["a quoted name with a sign no tag has", "\"a*b\" = 'b'"],
  ["a quoted name with a quote in it", '"a""b" = \'b\''],
  ["a value with a sign no tag has", "kind = 'a*b'"],
  ["a value with a quote in it", "kind = 'it''s'"],
  ["a value beyond ASCII", "kind = 'ü'"],
  ["a value with a line feed", "kind = 'a\nb'"],
  ["a value with a NUL", "kind = 'a\0'"],
  ["an open parenthesis", "(kind = 'b'"],
  ["a closed one", "kind = 'b')"],
  ["a pair of nothing", "()"],
  ["one around a name", "(kind) = 'b'"],
  ["one around a value", "kind = ('b')"],
  ["turned round", ")kind = 'b'("],
  ["AND first", "AND kind = 'b'"],
  ["AND last", "kind = 'b' AND"],
  ["AND twice", "kind = 'b' AND AND kind = 'b'"],
  ["AND OR", "kind = 'b' AND OR kind = 'b'"],
  ["no word between", "kind = 'b' kind = 'b'"],
  ["a comma between", "kind = 'b', kind = 'b'"],
  ["&& between", "kind = 'b' && kind = 'b'"],
  ["something after it", "kind = 'b';"],
  ["a comment", "kind = 'b' -- all"],
  ["three in a row", "'a' < kind < 'c'"],
  ["a container", "@container = 'c'"],
  ["an unknown @", "@blob = 'c'"],
];
for (const [what, text] of malformed) {
  test(`parseTagCondition(): ${what} is none: ${JSON.stringify(text)}`, () => {
    assert.equal(parseTagCondition(text), undefined);
  });
}

suite("parseTagCondition(): hostile input is refused, and soon", () => {
  const hostile: [what: string, text: string][] = [
    ["a million parentheses", "(".repeat(1_000_000)],
    ["a hundred thousand pairs", `${"(".repeat(100_000)}${T}${")".repeat(100_000)}`],
    ["a hundred thousand words", Array(100_000).fill(T).join(" AND ")],
    ["quotes without end", "'".repeat(100_001)],
    ["double quotes without end", '"'.repeat(100_001)],
    ["blanks without end", " ".repeat(1_000_000)],
    ["blanks between, without end", `kind${" ".repeat(1_000_000)}!`],
    ["a name without end", "k".repeat(1_000_000)],
    ["many quotes and no value", `kind = ${"''".repeat(3_000)}`],
    ["signs without end", "<".repeat(100_000)],
  ];
  for (const [what, text] of hostile) {
    test(what, () => {
      const from = performance.now();
      assert.equal(parseTagCondition(text), undefined);
      assert.equal(parseTagSearch(text, true), undefined);
      assert.ok(performance.now() - from < 1_000);
    });
  }

  test("a text as large as any header, of every kind of token, takes no time", () => {
    const kinds = ["'", '"', "(", ")", "a", " ", "=", "<", "@", "''", '""', "AND"];
    for (const one of kinds) {
      for (const two of kinds) {
        const from = performance.now();
        parseTagCondition(`${one}${two}`.repeat(2_000));
        assert.ok(performance.now() - from < 500, `${one}${two}`);
      }
    }
  });
});

/** Which of these a search finds. */
const rows: readonly Tags[] = [{ a: "1" }, { a: "2", b: "x" }, { a: "3" }, { b: "x" }, {}];
function finds(text: string, mayNameContainer = true): number[] | undefined {
  const search = parseTagSearch(text, mayNameContainer);
  if (search === undefined) return undefined;
  return rows.flatMap((row, index) => (meetsTags({ all: search.comparisons }, row) ? [index] : []));
}

suite("parseTagSearch()", () => {
  const found: [text: string, want: number[]][] = [
    ["a = '2'", [1]],
    ["a > '1'", [1, 2]],
    ["a >= '1'", [0, 1, 2]],
    ["a < '3'", [0, 1]],
    ["a <= '2'", [0, 1]],
    ["a > '1' AND a < '3'", [1]],
    ["a >= '1' AND b = 'x'", [1]],
    ["(a >= '1') AND (b = 'x')", [1]],
    ["(a >= '1' AND (b = 'x'))", [1]],
    ["a = '1' AND a = '2'", []],
    ["\"a\" = '1'", [0]],
  ];
  for (const [text, want] of found) test(text, () => assert.deepEqual(finds(text), want));

  const refused = [
    "",
    "a <> '1'",
    "a = '1' OR a = '2'",
    "a = '1' AND (b = 'x' OR b = 'y')",
    "a = '1' AND b <> 'x'",
    "a",
    "a = 1",
    "a = '1' AND",
    "a = 'a*b'",
  ];
  for (const text of refused) {
    test(`refused: ${text}`, () => assert.equal(finds(text), undefined));
  }

  test("a container may be named anywhere among the tags, where it may at all", () => {
    for (const text of ["@container = 'c' AND a = '1'", "a = '1' AND @container='c'"]) {
      const search = parseTagSearch(text, true);
      assert.equal(search?.container, "c");
      assert.deepEqual(search?.comparisons, [{ key: "a", operator: "=", value: "1" }]);
      assert.equal(parseTagSearch(text, false), undefined);
    }
    assert.equal(parseTagSearch("a = '1'", true)?.container, undefined);
  });

  for (const operator of [">", ">=", "<", "<=", "<>"]) {
    test(`a container is named by = only, not by ${operator}`, () => {
      assert.equal(parseTagSearch(`@container ${operator} 'c' AND a = '1'`, true), undefined);
    });
  }

  test("a container is not named twice, nor by another word", () => {
    assert.equal(parseTagSearch("@container='c' AND @container='d' AND a = '1'", true), undefined);
    assert.equal(parseTagSearch("@Name = 'c' AND a = '1'", true), undefined);
    assert.equal(parseTagSearch("@ = 'c' AND a = '1'", true), undefined);
  });
});
