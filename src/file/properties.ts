import { instantOf, type Tick, tickText } from "../base/time.ts";
import type { WriteTx } from "../engine/engine.ts";
import type { HeaderValue, Request } from "../http/operation.ts";
import { invalidHeader, missingHeader, StorageError } from "../rules/errors.ts";
import { inheritedPermission } from "../rules/sddl.ts";
import {
  ARCHIVE,
  attributesText,
  DIRECTORY,
  type NodeKind,
  parseAttributes,
  parseFileTime,
} from "../rules/smb-properties.ts";
import type { FileRecord, NodeRecord } from "../store/file-records.ts";
import { nodes } from "../store/keys.ts";
import type { Changed, HttpHeaders } from "../store/records.ts";
import { hexOf, tickOf } from "./namespace.ts";
import { asSddl, checkedPermission, formatOf, keepPermission, permissionIn } from "./permission.ts";

/** A time that a request sets: its own, that of the request, or the one that is there. */
type TimeGiven = Tick | "now" | undefined;

/** What a request says of the properties that SMB knows; undefined leaves them as they are, or to the default. */
export type SmbGiven = {
  readonly attributes: number | undefined;
  readonly createdAt: TimeGiven;
  readonly writtenAt: TimeGiven;
  readonly changedAt: TimeGiven;
  readonly permission: { readonly sddl: string } | { readonly key: string } | undefined;
};

const REQUIRED = [
  "x-ms-file-attributes",
  "x-ms-file-creation-time",
  "x-ms-file-last-write-time",
] as const;
const PERMISSION_MAX = 8 * 1024;

/** What an operation does to a node. */
type Doing = "create" | "copy" | "set" | "rename";

/** Reads the headers of properties. */
export function smbGivenOf(request: Request, kind: NodeKind, doing: Doing): SmbGiven {
  const { version } = request;
  const makes = doing === "create" || doing === "copy";
  const permission = permissionGiven(request, makes);
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

function permissionGiven(request: Request, makes: boolean): SmbGiven["permission"] {
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
  return { sddl: checkedPermission(sddl, format) };
}

/** A new ETag and time of change, and the tick they are from. */
export function stamped(tx: WriteTx): Changed & { readonly tick: Tick } {
  const tick = tx.tick();
  return { etag: `0x${tick.toString(16).toUpperCase()}`, modifiedAt: instantOf(tick), tick };
}

type SmbProperties = Pick<
  NodeRecord,
  "attributes" | "createdAt" | "writtenAt" | "changedAt" | "permission"
>;

/** The properties of a new node; what the request leaves open is the time of day and the parent's permission. */
export async function newProperties(
  tx: WriteTx,
  given: SmbGiven,
  made: {
    readonly share: bigint;
    readonly parent: bigint;
    readonly kind: NodeKind;
    readonly tick: Tick;
  },
): Promise<SmbProperties> {
  const { share, parent, kind, tick } = made;
  const at = (time: TimeGiven) => hexOf(time === undefined || time === "now" ? tick : time);
  return {
    attributes: given.attributes ?? (kind === "file" ? ARCHIVE : DIRECTORY),
    createdAt: at(given.createdAt),
    writtenAt: at(given.writtenAt),
    changedAt: at(given.changedAt),
    permission:
      (await permissionKey(tx, share, given)) ?? (await inheritedKey(tx, share, parent, kind)),
  };
}

/** The properties of a node after a request has changed some of them. */
export async function changedProperties(
  tx: WriteTx,
  given: SmbGiven,
  node: NodeRecord,
  { share, tick }: { readonly share: bigint; readonly tick: Tick },
): Promise<SmbProperties> {
  const at = (time: TimeGiven, before: string) =>
    time === undefined ? before : hexOf(time === "now" ? tick : time);
  return {
    attributes: given.attributes ?? node.attributes,
    createdAt: at(given.createdAt, node.createdAt),
    writtenAt: at(given.writtenAt, node.writtenAt),
    changedAt: at(given.changedAt, hexOf(tick)),
    permission: (await permissionKey(tx, share, given)) ?? node.permission,
  };
}

async function permissionKey(
  tx: WriteTx,
  share: bigint,
  { permission }: SmbGiven,
): Promise<string | undefined> {
  if (permission === undefined) return undefined;
  if ("sddl" in permission) return keepPermission(tx, share, permission.sddl);
  await permissionIn(tx, share, permission.key);
  return permission.key;
}

async function inheritedKey(
  tx: WriteTx,
  share: bigint,
  parent: bigint,
  kind: NodeKind,
): Promise<string> {
  const directory = await nodes.get(tx, share, parent);
  if (directory === undefined) throw new StorageError("ParentNotFound");
  const sddl = asSddl(await permissionIn(tx, share, directory.permission));
  return keepPermission(tx, share, inheritedPermission(sddl, kind));
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

const HTTP_NAMES = [
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
