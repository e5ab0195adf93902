import { readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { type BackupMark, writeMark } from "../engine/backup-mark.ts";
import { type Disk, readingDisk } from "../engine/disk.ts";
import { chunkFolders, chunkPath, readOnce } from "../engine/disk-files.ts";
import type { Engine } from "../engine/engine.ts";
import { CorruptFile, type StoredFile } from "../engine/files.ts";
import type { RecordSnapshot } from "../engine/sqlite/snapshot.ts";
import { chunkFiles } from "./keys.ts";

const DATABASE = "lazuli.db";
const NEW = ".new";
const FOLDERS_WITH_FILES = ["tls"];
/** How many files are copied at once: one is read while another is synced. */
const AT_ONCE = 2;
const BATCH = 256;

export type CopyOptions = {
  readonly from: string;
  readonly to: string;
  /** The state to copy; it is closed as soon as it is not needed any more. */
  readonly records: RecordSnapshot;
  readonly open: (directory: string, file?: string) => RecordSnapshot;
  readonly disk: Disk;
  /** Throws unless the files that the records name have stayed as they were. */
  readonly confirm: () => Promise<void>;
  readonly problem: (line: string) => void;
  /** Takes what is wrong with the database itself, before anything in `to` gives way to it; may throw. */
  readonly damaged: (complaints: readonly string[]) => void;
  readonly told: (text: () => string) => void;
  /** What the directory says of itself: when the copy is made, and for what. */
  readonly mark: Omit<BackupMark, "state">;
};

export type Switching = Pick<CopyOptions, "to" | "disk" | "open">;

/** What a copy came to: of how many files and bytes, and how many of these had to be copied. */
export type Copied = {
  readonly files: number;
  readonly bytes: number;
  readonly newFiles: number;
  readonly newBytes: number;
  readonly problems: number;
};

/**
 * Makes a data directory of a store's state. What is whole in `to` already is left as it is, and nothing of
 * it is removed or replaced before everything new is on the disk; then names are switched.
 */
export async function copyStore(options: CopyOptions): Promise<Copied> {
  const { to, disk, records, open, confirm, mark } = options;
  await prepare(options);
  const fresh = join(to, `${DATABASE}${NEW}`);
  try {
    await records.copyTo(fresh, (share) =>
      options.told(() => `records: ${Math.floor(share * 100)} %`),
    );
  } finally {
    records.close();
  }
  await syncFile(disk, fresh);
  await copySmall(options);
  const copy = open(to, `${DATABASE}${NEW}`);
  const changed = new Set<string>();
  let copied: Copied;
  try {
    const complaints = copy.complaints();
    if (complaints.length > 0) options.damaged(complaints);
    copied = await copyFiles(options, copy.engine, changed);
  } finally {
    copy.close();
  }
  await confirm();
  await syncFolders(options, changed);
  await writeMark(to, { ...mark, state: "switching" }, disk);
  await switchNames(options);
  return copied;
}

/** Gives everything new its name, be it for the first time or where that was cut short. */
export async function switchNames(options: Switching): Promise<void> {
  const { to } = options;
  const fresh = join(to, `${DATABASE}${NEW}`);
  if ((await readdir(to)).includes(basename(fresh))) {
    for (const ending of ["-wal", "-shm", "-journal"]) {
      await rm(join(to, `${DATABASE}${ending}`), { force: true });
    }
    await rename(fresh, join(to, DATABASE));
  }
  await syncFolders(options, await switchFiles(options));
}

/** Makes the folders, and removes what a copy before this one left unfinished. */
async function prepare({ to, disk }: CopyOptions): Promise<void> {
  for (const folder of chunkFolders(to)) {
    await disk.makeDirectory(folder);
    for (const name of await readdir(folder)) {
      if (name.endsWith(NEW)) await disk.remove(join(folder, name));
    }
  }
  for (const ending of ["", "-journal", "-wal", "-shm"]) {
    await rm(join(to, `${DATABASE}${NEW}${ending}`), { force: true });
  }
}

async function copyFiles(
  options: CopyOptions,
  engine: Engine,
  changed: Set<string>,
): Promise<Copied> {
  const { confirm, problem, told } = options;
  let [count, total, files, bytes, newFiles, newBytes, problems] = [0, 0, 0, 0, 0, 0, 0];
  for await (const { size } of filesOf(engine)) {
    count++;
    total += size;
  }
  const all = filesOf(engine);
  const worker = async () => {
    for await (const file of all) {
      try {
        if (await copyFile(options, file)) {
          changed.add(dirname(chunkPath(options.to, file.name)));
          newFiles++;
          newBytes += file.size;
        }
      } catch (error) {
        if (!(error instanceof CorruptFile)) throw error;
        await confirm();
        problems++;
        problem(`${error.message}: it is left out`);
      }
      files++;
      bytes += file.size;
      told(
        () => `files: ${files} of ${count}, ${Math.floor((bytes / Math.max(1, total)) * 100)} %`,
      );
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return { files, bytes, newFiles, newBytes, problems };
}

/** The files that records name, a batch of them in memory at a time; several may take from it. */
async function* filesOf(engine: Engine): AsyncGenerator<StoredFile> {
  let from: Uint8Array = chunkFiles.packed([]);
  for (;;) {
    const rows = await engine.read((tx) => chunkFiles.walk(tx, [], { from, limit: BATCH }));
    for (const { key, value } of rows) yield { name: key[0], size: value.size, sums: value.sums };
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH) return;
    from = Buffer.concat([chunkFiles.packed(last.key), Buffer.of(0)]);
  }
}

/** Copies a file, unless it is there already; whether it was copied. */
async function copyFile({ from, to, disk }: CopyOptions, file: StoredFile): Promise<boolean> {
  const source = chunkPath(from, file.name);
  const target = chunkPath(to, file.name);
  const written = (await stat(source).catch(() => undefined))?.mtimeMs;
  if (written === undefined) throw new CorruptFile(file.name, 0, "is missing");
  const there = await stat(target).catch(() => undefined);
  const isOld = there?.size === file.size && Math.abs(there.mtimeMs - written) < 1;
  // A file's name may have been given to other bytes since, at another time and with other sums.
  if (isOld && (await isWhole(target, file))) return false;
  await writeFile(disk, `${target}${NEW}`, readOnce(readingDisk, source, file, 0, file.size));
  await utimes(`${target}${NEW}`, written / 1000, written / 1000);
  if (there === undefined) await rename(`${target}${NEW}`, target);
  return true;
}

async function isWhole(path: string, file: StoredFile): Promise<boolean> {
  try {
    for await (const _ of readOnce(readingDisk, path, file, 0, file.size));
    return true;
  } catch (error) {
    if (error instanceof CorruptFile) return false;
    throw error;
  }
}

async function writeFile(
  disk: Disk,
  path: string,
  bytes: AsyncIterable<Uint8Array>,
): Promise<void> {
  const file = await disk.open(path, "new");
  try {
    let at = 0;
    for await (const part of bytes) {
      await disk.write(file, [part], at);
      at += part.length;
    }
    await disk.sync(file);
  } catch (error) {
    await disk.close(file);
    await disk.remove(path);
    throw error;
  }
  await disk.close(file);
}

/** Copies the small files that lie beside the data, such as a development certificate. */
async function copySmall({ from, to, disk }: CopyOptions): Promise<void> {
  for (const folder of FOLDERS_WITH_FILES) {
    const names = await readdir(join(from, folder)).catch(() => []);
    if (names.length === 0) continue;
    await disk.makeDirectory(join(to, folder));
    for (const name of names) {
      const target = join(to, folder, name);
      await rm(`${target}${NEW}`, { force: true });
      await writeFile(disk, `${target}${NEW}`, wholeFile(join(from, folder, name)));
      await rename(`${target}${NEW}`, target);
    }
    await disk.syncDirectory(join(to, folder));
  }
}

async function* wholeFile(path: string): AsyncGenerator<Uint8Array> {
  const file = await readingDisk.open(path, "old");
  try {
    const bytes = Buffer.alloc(64 * 1024);
    for (let at = 0; ; ) {
      const count = await readingDisk.read(file, bytes, at);
      if (count === 0) return;
      at += count;
      yield bytes.subarray(0, count);
    }
  } finally {
    await readingDisk.close(file);
  }
}

/** Gives new files their names, and removes those that only the state before named; gives the folders it changed. */
async function switchFiles({ to, disk, open }: Switching): Promise<Set<string>> {
  const changed = new Set<string>();
  const records = open(to);
  try {
    for (const folder of chunkFolders(to)) {
      const names = new Set<string>();
      for (const name of await readdir(folder)) {
        const own = name.endsWith(NEW) ? name.slice(0, -NEW.length) : name;
        if (own !== name) {
          await rename(join(folder, name), join(folder, own));
          changed.add(folder);
        }
        names.add(own);
      }
      for (const name of names) {
        const file = await records.engine.read((tx) => chunkFiles.get(tx, name));
        if (file !== undefined) continue;
        await disk.remove(join(folder, name));
        changed.add(folder);
      }
    }
    return changed;
  } finally {
    records.close();
  }
}

async function syncFile(disk: Disk, path: string): Promise<void> {
  const file = await disk.open(path, "old");
  try {
    await disk.sync(file);
  } finally {
    await disk.close(file);
  }
}

/** Makes the names in these folders durable, and those of all there are. */
async function syncFolders({ to, disk }: Switching, changed: ReadonlySet<string>): Promise<void> {
  for (const folder of changed) await disk.syncDirectory(folder);
  await disk.syncDirectory(join(to, "chunks"));
  await disk.syncDirectory(to);
}
