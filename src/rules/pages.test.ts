import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { StorageError } from "./errors.ts";
import {
  failedSequence,
  PAGE_BLOB_SIZE_MAX,
  pageBlobSize,
  pagesOf,
  type SequenceAction,
  type SequenceConditions,
  sequenceAction,
  sequenceAfter,
  wholePages,
} from "./pages.ts";

const MAX = 2n ** 63n - 1n;

/** What a rule gives, or the code it refuses with. */
function outcome(rule: () => unknown): unknown {
  try {
    return rule();
  } catch (error) {
    assert.ok(error instanceof StorageError);
    return error.code;
  }
}

suite("pageBlobSize()", () => {
  for (const [text, want] of [
    ["0", 0],
    ["512", 512],
    [String(PAGE_BLOB_SIZE_MAX), PAGE_BLOB_SIZE_MAX],
    [String(PAGE_BLOB_SIZE_MAX + 512), "RequestBodyTooLarge"],
    ["511", "InvalidHeaderValue"],
    ["513", "InvalidHeaderValue"],
    ["-512", "InvalidHeaderValue"],
    ["", "InvalidHeaderValue"],
    ["0x200", "InvalidHeaderValue"],
    ["512.0", "InvalidHeaderValue"],
    ["99999999999999999999", "InvalidHeaderValue"],
  ] as const) {
    test(`${text} is ${want}`, () =>
      assert.equal(
        outcome(() => pageBlobSize(text)),
        want,
      ));
  }
});

suite("pagesOf()", () => {
  for (const [text, want] of [
    ["bytes=0-511", { start: 0, count: 512 }],
    ["bytes=1024-4095", { start: 1_024, count: 3_072 }],
    ["bytes=0-510", "InvalidPageRange"],
    ["bytes=0-512", "InvalidPageRange"],
    ["bytes=1-512", "InvalidPageRange"],
    ["bytes=256-767", "InvalidPageRange"],
    ["bytes=0-", "InvalidHeaderValue"],
    ["bytes=511-0", "InvalidHeaderValue"],
    ["bytes=-512", "InvalidHeaderValue"],
    ["bytes=0-511,1024-1535", "InvalidHeaderValue"],
    ["pages=0-511", "InvalidHeaderValue"],
    ["", "InvalidHeaderValue"],
    [undefined, "MissingRequiredHeader"],
  ] as const) {
    test(`${text} is ${JSON.stringify(want)}`, () =>
      assert.deepEqual(
        outcome(() => pagesOf("x-ms-range", text)),
        want,
      ));
  }
});

suite("wholePages()", () => {
  for (const [from, count, start, all] of [
    [0, 512, 0, 512],
    [0, 1, 0, 512],
    [511, 2, 0, 1_024],
    [512, 512, 512, 512],
    [600, 0, 512, 512],
  ] as const) {
    test(`${count} bytes from ${from}`, () =>
      assert.deepEqual(wholePages({ start: from, count }), { start, count: all }));
  }
});

suite("failedSequence()", () => {
  const failed = "SequenceNumberConditionNotMet";
  for (const [what, conditions, number, want] of [
    ["none asked", {}, 7n, undefined],
    ["at most, below it", { atMost: 7n }, 6n, undefined],
    ["at most, at it", { atMost: 7n }, 7n, undefined],
    ["at most, above it", { atMost: 7n }, 8n, failed],
    ["below, below it", { below: 7n }, 6n, undefined],
    ["below, at it", { below: 7n }, 7n, failed],
    ["equal, at it", { equal: 7n }, 7n, undefined],
    ["equal, above it", { equal: 7n }, 8n, failed],
    ["equal, below it", { equal: 7n }, 6n, failed],
    ["two, of which one fails", { atMost: 9n, equal: 7n }, 8n, failed],
    ["beyond what a double can tell", { equal: MAX }, MAX - 1n, failed],
  ] satisfies [string, SequenceConditions, bigint, unknown][]) {
    test(what, () => assert.equal(failedSequence(conditions, number), want));
  }
});

suite("sequenceAction()", () => {
  for (const [action, number, want] of [
    [undefined, undefined, undefined],
    [undefined, "1", "MissingRequiredHeader"],
    ["increment", undefined, { action: "increment" }],
    ["increment", "1", "InvalidHeaderValue"],
    ["max", "5", { action: "max", number: 5n }],
    ["Update", "0", { action: "update", number: 0n }],
    ["update", String(MAX), { action: "update", number: MAX }],
    ["update", String(MAX + 1n), "InvalidHeaderValue"],
    ["update", "-1", "InvalidHeaderValue"],
    ["update", "one", "InvalidHeaderValue"],
    ["update", undefined, "MissingRequiredHeader"],
    ["max", undefined, "MissingRequiredHeader"],
    ["add", "1", "InvalidHeaderValue"],
  ] as const) {
    test(`${action} ${number}`, () =>
      assert.deepEqual(
        outcome(() => sequenceAction(action, number)),
        want,
      ));
  }
});

suite("sequenceAfter()", () => {
  for (const [number, action, want] of [
    [5n, { action: "max", number: 7n }, 7n],
    [9n, { action: "max", number: 7n }, 9n],
    [9n, { action: "update", number: 7n }, 7n],
    [9n, { action: "increment" }, 10n],
    [MAX, { action: "increment" }, "SequenceNumberIncrementTooLarge"],
    [MAX - 1n, { action: "increment" }, MAX],
  ] satisfies [bigint, SequenceAction, unknown][]) {
    test(`${action.action} of ${number}`, () => assert.equal(sequenceAfter(number, action), want));
  }
});
