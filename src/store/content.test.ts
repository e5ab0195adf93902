import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { randomIds } from "../base/ids.ts";
import { silentLog } from "../base/log.ts";
import type { WriteTx } from "../engine/engine.ts";
import { CorruptFile } from "../engine/files.ts";
import { memoryEngine } from "../engine/memory.ts";
import { memoryFiles } from "../engine/memory-files.ts";
import { available } from "../rules/lease.ts";
import { Contents, HEAP_CHUNK_MAX, type Opened } from "./content.ts";
import {
  blobs,
  blocks,
  chunkFiles,
  garbage,
  pieces,
  references,
  snapshots,
  uncommitted,
} from "./keys.ts";
import type { BlobRecord, Chunk, Content, Piece } from "./records.ts";
import { expireBlocks, sweepFiles, sweepGarbage } from "./sweep.ts";

const DAY_MS = 24 * 3_600_000;
const SMALL = 1_000;
const LARGE = HEAP_CHUNK_MAX + 1;

/** Bytes that tell where they stand, and which of many they are. */
function filled(size: number, seed = 0): Buffer {
  const bytes = Buffer.alloc(size);
  for (let i = 0; i < size; i++) bytes[i] = (i * 31 + (i >>> 8) * 7 + seed * 101) & 0xff;
  return bytes;
}

async function* inPieces(bytes: Uint8Array, size = 30_011): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** A store in memory, every body of which runs twice: none may have another effect than its writes. */
function openStore() {
  const clock = { at: Date.UTC(2026, 0, 1), now: () => clock.at };
  const engine = memoryEngine({ clock, conflicts: () => true });
  const files = memoryFiles(randomIds);
  const contents = new Contents(engine, files);
  const options = { engine, files, contents, log: silentLog };
  const heapIds = new Set<string>();

  const kept = (tx: WriteTx, staged: Awaited<ReturnType<Contents["stage"]>>): Chunk[] => {
    const chunks = contents.keep(tx, staged);
    for (const { at, id } of chunks) if (at === "heap") heapIds.add(id);
    return chunks;
  };
  return {
    clock,
    engine,
    files,
    contents,
    options,
    stage: (bytes: Uint8Array) => contents.stage(inPieces(bytes), bytes.length),
    kept,
    /** Content of these pieces, each staged for itself. */
    async make(...all: Buffer[]): Promise<Content> {
      const staged = await Promise.all(all.map((bytes) => this.stage(bytes)));
      return engine.write(async (tx) => {
        const list = staged.flatMap((part) => kept(tx, part)).map((chunk): Piece => ({ chunk }));
        return contents.made(tx, list);
      });
    },
    open: (content: Content, start: number, count: number) =>
      engine.read((tx) => contents.open(tx, content, { start, count })),
    async read(content: Content, start: number, count: number): Promise<Buffer> {
      return gathered(await this.open(content, start, count));
    },
    share: (content: Content) => engine.write((tx) => contents.copied(tx, content)),
    release: (content: Content) => engine.write((tx) => contents.release(tx, content)),
    /** All that is kept: keys, values of the heap, files. */
    async left(): Promise<{ keys: number; heap: number; files: number }> {
      return engine.read(async (tx) => {
        const everything = {
          from: Buffer.of(0),
          to: Buffer.of(255),
          limit: Number.MAX_SAFE_INTEGER,
        };
        const keys = (await tx.range(everything)).length;
        let heap = 0;
        for (const id of heapIds) if ((await tx.getHeap(BigInt(`0x${id}`))) !== undefined) heap++;
        let count = 0;
        for await (const _name of files.list()) count++;
        return { keys, heap, files: count };
      });
    },
  };
}

async function gathered({ bytes, stream, close }: Opened): Promise<Buffer> {
  const parts = [...(bytes ?? [])];
  for await (const part of stream()) parts.push(part);
  close();
  return Buffer.concat(parts);
}

const idsOf = (content: Content): string[] =>
  "pieces" in content ? content.pieces.map(({ chunk }) => chunk.id) : [];

const NOTHING = { keys: 0, heap: 0, files: 0 };

const blobOf = (content: Content, size: number): BlobRecord => ({
  type: "BlockBlob",
  etag: "0x1",
  modifiedAt: 0,
  createdAt: 0,
  size,
  content,
  headers: {},
  metadata: {},
  lease: available,
});

suite("Contents", () => {
  test("small bytes are written over in their place, unless somebody else names them", async () => {
    const store = openStore();
    const replaced = async (before: Content, bytes: Buffer) => {
      const staged = await store.stage(bytes);
      return store.engine.write(async (tx) => {
        const made = store.kept(tx, staged).map((chunk): Piece => ({ chunk, block: "AA==" }));
        return store.contents.replaced(tx, before, store.contents.made(tx, made));
      });
    };
    const first = await store.make(filled(SMALL, 1));
    const second = await replaced(first, filled(SMALL + 9, 2));
    assert.deepEqual(idsOf(second), idsOf(first));
    assert.ok("pieces" in second && second.pieces[0]?.block === "AA==");
    assert.ok(filled(SMALL + 9, 2).equals(await store.read(second, 0, SMALL + 9)));

    await store.share(second);
    const third = await replaced(second, filled(SMALL, 3));
    assert.notDeepEqual(idsOf(third), idsOf(second));
    assert.ok(filled(SMALL + 9, 2).equals(await store.read(second, 0, SMALL + 9)), "the other's");
    assert.ok(filled(SMALL, 3).equals(await store.read(third, 0, SMALL)));
    await store.release(second);

    const large = await replaced(third, filled(LARGE, 4));
    const small = await replaced(large, filled(SMALL, 5));
    const shared = await store.make(filled(SMALL, 6)); // of an earlier transaction, as a staged block is
    const given = await store.engine.write((tx) => store.contents.replaced(tx, small, shared));
    assert.deepEqual(given, shared);
    assert.ok(filled(SMALL, 6).equals(await store.read(given, 0, SMALL)));
    await store.release(given);
    assert.deepEqual(await store.left(), NOTHING);
  });

  for (const [what, sizes] of [
    ["a heap value", [SMALL]],
    ["the largest heap value", [HEAP_CHUNK_MAX]],
    ["a file", [LARGE]],
    ["some pieces", [SMALL, LARGE, SMALL, LARGE]],
    ["a list", Array.from({ length: 9 }, () => SMALL)],
    ["a list with files", Array.from({ length: 70 }, (_, i) => (i % 10 === 0 ? LARGE : SMALL))],
  ] as const) {
    test(`${what} is there as long as anyone names it, and then gone`, async () => {
      const store = openStore();
      const all = sizes.map((size, i) => filled(size, i));
      const whole = Buffer.concat(all);
      const content = await store.make(...all);
      assert.equal("list" in content, sizes.length > 8);
      await store.share(content);
      await store.share(content);
      for (let names = 3; names > 0; names--) {
        await store.options.files.sweep(async (asked) => new Set(asked));
        await sweepGarbage(store.options);
        assert.ok(whole.equals(await store.read(content, 0, whole.length)), `${names} name it`);
        await store.release(content);
      }
      await sweepGarbage(store.options);
      assert.deepEqual(await store.left(), NOTHING);
    });
  }

  test("a count of references is kept only where there is more than one", async () => {
    const store = openStore();
    const content = await store.make(filled(SMALL));
    const counts = () =>
      store.engine.read(async (tx) => (await references.walk(tx, [], { limit: 9 })).length);
    assert.equal(await counts(), 0);
    await store.share(content);
    assert.equal(await counts(), 1);
    await store.release(content);
    assert.equal(await counts(), 0);
    assert.ok(filled(SMALL).equals(await store.read(content, 0, SMALL)));
  });

  test("a chunk that stands in a content twice is counted twice", async () => {
    for (const size of [SMALL, LARGE]) {
      const store = openStore();
      const staged = await store.stage(filled(size));
      const content = await store.engine.write(async (tx) => {
        const [chunk] = store.kept(tx, staged);
        assert.ok(chunk !== undefined);
        await store.contents.shareChunk(tx, chunk);
        return store.contents.made(tx, [{ chunk }, { chunk }]);
      });
      const twice = Buffer.concat([filled(size), filled(size)]);
      assert.ok(twice.equals(await store.read(content, 0, twice.length)));
      await store.release(content);
      assert.deepEqual(await store.left(), NOTHING);
    }
  });

  test("any range of a long list equals the model's", async () => {
    const store = openStore();
    const all = Array.from({ length: 1_000 }, (_, i) => {
      return filled(i % 250 === 249 ? LARGE + i : 1 + ((i * 7_919) % 3_000), i);
    });
    const whole = Buffer.concat(all);
    const content = await store.make(...all);
    assert.ok("list" in content);
    assert.ok(whole.equals(await store.read(content, 0, whole.length)));
    let state = 12_345;
    const below = (bound: number) => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      return Math.floor((state / 2 ** 32) * bound);
    };
    let edge = 0;
    const ranges = all.slice(0, 130).flatMap((piece): [number, number][] => {
      edge += piece.length;
      return [
        [edge - 1, 2],
        [edge, 1],
      ];
    });
    for (let i = 0; i < 300; i++) {
      const start = below(whole.length);
      ranges.push([
        start,
        Math.min(whole.length - start, 1 + below(i % 2 === 0 ? 5_000 : 400_000)),
      ]);
    }
    for (const [start, count] of ranges) {
      const found = await store.read(content, start, count);
      assert.ok(whole.subarray(start, start + count).equals(found), `${count} from ${start}`);
    }
    assert.equal((await store.read(content, 0, 0)).length, 0);
  });

  test("a list that is being read stays until it is closed, and is swept after that", async () => {
    const store = openStore();
    const all = Array.from({ length: 100 }, (_, i) => filled(i === 50 ? LARGE : SMALL, i));
    const whole = Buffer.concat(all);
    const content = await store.make(...all);
    const opened = await store.open(content, 0, whole.length);
    await store.release(content);
    await sweepGarbage(store.options);
    await sweepFiles(store.options);
    const parts: Uint8Array[] = [];
    for await (const part of opened.stream()) {
      parts.push(part);
      await sweepGarbage(store.options);
    }
    assert.ok(whole.equals(Buffer.concat(parts)));
    assert.notDeepEqual(await store.left(), NOTHING);
    opened.close();
    await sweepGarbage(store.options);
    assert.deepEqual(await store.left(), NOTHING);
  });

  for (const size of [SMALL, LARGE]) {
    test(`${size} bytes that are being read stay when they are overtaken by a delete`, async () => {
      const store = openStore();
      const content = await store.make(filled(size), filled(LARGE, 1));
      const whole = Buffer.concat([filled(size), filled(LARGE, 1)]);
      const opened = await store.open(content, 0, whole.length);
      await store.release(content);
      await sweepGarbage(store.options);
      await sweepFiles(store.options);
      assert.ok(whole.equals(await gathered(opened)));
      assert.deepEqual(await store.left(), NOTHING);
    });
  }

  test("staged bytes that are discarded leave nothing", async () => {
    const store = openStore();
    store.contents.discard(await store.stage(filled(LARGE)));
    store.contents.discard(await store.stage(filled(SMALL)));
    assert.deepEqual(await store.left(), NOTHING);
  });

  for (const size of [SMALL, LARGE, 17 * 1024 * 1024]) {
    test(`a body of ${size} bytes that ends too soon, or breaks, leaves nothing`, async () => {
      const store = openStore();
      await assert.rejects(store.contents.stage(inPieces(filled(size - 1), 1_000_000), size));
      async function* broken() {
        yield filled(size - 1);
        throw new Error("the client is gone");
      }
      await assert.rejects(store.contents.stage(broken(), size), /the client is gone/);
      assert.deepEqual(await store.left(), NOTHING);
    });
  }

  test("a body of more than one file comes back whole", async () => {
    const store = openStore();
    const bytes = filled(16 * 1024 * 1024 + 100);
    const content = await store.make(bytes);
    assert.ok("pieces" in content && content.pieces.length === 2);
    assert.ok(bytes.equals(await store.read(content, 0, bytes.length)));
    const edge = 16 * 1024 * 1024;
    assert.ok(bytes.subarray(edge - 1, edge + 1).equals(await store.read(content, edge - 1, 2)));
  });

  test("a staged file is not swept before it is named, nor while it is", async () => {
    const store = openStore();
    const staged = await store.stage(filled(LARGE));
    await sweepFiles(store.options);
    const content = await store.engine.write(async (tx) => {
      return store.contents.made(
        tx,
        store.kept(tx, staged).map((chunk) => ({ chunk })),
      );
    });
    await sweepFiles(store.options);
    assert.ok(filled(LARGE).equals(await store.read(content, 0, LARGE)));
  });

  test("a damaged or missing heap value is an error, alone and in a list", async () => {
    const store = openStore();
    for (const count of [1, 20]) {
      const all = Array.from({ length: count }, (_, i) => filled(SMALL, i));
      const content = await store.make(...all);
      const [first] = await store.engine.read((tx) => store.contents.pieces(tx, content));
      const id = BigInt(`0x${first?.chunk.id}`);
      const damaged = filled(SMALL);
      damaged[500] = (damaged[500] ?? 0) ^ 1;
      await store.engine.write(async (tx) => tx.putHeap(id, damaged));
      await assert.rejects(store.read(content, 0, SMALL), CorruptFile);
      await assert.rejects(store.read(content, 10, 1), CorruptFile, "the sum is of all of it");
      await store.engine.write(async (tx) => tx.deleteHeap(id));
      await assert.rejects(store.read(content, 0, SMALL), CorruptFile);
    }
  });

  test("a file without its record, and a list without its pages, are errors", async () => {
    const store = openStore();
    const content = await store.make(filled(LARGE));
    assert.ok("pieces" in content);
    const name = content.pieces[0]?.chunk.id ?? "";
    await store.engine.write(async (tx) => chunkFiles.delete(tx, name));
    await assert.rejects(store.read(content, 0, LARGE), CorruptFile);
    await assert.rejects(store.release(content), CorruptFile);
    await assert.rejects(store.share(content), CorruptFile);
    const list = await store.make(...Array.from({ length: 20 }, () => filled(SMALL)));
    assert.ok("list" in list);
    const id = BigInt(`0x${list.list}`);
    await store.engine.write(async (tx) => pieces.delete(tx, id, 0n));
    await assert.rejects(store.read(list, 0, SMALL), CorruptFile);
  });
});

suite("sweep", () => {
  test("a deleted container is emptied, and nothing of it is left", async () => {
    const store = openStore();
    const id = 77n;
    for (let i = 0; i < 150; i++) {
      const size = i % 15 === 0 ? LARGE : SMALL;
      const content = await store.make(filled(size, i));
      await store.engine.write(async (tx) => {
        blobs.put(tx, [id, `b${i}`], blobOf(content, size));
        if (i % 3 !== 0) return;
        await store.contents.copied(tx, content);
        snapshots.put(tx, [id, `b${i}`, tx.tick()], blobOf(content, size));
      });
    }
    const list = await store.make(...Array.from({ length: 200 }, (_, i) => filled(SMALL, i)));
    await store.engine.write(async (tx) => blobs.put(tx, [id, "long"], blobOf(list, 200 * SMALL)));
    for (let i = 0; i < 100; i++) {
      const staged = await store.stage(filled(i % 20 === 0 ? LARGE : SMALL, i));
      await store.engine.write(async (tx) => {
        const chunks = store.kept(tx, staged);
        blocks.put(tx, [id, "c", `id${i}`], { size: staged.size, chunks });
        uncommitted.put(tx, [id, "c"], { idSize: 4, count: i + 1, changedAt: tx.now });
      });
    }
    const other = await store.make(filled(LARGE));
    await store.engine.write(async (tx) => {
      blobs.put(tx, [id + 1n, "other"], blobOf(other, LARGE));
      garbage.put(tx, [tx.tick()], { container: id.toString(16) });
    });
    // A container's lists are garbage that arises while it is emptied; a later sweep may take them.
    for (let steps = 1; steps > 0; ) steps = await sweepGarbage(store.options);
    assert.deepEqual(await store.left(), { keys: 2, heap: 0, files: 1 });
    assert.ok(filled(LARGE).equals(await store.read(other, 0, LARGE)));
  });

  test("a sweep that is stopped goes on later", async () => {
    const store = openStore();
    const content = await store.make(...Array.from({ length: 500 }, (_, i) => filled(100, i)));
    await store.release(content);
    let asked = 0;
    await sweepGarbage(store.options, () => ++asked > 2);
    const left = await store.left();
    assert.ok(left.heap > 0 && left.heap < 500);
    await sweepGarbage(store.options);
    assert.deepEqual(await store.left(), NOTHING);
  });

  test("blocks expire a week after the last of them came, and not before", async () => {
    const store = openStore();
    const putBlock = async (blob: string, block: string, size: number) => {
      const staged = await store.stage(filled(size));
      await store.engine.write(async (tx) => {
        const chunks = store.kept(tx, staged);
        const count = ((await uncommitted.get(tx, 1n, blob))?.count ?? 0) + 1;
        blocks.put(tx, [1n, blob, block], { size, chunks });
        uncommitted.put(tx, [1n, blob], { idSize: block.length, count, changedAt: tx.now });
      });
    };
    const begin = store.clock.at;
    for (let i = 0; i < 70; i++) await putBlock(`many${i}`, "a", SMALL);
    await putBlock("old", "a", SMALL);
    await putBlock("old", "b", LARGE);
    await putBlock("fresh", "a", SMALL);
    store.clock.at = begin + 3 * DAY_MS;
    await putBlock("fresh", "b", LARGE);
    const blob = await store.make(filled(SMALL));
    await store.engine.write(async (tx) => blobs.put(tx, [1n, "old"], blobOf(blob, SMALL)));
    const expire = (at: number) => {
      store.clock.at = at;
      return expireBlocks(store.options, at);
    };
    assert.equal(await expire(begin + 7 * DAY_MS - 1), 0);
    assert.equal(await expire(begin + 7 * DAY_MS + 1_000), 71);
    assert.deepEqual(await store.left(), { keys: 5, heap: 2, files: 1 });
    assert.ok(filled(SMALL).equals(await store.read(blob, 0, SMALL)), "what is committed stays");
    assert.equal(await expire(begin + 10 * DAY_MS + 1_000), 1);
    assert.deepEqual(await store.left(), { keys: 1, heap: 1, files: 0 });
  });
});
