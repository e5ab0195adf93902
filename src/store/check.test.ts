import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { crc32 } from "node:zlib";
import { randomIds } from "../base/ids.ts";
import type { Engine, WriteTx } from "../engine/engine.ts";
import type { ChunkFiles } from "../engine/files.ts";
import { memoryEngine } from "../engine/memory.ts";
import { memoryFiles } from "../engine/memory-files.ts";
import { folded } from "../rules/file-names.ts";
import { available } from "../rules/lease.ts";
import { NEVER } from "../rules/messages.ts";
import { check } from "./check.ts";
import { Contents } from "./content.ts";
import * as keys from "./keys.ts";
import type { BlobRecord, Content } from "./records.ts";
import type { LayerRecord } from "./sparse-records.ts";
import { entityOf } from "./table-records.ts";

const NOW = Date.UTC(2026, 0, 1);
const CONTAINER = 1n;
const SHARE = 2n;
const TABLE = 3n;
const QUEUE = 4n;
const changed = { etag: "e", modifiedAt: NOW };

async function* one(bytes: Uint8Array) {
  yield bytes;
}

type World = {
  readonly engine: Engine;
  readonly files: ChunkFiles;
  readonly contents: Contents;
  /** The contents of what was put, by the blob's name. */
  readonly made: Map<string, Content>;
};

/** A store with some of everything, all of it right. */
async function whole(): Promise<World> {
  const engine = memoryEngine({ clock: { now: () => NOW } });
  const files = memoryFiles(randomIds);
  const contents = new Contents(engine, files);
  const world = { engine, files, contents, made: new Map<string, Content>() };
  await engine.write(async (tx) => {
    keys.containers.put(tx, ["a", "c"], {
      ...changed,
      ...{ id: CONTAINER.toString(16), metadata: {}, lease: available, policies: [] },
    });
    keys.containerIds.put(tx, ["a", "c"], CONTAINER);
  });
  await putBlob(world, "small", 1_000);
  await putBlob(world, "large", 100_000);
  await putBlob(world, "long", 10 * 1_000, 10);
  await putBlob(world, "tagged", 10, 1, { tags: { colour: "blue" } });
  await engine.write(async (tx) => {
    keys.tagIndex.put(tx, ["a", "colour", "blue", CONTAINER, "tagged"], { container: "c" });
  });
  await putBlob(world, "deleted", 10, 1, { deleted: { at: NOW, until: NOW + 1000 } });
  const what = { what: "blob", account: "a", container: "1", name: "deleted" } as const;
  await engine.write(async (tx) => keys.purges.put(tx, [BigInt(NOW + 1000), 77n], what));
  await engine.write(async (tx) => {
    for (const name of ["small", "large", "long"]) {
      const content = await contents.copied(tx, world.made.get(name) as Content);
      keys.snapshots.put(tx, [CONTAINER, name, 9n], await recordOf(tx, name, content));
    }
  });
  const block = await contents.stage(one(Buffer.alloc(20, 5)), 20);
  await engine.write(async (tx) => {
    keys.blocks.put(tx, [CONTAINER, "waiting", "b1"], {
      size: 20,
      chunks: contents.keep(tx, block),
    });
    keys.uncommitted.put(tx, [CONTAINER, "waiting"], { idSize: 2, count: 1, changedAt: NOW });
  });
  await putSparse(world);
  await putShare(world);
  await engine.write(async (tx) => {
    keys.tables.put(tx, ["a", "tab"], { id: "3", name: "Tab", policies: [] });
    keys.tableIds.put(tx, ["a", "tab"], TABLE);
    const keysJson = '"PartitionKey":"p","RowKey":"r"';
    const entity = entityOf({ keysJson, tick: 638_000_000_000_000_000n, propertiesJson: "" });
    keys.entities.put(tx, [TABLE, "p", "r"], entity);
    keys.queues.put(tx, ["a", "q"], { metadata: {}, policies: [] });
    keys.queueStates.put(tx, ["a", "q"], { generation: QUEUE, count: 1 });
    keys.queueNames.put(tx, [QUEUE], { account: "a", name: "q" });
    const heap = tx.tick();
    const bytes = Buffer.alloc(30_000, 7);
    tx.putHeap(heap, bytes);
    const message = { id: randomIds.guid(), number: 5n, expiresAt: NEVER, dequeueCount: 0 };
    const text = { heap, sum: crc32(bytes) };
    keys.messages.put(tx, [QUEUE, NOW, 5n], { ...message, text });
  });
  return world;
}

const blobOf = (content: Content, size: number, more: Partial<BlobRecord> = {}): BlobRecord => ({
  ...changed,
  ...{ type: "BlockBlob", createdAt: NOW, size, content, headers: {}, metadata: {} },
  lease: available,
  ...more,
});

async function recordOf(tx: WriteTx, name: string, content: Content): Promise<BlobRecord> {
  const found = (await keys.blobs.get(tx, CONTAINER, name)) as BlobRecord;
  return { ...found, content };
}

/** A blob of that many bytes, in as many pieces. */
async function putBlob(
  { engine, contents, made }: World,
  name: string,
  size: number,
  count = 1,
  more: Partial<BlobRecord> = {},
): Promise<void> {
  const part = size / count;
  const staged = await Promise.all(
    Array.from({ length: count }, (_, i) => contents.stage(one(Buffer.alloc(part, i + 1)), part)),
  );
  await engine.write(async (tx) => {
    const chunks = staged.flatMap((each) => contents.keep(tx, each));
    const content = contents.made(
      tx,
      chunks.map((chunk) => ({ chunk })),
    );
    made.set(name, content);
    keys.blobs.put(tx, [CONTAINER, name], blobOf(content, size, more));
  });
}

/** A page blob, and a snapshot of it after which it was written again. */
async function putSparse({ engine, contents, made }: World): Promise<void> {
  const [before, after] = await Promise.all(
    [1, 2].map((byte) => contents.stage(one(Buffer.alloc(512, byte)), 512)),
  );
  await engine.write(async (tx) => {
    const content = contents.sparse.create(tx);
    made.set("pages", content);
    if (before !== undefined) await contents.sparse.write(tx, content, 0, before);
    const snapshot = await contents.sparse.fork(tx, content);
    if (after !== undefined) await contents.sparse.write(tx, content, 512, after);
    keys.blobs.put(tx, [CONTAINER, "pages"], blobOf(content, 2048, { type: "PageBlob" }));
    keys.snapshots.put(tx, [CONTAINER, "pages", 9n], blobOf(snapshot, 2048, { type: "PageBlob" }));
  });
}

async function putShare({ engine, contents }: World): Promise<void> {
  await engine.write(async (tx) => {
    keys.shares.put(tx, ["a", "s"], {
      ...changed,
      ...{ id: "2", metadata: {}, lease: available, quota: 1, tier: "Hot", policies: [] },
      snapshotCount: 0,
    });
    keys.usage.put(tx, [SHARE], 100);
    keys.permissions.put(tx, [SHARE, "k"], "O:BA");
    const node = {
      ...changed,
      ...{ since: "1", parent: "0", attributes: 0, createdAt: "1", writtenAt: "1", changedAt: "1" },
      ...{ permission: "k", metadata: {}, lease: available },
    };
    keys.nodes.put(tx, [SHARE, 0n], { ...node, id: "0", name: "", kind: "directory" });
    const content = contents.sparse.create(tx);
    const file = { ...node, id: "5", name: "F", kind: "file", size: 100, content } as const;
    keys.nodes.put(tx, [SHARE, 5n], { ...file, headers: {}, generation: "1" });
    keys.entries.put(tx, [SHARE, 0n, folded("F")], {
      since: "1",
      name: "F",
      id: "5",
      kind: "file",
    });
  });
}

async function problemsOf({ engine, files }: World): Promise<readonly string[]> {
  const lines: string[] = [];
  const count = await check(engine, files, { say: (line) => lines.push(line) });
  assert.match(lines.at(-1) ?? "", new RegExp(`^\\d+ records with \\d+ bytes read, ${count} prob`));
  assert.equal(lines.length, count + 1);
  return lines.slice(0, -1);
}

const heapOf = (world: World, name: string): bigint => {
  const content = world.made.get(name) as Extract<Content, { readonly pieces: unknown }>;
  return BigInt(`0x${content.pieces[0]?.chunk.id}`);
};
const fileOf = async (tx: WriteTx): Promise<string> => {
  const [row] = await keys.chunkFiles.walk(tx, [], { limit: 1 });
  return row?.key[0] ?? "";
};
const listOf = ({ made }: World): bigint =>
  BigInt(`0x${(made.get("long") as { list: string }).list}`);
const layersOf = async (tx: WriteTx): Promise<{ id: bigint; layer: LayerRecord }[]> => {
  const rows = await keys.layers.walk(tx, [], { limit: 99 });
  return rows.flatMap(({ key, value }) => (value === null ? [] : [{ id: key[0], layer: value }]));
};
const upperLayer = async (tx: WriteTx) => {
  const found = (await layersOf(tx)).find(({ layer }) => layer.parent !== undefined);
  assert.ok(found !== undefined);
  return found;
};

type Damage = (tx: WriteTx, world: World) => Promise<void> | void;

// One row for each kind of damage: all that check says of it.
const damages: [what: string, damage: Damage, ...said: RegExp[]][] = [
  [
    "a heap value that changed",
    (tx, world) => {
      tx.deleteHeap(heapOf(world, "small"));
      tx.putHeap(heapOf(world, "small"), Buffer.alloc(1_000, 99));
    },
    /^blob small: its heap value \w+ is damaged$/,
  ],
  [
    "a heap value that is gone",
    (tx, world) => tx.deleteHeap(heapOf(world, "tagged")),
    /^blob tagged: its heap value \w+ is missing$/,
  ],
  [
    "a heap value that nobody names",
    (tx) => tx.putHeap(tx.tick(), Buffer.alloc(9)),
    /^heap value \w+: no record names it$/,
  ],
  [
    "a count of references that is too high",
    (tx, world) => keys.references.put(tx, ["heap", heapOf(world, "small").toString(16)], 3),
    /^heap value \w+: 2 records name it, 3 are counted$/,
  ],
  [
    "a count of references that is gone",
    (tx, world) => keys.references.delete(tx, "list", listOf(world).toString(16)),
    /^list \w+: 2 records name it, 1 are counted$/,
  ],
  [
    "references of nothing",
    (tx) => keys.references.put(tx, ["heap", "99"], 2),
    /^references of heap 99: there is no such thing$/,
  ],
  [
    "a page of a list that is gone",
    (tx, world) => keys.pieces.put(tx, [listOf(world), 999_999n], []),
    /^blob long: its list \w+ has a gap before 999999$/,
    /^snapshot of long: its list \w+ has a gap before 999999$/,
  ],
  [
    "a list that nobody names",
    (tx) => keys.pieces.put(tx, [55n, 0n], []),
    /^list 37: no record names it$/,
  ],
  [
    "a chunk file that is counted too often",
    async (tx) => {
      const name = await fileOf(tx);
      const file = await keys.chunkFiles.get(tx, name);
      assert.ok(file !== undefined);
      keys.chunkFiles.put(tx, [name], { ...file, references: 3 });
    },
    /^chunk file \S+: 2 records name it, 3 are counted$/,
  ],
  [
    "a chunk file that is not counted",
    async (tx) => keys.chunkFiles.delete(tx, await fileOf(tx)),
    /^chunk file \S+ of blob large: named, but not counted$/,
  ],
  [
    "a chunk file that is counted, and that nobody names",
    (tx) => keys.chunkFiles.put(tx, ["ff"], { size: 0, references: 1, sums: "" }),
    /^chunk file ff: no record names it, 1 are counted$/,
    /^chunk file ff: it is missing$/,
  ],
  [
    "a chunk file that is gone",
    async (tx, world) => world.files.free(await fileOf(tx)),
    /^chunk file \S+ of blob large: it is missing$/,
  ],
  [
    "a chunk file whose sums differ",
    async (tx) => {
      const name = await fileOf(tx);
      const file = await keys.chunkFiles.get(tx, name);
      assert.ok(file !== undefined);
      keys.chunkFiles.put(tx, [name], { ...file, sums: "AAAAAA==" });
    },
    /^chunk file \S+ of blob large: it is damaged near byte 0$/,
  ],
  [
    "an orphan file",
    async (_tx, { files }) => {
      const writer = await files.create(10);
      await writer.write(Buffer.alloc(10));
      await writer.finish();
    },
    /^chunk file \S+: no record names it \(an orphan/,
  ],
  [
    "a blob of another size than its bytes",
    async (tx, { made }) => {
      const content = made.get("tagged") as Content;
      keys.blobs.put(tx, [CONTAINER, "tagged"], blobOf(content, 11, { tags: { colour: "blue" } }));
    },
    /^blob tagged: 10 bytes are there, 11 should be$/,
  ],
  [
    "a blob in no container",
    (tx) => keys.blobs.put(tx, [66n, "lost"], blobOf({ pieces: [] }, 0)),
    /^blob lost: its container 42 is not there$/,
  ],
  [
    "a container whose number is another's",
    (tx) => keys.containerIds.put(tx, ["a", "c"], 8n),
    /^container a\/c: its two records differ$/,
  ],
  [
    "a container's number without its record",
    (tx) => keys.containerIds.put(tx, ["a", "lost"], 8n),
    /^container a\/lost: its number is there, its record is not$/,
  ],
  [
    "a tag that the index does not have",
    (tx) => keys.tagIndex.delete(tx, "a", "colour", "blue", CONTAINER, "tagged"),
    /^blob tagged: a search for its tag colour does not find it$/,
  ],
  [
    "a tag that only the index has",
    (tx) => keys.tagIndex.put(tx, ["a", "colour", "red", CONTAINER, "tagged"], { container: "c" }),
    /^tag colour=red of tagged: there is no such blob$/,
  ],
  [
    "a snapshot that has another sum of bytes that it shares",
    async (tx) => {
      const snapshot = (await keys.snapshots.get(tx, CONTAINER, "small", 9n)) as BlobRecord;
      const { pieces } = snapshot.content as Extract<Content, { pieces: unknown }>;
      const flipped = pieces.map(({ chunk }) => ({ chunk: { ...chunk, sum: 1 } }));
      const record = { ...snapshot, content: { pieces: flipped } };
      keys.snapshots.put(tx, [CONTAINER, "small", 9n], record);
    },
    /^snapshot of small: its heap value \w+ has another sum$/,
  ],
  [
    "a tag in the index of another account",
    (tx) => keys.tagIndex.put(tx, ["b", "colour", "blue", CONTAINER, "tagged"], { container: "c" }),
    /^tag colour=blue of tagged: there is no such blob$/,
  ],
  [
    "a deleted blob that is to be removed at another time only",
    (tx) => {
      const what = { what: "blob", account: "a", container: "1", name: "deleted" } as const;
      keys.purges.delete(tx, BigInt(NOW + 1000), 77n);
      keys.purges.put(tx, [BigInt(NOW + 999), 77n], what);
    },
    /^blob deleted: nothing removes it when its time is over$/,
  ],
  [
    "a deleted blob that nothing removes",
    (tx) => keys.purges.delete(tx, BigInt(NOW + 1000), 77n),
    /^blob deleted: nothing removes it when its time is over$/,
  ],
  [
    "a deleted container that nothing removes",
    (tx) =>
      keys.deletedContainers.put(tx, ["a", "d", 3n], {
        ...changed,
        ...{ id: "9", metadata: {}, lease: available, policies: [] },
        deleted: { at: NOW, until: NOW + 5 },
      }),
    /^deleted container a\/d: nothing removes it in the end$/,
  ],
  [
    "a blob that waits for nobody's copy",
    (tx) => {
      const copy = { id: "i", source: "", status: "pending", done: 0, total: 1 } as const;
      keys.blobs.put(tx, [CONTAINER, "copied"], blobOf({ pieces: [] }, 0, { copy }));
    },
    /^blob copied: it waits for a copy that nobody makes$/,
  ],
  [
    "blocks without their mark",
    (tx) => keys.uncommitted.delete(tx, CONTAINER, "waiting"),
    /^blocks of waiting: the mark that there are some is missing$/,
  ],
  [
    "blocks that are counted wrongly",
    (tx) =>
      keys.uncommitted.put(tx, [CONTAINER, "waiting"], { idSize: 2, count: 2, changedAt: NOW }),
    /^blocks of waiting: 1 are there, 2 are counted$/,
  ],
  [
    "a mark without blocks",
    (tx) => keys.uncommitted.put(tx, [CONTAINER, "none"], { idSize: 2, count: 2, changedAt: NOW }),
    /^blocks of none: they are marked, and there are none$/,
  ],
  [
    "a content that nobody names",
    (tx, { contents }) => void contents.sparse.create(tx),
    /^content \w+: no record names it$/,
  ],
  [
    "a content that two records name",
    (tx, { made }) =>
      keys.blobs.put(tx, [CONTAINER, "twin"], blobOf(made.get("pages") as Content, 2048)),
    /^content \w+: 2 records name it, and only one may$/,
  ],
  [
    "a content that is gone",
    (tx) => keys.blobs.put(tx, [CONTAINER, "gone"], blobOf({ sparse: "99" }, 2048)),
    /^blob gone: its content 99 is missing$/,
  ],
  [
    "a layer that nothing stands on",
    (tx) => keys.layers.put(tx, [88n, 0n], { rows: "58", contents: 0, children: 0 }),
    /^layer 58: nothing stands on it, and nothing removes it$/,
  ],
  [
    "a layer that nothing completes",
    async (tx) => {
      const { id, layer } = await upperLayer(tx);
      keys.layers.put(tx, [id, 0n], { ...layer, whole: { rows: "aa", done: 0 } });
    },
    /^layer \w+: nothing completes it$/,
  ],
  [
    "a layer that its parent does not know",
    async (tx) => {
      const { id, layer } = await upperLayer(tx);
      const parent = BigInt(`0x${layer.parent}`);
      keys.layers.delete(tx, parent, id);
      const below = (await keys.layers.get(tx, parent, 0n)) as LayerRecord;
      keys.layers.put(tx, [parent, 0n], { ...below, children: 0 });
    },
    /^layer \w+: its parent \w+ does not know it$/,
  ],
  [
    "a part of no layer",
    (tx) => keys.sparseParts.put(tx, [77n, 0n], { count: 5, start: 0 }),
    /^rows 4d: they belong to no layer$/,
  ],
  [
    "a worn region of no layer",
    (tx) => keys.worn.put(tx, [77n, 0n], { at: NOW }),
    /^worn region 0 of rows 4d: they belong to no layer$/,
  ],
  [
    "parts that overlap",
    async (tx) => {
      const { layer } = await upperLayer(tx);
      keys.sparseParts.put(tx, [BigInt(`0x${layer.rows}`), 600n], { count: 5, start: 0 });
    },
    /^part at 600 of rows \w+: the one before it goes on to 1024$/,
  ],
  [
    "a message whose text is gone",
    async (tx) => {
      const [row] = await keys.messages.walk(tx, [], { limit: 1 });
      const text = row?.value.text;
      if (text !== undefined && "heap" in text) tx.deleteHeap(text.heap);
    },
    /^message \S+: its text is missing$/,
  ],
  [
    "a message whose text has changed",
    async (tx) => {
      const [row] = await keys.messages.walk(tx, [], { limit: 1 });
      const text = row?.value.text;
      if (text !== undefined && "heap" in text) tx.putHeap(text.heap, Buffer.alloc(30_000, 8));
    },
    /^message \S+: its text is damaged$/,
  ],
  [
    "an entity of no table",
    async (tx) => {
      const [row] = await keys.entities.walk(tx, [], { limit: 1 });
      if (row !== undefined) keys.entities.put(tx, [9n, "p", "r"], row.value);
    },
    /^entity p, r: its table is not there$/,
  ],
  [
    "a file without its entry",
    (tx) => keys.entries.delete(tx, SHARE, 0n, folded("F")),
    /^file or directory F \(5\): no entry names it$/,
  ],
  [
    "a share whose sizes are counted wrongly",
    (tx) => keys.usage.put(tx, [SHARE], 99),
    /^share a\/s: its files have 100 bytes, 99 are counted$/,
  ],
  [
    "an old state that no snapshot shows",
    (tx) =>
      keys.oldEntries.put(tx, [SHARE, 0n, "g", 9n], {
        ...{ since: "1", name: "G", id: "6", kind: "file" },
      }),
    /^entry g as it was until 9: no snapshot shows it, and nothing removes it$/,
  ],
  [
    "rows of no share",
    (tx) => {
      keys.permissions.put(tx, [44n, "k"], "O:BA");
      keys.usage.put(tx, [44n], 0);
    },
    /^share 44: there are rows of it, and it is not there$/,
  ],
  [
    "a record that cannot be read",
    (tx) => tx.put(keys.services.packed(["a", "blob"]), Buffer.from("\x01{nonsense")),
    /^service a\/blob: its record cannot be read: /,
  ],
  [
    "a record of a newer version that others refer to",
    (tx) => tx.put(keys.queues.packed(["a", "q"]), Buffer.from("\x02{}")),
    /^queue a\/q: its record cannot be read: a record has the unknown version 2$/,
  ],
  [
    "a key of no kind",
    (tx) => tx.put(Buffer.of(200, 1), Buffer.of(1)),
    /^keys that begin with 200: this version knows no such kind$/,
  ],
];

suite("check", () => {
  test("finds nothing wrong with what is right", async () => {
    assert.deepEqual(await problemsOf(await whole()), []);
  });

  for (const [what, damage, ...said] of damages) {
    test(`tells of ${what}, and of nothing else`, async () => {
      const world = await whole();
      await world.engine.write(async (tx) => damage(tx, world));
      const lines = await problemsOf(world);
      assert.equal(lines.length, said.length, lines.join("\n"));
      for (const [index, line] of lines.entries()) assert.match(line, said[index] as RegExp);
    });
  }

  test("reads no more for each blob when many are to be removed at one time", async () => {
    const rowsRead = async (count: number) => {
      const world = await whole();
      const until = NOW + 5000;
      await world.engine.write(async (tx) => {
        for (let i = 0; i < count; i++) {
          const name = `b${i}`;
          const what = { what: "blob", account: "a", container: "1", name } as const;
          keys.blobs.put(tx, [CONTAINER, name], blobOf({ pieces: [] }, 0, { expiresAt: until }));
          keys.purges.put(tx, [BigInt(until), BigInt(i)], what);
        }
      });
      let rows = 0;
      const read: Engine["read"] = (body) =>
        world.engine.read((tx) =>
          body({
            now: tx.now,
            get: (key) => tx.get(key),
            getHeap: (id) => tx.getHeap(id),
            heapIds: (after, limit) => tx.heapIds(after, limit),
            async range(query) {
              const found = await tx.range(query);
              rows += found.length;
              return found;
            },
          }),
        );
      assert.equal(await check({ ...world.engine, read }, world.files, { say: () => {} }), 0);
      return rows;
    };
    assert.equal((await rowsRead(300)) - (await rowsRead(200)), 200);
  });

  test("beside a server does not take what is being made for an orphan", async () => {
    const { engine, files } = await whole();
    await (await files.create(10)).finish();
    const lines: string[] = [];
    const options = { say: (line: string) => lines.push(line), isServed: true };
    assert.equal(await check(engine, files, options), 0, lines.join("\n"));
  });
});
