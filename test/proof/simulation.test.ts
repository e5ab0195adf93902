import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { simulated } from "./simulation.ts";

const SEEDS = 100;

suite("simulation", () => {
  test(`${SEEDS} seeds: every answer has its place in one order, whatever goes wrong`, async (t) => {
    const sums = {
      operations: 0,
      powerCuts: 0,
      conflicts: 0,
      fullDisks: 0,
      clockSteps: 0,
      unknown: 0,
    };
    for (let seed = 1; seed <= SEEDS; seed++) {
      const outcome = await simulated(seed);
      const again = `npm run proof -- --seconds 0 --seeds 1 --seed ${seed}`;
      assert.deepEqual(outcome.violations, [], `seed ${seed}; again: ${again}`);
      for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += outcome[name];
    }
    t.diagnostic(JSON.stringify(sums));
    // A run in which nothing happens would prove nothing.
    assert.ok(sums.operations > 20 * SEEDS);
    assert.ok(sums.powerCuts > 20 && sums.fullDisks > 20);
    assert.ok(sums.conflicts > SEEDS && sums.clockSteps > SEEDS);
    assert.equal(sums.unknown, 0);
  });

  test("the same seed gives the same run", async () => {
    for (const seed of [7, 8, 9]) {
      assert.deepEqual(await simulated(seed), await simulated(seed));
    }
  });
});
