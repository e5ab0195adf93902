import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import {
  type ChunkFiles,
  CorruptFile,
  type FileWriter,
  type StoredFile,
  SUM_BLOCK_SIZE,
} from "./files.ts";

/** How a suite gets its files; `flip` changes one stored byte behind their back. */
export type FilesUnderTest = {
  open(): Promise<ChunkFiles>;
  flip(files: ChunkFiles, file: StoredFile, offset: number): Promise<void>;
  clean?(): void;
};

/** Bytes that differ from those of any other seed, and from place to place. */
export function pattern(size: number, seed = 1): Buffer {
  const bytes = Buffer.alloc(size);
  for (let i = 0, state = seed; i < size; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

export async function writeAll(writer: FileWriter, bytes: Uint8Array, piece = 10_007) {
  for (let at = 0; at < bytes.length; at += piece)
    await writer.write(bytes.subarray(at, at + piece));
}

/** A finished file that no record names yet. */
export async function stored(files: ChunkFiles, bytes: Uint8Array): Promise<StoredFile> {
  const writer = await files.create(bytes.length);
  await writeAll(writer, bytes, 65_536);
  return writer.finish();
}

export async function readAll(
  files: ChunkFiles,
  file: StoredFile,
  offset = 0,
  count = file.size - offset,
): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of files.read(file, offset, count)) parts.push(part);
  return Buffer.concat(parts);
}

async function names(files: ChunkFiles): Promise<string[]> {
  const found: string[] = [];
  for await (const name of files.list()) found.push(name);
  return found;
}

const nobody = async (): Promise<ReadonlySet<string>> => new Set();
const onlyThese =
  (...known: StoredFile[]) =>
  async (asked: readonly string[]) =>
    new Set(asked.filter((name) => known.some((file) => file.name === name)));

/** What every keeper of chunk files promises. Each one's test file runs this, whole. */
export function filesConformance(name: string, { open, flip, clean }: FilesUnderTest): void {
  suite(`${name} files`, () => {
    after(() => clean?.());

    for (const size of [0, 1, SUM_BLOCK_SIZE - 1, SUM_BLOCK_SIZE, SUM_BLOCK_SIZE + 1, 3_000_001]) {
      test(`${size} bytes come back as they were written`, async () => {
        const files = await open();
        const bytes = pattern(size);
        const file = await stored(files, bytes);
        assert.equal(file.size, size);
        assert.ok(bytes.equals(await readAll(files, file)));
        await files.close();
      });
    }

    test("what is freed while all is kept stays as it is, until nobody keeps it", async () => {
      const files = await open();
      const bytes = pattern(100_000);
      const file = await stored(files, bytes);
      files.settle(file.name);
      const [first, second] = [files.keepFreed(), files.keepFreed()];
      files.hold(file.name);
      files.free(file.name);
      files.letGo(file.name);
      await files.sweep(nobody);
      const others = await Promise.all(
        [1, 2, 3].map((seed) => stored(files, pattern(100_000, seed))),
      );
      assert.ok(others.every(({ name }) => name !== file.name));
      first();
      assert.ok(bytes.equals(await readAll(files, file)));
      assert.notEqual((await stored(files, pattern(100_000, 9))).name, file.name);
      second();
      const next = await stored(files, pattern(100_000, 7));
      const isGone = next.name === file.name || !(await names(files)).includes(file.name);
      assert.ok(isGone, "it is neither used again nor removed");
      await files.close();
    });

    test("any range comes back, also across the blocks of sums", async () => {
      const files = await open();
      const bytes = pattern(6 * SUM_BLOCK_SIZE + 17);
      const file = await stored(files, bytes);
      const edges = Array.from({ length: 7 }, (_, i) => i * SUM_BLOCK_SIZE);
      const starts = edges.flatMap((edge) => [edge - 1, edge, edge + 1]).filter((at) => at >= 0);
      const counts = [0, 1, 2, SUM_BLOCK_SIZE - 1, SUM_BLOCK_SIZE, SUM_BLOCK_SIZE + 1, Infinity];
      for (const start of starts) {
        for (const wanted of counts) {
          const count = Math.min(wanted, bytes.length - start);
          const found = await readAll(files, file, start, count);
          assert.ok(bytes.subarray(start, start + count).equals(found), `${count} from ${start}`);
        }
      }
      await files.close();
    });

    test("the pieces a file is written in do not matter", async () => {
      const files = await open();
      const bytes = pattern(2 * SUM_BLOCK_SIZE + 3);
      for (const piece of [
        997,
        SUM_BLOCK_SIZE - 1,
        SUM_BLOCK_SIZE,
        SUM_BLOCK_SIZE + 1,
        bytes.length,
      ]) {
        const writer = await files.create(bytes.length);
        await writeAll(writer, bytes, piece);
        await writer.write(Buffer.alloc(0));
        const file = await writer.finish();
        assert.ok(bytes.equals(await readAll(files, file)), `in pieces of ${piece}`);
      }
      await files.close();
    });

    test("a file may be shorter than it was begun for", async () => {
      const files = await open();
      const writer = await files.create(1_000_000);
      await writer.write(pattern(70_000));
      const file = await writer.finish();
      assert.equal(file.size, 70_000);
      assert.ok(pattern(70_000).equals(await readAll(files, file)));
      await files.close();
    });

    test("a changed byte is never given out, and the blocks beside it still are", async () => {
      const files = await open();
      const bytes = pattern(6 * SUM_BLOCK_SIZE);
      const file = await stored(files, bytes);
      const damaged = 5 * SUM_BLOCK_SIZE + 1_234;
      await flip(files, file, damaged);
      for (const [start, count] of [
        [0, bytes.length],
        [damaged, 1],
        [5 * SUM_BLOCK_SIZE - 1, 2],
        [5 * SUM_BLOCK_SIZE, 1],
        [6 * SUM_BLOCK_SIZE - 1, 1],
      ] as const) {
        let at = start;
        const reading = async () => {
          for await (const part of files.read(file, start, count)) {
            assert.ok(
              bytes.subarray(at, at + part.length).equals(part),
              "only good bytes before it",
            );
            at += part.length;
          }
        };
        await assert.rejects(reading(), CorruptFile, `${count} from ${start}`);
      }
      const good = await readAll(files, file, 0, 5 * SUM_BLOCK_SIZE);
      assert.ok(bytes.subarray(0, 5 * SUM_BLOCK_SIZE).equals(good));
      await files.close();
    });

    test("a file that is not there is damaged", async () => {
      const files = await open();
      const file = await stored(files, pattern(70_000));
      const missing = { ...file, name: `00${file.name.slice(2)}x` };
      await assert.rejects(readAll(files, missing), CorruptFile);
      await files.close();
    });

    test("a held file stays readable after it is freed, until everyone has let go", async () => {
      const files = await open();
      const bytes = pattern(100_000);
      const file = await stored(files, bytes);
      files.settle(file.name);
      files.hold(file.name);
      files.hold(file.name);
      files.free(file.name);
      for (let i = 0; i < 3; i++)
        assert.notEqual((await stored(files, pattern(100_000, 2))).name, file.name);
      files.letGo(file.name);
      assert.notEqual((await stored(files, pattern(100_000, 3))).name, file.name);
      assert.equal(await files.sweep(async (all) => new Set(all)), 0);
      assert.ok(bytes.equals(await readAll(files, file)));
      files.letGo(file.name);
      await stored(files, pattern(100_000, 4));
      await assert.rejects(readAll(files, file), CorruptFile);
      await files.close();
    });

    test("a file that is held but not freed is not touched by letGo", async () => {
      const files = await open();
      const file = await stored(files, pattern(100_000));
      files.settle(file.name);
      files.hold(file.name);
      files.letGo(file.name);
      await stored(files, pattern(100_000, 2));
      assert.ok(pattern(100_000).equals(await readAll(files, file)));
      await files.close();
    });

    test("freed files are used again or removed, and none is left after close", async () => {
      const files = await open();
      for (let i = 0; i < 20; i++) {
        const file = await stored(files, pattern(100_000, i));
        files.settle(file.name);
        files.free(file.name);
      }
      assert.ok((await names(files)).length <= 1);
      await files.close();
      assert.deepEqual(await names(files), []);
    });

    test("a file that is used again never shows old bytes, under its old or its new name", async () => {
      const files = await open();
      for (const size of [130_000, 131_072, 70_000, 99_999]) {
        const old = await stored(files, Buffer.alloc(size, 0xaa));
        files.settle(old.name);
        files.free(old.name);
        const writer = await files.create(size);
        await writeAll(writer, pattern(size - 4_321, size));
        const file = await writer.finish();
        assert.equal(file.size, size - 4_321);
        assert.ok(pattern(size - 4_321, size).equals(await readAll(files, file)));
        await assert.rejects(readAll(files, old), CorruptFile);
      }
      await files.close();
    });

    test("files that are in use at once never share their bytes", async () => {
      const files = await open();
      const freed = await stored(files, pattern(100_000));
      files.free(freed.name);
      const made = await Promise.all(
        Array.from({ length: 8 }, (_, i) => stored(files, pattern(100_000, i + 1))),
      );
      assert.equal(new Set(made.map((file) => file.name)).size, made.length);
      for (const [i, file] of made.entries()) {
        assert.ok(pattern(100_000, i + 1).equals(await readAll(files, file)));
      }
      await files.close();
    });

    test("an abandoned file leaves nothing after close", async () => {
      const files = await open();
      for (const size of [0, 10, 100_000, 3_000_000]) {
        const writer = await files.create(3_000_000);
        await writeAll(writer, pattern(size));
        await writer.abandon();
      }
      await files.close();
      assert.deepEqual(await names(files), []);
    });

    test("sweep removes what nobody names, and spares the named and those in the making", async () => {
      const files = await open();
      const [finished, named, orphan] = [
        await stored(files, pattern(100_000, 1)),
        await stored(files, pattern(100_000, 2)),
        await stored(files, pattern(100_000, 3)),
      ];
      const writer = await files.create(100_000);
      await writer.write(pattern(50_000, 4));
      files.settle(named.name);
      files.settle(orphan.name);
      assert.equal(await files.sweep(onlyThese(named)), 1);
      assert.ok(!(await names(files)).includes(orphan.name));
      await assert.rejects(readAll(files, orphan), CorruptFile);
      assert.ok(pattern(100_000, 1).equals(await readAll(files, finished)));
      assert.ok(pattern(100_000, 2).equals(await readAll(files, named)));
      await writer.write(pattern(50_000, 5));
      const made = await writer.finish();
      const whole = Buffer.concat([pattern(50_000, 4), pattern(50_000, 5)]);
      assert.ok(whole.equals(await readAll(files, made)));
      assert.equal(await files.sweep(onlyThese(named)), 0);
      await files.close();
    });

    test("sweep spares a freed file that is still held", async () => {
      const files = await open();
      const file = await stored(files, pattern(100_000));
      files.settle(file.name);
      files.hold(file.name);
      files.free(file.name);
      assert.equal(await files.sweep(nobody), 0);
      assert.ok(pattern(100_000).equals(await readAll(files, file)));
      files.letGo(file.name);
      await files.close();
      assert.deepEqual(await names(files), []);
    });

    test("after a sweep, freed files can still be used again", async () => {
      const files = await open();
      const file = await stored(files, pattern(100_000));
      files.settle(file.name);
      files.free(file.name);
      await files.sweep(nobody);
      const next = await stored(files, pattern(100_000, 2));
      assert.ok(pattern(100_000, 2).equals(await readAll(files, next)));
      await files.close();
    });

    // The last record that names a file may go while the sweep asks; the file may even be in use again then.
    test("sweep spares a file that is freed and used again while it asks", async () => {
      const files = await open();
      const old = await stored(files, pattern(100_000));
      files.settle(old.name);
      let next: StoredFile | undefined;
      await files.sweep(async () => {
        files.free(old.name);
        next = await stored(files, pattern(100_000, 2));
        return new Set();
      });
      assert.ok(next !== undefined && pattern(100_000, 2).equals(await readAll(files, next)));
      await files.close();
    });

    test("sweep spares a file that is freed while it asks, for the one who uses it again", async () => {
      const files = await open();
      const old = await stored(files, pattern(100_000));
      files.settle(old.name);
      await files.sweep(async () => {
        files.free(old.name);
        return new Set();
      });
      const next = await stored(files, pattern(100_000, 2));
      assert.ok(pattern(100_000, 2).equals(await readAll(files, next)));
      await files.close();
    });

    test("sweep spares a held file that is freed while it asks", async () => {
      const files = await open();
      const file = await stored(files, pattern(100_000));
      files.settle(file.name);
      files.hold(file.name);
      await files.sweep(async () => {
        files.free(file.name);
        return new Set();
      });
      assert.ok(pattern(100_000).equals(await readAll(files, file)));
      files.letGo(file.name);
      const next = await stored(files, pattern(100_000, 2));
      assert.ok(pattern(100_000, 2).equals(await readAll(files, next)));
      await files.close();
    });

    test("list names every finished file", async () => {
      const files = await open();
      const made = await Promise.all([1, 2, 3].map((i) => stored(files, pattern(70_000, i))));
      assert.deepEqual(new Set(await names(files)), new Set(made.map((file) => file.name)));
      await files.close();
    });
  });
}
