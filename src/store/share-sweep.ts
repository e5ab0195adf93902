import type { Instant } from "../base/time.ts";
import type { WriteTx } from "../engine/engine.ts";
import type { Contents } from "./content.ts";
import type { NodeRecord } from "./file-records.ts";
import {
  deletedShares,
  entries,
  fileCopies,
  garbage,
  nodes,
  oldEntries,
  oldNodes,
  permissions,
  shareSnapshots,
  usage,
} from "./keys.ts";
import type { ShareGarbage } from "./records.ts";
import type { SweepOptions } from "./sweep.ts";

const BATCH = 64;

/** Takes a deleted share apart, or the versions in one that no snapshot shows any more; whether that is done. */
export async function tidyShare(
  { engine, contents }: SweepOptions,
  value: ShareGarbage,
  isStopped: () => boolean,
): Promise<boolean> {
  const id = BigInt(`0x${"share" in value ? value.share : value.history}`);
  while ("share" in value) {
    if (isStopped()) return false;
    if (await engine.write((tx) => emptied(tx, contents, id))) return true;
  }
  for (const kind of [oldNodes, oldEntries] as const) {
    let from: Uint8Array | undefined = kind.packed([id]);
    while (from !== undefined) {
      if (isStopped()) return false;
      const start: Uint8Array = from;
      from = await engine.write((tx) => thinned(tx, contents, id, { kind, from: start }));
    }
  }
  return true;
}

async function releaseNode(tx: WriteTx, contents: Contents, node: NodeRecord): Promise<void> {
  if (node.kind === "file") await contents.release(tx, node.content);
}

/** Takes some of everything out of a share; whether nothing is left in it. */
async function emptied(tx: WriteTx, contents: Contents, id: bigint): Promise<boolean> {
  const now = await nodes.walk(tx, [id], { limit: BATCH });
  for (const { key, value } of now) {
    await releaseNode(tx, contents, value);
    nodes.delete(tx, ...key);
  }
  const before = await oldNodes.walk(tx, [id], { limit: BATCH });
  for (const { key, value } of before) {
    await releaseNode(tx, contents, value);
    oldNodes.delete(tx, ...key);
  }
  let left = now.length + before.length;
  for (const { key } of await entries.walk(tx, [id], { limit: BATCH })) {
    entries.delete(tx, ...key);
    left++;
  }
  for (const { key } of await oldEntries.walk(tx, [id], { limit: BATCH })) {
    oldEntries.delete(tx, ...key);
    left++;
  }
  for (const { key } of await shareSnapshots.walk(tx, [id], { limit: BATCH })) {
    shareSnapshots.delete(tx, ...key);
    left++;
  }
  for (const { key } of await permissions.walk(tx, [id], { limit: BATCH })) {
    permissions.delete(tx, ...key);
    left++;
  }
  for (const { key } of await fileCopies.walk(tx, [id], { limit: BATCH })) {
    fileCopies.delete(tx, ...key);
    left++;
  }
  usage.delete(tx, id);
  return left === 0;
}

/** Goes through some old versions and removes those that no snapshot shows; where to go on, if any are left. */
async function thinned(
  tx: WriteTx,
  contents: Contents,
  id: bigint,
  { kind, from }: { kind: typeof oldNodes | typeof oldEntries; from: Uint8Array },
): Promise<Uint8Array | undefined> {
  const snapshots = await shareSnapshots.walk(tx, [id], { limit: Number.MAX_SAFE_INTEGER });
  const ticks = snapshots.map(({ key }) => key[1]);
  // What the two kinds differ in, their keys and records, matters only where a node's content is released.
  const rows = await (kind as typeof oldNodes).walk(tx, [id], { from, limit: BATCH });
  for (const { key, value } of rows) {
    const since = BigInt(`0x${value.since}`);
    const until = key[key.length - 1] as bigint;
    if (ticks.some((tick) => since <= tick && tick < until)) continue;
    if (kind === oldNodes) await releaseNode(tx, contents, value);
    (kind as typeof oldNodes).delete(tx, ...key);
  }
  const last = rows.at(-1);
  if (last === undefined || rows.length < BATCH) return undefined;
  return Buffer.concat([(kind as typeof oldNodes).packed(last.key), Buffer.of(0)]);
}

/** Gives up deleted shares whose time to be restored is over. */
export async function expireShares(
  { engine }: SweepOptions,
  now: Instant,
  isStopped: () => boolean = () => false,
): Promise<number> {
  let count = 0;
  let from: Uint8Array = deletedShares.packed([]);
  for (;;) {
    const rows = await engine.read((tx) => deletedShares.walk(tx, [], { from, limit: BATCH }));
    for (const { key, value } of rows) {
      if (isStopped()) return count;
      if (value.expiresAt > now) continue;
      await engine.write(async (tx) => {
        if ((await deletedShares.get(tx, ...key)) === undefined) return; // it was restored
        deletedShares.delete(tx, ...key);
        garbage.put(tx, [tx.tick()], { share: value.share.id });
      });
      count++;
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH) return count;
    from = Buffer.concat([deletedShares.packed(last.key), Buffer.of(0)]);
  }
}
