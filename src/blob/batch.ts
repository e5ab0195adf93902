import { STATUS_CODES } from "node:http";
import { noRequestBody } from "../http/body.ts";
import { type Part, parseMultipart } from "../http/multipart.ts";
import {
  batchOperation,
  type InnerRequest,
  type Level,
  type Reply,
  type Request,
  theService,
} from "../http/operation.ts";
import { parseAddress } from "../http/parse.ts";
import { errorReply } from "../http/reply.ts";
import { invalidHeader, missingHeader, StorageError } from "../rules/errors.ts";
import { blobPlace } from "./place.ts";
import { theContainer } from "./resource.ts";

const SIZE_MAX = 4 * 1024 * 1024;
const PARTS_MAX = 256;
const ALLOWED = ["Delete Blob", "Set Blob Tier"];

function boundaryOf(request: Request): string {
  const type = request.header("content-type");
  if (type === undefined) throw missingHeader("Content-Type");
  const boundary = /^multipart\/mixed\s*;.*?\bboundary=(?:"([^"]{1,70})"|([^\s;,"]{1,70}))/i.exec(
    type,
  );
  const text = boundary?.[1] ?? boundary?.[2];
  if (text === undefined) throw invalidHeader("Content-Type", type);
  return text;
}

/** The parts of a batch: at least one, all of one kind, each with a request line of its own. */
function partsOf(request: Request, body: Buffer): Part[] {
  const parts = parseMultipart(body, boundaryOf(request));
  if (parts === undefined || parts.length === 0) throw new StorageError("InvalidInput");
  if (parts.length > PARTS_MAX) throw new StorageError("ExceedsMaxBatchRequestCount");
  if (new Set(parts.map(({ method }) => method)).size > 1) throw new StorageError("InvalidInput");
  return parts;
}

/** Many deletes or changes of tier in one request; each is judged and done by itself ("Blob Batch"). */
const batch = (name: string, on: Level, restype?: string) =>
  batchOperation({
    name,
    match: { method: "POST", on, comp: "batch", ...(restype === undefined ? {} : { restype }) },
    // Each part is judged by its own rights; whoever sends them must have some.
    allow: { ...{ sas: "dw", service: "dw", user: "dw" }, resource: on === "service" ? "s" : "c" },
    body: { kind: "whole", sizeMax: SIZE_MAX },
    guard: { on: on === "service" ? theService : theContainer, conditions: "none", lease: "own" },
    input: (request, { bytes }) => partsOf(request, bytes),
    async answer({ request, input: parts, around }) {
      const door = around.doors.get(request.service);
      const container = on === "service" ? undefined : request.names[0];
      const answers = await Promise.all(
        parts.map(async (part) => {
          try {
            if (door === undefined) throw new StorageError("InternalError");
            if (container !== undefined) refuseElsewhere(part, request, container);
            return await door.answer(innerOf(part, request));
          } catch (error) {
            const refused =
              error instanceof StorageError ? error : new StorageError("InternalError");
            return errorReply(refused, request.id);
          }
        }),
      );
      const boundary = `batchresponse_${around.ids.guid()}`;
      const body = `${answers.map((reply, i) => partText(boundary, parts[i], reply, request)).join("")}--${boundary}--\r\n`;
      const headers = { "Content-Type": `multipart/mixed; boundary=${boundary}` };
      return { status: 202, headers, body };
    },
  });

export const blobBatch = [
  batch("Blob Batch", "service"),
  batch("Blob Batch (container)", "container", "container"),
  // SDKs take the account in a path-style URL for a container, and say so.
  batch("Blob Batch (path style)", "service", "container"),
];

/** Parts name the account where the batch does: in the path, or in the host. */
const hostOf = ({ endpoint }: Request): string => {
  const { host, pathname } = new URL(endpoint);
  return pathname === "/" ? host : "localhost";
};

const innerOf = ({ method, url, headers }: Part, request: Request): InnerRequest => ({
  message: {
    method,
    url,
    headers: {
      host: hostOf(request),
      ...Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value])),
    },
    rawHeaders: headers.flat(),
  },
  secure: request.endpoint.startsWith("https:"),
  body: noRequestBody,
  client: request.client,
  version: request.version,
  only: ALLOWED,
});

/** A part of a container's batch may name only that container's blobs. */
function refuseElsewhere(part: Part, request: Request, container: string): void {
  const { account, segments } = parseAddress(innerOf(part, request).message, false);
  const [name] = blobPlace(segments, new Map()).names;
  if (account !== request.account || name !== container) throw new StorageError("InvalidInput");
}

function partText(
  boundary: string,
  part: Part | undefined,
  { status, headers, body }: Reply,
  request: Request,
): string {
  const id = part?.contentId === undefined ? "" : `Content-ID: ${part.contentId}\r\n`;
  const all = Object.entries({
    ...headers,
    "x-ms-request-id": request.id,
    "x-ms-version": request.version,
  });
  const lines = all.flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}: ${value}\r\n`],
  );
  const text = typeof body === "string" ? body : "";
  return `--${boundary}\r\nContent-Type: application/http\r\n${id}\r\nHTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n${text}\r\n`;
}
