import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { DAY, HOUR, SECOND, World } from "./world.ts";

// SEMANTICS c.8, where only time shows it: how long what was deleted can be had back.

const LARGE = Buffer.alloc(200_000, "large"); // a file of its own; "small" is a value of the heap
const LEASE = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";
const acquire = (seconds: string) => ({
  "x-ms-lease-action": "acquire",
  "x-ms-lease-duration": seconds,
  "x-ms-proposed-lease-id": LEASE,
});
const breaks = { "x-ms-lease-action": "break", "x-ms-lease-break-period": "0" };

/** A world with the container "box" that keeps deleted blobs for a week. */
async function softWorld(settings: ConstructorParameters<typeof World>[0] = {}): Promise<World> {
  const world = new World(settings);
  await world.create("box");
  await world.keepDeleted(7);
  return world;
}

const empty = { "subspace 1": 1, "subspace 2": 1, "subspace 11": 1 };
const remaining = async (world: World, include = "deleted") => {
  const query = { restype: "container", comp: "list", include };
  const { text } = await world.must("200", "GET", "/box", { query });
  return [...text.matchAll(/<RemainingRetentionDays>(\d+)</g)].map((match) => Number(match[1]));
};

suite("a deleted blob", () => {
  test("a snapshot behind very many deleted ones keeps a blob from being deleted alone", async () => {
    const world = await softWorld();
    await world.put("/box/a", "small");
    const take = async () =>
      (await world.comp("201", "/box/a", "snapshot")).headers["x-ms-snapshot"] ?? "";
    for (let i = 0; i < 130; i++) {
      await world.must("202", "DELETE", "/box/a", { query: { snapshot: await take() } });
    }
    const snapshot = await take();
    await world.must("409 SnapshotsPresent", "DELETE", "/box/a");
    await world.must("202", "DELETE", "/box/a", { query: { snapshot } });
    await world.must("202", "DELETE", "/box/a");
    await world.checked();
  });

  test("can be had back until its time is over, and not a moment longer", async () => {
    for (const body of ["small", LARGE]) {
      const world = await softWorld();
      await world.put("/box/a", body, { "x-ms-tags": "t=1" });
      const deleted = await world.must("202", "DELETE", "/box/a");
      assert.equal(deleted.headers["x-ms-delete-type-permanent"], "false");
      world.pass(7 * DAY - 1);
      assert.deepEqual(await world.list("box", "deleted"), ["a deleted"]);
      await world.sweep();
      await world.comp("200", "/box/a", "undelete");
      assert.equal((await world.must("200", "GET", "/box/a")).text, body.toString());
      assert.deepEqual(await world.find("t = '1'"), ["a"]);

      await world.must("202", "DELETE", "/box/a");
      world.pass(7 * DAY);
      assert.deepEqual(await world.list("box", "deleted"), []);
      await world.comp("404 BlobNotFound", "/box/a", "undelete");
      await world.must("404 BlobNotFound", "GET", "/box/a");
      assert.deepEqual(await world.find("t = '1'"), []);
      await world.sweep();
      assert.deepEqual(await world.left(), empty);
    }
  });

  test("its last day is a day that remains: the count goes down to nothing", async () => {
    const world = await softWorld();
    await world.put("/box/a", "small");
    await world.must("202", "DELETE", "/box/a");
    const days: (number | undefined)[] = [];
    for (let day = 0; day < 7; day++) {
      world.pass(DAY / 2);
      days.push(...(await remaining(world)));
      world.pass(DAY / 2);
    }
    assert.deepEqual(days, [6, 5, 4, 3, 2, 1, 0]);
    assert.deepEqual(await remaining(world), []);
  });

  test("keeps the days it was deleted with, whatever is set later", async () => {
    const world = await softWorld();
    await world.put("/box/a", "small");
    await world.put("/box/b", "small");
    await world.must("202", "DELETE", "/box/a");
    await world.keepDeleted(1);
    world.pass(6 * DAY);
    await world.comp("200", "/box/a", "undelete");
    await world.must("202", "DELETE", "/box/a");
    await world.keepDeleted(30);
    world.pass(DAY);
    await world.comp("404 BlobNotFound", "/box/a", "undelete");
    await world.must("202", "DELETE", "/box/b");
    await world.keepDeleted(undefined);
    world.pass(29 * DAY);
    await world.sweep();
    await world.comp("200", "/box/b", "undelete");
    const gone = await world.must("202", "DELETE", "/box/b");
    assert.equal(gone.headers["x-ms-delete-type-permanent"], "true");
    await world.comp("404 BlobNotFound", "/box/b", "undelete");
    world.pass(DAY);
    await world.sweep();
    assert.deepEqual(await world.left(), empty);
  });

  test("had back and deleted again has a whole time again", async () => {
    const world = await softWorld();
    await world.put("/box/a", LARGE);
    await world.must("202", "DELETE", "/box/a");
    world.pass(3 * DAY);
    await world.comp("200", "/box/a", "undelete");
    world.pass(3 * DAY);
    await world.must("202", "DELETE", "/box/a");
    for (let day = 0; day < 6; day++) {
      world.pass(DAY);
      await world.sweep();
      assert.deepEqual(await world.list("box", "deleted"), ["a deleted"], `day ${day}`);
    }
    await world.comp("200", "/box/a", "undelete");
    world.pass(30 * DAY);
    await world.sweep();
    assert.equal((await world.must("200", "GET", "/box/a")).text, LARGE.toString());
  });

  test("whose name is used again does not take the new one with it", async () => {
    const world = await softWorld();
    await world.put("/box/a", "old", { "x-ms-tags": "t=old" });
    await world.must("202", "DELETE", "/box/a");
    world.pass(DAY);
    await world.put("/box/a", "new", { "x-ms-tags": "t=new" });
    assert.deepEqual(await world.list("box", "deleted,snapshots"), ["a deleted snapshot", "a"]);
    assert.deepEqual(await world.find("t >= ''"), ["a"]);
    for (let day = 0; day < 30; day++) {
      world.pass(DAY);
      await world.sweep();
      assert.equal((await world.must("200", "GET", "/box/a")).text, "new");
    }
    assert.deepEqual(await world.list("box", "deleted,snapshots"), ["a"]);
    assert.deepEqual(await world.find("t = 'new'"), ["a"]);
    await world.must("202", "DELETE", "/box/a");
    world.pass(7 * DAY);
    await world.sweep();
    assert.deepEqual(await world.left(), empty);
  });

  test("has no lease when it is had back", async () => {
    const world = await softWorld();
    await world.put("/box/a", "small");
    await world.comp("201", "/box/a", "lease", acquire("-1"));
    await world.must("412 LeaseIdMissing", "DELETE", "/box/a");
    await world.must("202", "DELETE", "/box/a", { headers: { "x-ms-lease-id": LEASE } });
    await world.comp("200", "/box/a", "undelete");
    const { headers } = await world.must("200", "HEAD", "/box/a");
    assert.equal(headers["x-ms-lease-state"], "available");
    await world.put("/box/a", "anew");
  });

  test("a lease that has expired or was broken does not keep a blob from being deleted", async () => {
    const world = await softWorld();
    const withId = { headers: { "x-ms-lease-id": LEASE } };
    for (const [name, end] of [
      ["expired", () => world.pass(15 * SECOND)],
      ["broken", () => world.comp("202", "/box/broken", "lease", breaks)],
    ] as const) {
      const path = `/box/${name}`;
      await world.put(path, "small");
      await world.comp("201", path, "lease", acquire("15"));
      await world.must("412 LeaseIdMissing", "DELETE", path);
      await end();
      await world.must("412 LeaseLost", "DELETE", path, withId);
      await world.must("202", "DELETE", path);
      await world.comp("200", path, "undelete");
      assert.equal(
        (await world.must("200", "HEAD", path)).headers["x-ms-lease-state"],
        "available",
      );
      await world.must("412 LeaseNotPresentWithBlobOperation", "DELETE", path, withId);
    }
  });

  test("an undelete of what is not deleted changes nothing, lease and ETag included", async () => {
    const world = await softWorld();
    const { headers } = await world.put("/box/a", "small");
    await world.comp("201", "/box/a", "lease", acquire("-1"));
    world.pass(HOUR);
    await world.comp("200", "/box/a", "undelete");
    const after = await world.must("200", "HEAD", "/box/a");
    assert.equal(after.headers.etag, headers.etag);
    assert.equal(after.headers["x-ms-lease-state"], "leased");
  });
});

suite("a deleted snapshot", () => {
  test("each has its own time; the base blob stays", async () => {
    const world = await softWorld();
    await world.put("/box/a", LARGE);
    const taken: string[] = [];
    for (let i = 0; i < 3; i++) {
      const { headers } = await world.comp("201", "/box/a", "snapshot");
      taken.push(headers["x-ms-snapshot"] ?? "");
    }
    for (const snapshot of taken) {
      await world.must("202", "DELETE", "/box/a", { query: { snapshot } });
      world.pass(DAY);
    }
    world.pass(4 * DAY);
    assert.deepEqual(await world.list("box", "deleted,snapshots"), [
      "a deleted snapshot",
      "a deleted snapshot",
      "a",
    ]);
    await world.comp("200", "/box/a", "undelete");
    assert.deepEqual(await world.list("box", "snapshots"), ["a snapshot", "a snapshot", "a"]);
    const query = { snapshot: taken[0] ?? "" };
    await world.must("404 BlobNotFound", "GET", "/box/a", { query });
    await world.checked();
    await world.must("202", "DELETE", "/box/a", {
      headers: { "x-ms-delete-snapshots": "include" },
    });
    world.pass(7 * DAY);
    assert.deepEqual(await world.list("box", "deleted,snapshots"), []);
    await world.sweep();
    assert.deepEqual(await world.left(), empty);
  });

  test("of a base that was overwritten comes back with it, as far as there is time", async () => {
    const world = await softWorld();
    await world.put("/box/a", "one");
    world.pass(DAY);
    await world.put("/box/a", "two");
    world.pass(DAY);
    await world.put("/box/a", "three");
    assert.deepEqual(await world.list("box", "deleted,snapshots"), [
      "a deleted snapshot",
      "a deleted snapshot",
      "a",
    ]);
    world.pass(6 * DAY);
    assert.equal((await world.list("box", "deleted,snapshots")).length, 2);
    await world.comp("200", "/box/a", "undelete");
    assert.deepEqual(await world.list("box", "snapshots"), ["a snapshot", "a"]);
    assert.equal((await world.must("200", "GET", "/box/a")).text, "three");
    world.pass(60 * DAY);
    await world.sweep();
    assert.deepEqual(await world.list("box", "snapshots"), ["a snapshot", "a"]);
    await world.checked();
  });
});

suite("a deleted version", () => {
  test("can be had back until its time is over, and does not become current", async () => {
    const world = await softWorld({ versioning: true });
    const first = (await world.put("/box/a", "one")).headers["x-ms-version-id"] ?? "";
    await world.put("/box/a", LARGE);
    const version = { query: { versionid: first } };
    const deleted = await world.must("202", "DELETE", "/box/a", version);
    assert.equal(deleted.headers["x-ms-delete-type-permanent"], "false");
    await world.must("404 BlobNotFound", "GET", "/box/a", version);
    world.pass(7 * DAY - 1);
    await world.sweep();
    await world.comp("200", "/box/a", "undelete");
    assert.equal((await world.must("200", "GET", "/box/a", version)).text, "one");
    assert.equal((await world.must("200", "GET", "/box/a")).text, LARGE.toString());
    await world.must("202", "DELETE", "/box/a", version);
    world.pass(7 * DAY);
    assert.deepEqual(await world.list("box", "deleted,versions"), ["a version current"]);
    await world.comp("200", "/box/a", "undelete");
    await world.must("404 BlobNotFound", "GET", "/box/a", version);
    await world.sweep();
    assert.deepEqual(await world.left(), { ...empty, "subspace 3": 1, "subspace 8": 1, files: 1 });
  });

  test("the blob's own delete makes a version, which no time takes away", async () => {
    const world = await softWorld({ versioning: true });
    const id = (await world.put("/box/a", LARGE)).headers["x-ms-version-id"] ?? "";
    await world.must("202", "DELETE", "/box/a");
    await world.must("404 BlobNotFound", "GET", "/box/a");
    world.pass(400 * DAY);
    await world.sweep();
    const { text } = await world.must("200", "GET", "/box/a", { query: { versionid: id } });
    assert.equal(text, LARGE.toString());
    await world.must("202", "DELETE", "/box/a", { query: { versionid: id } });
    world.pass(7 * DAY);
    await world.sweep();
    assert.deepEqual(await world.left(), empty);
  });
});

suite("a deleted container", () => {
  const restore = (world: World, name: string, version = "") =>
    world.send("PUT", `/${name}`, {
      query: { restype: "container", comp: "undelete" },
      headers: { "x-ms-deleted-container-name": name, "x-ms-deleted-container-version": version },
    });
  const remove = (world: World, name: string) =>
    world.must("202", "DELETE", `/${name}`, { query: { restype: "container" } });
  const status = async (answer: Promise<{ status: number }>) => (await answer).status;
  const refused = async (answer: Promise<{ status: number }>) =>
    assert.ok([404, 409].includes(await status(answer)));

  test("can be restored until its time is over, with all that is in it", async () => {
    const world = new World({ containerRetentionDays: 7 });
    await world.create("box");
    await world.put("/box/a", LARGE, { "x-ms-tags": "t=1" });
    await world.comp("201", "/box/a", "snapshot");
    await world.must("201", "PUT", "/box/u", {
      query: { comp: "block", blockid: "AAAA" },
      body: "x",
    });
    await remove(world, "box");
    await world.must("404 ContainerNotFound", "GET", "/box/a");
    assert.deepEqual(await world.find("t = '1'"), []);
    assert.deepEqual(await world.containers(), []);
    const [listed] = await world.containers("deleted");
    world.pass(7 * DAY - 1);
    await world.sweep();
    assert.deepEqual(await world.containers("deleted"), [listed]);
    assert.equal(await status(restore(world, "box", listed?.version)), 201);
    assert.deepEqual(await world.containers("deleted"), [{ name: "box", version: undefined }]);
    assert.deepEqual(await world.list("box", "snapshots"), ["a snapshot", "a"]);
    assert.equal((await world.must("200", "GET", "/box/a")).text, LARGE.toString());
    assert.deepEqual(await world.find("t = '1'"), ["a"]);
    world.pass(DAY);
    await world.sweep();
    assert.equal((await world.must("200", "GET", "/box/a")).text, LARGE.toString());
    await world.checked();

    await remove(world, "box");
    const [again] = await world.containers("deleted");
    world.pass(7 * DAY);
    assert.deepEqual(await world.containers("deleted"), []);
    await refused(restore(world, "box", again?.version));
    await world.sweep();
    assert.deepEqual(await world.left(), {});
  });

  test("several of one name are kept apart, and each is restored by its version", async () => {
    const world = new World({ containerRetentionDays: 7 });
    for (const body of ["one", "two", "three"]) {
      await world.create("box");
      await world.put("/box/a", body, { "x-ms-tags": `t=${body}` });
      await remove(world, "box");
      world.pass(DAY);
    }
    const listed = await world.containers("deleted");
    assert.deepEqual(
      listed.map(({ name }) => name),
      ["box", "box", "box"],
    );
    assert.equal(new Set(listed.map(({ version }) => version)).size, 3);
    const found = new Set<string>();
    for (const { version } of listed) {
      assert.equal(await status(restore(world, "box", version)), 201);
      const { text } = await world.must("200", "GET", "/box/a");
      found.add(text);
      assert.deepEqual(await world.find(`t = '${text}'`), ["a"]);
      assert.deepEqual(await world.find("t >= ''"), ["a"]);
      await remove(world, "box");
    }
    assert.deepEqual([...found].sort(), ["one", "three", "two"]);
    await refused(restore(world, "box", listed[0]?.version ?? ""));
    world.pass(7 * DAY);
    await world.sweep();
    assert.deepEqual(await world.left(), {});
  });

  test("is not restored over one of its name, nor twice, nor with a version that is none", async () => {
    const world = new World({ containerRetentionDays: 7 });
    await world.create("box");
    await world.put("/box/a", "old");
    await remove(world, "box");
    const [{ version = "" } = {}] = await world.containers("deleted");
    await world.create("box");
    const taken = await restore(world, "box", version);
    assert.deepEqual([taken.status, taken.code], [409, "ContainerAlreadyExists"]);
    await world.must("404 BlobNotFound", "GET", "/box/a");
    await remove(world, "box");
    for (const bad of ["", "x", "0", `${version}0`, version.slice(1)]) {
      const { status: got } = await restore(world, "box", bad);
      assert.ok([400, 404, 409].includes(got), `${bad}: ${got}`);
    }
    assert.equal(await status(restore(world, "other", version)), 404);
    assert.equal(await status(restore(world, "box", version)), 201);
    assert.equal((await restore(world, "box", version)).code, "ContainerAlreadyExists");
    assert.equal((await world.must("200", "GET", "/box/a")).text, "old");
  });

  test("time goes on in it: what was deleted before it is gone when its own time is over", async () => {
    const world = new World({ containerRetentionDays: 14 });
    await world.create("box");
    await world.keepDeleted(7);
    await world.put("/box/early", LARGE);
    await world.put("/box/late", LARGE);
    await world.must("202", "DELETE", "/box/early");
    world.pass(5 * DAY);
    await world.must("202", "DELETE", "/box/late");
    await remove(world, "box");
    world.pass(5 * DAY);
    await world.sweep();
    const [{ version = "" } = {}] = await world.containers("deleted");
    assert.equal(await status(restore(world, "box", version)), 201);
    assert.deepEqual(await world.list("box", "deleted"), ["late deleted"]);
    await world.comp("200", "/box/late", "undelete");
    assert.equal((await world.must("200", "GET", "/box/late")).text, LARGE.toString());
    await world.comp("404 BlobNotFound", "/box/early", "undelete");
    await world.checked();
  });

  test("is gone at once where none is kept", async () => {
    const world = new World();
    await world.create("box");
    await world.put("/box/a", LARGE, { "x-ms-tags": "t=1" });
    await remove(world, "box");
    assert.deepEqual(await world.containers("deleted"), []);
    await world.sweep();
    assert.deepEqual(await world.left(), {});
  });

  test("keeps the days it was deleted with, also when the server starts with others", async () => {
    const world = new World({ containerRetentionDays: 7 });
    await world.create("box");
    await remove(world, "box");
    world.settings = { ...world.settings, containerRetentionDays: 0 };
    world.pass(6 * DAY);
    await world.sweep();
    const [{ version = "" } = {}] = await world.containers("deleted");
    assert.equal(await status(restore(world, "box", version)), 201);
  });
});
