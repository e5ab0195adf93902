import { crc32 } from "node:zlib";
import type { Transform } from "../base/cipher.ts";
import type { ReadTx } from "../engine/engine.ts";
import { type ChunkFiles, CorruptFile, type StoredFile } from "../engine/files.ts";
import { chunkFiles } from "./keys.ts";
import type { Chunk } from "./records.ts";
import { opening } from "./sealing.ts";
import { idOf, type View } from "./sparse-rows.ts";

const ZEROS = Buffer.alloc(256 * 1024);
/** Parts of one file no further apart than this are read in one go. */
const GAP_MAX = 256 * 1024;

/** Bytes to be sent: in memory, in a file, or none at all. `readTo` is how far the file is read in one go. */
export type Loaded =
  | { readonly bytes: Uint8Array }
  | {
      readonly file: StoredFile;
      readonly start: number;
      readonly count: number;
      readonly readTo: number;
      readonly unseal: Transform;
    }
  | { readonly zeros: number };

export type Batch = {
  readonly parts: readonly Loaded[];
  /** The files among them, which are held until someone lets them go. */
  readonly names: readonly string[];
  /** Where the next batch begins. */
  readonly to: number;
};

/** Fetches what a view shows from `from` on, but no more of the heap than `sizeMax`, and holds its files. */
export async function loadedBatch(
  tx: ReadTx,
  files: ChunkFiles,
  view: View,
  {
    from,
    sizeMax,
    key,
  }: { readonly from: number; readonly sizeMax: number; readonly key?: Uint8Array | undefined },
): Promise<Batch> {
  const parts: Loaded[] = [];
  const names: string[] = [];
  const heap = new Map<string, Uint8Array>();
  const stored = new Map<string, StoredFile>();
  let size = 0;
  let at = from;
  let to = view.to;
  for (const { offset, count, chunk, start } of view.parts) {
    if (chunk?.at === "heap" && !heap.has(chunk.id)) {
      if (size > 0 && size + chunk.size > sizeMax) {
        to = at;
        break;
      }
      size += chunk.size;
      heap.set(chunk.id, await loadedHeap(tx, chunk));
    }
    if (offset > at) parts.push({ zeros: offset - at });
    at = offset + count;
    if (chunk === undefined) parts.push({ zeros: count });
    else if (chunk.at === "heap") {
      const bytes = heap.get(chunk.id) as Uint8Array;
      const unseal = opening(key, chunk, start);
      parts.push({ bytes: unseal(bytes.subarray(start, start + count)) });
    } else {
      const file = stored.get(chunk.id) ?? (await storedFile(tx, chunk));
      stored.set(chunk.id, file);
      const unseal = opening(key, chunk, start);
      parts.push({ file, start, count, readTo: start + count, unseal });
      names.push(chunk.id);
    }
  }
  if (to > at) parts.push({ zeros: to - at });
  for (const name of names) files.hold(name);
  return { parts: inOneGo(parts), names, to };
}

async function loadedHeap(tx: ReadTx, chunk: Chunk): Promise<Uint8Array> {
  const bytes = await tx.getHeap(idOf(chunk.id));
  if (bytes === undefined || crc32(bytes) !== chunk.sum) throw new CorruptFile(chunk.id, 0);
  return bytes;
}

async function storedFile(tx: ReadTx, chunk: Chunk): Promise<StoredFile> {
  const file = await chunkFiles.get(tx, chunk.id);
  if (file === undefined) throw new CorruptFile(chunk.id, 0);
  return { name: chunk.id, size: file.size, sums: file.sums };
}

/** Says of each part of a file how far the parts go that follow it closely. */
function inOneGo(parts: readonly Loaded[]): Loaded[] {
  const next = new Map<string, { readonly start: number; readonly readTo: number }>();
  return parts
    .toReversed()
    .map((part) => {
      if (!("file" in part)) return part;
      const follower = next.get(part.file.name);
      const gap = follower === undefined ? -1 : follower.start - part.readTo;
      const isClose = gap >= 0 && gap <= GAP_MAX;
      const joined =
        isClose && follower !== undefined ? { ...part, readTo: follower.readTo } : part;
      next.set(part.file.name, joined);
      return joined;
    })
    .reverse();
}

/** What is in memory already, or always is. */
export function bytesOf(part: Loaded): Uint8Array | undefined {
  if ("bytes" in part) return part.bytes;
  return "zeros" in part && part.zeros <= ZEROS.length ? ZEROS.subarray(0, part.zeros) : undefined;
}

/** The bytes of a batch, one after another. */
export async function* sentBatch(
  files: ChunkFiles,
  parts: readonly Loaded[],
): AsyncGenerator<Uint8Array> {
  let open: FileSpan | undefined;
  try {
    for (const part of parts) {
      if ("bytes" in part) yield part.bytes;
      else if ("zeros" in part) yield* zeros(part.zeros);
      else {
        const { file, start, count, readTo, unseal } = part;
        if (!open?.covers(file.name, start, count)) {
          await open?.close();
          open = new FileSpan(files, file, start, readTo);
        }
        for await (const bytes of open.take(start, count)) yield unseal(bytes);
      }
    }
  } finally {
    await open?.close();
  }
}

async function* zeros(count: number): AsyncGenerator<Uint8Array> {
  for (let left = count; left > 0; left -= ZEROS.length) yield ZEROS.subarray(0, left);
}

/** A part of a file that is read from begin to end, and of which some is left out. */
class FileSpan {
  readonly #name: string;
  readonly #source: AsyncGenerator<Uint8Array>;
  readonly #end: number;
  #at: number;
  #rest: Uint8Array = Buffer.alloc(0);

  constructor(files: ChunkFiles, file: StoredFile, start: number, end: number) {
    this.#name = file.name;
    this.#at = start;
    this.#end = end;
    this.#source = files.read(file, start, end - start);
  }

  covers(name: string, start: number, count: number): boolean {
    return name === this.#name && start >= this.#at && start + count <= this.#end;
  }

  async *take(start: number, count: number): AsyncGenerator<Uint8Array> {
    const end = start + count;
    while (this.#at < end) {
      if (this.#rest.length === 0) {
        const { value, done } = await this.#source.next();
        if (done) throw new CorruptFile(this.#name, this.#at);
        this.#rest = value;
      }
      const isWanted = this.#at >= start;
      const bytes = this.#rest.subarray(0, (isWanted ? end : start) - this.#at);
      this.#rest = this.#rest.subarray(bytes.length);
      this.#at += bytes.length;
      if (isWanted) yield bytes;
    }
  }

  async close(): Promise<void> {
    await this.#source.return(undefined);
  }
}
