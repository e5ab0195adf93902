import { decryption, encryption, IV_SIZE, type Transform } from "../base/cipher.ts";
import { freshBytes } from "../base/ids.ts";
import type { Chunk } from "./records.ts";

/** The first counter of what is encrypted, in base64. */
export type Sealed = { readonly iv?: string };

export const asIs: Transform = (bytes) => bytes;

/** How bytes are encrypted before they are kept: with a counter of their own, or not at all. */
export function sealing(key: Uint8Array | undefined): Sealed & { readonly seal: Transform } {
  if (key === undefined) return { seal: asIs };
  const iv = freshBytes(IV_SIZE);
  return { seal: encryption(key, iv), iv: iv.toString("base64") };
}

/** How the bytes of a chunk are read from `offset` on. Without a key they stay as they lie. */
export const opening = (key: Uint8Array | undefined, { iv }: Chunk, offset: number): Transform =>
  key === undefined || iv === undefined ? asIs : decryption(key, Buffer.from(iv, "base64"), offset);
