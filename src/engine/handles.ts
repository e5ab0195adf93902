import type { Disk } from "./disk.ts";

/** So many files stay open that nobody uses just now. */
const IDLE_MAX = 128;

type Handle = {
  readonly file: Promise<number>;
  users: number;
  /** Whether it is to be closed as soon as nobody uses it: its file is gone, or about to go. */
  isDropped: boolean;
};

/**
 * Files that were used a moment ago and are still open: to open and close one is two waits for the thread pool,
 * as long as it takes to read a few blocks. Each file is open once, whoever reads or writes it.
 */
export class Handles {
  readonly #disk: Disk;
  readonly #pathOf: (name: string) => string;
  /** By name; those that were used last are at the end. */
  readonly #handles = new Map<string, Handle>();
  #idle = 0;
  readonly #closing = new Set<Promise<void>>();

  constructor(disk: Disk, pathOf: (name: string) => string) {
    this.#disk = disk;
    this.#pathOf = pathOf;
  }

  /** The descriptor of a file, which stays open until `give` is called as often as this. */
  async take(name: string, which: "new" | "old"): Promise<number> {
    const known = this.#handles.get(name);
    const handle = known ?? this.#opened(name, which);
    if (known !== undefined && known.users === 0) this.#idle--;
    handle.users++;
    return handle.file;
  }

  give(name: string): void {
    const handle = this.#handles.get(name);
    if (handle === undefined) return;
    handle.users--;
    if (handle.users > 0) return;
    this.#handles.delete(name);
    if (handle.isDropped) {
      this.#close(handle);
      return;
    }
    this.#handles.set(name, handle);
    this.#idle++;
    if (this.#idle > IDLE_MAX) this.#closeOldest();
  }

  /** The file is about to be removed. */
  drop(name: string): void {
    const handle = this.#handles.get(name);
    if (handle === undefined) return;
    handle.isDropped = true;
    if (handle.users > 0) return;
    this.#idle--;
    this.#handles.delete(name);
    this.#close(handle);
  }

  /** Closes all that nobody uses, and the others when nobody does any more. */
  async close(): Promise<void> {
    for (const name of [...this.#handles.keys()]) this.drop(name);
    await Promise.all(this.#closing);
  }

  #opened(name: string, which: "new" | "old"): Handle {
    const file = this.#disk.open(this.#pathOf(name), which);
    const handle: Handle = { file, users: 0, isDropped: false };
    this.#handles.set(name, handle);
    file.catch(() => this.#handles.delete(name)); // whoever waits for it is told
    return handle;
  }

  #closeOldest(): void {
    for (const [name, handle] of this.#handles) {
      if (handle.users > 0) continue;
      this.#idle--;
      this.#handles.delete(name);
      this.#close(handle);
      return;
    }
  }

  #close({ file }: Handle): void {
    const closed: Promise<void> = file
      .then((descriptor) => this.#disk.close(descriptor))
      .catch(() => {}) // its bytes were synced before, if they had to be
      .finally(() => this.#closing.delete(closed));
    this.#closing.add(closed);
  }
}
