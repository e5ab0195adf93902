import { parseTickText, type Tick } from "../base/time.ts";
import type { LocalSource, Request } from "../http/operation.ts";
import { parseAddress } from "../http/parse.ts";
import { invalidHeader, missingHeader, refuse } from "../rules/errors.ts";
import { badPath, badShareName, withoutTrailingDots } from "../rules/file-names.ts";
import { stepsOf } from "./place.ts";
import { isTrue } from "./resource.ts";

const URL_MAX = 2048;
const RENAME = "x-ms-file-rename-source";

/** A file or directory of this server that a header names by its URL. */
export type Source = {
  readonly account: string;
  readonly share: string;
  readonly path: readonly string[];
  readonly snapshot: Tick | undefined;
};

/** What the parts of a source's path and its query name; a refusal names the header they came in. */
function named(
  request: Request,
  header: string,
  of: { account: string; parts: readonly string[]; snapshot: string | undefined },
): Source {
  const [share = "", ...rest] = stepsOf(of.parts);
  const names = rest.at(-1) === "" ? rest.slice(0, -1) : rest;
  const keepsDots = isTrue(request, "x-ms-source-allow-trailing-dot");
  const path = keepsDots ? names : names.map(withoutTrailingDots);
  refuse(badShareName(share));
  refuse(badPath(path));
  const snapshot = of.snapshot === undefined ? undefined : parseTickText(of.snapshot);
  if (path.length === 0 || (of.snapshot !== undefined && snapshot === undefined)) {
    throw invalidHeader(header, request.header(header) ?? "");
  }
  return { account: of.account, share, path, snapshot };
}

/** What a copy's source names, which is a file of this server. */
export function copySourceOf(request: Request, { message }: LocalSource): Source {
  const { account, segments, parameters } = parseAddress(message, false);
  const snapshot = parameters.find(([name]) => name === "sharesnapshot")?.[1];
  return named(request, "x-ms-copy-source", { account, parts: segments, snapshot });
}

/**
 * What is to be renamed: a URL in the account, share and all that the request is to, since a move keeps what it
 * moves in its share ("Rename File", remarks).
 */
export function renameSourceOf(request: Request): Source {
  const text = request.header(RENAME);
  if (text === undefined) throw missingHeader(RENAME);
  if (text.length > URL_MAX || !URL.canParse(text)) throw invalidHeader(RENAME, text);
  const url = new URL(text);
  const base = new URL(request.endpoint);
  const isHere = url.host === base.host && url.pathname.startsWith(base.pathname);
  if (!isHere || url.searchParams.has("sharesnapshot")) throw invalidHeader(RENAME, text);
  let parts: string[];
  try {
    parts = url.pathname.slice(base.pathname.length).split("/").map(decodeURIComponent);
  } catch {
    throw invalidHeader(RENAME, text);
  }
  const { account } = request;
  const source = named(request, RENAME, { account, parts, snapshot: undefined });
  if (source.share !== request.names[0]) throw invalidHeader(RENAME, text);
  return source;
}
