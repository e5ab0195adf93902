import assert from "node:assert/strict";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { type Disk, realDisk } from "../../src/engine/disk.ts";

/** Random numbers from a seed (mulberry32), so that a failing run can be had again. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to but not `bound`. */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  }

  chance(percent: number): boolean {
    return this.below(100) < percent;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)] as T;
  }
}

/** Which syncs a disk only pretends to do; a test that cannot see the loss then proves nothing. */
export type Lie = "wal" | "files" | "directories";

const PAGE_SIZE = 4096;
const SECTOR_SIZE = 512;
const DATABASE = "lazuli.db";
const WAL = "lazuli.db-wal";

/** `durable` is undefined where the file is on the disk as it stands. */
type FileState = { durable: Buffer | undefined; changes: number };
type Gone = { readonly durable: Buffer | undefined; readonly last: Buffer };

/**
 * A disk that knows what a power cut could leave of a data directory, by the letter of POSIX: bytes are
 * there once a sync that began after their write has ended, names once their directory was synced; all else
 * may be there or not, page by page and name by name. It writes to the real disk, and never really syncs.
 *
 * SQLite writes its two files without us. We see when the log of writes (the WAL) is synced, because the
 * engine does that here, and what it held when that sync began. The database itself changes only in a
 * checkpoint, whose order of syncs is SQLite's own matter; so the runs are kept too short for one, and `cut`
 * refuses if the database is not what it was when it was opened.
 */
export class PowerCutDisk implements Disk {
  readonly #directory: string;
  readonly #random: Random;
  readonly #paths = new Map<number, string>();
  readonly #files = new Map<string, FileState>();
  readonly #gone = new Map<string, Gone>();
  /** The names in each directory that are durable; all of them where it is not listed. */
  readonly #entries = new Map<string, ReadonlySet<string>>();
  #wal = Buffer.alloc(0);
  #database: Buffer | undefined;
  /** How often a name that was not synced is there all the same. */
  #luckPercent = 50;
  /** Filled by the test when the lying begins. */
  readonly lies = new Set<Lie>();
  /** Called whenever something has changed that a cut right now could show. */
  onStep: () => void = () => {};

  constructor(directory: string, random: Random) {
    this.#directory = directory;
    this.#random = random;
    const known = (folder: string) => {
      const entries = readdirSync(folder, { withFileTypes: true });
      this.#entries.set(folder, new Set(entries.map(({ name }) => name)));
      for (const entry of entries) if (entry.isDirectory()) known(join(folder, entry.name));
    };
    known(directory);
    if (existsSync(join(directory, WAL))) this.#wal = readFileSync(join(directory, WAL));
  }

  async open(path: string, which: "new" | "old"): Promise<number> {
    const file = await realDisk.open(path, which);
    this.#paths.set(file, path);
    if (which === "new") this.#files.set(path, { durable: Buffer.alloc(0), changes: 0 });
    this.onStep();
    return file;
  }

  read(file: number, into: Uint8Array, position: number): Promise<number> {
    return realDisk.read(file, into, position);
  }

  async write(file: number, parts: readonly Uint8Array[], position: number): Promise<void> {
    const path = this.#pathOf(file);
    const state = this.#stateOf(path);
    state.durable ??= readFileSync(path);
    state.changes++;
    await realDisk.write(file, parts, position);
    state.changes++;
    this.onStep();
  }

  async sync(file: number): Promise<void> {
    const path = this.#pathOf(file);
    if (basename(path) === WAL) return this.#syncWal(path);
    const state = this.#stateOf(path);
    const begun = state.durable === undefined ? undefined : readFileSync(path);
    const { changes } = state;
    await this.#pause();
    if (!this.lies.has("files")) state.durable = state.changes === changes ? undefined : begun;
    this.onStep();
  }

  async close(file: number): Promise<void> {
    this.#paths.delete(file);
    await realDisk.close(file);
  }

  async remove(path: string): Promise<void> {
    const { durable } = this.#stateOf(path);
    this.#gone.set(path, { durable, last: readFileSync(path) });
    await realDisk.remove(path);
    this.#files.delete(path);
    this.onStep();
  }

  async makeDirectory(path: string): Promise<void> {
    for (let folder = path; !existsSync(folder); folder = dirname(folder)) {
      this.#entries.set(folder, new Set());
    }
    await realDisk.makeDirectory(path);
    this.onStep();
  }

  async syncDirectory(path: string): Promise<void> {
    const names = new Set(readdirSync(path));
    await this.#pause();
    if (!this.lies.has("directories")) {
      this.#entries.set(path, names);
      for (const gone of this.#gone.keys()) {
        if (dirname(gone) === path && !names.has(basename(gone))) this.#gone.delete(gone);
      }
    }
    this.onStep();
  }

  /**
   * Writes to `image` what could be left if the power went now: what was synced, and some of the rest unless
   * `onlySynced`. All of it happens at this one moment.
   */
  cut(image: string, onlySynced = false): void {
    this.#luckPercent = onlySynced ? 0 : 50;
    this.#cutFolder(this.#directory, image);
    const database = readFileSync(join(this.#directory, DATABASE));
    assert.ok(
      this.#database?.equals(database),
      "a checkpoint ran, whose syncs this disk cannot see: make the run shorter",
    );
    writeFileSync(join(image, DATABASE), database);
    const wal = readFileSync(join(this.#directory, WAL));
    writeFileSync(join(image, WAL), this.#torn(this.#wal, wal, SECTOR_SIZE));
  }

  async #syncWal(path: string): Promise<void> {
    // When the engine opens its database it syncs here first; what it prepared is in both files by then.
    this.#database ??= readFileSync(join(this.#directory, DATABASE));
    const begun = readFileSync(path);
    await this.#pause();
    if (!this.lies.has("wal")) this.#wal = begun;
    this.onStep();
  }

  /** As long as a disk takes: long enough for other requests to come in between. */
  async #pause(): Promise<void> {
    for (let turns = this.#random.below(4); turns >= 0; turns--) await turn();
  }

  /** SQLite's files are not opened here; the system knows what their descriptors are. */
  #pathOf(file: number): string {
    return this.#paths.get(file) ?? readlinkSync(`/proc/self/fd/${file}`);
  }

  #stateOf(path: string): FileState {
    let state = this.#files.get(path);
    if (state === undefined) {
      state = { durable: undefined, changes: 0 };
      this.#files.set(path, state);
    }
    return state;
  }

  #cutFolder(folder: string, image: string): void {
    mkdirSync(image, { recursive: true });
    const durable = this.#entries.get(folder);
    const isThere = (name: string) =>
      durable?.has(name) !== false || this.#random.chance(this.#luckPercent);
    const names = new Set<string>();
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const { name } = entry;
      names.add(name);
      if (name.startsWith("lazuli.") || !isThere(name)) continue;
      if (entry.isDirectory()) this.#cutFolder(join(folder, name), join(image, name));
      else this.#cutFile(join(folder, name), join(image, name));
    }
    for (const [path, { durable: before, last }] of this.#gone) {
      const name = basename(path);
      if (dirname(path) !== folder || names.has(name) || this.#random.chance(50)) continue;
      const left = before === undefined ? last : this.#torn(before, last, PAGE_SIZE);
      writeFileSync(join(image, name), left);
    }
  }

  #cutFile(path: string, image: string): void {
    const durable = this.#files.get(path)?.durable;
    if (durable === undefined) copyFileSync(path, image);
    else writeFileSync(image, this.#torn(durable, readFileSync(path), PAGE_SIZE));
  }

  /** What is durable, with some of what came after it, in units that a disk writes whole. */
  #torn(durable: Buffer, now: Buffer, unit: number): Buffer {
    if (this.#luckPercent === 0) return durable;
    const sizes = [durable.length, now.length];
    if (now.length > durable.length) {
      sizes.push(durable.length + this.#random.below(now.length - durable.length));
    }
    const left = Buffer.alloc(this.#random.pick(sizes));
    durable.copy(left);
    const newer = this.#random.pick([5, 50, 95, 100]);
    for (let at = 0; at < left.length; at += unit) {
      if (this.#random.chance(newer)) now.copy(left, at, at, Math.min(at + unit, left.length));
    }
    return left;
  }
}
