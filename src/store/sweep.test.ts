import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { randomIds } from "../base/ids.ts";
import { type Log, silentLog } from "../base/log.ts";
import { CorruptFile } from "../engine/files.ts";
import { memoryEngine } from "../engine/memory.ts";
import { memoryFiles } from "../engine/memory-files.ts";
import { available } from "../rules/lease.ts";
import { Contents } from "./content.ts";
import { blobs, chunkFiles, garbage, purges } from "./keys.ts";
import type { Content } from "./records.ts";
import { purge, sweepGarbage } from "./sweep.ts";
import { startSweeper } from "./sweeper.ts";

const NOW = Date.UTC(2026, 0, 1);
const COUNT = 200;
const clock = { now: () => NOW };

async function* one(bytes: Uint8Array) {
  yield bytes;
}

/** Many blobs that have expired, of which one is damaged; and a container of the same kind that was deleted. */
async function damaged() {
  const engine = memoryEngine({ clock });
  const files = memoryFiles(randomIds);
  const contents = new Contents(engine, files);
  const store = { engine, files, contents, log: silentLog };
  const put = async (container: bigint, name: string) => {
    const staged = await contents.stage(one(Buffer.alloc(70_000, 1)), 70_000);
    return engine.write(async (tx) => {
      const content: Content = {
        pieces: contents.keep(tx, staged).map((chunk) => ({ chunk })),
      };
      const times = { etag: "e", modifiedAt: NOW, createdAt: NOW, expiresAt: NOW - 1 };
      const shape = { type: "BlockBlob", size: 70_000, headers: {}, metadata: {} } as const;
      blobs.put(tx, [container, name], { ...times, ...shape, content, lease: available });
      const what = { what: "blob", account: "a", name, container: container.toString(16) } as const;
      purges.put(tx, [BigInt(NOW - 1), tx.tick()], what);
      return content.pieces[0]?.chunk.id ?? "";
    });
  };
  const first = await put(1n, "0");
  for (let i = 1; i < COUNT; i++) await put(1n, `${i}`);
  await engine.write(async (tx) => chunkFiles.delete(tx, first));
  const left = () =>
    engine.read(async (tx) => (await blobs.walk(tx, [], { limit: 1000 })).map(({ key }) => key[1]));
  return { store, left, put };
}

suite("sweep", () => {
  test("what is damaged stays and is told; what comes after it goes all the same", async () => {
    const { store, left } = await damaged();
    await assert.rejects(purge(store, NOW), CorruptFile);
    assert.deepEqual(await left(), ["0"]);
  });

  test("a damaged container does not keep others from being taken apart", async () => {
    const { store, left, put } = await damaged();
    await put(2n, "other");
    await store.engine.write(async (tx) => {
      garbage.put(tx, [tx.tick()], { container: "1", account: "a" });
      garbage.put(tx, [tx.tick()], { container: "2", account: "a" });
    });
    await assert.rejects(sweepGarbage(store), CorruptFile);
    assert.ok(!(await left()).includes("other"));
  });

  test("a sweep that fails does not keep the others from their work, and is logged", async () => {
    const { store, left, put } = await damaged();
    await put(2n, "other");
    await store.engine.write(async (tx) => {
      garbage.put(tx, [tx.tick()], { container: "2", account: "a" });
    });
    const failed = Promise.withResolvers<unknown>();
    const log: Log = { ...silentLog, error: (_, fields) => failed.resolve(fields?.error) };
    const sweeper = startSweeper({ ...store, log }, clock);
    assert.match(String(await failed.promise), /^Error: chunk /);
    while ((await left()).length > 1);
    await sweeper.stop();
    assert.deepEqual(await left(), ["0"]);
  });

  test("a stop does not wait until all that is due has been removed", async () => {
    const { store } = await damaged();
    let steps = 0;
    assert.equal(await purge(store, NOW, () => steps++ === 3), 3);
  });
});
