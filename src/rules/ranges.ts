import { StorageError } from "./errors.ts";

/** Bytes asked for, both ends inclusive; no end means all the rest. */
export type RangeAsked = { readonly start: number; readonly end?: number };

/** Bytes to send. */
export type Range = { readonly start: number; readonly count: number };

const FORM = /^bytes=(\d{1,19})-(\d{1,19})?$/; // up to 64 bits; beyond 2^53 they are rounded, far behind any end

/**
 * A range header. Only `bytes=a-` and `bytes=a-b` count; any other form is as good as none
 * ("Specifying the Range Header for Blob Service Operations").
 */
export function parseRange(text: string | undefined): RangeAsked | undefined {
  const match = text === undefined ? null : FORM.exec(text);
  if (match === null) return undefined;
  const start = Number(match[1]);
  if (match[2] === undefined) return { start };
  const end = Number(match[2]);
  return end < start ? undefined : { start, end };
}

/** The part of `size` bytes that a range means: its end is clipped, a start beyond the end is an error. */
export function rangeOf(asked: RangeAsked | undefined, size: number): Range {
  if (asked === undefined) return { start: 0, count: size };
  if (asked.start >= size) {
    // An empty blob is read whole by a range that asks for its first byte only.
    if (size === 0 && asked.start === 0 && asked.end === 0) return { start: 0, count: 0 };
    throw new StorageError("InvalidRange");
  }
  const end = Math.min(asked.end ?? size - 1, size - 1);
  return { start: asked.start, count: end - asked.start + 1 };
}
