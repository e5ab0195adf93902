import { crc32 } from "node:zlib";
import { CorruptFile, type StoredFile, SUM_BLOCK_SIZE } from "./files.ts";

/** The CRC-32 of each block of a file, gathered while it is written. */
export class Sums {
  #sums: number[] = [];
  #current = 0;
  #filled = 0;

  add(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      const part = bytes.subarray(at, at + SUM_BLOCK_SIZE - this.#filled);
      this.#current = crc32(part, this.#current);
      this.#filled += part.length;
      at += part.length;
      if (this.#filled === SUM_BLOCK_SIZE) this.#next();
    }
  }

  digest(): string {
    if (this.#filled > 0) this.#next();
    return Buffer.from(Uint32Array.from(this.#sums).buffer).toString("base64");
  }

  #next(): void {
    this.#sums.push(this.#current);
    this.#current = 0;
    this.#filled = 0;
  }
}

/** Throws unless `bytes`, which begin at a block's begin and end at a block's or the file's end, are whole. */
export function checkSums(file: StoredFile, sums: Buffer, offset: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; at += SUM_BLOCK_SIZE) {
    const index = (offset + at) / SUM_BLOCK_SIZE;
    const found = crc32(bytes.subarray(at, at + SUM_BLOCK_SIZE));
    if (found !== sums.readUInt32LE(index * 4)) throw new CorruptFile(file.name, offset + at);
  }
}
