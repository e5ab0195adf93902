import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { DAY, HOUR, World } from "./world.ts";

// SEMANTICS c.16 and c.13, where only time shows it.

const POLICY = "409 BlobImmutableDueToPolicy";
const HOLD = "409 BlobImmutableDueToLegalHold";
const date = (at: number) => new Date(at).toUTCString();
const policy = (at: number, mode = "Unlocked") => ({
  "x-ms-immutability-policy-until-date": date(at),
  "x-ms-immutability-policy-mode": mode,
});
const hold = (on: boolean) => ({ "x-ms-legal-hold": String(on) });
const set = (world: World, want: string, headers: Record<string, string>, query = {}) =>
  world.comp(want, "/box/a", "immutabilityPolicies", headers, query);
const remove = (world: World, want: string, query = {}) =>
  world.must(want, "DELETE", "/box/a", { query: { comp: "immutabilityPolicies", ...query } });

async function newWorld(): Promise<{ world: World; first: string }> {
  const world = new World({ versioning: true, immutableStorage: true, containerRetentionDays: 7 });
  await world.create("box");
  const { headers } = await world.put("/box/a", "one");
  return { world, first: headers["x-ms-version-id"] ?? "" };
}

suite("a policy", () => {
  for (const mode of ["Unlocked", "Locked"]) {
    test(`${mode}: keeps a blob as it is until its time is over`, async () => {
      const { world } = await newWorld();
      const { headers } = await set(world, "200", policy(world.at + DAY, mode));
      assert.equal(headers["x-ms-immutability-policy-until-date"], date(world.at + DAY));
      assert.equal(headers["x-ms-immutability-policy-mode"]?.toLowerCase(), mode.toLowerCase());
      for (const wait of [0, DAY - 1]) {
        world.pass(wait);
        await world.must(POLICY, "DELETE", "/box/a");
        await world.comp(POLICY, "/box/a", "metadata", { "x-ms-meta-a": "1" });
        await world.comp(POLICY, "/box/a", "properties", { "x-ms-blob-content-type": "a/b" });
        const expiry = { "x-ms-expiry-option": "RelativeToNow", "x-ms-expiry-time": "1000" };
        await world.comp(POLICY, "/box/a", "expiry", expiry);
        await world.must("409", "DELETE", "/box", { query: { restype: "container" } });
        assert.equal((await world.must("200", "GET", "/box/a")).text, "one");
      }
      world.pass(1);
      await world.comp("200", "/box/a", "metadata", { "x-ms-meta-a": "1" });
      await world.must("202", "DELETE", "/box/a");
      await world.must("202", "DELETE", "/box", { query: { restype: "container" } });
      world.pass(8 * DAY);
      await world.sweep();
      assert.deepEqual(await world.left(), {});
    });
  }

  test("a blob may be written over: the state that is held stays as a version", async () => {
    const { world, first } = await newWorld();
    await set(world, "200", policy(world.at + DAY, "Locked"));
    await world.put("/box/a", "two");
    const list = "<BlockList></BlockList>";
    await world.must("201", "PUT", "/box/a", { query: { comp: "blocklist" }, body: list });
    const query = { versionid: first };
    const { headers, text } = await world.must("200", "GET", "/box/a", { query });
    assert.equal(text, "one");
    assert.equal(headers["x-ms-immutability-policy-until-date"], date(world.at + DAY));
    await world.must(POLICY, "DELETE", "/box/a", { query });
    await world.must("202", "DELETE", "/box/a");
    await world.must("409", "DELETE", "/box", { query: { restype: "container" } });
    world.pass(DAY);
    await world.must("202", "DELETE", "/box/a", { query });
    await world.must("202", "DELETE", "/box", { query: { restype: "container" } });
  });

  test("locked: extended but not shortened, loosened or removed; unlocked: all of them", async () => {
    const { world } = await newWorld();
    await set(world, "200", policy(world.at + 2 * DAY));
    await set(world, "200", policy(world.at + DAY));
    await remove(world, "200");
    await set(world, "200", policy(world.at + 2 * DAY, "Locked"));
    await set(world, POLICY, policy(world.at + DAY, "Locked"));
    await set(world, POLICY, policy(world.at + 3 * DAY));
    await remove(world, POLICY);
    await set(world, "200", policy(world.at + 3 * DAY, "Locked"));
    world.pass(2 * DAY);
    await world.must(POLICY, "DELETE", "/box/a");
    world.pass(DAY);
    await remove(world, "200");
    await world.must("202", "DELETE", "/box/a");
  });

  test("of a version or a snapshot is its own", async () => {
    const { world, first } = await newWorld();
    const taken = await world.comp("201", "/box/a", "snapshot");
    const snapshot = taken.headers["x-ms-snapshot"] ?? "";
    await world.put("/box/a", "two");
    for (const query of [{ versionid: first }, { snapshot }]) {
      await set(world, "200", policy(world.at + DAY), query);
      await world.must(POLICY, "DELETE", "/box/a", { query });
      const { headers } = await world.must("200", "HEAD", "/box/a", { query });
      assert.equal(headers["x-ms-immutability-policy-mode"]?.toLowerCase(), "unlocked");
      await remove(world, "200", query);
      await world.comp("200", "/box/a", "legalhold", hold(true), query);
      await world.must(HOLD, "DELETE", "/box/a", { query });
      await world.comp("200", "/box/a", "legalhold", hold(false), query);
    }
    await set(world, "200", policy(world.at + DAY), { snapshot });
    const include = { headers: { "x-ms-delete-snapshots": "include" } };
    await world.must(POLICY, "DELETE", "/box/a", include);
    await world.must("200", "GET", "/box/a");
    await world.must("200", "GET", "/box/a", { query: { snapshot } });
    await remove(world, "200", { snapshot });
    await world.must("202", "DELETE", "/box/a", include);
    await world.must("202", "DELETE", "/box/a", { query: { versionid: first } });
  });

  test("given with a write holds the new state, and not the one before it", async () => {
    const { world, first } = await newWorld();
    const { headers } = await world.put("/box/a", "two", policy(world.at + DAY, "Locked"));
    await world.must(POLICY, "DELETE", "/box/a");
    await world.must("202", "DELETE", "/box/a", { query: { versionid: first } });
    await world.put("/box/a", "three", hold(true));
    const query = { versionid: headers["x-ms-version-id"] ?? "" };
    await world.must(POLICY, "DELETE", "/box/a", { query });
    await world.must(HOLD, "DELETE", "/box/a");
    await world.put("/box/a", "four");
    await world.must("202", "DELETE", "/box/a");
  });

  test("given with a write must end in the future", async () => {
    const { world } = await newWorld();
    for (const at of [world.at, world.at - DAY]) {
      const headers = { "x-ms-blob-type": "BlockBlob", ...policy(at) };
      await world.must("400 InvalidHeaderValue", "PUT", "/box/new", { headers, body: "x" });
      await world.must("400 InvalidHeaderValue", "PUT", "/box/new", {
        ...{ query: { comp: "blocklist" }, headers: policy(at), body: "<BlockList></BlockList>" },
      });
    }
    await world.must("404 BlobNotFound", "GET", "/box/new");
  });

  test("set on what is gone is refused, and so is one that ends at once", async () => {
    const { world } = await newWorld();
    await world.comp(
      "404 BlobNotFound",
      "/box/none",
      "immutabilityPolicies",
      policy(world.at + DAY),
    );
    const query = { snapshot: "2011-03-09T01:42:34.9360000Z" };
    await set(world, "404 BlobNotFound", policy(world.at + DAY), query);
    await set(world, "400 InvalidHeaderValue", policy(world.at));
    await set(world, "400 InvalidHeaderValue", policy(world.at - HOUR));
    await set(world, "400 InvalidHeaderValue", policy(world.at + DAY, "Sometimes"));
    await set(world, "400", {});
    await set(world, "400", { "x-ms-immutability-policy-until-date": "tomorrow" });
  });

  test("a blob that would expire stays as long as a policy or a hold keeps it, and no longer", async () => {
    const { world } = await newWorld();
    const expiry = { "x-ms-expiry-option": "RelativeToNow", "x-ms-expiry-time": String(HOUR) };
    await world.comp("200", "/box/a", "expiry", expiry);
    await set(world, "200", policy(world.at + 2 * DAY, "Locked"));
    await world.put("/box/b", "held");
    await world.comp("200", "/box/b", "expiry", expiry);
    await world.comp("200", "/box/b", "legalhold", hold(true));
    world.pass(2 * HOUR);
    await world.sweep();
    assert.equal((await world.must("200", "GET", "/box/a")).text, "one");
    assert.equal((await world.must("200", "GET", "/box/b")).text, "held");
    world.pass(3 * DAY);
    await world.must("404 BlobNotFound", "GET", "/box/a");
    await world.sweep();
    assert.equal((await world.must("200", "GET", "/box/b")).text, "held");
    await world.comp("200", "/box/b", "legalhold", hold(false));
    await world.must("404 BlobNotFound", "GET", "/box/b");
    world.pass(2 * DAY);
    await world.sweep();
    assert.deepEqual(await world.left(), { "subspace 2": 1, "subspace 11": 1 });
  });
});

suite("a legal hold", () => {
  test("ends when it is taken off, and at no time before; a policy goes on below it", async () => {
    const { world } = await newWorld();
    await world.comp("200", "/box/a", "legalhold", hold(true));
    await set(world, "200", policy(world.at + DAY));
    world.pass(400 * DAY);
    await world.sweep();
    await world.must(HOLD, "DELETE", "/box/a");
    await world.must("409", "DELETE", "/box", { query: { restype: "container" } });
    const { headers } = await world.must("200", "HEAD", "/box/a");
    assert.equal(headers["x-ms-legal-hold"], "true");
    await set(world, "200", policy(world.at + DAY));
    await world.comp("200", "/box/a", "legalhold", hold(false));
    await world.must(POLICY, "DELETE", "/box/a");
    world.pass(DAY);
    await world.must("202", "DELETE", "/box/a");
  });

  test("changes neither ETag nor Last-Modified, and needs no lease", async () => {
    const { world } = await newWorld();
    const before = await world.must("200", "HEAD", "/box/a");
    const lease = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
    await world.comp("201", "/box/a", "lease", lease);
    world.pass(HOUR);
    await world.comp("200", "/box/a", "legalhold", hold(true));
    await set(world, "200", policy(world.at + DAY));
    const after = await world.must("200", "HEAD", "/box/a");
    for (const name of ["etag", "last-modified", "x-ms-version-id"]) {
      assert.equal(after.headers[name], before.headers[name], name);
    }
    await world.comp("400 MissingRequiredHeader", "/box/a", "legalhold");
    await world.comp("400 InvalidHeaderValue", "/box/a", "legalhold", { "x-ms-legal-hold": "x" });
  });
});

suite("where nothing can be made immutable", () => {
  test("each way to do so is refused, and nothing is done", async () => {
    const world = new World({ versioning: true });
    await world.create("box");
    const { headers } = await world.put("/box/a", "one");
    await set(world, "409", policy(world.at + DAY));
    await remove(world, "409");
    await world.comp("409", "/box/a", "legalhold", hold(true));
    for (const held of [policy(world.at + DAY), hold(true)]) {
      const sent = { headers: { "x-ms-blob-type": "BlockBlob", ...held }, body: "two" };
      await world.must("409", "PUT", "/box/a", sent);
    }
    assert.equal((await world.must("200", "HEAD", "/box/a")).headers.etag, headers.etag);
    await world.must("202", "DELETE", "/box/a");
  });
});

suite("rehydration", () => {
  const tier = (to: string) => ({ "x-ms-access-tier": to });

  test("takes its time, for a blob, a snapshot and a version, and Set Blob Tier makes no version", async () => {
    const world = new World({ versioning: true, rehydrateMs: HOUR });
    await world.create("box");
    const first = (await world.put("/box/a", "one")).headers["x-ms-version-id"] ?? "";
    const taken = await world.comp("201", "/box/a", "snapshot");
    const snapshot = taken.headers["x-ms-snapshot"] ?? "";
    await world.put("/box/a", "two");
    const count = (await world.list("box", "versions,snapshots")).length;
    for (const [query, text] of [
      [{}, "two"],
      [{ versionid: first }, "one"],
      [{ snapshot }, "one"],
    ] as const) {
      await world.comp("200", "/box/a", "tier", tier("Archive"), query);
      await world.must("409 BlobArchived", "GET", "/box/a", { query });
      await world.comp("202", "/box/a", "tier", tier("Hot"), query);
      await world.comp("409 BlobBeingRehydrated", "/box/a", "tier", tier("Cool"), query);
      const { headers } = await world.must("200", "HEAD", "/box/a", { query });
      assert.equal(headers["x-ms-archive-status"], "rehydrate-pending-to-hot");
      world.pass(HOUR - 1);
      await world.must("409 BlobArchived", "GET", "/box/a", { query });
      world.pass(1);
      assert.equal((await world.must("200", "GET", "/box/a", { query })).text, text);
      const after = await world.must("200", "HEAD", "/box/a", { query });
      assert.equal(after.headers["x-ms-archive-status"], undefined);
      assert.equal(after.headers["x-ms-access-tier"], "Hot");
    }
    assert.equal((await world.list("box", "versions,snapshots")).length, count);
  });

  test("goes on while a blob is deleted", async () => {
    const world = new World({ rehydrateMs: HOUR });
    await world.create("box");
    await world.keepDeleted(7);
    await world.put("/box/a", "one", tier("Archive"));
    await world.comp("202", "/box/a", "tier", tier("Cool"));
    await world.must("202", "DELETE", "/box/a");
    await world.comp("404 BlobNotFound", "/box/a", "tier", tier("Hot"));
    world.pass(HOUR);
    await world.comp("200", "/box/a", "undelete");
    assert.equal((await world.must("200", "GET", "/box/a")).text, "one");
    assert.equal((await world.must("200", "HEAD", "/box/a")).headers["x-ms-access-tier"], "Cool");
  });

  test("x-ms-access-tier-if-(un)modified-since on Delete Blob judge when the tier was changed", async () => {
    const world = new World();
    await world.create("box");
    await world.put("/box/a", "one");
    world.pass(HOUR);
    const between = date(world.at);
    world.pass(HOUR);
    await world.comp("200", "/box/a", "tier", tier("Cool"));
    const since = (name: string, at: string) => ({
      headers: { [`x-ms-access-tier-if-${name}-since`]: at },
    });
    await world.must("412 ConditionNotMet", "DELETE", "/box/a", since("unmodified", between));
    await world.must("412 ConditionNotMet", "DELETE", "/box/a", since("modified", date(world.at)));
    await world.must("400", "DELETE", "/box/a", since("modified", "yesterday"));
    await world.must("200", "GET", "/box/a");
    await world.must("202", "DELETE", "/box/a", since("modified", between));
    await world.put("/box/a", "one");
    await world.comp("200", "/box/a", "tier", tier("Cool"));
    await world.must("202", "DELETE", "/box/a", since("unmodified", date(world.at)));
  });
});
