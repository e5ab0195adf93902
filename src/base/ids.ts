import { randomBytes } from "node:crypto";

/** The only source of randomness in the program; tests pass their own. */
export type Ids = {
  /** A new GUID, in lower case with dashes. */
  guid(): string;
};

const POOL_SIZE = 16 * 256;
let pool = Buffer.alloc(0);
let at = 0;

/** Random bytes that are never told to anyone beforehand, such as the first counter of a cipher. */
export const freshBytes = (count: number): Buffer => randomBytes(count);

/** Random GUIDs, drawn from a pool because one call for each request would cost more than the rest. */
export const randomIds: Ids = {
  guid() {
    if (at + 16 > pool.length) {
      pool = randomBytes(POOL_SIZE);
      at = 0;
    }
    const hex = pool.toString("hex", at, at + 16);
    at += 16;
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
  },
};

/** Random bytes, as many as wanted: those of GUIDs that have no fixed meaning. */
export function drawnBytes(ids: Ids, size: number): Buffer {
  let hex = "";
  while (hex.length < 2 * size) {
    const guid = ids.guid();
    hex += guid.slice(0, 8) + guid.slice(9, 13) + guid.slice(24);
  }
  return Buffer.from(hex.slice(0, 2 * size), "hex");
}
