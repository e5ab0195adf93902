import type { Tick } from "../base/time.ts";
import type { ReadTx, WriteTx } from "../engine/engine.ts";
import { folded } from "../rules/file-names.ts";
import type { EntryRecord, FileRecord, NodeRecord } from "../store/file-records.ts";
import { entries, nodes, oldEntries, oldNodes } from "../store/keys.ts";
import type { SparseContents } from "../store/sparse.ts";
import type { Row } from "../store/subspace.ts";

/** The number of every share's root directory. */
export const ROOT = 0n;

export const tickOf = (hex: string): Tick => BigInt(`0x${hex}`);
export const hexOf = (tick: Tick): string => tick.toString(16);

/** A share as it is now, or as it was when a snapshot of it was taken. */
export type View = {
  readonly share: bigint;
  readonly at: Tick | undefined;
};

/** A share that is to be changed, and the newest snapshot that its old versions are kept for. */
export type Writing = { readonly share: bigint; readonly lastSnapshot: Tick | undefined };

const wasAt = (record: { readonly since: string } | undefined, at: Tick): boolean =>
  record !== undefined && tickOf(record.since) <= at;

/** What a name in a directory stood for. */
export async function entryOf(
  tx: ReadTx,
  { share, at }: View,
  directory: bigint,
  name: string,
): Promise<EntryRecord | undefined> {
  const key = folded(name);
  if (at === undefined) return entries.get(tx, share, directory, key);
  const from = oldEntries.packed([share, directory, key, at + 1n]);
  const [old] = await oldEntries.walk(tx, [share, directory, key], { from, limit: 1 });
  const found = old === undefined ? await entries.get(tx, share, directory, key) : old.value;
  return wasAt(found, at) ? found : undefined;
}

/** A file or directory by its number. */
export async function nodeOf(
  tx: ReadTx,
  { share, at }: View,
  id: bigint,
): Promise<NodeRecord | undefined> {
  if (at === undefined) return nodes.get(tx, share, id);
  const from = oldNodes.packed([share, id, at + 1n]);
  const [old] = await oldNodes.walk(tx, [share, id], { from, limit: 1 });
  const found = old === undefined ? await nodes.get(tx, share, id) : old.value;
  return wasAt(found, at) ? found : undefined;
}

/** A part of a directory's names in order; `next` is the folded name to go on from, if any is left. */
export type Listed = {
  readonly entries: readonly EntryRecord[];
  readonly next: string | undefined;
};

/** Which names: those that begin with `prefix` and are not before `from`, both folded. */
export type Listing = {
  readonly prefix: string;
  readonly from: string | undefined;
  readonly limit: number;
};

const BATCH = 500;
/** A page ends, with whatever it has, when this many versions were looked at. */
const LOOKED_AT_MAX = 20_000;

export async function entriesOf(
  tx: ReadTx,
  view: View,
  directory: bigint,
  { prefix, from, limit }: Listing,
): Promise<Listed> {
  const { share, at } = view;
  const begin = entries.packed([share, directory], prefix);
  const wanted = entries.packed([share, directory], from ?? "");
  const start = Buffer.compare(wanted, begin) < 0 ? begin : wanted;
  const to = Buffer.concat([begin, Buffer.of(0xff)]); // no byte of UTF-8 is as large
  if (at === undefined) {
    const rows = await entries.walk(tx, [share, directory], { from: start, to, limit: limit + 1 });
    const found = rows.slice(0, limit).map(({ value }) => value);
    return { entries: found, next: rows[limit]?.key[2] };
  }
  const found: EntryRecord[] = [];
  let looked = 0;
  let last: string | undefined;
  for await (const { name, entry } of versions(tx, view, { start, to })) {
    const isFull = found.length >= limit || ++looked > LOOKED_AT_MAX;
    if (isFull && name !== last) return { entries: found, next: name };
    last = name;
    if (entry !== undefined && wasAt(entry, at)) found.push(entry);
  }
  return { entries: found, next: undefined };
}

type Version = { readonly name: string; readonly entry: EntryRecord | undefined };

/**
 * The entries of a directory that may be those of a snapshot, current ones and old ones, in the order of their
 * names. What a name stood for at one time is in one of them only.
 */
async function* versions(
  tx: ReadTx,
  { at = 0n }: View,
  { start, to }: { start: Buffer; to: Buffer },
): AsyncGenerator<Version> {
  const now = rowsOf((page) => entries.walk(tx, [], { ...page, to }), {
    start,
    batch: BATCH,
    packed: entries.packed,
  });
  const end = asOld(to);
  const old = rowsOf((page) => oldEntries.walk(tx, [], { ...page, to: end }), {
    start: asOld(start),
    batch: BATCH,
    packed: oldEntries.packed,
  });
  let a = await now.next();
  let b = await old.next();
  while (!a.done || !b.done) {
    const isOld = a.done || (!b.done && before(b.value.key[2], a.value.key[2]));
    if (isOld && !b.done) {
      const { key, value } = b.value;
      yield { name: key[2], entry: key[3] > at ? value : undefined };
      b = await old.next();
    } else if (!a.done) {
      yield { name: a.value.key[2], entry: a.value.value };
      a = await now.next();
    }
  }
}

const before = (a: string, b: string): boolean =>
  Buffer.compare(Buffer.from(a, "utf8"), Buffer.from(b, "utf8")) < 0;

/** Rows one after another, fetched a batch at a time. */
export async function* rowsOf<K extends readonly unknown[], V>(
  walk: (page: { readonly from: Uint8Array; readonly limit: number }) => Promise<Row<K, V>[]>,
  {
    start,
    batch,
    packed,
  }: { readonly start: Uint8Array; readonly batch: number; readonly packed: (key: K) => Buffer },
): AsyncGenerator<Row<K, V>> {
  for (let from = start; ; ) {
    const rows = await walk({ from, limit: batch });
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < batch) return;
    from = Buffer.concat([packed(last.key), Buffer.of(0)]);
  }
}

/** The key of an entry's old versions begins with another number, and is else the same. */
function asOld(key: Buffer): Buffer {
  const copy = Buffer.from(key);
  copy[0] = oldEntries.packed([])[0] ?? 0;
  return copy;
}

/** Whether a version that ends now is one that a snapshot shows. */
const isKept = (record: { readonly since: string }, { lastSnapshot }: Writing): boolean =>
  lastSnapshot !== undefined && tickOf(record.since) <= lastSnapshot;

/**
 * A node that may now be changed and put back with `putNode`: what a snapshot shows of it has been set apart,
 * with a content of its own.
 */
export async function writable<N extends NodeRecord>(
  tx: WriteTx,
  writing: Writing,
  node: N,
  sparse: SparseContents,
): Promise<N> {
  if (!isKept(node, writing)) return node;
  const until = tx.tick();
  const kept: NodeRecord =
    node.kind === "file" ? { ...node, content: await sparse.fork(tx, node.content) } : node;
  oldNodes.put(tx, [writing.share, tickOf(node.id), until], kept);
  return { ...node, since: hexOf(until) };
}

export const putNode = (tx: WriteTx, { share }: Writing, node: NodeRecord): void =>
  nodes.put(tx, [share, tickOf(node.id)], node);

/** Removes a node, or sets it apart for the snapshots that show it. */
export async function dropNode(
  tx: WriteTx,
  writing: Writing,
  node: NodeRecord,
  sparse: SparseContents,
): Promise<void> {
  const id = tickOf(node.id);
  if (isKept(node, writing)) oldNodes.put(tx, [writing.share, id, tx.tick()], node);
  else if (node.kind === "file") await sparse.release(tx, (node as FileRecord).content);
  nodes.delete(tx, writing.share, id);
}

/** Makes a name in a directory that has none such. */
export function putEntry(
  tx: WriteTx,
  { share }: Writing,
  directory: bigint,
  entry: Omit<EntryRecord, "since">,
): void {
  const since = hexOf(tx.tick());
  entries.put(tx, [share, directory, folded(entry.name)], { ...entry, since });
}

/** Removes a name, or sets it apart for the snapshots that show it. */
export async function dropEntry(
  tx: WriteTx,
  writing: Writing,
  directory: bigint,
  name: string,
): Promise<void> {
  const { share } = writing;
  const key = folded(name);
  const entry = await entries.get(tx, share, directory, key);
  if (entry === undefined) return;
  if (isKept(entry, writing)) oldEntries.put(tx, [share, directory, key, tx.tick()], entry);
  entries.delete(tx, share, directory, key);
}
