import assert from "node:assert/strict";
import { test } from "node:test";
import { randomIds } from "../base/ids.ts";
import { memoryEngine } from "../engine/memory.ts";
import { memoryFiles } from "../engine/memory-files.ts";
import type { ChangeRecord } from "../store/change-records.ts";
import { Contents } from "../store/content.ts";
import { blobs, changes, containerIds } from "../store/keys.ts";
import { EVENTS, FEED_CONTAINER, packChanges } from "./change-feed.ts";
import { blobService } from "./operations.ts";

const MINUTE = 60_000;

function world() {
  let time = Date.UTC(2026, 0, 31, 22, 10);
  const engine = memoryEngine({ clock: { now: () => time } });
  const around = { contents: new Contents(engine, memoryFiles(randomIds)), ids: randomIds };
  const event: ChangeRecord = {
    type: "BlobCreated",
    api: "PutBlob",
    id: "id",
    container: "c",
    blob: "b",
    requestId: "r",
    etag: "0x1",
    contentType: "",
    contentLength: 1,
    blobType: "BlockBlob",
  };
  return {
    pass: (minutes: number) => {
      time += minutes * MINUTE;
    },
    happen: (count: number) =>
      engine.write(async (tx) => {
        for (let i = 0; i < count; i++) changes.put(tx, ["acc", tx.tick()], event);
      }),
    pack: () => packChanges({ engine, around }, "acc"),
    /** Names of the blobs in the feed, and what those that are JSON say. */
    feed: () =>
      engine.read(async (tx) => {
        const id = await containerIds.get(tx, "acc", FEED_CONTAINER);
        const found = new Map<string, Record<string, unknown>>();
        for (const { key, value } of await blobs.walk(tx, [id ?? 0n], { limit: 1000 })) {
          const range = { start: 0, count: value.size };
          const { bytes = [] } = await around.contents.open(tx, value.content, range);
          const text = Buffer.concat(bytes).toString("latin1");
          found.set(key[1], key[1].endsWith(".json") ? JSON.parse(text) : { text });
        }
        return found;
      }),
    waiting: () =>
      engine.read(async (tx) => (await changes.walk(tx, ["acc"], { limit: 9999 })).length),
  };
}

const segment = (hour: string) => `idx/segments/2026/${hour}/meta.json`;

test("packChanges(): makes the container at once, events or not", async () => {
  const { pack, feed } = world();
  assert.equal(await pack(), 0);
  assert.deepEqual([...(await feed()).keys()], ["idx/segments/1601/01/01/0000/meta.json"]);
});

test("packChanges(): each hour a segment, each time a chunk; an hour that is over is final", async () => {
  const { pass, happen, pack, feed, waiting } = world();
  await happen(3);
  assert.equal(await pack(), 3);
  assert.equal(await waiting(), 0);
  let found = await feed();
  assert.equal(found.get(segment("01/31/2200"))?.status, "Publishing");
  assert.deepEqual(found.get(segment("01/31/2200"))?.chunkFilePaths, [
    "$blobchangefeed/log/00/2026/01/31/2200/",
  ]);
  assert.equal(found.get("meta/segments.json")?.lastConsumable, "2026-01-31T22:10:00.000Z");
  pass(10);
  await happen(1);
  await pack();
  await happen(2); // at 22:20
  pass(100);
  await happen(1); // at 00:00
  assert.equal(await pack(), 3);
  found = await feed();
  assert.deepEqual(
    [...found.keys()].filter((name) => name.startsWith("log/")),
    [
      "log/00/2026/01/31/2200/00000.avro",
      "log/00/2026/01/31/2200/00001.avro",
      "log/00/2026/01/31/2200/00002.avro",
      "log/00/2026/02/01/0000/00000.avro",
    ],
  );
  assert.equal(found.get(segment("01/31/2200"))?.status, "Finalized");
  assert.equal(found.get(segment("02/01/0000"))?.status, "Publishing");
  assert.equal(found.get("meta/segments.json")?.lastConsumable, "2026-02-01T00:00:00.001Z");
  pass(61);
  assert.equal(await pack(), 0);
  assert.equal((await feed()).get(segment("02/01/0000"))?.status, "Finalized");
  const before = await feed();
  pass(600);
  assert.equal(await pack(), 0);
  assert.deepEqual(await feed(), before, "nothing is written where nothing happens");
});

test("packChanges(): many events go in several transactions, and all of them", async () => {
  const { happen, pack, feed, waiting } = world();
  await happen(1200);
  assert.equal(await pack(), 1200);
  assert.equal(await waiting(), 0);
  const logs = [...(await feed())].filter(([name]) => name.startsWith("log/"));
  assert.equal(logs.length, 3);
  const count = logs.reduce(
    (sum, [, file]) => sum + String(file.text).split("/blobServices/default/").length - 1,
    0,
  );
  assert.equal(count, 1200);
});

test("EVENTS: every name is one of an operation that writes", () => {
  const writes = blobService.operations.filter(({ kind }) => kind === "write");
  const names = new Set(writes.map(({ name }) => name));
  for (const name of Object.keys(EVENTS)) assert.ok(names.has(name), name);
});
