import assert from "node:assert/strict";
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  truncateSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { after, suite, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { randomIds } from "../base/ids.ts";
import { silentLog } from "../base/log.ts";
import { type Disk, realDisk } from "./disk.ts";
import { diskFiles } from "./disk-files.ts";
import { type ChunkFiles, CorruptFile, type StoredFile } from "./files.ts";
import { filesConformance, pattern, readAll, stored } from "./files-conformance.ts";

const root = mkdtempSync(join(tmpdir(), "lazuli-files-"));
const directories = new Map<ChunkFiles, string>();

async function open(disk: Disk = realDisk, directory = mkdtempSync(join(root, "data-"))) {
  const files = await diskFiles({ directory, disk, ids: randomIds, log: silentLog });
  directories.set(files, directory);
  return files;
}

const folderOf = (files: ChunkFiles) => join(directories.get(files) ?? "", "chunks");
const pathOf = (files: ChunkFiles, { name }: StoredFile) =>
  join(folderOf(files), name.slice(0, 2), name);
const left = (files: ChunkFiles) =>
  readdirSync(folderOf(files)).flatMap((folder) => readdirSync(join(folderOf(files), folder)));

async function flip(files: ChunkFiles, file: StoredFile, offset: number) {
  const descriptor = openSync(pathOf(files, file), "r+");
  const byte = Buffer.alloc(1);
  readSync(descriptor, byte, 0, 1, offset);
  byte[0] = (byte[0] ?? 0) ^ 1;
  writeSync(descriptor, byte, 0, 1, offset);
  closeSync(descriptor);
}

filesConformance("disk", { open: () => open(), flip });

suite("disk files, on the disk", () => {
  after(() => rmSync(root, { recursive: true, force: true }));

  test("a truncated file is damaged, and what is before the cut is still read", async () => {
    const files = await open();
    const file = await stored(files, pattern(2_000_000));
    truncateSync(pathOf(files, file), 1_000_000);
    await assert.rejects(readAll(files, file), CorruptFile);
    assert.ok(
      pattern(2_000_000)
        .subarray(0, 500_000)
        .equals(await readAll(files, file, 0, 500_000)),
    );
    await files.close();
  });

  test("a spare that cannot be opened does not lie there until the next start", async () => {
    let fails = false;
    const disk: Disk = {
      ...realDisk,
      open: async (path, which) => {
        if (fails) throw Object.assign(new Error("too many"), { code: "EMFILE" });
        return realDisk.open(path, which);
      },
      sync: async () => {},
      syncDirectory: async () => {},
    };
    const files = await open(disk);
    const spare = await stored(files, pattern(100_000));
    for (let i = 0; i < 130; i++) await stored(files, pattern(10)); // so that it is not open any more
    files.settle(spare.name);
    files.free(spare.name);
    fails = true;
    await assert.rejects(files.create(100_000), /too many/);
    fails = false;
    await files.sweep(async (names) => new Set(names)); // waits for what is being removed
    assert.ok(!left(files).includes(spare.name));
    await stored(files, pattern(100_000));
    await files.close();
  });

  test("a removed file is damaged", async () => {
    const files = await open();
    const file = await stored(files, pattern(100_000));
    unlinkSync(pathOf(files, file));
    const again = await open(realDisk, directories.get(files)); // the first one may have it open still
    await assert.rejects(readAll(again, file), CorruptFile);
    await again.close();
    await files.close();
  });

  test("a freed file of a common size is written over, which is faster than a new one", async () => {
    const files = await open();
    const old = await stored(files, pattern(100_000));
    files.free(old.name);
    assert.equal((await stored(files, pattern(90_000, 2))).name, old.name);
    await files.close();
  });

  test("files are read by the next one to open the directory, which sweeps what nobody named", async () => {
    const files = await open();
    const named = await stored(files, pattern(100_000));
    files.settle(named.name);
    const unnamed = await stored(files, pattern(100_000, 2));
    const half = await files.create(2_000_000);
    await half.write(pattern(1_100_000));
    await turn();
    const again = await open(realDisk, directories.get(files));
    assert.ok(pattern(100_000).equals(await readAll(again, named)));
    assert.equal(await again.sweep(async () => new Set([named.name])), 2);
    assert.deepEqual(left(again), [named.name]);
    assert.ok(!existsSync(pathOf(again, unnamed)));
    await half.abandon();
    await again.close();
  });

  for (const [count, size] of [
    [32, 1024 * 1024],
    [33, 256 * 1024],
  ] as const) {
    test(`${count} that read or write at once take ${size / 1024} KiB in one go each`, async () => {
      const sizes = { read: 0, written: 0 };
      const files = await open({
        ...realDisk,
        async read(file, into, position) {
          sizes.read = Math.max(sizes.read, into.length);
          return realDisk.read(file, into, position);
        },
        async write(file, parts, position) {
          const written = parts.reduce((sum, part) => sum + part.length, 0);
          sizes.written = Math.max(sizes.written, written);
          await realDisk.write(file, parts, position);
        },
      });
      const bytes = pattern(4_000_000);
      const writers = await Promise.all(
        Array.from({ length: count }, () => files.create(bytes.length)),
      );
      const finished = writers.map(async (writer) => {
        for (let at = 0; at < bytes.length; at += 65_536) {
          await writer.write(bytes.subarray(at, at + 65_536));
        }
        return writer.finish();
      });
      const [file] = await Promise.all(finished);
      assert.ok(file !== undefined);
      assert.equal(sizes.written, size);
      const readers = Array.from({ length: count }, () => files.read(file, 0, bytes.length));
      await Promise.all(readers.map((reader) => reader.next()));
      sizes.read = 0; // the first ones began before the last had come
      for (const reader of readers) {
        await reader.next();
        await reader.next();
      }
      assert.equal(sizes.read, size);
      await Promise.all(readers.map((reader) => reader.return(undefined)));
      await files.close();
    });
  }

  test("finish resolves only after the bytes, and then the entry of a new file, are synced", async () => {
    const calls: string[] = [];
    const files = await open({
      ...realDisk,
      async write(file, parts, position) {
        await realDisk.write(file, parts, position);
        calls.push("write");
      },
      async sync(file) {
        calls.push("sync");
        await turn();
        await realDisk.sync(file);
        calls.push("synced");
      },
      async syncDirectory(path) {
        await turn();
        await realDisk.syncDirectory(path);
        calls.push(basename(path));
      },
    });
    calls.length = 0;
    const file = await stored(files, pattern(1_200_000));
    assert.deepEqual(calls, ["write", "write", "sync", "synced", file.name.slice(0, 2)]);
    await files.close();
  });

  test("a file that is used again after an abandoned upload has its entry synced", async () => {
    const synced = new Set<string>();
    const files = await open({
      ...realDisk,
      async syncDirectory(path) {
        const entries = readdirSync(path);
        await realDisk.syncDirectory(path);
        for (const entry of entries) synced.add(entry);
      },
    });
    const writer = await files.create(100_000);
    await writer.write(pattern(50_000));
    await writer.abandon();
    const file = await stored(files, pattern(100_000));
    assert.ok(synced.has(file.name), "its entry could be lost in a power cut");
    await files.close();
  });

  test("the first start is whole again after a power cut left only some of the folders", async () => {
    const directory = mkdtempSync(join(root, "data-"));
    await (await open(realDisk, directory)).close();
    for (const folder of readdirSync(join(directory, "chunks"))) {
      if (folder !== "ff" && folder !== "80")
        rmSync(join(directory, "chunks", folder), { recursive: true });
    }
    const files = await open(realDisk, directory);
    for (let i = 0; i < 20; i++) await stored(files, pattern(100, i));
    assert.equal(await files.sweep(async () => new Set()), 0);
    await files.close();
  });

  test("a writer asks to wait when a mebibyte waits, so that memory stays flat", async () => {
    const held: (() => void)[] = [];
    const files = await open({
      ...realDisk,
      async write(file, parts, position) {
        await new Promise<void>((resolve) => void held.push(resolve));
        await realDisk.write(file, parts, position);
      },
    });
    const bytes = pattern(64 * 1024);
    const writer = await files.create(3 * 1024 * 1024);
    for (let i = 0; i < 15; i++) assert.equal(writer.write(bytes), undefined);
    // The first mebibyte is on its way, and a second one may fill up meanwhile.
    await writer.write(bytes);
    for (let i = 0; i < 15; i++) assert.equal(writer.write(bytes), undefined);
    const full = writer.write(bytes);
    assert.ok(full instanceof Promise);
    let isTold = false;
    void full.then(() => {
      isTold = true;
    });
    for (let i = 0; i < 20; i++) await turn();
    assert.equal(isTold, false, "the disk has not taken the first mebibyte yet");
    held.shift()?.();
    await full;
    for (let i = 0; i < 16; i++) void writer.write(bytes);
    const finishing = writer.finish();
    let finished: StoredFile | undefined;
    void finishing.then((file) => {
      finished = file;
    });
    while (finished === undefined) {
      held.shift()?.();
      await turn();
    }
    const whole = Buffer.concat(Array.from({ length: 48 }, () => bytes));
    assert.ok(whole.equals(await readAll(files, finished)));
    await files.close();
  });

  for (const call of ["open", "write", "sync", "syncDirectory"] as const) {
    test(`when ${call} fails, so does the file, each descriptor is closed once, nothing is left`, async () => {
      let isFailing = false;
      const opened = new Map<number, number>();
      const failing: Disk = {
        ...realDisk,
        async open(path, which) {
          const file = await realDisk.open(path, which);
          opened.set(file, (opened.get(file) ?? 0) + 1);
          return file;
        },
        async close(file) {
          opened.set(file, (opened.get(file) ?? 0) - 1);
          await realDisk.close(file);
        },
      };
      const disk: Disk = {
        ...failing,
        [call]: async (...given: never[]) => {
          if (isFailing) throw new Error("the disk is gone");
          return (failing[call] as (...all: never[]) => Promise<unknown>)(...given);
        },
      };
      const files = await open(disk);
      isFailing = true;
      const making = async () => {
        const writer = await files.create(2_000_000);
        try {
          for (let i = 0; i < 20; i++) await writer.write(pattern(100_000, i));
          await writer.finish();
        } catch (error) {
          await writer.abandon();
          throw error;
        }
      };
      await assert.rejects(making(), /the disk is gone/);
      await turn();
      isFailing = false;
      assert.deepEqual(
        [...opened.values()].filter((count) => count !== 0),
        [],
      );
      const next = await stored(files, pattern(2_000_000, 7));
      assert.ok(pattern(2_000_000, 7).equals(await readAll(files, next)));
      files.free(next.name);
      await files.close();
      assert.deepEqual(left(files), []);
    });
  }

  test("new files of one folder that come during a sync of it share the next one", async () => {
    const COUNT = 30;
    let syncs = 0;
    let written = 0;
    const allAreWritten = Promise.withResolvers<void>();
    const ids = { guid: () => `ab${randomIds.guid().slice(2)}` };
    const disk: Disk = {
      ...realDisk,
      async sync() {
        if (++written === COUNT) allAreWritten.resolve();
      },
      async syncDirectory(path) {
        if (basename(dirname(path)) !== "chunks") return;
        syncs++;
        await allAreWritten.promise;
        await turn();
      },
    };
    const directory = mkdtempSync(join(root, "data-"));
    const files = await diskFiles({ directory, disk, ids, log: silentLog });
    await Promise.all(Array.from({ length: COUNT }, (_, i) => stored(files, pattern(1_000, i))));
    assert.equal(syncs, 2);
    await files.close();
  });

  test("a file that cannot be opened for want of descriptors is not damaged", async () => {
    let isShort = false;
    const files = await open({
      ...realDisk,
      async open(path, which) {
        if (isShort) throw Object.assign(new Error("too many open files"), { code: "EMFILE" });
        return realDisk.open(path, which);
      },
    });
    const file = await stored(files, pattern(100_000));
    const again = await diskFiles({
      directory: directories.get(files) ?? "",
      disk: {
        ...realDisk,
        async open() {
          throw Object.assign(new Error("too many open files"), { code: "EMFILE" });
        },
      },
      ids: randomIds,
      log: silentLog,
    });
    isShort = true;
    await assert.rejects(files.create(100_000), { code: "EMFILE" });
    await assert.rejects(readAll(again, file), { code: "EMFILE" });
    await again.close();
    await files.close();
  });
});
