import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP } from "node:net";
import type { ByteStream } from "../base/bytes.ts";
import { errors, invalidHeader, StorageError } from "../rules/errors.ts";
import { NEWEST_VERSION } from "../rules/versions.ts";
import type { Opened } from "../store/content.ts";
import { noRequestBody } from "./body.ts";
import type {
  Asker,
  HeaderValue,
  InnerDoor,
  LocalSource,
  OpenSource,
  Reply,
  Request,
  Service,
  SourceAsk,
  Sources,
} from "./operation.ts";
import { parseAddress } from "./parse.ts";

export type SourcesOptions = {
  readonly doors: ReadonlyMap<Service, InnerDoor>;
  /** The port that each service listens on. */
  readonly ports: ReadonlyMap<number, Service>;
  /** Hosts that may be read from beside this server: names, `*.domain`, or `*` for all. */
  readonly hosts: readonly string[];
  /**
   * Whether whatever else listens on this machine may be read from, too: not where others than this machine
   * ask, who would come to see through us what is not meant for them.
   */
  readonly isLocal?: boolean;
};

const URL_SIZE_MAX = 2048;
const ANSWER_LIMIT_MS = 30_000;
const LOCAL_NAMES = new Set(["localhost", "127.0.0.1", "[::1]"]);
const HOST_STYLE = /^[^.]+\.(?:blob|queue|table|file)\./i;

/** Where a header says a copy reads from. */
export function sourceUrlOf(request: Pick<Request, "header">): URL {
  const name = "x-ms-copy-source";
  const text = request.header(name) ?? "";
  const url = text.length > URL_SIZE_MAX || !URL.canParse(text) ? undefined : new URL(text);
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== "") {
    throw invalidHeader(name, text);
  }
  return url;
}

/** A URL as it may be kept and shown: a signature in it would let every reader in. */
export function withoutSignature(url: URL): string {
  if (!url.searchParams.has("sig")) return url.href; // as it was sent: taking one out spells the others anew
  const shown = new URL(url);
  // Differs from Azure: the signature of a copy's source is left out where the source is shown.
  shown.searchParams.delete("sig");
  return shown.href;
}

/** Sources of copies: our own are read in this process, others over HTTP, where that is allowed. */
export function copySources(options: SourcesOptions): Sources {
  return {
    local: (url, asker) => localSource(options, url, asker),
    async open(ask, asker) {
      const own = localSource(options, ask.url, asker);
      try {
        return own === undefined
          ? await openRemote(options, ask)
          : await openLocal(options, own, ask, asker);
      } catch (error) {
        throw asCopyError(error);
      }
    },
  };
}

/** A host without the account and service that its name may begin with. */
const machineOf = (hostname: string): string => hostname.toLowerCase().replace(HOST_STYLE, "");

/** Where the request went to, unless its host is none that a URL can have. */
const askedUrl = ({ endpoint }: Asker): URL | undefined =>
  URL.canParse(endpoint) ? new URL(endpoint) : undefined;

/**
 * What a URL names of ours: one of our ports on this machine, or on the host that the request itself named.
 * Another machine may well serve on the same ports, and an account of the same name.
 */
function localSource({ ports }: SourcesOptions, url: URL, asker: Asker): LocalSource | undefined {
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  const service = ports.get(port);
  if (service === undefined) return undefined;
  const machine = machineOf(url.hostname);
  const asked = askedUrl(asker);
  const isMine = LOCAL_NAMES.has(machine) || machine === machineOf(asked?.hostname ?? "");
  if (!isMine) return undefined;
  // Where the request has its account in the path, a source at the same host has it there, too.
  const isByPath = url.host === asked?.host && asked.pathname !== "/";
  const headers = { host: isByPath ? "localhost" : url.host };
  const message = { method: "GET", url: url.pathname + url.search, headers, rawHeaders: [] };
  return { service, message };
}

/** Whether the one who asks may read a source because it is in the same account, which is theirs. */
export const isCovered = (own: LocalSource, asker: Asker): boolean =>
  asker.caller.kind === "owner" && isNear(own, asker);

/** Whether a source is in the account of the request and brings no right of its own. */
function isNear({ message }: LocalSource, asker: Asker): boolean {
  const { account, parameters } = parseAddress(message, false);
  return account === asker.account && !parameters.some(([name]) => name === "sig");
}

async function openLocal(
  { doors }: SourcesOptions,
  own: LocalSource,
  { url, method, headers }: SourceAsk,
  asker: Asker,
): Promise<OpenSource> {
  const door = doors.get(own.service);
  if (door === undefined) throw new StorageError("ResourceNotFound");
  const all: Record<string, string> = { "x-ms-version": NEWEST_VERSION, ...headers };
  const message = {
    ...own.message,
    method,
    headers: { ...own.message.headers, ...all },
    rawHeaders: Object.entries(all).flat(),
  };
  // Whoever holds a key or a token reads in the account what they may; a SAS is good for its own resource alone.
  // Differs from Azure: a source in the same account needs no signature in Put Block From URL and its like either.
  const isTheirs = all.authorization === undefined && isNear(own, asker);
  const { kind } = asker.caller;
  const caller = isTheirs && (kind === "owner" || kind === "user") ? asker.caller : undefined;
  const only = [
    "Get Blob",
    "Get Blob Properties",
    "Get Blob Tags",
    "Get File",
    "Get File Properties",
  ];
  const secure = url.protocol === "https:";
  const inner = { message, secure, body: noRequestBody, caller, only };
  return replySource(await door.answer(inner));
}

function replySource({ status, headers, body }: Reply): OpenSource {
  const byName = new Map(
    Object.entries(headers).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name.toLowerCase(), String(value)]],
    ),
  );
  const opened = typeof body === "object" ? body : undefined;
  const text = typeof body === "string" ? [Buffer.from(body)] : [];
  return {
    status,
    header: (name) => byName.get(name),
    metadata: metadataIn(Object.entries(headers)),
    stream: () => (opened === undefined ? each(text) : bytesOf(opened)),
    close: () => opened?.close(),
  };
}

const META = "x-ms-meta-";

const metadataIn = (headers: readonly (readonly [string, HeaderValue])[]): [string, string][] =>
  headers
    .filter(([name]) => name.toLowerCase().startsWith(META))
    .map(([name, value]) => [name.slice(META.length), String(value)]);

const pairsOf = (raw: readonly string[]): [string, string][] =>
  raw.flatMap((name, i): [string, string][] => (i % 2 === 0 ? [[name, raw[i + 1] ?? ""]] : []));

async function* each(parts: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts;
}

async function* bytesOf(opened: Opened): AsyncGenerator<Uint8Array> {
  if (opened.bytes === undefined) yield* opened.stream();
  else yield* opened.bytes;
}

async function openRemote(options: SourcesOptions, ask: SourceAsk): Promise<OpenSource> {
  const { url, method, headers } = ask;
  const address = await allowedAddress(options, url);
  const send = url.protocol === "https:" ? requestHttps : requestHttp;
  const outgoing = send(url, {
    method,
    headers,
    agent: false,
    // The address that was judged is the one that is called: a name may lead elsewhere the next time.
    lookup: (_name, _options, done) => done(null, [address]),
    timeout: ANSWER_LIMIT_MS,
  });
  outgoing.on("timeout", () => outgoing.destroy(new Error("the source does not answer in time")));
  outgoing.end();
  const [answer] = (await once(outgoing, "response")) as [IncomingMessage];
  const status = answer.statusCode ?? 500;
  if (status < 200 || status >= 300) {
    answer.destroy();
    // A redirect is an answer like any other: it is not followed.
    const ours = status >= 400 || status === 304 ? status : 409;
    throw sourceRefused(ours, `The source answered ${status}.`);
  }
  return {
    status,
    header: (name) => {
      const value = answer.headers[name];
      return typeof value === "string" ? value : undefined;
    },
    metadata: metadataIn(pairsOf(answer.rawHeaders)),
    stream: () => wholeAnswer(answer),
    close: () => answer.destroy(),
  };
}

async function* wholeAnswer(answer: IncomingMessage): ByteStream {
  try {
    for await (const part of answer) yield part as Buffer;
  } catch {
    throw sourceRefused(500, "The source broke off.");
  }
}

type Found = { readonly address: string; readonly family: number };

/** The address of a host that may be read from. */
async function allowedAddress(
  { hosts, isLocal = false }: SourcesOptions,
  { hostname }: URL,
): Promise<Found> {
  const host = hostname.replace(/^\[|\]$/g, "").toLowerCase();
  const family = isIP(host);
  let found: readonly Found[];
  try {
    found = family === 0 ? await lookup(host, { all: true }) : [{ address: host, family }];
  } catch {
    throw sourceRefused(404, `The source's host ${host} is not known.`);
  }
  const isListed = hosts.some((pattern) => matches(pattern.toLowerCase(), host));
  const [first] = found;
  const isHere = isLocal && found.every(({ address }) => isLoopback(address));
  if (first !== undefined && (isListed || isHere)) {
    return first;
  }
  throw sourceRefused(403, `Reading from ${host} is not allowed here: --copySources lists hosts.`);
}

const matches = (pattern: string, host: string): boolean =>
  pattern === "*" ||
  pattern === host ||
  (pattern.startsWith("*.") && host.endsWith(pattern.slice(1)));

const isLoopback = (address: string): boolean =>
  address.startsWith("127.") || address === "::1" || address.startsWith("::ffff:127.");

const sourceRefused = (status: number, reason: string): StorageError =>
  new StorageError("CannotVerifyCopySource", { Reason: reason }, status);

/** What went wrong with a source, as the copy answers it ("Copy Blob From URL", errors). */
function asCopyError(error: unknown): StorageError {
  if (error instanceof StorageError) {
    if (error.code === "CannotVerifyCopySource") {
      return error.status === 304 || error.status === 412
        ? new StorageError("SourceConditionNotMet")
        : error;
    }
    const [status, message] = errors[error.code];
    if (status === 304 || status === 412) return new StorageError("SourceConditionNotMet");
    return sourceRefused(status, `${error.code}: ${message}`);
  }
  return sourceRefused(500, `The source cannot be read: ${(error as Error).message}.`);
}
