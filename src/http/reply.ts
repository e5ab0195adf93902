import { escapeXml, XML_DECLARATION } from "../base/xml.ts";
import { type CorsReply, exposedNames } from "../rules/cors.ts";
import { errors, type StorageError } from "../rules/errors.ts";
import type { Opened } from "../store/content.ts";
import type { Served } from "./exchange.ts";
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

/** Sends a reply; a promise only where the body is sent piece by piece: then it resolves at the end of it. */
export function sendReply(
  exchange: Served,
  envelope: Envelope,
  reply: Reply,
): Promise<void> | undefined {
  const headers = flat(envelope, reply.headers);
  const { status, body } = reply;
  if (body === undefined || typeof body === "string") {
    const hasLength = "Content-Length" in reply.headers;
    if (!hasLength && status !== 204 && status !== 304) {
      headers.push("Content-Length", String(body === undefined ? 0 : Buffer.byteLength(body)));
    }
    exchange.reply(status, headers, body);
    return undefined;
  }
  if (body.bytes === undefined) return sendStream(exchange, status, headers, body);
  try {
    const [first] = body.bytes;
    const isOne = body.bytes.length === 1 && first !== undefined;
    exchange.reply(status, headers, isOne ? first : Buffer.concat(body.bytes));
  } finally {
    body.close();
  }
  return undefined;
}

async function sendStream(
  exchange: Served,
  status: number,
  headers: readonly string[],
  body: Opened,
): Promise<void> {
  try {
    exchange.begin(status, headers);
    for await (const part of body.stream()) {
      if (exchange.isGone) return;
      const full = exchange.write(part);
      if (full !== undefined) await full;
    }
    exchange.end();
  } catch (error) {
    exchange.destroy(); // a reply that breaks off is the only way left to say that it is not whole
    throw error;
  } finally {
    body.close();
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
  exchange: Served,
  envelope: Envelope,
  error: Pick<StorageError, "code" | "details" | "status" | "message">,
  now: Date,
  write?: ErrorBody,
): void {
  const { status, headers, body } = errorReply(error, envelope.requestId, now, write);
  const hasBody = exchange.head.method !== "HEAD" && status !== 304;
  const sent = hasBody
    ? headers
    : {
        ...headers,
        "Content-Type": undefined,
        "Content-Length": status === 304 ? undefined : 0,
      };
  const [, reason] = errors[error.code];
  exchange.reply(status, flat(envelope, sent), hasBody ? body : undefined, reason);
}
