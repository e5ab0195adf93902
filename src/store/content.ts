import { crc32 } from "node:zlib";
import type { ByteStream } from "../base/bytes.ts";
import type { Transform } from "../base/cipher.ts";
import type { Engine, ReadTx, WriteTx } from "../engine/engine.ts";
import { type ChunkFiles, CorruptFile, type StoredFile } from "../engine/files.ts";
import type { Range } from "../rules/ranges.ts";
import { chunkFiles, garbage, pieces, references } from "./keys.ts";
import type { Chunk, Content, Piece } from "./records.ts";
import { asIs, opening, type Sealed, sealing } from "./sealing.ts";
import { SparseContents } from "./sparse.ts";

/** Up to this size a chunk is a value in the engine's heap, above it a file (decision 3). */
export const HEAP_CHUNK_MAX = 64 * 1024;
const FILE_CHUNK_MAX = 16 * 1024 * 1024;
const INLINE_PIECES_MAX = 8;
const PAGE_PIECES = 64;

/** Bytes that have been taken in and that no record names yet. */
export type Staged = { readonly size: number; readonly parts: readonly StagedPart[] };
type StagedPart = ({ readonly bytes: Uint8Array } | { readonly file: StoredFile }) & Sealed;

export const nothingStaged: Staged = { size: 0, parts: [] };

/** Bytes to be sent: whole in memory if they are few, else to be fetched piece by piece. */
export type Opened = {
  readonly bytes?: readonly Uint8Array[];
  stream(): ByteStream;
  /** To be called once, when the bytes have been sent or are not wanted any more. */
  close(): void;
};

/** The bytes of blobs, as lists of chunks; who names a chunk is counted in the transaction that names it. */
export class Contents {
  readonly #engine: Engine;
  readonly #files: ChunkFiles;
  /** What is written in place: page blobs and files. */
  readonly sparse: SparseContents;
  /** The lists that are being read now, and by how many. */
  readonly #held = new Map<string, number>();

  constructor(engine: Engine, files: ChunkFiles) {
    this.#engine = engine;
    this.#files = files;
    this.sparse = new SparseContents(engine, files, this);
  }

  /** Takes in a body of `size` bytes; a large one is on the disk when this resolves. */
  async stage(
    body: ByteStream,
    size: number,
    see?: (bytes: Uint8Array) => void,
    key?: Uint8Array,
  ): Promise<Staged> {
    const parts: StagedPart[] = [];
    const source = body[Symbol.asyncIterator]();
    let rest: Uint8Array = Buffer.alloc(0);
    /** The next bytes, at most `most`; undefined when the body has ended. */
    const next = async (most: number): Promise<Uint8Array | undefined> => {
      if (rest.length === 0) {
        const { value, done } = await source.next();
        if (done) return undefined;
        see?.(value);
        rest = value;
      }
      const bytes = rest.subarray(0, most);
      rest = rest.subarray(bytes.length);
      return bytes;
    };
    try {
      for (let left = size; left > 0; ) {
        const part = Math.min(left, FILE_CHUNK_MAX);
        const { seal, ...sealed } = sealing(key);
        parts.push(
          part <= HEAP_CHUNK_MAX
            ? { bytes: seal(await gathered(next, part)), ...sealed }
            : { file: await this.#written(next, part, seal), ...sealed },
        );
        left -= part;
      }
    } catch (error) {
      this.discard({ size, parts });
      throw error;
    }
    return { size, parts };
  }

  /** Lets go of staged bytes that will not be named after all. */
  discard(staged: Staged): void {
    for (const part of staged.parts) if ("file" in part) this.#files.free(part.file.name);
  }

  /** Names staged bytes: the caller's record refers to the chunks this gives. */
  keep(tx: WriteTx, staged: Staged): Chunk[] {
    return staged.parts.map((part): Chunk => {
      if ("bytes" in part) {
        const id = tx.tick();
        tx.putHeap(id, part.bytes);
        return {
          at: "heap",
          id: id.toString(16),
          size: part.bytes.length,
          sum: crc32(part.bytes),
          ...(part.iv === undefined ? {} : { iv: part.iv }),
        };
      }
      const { name, size, sums } = part.file;
      chunkFiles.put(tx, [name], { size, sums, references: 1 });
      tx.afterCommit(() => this.#files.settle(name));
      return { at: "file", id: name, size, ...(part.iv === undefined ? {} : { iv: part.iv }) };
    });
  }

  /** Content of these pieces, in order, whose chunks the caller has counted. */
  made(tx: WriteTx, all: readonly Piece[]): Content {
    if (all.length <= INLINE_PIECES_MAX) return { pieces: all };
    const list = tx.tick();
    let offset = 0;
    for (let at = 0; at < all.length; at += PAGE_PIECES) {
      const page = all.slice(at, at + PAGE_PIECES);
      pieces.put(tx, [list, BigInt(offset)], page);
      for (const { chunk } of page) offset += chunk.size;
    }
    return { list: list.toString(16) };
  }

  /** Content of staged bytes in the place of an empty one, and of its kind. */
  async filled(tx: WriteTx, empty: Content, staged: Staged): Promise<Content> {
    if ("sparse" in empty) {
      await this.sparse.write(tx, empty, 0, staged);
      return empty;
    }
    const chunks = this.keep(tx, staged);
    return this.made(
      tx,
      chunks.map((chunk) => ({ chunk })),
    );
  }

  /** The same bytes for one more record, which names what this gives; nothing is copied. */
  async copied(tx: WriteTx, content: Content): Promise<Content> {
    if ("sparse" in content) return this.sparse.fork(tx, content);
    if ("list" in content) await this.#count(tx, "list", content.list, 1);
    else for (const { chunk } of content.pieces) await this.shareChunk(tx, chunk);
    return content;
  }

  async shareChunk(tx: WriteTx, chunk: Chunk): Promise<void> {
    if (chunk.at === "heap") {
      await this.#count(tx, "heap", chunk.id, 1);
      return;
    }
    const file = await chunkFiles.get(tx, chunk.id);
    if (file === undefined) throw new CorruptFile(chunk.id, 0);
    chunkFiles.put(tx, [chunk.id], { ...file, references: file.references + 1 });
  }

  /** Counts one record less; bytes that nobody names any more are freed, a long list of them later. */
  async release(tx: WriteTx, content: Content): Promise<void> {
    if ("sparse" in content) {
      await this.sparse.release(tx, content);
    } else if ("list" in content) {
      const left = await this.#count(tx, "list", content.list, -1);
      if (left === 0) garbage.put(tx, [tx.tick()], { list: content.list });
    } else {
      for (const { chunk } of content.pieces) await this.releaseChunk(tx, chunk);
    }
  }

  /**
   * Releases what another content of the same record takes the place of, and gives that. Small bytes that nobody
   * else names are written over where they are, which changes half as many pages of the disk.
   */
  async replaced(tx: WriteTx, before: Content, next: Content): Promise<Content> {
    const [old, made] = [onlyHeapPiece(before), onlyHeapPiece(next)];
    if (old === undefined || made === undefined) {
      await this.release(tx, before);
      return next;
    }
    const { id } = old.chunk;
    if ((await this.#count(tx, "heap", id, -1)) > 0) return next;
    if (tx.moveHeap(BigInt(`0x${made.chunk.id}`), BigInt(`0x${id}`))) {
      return { pieces: [{ ...made, chunk: { ...made.chunk, id } }] };
    }
    tx.deleteHeap(BigInt(`0x${id}`)); // whoever sends it has read it in a transaction
    return next;
  }

  async releaseChunk(tx: WriteTx, chunk: Chunk): Promise<void> {
    if (chunk.at === "heap") {
      if ((await this.#count(tx, "heap", chunk.id, -1)) > 0) return;
      tx.deleteHeap(BigInt(`0x${chunk.id}`)); // whoever sends it has read it in a transaction
      return;
    }
    const file = await chunkFiles.get(tx, chunk.id);
    if (file === undefined) throw new CorruptFile(chunk.id, 0);
    if (file.references > 1) {
      chunkFiles.put(tx, [chunk.id], { ...file, references: file.references - 1 });
    } else {
      chunkFiles.delete(tx, chunk.id);
      tx.afterCommit(() => this.#files.free(chunk.id));
    }
  }

  /** Whether a list is being read, and so must not be taken apart yet. */
  isHeld(list: string): boolean {
    return this.#held.has(list);
  }

  /** All pieces of a content, in order; what is written in place has none. */
  async pieces(tx: ReadTx, content: Content): Promise<readonly Piece[]> {
    if ("sparse" in content) return [];
    if ("pieces" in content) return content.pieces;
    const list = BigInt(`0x${content.list}`);
    const rows = await pieces.walk(tx, [list], { limit: Number.MAX_SAFE_INTEGER });
    return rows.flatMap(({ value }) => value);
  }

  /** Prepares to send a range; from here on the bytes stay, whatever happens to the records. */
  async open(tx: ReadTx, content: Content, range: Range, key?: Uint8Array): Promise<Opened> {
    if (range.count === 0) return { bytes: [], stream: emptyStream, close: () => {} };
    if ("sparse" in content) return this.sparse.open(tx, content, range, key);
    if ("list" in content) {
      const close = this.#holdList(content.list);
      return { stream: () => this.#streamOfList(content.list, range, key), close };
    }
    const loaded = await this.#loaded(tx, cut(content.pieces, 0, range), key);
    if (loaded.every(({ source }) => source instanceof Uint8Array)) {
      const bytes = loaded.map(({ source }) => source as Uint8Array);
      return { bytes, stream: emptyStream, close: () => {} };
    }
    const names = loaded.flatMap(({ source }) => (source instanceof Uint8Array ? [] : source.name));
    return { stream: () => this.#send(loaded), close: this.#holdFiles(names) };
  }

  async #written(
    next: (most: number) => Promise<Uint8Array | undefined>,
    size: number,
    seal: Transform,
  ): Promise<StoredFile> {
    const writer = await this.#files.create(size);
    try {
      for (let left = size; left > 0; ) {
        const bytes = await next(left);
        if (bytes === undefined) throw new Error("the body ended too soon");
        left -= bytes.length;
        const full = writer.write(seal(bytes));
        if (full !== undefined) await full;
      }
      return await writer.finish();
    } catch (error) {
      await writer.abandon();
      throw error;
    }
  }

  /** Changes how many name a thing; one is what is meant where no count is kept. Gives how many are left. */
  async #count(tx: WriteTx, kind: "heap" | "list", id: string, by: 1 | -1): Promise<number> {
    const count = ((await references.get(tx, kind, id)) ?? 1) + by;
    if (count > 1) references.put(tx, [kind, id], count);
    else if (by === -1 && count === 1) references.delete(tx, kind, id);
    return count;
  }

  #holdList(list: string): () => void {
    this.#held.set(list, (this.#held.get(list) ?? 0) + 1);
    return () => {
      const count = (this.#held.get(list) ?? 0) - 1;
      if (count > 0) this.#held.set(list, count);
      else this.#held.delete(list);
    };
  }

  #holdFiles(names: readonly string[]): () => void {
    for (const name of names) this.#files.hold(name);
    return () => {
      for (const name of names) this.#files.letGo(name);
    };
  }

  /** Fetches heap chunks, and what must be known of files before they can be read. */
  async #loaded(tx: ReadTx, cuts: readonly Cut[], key: Uint8Array | undefined): Promise<Loaded[]> {
    const loaded: Loaded[] = [];
    for (const { chunk, start, count } of cuts) {
      if (chunk.at === "heap") {
        const bytes = await tx.getHeap(BigInt(`0x${chunk.id}`));
        if (bytes === undefined || crc32(bytes) !== chunk.sum) throw new CorruptFile(chunk.id, 0);
        const source = opening(key, chunk, start)(bytes.subarray(start, start + count));
        loaded.push({ source, start, count, unseal: asIs });
      } else {
        const file = await chunkFiles.get(tx, chunk.id);
        if (file === undefined) throw new CorruptFile(chunk.id, 0);
        const source = { name: chunk.id, size: file.size, sums: file.sums };
        loaded.push({ source, start, count, unseal: opening(key, chunk, start) });
      }
    }
    return loaded;
  }

  async *#send(loaded: readonly Loaded[]): AsyncGenerator<Uint8Array> {
    for (const { source, start, count, unseal } of loaded) {
      if (source instanceof Uint8Array) yield source;
      else for await (const part of this.#files.read(source, start, count)) yield unseal(part);
    }
  }

  async *#streamOfList(
    list: string,
    range: Range,
    key: Uint8Array | undefined,
  ): AsyncGenerator<Uint8Array> {
    const id = BigInt(`0x${list}`);
    const end = range.start + range.count;
    for (let at = range.start; at < end; ) {
      const { loaded, next } = await this.#engine.read(async (tx) => {
        const to = pieces.packed([id, BigInt(at + 1)]);
        const [page] = await pieces.walk(tx, [id], { to, limit: 1, reverse: true });
        if (page === undefined) throw new CorruptFile(list, at);
        const offset = Number(page.key[1]);
        const cuts = batch(cut(page.value, offset, { start: at, count: end - at }));
        const count = cuts.reduce((sum, part) => sum + part.count, 0);
        return { loaded: await this.#loaded(tx, cuts, key), next: at + count };
      });
      yield* this.#send(loaded);
      at = next;
    }
  }
}

type Cut = { readonly chunk: Chunk; readonly start: number; readonly count: number };
type Loaded = {
  readonly source: Uint8Array | StoredFile;
  readonly start: number;
  readonly count: number;
  /** Reads what a customer's key has encrypted. */
  readonly unseal: Transform;
};

const BATCH_SIZE = 512 * 1024;

/** The first of these, as many as may be in memory at once; at least one. */
function batch(cuts: readonly Cut[]): Cut[] {
  const first: Cut[] = [];
  let size = 0;
  for (const part of cuts) {
    if (first.length > 0 && part.chunk.at === "heap" && size + part.count > BATCH_SIZE) break;
    if (part.chunk.at === "heap") size += part.count;
    first.push(part);
  }
  return first;
}

/** The parts of chunks that a range covers; `offset` is where the first piece begins. */
function cut(all: readonly Piece[], offset: number, range: Range): Cut[] {
  const cuts: Cut[] = [];
  const end = range.start + range.count;
  let at = offset;
  for (const { chunk } of all) {
    const start = Math.max(range.start - at, 0);
    const stop = Math.min(end - at, chunk.size);
    if (start < stop) cuts.push({ chunk, start, count: stop - start });
    at += chunk.size;
    if (at >= end) break;
  }
  return cuts;
}

function onlyHeapPiece(content: Content): Piece | undefined {
  if (!("pieces" in content) || content.pieces.length !== 1) return undefined;
  const [piece] = content.pieces;
  return piece?.chunk.at === "heap" ? piece : undefined;
}

async function gathered(
  next: (most: number) => Promise<Uint8Array | undefined>,
  size: number,
): Promise<Uint8Array> {
  const first = await next(size);
  if (first?.length === size) return first;
  const parts = first === undefined ? [] : [first];
  for (let left = size - (first?.length ?? 0); left > 0; ) {
    const bytes = await next(left);
    if (bytes === undefined) throw new Error("the body ended too soon");
    parts.push(bytes);
    left -= bytes.length;
  }
  return Buffer.concat(parts);
}

async function* emptyStream(): AsyncGenerator<Uint8Array> {}
