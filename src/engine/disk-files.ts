import { existsSync, readdirSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Ids } from "../base/ids.ts";
import type { Log } from "../base/log.ts";
import { type Disk, readingDisk } from "./disk.ts";
import { isOutOfFiles } from "./disk-full.ts";
import {
  type ChunkFiles,
  CorruptFile,
  type FileReader,
  type FileWriter,
  type StoredFile,
  SUM_BLOCK_SIZE,
} from "./files.ts";
import { Handles } from "./handles.ts";
import { checkSums, Sums } from "./sums.ts";

/** What is read or written in one go, and is in memory twice: less where many do so, or memory would grow with them. */
const GO_SIZE = 4 * SUM_BLOCK_SIZE;
const GO_SIZE_IN_CROWD = SUM_BLOCK_SIZE;
const CROWD = 32;
const goSize = (users: number): number => (users > CROWD ? GO_SIZE_IN_CROWD : GO_SIZE);

const FOLDERS = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, "0"));
/** Freed files are kept for a while: to write over a file again is several times faster than a new one. */
const SPARE_MS = 30_000;
const SPARE_BYTES_MAX = 1024 * 1024 * 1024;
const SPARE_SIZE_MIN = 64 * 1024;

type Spare = { readonly name: string; readonly since: number };

export type DiskFilesOptions = {
  /** The folder "chunks" is made below it. */
  readonly directory: string;
  readonly disk: Disk;
  readonly ids: Ids;
  readonly log: Log;
};

/** Chunks as files of the data directory, 256 folders wide, each synced before anyone names it. */
export async function diskFiles(options: DiskFilesOptions): Promise<ChunkFiles> {
  const root = join(options.directory, "chunks");
  await options.disk.makeDirectory(root);
  // A first start may have been cut short with any of them missing.
  const there = new Set(await readdir(root));
  for (const folder of FOLDERS) {
    if (!there.has(folder)) await options.disk.makeDirectory(join(root, folder));
  }
  await options.disk.syncDirectory(root);
  await options.disk.syncDirectory(options.directory);
  return new DiskFiles(root, options);
}

const pathIn = (root: string, name: string): string => join(root, name.slice(0, 2), name);

/** Where the file of that name is in a data directory. */
export const chunkPath = (directory: string, name: string): string =>
  pathIn(join(directory, "chunks"), name);

/** The folders of a data directory in which chunk files are. */
export const chunkFolders = (directory: string): string[] =>
  FOLDERS.map((folder) => join(directory, "chunks", folder));

/** Whether there are files in them. */
export const hasChunkFiles = (directory: string): boolean =>
  existsSync(join(directory, "chunks")) &&
  chunkFolders(directory).some((folder) => existsSync(folder) && readdirSync(folder).length > 0);

/** The chunk files of a directory that somebody else keeps, or nobody. */
export function lookAtFiles(directory: string): FileReader {
  return {
    read: (file, offset, count) =>
      readOnce(readingDisk, chunkPath(directory, file.name), file, offset, count),
    async *list() {
      for (const folder of chunkFolders(directory)) {
        yield* await readdir(folder).catch(() => []);
      }
    },
  };
}

class DiskFiles implements ChunkFiles {
  readonly #root: string;
  readonly #disk: Disk;
  readonly #ids: Ids;
  readonly #log: Log;
  readonly #handles: Handles;
  /** Not yet named by a record, or spare: the sweep leaves them alone. */
  readonly #ours = new Set<string>();
  readonly #held = new Map<string, number>();
  /** Freed, but still held by a reader, or kept because somebody asked to keep all. */
  readonly #freed = new Set<string>();
  #keepers = 0;
  /** For each sweep that is under way, what was freed since it began. */
  readonly #sweeps = new Set<Set<string>>();
  readonly #spares = new Map<number, Spare[]>();
  readonly #folderSyncs = new Map<string, FolderSync>();
  readonly #timer: NodeJS.Timeout;
  /** One for each file that is being written. */
  readonly #writing = new Set<Promise<void>>();
  #readers = 0;
  #spareBytes = 0;
  #removals: Promise<unknown> = Promise.resolve();

  constructor(root: string, { disk, ids, log }: DiskFilesOptions) {
    this.#root = root;
    this.#disk = disk;
    this.#ids = ids;
    this.#log = log;
    this.#handles = new Handles(disk, (name) => this.#path(name));
    this.#timer = setInterval(() => this.#dropOldSpares(), SPARE_MS / 2).unref();
  }

  async create(size: number): Promise<FileWriter> {
    const syncFolder = () => this.#syncFolder(name);
    const spare = this.#takeSpare(classOf(size));
    const name = spare?.name ?? `${this.#ids.guid().replaceAll("-", "")}-${classOf(size)}`;
    this.#ours.add(name);
    const opening = this.#handles.take(name, spare === undefined ? "new" : "old");
    const file = await opening.catch((error: unknown) => {
      if (spare === undefined) this.#ours.delete(name);
      else this.#remove(name); // nobody else knows of it any more
      throw error;
    });
    const ended = Promise.withResolvers<void>();
    this.#writing.add(ended.promise);
    const end = () => {
      this.#handles.give(name);
      this.#writing.delete(ended.promise);
      ended.resolve();
    };
    return new DiskWriter(this.#disk, file, name, {
      goSize: () => goSize(this.#writing.size),
      async finished() {
        // A spare's entry in its folder is durable already.
        if (spare === undefined) await syncFolder();
        end();
      },
      abandoned: () => {
        // A new file's entry may not be durable, so it must not become a spare.
        if (spare === undefined) this.#remove(name);
        else this.free(name);
        end();
      },
    });
  }

  async *read(file: StoredFile, offset: number, count: number): AsyncGenerator<Uint8Array> {
    const { name } = file;
    const handle = await taken(file, offset, this.#handles.take(name, "old"));
    this.#readers++;
    try {
      const size = () => goSize(this.#readers);
      yield* readChecked({ disk: this.#disk, handle, size }, file, offset, count);
    } finally {
      this.#readers--;
      this.#handles.give(name);
    }
  }

  hold(name: string): void {
    this.#held.set(name, (this.#held.get(name) ?? 0) + 1);
  }

  letGo(name: string): void {
    const count = (this.#held.get(name) ?? 0) - 1;
    if (count > 0) this.#held.set(name, count);
    else this.#held.delete(name);
    if (count <= 0 && this.#keepers === 0 && this.#freed.delete(name)) this.free(name);
  }

  keepFreed(): () => void {
    this.#keepers++;
    return () => {
      this.#keepers--;
      if (this.#keepers > 0) return;
      for (const name of [...this.#freed]) {
        if (!this.#held.has(name) && this.#freed.delete(name)) this.free(name);
      }
    };
  }

  settle(name: string): void {
    this.#ours.delete(name);
  }

  free(name: string): void {
    this.#ours.add(name);
    for (const freed of this.#sweeps) freed.add(name);
    if (this.#keepers > 0 || this.#held.has(name)) {
      this.#freed.add(name);
      return;
    }
    const size = sizeOf(name);
    if (size < SPARE_SIZE_MIN || this.#spareBytes + size > SPARE_BYTES_MAX) {
      this.#remove(name);
      return;
    }
    const spares = this.#spares.get(size) ?? [];
    spares.push({ name, since: performance.now() });
    this.#spares.set(size, spares);
    this.#spareBytes += size;
  }

  async sweep(
    isNamed: (names: readonly string[]) => Promise<ReadonlySet<string>>,
  ): Promise<number> {
    let count = 0;
    const freed = new Set<string>();
    this.#sweeps.add(freed);
    try {
      for (const folder of FOLDERS) {
        // What is being made is spared; it can become named while we ask. What is freed meanwhile is not an
        // orphan either: it is a spare, or in use again by the time the answer is there.
        const names = (await readdir(join(this.#root, folder))).filter(
          (name) => !this.#ours.has(name),
        );
        const named = names.length === 0 ? new Set<string>() : await isNamed(names);
        for (const name of names) {
          if (named.has(name) || freed.has(name) || this.#held.has(name)) continue;
          this.#remove(name);
          count++;
        }
      }
    } finally {
      this.#sweeps.delete(freed);
    }
    await this.#removals;
    return count;
  }

  async *list(): AsyncGenerator<string> {
    for (const folder of FOLDERS) yield* await readdir(join(this.#root, folder));
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#writing);
    for (const name of this.#freed) this.#remove(name);
    for (const spares of this.#spares.values()) for (const { name } of spares) this.#remove(name);
    await this.#removals;
    await this.#handles.close();
  }

  #path(name: string): string {
    return pathIn(this.#root, name);
  }

  #takeSpare(size: number): Spare | undefined {
    const spare = this.#spares.get(size)?.pop();
    if (spare !== undefined) this.#spareBytes -= size;
    return spare;
  }

  #dropOldSpares(): void {
    const oldest = performance.now() - SPARE_MS;
    for (const [size, spares] of this.#spares) {
      const fresh = spares.filter(({ since }) => since > oldest);
      for (const { name, since } of spares) if (since <= oldest) this.#remove(name);
      this.#spareBytes -= (spares.length - fresh.length) * size;
      this.#spares.set(size, fresh);
    }
  }

  #remove(name: string): void {
    this.#handles.drop(name);
    const done = this.#disk.remove(this.#path(name)).then(
      () => void this.#ours.delete(name),
      (error) =>
        this.#log.warn("a chunk file could not be removed", { name, error: String(error) }),
    );
    this.#removals = Promise.all([this.#removals, done]);
  }

  /** Makes a new file's entry durable; those that ask while one sync is under way share the next. */
  #syncFolder(name: string): Promise<void> {
    const path = join(this.#root, name.slice(0, 2));
    let sync = this.#folderSyncs.get(path);
    if (sync === undefined) {
      sync = new FolderSync(() => this.#disk.syncDirectory(path));
      this.#folderSyncs.set(path, sync);
    }
    return sync.next();
  }
}

/** What an opening gives, or what it means for a file that should be there. */
function taken({ name }: StoredFile, offset: number, opening: Promise<number>): Promise<number> {
  return opening.catch((error: NodeJS.ErrnoException) => {
    if (isOutOfFiles(error)) throw error;
    const { code } = error;
    throw new CorruptFile(name, offset, code === "ENOENT" ? "is missing" : `gives ${code}`);
  });
}

/** Reads bytes of a finished file, and closes it again. */
export async function* readOnce(
  disk: Disk,
  path: string,
  file: StoredFile,
  offset: number,
  count: number,
): AsyncGenerator<Uint8Array> {
  const handle = await taken(file, offset, disk.open(path, "old"));
  try {
    yield* readChecked({ disk, handle, size: () => GO_SIZE }, file, offset, count);
  } finally {
    await disk.close(handle);
  }
}

/** Reads bytes of a finished file that is open, each checked against the file's sums before it is given out. */
async function* readChecked(
  from: { readonly disk: Disk; readonly handle: number; size(): number },
  file: StoredFile,
  offset: number,
  count: number,
): AsyncGenerator<Uint8Array> {
  const sums = Buffer.from(file.sums, "base64");
  const end = offset + count;
  /** Whole blocks of sums from `at` on, checked. */
  const load = async (at: number): Promise<Buffer> => {
    const last = Math.min(end, at + from.size());
    const lastBlock = Math.ceil(last / SUM_BLOCK_SIZE) * SUM_BLOCK_SIZE;
    const bytes = Buffer.allocUnsafeSlow(Math.min(lastBlock, file.size) - at);
    const found = await from.disk.read(from.handle, bytes, at);
    if (found < bytes.length) throw new CorruptFile(file.name, at + found);
    checkSums(file, sums, at, bytes);
    return bytes;
  };
  let at = offset - (offset % SUM_BLOCK_SIZE);
  let ahead: Promise<Buffer> | undefined = load(at);
  try {
    while (ahead !== undefined) {
      const bytes: Buffer = await ahead;
      const begin = at;
      at += bytes.length;
      // The next part is read while this one is being sent.
      ahead = at < end ? load(at) : undefined;
      ahead?.catch(() => {}); // it is awaited above, unless the reader has gone
      yield bytes.subarray(Math.max(0, offset - begin), Math.min(bytes.length, end - begin));
    }
  } finally {
    await ahead?.catch(() => {}); // the file may be closed as soon as this ends
  }
}

class FolderSync {
  readonly #sync: () => Promise<void>;
  #current: Promise<void> = Promise.resolve();
  #following: Promise<void> | undefined;

  constructor(sync: () => Promise<void>) {
    this.#sync = sync;
  }

  next(): Promise<void> {
    this.#following ??= this.#current.then(() => {
      this.#following = undefined;
      const done = this.#sync();
      this.#current = done.catch(() => {});
      return done;
    });
    return this.#following;
  }
}

/** Files come in sizes of powers of two, so that a spare one fits; the name ends with its size. */
function classOf(size: number): number {
  let bound = 1024;
  while (bound < size) bound *= 2;
  return bound;
}

const sizeOf = (name: string): number => Number(name.slice(name.indexOf("-") + 1)) || 0;

/** What a writer asks and tells its keeper. */
type Keeper = { goSize(): number; finished(): Promise<void>; abandoned(): void };

class DiskWriter implements FileWriter {
  readonly #disk: Disk;
  readonly #file: number;
  readonly #name: string;
  readonly #keeper: Keeper;
  readonly #sums = new Sums();
  #parts: Uint8Array[] = [];
  #waiting = 0;
  #written = 0;
  #writing: Promise<void> | undefined;

  constructor(disk: Disk, file: number, name: string, keeper: Keeper) {
    this.#disk = disk;
    this.#file = file;
    this.#name = name;
    this.#keeper = keeper;
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    this.#sums.add(bytes);
    this.#parts.push(bytes);
    this.#waiting += bytes.length;
    return this.#waiting >= this.#keeper.goSize() ? this.#flush() : undefined;
  }

  async finish(): Promise<StoredFile> {
    await this.#flush();
    await this.#writing;
    await this.#disk.sync(this.#file);
    await this.#keeper.finished();
    return { name: this.#name, size: this.#written, sums: this.#sums.digest() };
  }

  async abandon(): Promise<void> {
    await this.#writing?.catch(() => {});
    this.#keeper.abandoned();
  }

  /** Begins to write what waits, once the write before it is done: one is under way while the next fills up. */
  async #flush(): Promise<void> {
    await this.#writing;
    if (this.#waiting === 0) return;
    const parts = this.#parts;
    const position = this.#written;
    this.#written += this.#waiting;
    this.#parts = [];
    this.#waiting = 0;
    this.#writing = this.#disk.write(this.#file, parts, position);
    this.#writing.catch(() => {}); // awaited by the next flush or by finish, which then fails
  }
}
