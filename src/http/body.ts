import type { IncomingMessage } from "node:http";
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

/** The body of a request, not yet read. A client that stops sending is cut off by the socket's time limit. */
export function receiveBody(incoming: IncomingMessage): RequestBody {
  const announced = incoming.headers["content-length"];
  const chunked = incoming.headers["transfer-encoding"] !== undefined;
  return {
    size: announced === undefined ? (chunked ? undefined : 0) : Number(announced),
    whole: () => whole(incoming),
    stream: () => stream(incoming),
  };
}

function whole(incoming: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => void parts.push(part));
    incoming.on("end", () => {
      resolve(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
    });
    const leave = () => {
      if (!incoming.complete) reject(new ClientGone());
    };
    incoming.on("close", leave);
    incoming.on("error", leave);
  });
}

async function* stream(incoming: IncomingMessage): AsyncGenerator<Uint8Array> {
  try {
    for await (const part of incoming) yield part as Buffer;
  } catch {
    throw new ClientGone();
  }
  if (!incoming.complete) throw new ClientGone();
}

/** The size of a body that must be announced, or the error for one that is not, or is too large. */
export function bodySize(body: RequestBody, sizeMax: number): number {
  if (body.size === undefined) throw new StorageError("MissingContentLengthHeader");
  if (body.size > sizeMax) {
    throw new StorageError("RequestBodyTooLarge", { MaxLimit: String(sizeMax) });
  }
  return body.size;
}
