import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { randomIds } from "../base/ids.ts";
import { silentLog } from "../base/log.ts";
import type { BufferedTx } from "../engine/buffered.ts";
import type { Engine } from "../engine/engine.ts";
import { CorruptFile } from "../engine/files.ts";
import { memoryEngine } from "../engine/memory.ts";
import { memoryFiles } from "../engine/memory-files.ts";
import type { Range } from "../rules/ranges.ts";
import { check } from "./check.ts";
import { Contents, HEAP_CHUNK_MAX, type Opened } from "./content.ts";
import { layers, references, sparseParts, worn } from "./keys.ts";
import type { Sparse } from "./sparse-records.ts";
import { mergeWorn } from "./sparse-upkeep.ts";
import { sweepGarbage } from "./sweep.ts";

const ALL = { limit: Number.MAX_SAFE_INTEGER };
const HOUR_MS = 3_600_000;

/** A store in memory, every body of which runs twice: none may have another effect than its writes. */
function openStore() {
  const clock = { at: Date.UTC(2026, 0, 1), now: () => clock.at };
  const inner = memoryEngine({ clock, conflicts: () => true });
  const heap = new Set<bigint>();
  const counts = { reads: 0, ranges: 0, mostWrites: 0 };
  const engine: Engine = {
    ...inner,
    read: (body) => {
      counts.reads++;
      return inner.read((tx) =>
        body({
          ...tx,
          range(query) {
            counts.ranges++;
            return tx.range(query);
          },
        }),
      );
    },
    write: (body) =>
      inner.write(async (tx) => {
        const { putHeap } = tx;
        tx.putHeap = (id, value) => {
          heap.add(id);
          putHeap.call(tx, id, value);
        };
        const result = await body(tx);
        counts.mostWrites = Math.max(counts.mostWrites, (tx as BufferedTx).writes.size);
        return result;
      }),
  };
  const files = memoryFiles(randomIds);
  const contents = new Contents(engine, files);
  const { sparse } = contents;
  const options = { engine, files, contents, log: silentLog };
  return {
    clock,
    counts,
    engine,
    files,
    sparse,
    options,
    create: () => engine.write(async (tx) => sparse.create(tx)),
    fork: (content: Sparse) => engine.write((tx) => sparse.fork(tx, content)),
    release: (content: Sparse) => engine.write((tx) => sparse.release(tx, content)),
    async write(content: Sparse, offset: number, bytes: Uint8Array): Promise<void> {
      const staged = await contents.stage(once(bytes), bytes.length);
      await engine.write((tx) => sparse.write(tx, content, offset, staged));
    },
    clear: (content: Sparse, start: number, count: number) =>
      engine.write((tx) => sparse.clear(tx, content, { start, count })),
    cut: (content: Sparse, size: number) => engine.write((tx) => sparse.cut(tx, content, size)),
    open: (content: Sparse, start: number, count: number) =>
      engine.read((tx) => sparse.open(tx, content, { start, count })),
    async read(content: Sparse, start: number, count: number): Promise<Buffer> {
      return gathered(await this.open(content, start, count));
    },
    /** All pages of ranges, each of at most `limit`. */
    async ranges(content: Sparse, start: number, count: number, limit = 1_000): Promise<Range[]> {
      const all: Range[] = [];
      for (let at: number | undefined = start; at !== undefined; ) {
        const range: Range = { start: at, count: start + count - at };
        const page = await engine.read((tx) => sparse.ranges(tx, content, range, limit));
        assert.ok(page.ranges.length <= limit);
        all.push(...page.ranges);
        at = page.next;
      }
      return all;
    },
    async diff(content: Sparse, since: Sparse, count: number, limit = 1_000) {
      const written: Range[] = [];
      const cleared: Range[] = [];
      for (let at: number | undefined = 0; at !== undefined; ) {
        const range: Range = { start: at, count: count - at };
        const asked = { since, range, limit };
        const page = await engine.read((tx) => sparse.diff(tx, content, asked));
        assert.ok(page !== undefined, "they are related");
        assert.ok(page.written.length + page.cleared.length <= limit);
        written.push(...page.written);
        cleared.push(...page.cleared);
        at = page.next;
      }
      return { written, cleared };
    },
    async sweep(): Promise<void> {
      for (let steps = 1; steps > 0; ) steps = await sweepGarbage(options);
    },
    merge: () => mergeWorn(options, { now: clock.at + HOUR_MS }),
    /** How many parts, layers and worn places there are. */
    size: () =>
      engine.read(async (tx) => ({
        parts: (await sparseParts.walk(tx, [], ALL)).length,
        layers: (await layers.walk(tx, [], ALL)).filter(({ value }) => value !== null).length,
        worn: (await worn.walk(tx, [], ALL)).length,
      })),
    /** That chunks are counted as often as they are named, and that `lazuli check` finds nothing. */
    async verify(): Promise<void> {
      const lines: string[] = [];
      await check(engine, files, { say: (line) => lines.push(line) });
      // The contents here have no blob or file that they belong to.
      const isOwn = (line: string) => !/^content \w+: no record names it$/.test(line);
      assert.deepEqual(lines.slice(0, -1).filter(isOwn), []);
      await engine.read(async (tx) => {
        const uses = new Map<string, number>();
        for (const { value } of await sparseParts.walk(tx, [], ALL)) {
          if (value.chunk?.at !== "heap") continue;
          uses.set(value.chunk.id, (uses.get(value.chunk.id) ?? 0) + 1);
        }
        for (const [id, count] of uses) {
          assert.equal((await references.get(tx, "heap", id)) ?? 1, count, `heap ${id}`);
        }
        for (const id of heap) {
          const isUsed = uses.has(id.toString(16));
          assert.equal(
            (await tx.getHeap(id)) !== undefined,
            isUsed,
            `heap ${id} stays as it is used`,
          );
        }
      });
    },
    async assertEmpty(): Promise<void> {
      await this.verify();
      const everything = { from: Buffer.of(0), to: Buffer.of(255), limit: 10 };
      assert.deepEqual(await engine.read((tx) => tx.range(everything)), []);
      for await (const name of files.list()) assert.fail(`the file ${name} is left`);
    },
  };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}

async function gathered({ bytes, stream, close }: Opened): Promise<Buffer> {
  const parts = [...(bytes ?? [])];
  for await (const part of stream()) parts.push(part);
  close();
  return Buffer.concat(parts);
}

function random(seed: number): (bound: number) => number {
  let state = seed;
  return (bound) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
}

/** What a content should hold: for each byte the number of the write that put it there, 0 for a hole. */
class Model {
  readonly writes: Uint32Array;
  constructor(writes: Uint32Array) {
    this.writes = writes;
  }
  copy(): Model {
    return new Model(this.writes.slice());
  }
  bytes(start: number, count: number): Buffer {
    return Buffer.from(
      this.writes.subarray(start, start + count).map((write, i) => byteOf(write, start + i)),
    );
  }
  ranges(start = 0, end = this.writes.length): Range[] {
    return rangesWhere(start, end, (i) => this.writes[i] !== 0);
  }
}

const byteOf = (write: number, offset: number): number =>
  write === 0 ? 0 : (write * 37 + offset * 11 + (offset >>> 8)) & 0xff;

function rangesWhere(start: number, end: number, holds: (offset: number) => boolean): Range[] {
  const all: Range[] = [];
  for (let at = start; at < end; at++) {
    if (!holds(at)) continue;
    const begin = at;
    while (at < end && holds(at)) at++;
    all.push({ start: begin, count: at - begin });
  }
  return all;
}

/** One content that is written to, with the snapshots taken of it, which are not. */
type Family = { live: { sparse: Sparse; model: Model }; kept: { sparse: Sparse; model: Model }[] };

suite("SparseContents", () => {
  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
    test(`random operations agree with plain arrays (seed ${seed})`, async () => {
      const store = openStore();
      const below = random(seed * 7_919);
      const size = seed % 2 === 0 ? 4_096 : 3 * HEAP_CHUNK_MAX;
      const families: Family[] = [];
      const readers: { opened: Opened; want: Buffer }[] = [];
      let writes = 0;
      /** More parts than one step may touch, or one batch may hold. */
      const shatter = async ({ live }: Family) => {
        for (let at = 0; at < size; at += 3) {
          const write = ++writes;
          await store.write(live.sparse, at, Buffer.of(byteOf(write, at)));
          live.model.writes[at] = write;
        }
      };
      const open = async () => {
        const sparse = await store.create();
        families.push({ live: { sparse, model: new Model(new Uint32Array(size)) }, kept: [] });
      };
      await open();
      if (seed % 2 === 0) await shatter(families[0] as Family);
      const pick = () => families[below(families.length)] as Family;
      const place = (most: number): Range => {
        const count = 1 + below(Math.min(most, size));
        return { start: below(size - count + 1), count };
      };
      const compare = async ({ sparse, model }: Family["live"]) => {
        const { start, count } = place(size);
        const want = model.bytes(start, count);
        assert.ok(want.equals(await store.read(sparse, start, count)), `${count} from ${start}`);
        const found = await store.ranges(sparse, start, count, 1 + below(20));
        assert.deepEqual(found, model.ranges(start, start + count));
      };
      for (let step = 0; step < 400; step++) {
        const what = below(100);
        const family = pick();
        const { live, kept } = family;
        if (what < 45) {
          const { start, count } = place([8, 64, 1_024, size][below(4)] ?? 8);
          const write = ++writes;
          const bytes = Buffer.alloc(count);
          for (let i = 0; i < count; i++) bytes[i] = byteOf(write, start + i);
          await store.write(live.sparse, start, bytes);
          live.model.writes.fill(write, start, start + count);
        } else if (what < 55) {
          const { start, count } = place(2_000);
          await store.clear(live.sparse, start, count);
          live.model.writes.fill(0, start, start + count);
        } else if (what < 58) {
          const at = below(size);
          await store.cut(live.sparse, at);
          live.model.writes.fill(0, at);
        } else if (what < 66) {
          const sparse = await store.fork(live.sparse);
          kept.push({ sparse, model: live.model.copy() });
        } else if (what < 69 && families.length < 5) {
          const from = kept[below(kept.length)] ?? live;
          const forked = { sparse: await store.fork(from.sparse), model: from.model.copy() };
          families.push({ live: forked, kept: [] });
        } else if (what < 74) {
          const [gone] = kept.splice(below(kept.length), 1);
          if (gone !== undefined) await store.release(gone.sparse);
        } else if (what < 76 && families.length > 1) {
          families.splice(families.indexOf(family), 1);
          for (const { sparse } of [live, ...kept]) await store.release(sparse);
        } else if (what < 78) {
          await store.merge();
        } else if (what < 84) {
          await sweepGarbage(store.options, () => below(10) === 0);
        } else if (what < 88) {
          const { start, count } = place(size);
          const opened = await store.open(live.sparse, start, count);
          readers.push({ opened, want: live.model.bytes(start, count) });
        } else if (what < 92) {
          const [reader] = readers.splice(below(readers.length), 1);
          if (reader !== undefined) assert.ok(reader.want.equals(await gathered(reader.opened)));
        } else if (what < 97) {
          const since = kept[below(kept.length)];
          if (since === undefined) continue;
          const now = live.model.writes;
          const then = since.model.writes;
          const found = await store.diff(live.sparse, since.sparse, size, 1 + below(30));
          const isWritten = (i: number) => now[i] !== then[i] && now[i] !== 0;
          const isCleared = (i: number) => now[i] === 0 && then[i] !== 0;
          assert.deepEqual(found.written, rangesWhere(0, size, isWritten));
          assert.deepEqual(found.cleared, rangesWhere(0, size, isCleared));
        } else {
          await compare(kept[below(kept.length)] ?? live);
          await compare(live);
        }
        if (step % 100 !== 99) continue;
        for (const { opened, want } of readers.splice(0)) {
          assert.ok(want.equals(await gathered(opened)));
        }
        await store.verify();
      }
      for (const { opened, want } of readers) assert.ok(want.equals(await gathered(opened)));
      for (const { live, kept } of families) for (const one of [live, ...kept]) await compare(one);
      await store.sweep();
      await store.merge();
      for (const { live, kept } of families) for (const one of [live, ...kept]) await compare(one);
      await store.verify();
      for (const { live, kept } of families) {
        for (const { sparse } of [live, ...kept]) await store.release(sparse);
      }
      await store.sweep();
      await store.assertEmpty();
    });
  }

  test("a long read keeps its version, and costs one layer until it ends", async () => {
    const store = openStore();
    const content = await store.create();
    const page = (i: number, round: number) => Buffer.alloc(4_096, (i * 7 + round) & 0xff);
    for (let i = 0; i < 400; i++) await store.write(content, i * 4_096, page(i, 0));
    const whole = 400 * 4_096;
    const before = await store.read(content, 0, whole);
    const opened = await store.open(content, 0, whole);
    const parts: Uint8Array[] = [];
    for await (const part of opened.stream()) {
      const i = parts.length;
      parts.push(part);
      if (i < 60) await store.write(content, (399 - i) * 4_096, page(i, 1));
      if (i === 60) await store.release(content);
      if (i % 50 === 0) await store.sweep();
      if (i % 70 === 0) await store.merge();
    }
    assert.ok(before.equals(Buffer.concat(parts)));
    assert.equal((await store.size()).layers, 1);
    opened.close();
    await store.sweep();
    await store.assertEmpty();
  });

  test("after a long read the layer that it made necessary is merged away", async () => {
    const store = openStore();
    const content = await store.create();
    for (let i = 0; i < 300; i++) await store.write(content, i * 1_000, Buffer.alloc(500, i));
    for (let round = 0; round < 3; round++) {
      const opened = await store.open(content, 0, 300_000);
      await store.write(content, round * 3_000, Buffer.alloc(2_000, 255));
      await store.sweep();
      assert.equal((await store.size()).layers, 2);
      opened.close();
      await store.sweep();
      assert.equal((await store.size()).layers, 1);
    }
    const want = Buffer.alloc(300_000);
    for (let i = 0; i < 300; i++) want.fill(i, i * 1_000, i * 1_000 + 500);
    for (let round = 0; round < 3; round++) want.fill(255, round * 3_000, round * 3_000 + 2_000);
    assert.ok(want.equals(await store.read(content, 0, 300_000)));
    await store.verify();
  });

  for (const what of ["write", "clear", "cut"] as const) {
    test(`a ${what} over very many parts is one small transaction, as is each that follows`, async () => {
      const store = openStore();
      const content = await store.create();
      for (let i = 0; i < 1_500; i++) await store.write(content, i * 4, Buffer.from("ab"));
      const bytes = Buffer.alloc(5_000, "x");
      store.counts.mostWrites = 0;
      if (what === "write") await store.write(content, 500, bytes);
      if (what === "clear") await store.clear(content, 500, 5_000);
      if (what === "cut") await store.cut(content, 500);
      assert.ok(store.counts.mostWrites < 10);
      const want = Buffer.alloc(6_000);
      for (let i = 0; i < 1_500; i++) want.write("ab", i * 4);
      if (what === "write") bytes.copy(want, 500);
      else want.fill(0, 500, what === "clear" ? 5_500 : 6_000);
      assert.ok(want.equals(await store.read(content, 0, 6_000)));
      await store.sweep();
      assert.ok(store.counts.mostWrites < 3_000);
      assert.equal((await store.size()).layers, 1);
      assert.ok(want.equals(await store.read(content, 0, 6_000)));
      await store.release(content);
      await store.sweep();
      await store.assertEmpty();
    });
  }

  test("a hundred snapshots are read through few layers, and each still tells what changed", async () => {
    const store = openStore();
    const live = await store.create();
    const model = Buffer.alloc(20_000);
    const kept: { sparse: Sparse; bytes: Buffer }[] = [];
    for (let i = 0; i < 100; i++) {
      await store.write(live, i * 150, Buffer.alloc(200, i + 1));
      model.fill(i + 1, i * 150, i * 150 + 200);
      kept.push({ sparse: await store.fork(live), bytes: Buffer.from(model) });
    }
    await store.sweep();
    const looks = async (sparse: Sparse, bytes: Buffer) => {
      const before = store.counts.ranges;
      assert.ok(bytes.equals(await store.read(sparse, 0, bytes.length)));
      return store.counts.ranges - before;
    };
    for (const { sparse, bytes } of kept) {
      assert.ok((await looks(sparse, bytes)) <= 2 * 36, "two for each of few layers");
    }
    for (const [now, then] of [
      [99, 0],
      [99, 98],
      [60, 20],
    ] as const) {
      const found = await store.diff(
        kept[now]?.sparse as Sparse,
        kept[then]?.sparse as Sparse,
        20_000,
      );
      const start = (then + 1) * 150;
      assert.deepEqual(found, {
        written: [{ start, count: now * 150 + 200 - start }],
        cleared: [],
      });
    }
    // Every other one goes, then the live one, then the rest.
    for (let i = 0; i < 100; i += 2) await store.release(kept[i]?.sparse as Sparse);
    await store.sweep();
    for (let i = 1; i < 100; i += 2) {
      const { sparse, bytes } = kept[i] as (typeof kept)[number];
      assert.ok(bytes.equals(await store.read(sparse, 0, bytes.length)));
    }
    await store.verify();
    await store.release(live);
    for (let i = 1; i < 100; i += 2) await store.release(kept[i]?.sparse as Sparse);
    await store.sweep();
    await store.assertEmpty();
  });

  test("contents of which neither was forked from the other cannot be compared", async () => {
    const store = openStore();
    const one = await store.create();
    const other = await store.create();
    const asked = { since: other, range: { start: 0, count: 10 }, limit: 1 };
    assert.equal(await store.engine.read((tx) => store.sparse.diff(tx, one, asked)), undefined);
  });

  test("a list of many parts takes several looks, at what was there when it began", async () => {
    for (const limit of [1, 36, 1_000]) {
      const store = openStore();
      const content = await store.create();
      // Three parts side by side, then a gap; every second group comes after the fork.
      const groups = Array.from({ length: 60 }, (_, i) => i);
      const write = async (group: number) => {
        for (const i of [0, 1, 2]) await store.write(content, group * 4 + i, Buffer.of(group));
      };
      for (const group of groups) if (group % 2 === 0) await write(group);
      const since = await store.fork(content);
      for (const group of groups) if (group % 2 === 1) await write(group);
      for (const group of groups) if (group % 10 === 0) await store.clear(content, group * 4, 3);
      const marked = (all: readonly number[]) =>
        all.map((group) => ({ start: group * 4, count: 3, isCleared: group % 10 === 0 }));
      for (const [what, other, want] of [
        ["written", {}, marked(groups.filter((group) => group % 10 !== 0))],
        ["changed", { since }, marked(groups.filter((i) => i % 2 === 1 || i % 10 === 0))],
      ] as const) {
        const asked = { ...other, range: { start: 0, count: 240 }, limit, partsMax: 10 };
        const live = await store.fork(content);
        const then = await store.fork(since);
        const list = await store.engine.read((tx) =>
          store.sparse.openRanges(tx, live, "since" in asked ? { ...asked, since: then } : asked),
        );
        assert.ok(list !== undefined);
        const found: unknown[] = [...(list.whole?.items ?? [])];
        let { next } = list.whole ?? {};
        let isReleased = false;
        const looks = list.looks();
        for (let count = 0; ; count++) {
          const { value, done } = await looks.next();
          if (done) next ??= value;
          if (done) break;
          found.push(...value);
          if (count === 0) await store.release(then);
          isReleased = true;
          if (count < 20) await store.write(live, 230 - count * 10, Buffer.alloc(9, 255));
          if (count % 4 === 0) await store.sweep();
        }
        list.close();
        assert.deepEqual(found, want.slice(0, limit), what);
        assert.equal(next, want[limit]?.start, what);
        await store.release(live);
        if (!isReleased) await store.release(then);
        if (limit > 1) assert.ok(isReleased, "it took several looks");
      }
      await store.release(content);
      await store.release(since);
      await store.sweep();
      await store.assertEmpty();
    }
  });

  test("small parts side by side become few, and lone ones stay as they are", async () => {
    const store = openStore();
    const content = await store.create();
    const want = Buffer.alloc(6 * 1024 * 1024);
    const below = random(5);
    const order = Array.from({ length: 1_024 }, (_, i) => i);
    for (let i = order.length - 1; i > 0; i--) {
      const j = below(i + 1);
      [order[i], order[j]] = [order[j] as number, order[i] as number];
    }
    for (const i of order) {
      const bytes = Buffer.alloc(4_096, i * 3 + (i >> 8));
      bytes.copy(want, i * 4_096);
      await store.write(content, i * 4_096, bytes);
    }
    for (let i = 0; i < 50; i++) {
      want.fill(7, 5_000_000 + i * 9_000, 5_000_000 + i * 9_000 + 512);
      await store.write(content, 5_000_000 + i * 9_000, Buffer.alloc(512, 7));
    }
    await mergeWorn(store.options, { now: store.clock.at });
    assert.equal((await store.size()).parts, 1_074, "what was just written is left alone");
    await store.merge();
    assert.deepEqual(await store.size(), { parts: 54, layers: 1, worn: 0 });
    assert.ok(want.equals(await store.read(content, 0, want.length)));
    await store.verify();
    const page = Buffer.alloc(4_096, 9);
    await store.write(content, 1_000_000, page);
    page.copy(want, 1_000_000);
    await store.merge();
    assert.ok(want.equals(await store.read(content, 0, want.length)));
    assert.equal((await store.size()).parts, 56, "one small part is not worth it");
    await store.release(content);
    await store.sweep();
    await store.assertEmpty();
  });

  test("a write that comes between is not lost when small parts are merged", async () => {
    for (const what of ["write", "clear", "release"] as const) {
      const store = openStore();
      const content = await store.create();
      for (let i = 0; i < 100; i++) await store.write(content, i * 100, Buffer.alloc(100, i));
      const want = await store.read(content, 0, 10_000);
      let meets = 0;
      const engine: Engine = {
        ...store.engine,
        async write(body) {
          if (++meets === 1) {
            if (what === "write") await store.write(content, 5_050, Buffer.alloc(10, 255));
            if (what === "clear") await store.clear(content, 5_050, 10);
            if (what === "release") await store.release(content);
            if (what === "release") await store.sweep();
          }
          return store.engine.write(body);
        },
      };
      await mergeWorn({ ...store.options, engine }, { now: store.clock.at + HOUR_MS });
      assert.ok(meets > 0);
      await store.verify();
      if (what === "release") {
        await store.assertEmpty();
        continue;
      }
      want.fill(what === "write" ? 255 : 0, 5_050, 5_060);
      assert.ok(want.equals(await store.read(content, 0, 10_000)));
    }
  });

  test("a damaged part is left alone by merging, and its neighbours in other places are merged", async () => {
    const store = openStore();
    const content = await store.create();
    const far = 64 * 1024 * 1024;
    for (const base of [0, far]) {
      for (let i = 0; i < 10; i++) await store.write(content, base + i * 100, Buffer.alloc(100, i));
    }
    const [damaged] = await store.engine.read((tx) => sparseParts.walk(tx, [], { limit: 1 }));
    const id = BigInt(`0x${damaged?.value.chunk?.id}`);
    await store.engine.write(async (tx) => tx.putHeap(id, Buffer.alloc(100, 255)));
    await store.merge();
    assert.deepEqual(await store.size(), { parts: 11, layers: 1, worn: 0 });
    await assert.rejects(store.read(content, 0, 100), CorruptFile);
    assert.ok(Buffer.alloc(100, 9).equals(await store.read(content, far + 900, 100)));
  });

  test("a hole of 8 TiB costs nothing, and its zeros are the same bytes again and again", async () => {
    const store = openStore();
    const size = 8 * 1024 ** 4;
    const content = await store.create();
    const opened = await store.open(content, 0, size);
    const seen = new Set<ArrayBufferLike>();
    let count = 0;
    for await (const part of opened.stream()) {
      seen.add(part.buffer);
      if (++count === 100) break;
    }
    opened.close();
    assert.equal(seen.size, 1);
    assert.deepEqual(await store.ranges(content, 0, size), []);
    await store.write(content, size - 512, Buffer.alloc(512, 1));
    assert.deepEqual(await store.ranges(content, 0, size), [{ start: size - 512, count: 512 }]);
    assert.ok(Buffer.alloc(512, 1).equals(await store.read(content, size - 512, 512)));
    await store.verify();
  });
});
