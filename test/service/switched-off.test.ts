import assert from "node:assert/strict";
import { test } from "node:test";
import { DAY, World } from "./world.ts";

const off = (world: World) => {
  world.settings = { ...world.settings, versioning: false, immutableStorage: false };
};

for (const [what, change] of [
  ["written over", (world: World) => world.put("/box/a", "two")],
  ["deleted", (world: World) => world.must("202", "DELETE", "/box/a")],
] as const) {
  test(`a version stays when the account keeps none any more and its blob is ${what}`, async () => {
    const world = new World({ versioning: true });
    await world.create("box");
    const { headers } = await world.put("/box/a", "one");
    off(world);
    await change(world);
    const query = { versionid: headers["x-ms-version-id"] ?? "" };
    assert.equal((await world.must("200", "GET", "/box/a", { query })).text, "one");
  });
}

test("what was made immutable stays so, and so does its container", async () => {
  const world = new World({ versioning: true, immutableStorage: true });
  await world.create("box");
  const until = new Date(world.at + DAY).toUTCString();
  await world.put("/box/a", "one", { "x-ms-immutability-policy-until-date": until });
  off(world);
  await world.must("409 BlobImmutableDueToPolicy", "DELETE", "/box/a");
  const query = { restype: "container" };
  await world.must("409 ContainerImmutabilityPolicyLocked", "DELETE", "/box", { query });
  world.pass(DAY + 1000);
  await world.must("202", "DELETE", "/box", { query });
});
