import { close, fdatasync, fsync, mkdir, open, read, unlink, writev } from "node:fs";
import { promisify } from "node:util";

/**
 * The calls by which bytes become durable. The engines and chunks use no others, so that a test can stand
 * in between and drop, as a power cut would, all that was not synced.
 */
export type Disk = {
  /** Opens a file to read and write: "new" must not exist, "old" must. */
  open(path: string, which: "new" | "old"): Promise<number>;
  read(file: number, into: Uint8Array, position: number): Promise<number>;
  write(file: number, parts: readonly Uint8Array[], position: number): Promise<void>;
  /** Resolves when all that was written to the file before the call is on the disk. */
  sync(file: number): Promise<void>;
  close(file: number): Promise<void>;
  remove(path: string): Promise<void>;
  makeDirectory(path: string): Promise<void>;
  /** Makes the entries of a directory durable: new files in it, and removals from it. */
  syncDirectory(path: string): Promise<void>;
};

const openFile = promisify(open);
const readFile = promisify(read);
const writeParts = promisify(writev);
const syncData = promisify(fdatasync);
const syncAll = promisify(fsync);
const closeFile = promisify(close);
const makeFolder = promisify(mkdir);

export const realDisk: Disk = {
  open: (path, which) => openFile(path, which === "new" ? "wx+" : "r+", 0o600),
  async read(file, into, position) {
    const { bytesRead } = await readFile(file, into, 0, into.length, position);
    return bytesRead;
  },
  async write(file, parts, position) {
    const size = parts.reduce((sum, part) => sum + part.length, 0);
    const { bytesWritten } = await writeParts(file, parts as Uint8Array[], position);
    if (bytesWritten === size) return;
    // The system took a part only, as it may; the rest goes in one piece.
    const rest = Buffer.concat(parts).subarray(bytesWritten);
    await realDisk.write(file, [rest], position + bytesWritten);
  },
  sync: (file) => syncData(file),
  close: (file) => closeFile(file),
  remove: promisify(unlink),
  async makeDirectory(path) {
    await makeFolder(path, { recursive: true, mode: 0o700 });
  },
  async syncDirectory(path) {
    const directory = await openFile(path, "r");
    try {
      await syncAll(directory);
    } finally {
      await closeFile(directory);
    }
  },
};

/** Opens files to read them only, as they may lie where nothing can be written. */
export const readingDisk: Disk = { ...realDisk, open: (path) => openFile(path, "r") };
