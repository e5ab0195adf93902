import assert from "node:assert/strict";
import { test } from "node:test";
import {
  httpDate,
  type Instant,
  instantOf,
  parseHttpDate,
  parseIsoDate,
  parseTickText,
  tickAt,
  tickText,
} from "./time.ts";

// SEMANTICS 0, "Common wire facts": header dates are RFC 1123 (RFC 850 is taken too); snapshots are named
// like 2011-03-09T01:42:34.9360000Z.

/** Instants of all months, weekdays and hours from 1970 to about 2100, always the same. */
function* instants(): Generator<Instant> {
  yield* [0, 1, 999, 1000, 951_782_399_999, 951_782_400_000, 4_102_444_799_999, 4_102_444_800_000];
  let seed = 1n;
  for (let i = 0; i < 5_000; i++) {
    seed = (seed * 6_364_136_223_846_793_005n + 1_442_695_040_888_963_407n) % 2n ** 64n;
    yield Number((seed >> 11n) % 4_102_444_800_000n);
  }
}

test("httpDate(): agrees with the language at many instants", () => {
  for (const at of instants()) assert.equal(httpDate(at), new Date(at).toUTCString());
});

test("parseHttpDate(): reads back what httpDate() writes, in whole seconds", () => {
  for (const at of instants()) {
    assert.equal(parseHttpDate(httpDate(at)), Math.floor(at / 1000) * 1000);
  }
});

test("tickText(): parseTickText() reads back every tick", () => {
  let part = 0n;
  for (const at of instants()) {
    const tick = tickAt(at) + (part++ % 10_000n);
    assert.equal(parseTickText(tickText(tick)), tick);
  }
});

test("tickText(): texts sort as their ticks", () => {
  const ticks = [...instants()].map(tickAt).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const texts = ticks.map(tickText);
  assert.deepEqual([...texts].sort(), texts);
});

test("tickText(): has seven digits of a second", () => {
  const at = Date.UTC(2011, 2, 9, 1, 42, 34, 936);
  assert.equal(tickText(tickAt(at)), "2011-03-09T01:42:34.9360000Z");
  assert.equal(tickText(tickAt(at) + 7n), "2011-03-09T01:42:34.9360007Z");
});

test("tickAt(): counts as .NET does, from the year 1", () => {
  assert.equal(tickAt(0), 621_355_968_000_000_000n);
  assert.equal(tickAt(1), 621_355_968_000_010_000n);
  for (const at of instants()) assert.equal(instantOf(tickAt(at) + 9_999n), at);
});

const tickTexts: [what: string, text: string][] = [
  ["nothing", ""],
  ["six digits", "2011-03-09T01:42:34.936000Z"],
  ["eight digits", "2011-03-09T01:42:34.93600000Z"],
  ["no fraction", "2011-03-09T01:42:34Z"],
  ["no zone", "2011-03-09T01:42:34.9360000"],
  ["another zone", "2011-03-09T01:42:34.9360000+00:00"],
  ["a month that is none", "2011-13-09T01:42:34.9360000Z"],
  ["a day that is in no month", "2011-03-32T01:42:34.9360000Z"],
  ["a day that is not in its month", "2011-02-30T01:42:34.9360000Z"],
  ["an hour that is none", "2011-03-09T25:42:34.9360000Z"],
  ["the hour 24, which has another name", "2011-03-09T24:00:00.0000000Z"],
  ["words", "yesterday"],
  ["a line feed at the end", "2011-03-09T01:42:34.9360000Z\n"],
];
for (const [what, text] of tickTexts) {
  test(`parseTickText(): ${what} is no tick`, () => assert.equal(parseTickText(text), undefined));
}

const date = Date.UTC(1994, 10, 6, 8, 49, 37);
const httpDates: [what: string, text: string, want: Instant | undefined][] = [
  ["RFC 1123", "Sun, 06 Nov 1994 08:49:37 GMT", date],
  ["RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT", date],
  ["RFC 850 of this century", "Friday, 02-Jan-26 03:04:05 GMT", Date.UTC(2026, 0, 2, 3, 4, 5)],
  ["a leap day", "Thu, 29 Feb 2024 00:00:00 GMT", Date.UTC(2024, 1, 29)],
  ["nothing", "", undefined],
  ["words", "yesterday", undefined],
  ["ISO 8601", "1994-11-06T08:49:37Z", undefined],
  ["asctime", "Sun Nov  6 08:49:37 1994", undefined],
  ["another zone", "Sun, 06 Nov 1994 08:49:37 PST", undefined],
  ["an offset", "Sun, 06 Nov 1994 08:49:37 +0000", undefined],
  ["no zone", "Sun, 06 Nov 1994 08:49:37", undefined],
  ["a number", "784111777", undefined],
  ["a month that is none", "Sun, 06 Nox 1994 08:49:37 GMT", undefined],
  ["a day that is in no month", "Sun, 32 Nov 1994 08:49:37 GMT", undefined],
  ["a day that is not in its month", "Wed, 31 Nov 1994 08:49:37 GMT", undefined],
  ["an hour that is none", "Sun, 06 Nov 1994 25:49:37 GMT", undefined],
  ["two dates", "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT", undefined],
];
for (const [what, text, want] of httpDates) {
  test(`parseHttpDate(): ${what}`, () => assert.equal(parseHttpDate(text), want));
}

// SEMANTICS c.17: YYYY-MM-DD, ...Thh:mmTZD, ...:ssTZD, ....fffffffTZD.
const isoDates: [text: string, want: Instant | undefined][] = [
  ["2026-01-02", Date.UTC(2026, 0, 2)],
  ["2026-01-02T03:04Z", Date.UTC(2026, 0, 2, 3, 4)],
  ["2026-01-02T03:04:05Z", Date.UTC(2026, 0, 2, 3, 4, 5)],
  ["2026-01-02T03:04:05.1234567Z", Date.UTC(2026, 0, 2, 3, 4, 5, 123)],
  ["2026-01-02T03:04+02:00", Date.UTC(2026, 0, 2, 1, 4)],
  ["2026-01-02T03:04:05-08:00", Date.UTC(2026, 0, 2, 11, 4, 5)],
  ["", undefined],
  ["2026", undefined],
  ["2026-01", undefined],
  ["2026-1-2", undefined],
  ["2026-01-02T03Z", undefined],
  ["2026-01-02T03:04:05", undefined],
  ["2026-01-02 03:04:05Z", undefined],
  ["2026-13-02", undefined],
  ["2026-02-30", undefined],
  ["2026-01-02T25:04:05Z", undefined],
  ["2026-01-02T03:04:05.12345678Z", undefined],
  ["Fri, 02 Jan 2026 03:04:05 GMT", undefined],
];
for (const [text, want] of isoDates) {
  test(`parseIsoDate(): ${JSON.stringify(text)}`, () => assert.equal(parseIsoDate(text), want));
}
