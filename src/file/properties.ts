import { tickText } from "../base/time.ts";
import type { HeaderValue, Request } from "../http/operation.ts";
import { invalidHeader, missingHeader } from "../rules/errors.ts";
import {
  attributesText,
  type NodeKind,
  parseAttributes,
  parseFileTime,
} from "../rules/smb-properties.ts";
import type { FileRecord, NodeRecord } from "../store/file-records.ts";
import type { HttpHeaders } from "../store/records.ts";
import { tickOf } from "./namespace.ts";
import type { SmbGiven, TimeGiven } from "./node.ts";
import { checkedPermission, formatOf } from "./permission.ts";
import { chosen } from "./resource.ts";

const REQUIRED = [
  "x-ms-file-attributes",
  "x-ms-file-creation-time",
  "x-ms-file-last-write-time",
] as const;
const PERMISSION_MAX = 8 * 1024;

/** What an operation does to a node. */
type Doing = "create" | "restore" | "copy" | "set" | "rename";

/** Whether something is made as it was elsewhere, and not as new things are made here. */
export const isRestored = (request: Request): boolean =>
  chosen(request, "x-ms-file-property-semantics", ["New", "Restore"]) === "Restore";

/** Reads the headers of properties. */
export function smbGivenOf(request: Request, kind: NodeKind, doing: Doing): SmbGiven {
  const { version } = request;
  const makes = doing === "create" || doing === "restore" || doing === "copy";
  const permission = permissionGiven(request, makes, doing === "create");
  if (doing !== "rename" && doing !== "copy" && version >= "2019-02-02" && version < "2021-06-08") {
    // Between these versions nothing had a default ("Create File", "Set File Properties").
    for (const name of REQUIRED) {
      if (request.header(name) === undefined) throw missingHeader(name);
    }
    const isGiven = ["x-ms-file-permission", "x-ms-file-permission-key"].some(
      (name) => request.header(name) !== undefined,
    );
    if (!isGiven) throw missingHeader("x-ms-file-permission");
  }
  return {
    attributes: attributesGiven(request, kind, makes),
    createdAt: timeGiven(request, "x-ms-file-creation-time", makes),
    writtenAt: timeGiven(request, "x-ms-file-last-write-time", makes),
    changedAt: timeGiven(request, "x-ms-file-change-time", makes),
    permission,
  };
}

function attributesGiven(request: Request, kind: NodeKind, makes: boolean): number | undefined {
  const text = request.header("x-ms-file-attributes");
  if (text === undefined || (!makes && text.toLowerCase() === "preserve")) return undefined;
  const bits = parseAttributes(text, kind);
  if (bits === undefined) throw invalidHeader("x-ms-file-attributes", text);
  return bits;
}

function timeGiven(request: Request, name: string, makes: boolean): TimeGiven {
  const text = request.header(name);
  if (text === undefined || (!makes && text.toLowerCase() === "preserve")) return undefined;
  if (text.toLowerCase() === "now") return "now";
  const tick = parseFileTime(text);
  if (tick === undefined) throw invalidHeader(name, text);
  return tick;
}

function permissionGiven(
  request: Request,
  makes: boolean,
  inherits: boolean,
): SmbGiven["permission"] {
  const format = formatOf(request);
  const sddl = request.header("x-ms-file-permission");
  const key = request.header("x-ms-file-permission-key");
  if (key !== undefined) {
    if (sddl !== undefined) throw invalidHeader("x-ms-file-permission", sddl);
    return { key };
  }
  if (sddl === undefined || sddl.toLowerCase() === (makes ? "inherit" : "preserve"))
    return undefined;
  if (sddl.length > PERMISSION_MAX) throw invalidHeader("x-ms-file-permission", sddl.slice(0, 64));
  return { sddl: checkedPermission(sddl, format), inherits };
}

const timeText = (hex: string) => tickText(tickOf(hex));

/** What every reply about a file or directory tells of it. */
export const smbHeaders = (node: NodeRecord): Record<string, HeaderValue> => ({
  "x-ms-file-permission-key": node.permission,
  "x-ms-file-attributes": attributesText(node.attributes),
  "x-ms-file-creation-time": timeText(node.createdAt),
  "x-ms-file-last-write-time": timeText(node.writtenAt),
  "x-ms-file-change-time": timeText(node.changedAt),
  "x-ms-file-id": String(tickOf(node.id)),
  "x-ms-file-parent-id": node.id === "0" ? undefined : String(tickOf(node.parent)),
});

/** The HTTP properties of a file: their headers, and what a record calls them. */
export const HTTP_NAMES = [
  ["content-type", "contentType"],
  ["content-encoding", "contentEncoding"],
  ["content-language", "contentLanguage"],
  ["content-disposition", "contentDisposition"],
  ["cache-control", "cacheControl"],
  ["content-md5", "contentMd5"],
] as const;

/** The HTTP properties of a request; undefined if it names none, as then those that are there stay. */
export function httpGivenOf(request: Request): HttpHeaders | undefined {
  const given = HTTP_NAMES.flatMap(([name, key]) => {
    const text = request.header(`x-ms-${name}`);
    return text === undefined ? [] : [[key, text] as const];
  });
  if (given.length === 0) return undefined;
  return Object.fromEntries(given.filter(([, text]) => text !== ""));
}

/** The HTTP properties of a file as a reply has them, but for its length and sum. */
export const httpHeaders = ({ headers }: FileRecord): Record<string, HeaderValue> => ({
  "Content-Type": headers.contentType ?? "application/octet-stream",
  "Content-Encoding": headers.contentEncoding,
  "Content-Language": headers.contentLanguage,
  "Content-Disposition": headers.contentDisposition,
  "Cache-Control": headers.cacheControl,
});
