import type { Engine, ReadTx } from "../engine/engine.ts";
import type { Range } from "../rules/ranges.ts";
import { type Chained, chainOf, stackIn, stackOf } from "./sparse-layers.ts";
import { endOf, idOf, type Placed, viewOf } from "./sparse-rows.ts";

/** How many parts of each layer are looked at together. */
const VIEW_PARTS = 256;

/** A range that was written or cleared. */
export type Marked = Range & { readonly isCleared: boolean };

export const plain = ({ start, count }: Marked): Range => ({ start, count });

/** What one look found, in the order of offsets, and where to go on if that is not all. */
export type Listing = {
  readonly items: readonly Marked[];
  readonly next?: number;
  /** Whether `next` is there because the look was long enough, not because there are as many as were asked for. */
  readonly isCut?: boolean;
};

export type Asked = { readonly range: Range; readonly limit: number; readonly partsMax: number };

/** A look at a content in one transaction; undefined if there is nothing that it can be compared with. */
export type Look = (tx: ReadTx, asked: Asked) => Promise<Listing | undefined>;

export type RangeList = {
  /** All that was asked for, where one look was enough. */
  readonly whole?: Listing;
  /** Else all of it, a look at a time; the last gives where to go on. */
  looks(): AsyncGenerator<readonly Marked[], number | undefined>;
  close(): void;
};

/** Looks for what was written. */
export function writtenLook(top: string): (tx: ReadTx, asked: Asked) => Promise<Listing> {
  return async (tx, { range, limit, partsMax }) => {
    const stack = await stackOf(tx, top);
    const found = new Joined(limit);
    const end = range.start + range.count;
    const viewed = Math.min(VIEW_PARTS, partsMax);
    let parts = 0;
    for (let from = range.start; from < end; ) {
      if (parts >= partsMax) return { items: found.items, next: from, isCut: true };
      const view = await viewOf(tx, stack, { from, to: end, limit: viewed });
      for (const part of view.parts) {
        if (part.chunk === undefined || found.add(part, false)) continue;
        return { items: found.items, next: part.offset };
      }
      parts += view.parts.length;
      from = view.to;
    }
    return { items: found.items };
  };
}

/** Looks for what differs from the layer `since`. */
export function changedLook(top: string, since: string): Look {
  return async (tx, { range, limit, partsMax }) => {
    const now = await chainOf(tx, top);
    const then = await chainOf(tx, since);
    const known = new Set(then.map(({ id }) => id));
    const shared = now.find(({ id }) => known.has(id))?.id;
    if (shared === undefined) return undefined;
    const other = rowsAbove(then, shared);
    const changedRows = [...rowsAbove(now, shared), ...other];
    const found = new Joined(limit);
    const end = range.start + range.count;
    const viewed = Math.min(VIEW_PARTS, partsMax);
    let parts = 0;
    for (let from = range.start; from < end; ) {
      if (parts >= partsMax) return { items: found.items, next: from, isCut: true };
      const changed = await viewOf(tx, changedRows, { from, to: end, limit: viewed });
      const first = changed.parts[0]?.offset ?? changed.to;
      const seen = { from: first, to: changed.to, limit: viewed };
      const current = await viewOf(tx, stackIn(now), seen);
      const before = await viewOf(tx, stackIn(then), { ...seen, to: current.to });
      for (const cell of cellsOf(changed.parts, current.parts, before.parts, before.to)) {
        // What was written since is a change in any case; what only lies elsewhere may be the same.
        if (other.length > 0 && isSamePart(cell)) continue;
        if (cell.now === undefined && cell.before === undefined) continue;
        if (found.add(cell, cell.now === undefined)) continue;
        return { items: found.items, next: cell.offset };
      }
      parts += changed.parts.length + current.parts.length + before.parts.length;
      from = before.to;
    }
    return { items: found.items };
  };
}

/** The rows of the layers above one that is among them. */
function rowsAbove(chain: readonly Chained[], layer: string): bigint[] {
  const at = chain.findIndex(({ id }) => id === layer);
  return chain.slice(0, at).map(({ layer: { rows } }) => idOf(rows));
}

export async function* noLooks(): AsyncGenerator<readonly Marked[], undefined> {}

/** One look after another, each in a transaction of its own; ranges that go on in the next one are joined. */
export async function* allLooks(
  engine: Engine,
  look: Look,
  { range, limit, partsMax }: Asked,
): AsyncGenerator<readonly Marked[], number | undefined> {
  const end = range.start + range.count;
  let given = 0;
  let last: Marked | undefined;
  for (let from = range.start; ; ) {
    const asked = { range: { start: from, count: end - from }, limit: limit - given, partsMax };
    const found = await engine.read((tx) => look(tx, asked));
    const joined = new Joined(limit - given);
    if (last !== undefined) joined.add({ offset: last.start, count: last.count }, last.isCleared);
    for (const { start, count, isCleared } of found?.items ?? []) {
      if (joined.add({ offset: start, count }, isCleared)) continue;
      yield joined.items;
      return start;
    }
    if (!found?.isCut || found.next === undefined) {
      yield joined.items;
      return found?.next;
    }
    last = joined.items.at(-1);
    const known = joined.items.slice(0, -1);
    given += known.length;
    yield known;
    from = found.next;
  }
}

/** Ranges that come in order, neighbours of one kind made one, up to a number of them. */
class Joined {
  readonly items: Marked[] = [];
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Whether there was room for it. A range that goes on needs none, so only one too many ends a list. */
  add({ offset, count }: { readonly offset: number; readonly count: number }, isCleared: boolean) {
    const last = this.items.at(-1);
    if (last?.isCleared === isCleared && last.start + last.count === offset) {
      this.items[this.items.length - 1] = { ...last, count: last.count + count };
      return true;
    }
    if (this.items.length >= this.#limit) return false;
    this.items.push({ start: offset, count, isCleared });
    return true;
  }
}

/** Bytes that one part, or none, holds now, and one or none held then. */
type Cell = {
  readonly offset: number;
  readonly count: number;
  readonly now?: Placed;
  readonly before?: Placed;
};

/** All places of `where` before `end`, cut so that each lies within one part on both sides. */
function* cellsOf(
  where: readonly Placed[],
  now: readonly Placed[],
  before: readonly Placed[],
  end: number,
): Generator<Cell> {
  const current = new Cursor(now);
  const earlier = new Cursor(before);
  for (const place of where) {
    const stop = Math.min(endOf(place), end);
    for (let at = place.offset; at < stop; ) {
      const [nowPart, nowEnd] = current.at(at);
      const [oldPart, oldEnd] = earlier.at(at);
      const count = Math.min(stop, nowEnd, oldEnd) - at;
      yield {
        offset: at,
        count,
        ...(nowPart === undefined ? {} : { now: nowPart }),
        ...(oldPart === undefined ? {} : { before: oldPart }),
      };
      at += count;
    }
  }
}

/** Whether the same bytes of the same chunk are on both sides, or nothing. */
function isSamePart({ now, before }: Cell): boolean {
  if (now?.chunk?.id !== before?.chunk?.id) return false;
  return (
    now === undefined ||
    before === undefined ||
    now.start - now.offset === before.start - before.offset
  );
}

/** Finds parts by offsets that only grow. */
class Cursor {
  readonly #parts: readonly Placed[];
  #index = 0;

  constructor(parts: readonly Placed[]) {
    this.#parts = parts;
  }

  /** The part at an offset, unless there is a hole, and where that ends. */
  at(offset: number): [part: Placed | undefined, end: number] {
    for (;;) {
      const part = this.#parts[this.#index];
      if (part === undefined) return [undefined, Number.POSITIVE_INFINITY];
      if (part.offset > offset) return [undefined, part.offset];
      if (endOf(part) > offset) return [part.chunk === undefined ? undefined : part, endOf(part)];
      this.#index++;
    }
  }
}
