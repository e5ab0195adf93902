import assert from "node:assert/strict";
import { test } from "node:test";
import { httpDate } from "../base/time.ts";
import { type ErrorCode, StorageError } from "./errors.ts";
import {
  checkedVisibleAt,
  expiryOf,
  hasExpired,
  lifetimeOf,
  messageCountOf,
  NEVER,
  receiptOf,
  receiptText,
  retrievalMsOf,
  updateMsOf,
} from "./messages.ts";

const query = (text: string) => new Map(new URLSearchParams(text));
const WEEK_MS = 604_800_000;
const NEW = "2017-07-29";

function isRefused(body: () => unknown, code: ErrorCode, details?: Record<string, string>): void {
  assert.throws(body, (error: unknown) => {
    assert.ok(error instanceof StorageError);
    assert.equal(error.code, code);
    if (details !== undefined) assert.deepEqual(error.details, details);
    return true;
  });
}

const INVALID = "InvalidQueryParameterValue";
const RANGE = "OutOfRangeQueryParameterValue";
const MISSING = "MissingRequiredQueryParameter";

// "Get Messages": 1 to 32 messages, hidden for 1 second to 7 days.
const counts: [query: string, want: number | ErrorCode][] = [
  ["", 1],
  ["numofmessages=1", 1],
  ["numofmessages=32", 32],
  ["numofmessages=0", RANGE],
  ["numofmessages=33", RANGE],
  ["numofmessages=-1", RANGE],
  ["numofmessages=", INVALID],
  ["numofmessages=x", INVALID],
  ["numofmessages=1.5", INVALID],
  ["numofmessages=1e1", INVALID],
  ["numofmessages=9999999999999999", INVALID],
];
for (const [text, want] of counts) {
  test(`messageCountOf(): "${text}" gives ${want}`, () => {
    if (typeof want === "number") assert.equal(messageCountOf(query(text)), want);
    else isRefused(() => messageCountOf(query(text)), want);
  });
}

const retrievals: [query: string, want: number | ErrorCode][] = [
  ["", 30_000],
  ["visibilitytimeout=1", 1000],
  ["visibilitytimeout=604800", WEEK_MS],
  ["visibilitytimeout=0", RANGE],
  ["visibilitytimeout=604801", RANGE],
  ["visibilitytimeout=-1", RANGE],
  ["visibilitytimeout=soon", INVALID],
];
for (const [text, want] of retrievals) {
  test(`retrievalMsOf(): "${text}" gives ${want}`, () => {
    if (typeof want === "number") assert.equal(retrievalMsOf(query(text)), want);
    else isRefused(() => retrievalMsOf(query(text)), want);
  });
}

// "Update Message": the timeout is required, 0 to 7 days.
const updates: [query: string, want: number | ErrorCode][] = [
  ["visibilitytimeout=0", 0],
  ["visibilitytimeout=604800", WEEK_MS],
  ["visibilitytimeout=604801", RANGE],
  ["visibilitytimeout=-1", RANGE],
  ["visibilitytimeout=x", INVALID],
  ["visibilitytimeout=", MISSING],
  ["", MISSING],
];
for (const [text, want] of updates) {
  test(`updateMsOf(): "${text}" gives ${want}`, () => {
    if (typeof want === "number") assert.equal(updateMsOf(query(text)), want);
    else isRefused(() => updateMsOf(query(text)), want);
  });
}

// "Put Message": the delay is 0 to 7 days and shorter than the life, which is positive or -1.
const lifetimes: [query: string, want: [delayMs: number, ttlMs: number] | ErrorCode][] = [
  ["", [0, WEEK_MS]],
  ["messagettl=1", [0, 1000]],
  ["messagettl=2147483647", [0, 2_147_483_647_000]],
  ["messagettl=-1", [0, NEVER]],
  ["messagettl=-1&visibilitytimeout=604800", [WEEK_MS, NEVER]],
  ["visibilitytimeout=604800", [WEEK_MS, WEEK_MS]],
  ["messagettl=11&visibilitytimeout=10", [10_000, 11_000]],
  ["messagettl=10&visibilitytimeout=10", INVALID],
  ["messagettl=10&visibilitytimeout=11", INVALID],
  ["messagettl=0", INVALID],
  ["messagettl=-2", INVALID],
  ["messagettl=2147483648", RANGE],
  ["messagettl=long", INVALID],
  ["visibilitytimeout=604801", RANGE],
  ["visibilitytimeout=-1", RANGE],
  ["visibilitytimeout=", INVALID],
];
for (const [text, want] of lifetimes) {
  test(`lifetimeOf(): "${text}" gives ${want}`, () => {
    if (typeof want === "string") return isRefused(() => lifetimeOf(query(text), NEW), want);
    assert.deepEqual(lifetimeOf(query(text), NEW), { delayMs: want[0], ttlMs: want[1] });
  });
}

for (const ttl of ["-1", "604801", "0"]) {
  test(`lifetimeOf(): messagettl=${ttl} is out of range before 2017-07-29`, () =>
    isRefused(() => lifetimeOf(query(`messagettl=${ttl}`), "2017-04-17"), RANGE));
}
test("lifetimeOf(): a week is what a message lives, in every version", () => {
  assert.equal(lifetimeOf(query(""), "2017-04-17").ttlMs, WEEK_MS);
  assert.equal(lifetimeOf(query("messagettl=604800"), "2017-04-17").ttlMs, WEEK_MS);
});

test("a number out of range is told with its bounds", () =>
  isRefused(() => messageCountOf(query("numofmessages=40")), RANGE, {
    QueryParameterName: "numofmessages",
    QueryParameterValue: "40",
    MinimumAllowed: "1",
    MaximumAllowed: "32",
  }));

test("expiryOf(): a time after now, or the end of the year 9999", () => {
  assert.equal(expiryOf(5000, { delayMs: 0, ttlMs: 1000 }), 6000);
  const never = expiryOf(5000, { delayMs: 0, ttlMs: NEVER });
  assert.equal(never, NEVER);
  assert.equal(httpDate(never), "Fri, 31 Dec 9999 23:59:59 GMT");
});

test("hasExpired(): from the very instant on", () => {
  assert.equal(hasExpired(1000, 999), false);
  assert.equal(hasExpired(1000, 1000), true);
});

test("checkedVisibleAt(): not later than the expiry", () => {
  assert.equal(checkedVisibleAt(1000, 0, 5000), 1000);
  assert.equal(checkedVisibleAt(1000, 4000, 5000), 5000);
  isRefused(() => checkedVisibleAt(1000, 5000, 5500), RANGE, {
    QueryParameterName: "visibilitytimeout",
    QueryParameterValue: "5",
    MinimumAllowed: "0",
    MaximumAllowed: "4",
  });
});

test("receiptOf(): reads what receiptText() wrote", () => {
  for (const receipt of [
    { visibleAt: 0, tick: 0n },
    { visibleAt: NEVER, tick: 2n ** 64n - 1n },
    { visibleAt: 1_900_000_000_123, tick: 638_000_000_000_000_001n },
  ]) {
    const text = receiptText(receipt);
    assert.match(text, /^[A-Za-z0-9_-]+$/);
    assert.deepEqual(receiptOf(new Map([["popreceipt", text]])), receipt);
  }
});

const bad = [
  "x",
  "AAAAAAAAAAAAAAAAAAAA",
  "AQAAAAAAAAAAAAAAAAAAA",
  "AQAAAAAAAAAAAAAAAA==",
  "ä".repeat(20),
];
for (const text of bad) {
  test(`receiptOf(): "${text}" is refused`, () =>
    isRefused(() => receiptOf(new Map([["popreceipt", text]])), INVALID, {
      QueryParameterName: "popreceipt",
      QueryParameterValue: text,
      Reason: "Invalid pop receipt format",
    }));
}

test("receiptOf(): it must be there", () => {
  isRefused(() => receiptOf(new Map()), MISSING);
  isRefused(() => receiptOf(new Map([["popreceipt", ""]])), MISSING);
});
