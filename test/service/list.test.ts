import assert from "node:assert/strict";
import { test } from "node:test";
import { DAY, HOUR, World } from "./world.ts";

// List Blobs, where only time shows it: what is hidden hides nothing else.

const block = { query: { comp: "block", blockid: "AAAA" }, body: "x" };

test("a blob that is over does not hide the uncommitted one of its name", async () => {
  const world = new World();
  await world.create("box");
  await world.keepDeleted(7);
  for (const name of ["deleted", "expired"]) await world.put(`/box/${name}`, "x");
  const expiry = { "x-ms-expiry-option": "RelativeToNow", "x-ms-expiry-time": String(HOUR) };
  await world.comp("200", "/box/expired", "expiry", expiry);
  await world.must("202", "DELETE", "/box/deleted");
  world.pass(7 * DAY);
  for (const name of ["deleted", "expired"]) await world.must("201", "PUT", `/box/${name}`, block);
  assert.deepEqual(await world.list("box", "deleted"), []);
  const include = "uncommittedblobs,deleted";
  assert.deepEqual(await world.list("box", include), ["deleted", "expired"]);
  await world.sweep();
  assert.deepEqual(await world.list("box", include), ["deleted", "expired"]);
});

test("a blob that is deleted does not hide the uncommitted one of its name", async () => {
  const world = new World();
  await world.create("box");
  await world.keepDeleted(7);
  await world.put("/box/a", "x");
  await world.must("202", "DELETE", "/box/a");
  await world.must("201", "PUT", "/box/a", block);
  assert.deepEqual(await world.list("box", "uncommittedblobs"), ["a"]);
});

test("many that are hidden cost a page its length, and no item is lost", async () => {
  const world = new World();
  await world.create("box");
  await world.keepDeleted(1);
  const names = Array.from({ length: 60 }, (_, i) => `b${String(i).padStart(2, "0")}`);
  for (const name of names) await world.put(`/box/${name}`, "x");
  for (const name of names) {
    if (name !== "b30" && name !== "b59") await world.must("202", "DELETE", `/box/${name}`);
  }
  for (const wait of [0, DAY]) {
    world.pass(wait);
    for (const maxresults of ["1", "2", "50"]) {
      const found: string[] = [];
      let marker = "";
      do {
        const query = { restype: "container", comp: "list", maxresults, ...(marker && { marker }) };
        const { text } = await world.must("200", "GET", "/box", { query });
        found.push(...[...text.matchAll(/<Name>([^<]+)</g)].map((match) => match[1] ?? ""));
        marker = /<NextMarker>([^<]+)</.exec(text)?.[1] ?? "";
      } while (marker !== "");
      assert.deepEqual(found, ["b30", "b59"]);
    }
  }
});
