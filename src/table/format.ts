import { isUtf8 } from "node:buffer";
import type { ErrorBody, HeaderValue, Reply, Request } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";

/** How much a reply tells of types and links beside the values ("Payload Format for Table Service Operations"). */
export type MetadataLevel = "nometadata" | "minimalmetadata" | "fullmetadata";

/** What of a request, or of a part of a batch, the operations on tables look at. */
export type TableRequest = Pick<
  Request,
  "account" | "caller" | "endpoint" | "header" | "level" | "method" | "names" | "query"
>;

const LEVELS: ReadonlySet<string> = new Set(["nometadata", "minimalmetadata", "fullmetadata"]);

/** What SDKs send, letter by letter. */
const USUAL: ReadonlyMap<string, MetadataLevel> = new Map(
  (["nometadata", "minimalmetadata", "fullmetadata"] as const).map((level) => [
    `application/json;odata=${level}`,
    level,
  ]),
);

/** The level that `$format`, or else Accept, asks for. */
export function metadataLevel({ header, query }: TableRequest): MetadataLevel {
  const format = query.get("$format");
  const wanted = format === "json" ? "application/json" : (format ?? header("accept"));
  if (wanted === undefined || wanted === "") return "minimalmetadata";
  const usual = USUAL.get(wanted);
  if (usual !== undefined) return usual;
  // Differs from Azure: Atom is refused for every version, not only since 2015-12-11.
  let error: "AtomFormatNotSupported" | "MediaTypeNotSupported" = "MediaTypeNotSupported";
  for (const each of wanted.split(",")) {
    const [type = "", ...parameters] = each.split(";").map((part) => part.trim().toLowerCase());
    if (type === "application/json" || type === "*/*" || type === "application/*") {
      const odata = parameters.find((parameter) => parameter.startsWith("odata="))?.slice(6);
      if (odata === undefined) return "minimalmetadata";
      if (LEVELS.has(odata)) return odata as MetadataLevel;
    } else if (isAtom(type)) error = "AtomFormatNotSupported";
  }
  throw new StorageError(error);
}

const isAtom = (type: string) =>
  /^(?:application\/atom\+xml|application\/xml|text\/xml|atom)$/.test(type);

/** The text of a JSON body; what is not UTF-8, or said to be something else, is refused. */
export function jsonText({ header }: TableRequest, bytes: Buffer): string {
  const type = header("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== undefined && type !== "" && type !== "application/json") {
    throw new StorageError(isAtom(type) ? "AtomFormatNotSupported" : "MediaTypeNotSupported");
  }
  if (!isUtf8(bytes)) throw new StorageError("InvalidInput");
  return bytes.toString("utf8");
}

const OPTIONS: ReadonlySet<string> = new Set(["$filter", "$top", "$select", "$format"]);
const WRITE_OPTIONS: ReadonlySet<string> = new Set(["$format"]);

/** Refuses options of OData that tables do not have, or that this kind of operation has no use for. */
export function refuseOptions({ query }: TableRequest, use: "query" | "write"): void {
  for (const name of query.keys()) {
    if (!name.startsWith("$")) continue;
    if (!OPTIONS.has(name)) throw new StorageError("NotImplemented");
    if (use === "write" && !WRITE_OPTIONS.has(name)) throw new StorageError("InvalidInput");
  }
}

export type Preference = "return-content" | "return-no-content" | undefined;

export function preferenceOf({ header }: TableRequest): Preference {
  const text = header("prefer")?.toLowerCase();
  if (text === undefined) return undefined;
  const all = text.split(",").map((each) => each.trim());
  if (all.includes("return-no-content")) return "return-no-content";
  return all.includes("return-content") ? "return-content" : undefined;
}

const VERSION_FORM = /^[1-3]\.0(?:;.*)?$/;

/** The OData versions a client names must be such; 3.0 is what is spoken. */
export function refuseVersions({ header }: TableRequest): void {
  for (const name of ["dataserviceversion", "maxdataserviceversion"]) {
    const text = header(name);
    if (text !== undefined && !VERSION_FORM.test(text)) {
      throw new StorageError("InvalidHeaderValue", { HeaderName: name, HeaderValue: text });
    }
  }
}

/** Headers of every OData reply. */
export const odataHeaders = {
  "Cache-Control": "no-cache",
  "X-Content-Type-Options": "nosniff",
  DataServiceVersion: "3.0;",
} as const;

const jsonType = (level: MetadataLevel): string =>
  `application/json;odata=${level};streaming=true;charset=utf-8`;

/** A reply whose body is JSON, in pieces. */
export function jsonReply(
  status: number,
  level: MetadataLevel,
  bytes: readonly Uint8Array[],
  headers: Readonly<Record<string, HeaderValue>> = {},
): Reply {
  let size = 0;
  for (const part of bytes) size += part.length;
  return {
    status,
    headers: {
      "Content-Type": jsonType(level),
      "Content-Length": size,
      ...odataHeaders,
      ...headers,
    },
    body: { bytes, stream: nothing, close: () => {} },
  };
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** An error as OData writes it in JSON. */
export const errorJson: ErrorBody = ({ code, text }) => ({
  type: jsonType("minimalmetadata"),
  body: JSON.stringify({ "odata.error": { code, message: { lang: "en-US", value: text } } }),
});

/** What a name or key looks like in a path, between quotes. */
export const quotedInUrl = (text: string): string =>
  encodeURIComponent(text.toWellFormed().replaceAll("'", "''"));
