import { createHash } from "node:crypto";
import { parseBase64 } from "../base/bytes.ts";
import { remembered } from "../base/remembered.ts";
import { instantOf, type Tick } from "../base/time.ts";
import type { ReadTx, WriteTx } from "../engine/engine.ts";
import { StorageError } from "../rules/errors.ts";
import { inheritedPermission, mergedPermission } from "../rules/sddl.ts";
import { sddlOf } from "../rules/security-descriptor.ts";
import { ARCHIVE, DIRECTORY, type NodeKind } from "../rules/smb-properties.ts";
import type { NodeRecord } from "../store/file-records.ts";
import { nodes, permissions } from "../store/keys.ts";
import type { Changed } from "../store/records.ts";
import { hexOf } from "./namespace.ts";

/** A time that a request sets: its own, that of the request, or the one that is there. */
export type TimeGiven = Tick | "now" | undefined;

/** What a request says of the properties that SMB knows; undefined leaves them as they are, or to the default. */
export type SmbGiven = {
  readonly attributes: number | undefined;
  readonly createdAt: TimeGiven;
  readonly writtenAt: TimeGiven;
  readonly changedAt: TimeGiven;
  /** A text may take in beside what it says what the directory passes on to something new. */
  readonly permission:
    | { readonly sddl: string; readonly inherits?: boolean }
    | { readonly key: string }
    | undefined;
};

/** What a security descriptor may have, as text: the list of its entries could not be longer as bytes either. */
export const PERMISSION_SIZE_MAX = 64 * 1024;

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
  const { kind, tick } = made;
  const at = (time: TimeGiven) => hexOf(time === undefined || time === "now" ? tick : time);
  return {
    attributes: given.attributes ?? (kind === "file" ? ARCHIVE : DIRECTORY),
    createdAt: at(given.createdAt),
    writtenAt: at(given.writtenAt),
    changedAt: at(given.changedAt),
    permission: await newKey(tx, given, made),
  };
}

/** The permission of a new node: one that it was given, with what it inherits beside, or that which it inherits. */
async function newKey(
  tx: WriteTx,
  given: SmbGiven,
  {
    share,
    parent,
    kind,
  }: { readonly share: bigint; readonly parent: bigint; readonly kind: NodeKind },
): Promise<string> {
  const { permission } = given;
  if (permission === undefined) return inheritedKey(tx, share, parent, kind);
  if ("sddl" in permission && permission.inherits === true) {
    const own = asSddl(permission.sddl);
    const above = asSddl(await permissionAbove(tx, share, parent));
    const merged = mergedPermission(own, above, kind);
    // Each directory could add to it, as deep as directories go.
    if (merged.length > PERMISSION_SIZE_MAX) throw new StorageError("FileInvalidPermission");
    return keepPermission(tx, share, merged === own ? permission.sddl : merged);
  }
  return (await permissionKey(tx, share, given)) ?? inheritedKey(tx, share, parent, kind);
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

/** Most nodes of a share have one of a few permissions, and to work one out takes longer than to store a file. */
const PERMISSIONS_REMEMBERED = 256;
const inherited: Readonly<Record<NodeKind, (kept: string) => string>> = {
  file: remembered(PERMISSIONS_REMEMBERED, (kept) => inheritedPermission(asSddl(kept), "file")),
  directory: remembered(PERMISSIONS_REMEMBERED, (kept) =>
    inheritedPermission(asSddl(kept), "directory"),
  ),
};
const numberOf = remembered(PERMISSIONS_REMEMBERED, (sddl) =>
  createHash("sha256").update(sddl).digest().readBigUInt64BE(),
);

async function inheritedKey(
  tx: WriteTx,
  share: bigint,
  parent: bigint,
  kind: NodeKind,
): Promise<string> {
  return keepPermission(tx, share, inherited[kind](await permissionAbove(tx, share, parent)));
}

async function permissionAbove(tx: ReadTx, share: bigint, parent: bigint): Promise<string> {
  const directory = await nodes.get(tx, share, parent);
  if (directory === undefined) throw new StorageError("ParentNotFound");
  return permissionIn(tx, share, directory.permission);
}

/** Keeps a security descriptor in a share, as it was written, and gives its key: the same for the same text. */
export async function keepPermission(tx: WriteTx, share: bigint, sddl: string): Promise<string> {
  const number = numberOf(sddl);
  for (let turn = 1; ; turn++) {
    const key = `${number}*${turn}`;
    const found = await permissions.get(tx, share, key);
    if (found === sddl) return key;
    if (found !== undefined) continue; // another text has the same number
    permissions.put(tx, [share, key], sddl);
    return key;
  }
}

const KEY = /^\d{1,20}\*\d{1,9}$/;

/** The security descriptor that a key stands for. */
export async function permissionIn(tx: ReadTx, share: bigint, key: string): Promise<string> {
  const sddl = KEY.test(key) ? await permissions.get(tx, share, key) : undefined;
  if (sddl === undefined) throw new StorageError("FileInvalidPermissionKey");
  return sddl;
}

/** What is kept begins with an owner if it is SDDL; base64 has no colon. */
export const isSddl = (kept: string) => kept.startsWith("O:");

export function sddlIn(base64: string): string | undefined {
  const bytes = parseBase64(base64);
  return bytes === undefined ? undefined : sddlOf(bytes);
}

/** A permission as it is kept, in SDDL. */
export const asSddl = (kept: string): string => (isSddl(kept) ? kept : (sddlIn(kept) ?? kept));
