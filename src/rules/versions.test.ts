import assert from "node:assert/strict";
import { test } from "node:test";
import { bodySizeMax, isServiceVersion, NEWEST_VERSION } from "./versions.ts";

// DESIGN 6: any date from 2009-04-14 on, also newer than we know; malformed is refused.
const versions: [text: string, want: boolean][] = [
  ["2009-04-14", true],
  ["2009-09-19", true],
  ["2015-02-21", true],
  ["2019-12-12", true],
  ["2026-04-06", true],
  ["2026-06-06", true],
  ["2031-01-01", true],
  ["2009-04-13", false],
  ["2008-10-27", false],
  ["", false],
  ["latest", false],
  ["2026-4-6", false],
  ["2026-04", false],
  ["2026-13-01", false],
  ["2026-00-01", false],
  ["2026-04-32", false],
  ["2026-04-00", false],
  ["20260406", false],
  ["2026-04-06T00:00:00Z", false],
  [" 2026-04-06", false],
  ["2026-04-06\n", false],
];
for (const [text, want] of versions) {
  test(`isServiceVersion(): ${JSON.stringify(text)} is ${want}`, () =>
    assert.equal(isServiceVersion(text), want));
}

test("NEWEST_VERSION: is a version", () => assert.ok(isServiceVersion(NEWEST_VERSION)));

// SEMANTICS c.2: block, Put Blob and append block sizes, at both ends of each row.
const MIB = 1024 * 1024;
const sizes: [version: string, blockMib: number, blobMib: number, appendMib: number][] = [
  [NEWEST_VERSION, 4000, 5000, 100],
  ["2031-01-01", 4000, 5000, 100],
  ["2022-11-02", 4000, 5000, 100],
  ["2022-11-01", 4000, 5000, 4],
  ["2019-12-12", 4000, 5000, 4],
  ["2019-12-11", 100, 256, 4],
  ["2019-07-07", 100, 256, 4],
  ["2016-05-31", 100, 256, 4],
  ["2015-12-11", 4, 64, 4],
  ["2009-04-14", 4, 64, 4],
];
for (const [version, block, blob, append] of sizes) {
  test(`bodySizeMax(): ${version} takes blocks of ${block}, blobs of ${blob}, appends of ${append} MiB`, () =>
    assert.deepEqual(bodySizeMax(version), {
      block: block * MIB,
      blob: blob * MIB,
      append: append * MIB,
    }));
}
