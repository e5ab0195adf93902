import type { Tick } from "../base/time.ts";
import type { ReadTx, WriteTx } from "../engine/engine.ts";
import { StorageError } from "../rules/errors.ts";
import type {
  DirectoryRecord,
  FileRecord,
  NodeRecord,
  ShareRecord,
  ShareSnapshotRecord,
} from "../store/file-records.ts";
import { entries, shareSnapshots, shares, usage } from "../store/keys.ts";
import type { Notice, Opens } from "../store/opens.ts";
import type { SparseContents } from "../store/sparse.ts";
import {
  dropEntry,
  dropNode,
  entryOf,
  hexOf,
  nodeOf,
  putEntry,
  putNode,
  ROOT,
  tickOf,
  type View,
  type Writing,
  writable,
} from "./namespace.ts";

/**
 * The share itself, whichever door it is entered by: REST operations come as short opens, SMB's live longer.
 * What is open, locked or about to be deleted is in `Opens`, by the file's number and not by its path.
 */
export type Share = {
  readonly account: string;
  readonly name: string;
  readonly id: bigint;
  readonly record: ShareRecord;
  /** The snapshot it is seen at; undefined for the share as it is. */
  readonly snapshot: { readonly at: Tick; readonly record: ShareSnapshotRecord } | undefined;
};

/** A transaction that changes a share, and what it needs beside. */
export type ShareTx = {
  readonly tx: WriteTx;
  readonly share: Share;
  readonly sparse: SparseContents;
  readonly opens: Opens;
};

const GIB = 1024 ** 3;

export async function findShare(
  tx: ReadTx,
  account: string,
  name: string,
  at: Tick | undefined,
): Promise<Share | undefined> {
  const record = await shares.get(tx, account, name);
  if (record === undefined) return undefined;
  const id = tickOf(record.id);
  if (at === undefined) return { account, name, id, record, snapshot: undefined };
  const taken = await shareSnapshots.get(tx, id, at);
  if (taken === undefined) throw new StorageError("ShareSnapshotNotFound");
  return { account, name, id, record, snapshot: { at, record: taken } };
}

export const viewOf = ({ id, snapshot }: Share): View => ({ share: id, at: snapshot?.at });

const writingOf = ({ id, record }: Share): Writing => ({
  share: id,
  lastSnapshot: record.lastSnapshot === undefined ? undefined : tickOf(record.lastSnapshot),
});

/** The end of a path: the directory it is in, its name, and what is there. The root has no name. */
export type Spot = {
  readonly parent: bigint;
  readonly name: string;
  readonly node: NodeRecord | undefined;
};

/** Follows a path down from the root; every part but the last must be a directory. */
export async function walk(tx: ReadTx, view: View, path: readonly string[]): Promise<Spot> {
  const names = [...path];
  const name = names.pop();
  if (name === undefined) {
    return { parent: ROOT, name: "", node: await nodeOf(tx, view, ROOT) };
  }
  let parent = ROOT;
  for (const step of names) {
    const entry = await entryOf(tx, view, parent, step);
    if (entry?.kind !== "directory") throw new StorageError("ParentNotFound");
    parent = tickOf(entry.id);
  }
  const entry = await entryOf(tx, view, parent, name);
  const node = entry === undefined ? undefined : await nodeOf(tx, view, tickOf(entry.id));
  return { parent, name, node };
}

/** The names from the root down to a node, as they were given. */
export async function pathOf(tx: ReadTx, view: View, node: NodeRecord): Promise<string[]> {
  const names: string[] = [];
  for (let at: NodeRecord | undefined = node; at !== undefined && at.id !== "0"; ) {
    names.unshift(at.name);
    at = await nodeOf(tx, view, tickOf(at.parent));
  }
  return names;
}

/** Whether a node is a directory, or in it however deep. */
export async function isWithin(
  tx: ReadTx,
  view: View,
  id: bigint,
  directory: bigint,
): Promise<boolean> {
  for (let at = id; at !== directory; ) {
    const node: NodeRecord | undefined = at === ROOT ? undefined : await nodeOf(tx, view, at);
    if (node === undefined) return false;
    at = tickOf(node.parent);
  }
  return true;
}

/** Counts the sizes of files; growing beyond the share's quota is refused. */
async function grow({ tx, share }: ShareTx, by: number): Promise<void> {
  if (by === 0) return;
  const used = ((await usage.get(tx, share.id)) ?? 0) + by;
  if (by > 0 && used > share.record.quota * GIB) throw new StorageError("ShareSizeLimitReached");
  usage.put(tx, [share.id], used);
}

/** Tells those who watch of a change in a directory. */
async function tell(
  { tx, share, opens }: ShareTx,
  directory: bigint,
  notice: Pick<Notice, "name" | "what" | "kind" | "bits" | "from">,
): Promise<void> {
  const watched = opens.isWatched(share.id);
  if (watched === undefined) return;
  const told = { share: share.id, directory, ...notice };
  if (watched === "flat") {
    opens.tell(tx, told);
    return;
  }
  const above: { id: bigint; name: string }[] = [];
  for (let id = directory; id !== ROOT; ) {
    const node = await nodeOf(tx, viewOf(share), id);
    if (node === undefined) break;
    above.push({ id, name: node.name });
    id = tickOf(node.parent);
  }
  opens.tell(tx, { ...told, above });
}

// Bits of SMB's completion filter (MS-SMB2 2.2.35).
const ATTRIBUTES = 0x4;
const SIZE = 0x8;
const LAST_WRITE = 0x10;
const LAST_ACCESS = 0x20;
const CREATION = 0x40;
const SECURITY = 0x100;

/** Which properties differ between two states of a node. */
function changedBits(before: NodeRecord, after: NodeRecord): number {
  const size = (node: NodeRecord) => (node.kind === "file" ? node.size : 0);
  return (
    (before.attributes === after.attributes ? 0 : ATTRIBUTES) |
    (size(before) === size(after) ? 0 : SIZE) |
    (before.writtenAt === after.writtenAt ? 0 : LAST_WRITE) |
    (before.accessedAt === after.accessedAt ? 0 : LAST_ACCESS) |
    (before.createdAt === after.createdAt ? 0 : CREATION) |
    (before.permission === after.permission ? 0 : SECURITY)
  );
}

/** Nothing comes into a directory that an SMB client is about to delete, and nothing is moved out of it. */
function refuseDoomed({ share, opens }: ShareTx, directory: bigint): void {
  if (opens.isDeletePending({ share: share.id, file: directory })) {
    throw new StorageError("SMBDeletePending");
  }
}

/**
 * A name has come into a directory, or has gone: who has it mounted sees that by the time of its last write. REST's
 * ETag and Last-Modified are of the directory's own properties, and stay.
 */
async function touch(change: ShareTx, directory: bigint): Promise<void> {
  const { tx, share } = change;
  const node = await nodeOf(tx, viewOf(share), directory);
  if (node === undefined) return;
  const now = hexOf(tx.tick());
  const touched = { ...(await prepare(change, node)), writtenAt: now, changedAt: now };
  putNode(tx, writingOf(share), touched);
}

/** Puts a new file or directory in its place, where nothing is. */
export async function create(change: ShareTx, node: NodeRecord): Promise<void> {
  const { tx, share } = change;
  refuseDoomed(change, tickOf(node.parent));
  const writing = writingOf(share);
  if (node.kind === "file") await grow(change, node.size);
  const { parent, name, id, kind } = node;
  putEntry(tx, writing, tickOf(parent), { name, id, kind });
  putNode(tx, writing, node);
  await touch(change, tickOf(parent));
  await tell(change, tickOf(parent), { name, what: "added", kind, bits: 0 });
}

/** The node as it may now be changed; `save` puts it back. What snapshots show of it stays. */
export const prepare = <N extends NodeRecord>(
  { tx, share, sparse }: ShareTx,
  node: N,
): Promise<N> => writable(tx, writingOf(share), node, sparse);

/** Puts back a node that was prepared, and tells of it. */
export async function save(change: ShareTx, before: NodeRecord, after: NodeRecord): Promise<void> {
  const { tx, share } = change;
  if (before.kind === "file" && after.kind === "file") await grow(change, after.size - before.size);
  putNode(tx, writingOf(share), after);
  const { name, kind } = after;
  const bits = changedBits(before, after);
  if (bits !== 0) await tell(change, tickOf(after.parent), { name, what: "modified", kind, bits });
}

/** Removes a file, or a directory that must be empty. */
export async function remove(change: ShareTx, node: NodeRecord): Promise<void> {
  const { tx, share, sparse } = change;
  const writing = writingOf(share);
  if (node.kind === "directory") {
    const [child] = await entries.walk(tx, [share.id, tickOf(node.id)], { limit: 1 });
    if (child !== undefined) throw new StorageError("DirectoryNotEmpty");
  } else {
    await grow(change, -node.size);
  }
  const directory = tickOf(node.parent);
  await dropEntry(tx, writing, directory, node.name);
  await dropNode(tx, writing, node, sparse);
  await touch(change, directory);
  await tell(change, directory, { name: node.name, what: "removed", kind: node.kind, bits: 0 });
}

/**
 * Moves a file or directory with all that is in it: one name goes, another comes, and the node learns of it.
 * The new place must be free, or the node's own in another case.
 */
export async function move<N extends NodeRecord>(
  change: ShareTx,
  node: N,
  to: { readonly parent: bigint; readonly name: string },
): Promise<N> {
  const { tx, share } = change;
  const writing = writingOf(share);
  const from = tickOf(node.parent);
  for (const directory of [from, to.parent]) refuseDoomed(change, directory);
  const moved = { ...(await prepare(change, node)), parent: to.parent.toString(16), name: to.name };
  await dropEntry(tx, writing, from, node.name);
  putEntry(tx, writing, to.parent, { name: to.name, id: node.id, kind: node.kind });
  putNode(tx, writing, moved);
  for (const directory of new Set([from, to.parent])) await touch(change, directory);
  // Who does not watch names learns of a file that was renamed as of one whose attributes were set.
  const bits = node.kind === "file" ? ATTRIBUTES | CREATION : 0;
  const told = { name: to.name, kind: node.kind, bits };
  if (from === to.parent) {
    await tell(change, from, { ...told, what: "renamed", from: node.name });
  } else {
    await tell(change, from, { ...told, bits: 0, name: node.name, what: "removed" });
    await tell(change, to.parent, { ...told, what: "added" });
  }
  return moved;
}

/** Whether anybody has a node open, or something in it. */
export async function isInUse(
  tx: ReadTx,
  opens: Opens,
  view: View,
  node: NodeRecord,
): Promise<boolean> {
  for (const open of opens.inShare(view.share)) {
    if (await isWithin(tx, view, open.file, tickOf(node.id))) return true;
  }
  return false;
}

export const isFile = (node: NodeRecord): node is FileRecord => node.kind === "file";
export const isDirectory = (node: NodeRecord): node is DirectoryRecord => node.kind === "directory";

/** A node by its number, as a view shows it. */
export const nodeIn = (tx: ReadTx, view: View, id: bigint): Promise<NodeRecord | undefined> =>
  nodeOf(tx, view, id);
