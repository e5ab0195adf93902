import assert from "node:assert/strict";
import { test } from "node:test";
import { type Conditions, noConditions } from "../rules/conditions.ts";
import { parseConditions } from "./conditions.ts";

// SEMANTICS a.2 to a.4: lists with commas, quotes that may be left out, a weak tag as a strong one; dates
// of RFC 1123 or RFC 850, one in each header.
type Headers = Record<string, string>;
const date = "Fri, 02 Jan 2026 03:04:05 GMT";
const at = Date.UTC(2026, 0, 2, 3, 4, 5);
const good: [what: string, headers: Headers, want: Conditions][] = [
  ["no header", {}, {}],
  ["a header of another kind", { etag: '"0x1"', "x-ms-source-if-match": '"0x1"' }, {}],
  ["a quoted tag", { "if-match": '"0x1"' }, { ifMatch: ["0x1"] }],
  ["a tag without quotes", { "if-match": "0x1" }, { ifMatch: ["0x1"] }],
  ["a weak tag", { "if-match": 'W/"0x1"' }, { ifMatch: ["0x1"] }],
  ["a star", { "if-match": "*" }, { ifMatch: ["*"] }],
  ["a list", { "if-match": '"0x1","0x2"' }, { ifMatch: ["0x1", "0x2"] }],
  ["a list with spaces", { "if-match": ' "0x1" ,\t"0x2" ' }, { ifMatch: ["0x1", "0x2"] }],
  ["a list of all kinds", { "if-match": '0x1, W/"0x2", *' }, { ifMatch: ["0x1", "0x2", "*"] }],
  ["If-None-Match", { "if-none-match": '"0x1"' }, { ifNoneMatch: ["0x1"] }],
  ["If-None-Match with a star", { "if-none-match": "*" }, { ifNoneMatch: ["*"] }],
  ["If-Modified-Since", { "if-modified-since": date }, { ifModifiedSince: at }],
  ["If-Unmodified-Since", { "if-unmodified-since": date }, { ifUnmodifiedSince: at }],
  [
    "a date of RFC 850",
    { "if-modified-since": "Friday, 02-Jan-26 03:04:05 GMT" },
    { ifModifiedSince: at },
  ],
  [
    "all four",
    {
      "if-match": "1",
      "if-none-match": "2",
      "if-modified-since": date,
      "if-unmodified-since": date,
    },
    { ifMatch: ["1"], ifNoneMatch: ["2"], ifModifiedSince: at, ifUnmodifiedSince: at },
  ],
];
for (const [what, headers, want] of good) {
  test(`parseConditions(): ${what}`, () =>
    assert.deepEqual(
      parseConditions((name) => headers[name]),
      want,
    ));

  test(`parseConditions(): ${what}, of a copy's source`, () => {
    const prefixed = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [`x-ms-source-${name}`, value]),
    );
    assert.deepEqual(
      parseConditions((name) => prefixed[name], "x-ms-source-"),
      want,
    );
  });
}

test("parseConditions(): no header at all is noConditions itself", () =>
  assert.equal(
    parseConditions(() => undefined),
    noConditions,
  ));

const bad: [what: string, name: string, value: string][] = [
  ["an empty tag", "if-match", ""],
  ["an empty tag in quotes", "if-match", '""'],
  ["an empty tag in a list", "if-none-match", '"0x1",,"0x2"'],
  ["a comma alone", "if-none-match", ","],
  ["an empty date", "if-modified-since", ""],
  ["a date of ISO 8601", "if-modified-since", "2026-01-02T03:04:05Z"],
  ["words", "if-unmodified-since", "yesterday"],
  ["two dates", "if-modified-since", `${date}, ${date}`],
  ["another zone", "if-unmodified-since", "Fri, 02 Jan 2026 03:04:05 PST"],
];
for (const [what, name, value] of bad) {
  for (const prefix of ["", "x-ms-source-"]) {
    test(`parseConditions(): ${what} in ${prefix}${name} is refused by its name`, () =>
      assert.throws(
        () => parseConditions((asked) => (asked === prefix + name ? value : undefined), prefix),
        { code: "InvalidHeaderValue", details: { HeaderName: prefix + name, HeaderValue: value } },
      ));
  }
}
