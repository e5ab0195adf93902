import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorCode } from "./errors.ts";
import {
  type Held,
  isImmutable,
  type Policy,
  policyChanged,
  policyRemoved,
} from "./immutability.ts";

// SEMANTICS c.16: a date in the future; Locked may only be extended; only Unlocked can be deleted; a legal
// hold stands by itself. Now is 20_000.
const NOW = 20_000;
const policy = (mode: Policy["mode"], until: number): Policy => ({ mode, until });
const unlocked = policy("Unlocked", 30_000);
const locked = policy("Locked", 30_000);
const pastUnlocked = policy("Unlocked", 10_000);
const pastLocked = policy("Locked", 10_000);

const held: [what: string, held: Held, want: ErrorCode | undefined][] = [
  ["nothing holds it", {}, undefined],
  ["an unlocked policy", { immutability: unlocked }, "BlobImmutableDueToPolicy"],
  ["a locked policy", { immutability: locked }, "BlobImmutableDueToPolicy"],
  [
    "a policy that ends after this moment",
    { immutability: policy("Locked", NOW + 1) },
    "BlobImmutableDueToPolicy",
  ],
  ["a policy that ends at this moment", { immutability: policy("Locked", NOW) }, undefined],
  ["an unlocked policy that has run out", { immutability: pastUnlocked }, undefined],
  ["a locked policy that has run out", { immutability: pastLocked }, undefined],
  ["a legal hold", { legalHold: true }, "BlobImmutableDueToLegalHold"],
  [
    "a legal hold and a policy that has run out",
    { legalHold: true, immutability: pastLocked },
    "BlobImmutableDueToLegalHold",
  ],
];
for (const [what, state, want] of held) {
  test(`isImmutable(): ${what}`, () => assert.equal(isImmutable(state, NOW), want));
}

test("isImmutable(): a legal hold and a policy, either is named", () => {
  const both = isImmutable({ legalHold: true, immutability: locked }, NOW);
  assert.match(String(both), /^BlobImmutableDueTo(LegalHold|Policy)$/);
});

// One row for each policy before and each after; the date of the one after is before, at or beyond that.
const changes: [what: string, before: Policy | undefined, next: Policy, ok: boolean][] = [
  ["none to unlocked", undefined, unlocked, true],
  ["none to locked", undefined, locked, true],
  ["unlocked extended", unlocked, policy("Unlocked", 40_000), true],
  ["unlocked shortened", unlocked, policy("Unlocked", 25_000), true],
  ["unlocked as it is", unlocked, unlocked, true],
  ["unlocked to locked", unlocked, locked, true],
  ["unlocked to locked, shortened", unlocked, policy("Locked", 25_000), true],
  ["locked extended", locked, policy("Locked", 40_000), true],
  ["locked as it is", locked, locked, true],
  ["locked shortened by a millisecond", locked, policy("Locked", 29_999), false],
  ["locked to unlocked", locked, unlocked, false],
  ["locked to unlocked, extended", locked, policy("Unlocked", 40_000), false],
  ["unlocked that has run out", pastUnlocked, unlocked, true],
  ["locked that has run out, to locked", pastLocked, locked, true],
];
for (const [what, before, next, ok] of changes) {
  test(`policyChanged(): ${what}`, () => {
    assert.deepEqual(policyChanged(before, next, NOW), ok ? next : "BlobImmutableDueToPolicy");
  });
}

for (const before of [undefined, unlocked, locked, pastUnlocked, pastLocked]) {
  for (const mode of ["Unlocked", "Locked"] as const) {
    for (const until of [NOW, NOW - 1, 0]) {
      const from = before === undefined ? "none" : `${before.mode} until ${before.until}`;
      test(`policyChanged(): ${from} to ${mode} until ${until}, which is no future, is refused`, () => {
        assert.equal(typeof policyChanged(before, policy(mode, until), NOW), "string");
      });
    }
  }
}

const removals: [what: string, before: Policy | undefined, want: ErrorCode | undefined][] = [
  ["none", undefined, undefined],
  ["unlocked", unlocked, undefined],
  ["unlocked that has run out", pastUnlocked, undefined],
  ["locked", locked, "BlobImmutableDueToPolicy"],
  ["locked that has run out", pastLocked, undefined],
];
for (const [what, before, want] of removals) {
  test(`policyRemoved(): ${what}`, () => assert.equal(policyRemoved(before, NOW), want));
}
