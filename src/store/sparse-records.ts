import type { Instant } from "../base/time.ts";
import type { Chunk } from "./records.ts";
import type { Codec } from "./subspace.ts";

/** Content that is written in place; it stands in its owner's record, and only there. */
export type Sparse = { readonly sparse: string };

/** Where a content's bytes begin to be looked for. */
export type SparseRecord = { readonly top: string };

/**
 * Changes laid over a parent, or over nothing. It is written only while one content and nothing else stands
 * on it; `rows` names its rows. `whole` names rows that hold its parents' bytes as well, so that a reader
 * need not go further down; until all of them are there, `done` says how far they go.
 */
export type LayerRecord = {
  readonly rows: string;
  readonly parent?: string;
  /** How many contents begin here. */
  readonly contents: number;
  /** How many layers stand on it; each has a row of its own beside this record. */
  readonly children: number;
  readonly whole?: { readonly rows: string; readonly done?: number };
};

/**
 * Work on layers for the background: a layer that may be needed no more or by one other only, rows that
 * nobody reads any more, a layer that is to hold its parents' bytes as well.
 */
export type SparseGarbage =
  | { readonly layer: string }
  | { readonly rows: string }
  | { readonly whole: string };

/** Bytes of a layer from an offset on: a part of a chunk that begins at `start`, or, without one, a hole. */
export type SparsePart = {
  readonly count: number;
  readonly chunk?: Chunk;
  readonly start: number;
};

/** That small parts lie side by side here, since when. */
export type WornRecord = { readonly at: Instant };

const HOLE = 0;
const HEAP = 1;
const FILE = 2;
/** Added to the kind of a chunk that is encrypted; its first counter stands before its name. */
const SEALED = 16;
const IV_SIZE = 16;
const HEAD_SIZE = 16;

/** Fixed fields in few bytes, because there may be very many: version, kind, count, start, size of the chunk. */
export const sparsePart: Codec<SparsePart> = {
  encode({ count, chunk, start }) {
    const isFile = chunk?.at === "file";
    const tail = chunk === undefined ? 0 : isFile ? Buffer.byteLength(chunk.id, "latin1") : 12;
    const iv = chunk?.iv === undefined ? undefined : Buffer.from(chunk.iv, "base64");
    const at = HEAD_SIZE + (iv === undefined ? 0 : IV_SIZE);
    const bytes = Buffer.alloc(at + tail);
    bytes[0] = 1;
    bytes[1] =
      (chunk === undefined ? HOLE : isFile ? FILE : HEAP) + (iv === undefined ? 0 : SEALED);
    iv?.copy(bytes, HEAD_SIZE);
    bytes.writeUIntBE(count, 2, 6);
    bytes.writeUInt32BE(start, 8);
    bytes.writeUInt32BE(chunk?.size ?? 0, 12);
    if (chunk === undefined) return bytes;
    if (isFile) bytes.write(chunk.id, at, "latin1");
    else {
      bytes.writeBigUInt64BE(BigInt(`0x${chunk.id}`), at);
      bytes.writeUInt32BE(chunk.sum ?? 0, at + 8);
    }
    return bytes;
  },
  decode(encoded) {
    const bytes = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength);
    if (bytes[0] !== 1) throw new Error(`a record has the unknown version ${bytes[0]}`);
    const count = bytes.readUIntBE(2, 6);
    const start = bytes.readUInt32BE(8);
    if (bytes[1] === HOLE) return { count, start };
    const size = bytes.readUInt32BE(12);
    const kind = bytes[1] ?? HOLE;
    const isSealed = kind >= SEALED;
    const at = HEAD_SIZE + (isSealed ? IV_SIZE : 0);
    const sealed = isSealed ? { iv: bytes.toString("base64", HEAD_SIZE, at) } : {};
    if (kind % SEALED === FILE) {
      return {
        count,
        start,
        chunk: { at: "file", id: bytes.toString("latin1", at), size, ...sealed },
      };
    }
    const id = bytes.readBigUInt64BE(at).toString(16);
    const sum = bytes.readUInt32BE(at + 8);
    return { count, start, chunk: { at: "heap", id, size, sum, ...sealed } };
  },
};
