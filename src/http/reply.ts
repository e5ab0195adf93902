import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ByteStream } from "../base/bytes.ts";
import { escapeXml, XML_DECLARATION } from "../base/xml.ts";
import { type CorsReply, exposedNames } from "../rules/cors.ts";
import { errors, type StorageError } from "../rules/errors.ts";
import type { ErrorBody, HeaderValue, Reply } from "./operation.ts";

/** What every reply carries, whatever became of the request. */
export type Envelope = {
  readonly requestId: string;
  readonly clientId: string | undefined;
  readonly version: string | undefined;
  readonly server: string;
  /** What a browser must be told, if rules of the service are about the request. */
  readonly cors: CorsReply | undefined;
};

/** Headers as one flat list of names and values, which is what Node writes fastest. */
function flat(envelope: Envelope, headers: Readonly<Record<string, HeaderValue>>): string[] {
  const list = ["Server", envelope.server, "x-ms-request-id", envelope.requestId];
  if (envelope.version !== undefined) list.push("x-ms-version", envelope.version);
  if (envelope.clientId !== undefined) list.push("x-ms-client-request-id", envelope.clientId);
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined) list.push(name, String(value));
  }
  if (envelope.cors !== undefined) addCors(list, envelope.cors);
  return list;
}

function addCors(list: string[], { headers, exposed }: CorsReply): void {
  if (exposed.length > 0) {
    const names = exposedNames(exposed, [...list.filter((_, i) => i % 2 === 0), "Date"]);
    if (names.length > 0) list.push("Access-Control-Expose-Headers", names.join(","));
  }
  list.push(...headers.flat());
}

const SMALL_BODY_MAX = 8 * 1024;

const latin1 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");

/** Sends a reply; resolves when its last byte is handed over, or the client is gone. */
export async function sendReply(
  outgoing: ServerResponse,
  envelope: Envelope,
  reply: Reply,
): Promise<void> {
  const headers = flat(envelope, reply.headers);
  const { body } = reply;
  if (body === undefined || typeof body === "string") {
    const hasLength = "Content-Length" in reply.headers;
    if (!hasLength && reply.status !== 204 && reply.status !== 304) {
      headers.push("Content-Length", String(body === undefined ? 0 : Buffer.byteLength(body)));
    }
    outgoing.writeHead(reply.status, headers);
    outgoing.end(outgoing.req.method === "HEAD" ? undefined : body);
    return;
  }
  try {
    outgoing.writeHead(reply.status, headers);
    if (body.bytes !== undefined) sendBytes(outgoing, body.bytes);
    else await sendStream(outgoing, body.stream());
  } finally {
    body.close();
  }
}

function sendBytes(outgoing: ServerResponse, parts: readonly Uint8Array[]): void {
  const [first] = parts;
  const bytes = parts.length === 1 && first !== undefined ? first : Buffer.concat(parts);
  // Node sends a text together with the headers in one piece, bytes apart from them.
  if (bytes.length <= SMALL_BODY_MAX) outgoing.end(latin1(bytes), "latin1");
  else outgoing.end(bytes);
}

async function sendStream(outgoing: ServerResponse, stream: ByteStream): Promise<void> {
  try {
    for await (const part of stream) {
      if (outgoing.destroyed) return;
      if (!outgoing.write(part)) await drained(outgoing);
    }
    outgoing.end();
  } catch (error) {
    outgoing.destroy(); // a reply that breaks off is the only way left to say that it is not whole
    throw error;
  }
}

async function drained(outgoing: ServerResponse): Promise<void> {
  if (outgoing.destroyed) return;
  const gone = new AbortController();
  const stop = () => gone.abort();
  outgoing.once("close", stop);
  try {
    await once(outgoing, "drain", { signal: gone.signal });
  } catch {
    // The client is gone; the loop that writes sees it.
  } finally {
    outgoing.off("close", stop);
  }
}

/** The message as Azure sends it, with what is needed to find the request in a log. */
export function errorText(message: string, requestId: string, now?: Date): string {
  const time = now === undefined ? "" : `\nTime:${now.toISOString().replace("Z", "0000Z")}`;
  return `${message}\nRequestId:${requestId}${time}`;
}

/** When one that was sent away may come again. */
const RETRY_AFTER_SECONDS = 1;

const errorXml: ErrorBody = ({ code, text, details }) => {
  const more = Object.entries(details)
    .map(([name, value]) => `<${name}>${escapeXml(value)}</${name}>`)
    .join("");
  const body = `${XML_DECLARATION}<Error><Code>${code}</Code><Message>${escapeXml(text)}</Message>${more}</Error>`;
  return { type: "application/xml", body };
};

/** An error as Azure writes it: code in a header, and in the body with the request's id and time. */
export function errorReply(
  { code, details, status, message }: Pick<StorageError, "code" | "details" | "status" | "message">,
  requestId: string,
  now?: Date,
  write: ErrorBody = errorXml,
): Reply & { readonly body: string } {
  const [, , wire = code] = errors[code] as readonly [number, string, string?];
  // Details whose names are those of headers go there, the others into the body.
  const all = Object.entries(details);
  const responseHeaders = Object.fromEntries(all.filter(([name]) => name.includes("-")));
  const { type, body } = write({
    code: wire,
    text: errorText(message, requestId, now),
    details: Object.fromEntries(all.filter(([name]) => !name.includes("-"))),
  });
  const headers = {
    "x-ms-error-code": wire,
    "Retry-After": status === 503 ? RETRY_AFTER_SECONDS : undefined,
    ...responseHeaders,
    "Content-Type": type,
    "Content-Length": Buffer.byteLength(body),
  };
  return { status, headers, body };
}

export function sendError(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  envelope: Envelope,
  error: Pick<StorageError, "code" | "details" | "status" | "message">,
  now: Date,
  write?: ErrorBody,
): void {
  const { status, headers, body } = errorReply(error, envelope.requestId, now, write);
  const hasBody = incoming.method !== "HEAD" && status !== 304;
  const sent = hasBody
    ? headers
    : {
        ...headers,
        "Content-Type": undefined,
        "Content-Length": status === 304 ? undefined : 0,
      };
  outgoing.writeHead(status, errors[error.code][1], flat(envelope, sent));
  outgoing.end(hasBody ? body : undefined);
}
