import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { EdmValue } from "./edm.ts";
import { parseDateTime } from "./edm.ts";
import {
  comparisonsIn,
  type Filter,
  FilterError,
  matches,
  type Operator,
  parseFilter,
  UnsupportedFilter,
} from "./filter.ts";
import { type Box, type Interval, isRun, keyRanges } from "./key-ranges.ts";

const GUID = "c9da6455-213d-42c9-9a79-3e9149a57833";

const entity: Readonly<Record<string, EdmValue>> = {
  PartitionKey: { type: "String", value: "p" },
  RowKey: { type: "String", value: "r" },
  Timestamp: { type: "DateTime", value: parseDateTime("2023-01-01T00:00:00.0000001Z") ?? 0n },
  int: { type: "Int32", value: 5 },
  negative: { type: "Int32", value: -5 },
  long: { type: "Int64", value: 5_000_000_000n },
  short: { type: "Int64", value: -7n },
  double: { type: "Double", value: 2.5 },
  whole: { type: "Double", value: 5 },
  large: { type: "Double", value: 8e9 },
  nan: { type: "Double", value: Number.NaN },
  infinite: { type: "Double", value: Number.POSITIVE_INFINITY },
  yes: { type: "Boolean", value: true },
  no: { type: "Boolean", value: false },
  text: { type: "String", value: "m" },
  quoted: { type: "String", value: "o'clock" },
  empty: { type: "String", value: "" },
  guid: { type: "Guid", value: GUID },
  bytes: { type: "Binary", value: "\u0001ÿ" },
  date: { type: "DateTime", value: parseDateTime("2020-02-02T02:02:02Z") ?? 0n },
  not: { type: "Int32", value: 1 },
  and: { type: "Int32", value: 1 },
  _under: { type: "Int32", value: 1 },
  größe: { type: "Int32", value: 1 },
};
const isMatch = (text: string) => matches(parseFilter(text), (name) => entity[name]);

suite("matches()", () => {
  // Every operator on every type: the literal below, at and above the value.
  const ordered: [property: string, below: string, at: string, above: string][] = [
    ["int", "4", "5", "6"],
    ["negative", "-6", "-5", "-4"],
    ["long", "4999999999L", "5000000000L", "5000000001L"],
    ["long", "4999999999", "5000000000", "5000000001"],
    ["double", "2.4", "2.5", "2.6"],
    ["double", "2.4e0", "25e-1", "2.6D"],
    ["whole", "4.0", "5.0", "6.0"],
    // A whole number without a suffix fits every type of numbers.
    ["whole", "4", "5", "6"],
    ["short", "-8", "-7", "-6"],
    ["large", "7999999999", "8000000000", "8000000001"],
    ["text", "'l'", "'m'", "'ma'"],
    ["text", "''", "'m'", "'n'"],
    ["quoted", "'o''a'", "'o''clock'", "'o''d'"],
    [
      "guid",
      `guid'${GUID.replace("c", "b")}'`,
      `guid'${GUID.toUpperCase()}'`,
      `guid'${GUID.replace("c", "d")}'`,
    ],
    ["bytes", "X'01FE'", "X'01ff'", "X'01FF00'"],
    ["bytes", "binary'00'", "binary'01FF'", "binary'02'"],
    [
      "date",
      "datetime'2020-02-02T02:02:01Z'",
      "datetime'2020-02-02T02:02:02.0000000Z'",
      "datetime'2020-02-02T02:02:02.0000001Z'",
    ],
    [
      "Timestamp",
      "datetime'2023-01-01T00:00:00Z'",
      "datetime'2023-01-01T01:00:00.0000001+01:00'",
      "datetime'2023-01-01T00:00:00.0000002'",
    ],
    ["PartitionKey", "'a'", "'p'", "'q'"],
    ["RowKey", "'a'", "'r'", "'s'"],
    ["yes", "false", "true", "true"],
    ["infinite", "1.0", "INF", "INF"],
  ];
  const truth: Readonly<Record<Operator, readonly [boolean, boolean, boolean]>> = {
    eq: [false, true, false],
    ne: [true, false, true],
    gt: [true, false, false],
    ge: [true, true, false],
    lt: [false, false, true],
    le: [false, true, true],
  };
  const turned = { eq: "eq", ne: "ne", gt: "lt", ge: "le", lt: "gt", le: "ge" } as const;
  for (const [property, ...literals] of ordered) {
    for (const operator of Object.keys(truth) as Operator[]) {
      literals.forEach((literal, index) => {
        if (index === 2 && literal === literals[1]) return;
        const want = truth[operator][index];
        test(`${property} ${operator} ${literal} is ${want}`, () => {
          assert.equal(isMatch(`${property} ${operator} ${literal}`), want);
          assert.equal(isMatch(`${literal} ${turned[operator]} ${property}`), want);
          assert.equal(isMatch(`not (${property} ${operator} ${literal})`), !want);
        });
      });
    }
  }

  const rows: [text: string, want: boolean][] = [
    ["yes", true],
    ["no", false],
    ["not no", true],
    ["not yes", false],
    ["int", false],
    ["absent", false],
    ["not absent", true],
    ["true", true],
    ["False", false],
    ["yes eq TRUE", true],
    ["absent eq 1", false],
    ["absent ne 1", false],
    ["not (absent eq 1)", true],
    ["not (absent ne '')", true],
    ["not (text ne '')", false],
    // Another type is no match, whatever the operator.
    ["int eq 5L", false],
    ["int eq 5.0", false],
    ["int eq '5'", false],
    ["int ne '5'", false],
    ["int gt 1.0", false],
    ["long eq 5", false],
    ["long gt 5", true],
    ["long gt 5.0", false],
    ["double gt 2", true],
    ["int lt 5000000000", true],
    ["int lt 5000000000L", false],
    ["whole eq 5L", false],
    ["yes eq 1", false],
    ["text eq 1", false],
    [`guid eq '${GUID}'`, false],
    ["date gt '2000'", false],
    ["PartitionKey ne 1", false],
    // NaN is unequal to all, itself too.
    ["nan eq NaN", false],
    ["nan ne NaN", true],
    ["nan gt 0.0", false],
    ["infinite gt -INF", true],
    // and binds tighter than or, not tighter than both.
    ["true or true and false", true],
    ["(true or true) and false", false],
    ["false and false or true", true],
    ["not false and false", false],
    ["not (false and false)", true],
    ["not true or true", true],
    ["not not true", true],
    ["int eq 5 and text eq 'm' and yes", true],
    ["int eq 4 or text eq 'm' or no", true],
    ["int eq 4 or text eq 'n' or no", false],
    ["((((int eq 5))))", true],
    ["not(int eq 5)", false],
    ["(int eq 5)and(text eq 'm')", true],
    ["  int   eq\t5 \n", true],
    ["int eq +5", true],
    ["not eq 1", true],
    ["_under eq 1", true],
    ["größe eq 1", true],
    ["text eq 'm' and quoted eq 'o''clock'", true],
    ["empty eq ''", true],
    ["'m' eq text and 5 eq int", true],
  ];
  for (const [text, want] of rows) {
    test(`${text} is ${want}`, () => assert.equal(isMatch(text), want));
  }
});

suite("parseFilter()", () => {
  const bad = [
    "",
    " ",
    "(",
    ")",
    "()",
    "eq",
    "int eq",
    "eq 5",
    "int 5",
    "int == 5",
    "int EQ 5",
    "int eq 5 AND yes",
    "int eq 5 and",
    "and int eq 5",
    "or",
    "not",
    "int eq 5 yes",
    "int eq 5)",
    "(int eq 5",
    "int eq int",
    "5 eq 5",
    "'a'",
    "5",
    "int eq 'a",
    "int eq a'",
    "int eq ''a'",
    "int eq 5x",
    "int eq 5LL",
    "int eq 99999999999999999999",
    "int eq 99999999999999999999L",
    "int eq 1e999",
    "int eq 1.5L",
    "date eq datetime'x'",
    "date eq datetime'2020-02-30T00:00:00Z'",
    "date eq datetime '2020-02-02'",
    "date eq DateTime'2020-02-02'",
    "guid eq guid'1'",
    "bytes eq X'1'",
    "bytes eq X'zz'",
    "bytes eq x'00'",
    "a.b eq 1",
    "a-b eq 1",
    "int add 1 eq 6",
    "int eq 5, 6",
    "(text,'m')",
    "text eq null'",
    "int eq 5;",
    "int eq 5 # x",
    "int eq $5",
    "\0",
  ];
  for (const text of bad) {
    test(`refuses ${JSON.stringify(text)}`, () =>
      assert.throws(() => parseFilter(text), FilterError));
  }

  const functions = [
    "startswith(text,'m')",
    "substringof('m',text)",
    "not startswith (text,'m')",
    "startswith(text,'m') eq true",
    "length(text) eq 1",
    "text eq tolower('M')",
    "int eq 5 and contains(text,'m')",
  ];
  for (const text of functions) {
    test(`does not know the function of ${JSON.stringify(text)}`, () =>
      assert.throws(() => parseFilter(text), UnsupportedFilter));
  }

  test("refuses what nests too deep or is too long, and is quick about it", () => {
    const begin = performance.now();
    for (const text of [
      `${"(".repeat(100_000)}true${")".repeat(100_000)}`,
      `${"not ".repeat(100_000)}true`,
      `${"not (".repeat(5_000)}true${")".repeat(5_000)}`,
      Array.from({ length: 10_000 }, () => "int eq 5").join(" or "),
      `int eq '${"''".repeat(100_000)}`,
    ]) {
      assert.throws(() => parseFilter(text), FilterError);
    }
    assert.ok(performance.now() - begin < 2_000);
  });

  test("takes what is within the limits", () => {
    assert.equal(isMatch(`${"(".repeat(60)}true${")".repeat(60)}`), true);
    const long = Array.from({ length: 300 }, () => "int eq 5").join(" and ");
    assert.equal(comparisonsIn(parseFilter(long)), 300);
    assert.equal(isMatch(long), true);
  });
});

/** A generator that a seed drives. */
function randomOf(seed: number) {
  let state = seed;
  const below = (bound: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
  const of = <T>(list: readonly T[]): T => list[below(list.length)] as T;
  return { below, of };
}
type Random = ReturnType<typeof randomOf>;

const OPERATORS: readonly Operator[] = ["eq", "ne", "gt", "ge", "lt", "le"];
const KEYS = ["", "a", "aa", "b", "b'c", "z", "é", "😀", "\ue000", "\ud83d"];

/** A filter as text, and as a function of an entity written without the code under test. */
type Sample = {
  readonly text: string;
  readonly holds: (values: Readonly<Record<string, unknown>>) => boolean;
};

function comparison(random: Random, names: readonly string[]): Sample {
  const name = random.of(names);
  const operator = random.of(OPERATORS);
  const isText = name.endsWith("Key") ? random.below(20) > 0 : random.below(2) === 0;
  const value: string | number = isText ? random.of(KEYS) : random.below(4);
  const literal = typeof value === "string" ? `'${value.replace(/'/g, "''")}'` : String(value);
  const sides: Record<Operator, (order: number) => boolean> = {
    eq: (order) => order === 0,
    ne: (order) => order !== 0,
    gt: (order) => order > 0,
    ge: (order) => order >= 0,
    lt: (order) => order < 0,
    le: (order) => order <= 0,
  };
  const other = { eq: "eq", ne: "ne", gt: "lt", ge: "le", lt: "gt", le: "ge" }[operator];
  return {
    text: random.below(3) === 0 ? `${literal} ${other} ${name}` : `${name} ${operator} ${literal}`,
    holds(values) {
      const found = values[name];
      if (found === undefined || typeof found !== typeof value) return false;
      const left = found as string | number;
      return sides[operator](left === value ? 0 : left < value ? -1 : 1);
    },
  };
}

function sample(random: Random, depth: number, names: readonly string[]): Sample {
  const kind = depth === 0 ? 0 : random.below(5);
  if (kind < 2) return comparison(random, names);
  if (kind === 2) {
    const inner = sample(random, depth - 1, names);
    return { text: `not (${inner.text})`, holds: (values) => !inner.holds(values) };
  }
  const parts = Array.from({ length: 2 + random.below(2) }, () => sample(random, depth - 1, names));
  if (kind === 3) {
    return {
      text: parts.map(({ text }) => `(${text})`).join(" and "),
      holds: (values) => parts.every((part) => part.holds(values)),
    };
  }
  return {
    text: `(${parts.map(({ text }) => text).join(" or ")})`,
    holds: (values) => parts.some((part) => part.holds(values)),
  };
}

const typed = (value: unknown): EdmValue | undefined => {
  if (typeof value === "string") return { type: "String", value };
  return typeof value === "number" ? { type: "Int32", value } : undefined;
};

for (const seed of [1, 2, 3, 4]) {
  test(`parseFilter() and matches() agree with a simple evaluator, seed ${seed}`, () => {
    const random = randomOf(seed);
    for (let round = 0; round < 1_500; round++) {
      const { text, holds } = sample(random, 3, ["PartitionKey", "RowKey", "a", "b"]);
      const filter = parseFilter(text);
      for (let i = 0; i < 8; i++) {
        const values: Record<string, unknown> = {
          PartitionKey: random.of(KEYS),
          RowKey: random.of(KEYS),
          ...(random.below(3) > 0 ? { a: random.of(KEYS) } : {}),
          ...(random.below(3) > 0 ? { b: random.below(4) } : {}),
        };
        const found = matches(filter, (name) => typed(values[name]));
        assert.equal(found, holds(values), `${text} on ${JSON.stringify(values)}`);
      }
    }
  });
}

const inside = (text: string, { low, lowIsOpen, high, highIsOpen }: Interval) =>
  (lowIsOpen ? text > low : text >= low) &&
  (high === undefined || (highIsOpen ? text < high : text <= high));
const inBox = ({ partition, row }: Box, partitionKey: string, rowKey: string) =>
  inside(partitionKey, partition) && inside(rowKey, row);

for (const seed of [11, 12, 13]) {
  test(`keyRanges() holds every match, and where it is exact nothing else, seed ${seed}`, () => {
    const random = randomOf(seed);
    let exactCount = 0;
    for (let round = 0; round < 1_500; round++) {
      const names =
        round % 2 === 0 ? ["PartitionKey", "RowKey"] : ["PartitionKey", "RowKey", "a", "b"];
      const { text, holds } = sample(random, 3, names);
      const { boxes, exact } = keyRanges(parseFilter(text));
      if (exact) exactCount++;
      for (const PartitionKey of KEYS) {
        for (const RowKey of KEYS) {
          const isIn = boxes.some((box) => inBox(box, PartitionKey, RowKey));
          const isHit = holds({ PartitionKey, RowKey, a: random.of(KEYS), b: random.below(4) });
          const where = `${text} on ${PartitionKey}, ${RowKey}`;
          assert.ok(isIn || !isHit, where);
          if (exact) assert.equal(isIn, isHit, where);
        }
      }
    }
    assert.ok(exactCount > 500, `${exactCount} were exact`);
  });
}

suite("keyRanges()", () => {
  const rows: [text: string, boxes: number, exact: boolean, isRuns: boolean][] = [
    ["PartitionKey eq 'a'", 1, true, true],
    ["PartitionKey eq 'a' and RowKey eq 'b'", 1, true, true],
    ["PartitionKey eq 'a' and RowKey ge 'b' and RowKey lt 'c'", 1, true, true],
    ["PartitionKey ge 'a' and PartitionKey lt 'c'", 1, true, true],
    ["PartitionKey gt 'a' and RowKey eq 'b'", 1, true, false],
    ["RowKey eq 'b'", 1, true, false],
    ["PartitionKey eq 'a' or PartitionKey eq 'b'", 2, true, true],
    ["PartitionKey eq 'a' and (RowKey eq '1' or RowKey eq '2' or RowKey eq '3')", 3, true, true],
    ["PartitionKey eq 'a' and x gt 1", 1, false, true],
    ["PartitionKey eq 'a' or x gt 1", 2, false, true],
    ["PartitionKey eq 'a' and PartitionKey eq 'b'", 0, true, true],
    ["PartitionKey eq 1", 0, true, true],
    ["not (PartitionKey ne 'a')", 1, true, true],
    ["PartitionKey ne 'a'", 2, true, true],
    ["PartitionKey lt ''", 0, true, true],
    ["false", 0, true, true],
    ["PartitionKey gt 'a\0'", 1, false, true],
  ];
  for (const [text, count, exact, isRuns] of rows) {
    test(JSON.stringify(text), () => {
      const ranges = keyRanges(parseFilter(text));
      assert.deepEqual(
        [ranges.boxes.length, ranges.exact, ranges.boxes.every(isRun)],
        [count, exact, isRuns],
      );
    });
  }

  test("does not grow without bound", () => {
    const some = (name: string) =>
      `(${Array.from({ length: 100 }, (_, i) => `${name} eq 'k${i}'`).join(" or ")})`;
    const ranges = keyRanges(parseFilter(`${some("PartitionKey")} and ${some("RowKey")}`));
    assert.ok(ranges.boxes.length <= 300);
    assert.equal(ranges.exact, false);
    const filter: Filter = {
      kind: "or",
      terms: Array.from({ length: 200 }, (_, i) => ({
        kind: "compare",
        property: "PartitionKey",
        operator: "ne",
        literal: { type: "String", value: `k${i}` },
      })),
    };
    assert.equal(keyRanges(filter).boxes.length, 1);
  });
});
