import assert from "node:assert/strict";
import { test } from "node:test";
import { encoded, ROW_SIZE_MAX } from "./binary.ts";
import { CsvReader, type Dialect, writtenColumn } from "./csv.ts";
import { JsonReader } from "./json.ts";
import { QueryFault } from "./values.ts";

type Reader<Row> = {
  feed(text: string, isLast: boolean): void;
  next(): Row | undefined;
};

/** All rows of a text that comes in these parts. */
function read<Row>(reader: Reader<Row>, parts: readonly string[]): Row[] {
  const rows: Row[] = [];
  parts.forEach((part, i) => {
    reader.feed(part, i === parts.length - 1);
    for (let row = reader.next(); row !== undefined; row = reader.next()) rows.push(row);
  });
  return rows;
}

/** The text whole, cut once at every position, and character by character. */
function* cuts(text: string): Generator<string[]> {
  yield [text];
  for (let at = 0; at <= text.length; at++) yield [text.slice(0, at), text.slice(at)];
  yield [...text, ""];
}

const plain: Dialect = { column: ",", record: "\n", quote: '"', escapeMark: "" };

const csv: [what: string, dialect: Dialect, text: string, rows: [at: number, ...string[]][]][] = [
  ["nothing", plain, "", []],
  [
    "rows",
    plain,
    "a,b\nc,d\n",
    [
      [0, "a", "b"],
      [4, "c", "d"],
    ],
  ],
  [
    "no end of line",
    plain,
    "a,b\nc,d",
    [
      [0, "a", "b"],
      [4, "c", "d"],
    ],
  ],
  [
    "\\r\\n",
    plain,
    "a,b\r\nc,d\r\n",
    [
      [0, "a", "b"],
      [5, "c", "d"],
    ],
  ],
  [
    "empty lines and columns",
    plain,
    "\n,\n\na,,\n",
    [
      [1, "", ""],
      [4, "a", "", ""],
    ],
  ],
  [
    "quotes",
    plain,
    '"a,1","b\n2"\n"c",d\n',
    [
      [0, "a,1", "b\n2"],
      [12, "c", "d"],
    ],
  ],
  ["quotes in quotes", plain, '"a""b","""",""\n', [[0, 'a"b', '"', ""]]],
  [
    "quotes before \\r\\n",
    plain,
    '"a","b"\r\n"c"\r\n',
    [
      [0, "a", "b"],
      [9, "c"],
    ],
  ],
  ["a quote inside a column", plain, 'a"b,c\n', [[0, 'a"b', "c"]]],
  ["text behind a quote", plain, '"a"b,c\n', [[0, "ab", "c"]]],
  [
    "a last row in quotes",
    plain,
    'a\n"b"',
    [
      [0, "a"],
      [2, "b"],
    ],
  ],
  [
    "a byte order mark",
    plain,
    "\xef\xbb\xbfa\nb\n",
    [
      [3, "a"],
      [5, "b"],
    ],
  ],
  [
    "long separators",
    { ...plain, column: "<>", record: "\r\n" },
    'a<>b\r\n<<>\n"c"<>d\r\n',
    [
      [0, "a", "b"],
      [6, "<", '\n"c"', "d"],
    ],
  ],
  [
    "separators beyond ASCII",
    { ...plain, column: encoded("§"), record: encoded("→") },
    encoded("ä§b→c→"),
    [
      [0, encoded("ä"), "b"],
      [8, "c"],
    ],
  ],
  [
    "escapes",
    { ...plain, escapeMark: "\\" },
    'a\\,b,c\\\nd,"e\\"f"\n',
    [[0, "a,b", "c\nd", 'e"f']],
  ],
  [
    "escapes without quotes",
    { ...plain, quote: "", escapeMark: "!" },
    '"a!,b",!!\n',
    [[0, '"a,b"', "!"]],
  ],
  ["no quotes", { ...plain, quote: "" }, '"a,b"\n', [[0, '"a', 'b"']]],
  [
    "points and exclamation marks",
    { ...plain, column: ".", record: "!" },
    "1.2!3.4!",
    [
      [0, "1", "2"],
      [4, "3", "4"],
    ],
  ],
];
for (const [what, dialect, text, want] of csv) {
  test(`CsvReader: ${what}, however it is cut`, () => {
    for (const parts of cuts(text)) {
      const rows = read(new CsvReader(dialect), parts);
      assert.deepEqual(
        rows.map(({ at, columns }) => [at, ...columns]),
        want,
        JSON.stringify(parts),
      );
    }
  });
}

const isFault = (name: string) => (error: unknown) =>
  error instanceof QueryFault && error.isFatal && error.name === name;

test("CsvReader: a quote that is not closed is an error", () => {
  for (const parts of cuts('a\n"b\nc')) {
    assert.throws(() => read(new CsvReader(plain), parts), isFault("ParseError"));
  }
});

test("CsvReader: a row may be a mebibyte, and no more", () => {
  const row = "x".repeat(ROW_SIZE_MAX - 1);
  assert.equal(read(new CsvReader(plain), [row, "\n"]).length, 1);
  assert.throws(() => read(new CsvReader(plain), [`${row}xx\n`]), isFault("RecordTooLarge"));
  assert.throws(() => read(new CsvReader(plain), [row, "xx", "xx"]), isFault("RecordTooLarge"));
});

test("writtenColumn(): what is written is read back", () => {
  const dialects: Dialect[] = [
    plain,
    { ...plain, escapeMark: "\\" },
    { ...plain, escapeMark: '"' },
    { ...plain, quote: "'", column: ";;" },
    { ...plain, quote: "", escapeMark: "!" },
  ];
  const texts = ["", "a", "a,b", 'a"b', "a\nb", "a\\b", "a!b", "'a'", ";;", '"', "\\", "a\r"];
  for (const dialect of dialects) {
    const line = ["x", ...texts, "x"].map((text) => writtenColumn(text, dialect));
    const [row] = read(new CsvReader(dialect), [line.join(dialect.column) + dialect.record]);
    assert.deepEqual(row?.columns, ["x", ...texts, "x"], JSON.stringify(dialect));
  }
});

const json: [what: string, text: string, rows: [at: number, value: unknown][]][] = [
  ["nothing", " \n ", []],
  [
    "records on lines",
    '{"a":1}\n{"a":2}\n',
    [
      [0, { a: 1 }],
      [8, { a: 2 }],
    ],
  ],
  [
    "records without a separator",
    '{"a":1}{"a":2}',
    [
      [0, { a: 1 }],
      [7, { a: 2 }],
    ],
  ],
  [
    "the separator between them",
    '{"a":1}|{"a":2}|',
    [
      [0, { a: 1 }],
      [8, { a: 2 }],
    ],
  ],
  ["records over lines", '{\n "a": [1, {"b": 2}]\n}\n', [[0, { a: [1, { b: 2 }] }]]],
  [
    "braces and quotes in texts",
    '{"a":"}]\\"{"}\n{"b":"\\\\"}',
    [
      [0, { a: '}]"{' }],
      [14, { b: "\\" }],
    ],
  ],
  [
    "an array of records",
    '[{"a":1} , {"a":[2]}]',
    [
      [1, { a: 1 }],
      [11, { a: [2] }],
    ],
  ],
  ["an empty array", "[ ]", []],
  [
    "arrays one after another",
    '[1][[2]]\n{"a":3}',
    [
      [1, 1],
      [4, [2]],
      [9, { a: 3 }],
    ],
  ],
  [
    "scalars",
    '1 "a" true null',
    [
      [0, 1],
      [2, "a"],
      [6, true],
      [11, null],
    ],
  ],
  ["a byte order mark", '\xef\xbb\xbf{"a":1}', [[3, { a: 1 }]]],
  [
    "texts beyond ASCII",
    encoded('{"ä":"😀"}{}'),
    [
      [0, { ä: "😀" }],
      [13, {}],
    ],
  ],
  [
    "integers that a double would round",
    '{"a":9007199254740993}',
    [[0, { a: 9_007_199_254_740_993n }]],
  ],
  ["a member named __proto__", '{"__proto__":{"x":1}}', [[0, JSON.parse('{"__proto__":{"x":1}}')]]],
];
for (const [what, text, want] of json) {
  test(`JsonReader: ${what}, however it is cut`, () => {
    for (const parts of cuts(text)) {
      const rows = read(new JsonReader("|"), parts);
      assert.deepEqual(
        rows.map(({ at, value }) => [at, value]),
        want,
        JSON.stringify(parts),
      );
    }
  });
}

const broken: [what: string, text: string][] = [
  ["a comma between records", '{"a":1},{"a":2}'],
  ["a closing brace", "}"],
  ["a word", "{} abc"],
  ["a record that breaks off", '{"a":1'],
  ["a text that breaks off", '{"a":"1'],
  ["an array that breaks off", '[{"a":1}'],
  ["an array without commas", "[1 2]"],
  ["a record that is none", '{"a":}'],
  ["depth", "[".repeat(100_000)],
];
for (const [what, text] of broken) {
  test(`JsonReader: ${what} is an error`, () => {
    const all = text.length > 100 ? [[text]] : cuts(text);
    for (const parts of all) {
      assert.throws(
        () => read(new JsonReader(""), parts),
        isFault("ParseError"),
        JSON.stringify(parts),
      );
    }
  });
}

test("JsonReader: tells what it stumbles over, and where", () => {
  const reader = new JsonReader("\n");
  assert.throws(
    () => read(reader, ["100,200\n"]),
    /^ParseError: Unexpected token ',' at \[byte: 3\]\. Expecting tokens '\{', or '\['\. $/,
  );
  assert.equal(reader.position, 0);
});

test("JsonReader: a record may be a mebibyte, and no more", () => {
  const record = (size: number) => `{"a":"${"x".repeat(size - 8)}"}`;
  assert.equal(read(new JsonReader(""), [record(ROW_SIZE_MAX)]).length, 1);
  for (const parts of [[record(ROW_SIZE_MAX + 1)], [record(ROW_SIZE_MAX + 9).slice(0, -3), "xx"]]) {
    assert.throws(() => read(new JsonReader(""), parts), isFault("RecordTooLarge"));
  }
});
