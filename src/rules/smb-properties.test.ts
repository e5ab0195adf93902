import assert from "node:assert/strict";
import { test } from "node:test";
import { tickText } from "../base/time.ts";
import {
  attributesText,
  parseAttributes,
  parseFileTime,
  parseQuota,
  parseShareTier,
} from "./smb-properties.ts";

const attributes: [text: string, kind: "file" | "directory", want: string | undefined][] = [
  ["None", "file", "None"],
  ["none", "directory", "Directory"],
  ["Archive", "file", "Archive"],
  ["readonly|HIDDEN | System", "file", "ReadOnly | Hidden | System"],
  ["Hidden", "directory", "Hidden | Directory"],
  ["Directory|Archive", "directory", "Directory | Archive"],
  [
    "Temporary|Offline|NotContentIndexed|NoScrubData",
    "file",
    "Temporary | Offline | NotContentIndexed | NoScrubData",
  ],
  ["Directory", "file", undefined],
  ["Temporary", "directory", undefined],
  ["None|Archive", "file", undefined],
  ["Archive|", "file", undefined],
  ["", "file", undefined],
  ["Shiny", "file", undefined],
];
for (const [text, kind, want] of attributes) {
  test(`parseAttributes(): "${text}" of a ${kind}: ${want}`, () => {
    const bits = parseAttributes(text, kind);
    assert.equal(bits === undefined ? undefined : attributesText(bits), want);
  });
}

const times: [text: string, want: string | undefined][] = [
  ["2017-05-10T17:52:33.9551861Z", "2017-05-10T17:52:33.9551861Z"],
  ["2017-05-10T17:52:33Z", "2017-05-10T17:52:33.0000000Z"],
  ["2017-05-10T17:52:33.5Z", "2017-05-10T17:52:33.5000000Z"],
  ["1601-01-01T00:00:00Z", "1601-01-01T00:00:00.0000000Z"],
  ["1600-12-31T23:59:59.9999999Z", undefined],
  ["2017-02-30T00:00:00Z", undefined],
  ["2017-05-10T17:52:33.12345678Z", undefined],
  ["2017-05-10 17:52:33Z", undefined],
  ["2017-05-10T17:52:33+01:00", undefined],
  ["soon", undefined],
];
for (const [text, want] of times) {
  test(`parseFileTime(): ${text}: ${want}`, () => {
    const tick = parseFileTime(text);
    assert.equal(tick === undefined ? undefined : tickText(tick), want);
  });
}

const quotas: [text: string, want: number | undefined][] = [
  ["1", 1],
  ["102400", 102_400],
  ["102401", undefined],
  ["0", undefined],
  ["-1", undefined],
  ["1.5", undefined],
  ["many", undefined],
];
for (const [text, want] of quotas) {
  test(`parseQuota(): ${text}: ${want}`, () => assert.equal(parseQuota(text), want));
}

for (const [text, want] of [
  ["hot", "Hot"],
  ["COOL", "Cool"],
  ["TransactionOptimized", "TransactionOptimized"],
  ["Premium", undefined],
  ["Archive", undefined],
] as const) {
  test(`parseShareTier(): ${text}: ${want}`, () => assert.equal(parseShareTier(text), want));
}
