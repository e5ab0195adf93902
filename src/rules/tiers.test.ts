import assert from "node:assert/strict";
import { test } from "node:test";
import { errors } from "./errors.ts";
import {
  isPremiumTier,
  parseTier,
  type RehydratePriority,
  type Tier,
  type TierState,
  tierAt,
  tierChanged,
} from "./tiers.ts";

// SEMANTICS c.13; Cold, which the table lacks, is a tier like Cool.
const endsAt = 2_000;
const rehydrating = (to: "Hot" | "Cool" | "Cold", priority: RehydratePriority = "Standard") =>
  ({ tier: "Archive", rehydration: { to, priority, endsAt } }) satisfies TierState;

// The table: 200 done, 202 begun, 409 BlobBeingRehydrated.
type Status = 200 | 202 | 409;
type Columns = [hot: Status, cool: Status, cold: Status, archive: Status];
const tiers: readonly Tier[] = ["Hot", "Cool", "Cold", "Archive"];
const transitions: [from: string, state: TierState, want: Columns][] = [
  ["never set", {}, [200, 200, 200, 200]],
  ["Hot", { tier: "Hot" }, [200, 200, 200, 200]],
  ["Cool", { tier: "Cool" }, [200, 200, 200, 200]],
  ["Cold", { tier: "Cold" }, [200, 200, 200, 200]],
  ["Archive", { tier: "Archive" }, [202, 202, 202, 200]],
  ["Archive rehydrating to Hot", rehydrating("Hot"), [202, 409, 409, 409]],
  ["Archive rehydrating to Cool", rehydrating("Cool"), [409, 202, 409, 409]],
  ["Archive rehydrating to Cold", rehydrating("Cold"), [409, 409, 202, 409]],
];
for (const [from, state, wants] of transitions) {
  for (const [i, to] of tiers.entries()) {
    const want = wants[i];
    test(`tierChanged(): ${from} to ${to} gives ${want}`, () => {
      const result = tierChanged(state, to, { priority: "Standard", endsAt });
      if (typeof result === "string") {
        assert.equal(result, "BlobBeingRehydrated");
        assert.equal(errors[result][0], want);
        return;
      }
      assert.equal(result.begun ? 202 : 200, want);
      // What is done is there; what has begun is still archived, and there by time alone.
      assert.equal(result.state.tier, result.begun ? "Archive" : to);
      assert.equal(result.state.rehydration?.to, result.begun ? to : undefined);
      assert.equal(tierAt(result.state, endsAt).tier, to);
    });
  }
}

// x-ms-rehydrate-priority can only be raised.
const priorities: [from: RehydratePriority, asked: RehydratePriority, want: RehydratePriority][] = [
  ["Standard", "Standard", "Standard"],
  ["Standard", "High", "High"],
  ["High", "Standard", "High"],
  ["High", "High", "High"],
];
for (const [from, asked, want] of priorities) {
  test(`tierChanged(): priority ${from}, asked for ${asked}, becomes ${want}`, () => {
    const result = tierChanged(rehydrating("Hot", from), "Hot", { priority: asked, endsAt });
    assert.ok(typeof result === "object");
    assert.equal(result.state.rehydration?.priority, want);
  });
}

test("tierChanged(): a rehydration keeps the priority and end it was begun with", () => {
  const result = tierChanged({ tier: "Archive" }, "Cool", { priority: "High", endsAt: 5_000 });
  const rehydration = { to: "Cool", priority: "High", endsAt: 5_000 };
  assert.deepEqual(result, { state: { tier: "Archive", rehydration }, begun: true });
});

const passing: [what: string, state: TierState, now: number, want: TierState][] = [
  ["a blob on its way is still archived", rehydrating("Hot"), endsAt - 1, rehydrating("Hot")],
  ["a blob arrives at the end", rehydrating("Hot"), endsAt, { tier: "Hot" }],
  ["a blob has arrived after the end", rehydrating("Cool"), endsAt + 1e9, { tier: "Cool" }],
  ["an archived blob stays", { tier: "Archive" }, 1e12, { tier: "Archive" }],
  ["a hot blob stays", { tier: "Hot" }, 1e12, { tier: "Hot" }],
  ["a tier never set stays so", {}, 1e12, {}],
];
for (const [what, state, now, want] of passing) {
  test(`tierAt(): ${what}`, () => assert.deepEqual(tierAt(state, now), want));
}

const names: [text: string, want: Tier | undefined][] = [
  ["Hot", "Hot"],
  ["Cool", "Cool"],
  ["Cold", "Cold"],
  ["Archive", "Archive"],
  ["hot", "Hot"],
  ["ARCHIVE", "Archive"],
  ["Warm", undefined],
  ["P10", undefined],
  ["", undefined],
];
for (const [text, want] of names) {
  test(`parseTier(): ${JSON.stringify(text)}`, () => assert.equal(parseTier(text), want));
}

const premium: [text: string, want: boolean][] = [
  ...["P4", "P6", "P10", "P15", "P20", "P30", "P40", "P50", "P60", "P70", "P80"].map(
    (text): [string, boolean] => [text, true],
  ),
  ["P5", false],
  ["P90", false],
  ["P", false],
  ["Hot", false],
];
for (const [text, want] of premium) {
  test(`isPremiumTier(): ${text} is ${want}`, () => assert.equal(isPremiumTier(text), want));
}
