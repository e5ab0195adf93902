/** A file of bytes that never change once it is finished: what every keeper of large chunks must offer. */
export type ChunkFiles = {
  /** Begins a file of at most `size` bytes, which no record names yet. */
  create(size: number): Promise<FileWriter>;
  /**
   * Reads bytes of a finished file. Each is checked against the file's sums before it is given out; a
   * mismatch throws `CorruptFile`.
   */
  read(file: StoredFile, offset: number, count: number): AsyncGenerator<Uint8Array>;
  /** A file that is held is not given to anyone else, even after `free`, until `letGo`. */
  hold(name: string): void;
  letGo(name: string): void;
  /** From now on every file that is freed stays as it is, until the returned function is called. */
  keepFreed(): () => void;
  /** Says that a finished file is named by a record now; until then the sweep spares it as "in the making". */
  settle(name: string): void;
  /** Says that no record names the file any more, and that this is durable. */
  free(name: string): void;
  /** Removes files that `isNamed` does not know and nobody is making; what a crash left. Gives their count. */
  sweep(isNamed: (names: readonly string[]) => Promise<ReadonlySet<string>>): Promise<number>;
  /** All files there are, a folder at a time; for `lazuli check`. */
  list(): AsyncGenerator<string>;
  close(): Promise<void>;
};

export type StoredFile = { readonly name: string; readonly size: number; readonly sums: string };

export type FileWriter = {
  /** Takes the next bytes; resolves when more may come. The bytes must not change afterwards. */
  write(bytes: Uint8Array): Promise<void> | undefined;
  /** Makes the file durable, and tells what it is called. */
  finish(): Promise<StoredFile>;
  /** The bytes are not wanted after all. */
  abandon(): Promise<void>;
};

/** What it takes to look at files without being their keeper. */
export type FileReader = Pick<ChunkFiles, "read" | "list">;

/** Each block of this size has a CRC-32 of its own, so that a small read checks little. */
export const SUM_BLOCK_SIZE = 256 * 1024;

export class CorruptFile extends Error {
  /** What is wrong with the file, without its name. */
  readonly fault: string;

  constructor(name: string, offset: number, fault = `is damaged near byte ${offset}`) {
    super(`chunk ${name} ${fault}`);
    this.fault = fault;
  }
}
