import { element, isBeyondXml } from "../base/xml.ts";
import type { Request } from "../http/operation.ts";
import { invalidQuery, StorageError } from "../rules/errors.ts";

const PAGE_MAX = 5000;

/** `maxresults`: how many items a page may hold, at most 5,000. */
export function pageSizeOf({ query }: Request): number {
  const text = query.get("maxresults");
  if (text === undefined || text === "") return PAGE_MAX;
  if (!/^-?\d{1,9}$/.test(text)) throw invalidQuery("maxresults", text);
  const size = Number(text);
  if (size < 1) {
    throw new StorageError("OutOfRangeQueryParameterValue", {
      QueryParameterName: "maxresults",
      QueryParameterValue: text,
      MinimumAllowed: "1",
      MaximumAllowed: String(PAGE_MAX),
    });
  }
  return Math.min(size, PAGE_MAX);
}

/** The values of `include`, which come in any case, checked against those that there are. */
export function includeOf({ query }: Request, known: readonly string[]): ReadonlySet<string> {
  const text = query.get("include");
  if (text === undefined || text === "") return new Set();
  const values = text.split(",").map((value) => value.trim().toLowerCase());
  if (values.some((value) => !known.includes(value))) throw invalidQuery("include", text);
  return new Set(values);
}

/** Where the next page begins, as an opaque text; `at` sets apart items of one name. */
export type Marker = { readonly name: string; readonly at: bigint };

/** Items of a name without a time of their own come after those with one. */
export const LAST: bigint = 2n ** 64n - 1n;

export function markerText({ name, at }: Marker): string {
  const time = at === LAST ? "" : at.toString(16);
  return `1!${Buffer.from(name, "utf8").toString("base64url")}!${time}`;
}

const FORM = /^1!([A-Za-z0-9_-]*)!([0-9a-f]{0,16})$/;

/** Reads what `markerText` wrote; anything else is refused, by some services with a code of its own. */
export function markerOf({ query }: Request, code?: "InvalidMarker"): Marker | undefined {
  const text = query.get("marker");
  if (text === undefined || text === "") return undefined;
  const match = FORM.exec(text);
  if (match === null) {
    throw code === undefined ? invalidQuery("marker", text) : new StorageError(code);
  }
  const name = Buffer.from(match[1] ?? "", "base64url").toString("utf8");
  return { name, at: match[2] ? BigInt(`0x${match[2]}`) : LAST };
}

/** A prefix that XML cannot hold is percent-encoded, and says so, as names are. */
const prefixXml = (prefix: string | undefined): string =>
  prefix !== undefined && isBeyondXml(prefix)
    ? `<Prefix Encoded="true">${encodeURIComponent(prefix.toWellFormed())}</Prefix>`
    : element("Prefix", prefix);

/** The parameters of a list that come back if they were sent. */
export const echoed = ({ query }: Request): string =>
  prefixXml(query.get("prefix")) +
  element("Marker", query.get("marker")) +
  element("MaxResults", query.get("maxresults"));
