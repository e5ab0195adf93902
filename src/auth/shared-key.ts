import { type KeyObject, timingSafeEqual } from "node:crypto";
import { parseBase64 } from "../base/bytes.ts";
import { hmacSha256 } from "../base/hmac.ts";
import { invalidHeader } from "../rules/errors.ts";

/** What a signature is made over; header names in any case, values as they were sent. */
export type SignedRequest = {
  /** Which service it is sent to: tables are signed in a form of their own. */
  readonly service?: string;
  readonly method: string;
  /** The account, as the resource names it first. */
  readonly account: string;
  /** The path as it was sent, with the account in it where the URL is path-style. */
  readonly rawPath: string;
  /** Names in lower case, values decoded. */
  readonly parameters: readonly (readonly [string, string])[];
  readonly rawHeaders: readonly string[];
  readonly version: string;
  header(name: string): string | undefined;
};

export type Scheme = "SharedKey" | "SharedKeyLite";

/** Whether `signature` was made with `key` over this request ("Authorize with Shared Key"). */
export function isSigned(
  request: SignedRequest,
  scheme: Scheme,
  signature: string,
  key: KeyObject,
): boolean {
  const given = parseBase64(signature);
  if (given === undefined) return false;
  for (const text of textsToSign(request, scheme)) {
    const wanted = hmacSha256(key, text);
    if (given.length === wanted.length && timingSafeEqual(given, wanted)) return true;
  }
  return false;
}

/**
 * The texts that a client may have signed, the likeliest first. They differ only where clients do: in how
 * names of headers sort, in white space, in the order of two lines, in how a secondary's path is written.
 */
export function* textsToSign(request: SignedRequest, scheme: Scheme): Generator<string> {
  if (request.service === "table") {
    yield* tableTexts(request, scheme);
    return;
  }
  const pairs = serviceHeaders(request);
  const resources = resourcesOf(request, scheme);
  const heads = scheme === "SharedKey" ? full(request) : [lite(request)];
  for (const compare of [byCharacter, compareHeaderNames]) {
    pairs.sort(([a], [b]) => compare(a, b));
    for (const written of [asSent, folded]) {
      let headers = "";
      for (const [name, value] of pairs) headers += `${name}:${written(value)}\n`;
      for (const resource of resources) {
        for (const head of heads) yield `${asUtf8(`${head}\n${headers}`)}${resource}`;
      }
    }
  }
}

/** Tables: no headers but the date, which is never left out, and of the parameters only `comp`. */
function* tableTexts(request: SignedRequest, scheme: Scheme): Generator<string> {
  const { method, header } = request;
  const value = (name: string) => header(name) ?? "";
  const date = header("x-ms-date") ?? value("date");
  const head =
    scheme === "SharedKey"
      ? `${method}\n${value("content-md5")}\n${value("content-type")}\n${date}`
      : date;
  for (const resource of resourcesOf(request, "SharedKeyLite")) {
    yield `${asUtf8(head)}\n${resource}`;
  }
}

const asSent = (value: string): string => value;

/** White space as one space, but not between quotes, as the documents ask for. */
const folded = (value: string): string =>
  value.includes("  ") || value.includes("\t")
    ? value.replace(/"[^"]*"|[ \t]+/g, (part) => (part.startsWith('"') ? part : " "))
    : value;

/** The first lines; the JavaScript SDK has two of them in the other order than the documents. */
function full({ method, version, header }: SignedRequest): string[] {
  const value = (name: string) => header(name) ?? "";
  const size = value("content-length");
  const length = size === "0" && version >= "2015-02-21" ? "" : size;
  const date = header("x-ms-date") === undefined ? value("date") : "";
  const rest = `${length}\n${value("content-md5")}\n${value("content-type")}\n${date}\n${value("if-modified-since")}\n${value("if-match")}\n${value("if-none-match")}\n${value("if-unmodified-since")}\n${value("range")}`;
  const encoding = value("content-encoding");
  const language = value("content-language");
  const documented = `${method}\n${encoding}\n${language}\n${rest}`;
  if (encoding === language) return [documented];
  return [documented, `${method}\n${language}\n${encoding}\n${rest}`];
}

function lite({ method, header }: SignedRequest): string {
  const value = (name: string) => header(name) ?? "";
  const date = header("x-ms-date") === undefined ? value("date") : "";
  return `${method}\n${value("content-md5")}\n${value("content-type")}\n${date}`;
}

/** Node reads headers as Latin-1; what a client signed was the text behind the bytes. */
const asUtf8 = (text: string): string =>
  /[\x80-\xff]/.test(text) ? Buffer.from(text, "latin1").toString("utf8") : text;

function serviceHeaders({ rawHeaders, version }: SignedRequest): [string, string][] {
  const pairs: [string, string][] = [];
  const seen = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const raw = rawHeaders[i] as string;
    if (raw.length < 5 || (raw.charCodeAt(0) | 32) !== 120) continue; // x
    const name = raw.toLowerCase();
    if (!name.startsWith("x-ms-")) continue;
    const value = rawHeaders[i + 1] ?? "";
    if (seen.has(name)) throw invalidHeader(name, value);
    seen.add(name);
    if (value !== "" || version >= "2016-05-31") pairs.push([name, value.trim()]);
  }
  return pairs;
}

function resourcesOf({ account, rawPath, parameters }: SignedRequest, scheme: Scheme): string[] {
  const suffix = scheme === "SharedKey" ? allParameters(parameters) : compOf(parameters);
  const resources = [`/${account}${rawPath}${suffix}`];
  // Older clients sign a secondary's path as the primary's.
  const secondary = `/${account}-secondary`;
  if (rawPath === secondary || rawPath.startsWith(`${secondary}/`)) {
    resources.push(`/${account}/${account}${rawPath.slice(secondary.length)}${suffix}`);
  }
  return resources;
}

function allParameters(parameters: readonly (readonly [string, string])[]): string {
  if (parameters.length === 0) return "";
  const values = new Map<string, string[]>();
  for (const [name, value] of parameters) {
    const known = values.get(name);
    if (known === undefined) values.set(name, [value]);
    else known.push(value);
  }
  return [...values.keys()]
    .sort()
    .map((name) => `\n${name}:${values.get(name)?.sort().join(",")}`)
    .join("");
}

function compOf(parameters: readonly (readonly [string, string])[]): string {
  const comp = parameters.find(([name]) => name === "comp");
  return comp === undefined ? "" : `?comp=${comp[1]}`;
}

const byCharacter = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

// The order of .NET's culture: these first, then digits, then letters; a dash counts only where all else is equal.
const ORDER = "!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz";

/** How the service sorts header names; it differs from character codes for `_` and `-`. */
export function compareHeaderNames(a: string, b: string): number {
  const weights = (name: string) => [...name].filter((c) => c !== "-").map((c) => ORDER.indexOf(c));
  const left = weights(a);
  const right = weights(b);
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? -1) - (right[i] ?? -1);
    if (difference !== 0) return difference;
  }
  // Equal but for dashes: the one whose dash comes later stands first.
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    const dashes = Number(a[i] === "-") - Number(b[i] === "-");
    if (dashes !== 0) return dashes;
  }
  return 0;
}
