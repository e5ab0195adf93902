import type { Range } from "../rules/ranges.ts";
import { endOf, type Placed } from "./sparse-rows.ts";

/** Ranges that come in order, neighbours made one. */
export class Joined {
  readonly all: Range[] = [];

  add({ offset, count }: { readonly offset: number; readonly count: number }): void {
    const last = this.all.at(-1);
    if (last !== undefined && last.start + last.count === offset) {
      this.all[this.all.length - 1] = { start: last.start, count: last.count + count };
    } else {
      this.all.push({ start: offset, count });
    }
  }

  dropLast(): void {
    this.all.pop();
  }
}

/** Bytes that one part, or none, holds now, and one or none held then. */
export type Cell = {
  readonly offset: number;
  readonly count: number;
  readonly now?: Placed;
  readonly before?: Placed;
};

/** All places of `where` before `end`, cut so that each lies within one part on both sides. */
export function* cellsOf(
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
export function isSamePart({ now, before }: Cell): boolean {
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
