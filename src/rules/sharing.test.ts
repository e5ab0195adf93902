import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ALL,
  DELETE,
  inConflict,
  type Oplock,
  oplockAfter,
  overlap,
  READ,
  type RestUse,
  type Rights,
  WRITE,
} from "./sharing.ts";

const bits = (text: string): Rights =>
  (text.includes("R") ? READ : 0) |
  (text.includes("W") ? WRITE : 0) |
  (text.includes("D") ? DELETE : 0);

// "Manage file locks", examples, and MS-FSA: each may do only what the other shares.
const opens: [a: string, b: string, want: boolean][] = [
  ["R share W", "W share R", false],
  ["W share R", "W share W", true],
  ["W share W", "W share R", true],
  ["R share RWD", "RWD share RWD", false],
  ["R share ", "R share RWD", true],
  ["R share R", "R share R", false],
  ["R share R", "W share R", true],
  ["D share RWD", "R share RW", true],
  [" share ", "RWD share RWD", false],
  [" share ", " share ", false],
];
for (const [a, b, want] of opens) {
  const open = (text: string) => {
    const [access = "", share = ""] = text.split("share");
    return { access: bits(access), shares: bits(share) };
  };
  test(`inConflict(): ${a} beside ${b}: ${want}`, () => {
    assert.equal(inConflict(open(a), open(b)), want);
    assert.equal(inConflict(open(b), open(a)), want, "the other way round");
  });
}

const ranges: [a: [bigint, bigint], b: [bigint, bigint], want: boolean][] = [
  [[0n, 10n], [9n, 1n], true],
  [[0n, 10n], [10n, 1n], false],
  [[5n, 0n], [0n, 10n], true],
  [[0n, 0n], [0n, 10n], false],
  [[10n, 0n], [0n, 10n], false],
  [[5n, 0n], [5n, 0n], false],
  [[2n ** 64n - 1n, 1n], [0n, 2n ** 64n], true],
];
for (const [a, b, want] of ranges) {
  test(`overlap(): ${a} and ${b}: ${want}`, () => {
    const range = ([start, count]: [bigint, bigint]) => ({ start, count });
    assert.equal(overlap(range(a), range(b)), want);
    assert.equal(overlap(range(b), range(a)), want);
  });
}

const oplock = (text: string): Oplock => ({
  read: text.includes("R"),
  write: text.includes("W"),
  handle: text.includes("H"),
});

// "Manage file locks", the table of oplocks and REST operations.
const breaks: [use: RestUse, held: string, left: string, waits: boolean][] = [
  ["read", "RWH", "RH", true],
  ["read", "RH", "RH", false],
  ["read", "RW", "R", true],
  ["list", "RWH", "RWH", false],
  ["look", "RWH", "RH", true],
  ["look", "RW", "R", true],
  ["write", "RWH", "", true],
  ["write", "RH", "", false],
  ["write", "RW", "", true],
  ["delete", "RWH", "RW", true],
  ["delete", "RH", "R", true],
  ["delete", "RW", "RW", false],
];
for (const [use, held, left, waits] of breaks) {
  test(`oplockAfter(): ${use} breaks ${held} to ${left || "none"}${waits ? " and waits" : ""}`, () =>
    assert.deepEqual(oplockAfter(oplock(held), use), { left: oplock(left), waits }));
}

test("ALL is every right there is", () => assert.equal(ALL, bits("RWD")));
