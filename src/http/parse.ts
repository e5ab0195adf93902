import { hash } from "node:crypto";
import { ownerOf } from "../auth/caller.ts";
import { parseBase64 } from "../base/bytes.ts";
import { KEY_SIZE } from "../base/cipher.ts";
import { parseTickText } from "../base/time.ts";
import { invalidHeader, invalidQuery, missingHeader, StorageError } from "../rules/errors.ts";
import { parseGuid } from "../rules/names.ts";
import { isServiceVersion, NEWEST_VERSION } from "../rules/versions.ts";
import { noRequestBody } from "./body.ts";
import { parseConditions } from "./conditions.ts";
import type { CustomerKey, Request, RequestBody, ServiceDefinition } from "./operation.ts";
import { type Head, isHost } from "./wire.ts";

const URL_SIZE_MAX = 32 * 1024;
const HEADER_COUNT_MAX = 256;
const CLIENT_ID_FORM = /^[\x20-\x7e]{1,1024}$/;

/** The URL taken apart; all that can be known before the request is authorized. */
export type Address = {
  readonly account: string;
  /** Whether the account stands in the host's name, not in the path. */
  readonly hostStyle: boolean;
  /** Everything before the query, as it was sent. */
  readonly rawPath: string;
  /** The path's parts after the account, decoded. */
  readonly segments: readonly string[];
  /** Parameters in the order they were sent, names in lower case, values decoded. */
  readonly parameters: readonly (readonly [string, string])[];
  readonly endpoint: string;
  /** Whether it came by the account's secondary address, which is for reading only. */
  readonly secondary: boolean;
};

const HOST_FORM = /^([a-z0-9]{3,24})(-secondary)?\.(blob|queue|table|file|dfs|web)\./i;

/** The head of a request, from a connection or made by ourselves. */
export type Message = Omit<Head, "minor" | "text">;

/**
 * Whether the request's account is in its host or in its path, and what the path and query say; with "path" it
 * is in the path, whatever form the host has.
 */
export function parseAddress(incoming: Message, secure: boolean, style?: "path"): Address {
  if (incoming.rawHeaders.length / 2 > HEADER_COUNT_MAX) {
    throw new StorageError("RequestHeaderFieldsTooLarge");
  }
  return addressOf(incoming.url, incoming.headers.host || "localhost", secure, style);
}

/** Takes a request's target and host apart. */
function addressOf(url: string, sentHost: string, secure: boolean, style?: "path"): Address {
  if (url.length > URL_SIZE_MAX) throw new StorageError("RequestUrlTooLong");
  const questionMark = url.indexOf("?");
  const target = questionMark === -1 ? url : url.slice(0, questionMark);
  const [rawPath, host = sentHost] = target.startsWith("/") ? [target] : wholeUrl(target);
  const parameters = questionMark === -1 ? [] : parseQuery(url.slice(questionMark + 1));
  const named = style === "path" ? null : HOST_FORM.exec(host);
  const parts = rawPath.slice(1).split("/").map(decoded);
  const origin = `${secure ? "https" : "http"}://${host}/`;
  if (named?.[1] !== undefined) {
    const account = named[1].toLowerCase();
    const secondary = named[2] !== undefined;
    const rest = { rawPath, segments: parts, parameters, endpoint: origin, secondary };
    return { account, hostStyle: true, ...rest };
  }
  const [first = "", ...segments] = parts;
  const secondary = first.endsWith("-secondary");
  const account = secondary ? first.slice(0, -"-secondary".length) : first;
  const endpoint = `${origin}${first}/`;
  return { account, secondary, hostStyle: false, rawPath, segments, parameters, endpoint };
}

/** Clients of a proxy send a whole URL; its path and host are what they mean (RFC 9112, 3.2.2). */
function wholeUrl(target: string): [path: string, host: string] {
  const match = /^https?:\/\/([^/]+)(\/.*)?$/i.exec(target);
  if (match?.[1] === undefined || !isHost(match[1])) throw new StorageError("InvalidUri");
  return [match[2] ?? "/", match[1]];
}

/** A part of a URL without its percent signs. */
export function decoded(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw new StorageError("InvalidUri");
  }
}

/** Parameters in their order, names in lower case. */
export function parseQuery(text: string): [string, string][] {
  const pairs: [string, string][] = [];
  for (const pair of text.split("&")) {
    if (pair === "") continue;
    const at = pair.indexOf("=");
    const name = decoded(at === -1 ? pair : pair.slice(0, at)).toLowerCase();
    const value = at === -1 ? "" : pair.slice(at + 1);
    const isForm = name.startsWith("$") || FORM_WRITTEN.has(name);
    pairs.push([name, decoded(isForm ? value.replaceAll("+", " ") : value)]);
  }
  return pairs;
}

/**
 * The texts in a signature. Some SDKs (.NET's and Go's) write spaces in them as forms do, and others those of
 * OData's options where they add a signature to the URL; a plus that is meant is %2B with all of them.
 */
const FORM_WRITTEN = new Set("rscc rscd rsce rscl rsct si ses spk srk epk erk".split(" "));

export type RequestIds = { readonly id: string; readonly clientId: string | undefined };

/** The client's own id for the request, if it is one that may be sent back. */
export function clientIdOf(incoming: Message): string | undefined {
  const id = incoming.headers["x-ms-client-request-id"];
  return id !== undefined && CLIENT_ID_FORM.test(id) ? id : undefined;
}

/** The version that a request says it speaks: in a header, a parameter, or by the signature of its URL. */
export function statedVersion(incoming: Message, { parameters }: Address): string | undefined {
  const header = incoming.headers["x-ms-version"];
  if (header !== undefined) return header;
  const value = (name: string) => parameters.find(([each]) => each === name)?.[1];
  const signed = value("sig") === undefined ? undefined : value("sv");
  return (
    value("api-version") ?? (signed !== undefined && isServiceVersion(signed) ? signed : undefined)
  );
}

/** A request before it is known who sent it. */
export type Unauthorized = Omit<Request, "caller" | "client"> & {
  readonly caller: undefined;
  readonly client: undefined;
};

/** A request of the server's own, or of somebody who was judged before. */
export const asOwner = (request: Unauthorized): Request => ({
  ...request,
  caller: ownerOf(request.account),
  client: undefined,
});

/**
 * Parameters by their names. One that has two values is refused where it is asked for: those that nobody asks for
 * mean nothing to us, and a page that is a blob may have any of its own.
 */
function queryOf(parameters: Address["parameters"]): ReadonlyMap<string, string> {
  const query = new Map<string, string>();
  let seconds: Map<string, string> | undefined;
  for (const [name, value] of parameters) {
    const before = query.get(name);
    if (before === undefined) query.set(name, value);
    // Authorize with Shared Key shows `include` sent once for each of its values.
    else if (name === "include") query.set(name, `${before},${value}`);
    else if (before !== value) {
      seconds ??= new Map();
      seconds.set(name, value);
    }
  }
  return seconds === undefined ? query : new DoubtfulQuery(query, seconds);
}

class DoubtfulQuery extends Map<string, string> {
  readonly #seconds: ReadonlyMap<string, string>;

  constructor(query: ReadonlyMap<string, string>, seconds: ReadonlyMap<string, string>) {
    super(query);
    this.#seconds = seconds;
  }

  override get(name: string): string | undefined {
    const second = this.#seconds.get(name);
    if (second !== undefined) throw invalidQuery(name, second, "It was sent with two values.");
    return super.get(name);
  }
}
/** The request as a value; the headers that all operations share are checked here. */
export function parseRequest(
  incoming: Message,
  service: ServiceDefinition,
  address: Address,
  ids: RequestIds,
  version: string | undefined,
  body: RequestBody = noRequestBody,
): Unauthorized {
  const { headers } = incoming;
  const header = (name: string): string | undefined => headers[name];
  const query = queryOf(address.parameters);
  const timeout = query.get("timeout");
  if (timeout !== undefined && !/^\d{1,9}$/.test(timeout)) throw invalidQuery("timeout", timeout);
  const { level, names } = service.place(address.segments, query);
  return {
    id: ids.id,
    clientId: ids.clientId,
    method: verbOf(service, incoming.method, header),
    service: service.name,
    account: address.account,
    level,
    names,
    endpoint: address.endpoint,
    secondary: address.secondary,
    version: versionOf(version),
    query,
    conditions: parseConditions(header),
    leaseId: guidOf(header, "x-ms-lease-id"),
    snapshot: tickOf(query, service.name === "file" ? "sharesnapshot" : "snapshot"),
    versionId: tickOf(query, "versionid"),
    customerKey: customerKeyOf(header),
    caller: undefined, // there from the start, so that all requests are of one shape
    client: undefined,
    body,
    header,
    headersFrom: (prefix) => headersFrom(incoming.rawHeaders, prefix),
  };
}

const verbOf = (
  service: ServiceDefinition,
  method: string,
  header: (name: string) => string | undefined,
): string => service.verb?.(method, header) ?? method;

const KEY_HEADERS = ["key", "key-sha256", "algorithm"].map((name) => `x-ms-encryption-${name}`);

/** A customer's key comes with its sum and its algorithm, all or none of them. */
function customerKeyOf(header: (name: string) => string | undefined): CustomerKey | undefined {
  const [key, sha256, algorithm] = KEY_HEADERS.map(header);
  if (key === undefined && sha256 === undefined && algorithm === undefined) return undefined;
  if (key === undefined) throw missingHeader("x-ms-encryption-key");
  if (sha256 === undefined) throw missingHeader("x-ms-encryption-key-sha256");
  if (algorithm === undefined) throw missingHeader("x-ms-encryption-algorithm");
  if (algorithm !== "AES256") throw invalidHeader("x-ms-encryption-algorithm", algorithm);
  const bytes = parseBase64(key);
  if (bytes?.length !== KEY_SIZE) throw invalidHeader("x-ms-encryption-key", "");
  if (hash("sha256", bytes, "base64") !== sha256) {
    throw invalidHeader("x-ms-encryption-key-sha256", sha256);
  }
  return { key: bytes, sha256 };
}

function versionOf(text: string | undefined): string {
  if (text === undefined) return NEWEST_VERSION;
  if (!isServiceVersion(text)) throw invalidHeader("x-ms-version", text);
  return text;
}

function tickOf(query: ReadonlyMap<string, string>, name: string): bigint | undefined {
  const text = query.get(name);
  if (text === undefined) return undefined;
  const tick = parseTickText(text);
  if (tick === undefined) throw invalidQuery(name, text);
  return tick;
}

/** A header that holds a GUID, in lower case with dashes. */
export function guidOf(
  header: (name: string) => string | undefined,
  name: string,
): string | undefined {
  const text = header(name);
  if (text === undefined || text === "") return undefined;
  const guid = parseGuid(text);
  if (guid === undefined) throw invalidHeader(name, text);
  return guid;
}

function headersFrom(raw: readonly string[], prefix: string): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i] ?? "";
    if (name.length >= prefix.length && name.slice(0, prefix.length).toLowerCase() === prefix) {
      pairs.push([name.slice(prefix.length), raw[i + 1] ?? ""]);
    }
  }
  return pairs;
}
