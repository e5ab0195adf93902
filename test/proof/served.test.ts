import assert from "node:assert/strict";
import { test } from "node:test";
import { faultNames, proveServed } from "./served.ts";

// npm run proof does the same for longer.
test("over HTTP, with each fault in turn: every answer has its place in one order", async (t) => {
  const faults = faultNames;
  const epochs = await proveServed({ seed: 1, clients: 8, operations: 40, faults });
  for (const epoch of epochs) {
    const { fault, operations, unanswered, busy } = epoch;
    t.diagnostic(
      `${fault}: ${operations} answered, ${unanswered} not, ${busy} busy, ${epoch.faults} faults`,
    );
    assert.deepEqual(epoch.violations, [], fault);
    assert.equal(epoch.unknown, 0, fault);
    assert.ok(operations > 150, `${fault}: only ${operations} operations were answered`);
    assert.ok(fault === "none" || epoch.faults > 0, `${fault} did not happen`);
    if (fault === "overload") assert.ok(busy > 0, "nobody was refused");
  }
});
