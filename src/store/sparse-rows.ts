import type { ReadTx, WriteTx } from "../engine/engine.ts";
import { sparseParts, worn } from "./keys.ts";
import type { Chunk } from "./records.ts";
import type { SparsePart } from "./sparse-records.ts";

/** Offsets end before this: more than any content is long, and what six bytes hold. */
export const OFFSET_END = 2 ** 48 - 1;
/** Parts of less than this, side by side, are worth being merged. */
export const SMALL_SIZE = 64 * 1024;
/** Worn places are remembered by regions of this size. */
export const REGION_SIZE = 4 * 1024 * 1024;

/** A part in its place. */
export type Placed = SparsePart & { readonly offset: number };

/** Who counts the names of chunks. */
export type ChunkCounts = {
  shareChunk(tx: WriteTx, chunk: Chunk): Promise<void>;
  releaseChunk(tx: WriteTx, chunk: Chunk): Promise<void>;
};

export const endOf = ({ offset, count }: Placed): number => offset + count;
export const idOf = (text: string): bigint => BigInt(`0x${text}`);

/** The part of a part from `from` up to `to`. */
export function clipped(part: Placed, from: number, to: number): Placed {
  const offset = Math.max(part.offset, from);
  const count = Math.min(endOf(part), to) - offset;
  if (offset === part.offset && count === part.count) return part;
  return { ...part, offset, count, start: part.start + offset - part.offset };
}

/** The parts that overlap the bytes from `from` up to `to`, in order, at most `limit`, and those that touch them. */
export async function partsAround(
  tx: ReadTx,
  rows: bigint,
  { from, to, limit }: { readonly from: number; readonly to: number; readonly limit: number },
): Promise<Placed[]> {
  const begin = sparseParts.packed([rows, BigInt(from)]);
  const [before] = await sparseParts.walk(tx, [rows], { to: begin, limit: 1, reverse: true });
  const after = await sparseParts.walk(tx, [rows], {
    from: begin,
    to: sparseParts.packed([rows, BigInt(to + 1)]),
    limit: limit + 1,
  });
  const parts: Placed[] = [];
  for (const { key, value } of before === undefined ? after : [before, ...after]) {
    const part = { offset: Number(key[1]), ...value };
    if (endOf(part) >= from) parts.push(part);
  }
  return parts;
}

const NEAR = 4;

/** The same for a place that few parts lie at, as most writes and small reads find it: one look instead of two. */
export async function partsNear(
  tx: ReadTx,
  rows: bigint,
  asked: { readonly from: number; readonly to: number; readonly limit: number },
): Promise<Placed[]> {
  const { from, to } = asked;
  const end = sparseParts.packed([rows, BigInt(to + 1)]);
  const found = await sparseParts.walk(tx, [rows], { to: end, limit: NEAR, reverse: true });
  const first = found.at(-1);
  if (found.length === NEAR && first !== undefined && Number(first.key[1]) >= from) {
    return partsAround(tx, rows, asked);
  }
  const parts: Placed[] = [];
  for (const { key, value } of found.reverse()) {
    const part = { offset: Number(key[1]), ...value };
    if (endOf(part) >= from) parts.push(part);
  }
  return parts;
}

export function putPart(tx: WriteTx, rows: bigint, { offset, ...part }: Placed): void {
  sparseParts.put(tx, [rows, BigInt(offset)], part);
}

export const deletePart = (tx: WriteTx, rows: bigint, offset: number): void =>
  sparseParts.delete(tx, rows, BigInt(offset));

export type Laying = {
  readonly counts: ChunkCounts;
  readonly rows: bigint;
  /** Whether a hole must be said, because there are bytes below it. */
  readonly holes: boolean;
};

/** Puts a part over what is there, `around`, which is trimmed or goes; the part's chunk has been counted. */
export async function layPart(
  tx: WriteTx,
  { counts, rows, holes }: Laying,
  part: Placed,
  around: readonly Placed[],
): Promise<void> {
  const end = endOf(part);
  let isWorn = false;
  const neighbour = (next: Placed) => {
    if (next.chunk !== undefined && next.count < SMALL_SIZE) isWorn = true;
  };
  for (const old of around) {
    if (endOf(old) <= part.offset || old.offset >= end) {
      if (endOf(old) === part.offset || old.offset === end) neighbour(old);
      continue;
    }
    const left = old.offset < part.offset ? clipped(old, old.offset, part.offset) : undefined;
    const right = endOf(old) > end ? clipped(old, end, endOf(old)) : undefined;
    if (left === undefined) deletePart(tx, rows, old.offset);
    for (const rest of [left, right]) {
      if (rest === undefined) continue;
      putPart(tx, rows, rest);
      neighbour(rest);
    }
    if (old.chunk === undefined) continue;
    if (left !== undefined && right !== undefined) await counts.shareChunk(tx, old.chunk);
    if (left === undefined && right === undefined) await counts.releaseChunk(tx, old.chunk);
  }
  if (part.chunk === undefined && !holes) return;
  putPart(tx, rows, part);
  if (isWorn && part.chunk !== undefined && part.count < SMALL_SIZE) {
    const region = part.offset - (part.offset % REGION_SIZE);
    worn.put(tx, [rows, BigInt(region)], { at: tx.now });
  }
}

/** Those that overlap the bytes from `from` up to `to`. */
export const overlapping = (parts: readonly Placed[], from: number, to: number): Placed[] =>
  parts.filter((part) => endOf(part) > from && part.offset < to);

export type View = {
  /** Parts and said holes in order, none of which overlap; where there is nothing is a hole as well. */
  readonly parts: readonly Placed[];
  /** How far this goes: not to the end, where there are many. */
  readonly to: number;
};

/** The parts that overlap a range. Most reads begin where a part does and end in it, so that one is tried first. */
async function partsIn(
  tx: ReadTx,
  rows: bigint,
  asked: { readonly from: number; readonly to: number; readonly limit: number },
): Promise<Placed[]> {
  const { from, to } = asked;
  const part = await sparseParts.get(tx, rows, BigInt(from));
  if (part !== undefined && part.count >= to - from) return [{ offset: from, ...part }];
  const look = to - from <= SMALL_SIZE ? partsNear : partsAround;
  return overlapping(await look(tx, rows, asked), from, to);
}

/** What layers show from above: `stack` names their rows, the uppermost first. */
export async function viewOf(
  tx: ReadTx,
  stack: readonly bigint[],
  { from, to, limit }: { readonly from: number; readonly to: number; readonly limit: number },
): Promise<View> {
  let end = to;
  let shown: Placed[] = [];
  for (const rows of stack) {
    const parts = await partsIn(tx, rows, { from, to: end, limit });
    const beyond = parts[limit];
    if (beyond !== undefined) end = beyond.offset;
    shown = laidOver(shown, parts);
  }
  const parts = overlapping(shown, from, end).map((part) => clipped(part, from, end));
  return { parts, to: end };
}

/** Both in order: the upper ones whole, of the lower ones what they leave free. */
function laidOver(upper: readonly Placed[], lower: readonly Placed[]): Placed[] {
  if (upper.length === 0) return [...lower];
  const all: Placed[] = [];
  let at = 0;
  for (const part of lower) {
    let from = part.offset;
    for (; at < upper.length; at++) {
      const over = upper[at] as Placed;
      if (over.offset >= endOf(part)) break;
      if (over.offset > from) all.push(clipped(part, from, over.offset));
      from = Math.max(from, endOf(over));
      // One that goes on beyond this part covers the next one too.
      if (endOf(over) > endOf(part)) break;
      all.push(over);
    }
    if (from < endOf(part)) all.push(clipped(part, from, endOf(part)));
  }
  for (; at < upper.length; at++) all.push(upper[at] as Placed);
  return all;
}
