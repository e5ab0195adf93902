import type { Engine, ReadTx, WriteTx } from "../engine/engine.ts";
import type { ChunkFiles } from "../engine/files.ts";
import type { Range } from "../rules/ranges.ts";
import type { Opened, Staged } from "./content.ts";
import { garbage, sparses } from "./keys.ts";
import type { Chunk } from "./records.ts";
import { layerOf, putLayer, putOnTop, stackOf, topOf } from "./sparse-layers.ts";
import {
  allLooks,
  changedLook,
  type Look,
  noLooks,
  plain,
  type RangeList,
  writtenLook,
} from "./sparse-ranges.ts";
import { type Batch, bytesOf, loadedBatch, sentBatch } from "./sparse-reading.ts";
import type { Sparse } from "./sparse-records.ts";
import {
  type ChunkCounts,
  endOf,
  idOf,
  layPart,
  OFFSET_END,
  overlapping,
  type Placed,
  partsNear,
  viewOf,
} from "./sparse-rows.ts";

/** A write over more parts than this leaves them to the background, and goes on a layer of its own. */
export const TOUCHED_MAX = 1024;
/** How many parts of each layer are looked at together, and how much of the heap is in memory at once. */
const VIEW_PARTS = 256;
const BATCH_SIZE = 512 * 1024;
/** How many parts a list may look at in one transaction. */
const LOOK_PARTS = 2 * 1024;

/** Who turns staged bytes into chunks and counts their names. */
export type Chunks = ChunkCounts & { keep(tx: WriteTx, staged: Staged): Chunk[] };

/** Which ranges are asked for: what was written, or what changed `since`; `partsMax` bounds one look. */
export type AskedRanges = {
  readonly since?: Sparse;
  readonly range: Range;
  readonly limit: number;
  readonly partsMax?: number;
};

/** Ranges in order, and where to go on when there are more. */
export type Ranges = { readonly ranges: readonly Range[]; readonly next?: number };
export type Changes = {
  readonly written: readonly Range[];
  readonly cleared: readonly Range[];
  readonly next?: number;
};

/**
 * Content that is written in place, up to 8 TiB, of which only what was written is kept. Its bytes lie in
 * layers; one that more than one content or a long read needs is never changed, the next write puts another
 * on top of it. So a snapshot, a copy or a download in progress costs one record, whatever the size.
 * The background merges layers that nobody needs apart (sparse-upkeep.ts).
 */
export class SparseContents {
  readonly #engine: Engine;
  readonly #files: ChunkFiles;
  readonly #chunks: Chunks;
  /** The layers that are being read from now, and by how many. */
  readonly #held = new Map<string, number>();

  constructor(engine: Engine, files: ChunkFiles, chunks: Chunks) {
    this.#engine = engine;
    this.#files = files;
    this.#chunks = chunks;
  }

  /** A content that is one hole. */
  create(tx: WriteTx): Sparse {
    const top = tx.tick().toString(16);
    putLayer(tx, top, { rows: top, contents: 1, children: 0 });
    return this.#made(tx, top);
  }

  /** Another content with the same bytes; both may be written from now on, and neither sees the other's. */
  async fork(tx: WriteTx, sparse: Sparse): Promise<Sparse> {
    const top = await topOf(tx, sparse);
    const layer = await layerOf(tx, top);
    putLayer(tx, top, { ...layer, contents: layer.contents + 1 });
    return this.#made(tx, top);
  }

  /** The owner is gone; the background takes apart what nobody else needs. */
  async release(tx: WriteTx, sparse: Sparse): Promise<void> {
    const top = await topOf(tx, sparse);
    const layer = await layerOf(tx, top);
    putLayer(tx, top, { ...layer, contents: layer.contents - 1 });
    if (layer.contents === 1) garbage.put(tx, [tx.tick()], { layer: top });
    sparses.delete(tx, idOf(sparse.sparse));
  }

  /** Puts staged bytes in the place of what was there. */
  async write(tx: WriteTx, sparse: Sparse, offset: number, staged: Staged): Promise<void> {
    let at = offset;
    for (const chunk of this.#chunks.keep(tx, staged)) {
      await this.#lay(tx, sparse, { offset: at, count: chunk.size, chunk, start: 0 });
      at += chunk.size;
    }
  }

  /** Makes a hole. */
  async clear(tx: WriteTx, sparse: Sparse, { start, count }: Range): Promise<void> {
    if (count > 0) await this.#lay(tx, sparse, { offset: start, count, start: 0 });
  }

  /** Drops all bytes from `size` on, so that they are zeros should the content grow again. */
  async cut(tx: WriteTx, sparse: Sparse, size: number): Promise<void> {
    await this.clear(tx, sparse, { start: size, count: OFFSET_END - size });
  }

  /** What was written in a range, neighbours joined: at most `limit`, and where to go on. */
  async ranges(tx: ReadTx, sparse: Sparse, range: Range, limit: number): Promise<Ranges> {
    const look = writtenLook(await topOf(tx, sparse));
    const { items, next } = await look(tx, { range, limit, partsMax: Number.POSITIVE_INFINITY });
    return { ranges: items.map(plain), ...(next === undefined ? {} : { next }) };
  }

  /**
   * How a content differs from another one, `since`, that it was forked from or that was forked from it.
   * Bytes that were written again count as written, also if they are the same. Undefined if neither was
   * forked from the other, however indirectly: then nothing is known of what they have in common.
   */
  async diff(
    tx: ReadTx,
    sparse: Sparse,
    {
      since,
      range,
      limit,
    }: { readonly since: Sparse; readonly range: Range; readonly limit: number },
  ): Promise<Changes | undefined> {
    const look = changedLook(await topOf(tx, sparse), await topOf(tx, since));
    const asked = { range, limit, partsMax: Number.POSITIVE_INFINITY };
    const found = await look(tx, asked);
    if (found === undefined) return undefined;
    return {
      written: found.items.filter(({ isCleared }) => !isCleared).map(plain),
      cleared: found.items.filter(({ isCleared }) => isCleared).map(plain),
      ...(found.next === undefined ? {} : { next: found.next }),
    };
  }

  /**
   * The same as a list that may be very long: what one look gives, or, where that is not all, as many looks as
   * it takes, at the content as it is now. To be closed. Undefined where `diff` is.
   */
  async openRanges(
    tx: ReadTx,
    sparse: Sparse,
    { since, range, limit, partsMax = LOOK_PARTS }: AskedRanges,
  ): Promise<RangeList | undefined> {
    const tops = [await topOf(tx, sparse)];
    if (since !== undefined) tops.push(await topOf(tx, since));
    const [top = "", before] = tops;
    const look: Look = before === undefined ? writtenLook(top) : changedLook(top, before);
    const asked = { range, limit, partsMax };
    const first = await look(tx, asked);
    if (first === undefined) return undefined;
    if (!first.isCut) return { whole: first, looks: noLooks, close: () => {} };
    const holds = tops.map((held) => this.#hold(held));
    return {
      looks: () => allLooks(this.#engine, look, asked),
      close() {
        for (const letGo of holds) letGo();
      },
    };
  }

  /** Prepares to send a range; from here on the bytes stay, whatever is written or released. */
  async open(tx: ReadTx, sparse: Sparse, range: Range, key?: Uint8Array): Promise<Opened> {
    const top = await topOf(tx, sparse);
    const end = range.start + range.count;
    const first = await this.#batch(tx, await stackOf(tx, top), { from: range.start, end, key });
    const letGo = () => {
      for (const name of first.names) this.#files.letGo(name);
    };
    if (first.to < end) {
      const release = this.#hold(top);
      const rest = { start: first.to, count: end - first.to };
      const close = () => {
        release();
        letGo();
      };
      return { stream: () => this.#stream(top, rest, first, key), close };
    }
    const bytes = first.parts.map(bytesOf);
    if (bytes.every((part) => part !== undefined)) {
      return { bytes, stream: emptyStream, close: letGo };
    }
    return { stream: () => sentBatch(this.#files, first.parts), close: letGo };
  }

  /** Whether a layer is being read from, and so must stay as it is. */
  isHeld(layer: string): boolean {
    return this.#held.has(layer);
  }

  #hold(layer: string): () => void {
    this.#held.set(layer, (this.#held.get(layer) ?? 0) + 1);
    return () => {
      const count = (this.#held.get(layer) ?? 0) - 1;
      if (count > 0) this.#held.set(layer, count);
      else this.#held.delete(layer);
    };
  }

  #made(tx: WriteTx, top: string): Sparse {
    const id = tx.tick();
    sparses.put(tx, [id], { top });
    return { sparse: id.toString(16) };
  }

  async #lay(tx: WriteTx, sparse: Sparse, part: Placed): Promise<void> {
    const top = await topOf(tx, sparse);
    const layer = await layerOf(tx, top);
    const asked = { from: part.offset, to: endOf(part), limit: TOUCHED_MAX };
    const counts = this.#chunks;
    const isAlone = layer.contents === 1 && layer.children === 0;
    if (isAlone && layer.whole === undefined && !this.isHeld(top)) {
      const rows = idOf(layer.rows);
      const around = await partsNear(tx, rows, asked);
      if (overlapping(around, asked.from, asked.to).length <= TOUCHED_MAX) {
        await layPart(tx, { counts, rows, holes: layer.parent !== undefined }, part, around);
        return;
      }
    }
    const rows = await putOnTop(tx, sparse, { top, layer });
    await layPart(tx, { counts, rows, holes: true }, part, []);
  }

  /** Prepares to send these parts, which lie side by side; for the background, which merges them. */
  async openParts(tx: ReadTx, parts: readonly Placed[]): Promise<Opened> {
    const first = parts[0]?.offset ?? 0;
    const last = parts.at(-1);
    const view = { parts, to: last === undefined ? 0 : endOf(last) };
    const asked = { from: first, sizeMax: Number.POSITIVE_INFINITY };
    const { parts: loaded, names } = await loadedBatch(tx, this.#files, view, asked);
    const close = () => {
      for (const name of names) this.#files.letGo(name);
    };
    return { stream: () => sentBatch(this.#files, loaded), close };
  }

  /** The first of a range's bytes, as many as may be in memory at once; the files among them are held. */
  async #batch(
    tx: ReadTx,
    stack: readonly bigint[],
    { from, end, key }: { from: number; end: number; key: Uint8Array | undefined },
  ): Promise<Batch> {
    const view = await viewOf(tx, stack, { from, to: end, limit: VIEW_PARTS });
    return loadedBatch(tx, this.#files, view, { from, sizeMax: BATCH_SIZE, key });
  }

  async *#stream(
    top: string,
    range: Range,
    first: Batch,
    key: Uint8Array | undefined,
  ): AsyncGenerator<Uint8Array> {
    yield* sentBatch(this.#files, first.parts);
    const end = range.start + range.count;
    for (let at = range.start; at < end; ) {
      const batch = await this.#engine.read(async (tx) =>
        this.#batch(tx, await stackOf(tx, top), { from: at, end, key }),
      );
      try {
        yield* sentBatch(this.#files, batch.parts);
      } finally {
        for (const name of batch.names) this.#files.letGo(name);
      }
      at = batch.to;
    }
  }
}

async function* emptyStream(): AsyncGenerator<Uint8Array> {}
