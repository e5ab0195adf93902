import { createHash } from "node:crypto";
import type { WriteTx } from "../engine/engine.ts";
import { type Request, readOperation, writeOperation } from "../http/operation.ts";
import { invalidHeader, missingHeader, StorageError } from "../rules/errors.ts";
import { isPermission } from "../rules/sddl.ts";
import { permissions } from "../store/keys.ts";
import { chosen, theShare } from "./resource.ts";

const PERMISSION_MAX = 64 * 1024;

/** Keeps a security descriptor in a share, as it was written, and gives its key: the same for the same text. */
export async function keepPermission(tx: WriteTx, share: bigint, sddl: string): Promise<string> {
  const number = createHash("sha256").update(sddl).digest().readBigUInt64BE();
  for (let turn = 1; ; turn++) {
    const key = `${number}*${turn}`;
    const found = await permissions.get(tx, share, key);
    if (found === sddl) return key;
    if (found !== undefined) continue; // another text has the same number
    permissions.put(tx, [share, key], sddl);
    return key;
  }
}

// Differs from Azure: permissions are taken and given as SDDL only, not in the binary format.
/** Sees that permissions are meant to be SDDL. */
export function checkFormat(request: Request): void {
  const text = chosen(request, "x-ms-file-permission-format", ["sddl", "binary"]);
  if (text === "binary") throw invalidHeader("x-ms-file-permission-format", text);
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
  const format = value("format");
  if (format !== undefined && String(format).toLowerCase() !== "sddl") {
    throw new StorageError("InvalidInput");
  }
  const sddl = value("permission");
  if (typeof sddl !== "string") throw new StorageError("InvalidInput");
  if (!isPermission(sddl)) throw new StorageError("FileInvalidPermission");
  return sddl;
}

export const createPermission = writeOperation({
  name: "Create Permission",
  match: { method: "PUT", on: "share", restype: "share", comp: "filepermission" },
  allow: { sas: "cw", resource: "c" },
  body: { kind: "whole", sizeMax: PERMISSION_MAX },
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
    checkFormat(request);
    const key = request.header("x-ms-file-permission-key");
    if (key === undefined) throw missingHeader("x-ms-file-permission-key");
    return key;
  },
  async apply({ tx, place, input: key }) {
    const share = place.share?.id ?? 0n;
    const permission = await permissionIn(tx, share, key);
    const body = JSON.stringify({ permission, format: "sddl" });
    return { status: 200, headers: { "Content-Type": "application/json" }, body };
  },
});

const KEY = /^\d{1,20}\*\d{1,9}$/;

/** The security descriptor that a key stands for. */
export async function permissionIn(
  tx: Parameters<typeof permissions.get>[0],
  share: bigint,
  key: string,
): Promise<string> {
  const sddl = KEY.test(key) ? await permissions.get(tx, share, key) : undefined;
  if (sddl === undefined) throw new StorageError("FileInvalidPermissionKey");
  return sddl;
}
