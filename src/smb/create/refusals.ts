import { READ_ONLY } from "../../rules/smb-properties.ts";
import type { NodeRecord } from "../../store/file-records.ts";
import { access, FILE_ALL, mappedAccess } from "../access.ts";
import { SmbError } from "../status.ts";
import { type Asked, DELETE_ON_CLOSE, DIRECTORY_FILE, NON_DIRECTORY_FILE } from "./asked.ts";

// What no request may ask for, bit by bit.
const OPEN_BY_ID = 0x2000;
const OPTIONS_REFUSED = 0xff000000;
const OPTIONS_UNSUPPORTED = 0x00102080;
const ATTRIBUTES_REFUSED = 0xffff8048;
const HIDDEN = 0x2;
const SYSTEM = 0x4;
const ACCESS_REFUSED = 0x0ce0fe00;
const SHARE_ALL = 7;

/** Refuses bits that have no meaning here, whatever the file is. */
export function checkMasks(request: {
  options: number;
  attributes: number;
  shareAccess: number;
  desiredAccess: number;
}): void {
  const { options, attributes, shareAccess, desiredAccess } = request;
  if (desiredAccess === 0) throw new SmbError("STATUS_ACCESS_DENIED");
  if ((desiredAccess & ACCESS_REFUSED) !== 0) throw new SmbError("STATUS_ACCESS_DENIED");
  // Backup programs go on without it, if they are told so.
  if ((desiredAccess & access.systemSecurity) !== 0)
    throw new SmbError("STATUS_PRIVILEGE_NOT_HELD");
  const isBoth = (options & DIRECTORY_FILE) !== 0 && (options & NON_DIRECTORY_FILE) !== 0;
  if ((options & OPTIONS_REFUSED) !== 0 || isBoth) throw new SmbError("STATUS_INVALID_PARAMETER");
  if ((options & (OPTIONS_UNSUPPORTED | OPEN_BY_ID)) !== 0)
    throw new SmbError("STATUS_NOT_SUPPORTED");
  if ((attributes & ATTRIBUTES_REFUSED) !== 0) throw new SmbError("STATUS_INVALID_PARAMETER");
  if ((shareAccess & ~SHARE_ALL) !== 0) throw new SmbError("STATUS_INVALID_PARAMETER");
}

/** Refuses to open a file as a directory, and the other way round. */
export function checkKind(node: NodeRecord, options: number, overwrites: boolean): void {
  if (node.kind === "directory") {
    if ((options & NON_DIRECTORY_FILE) !== 0) throw new SmbError("STATUS_FILE_IS_A_DIRECTORY");
    if (!overwrites) return;
    const isMeant = (options & DIRECTORY_FILE) !== 0;
    throw new SmbError(isMeant ? "STATUS_INVALID_PARAMETER" : "STATUS_OBJECT_NAME_COLLISION");
  }
  if ((options & DIRECTORY_FILE) !== 0) {
    throw new SmbError(overwrites ? "STATUS_INVALID_PARAMETER" : "STATUS_NOT_A_DIRECTORY");
  }
}

/** What an open of a snapshot never has. */
export const WRITE_ACCESS =
  access.writeData |
  access.appendData |
  access.writeEa |
  access.deleteChild |
  access.writeAttributes |
  access.delete |
  access.writeDac |
  access.writeOwner;

/** What the client may do: all it asked for, as the account's key opens everything. */
export function grantedFor({ desired }: Asked, node: NodeRecord | undefined): number {
  const isReadOnly = node?.kind === "file" && (node.attributes & READ_ONLY) !== 0;
  const most = isReadOnly ? FILE_ALL & ~(access.writeData | access.appendData) : FILE_ALL;
  return mappedAccess(desired, most);
}

/** Refuses what the attributes of a file or directory forbid. */
export function checkAttributes(
  { options, attributes, path }: Asked,
  node: NodeRecord,
  granted: number,
  overwrites: boolean,
): void {
  const isReadOnly = (node.attributes & READ_ONLY) !== 0;
  if ((options & DELETE_ON_CLOSE) !== 0) {
    if ((granted & access.delete) === 0) throw new SmbError("STATUS_INVALID_PARAMETER");
    if (isReadOnly || path.length === 0) throw new SmbError("STATUS_CANNOT_DELETE");
  }
  if (node.kind === "directory") return;
  const writes = (granted & (access.writeData | access.appendData)) !== 0;
  if (isReadOnly && (writes || overwrites)) throw new SmbError("STATUS_ACCESS_DENIED");
  const hidden = node.attributes & (HIDDEN | SYSTEM);
  if (overwrites && (hidden & ~attributes) !== 0) throw new SmbError("STATUS_ACCESS_DENIED");
}
