import { type Request, readOperation, writeOperation } from "../http/operation.ts";
import { missingHeader, StorageError } from "../rules/errors.ts";
import { isPermission } from "../rules/sddl.ts";
import { binaryOf } from "../rules/security-descriptor.ts";
import {
  asSddl,
  isSddl,
  keepPermission,
  PERMISSION_SIZE_MAX,
  permissionIn,
  sddlIn,
} from "./node.ts";
import { chosen, theShare } from "./resource.ts";

/** How permissions are written: as SDDL, or as base64 of a descriptor's bytes. */
const FORMATS = ["Sddl", "Binary"] as const;
export type Format = (typeof FORMATS)[number];

/** The form that a request gives permissions in, or wants them in. */
export const formatOf = (request: Request): Format =>
  chosen(request, "x-ms-file-permission-format", FORMATS) ?? "Sddl";

/** A permission of a request, to be kept as it is. */
export function checkedPermission(text: string, format: Format): string {
  const isFine = format === "Sddl" ? isPermission(text) : sddlIn(text) !== undefined;
  if (!isFine) throw new StorageError("FileInvalidPermission");
  return text;
}

/** A permission as it is kept, in the form that is wanted. */
function inFormat(kept: string, format: Format): string {
  if (isSddl(kept) === (format === "Sddl")) return kept;
  if (format === "Sddl") return asSddl(kept);
  const bytes = binaryOf(kept);
  // Entries that have no place in a file's descriptor of bytes stay as they were written.
  if (bytes === undefined) throw new StorageError("FileInvalidPermission");
  return bytes.toString("base64");
}

function permissionOf(bytes: Buffer): string {
  let body: unknown;
  try {
    body = JSON.parse(bytes.toString("utf8"));
  } catch {
    throw new StorageError("InvalidInput");
  }
  if (typeof body !== "object" || body === null) throw new StorageError("InvalidInput");
  const fields = Object.entries(body).map(([name, value]) => [name.toLowerCase(), value] as const);
  const value = (name: string): unknown => fields.find(([field]) => field === name)?.[1];
  const wanted = String(value("format") ?? "Sddl").toLowerCase();
  const format = FORMATS.find((each) => each.toLowerCase() === wanted);
  const text = value("permission");
  if (format === undefined || typeof text !== "string") throw new StorageError("InvalidInput");
  return checkedPermission(text, format);
}

export const createPermission = writeOperation({
  name: "Create Permission",
  match: { method: "PUT", on: "share", restype: "share", comp: "filepermission" },
  allow: { sas: "cw", resource: "c" },
  body: { kind: "whole", sizeMax: PERMISSION_SIZE_MAX },
  guard: { on: theShare, conditions: "none", lease: "own" },
  input: (_request, { bytes }) => permissionOf(bytes),
  async apply({ tx, place, input: sddl }) {
    if (place.share === undefined) throw new StorageError("ShareNotFound");
    const key = await keepPermission(tx, place.share.id, sddl);
    const headers = {
      "x-ms-file-permission-key": key,
      "x-ms-request-server-encrypted": true,
    };
    return { status: 201, headers };
  },
});

export const getPermission = readOperation({
  name: "Get Permission",
  match: { method: "GET", on: "share", restype: "share", comp: "filepermission" },
  allow: { sas: "r", resource: "c" },
  guard: { on: theShare, conditions: "none", lease: "own" },
  input(request) {
    const key = request.header("x-ms-file-permission-key");
    if (key === undefined) throw missingHeader("x-ms-file-permission-key");
    return { key, format: formatOf(request) };
  },
  async apply({ tx, place, input: { key, format } }) {
    const share = place.share?.id ?? 0n;
    const permission = inFormat(await permissionIn(tx, share, key), format);
    const body = JSON.stringify({ permission, format });
    return { status: 200, headers: { "Content-Type": "application/json" }, body };
  },
});
