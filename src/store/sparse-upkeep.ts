import type { Instant } from "../base/time.ts";
import type { Engine, WriteTx } from "../engine/engine.ts";
import { CorruptFile } from "../engine/files.ts";
import type { Contents, Opened, Staged } from "./content.ts";
import { garbage, layers, sparseParts, worn } from "./keys.ts";
import { TOUCHED_MAX } from "./sparse.ts";
import {
  findLayer,
  firstChild,
  layerOf,
  link,
  putLayer,
  stackOf,
  unlink,
} from "./sparse-layers.ts";
import type { SparseGarbage } from "./sparse-records.ts";
import {
  clipped,
  deletePart,
  endOf,
  idOf,
  layPart,
  OFFSET_END,
  overlapping,
  type Placed,
  partsNear,
  putPart,
  REGION_SIZE,
  SMALL_SIZE,
  viewOf,
} from "./sparse-rows.ts";
import { BrokenRecord } from "./subspace.ts";

/** How many parts one step takes away, moves or shares. */
const STEP_PARTS = 256;
/** A merged part has at most this size, and is made of at least and at most this many. */
const MERGED_SIZE_MAX = 1024 * 1024;
const MERGED_PARTS_MIN = 4;
const MERGED_PARTS_MAX = 512;
/** A region that was written to in this time may be written to again, and is left alone. */
const QUIET_MS = 3_000;
/** How many worn regions are looked at in one go, and how many of them are merged. */
const REGIONS_MAX = 1024;
const MERGES_MAX = 32;
const BATCH = 64;

/** One step of the work that a garbage record asks for; whether it is done, or has to wait for a reader. */
export async function upkeep(
  tx: WriteTx,
  contents: Contents,
  work: SparseGarbage,
): Promise<"done" | "more" | "held"> {
  if ("rows" in work) return takenApart(tx, contents, idOf(work.rows));
  if ("whole" in work) return completed(tx, contents, work.whole);
  return settled(tx, contents, work.layer);
}

async function takenApart(tx: WriteTx, contents: Contents, rows: bigint) {
  const parts = await sparseParts.walk(tx, [rows], { limit: STEP_PARTS });
  for (const { key, value } of parts) {
    if (value.chunk !== undefined) await contents.releaseChunk(tx, value.chunk);
    sparseParts.delete(tx, ...key);
  }
  const marks = await worn.walk(tx, [rows], { limit: STEP_PARTS });
  for (const { key } of marks) worn.delete(tx, ...key);
  return parts.length < STEP_PARTS && marks.length < STEP_PARTS ? "done" : "more";
}

/** Removes a layer that nothing stands on, or makes it one with the only layer that does. */
async function settled(tx: WriteTx, contents: Contents, id: string) {
  const layer = await findLayer(tx, id);
  if (layer === undefined || layer.contents > 0 || layer.children > 1) return "done";
  if (contents.sparse.isHeld(id)) return "held";
  const drop = (rows: string) => garbage.put(tx, [tx.tick()], { rows });
  const { parent, whole } = layer;
  const child = layer.children === 0 ? undefined : await firstChild(tx, id);
  if (child === undefined) {
    layers.delete(tx, idOf(id), 0n);
    drop(layer.rows);
    if (whole !== undefined) drop(whole.rows);
    if (parent === undefined) return "done";
    unlink(tx, parent, id);
    const below = await layerOf(tx, parent);
    putLayer(tx, parent, { ...below, children: below.children - 1 });
    garbage.put(tx, [tx.tick()], { layer: parent });
    return "done";
  }
  // The upper one's parts go down, a few at a time; what both show together stays the same throughout.
  const upper = await layerOf(tx, child);
  if (whole !== undefined) {
    drop(whole.rows);
    putLayer(tx, id, withoutWhole(layer));
  }
  const laying = { counts: contents, rows: idOf(layer.rows), holes: parent !== undefined };
  if (!(await movedDown(tx, idOf(upper.rows), laying))) return "more";
  const { parent: _old, ...rest } = upper;
  drop(upper.rows); // its marks
  putLayer(tx, child, {
    ...rest,
    rows: layer.rows,
    ...(parent === undefined ? {} : { parent }),
  });
  unlink(tx, id, child);
  layers.delete(tx, idOf(id), 0n);
  if (parent !== undefined) {
    unlink(tx, parent, id);
    link(tx, parent, child);
  }
  return "done";
}

function withoutWhole<T extends { readonly whole?: unknown }>({ whole: _, ...layer }: T) {
  return layer;
}

/** Moves some parts from the rows above to those below; whether all are there now. */
async function movedDown(
  tx: WriteTx,
  from: bigint,
  laying: Parameters<typeof layPart>[1],
): Promise<boolean> {
  const parts = await sparseParts.walk(tx, [from], { limit: STEP_PARTS });
  let touched = 0;
  for (const { key, value } of parts) {
    if (touched > TOUCHED_MAX) return false;
    const part: Placed = { offset: Number(key[1]), ...value };
    const asked = { from: part.offset, to: endOf(part), limit: TOUCHED_MAX };
    const around = await partsNear(tx, laying.rows, asked);
    const below = overlapping(around, asked.from, asked.to);
    touched += below.length;
    const beyond = below[TOUCHED_MAX];
    deletePart(tx, from, part.offset);
    if (beyond === undefined) {
      await layPart(tx, laying, part, around);
      continue;
    }
    if (part.chunk !== undefined) await laying.counts.shareChunk(tx, part.chunk);
    putPart(tx, from, clipped(part, beyond.offset, endOf(part)));
    await layPart(tx, laying, clipped(part, part.offset, beyond.offset), around);
    return false;
  }
  return parts.length < STEP_PARTS;
}

/** Gives a layer some more of its parents' bytes; nobody writes to it meanwhile, because it stands between. */
async function completed(tx: WriteTx, contents: Contents, id: string) {
  const layer = await findLayer(tx, id);
  if (layer?.whole?.done === undefined) return "done";
  const { rows, done } = layer.whole;
  const view = await viewOf(tx, await stackOf(tx, id), {
    from: done,
    to: OFFSET_END,
    limit: STEP_PARTS,
  });
  for (const part of view.parts) {
    if (part.chunk === undefined) continue;
    await contents.shareChunk(tx, part.chunk);
    putPart(tx, idOf(rows), part);
  }
  const isDone = view.to === OFFSET_END;
  putLayer(tx, id, { ...layer, whole: isDone ? { rows } : { rows, done: view.to } });
  return isDone ? "done" : "more";
}

export type MergeOptions = {
  readonly engine: Engine;
  readonly contents: Contents;
};

/**
 * Merges small parts that lie side by side into larger chunks, where nobody has written for a while.
 * It begins behind `after` and gives where it stopped, so that many worn regions are done in turn.
 */
export async function mergeWorn(
  options: MergeOptions,
  {
    now,
    after,
    isStopped = () => false,
  }: {
    readonly now: Instant;
    readonly after?: Uint8Array | undefined;
    readonly isStopped?: () => boolean;
  },
): Promise<Uint8Array | undefined> {
  let from = after;
  let merges = 0;
  for (let count = 0; count < REGIONS_MAX && !isStopped(); ) {
    const marks = await options.engine.read((tx) =>
      worn.walk(tx, [], { limit: BATCH, ...(from === undefined ? {} : { from }) }),
    );
    for (const { key, value } of marks) {
      from = Buffer.concat([worn.packed(key), Buffer.of(0)]);
      if (isStopped()) return from;
      if (value.at + QUIET_MS > now) continue;
      if (++merges > MERGES_MAX) return worn.packed(key);
      const [rows, region] = key;
      await mergeRegion(options, rows, Number(region), isStopped).catch((error) => {
        // Who reads it is told; here it is left alone.
        if (!(error instanceof CorruptFile || error instanceof BrokenRecord)) throw error;
      });
      if (isStopped()) return worn.packed(key);
      await options.engine.write(async (tx) => {
        const mark = await worn.get(tx, ...key);
        if (mark?.at === value.at) worn.delete(tx, ...key);
      });
    }
    if (marks.length < BATCH) return undefined;
    count += marks.length;
  }
  return from;
}

async function mergeRegion(
  { engine, contents }: MergeOptions,
  rows: bigint,
  region: number,
  isStopped: () => boolean,
): Promise<void> {
  const end = region + REGION_SIZE;
  for (let at = region; at < end && !isStopped(); ) {
    const { run, next, opened } = await engine.read(async (tx) => {
      const found = await sparseParts.walk(tx, [rows], {
        from: sparseParts.packed([rows, BigInt(at)]),
        to: sparseParts.packed([rows, BigInt(end)]),
        limit: 2 * MERGED_PARTS_MAX,
      });
      const parts = found.map(({ key, value }): Placed => ({ offset: Number(key[1]), ...value }));
      const { run, next = end } = firstRun(parts, parts.length < 2 * MERGED_PARTS_MAX);
      const opened = run.length > 0 ? await contents.sparse.openParts(tx, run) : undefined;
      return { run, next, opened };
    });
    at = next;
    if (opened === undefined) continue;
    const size = run.reduce((sum, { count }) => sum + count, 0);
    const staged = await contents.stage(allOf(opened), size).finally(() => opened.close());
    let isMerged = false;
    try {
      isMerged = await engine.write((tx) => replaced(tx, contents, { rows, run, staged }));
    } finally {
      if (!isMerged) contents.discard(staged);
    }
  }
}

async function* allOf({ bytes = [], stream }: Opened): AsyncGenerator<Uint8Array> {
  yield* bytes;
  yield* stream();
}

/** Puts one part in the place of a run, if that is still what was read; else nothing happens. */
async function replaced(
  tx: WriteTx,
  contents: Contents,
  { rows, run, staged }: { rows: bigint; run: readonly Placed[]; staged: Staged },
): Promise<boolean> {
  const [first, last] = [run[0] as Placed, run.at(-1) as Placed];
  const found = await sparseParts.walk(tx, [rows], {
    from: sparseParts.packed([rows, BigInt(first.offset)]),
    to: sparseParts.packed([rows, BigInt(endOf(last))]),
    limit: run.length + 1,
  });
  const isSame = (part: Placed, index: number) => {
    const { key, value } = found[index] ?? {};
    return (
      value?.chunk?.id === part.chunk?.id &&
      value?.count === part.count &&
      value.start === part.start &&
      key?.[1] === BigInt(part.offset)
    );
  };
  if (found.length !== run.length || !run.every(isSame)) return false;
  for (const { offset, chunk } of run) {
    deletePart(tx, rows, offset);
    if (chunk !== undefined) await contents.releaseChunk(tx, chunk);
  }
  let offset = first.offset;
  for (const chunk of contents.keep(tx, staged)) {
    putPart(tx, rows, { offset, count: chunk.size, chunk, start: 0 });
    offset += chunk.size;
  }
  return true;
}

/**
 * The first small parts side by side that are worth merging, and where to look for the next; `isEnd` says
 * that no parts follow these.
 */
function firstRun(
  parts: readonly Placed[],
  isEnd: boolean,
): { readonly run: readonly Placed[]; readonly next?: number } {
  let run: Placed[] = [];
  let size = 0;
  for (const part of parts) {
    const previous = run.at(-1);
    // What a customer's key has encrypted cannot be written anew without it.
    const isOurs = part.chunk !== undefined && part.chunk.iv === undefined;
    const isSmall = isOurs && part.count < SMALL_SIZE;
    const goesOn = previous === undefined || endOf(previous) === part.offset;
    const fits = run.length < MERGED_PARTS_MAX && size + part.count <= MERGED_SIZE_MAX;
    if (!isSmall || !goesOn || !fits) {
      if (run.length >= MERGED_PARTS_MIN) return { run, next: part.offset };
      run = [];
      size = 0;
    }
    if (!isSmall) continue;
    run.push(part);
    size += part.count;
  }
  if (run.length >= MERGED_PARTS_MIN) return { run, next: endOf(run.at(-1) as Placed) };
  const last = parts.at(-1);
  return isEnd || last === undefined
    ? { run: [] }
    : { run: [], next: run[0]?.offset ?? endOf(last) };
}
