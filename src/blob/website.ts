import type { SecureContextOptions } from "node:tls";
import { ownerOf } from "../auth/caller.ts";
import type { Log } from "../base/log.ts";
import { escapeXml } from "../base/xml.ts";
import type { Engine } from "../engine/engine.ts";
import { ClientGone, noRequestBody } from "../http/body.ts";
import type { Served } from "../http/exchange.ts";
import type { HeaderValue, Reply, Surroundings } from "../http/operation.ts";
import type { Message } from "../http/parse.ts";
import { type Envelope, sendReply } from "../http/reply.ts";
import { errors, StorageError } from "../rules/errors.ts";
import { NEWEST_VERSION } from "../rules/versions.ts";
import { pageOf, type WebsiteSettings, websiteAccountOf } from "../rules/website.ts";
import { services } from "../store/keys.ts";

export type WebsiteOptions = {
  readonly engine: Engine;
  readonly around: Surroundings;
  /** The certificate, if it speaks TLS. */
  readonly tls: SecureContextOptions | undefined;
  readonly log: Log;
};

const CONTAINER = "$web";
const SERVER_NAME = "Windows-Azure-Web/1.0 Microsoft-HTTPAPI/2.0 Lazuli";
const URL_SIZE_MAX = 8 * 1024;

/** Request headers that Get Blob heeds; all others of a browser mean nothing here. */
const PASSED = [
  "range",
  "if-match",
  "if-none-match",
  "if-modified-since",
  "if-unmodified-since",
] as const;

/** What a browser is told of a blob; leases, tiers and metadata are not for it. */
const SHOWN = new Set(
  "Content-Type Content-Encoding Content-Language Content-Disposition Cache-Control Content-Length Content-Range Content-MD5 Accept-Ranges ETag Last-Modified".split(
    " ",
  ),
);

/** Static websites: what is in $web, to anybody, where an account's blob service says so. */
export const websiteService =
  (options: WebsiteOptions) =>
  (exchange: Served): void =>
    void serve(options, exchange);

async function serve(options: WebsiteOptions, exchange: Served): Promise<void> {
  const { around, log } = options;
  const { head } = exchange;
  const envelope: Envelope = {
    requestId: around.ids.guid(),
    clientId: undefined,
    version: NEWEST_VERSION,
    server: SERVER_NAME,
    cors: undefined,
  };
  try {
    const reply = head.url === "/healthz" ? healthy : await answer(options, head);
    await sendReply(exchange, envelope, reply);
  } catch (error) {
    if (!(error instanceof StorageError || error instanceof ClientGone)) {
      const fault = error instanceof Error ? error : new Error(String(error));
      log.error("a request failed", { requestId: envelope.requestId, error: fault.stack });
    }
    if (error instanceof ClientGone || exchange.isGone || exchange.isBegun) {
      exchange.destroy();
      return;
    }
    const known = error instanceof StorageError ? error : new StorageError("InternalError");
    await sendReply(exchange, envelope, errorPage(known));
  } finally {
    if (log.requests) {
      const { method, url } = head;
      const { status } = exchange;
      log.info("website", { requestId: envelope.requestId, method, path: url, status });
    }
  }
}

const healthy: Reply = { status: 200, headers: { "Content-Type": "text/plain" }, body: "OK\n" };

async function answer(options: WebsiteOptions, incoming: Message): Promise<Reply> {
  const { engine, around } = options;
  const accounts = around.authority.accounts(); // a host that names none of them means the first
  if (incoming.method !== "GET" && incoming.method !== "HEAD") {
    throw new StorageError("UnsupportedHttpVerb");
  }
  const [first] = accounts.keys();
  const account = websiteAccountOf(incoming.headers.host ?? "") ?? first ?? "";
  const record = accounts.has(account)
    ? await engine.read((tx) => services.get(tx, account, "blob"))
    : undefined;
  const settings = record?.staticWebsite;
  if (settings === undefined || !settings.enabled) throw new StorageError("WebContentNotFound");
  const path = pathOf(incoming.url);
  const page = pageOf(path, settings);
  try {
    if (page === undefined) throw new StorageError("WebContentNotFound");
    return await blobReply(options, incoming, account, page, passedOf(incoming));
  } catch (error) {
    if (!(error instanceof StorageError) || errors[error.code][0] !== 404) throw error;
    return notFound(options, incoming, account, settings);
  }
}

/** The error document with status 404; without one, or if it is missing itself, a page of our own. */
async function notFound(
  options: WebsiteOptions,
  incoming: Message,
  account: string,
  { errorDocument404Path: path }: WebsiteSettings,
): Promise<Reply> {
  const missing = new StorageError("WebContentNotFound");
  if (path === undefined || path === "") throw missing;
  try {
    // Conditions and ranges were about the page that is not there.
    const reply = await blobReply(options, incoming, account, path.replace(/^\//, ""), {});
    return { ...reply, status: 404 };
  } catch (error) {
    throw error instanceof StorageError ? missing : error;
  }
}

function passedOf({ headers }: Message): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of PASSED) {
    const value = headers[name];
    if (value !== undefined) passed[name] = value;
  }
  return passed;
}

/** Get Blob or Get Blob Properties, asked from within, as far as a browser is to see it. */
async function blobReply(
  { around, tls }: WebsiteOptions,
  incoming: Message,
  account: string,
  name: string,
  passed: Readonly<Record<string, string>>,
): Promise<Reply> {
  const door = around.doors.get("blob");
  if (door === undefined) throw new StorageError("ServerBusy");
  const path = [account, CONTAINER, ...name.split("/")].map(encodeURIComponent).join("/");
  const headers = { ...passed, host: "localhost", "x-ms-version": NEWEST_VERSION };
  const { method } = incoming;
  const reply = await door.answer({
    message: { method, url: `/${path}`, headers, rawHeaders: Object.entries(headers).flat() },
    secure: tls !== undefined,
    body: noRequestBody,
    caller: ownerOf(account),
    only: ["Get Blob", "Get Blob Properties"],
  });
  const shown: Record<string, HeaderValue> = {};
  for (const header of Object.keys(reply.headers)) {
    if (SHOWN.has(header)) shown[header] = reply.headers[header];
  }
  return { ...reply, headers: shown };
}

function pathOf(url: string): string {
  if (url.length > URL_SIZE_MAX) throw new StorageError("RequestUrlTooLong");
  const end = url.search(/[?#]/);
  try {
    return decodeURIComponent(end === -1 ? url : url.slice(0, end));
  } catch {
    throw new StorageError("InvalidUri");
  }
}

/** An error as a page for people. */
function errorPage({ code, details }: StorageError): Reply {
  const [status, message, wire] = errors[code] as readonly [number, string, string?];
  const headers = {
    "x-ms-error-code": wire ?? code,
    ...Object.fromEntries(Object.entries(details).filter(([name]) => name.includes("-"))),
  };
  if (status === 304) return { status, headers };
  const title = escapeXml(wire ?? code);
  const body = `<!DOCTYPE html><html><head><title>${title}</title></head><body><h1>${escapeXml(message)}</h1><ul><li>HttpStatusCode: ${status}</li><li>ErrorCode: ${title}</li></ul></body></html>`;
  const allow = code === "UnsupportedHttpVerb" ? { Allow: "GET, HEAD" } : {};
  return { status, headers: { ...headers, ...allow, "Content-Type": "text/html" }, body };
}
