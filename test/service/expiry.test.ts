import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { DAY, HOUR, type Sent, World } from "./world.ts";

// Set Blob Expiry: what time alone deletes.

const LARGE = Buffer.alloc(200_000, "large");
const empty = { "subspace 2": 1, "subspace 11": 1 };
const date = (at: number) => new Date(at).toUTCString();
const expiry = (option: string, time?: string | number) => ({
  "x-ms-expiry-option": option,
  ...(time === undefined ? {} : { "x-ms-expiry-time": String(time) }),
});
const inMs = (ms: number) => expiry("RelativeToNow", ms);

async function newWorld(settings: ConstructorParameters<typeof World>[0] = {}): Promise<World> {
  const world = new World(settings);
  await world.create("box");
  return world;
}

suite("Set Blob Expiry: when", () => {
  const rows: [what: string, headers: (world: World) => Record<string, string>, ends: number][] = [
    ["from now", () => inMs(HOUR), 2 * HOUR],
    ["from its creation", () => expiry("RelativeToCreation", 3 * HOUR), 3 * HOUR],
    ["at a time", (world) => expiry("Absolute", date(world.at + HOUR)), 2 * HOUR],
  ];
  for (const [what, headers, ends] of rows) {
    test(what, async () => {
      const world = await newWorld();
      const born = world.at;
      await world.put("/box/a", LARGE, { "x-ms-tags": "t=1" });
      world.pass(HOUR);
      await world.comp("200", "/box/a", "expiry", headers(world));
      const { headers: shown } = await world.must("200", "HEAD", "/box/a");
      assert.equal(shown["x-ms-expiry-time"], date(born + ends));
      world.at = born + ends - 1;
      await world.sweep();
      await world.must("200", "GET", "/box/a");
      assert.deepEqual(await world.find("t = '1'"), ["a"]);
      world.pass(1);
      await world.must("404 BlobNotFound", "GET", "/box/a");
      await world.must("404 BlobNotFound", "HEAD", "/box/a");
      await world.must("404 BlobNotFound", "DELETE", "/box/a");
      await world.comp("404 BlobNotFound", "/box/a", "metadata");
      await world.comp("404 BlobNotFound", "/box/a", "snapshot");
      await world.comp("404 BlobNotFound", "/box/a", "expiry", expiry("NeverExpire"));
      await world.comp("404 BlobNotFound", "/box/a", "undelete");
      await world.must("404 BlobNotFound", "GET", "/box/a", { query: { comp: "tags" } });
      assert.deepEqual(await world.list("box"), []);
      assert.deepEqual(await world.list("box", "deleted,snapshots,uncommittedblobs"), []);
      assert.deepEqual(await world.find("t = '1'"), []);
      await world.sweep();
      assert.deepEqual(await world.left(), empty);
    });
  }

  test("never: what was set before is taken back", async () => {
    const world = await newWorld();
    await world.put("/box/a", "small");
    await world.comp("200", "/box/a", "expiry", inMs(HOUR));
    await world.comp("200", "/box/a", "expiry", expiry("NeverExpire"));
    const { headers } = await world.must("200", "HEAD", "/box/a");
    assert.equal(headers["x-ms-expiry-time"], undefined);
    world.pass(DAY);
    await world.sweep();
    await world.must("200", "GET", "/box/a");
  });

  test("set again, later or sooner: the last one counts", async () => {
    const world = await newWorld();
    for (const name of ["later", "sooner"]) await world.put(`/box/${name}`, "small");
    await world.comp("200", "/box/later", "expiry", inMs(HOUR));
    await world.comp("200", "/box/later", "expiry", inMs(3 * HOUR));
    await world.comp("200", "/box/sooner", "expiry", inMs(3 * HOUR));
    await world.comp("200", "/box/sooner", "expiry", inMs(HOUR));
    world.pass(2 * HOUR);
    await world.sweep();
    assert.deepEqual(await world.list("box"), ["later"]);
    world.pass(HOUR);
    await world.sweep();
    assert.deepEqual(await world.left(), empty);
  });
});

suite("Set Blob Expiry: refused", () => {
  const HEADER = "400 InvalidHeaderValue";
  const rows: [what: string, headers: Record<string, string>, want: string][] = [
    ["no option", { "x-ms-expiry-time": "1000" }, "400 MissingRequiredHeader"],
    ["an unknown option", expiry("Sometimes", 1000), HEADER],
    ["NeverExpire with a time", expiry("NeverExpire", 1000), HEADER],
    ["from now, with no time", expiry("RelativeToNow"), "400 MissingRequiredHeader"],
    ["at a time, with no time", expiry("Absolute"), "400 MissingRequiredHeader"],
    ["from now, with a date", expiry("RelativeToNow", date(Date.UTC(2031, 0))), HEADER],
    ["from now, less than nothing", expiry("RelativeToNow", -1), HEADER],
    ["from now, a fraction", expiry("RelativeToNow", "1.5"), HEADER],
    ["from now, beyond all time", expiry("RelativeToNow", "9".repeat(40)), HEADER],
    ["from creation, in the past", expiry("RelativeToCreation", HOUR), HEADER],
    ["at a time, with a number", expiry("Absolute", 1000), HEADER],
    ["at a time that is past", expiry("Absolute", date(Date.UTC(2029, 0))), HEADER],
    ["at no time", expiry("Absolute", "tomorrow"), HEADER],
  ];
  for (const [what, headers, want] of rows) {
    test(what, async () => {
      const world = await newWorld();
      await world.put("/box/a", "small");
      world.pass(2 * HOUR);
      await world.comp(want, "/box/a", "expiry", headers);
      const { headers: shown } = await world.must("200", "HEAD", "/box/a");
      assert.equal(shown["x-ms-expiry-time"], undefined);
    });
  }

  test("without the id of a lease that is held", async () => {
    const world = await newWorld();
    await world.put("/box/a", "small");
    const lease = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
    const id = (await world.comp("201", "/box/a", "lease", lease)).headers["x-ms-lease-id"] ?? "";
    await world.comp("412 LeaseIdMissing", "/box/a", "expiry", inMs(HOUR));
    await world.comp("200", "/box/a", "expiry", { ...inMs(HOUR), "x-ms-lease-id": id });
    world.pass(HOUR);
    await world.must("404 BlobNotFound", "GET", "/box/a");
    await world.put("/box/a", "the lease went with it");
  });

  test("of a snapshot or a version", async () => {
    const world = await newWorld({ versioning: true });
    const { headers } = await world.put("/box/a", "small");
    const snapshot = (await world.comp("201", "/box/a", "snapshot")).headers["x-ms-snapshot"] ?? "";
    for (const query of [{ snapshot }, { versionid: headers["x-ms-version-id"] ?? "" }]) {
      await world.comp("400", "/box/a", "expiry", inMs(HOUR), query);
    }
  });
});

suite("a blob that has expired", () => {
  const writes: [what: string, method: string, sent: Sent][] = [
    ["Put Blob", "PUT", { headers: { "x-ms-blob-type": "BlockBlob" }, body: "new" }],
    [
      "Put Blob if there is none",
      "PUT",
      { headers: { "x-ms-blob-type": "BlockBlob", "if-none-match": "*" }, body: "new" },
    ],
    [
      "Put Block List",
      "PUT",
      { query: { comp: "blocklist" }, body: "<BlockList><Latest>AAAA</Latest></BlockList>" },
    ],
  ];
  for (const [what, method, sent] of writes) {
    for (const versioning of [false, true]) {
      for (const body of ["old", LARGE]) {
        const how = `${versioning ? "with" : "without"} versions, ${body.length} bytes`;
        test(`its name is free for ${what} (${how}), and the new one does not expire`, async () => {
          const world = await newWorld({ versioning });
          await world.put("/box/a", body, { "x-ms-tags": "t=old" });
          await world.comp("200", "/box/a", "expiry", inMs(HOUR));
          const block = { query: { comp: "block", blockid: "AAAA" }, body: "new" };
          await world.must("201", "PUT", "/box/a", block);
          world.pass(HOUR);
          await world.must("201", method, "/box/a", sent);
          await world.sweep();
          world.pass(DAY);
          await world.sweep();
          assert.equal((await world.must("200", "GET", "/box/a")).text, "new");
          assert.deepEqual(await world.find("t = 'old'"), []);
          await world.checked();
          await world.must("202", "DELETE", "/box/a");
          await removeVersions(world);
          world.pass(8 * DAY);
          await world.sweep();
          assert.deepEqual(await world.left(), empty);
        });
      }
    }
  }

  test("a state that is kept as version or snapshot does not go with it, and can be deleted", async () => {
    const world = await newWorld({ versioning: true });
    const first = (await world.put("/box/a", LARGE)).headers["x-ms-version-id"] ?? "";
    await world.comp("200", "/box/a", "expiry", inMs(HOUR));
    const snapshot = (await world.comp("201", "/box/a", "snapshot")).headers["x-ms-snapshot"] ?? "";
    await world.put("/box/a", "second");
    world.pass(2 * HOUR);
    await world.sweep();
    assert.equal((await world.must("200", "GET", "/box/a")).text, "second");
    for (const query of [{ versionid: first }, { snapshot }]) {
      assert.equal((await world.must("200", "GET", "/box/a", { query })).text, LARGE.toString());
      await world.must("202", "DELETE", "/box/a", { query });
    }
    await world.must("202", "DELETE", "/box/a");
    await removeVersions(world);
    await world.sweep();
    assert.deepEqual(await world.left(), empty);
  });

  test("its snapshots can still be deleted", async () => {
    const world = await newWorld();
    await world.put("/box/a", LARGE);
    const { headers } = await world.comp("201", "/box/a", "snapshot");
    await world.comp("200", "/box/a", "expiry", inMs(HOUR));
    world.pass(HOUR);
    await world.sweep();
    await world.checked();
    const snapshot = headers["x-ms-snapshot"] ?? "";
    await world.must("202", "DELETE", "/box/a", { query: { snapshot } });
    await world.sweep();
    assert.deepEqual(await world.left(), empty);
  });

  for (const hours of [1, 30]) {
    test(`deleted before, undeleted ${hours} h later: it expires all the same, and leaves nothing`, async () => {
      const world = await newWorld();
      await world.keepDeleted(7);
      await world.put("/box/a", LARGE, { "x-ms-tags": "t=1" });
      await world.comp("200", "/box/a", "expiry", inMs(DAY));
      await world.must("202", "DELETE", "/box/a");
      world.pass(hours * HOUR);
      await world.sweep();
      await world.send("PUT", "/box/a", { query: { comp: "undelete" } });
      await world.checked();
      world.pass(2 * DAY);
      await world.must("404 BlobNotFound", "GET", "/box/a");
      assert.deepEqual(await world.find("t = '1'"), []);
      assert.deepEqual(await world.list("box"), []);
      world.pass(10 * DAY);
      await world.sweep();
      assert.deepEqual(await world.left(), { ...empty, "subspace 1": 1 });
    });
  }

  test("in a container that was deleted and restored it expires all the same", async () => {
    const world = await newWorld({ containerRetentionDays: 7 });
    await world.put("/box/a", LARGE, { "x-ms-tags": "t=1" });
    await world.comp("200", "/box/a", "expiry", inMs(DAY));
    await world.put("/box/b", "stays", { "x-ms-tags": "t=1" });
    await world.must("202", "DELETE", "/box", { query: { restype: "container" } });
    const [{ version = "" } = {}] = await world.containers("deleted");
    world.pass(DAY);
    await world.must("201", "PUT", "/box", {
      query: { restype: "container", comp: "undelete" },
      headers: { "x-ms-deleted-container-name": "box", "x-ms-deleted-container-version": version },
    });
    assert.deepEqual(await world.list("box"), ["b"]);
    assert.deepEqual(await world.find("t = '1'"), ["b"]);
    await world.sweep();
    assert.deepEqual(await world.list("box"), ["b"]);
    await world.must("202", "DELETE", "/box/b");
    world.pass(7 * DAY);
    await world.sweep();
    assert.deepEqual(await world.left(), empty);
  });
});

/** Deletes every version of "a". */
async function removeVersions(world: World): Promise<void> {
  const query = { restype: "container", comp: "list", include: "versions" };
  const { text } = await world.must("200", "GET", "/box", { query });
  for (const [, id = ""] of text.matchAll(/<VersionId>([^<]+)</g)) {
    await world.must("202", "DELETE", "/box/a", { query: { versionid: id } });
  }
}
