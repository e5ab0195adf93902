import { hexOf } from "../../file/namespace.ts";
import { newProperties, stamped } from "../../file/node.ts";
import { create as createNode, prepare, type ShareTx, type Spot, save } from "../../file/tree.ts";
import { DACL, partsIn } from "../../rules/descriptor-parts.ts";
import { available } from "../../rules/lease.ts";
import { noMetadata } from "../../rules/metadata.ts";
import {
  ARCHIVE,
  DIRECTORY,
  type NodeKind,
  READ_ONLY,
  TEMPORARY,
} from "../../rules/smb-properties.ts";
import type { FileRecord, NodeRecord } from "../../store/file-records.ts";
import { nodes } from "../../store/keys.ts";
import { access } from "../access.ts";
import { givenSddl } from "../security.ts";
import { SmbError } from "../status.ts";
import {
  type Asked,
  CREATED,
  DELETE_ON_CLOSE,
  DIRECTORY_FILE,
  type Opened,
  replaces,
} from "./asked.ts";
import { checkLease } from "./holding.ts";
import { opened } from "./opened.ts";
import { grantedFor } from "./refusals.ts";

/** What Windows keeps of what a new file is to have, but that nothing is encrypted here. */
const ATTRIBUTES_KEPT = 0x1127;

const fileAttributes = (asked: number) => (asked | ARCHIVE) & ATTRIBUTES_KEPT;

/**
 * What the new one is given of its own, and for the rest what the directory passes on. An access list stays as it
 * is given: Windows would add to it what is passed on, but Samba's tests (create.aclfile) want the list itself.
 */
async function permissionOf({ contexts }: Asked, change: ShareTx, parent: bigint, kind: NodeKind) {
  if (contexts.security === undefined) return undefined;
  const share = change.share.id;
  const { permission: key = "" } = (await nodes.get(change.tx, share, parent)) ?? {};
  const sddl = await givenSddl(change.tx, { share, key, kind }, contexts.security);
  return { sddl, inherits: (partsIn(contexts.security) & DACL) === 0 };
}

/** Makes a new file or directory. */
export async function made(asked: Asked, change: ShareTx, spot: Spot): Promise<Opened> {
  const { tx, share, sparse } = change;
  const { options, attributes, disposition } = asked;
  const isDirectory = (options & DIRECTORY_FILE) !== 0;
  const isTemporary = (attributes & TEMPORARY) !== 0;
  if (isDirectory && (replaces(disposition) || isTemporary)) {
    throw new SmbError("STATUS_INVALID_PARAMETER");
  }
  const granted = grantedFor(asked, undefined);
  if ((options & DELETE_ON_CLOSE) !== 0) {
    if ((granted & access.delete) === 0) throw new SmbError("STATUS_INVALID_PARAMETER");
    if ((attributes & READ_ONLY) !== 0 && !isDirectory) throw new SmbError("STATUS_CANNOT_DELETE");
  }
  checkLease(asked, undefined);
  const kind = isDirectory ? "directory" : "file";
  const { tick, ...changed } = stamped(tx);
  const at = hexOf(tick);
  const given = {
    attributes: isDirectory
      ? (attributes & ATTRIBUTES_KEPT) | DIRECTORY
      : fileAttributes(attributes),
    createdAt: undefined,
    writtenAt: undefined,
    changedAt: undefined,
    permission: await permissionOf(asked, change, spot.parent, kind),
  };
  const where = { share: share.id, parent: spot.parent, kind, tick } as const;
  const common = {
    ...changed,
    ...(await newProperties(tx, given, where)),
    id: at,
    parent: hexOf(spot.parent),
    name: spot.name,
    since: at,
    lease: available,
    metadata: noMetadata,
  };
  const node: NodeRecord = isDirectory
    ? { ...common, kind: "directory" }
    : { ...common, kind: "file", size: 0, content: sparse.create(tx), headers: {}, generation: at };
  await createNode(change, node);
  return opened(asked, node, granted, CREATED);
}

/** Empties a file; it stays the same one. */
export async function overwritten(
  asked: Asked,
  change: ShareTx,
  node: FileRecord,
): Promise<FileRecord> {
  const { tx, sparse } = change;
  const { tick, ...changed } = stamped(tx);
  const ready = await prepare(change, node);
  await sparse.release(tx, ready.content);
  const at = hexOf(tick);
  const { copy: _copy, ...rest } = ready;
  const after: FileRecord = {
    ...rest,
    ...changed,
    attributes: fileAttributes(asked.attributes),
    size: 0,
    content: sparse.create(tx),
    writtenAt: at,
    changedAt: at,
    generation: at,
  };
  await save(change, node, after);
  return after;
}
