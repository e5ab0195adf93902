import { type ErrorCode, invalidHeader, missingHeader, StorageError } from "./errors.ts";
import { parseRange, type Range } from "./ranges.ts";

/** Page blobs are written in pages of this size. */
export const PAGE_SIZE = 512;
/** How large a page blob may be, and what one Put Page may write ("Scalability and performance targets"). */
export const PAGE_BLOB_SIZE_MAX: number = 8 * 1024 ** 4;
export const PAGES_SIZE_MAX: number = 4 * 1024 * 1024;
const SEQUENCE_NUMBER_MAX = 2n ** 63n - 1n;

/** The size of a page blob as x-ms-blob-content-length has it: whole pages, up to 8 TiB. */
export function pageBlobSize(text: string): number {
  const size = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (size > PAGE_BLOB_SIZE_MAX) {
    throw new StorageError("RequestBodyTooLarge", { MaxLimit: String(PAGE_BLOB_SIZE_MAX) });
  }
  if (size % PAGE_SIZE !== 0) throw invalidHeader("x-ms-blob-content-length", text);
  return size;
}

/** The pages that a write is about: both ends must be given and lie at the edges of pages. */
export function pagesOf(name: string, text: string | undefined): Range {
  if (text === undefined) throw missingHeader(name);
  const asked = parseRange(text);
  if (asked?.end === undefined) throw invalidHeader(name, text);
  const count = asked.end - asked.start + 1;
  if (asked.start % PAGE_SIZE !== 0 || count % PAGE_SIZE !== 0) {
    throw new StorageError("InvalidPageRange");
  }
  return { start: asked.start, count };
}

/** The smallest range of whole pages around a range; the size of a page blob is whole pages too. */
export function wholePages({ start, count }: Range): Range {
  const first = start - (start % PAGE_SIZE);
  const end = Math.ceil((start + count) / PAGE_SIZE) * PAGE_SIZE;
  return { start: first, count: end - first };
}

/** A sequence number, 0 up to 2^63 - 1, as a header has it. */
export function sequenceNumber(name: string, text: string): bigint {
  const number = /^\d{1,19}$/.test(text) ? BigInt(text) : -1n;
  if (number < 0n || number > SEQUENCE_NUMBER_MAX) throw invalidHeader(name, text);
  return number;
}

/** What a write asks of the sequence number; all that are there must hold. */
export type SequenceConditions = {
  readonly atMost?: bigint;
  readonly below?: bigint;
  readonly equal?: bigint;
};

/** Why a page blob with this sequence number may not be written ("Put Page"). */
export function failedSequence(
  { atMost, below, equal }: SequenceConditions,
  number: bigint,
): ErrorCode | undefined {
  const isMet =
    (atMost === undefined || number <= atMost) &&
    (below === undefined || number < below) &&
    (equal === undefined || number === equal);
  return isMet ? undefined : "SequenceNumberConditionNotMet";
}

/** What Set Blob Properties does to the sequence number. */
export type SequenceAction =
  | { readonly action: "max" | "update"; readonly number: bigint }
  | { readonly action: "increment" };

/** The action that two headers name; "increment" takes no number, the others need one. */
export function sequenceAction(
  action: string | undefined,
  number: string | undefined,
): SequenceAction | undefined {
  const NUMBER = "x-ms-blob-sequence-number";
  const ACTION = "x-ms-sequence-number-action";
  if (action === undefined) {
    if (number !== undefined) throw missingHeader(ACTION);
    return undefined;
  }
  const name = action.toLowerCase();
  if (name === "increment") {
    if (number !== undefined) throw invalidHeader(NUMBER, number);
    return { action: name };
  }
  if (name !== "max" && name !== "update") throw invalidHeader(ACTION, action);
  if (number === undefined) throw missingHeader(NUMBER);
  return { action: name, number: sequenceNumber(NUMBER, number) };
}

/** The sequence number after an action. */
export function sequenceAfter(number: bigint, action: SequenceAction): bigint | ErrorCode {
  if (action.action === "update") return action.number;
  if (action.action === "max") return action.number > number ? action.number : number;
  return number === SEQUENCE_NUMBER_MAX ? "SequenceNumberIncrementTooLarge" : number + 1n;
}
