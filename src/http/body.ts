import { StorageError } from "../rules/errors.ts";
import type { RequestBody } from "./operation.ts";

/** The client went away in the middle of its body; there is nobody to answer. */
export class ClientGone extends Error {}

/** The body of a request that has none. */
export const noRequestBody: RequestBody = {
  size: 0,
  whole: async () => Buffer.alloc(0),
  async *stream() {},
};

/** The size of a body that must be announced, or the error for one that is not, or is too large. */
export function bodySize(body: RequestBody, sizeMax: number): number {
  if (body.size === undefined) throw new StorageError("MissingContentLengthHeader");
  if (body.size > sizeMax) {
    throw new StorageError("RequestBodyTooLarge", { MaxLimit: String(sizeMax) });
  }
  return body.size;
}
