import type { Range } from "../rules/ranges.ts";
import type { Staged } from "../store/content.ts";
import type { FileRecord } from "../store/file-records.ts";
import type { ShareTx } from "./tree.ts";

const PAGE = 512;

const zeros = (size: number): Staged => ({ size, parts: [{ bytes: Buffer.alloc(size) }] });

/** Frees whole pages of 512 bytes; the ends of a range that cover none are written as zeros ("Put Range"). */
export async function cleared(
  { tx, sparse }: Pick<ShareTx, "tx" | "sparse">,
  content: FileRecord["content"],
  { start, count }: Range,
): Promise<void> {
  const end = start + count;
  const first = Math.min(Math.ceil(start / PAGE) * PAGE, end);
  const last = Math.max(Math.floor(end / PAGE) * PAGE, first);
  if (first > start) await sparse.write(tx, content, start, zeros(first - start));
  if (last > first) await sparse.clear(tx, content, { start: first, count: last - first });
  if (end > last) await sparse.write(tx, content, last, zeros(end - last));
}
