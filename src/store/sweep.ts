import { afterPrefix } from "../base/bytes.ts";
import type { Log } from "../base/log.ts";
import type { Instant } from "../base/time.ts";
import type { Engine, WriteTx } from "../engine/engine.ts";
import type { ChunkFiles } from "../engine/files.ts";
import { isImmutable } from "../rules/immutability.ts";
import type { Contents } from "./content.ts";
import { Damage } from "./damage.ts";
import {
  blobs,
  blocks,
  chunkFiles,
  copies,
  deletedContainers,
  entities,
  garbage,
  pieces,
  purges,
  snapshots,
  uncommitted,
  versions,
} from "./keys.ts";
import type { GarbageRecord, PurgeRecord } from "./records.ts";
import { tidyShare } from "./share-sweep.ts";
import { upkeep } from "./sparse-upkeep.ts";
import { emptiedGeneration } from "./sweep-messages.ts";
import { indexTags } from "./tag-index.ts";

const BATCH = 64;
const DAY_MS = 24 * 3600 * 1000;
const WEEK_MS = 7 * DAY_MS;

export type SweepOptions = {
  readonly engine: Engine;
  readonly files: ChunkFiles;
  readonly contents: Contents;
  readonly log: Log;
};

/**
 * Takes apart what nobody names any more: deleted containers, long lists, uncommitted blocks after a week.
 * Each step is a small transaction, so that other work goes on beside it. Gives how many steps it did.
 */
export async function sweepGarbage(
  options: SweepOptions,
  isStopped: () => boolean = () => false,
): Promise<number> {
  const { engine } = options;
  const damage = new Damage();
  let steps = 0;
  let from: Uint8Array | undefined;
  for (;;) {
    const batch = await engine.read((tx) =>
      garbage.walk(tx, [], { limit: BATCH, ...(from === undefined ? {} : { from }) }),
    );
    for (const { key, value } of batch) {
      if (isStopped()) return steps;
      await damage.passed(
        tidied(options, { tick: key[0], value, isStopped }).then((isDone) => {
          if (isDone) steps++;
        }),
      );
    }
    const last = batch.at(-1)?.key;
    if (last === undefined || batch.length < BATCH) break;
    from = garbage.packed([last[0] + 1n]);
  }
  damage.tell();
  return steps;
}

/** Does the work of one garbage record; gives false if it has to wait. */
async function tidied(
  options: SweepOptions,
  {
    tick,
    value,
    isStopped,
  }: { readonly tick: bigint; readonly value: GarbageRecord; readonly isStopped: () => boolean },
): Promise<boolean> {
  const { engine, contents } = options;
  const done = async (tx: WriteTx, finished: boolean) => {
    if (finished) garbage.delete(tx, tick);
    return finished;
  };
  if ("list" in value) {
    if (contents.isHeld(value.list)) return false;
    const step = async (tx: WriteTx) => done(tx, await shortened(tx, contents, value.list));
    await until(() => engine.write(step), isStopped);
  } else if ("messages" in value) {
    const id = BigInt(`0x${value.messages}`);
    const step = async (tx: WriteTx) => done(tx, await emptiedGeneration(tx, id));
    await until(() => engine.write(step), isStopped);
  } else if ("table" in value) {
    const id = BigInt(`0x${value.table}`);
    const step = async (tx: WriteTx) => done(tx, await emptiedTable(tx, id));
    await until(() => engine.write(step), isStopped);
  } else if ("share" in value || "history" in value) {
    if (!(await tidyShare(options, value, isStopped))) return false;
    await engine.write((tx) => done(tx, true));
  } else if (!("container" in value)) {
    let state = "more";
    const step = async (tx: WriteTx) => {
      state = await upkeep(tx, contents, value);
      return (await done(tx, state === "done")) || state === "held";
    };
    // Nobody is told of it, and a sync for each deleted file would make clients wait for theirs.
    await until(() => engine.write(step, "soon"), isStopped);
    if (state === "held") return false;
  } else {
    const id = BigInt(`0x${value.container}`);
    const step = async (tx: WriteTx) => done(tx, await emptied(tx, contents, id, value.account));
    await until(() => engine.write(step), isStopped);
  }
  return true;
}

/** Takes a page off a list; whether nothing is left of it. */
async function shortened(tx: WriteTx, contents: Contents, list: string): Promise<boolean> {
  const [page, next] = await pieces.walk(tx, [BigInt(`0x${list}`)], { limit: 2 });
  if (page === undefined) return true;
  for (const { chunk } of page.value) await contents.releaseChunk(tx, chunk);
  pieces.delete(tx, ...page.key);
  return next === undefined;
}

/** Takes some of everything out of a deleted container; whether nothing is left in it. */
async function emptied(
  tx: WriteTx,
  contents: Contents,
  id: bigint,
  account: string | undefined,
): Promise<boolean> {
  for (const kind of [blobs, snapshots, versions] as const) {
    const rows = await (kind as typeof snapshots).walk(tx, [id], { limit: BATCH });
    for (const { key, value } of rows) {
      await contents.release(tx, value.content);
      if (kind === blobs && account !== undefined) {
        const [container, name] = key;
        indexTags(tx, { account, containerName: "", container, name }, value.tags, undefined);
      }
      (kind as typeof snapshots).delete(tx, ...key);
    }
    if (rows.length > 0) return false;
  }
  const staged = await blocks.walk(tx, [id], { limit: BATCH });
  for (const { key, value } of staged) {
    for (const chunk of value.chunks) await contents.releaseChunk(tx, chunk);
    blocks.delete(tx, ...key);
  }
  if (staged.length > 0) return false;
  const marks = await uncommitted.walk(tx, [id], { limit: BATCH });
  for (const { key } of marks) uncommitted.delete(tx, ...key);
  const begun = await copies.walk(tx, [id], { limit: BATCH });
  for (const { key } of begun) copies.delete(tx, ...key);
  return marks.length < BATCH && begun.length < BATCH;
}

/** Takes some entities out of a deleted table; whether none is left in it. */
async function emptiedTable(tx: WriteTx, id: bigint): Promise<boolean> {
  const from = entities.packed([id]);
  const rows = await tx.range({ from, to: afterPrefix(from), limit: BATCH });
  for (const { key } of rows) tx.delete(key);
  return rows.length < BATCH;
}

async function until(step: () => Promise<boolean>, isStopped: () => boolean): Promise<void> {
  while (!isStopped() && !(await step()));
}

/** Removes what time alone removes: deleted things that can no longer be restored, blobs that have expired. */
export async function purge(
  { engine, contents }: SweepOptions,
  now: Instant,
  isStopped: () => boolean = () => false,
): Promise<number> {
  let count = 0;
  const damage = new Damage();
  const to = purges.packed([BigInt(Math.floor(now)) + 1n]);
  for (let from = purges.packed([]); ; ) {
    const due = await engine.read((tx) => purges.walk(tx, [], { from, to, limit: BATCH }));
    for (const { key } of due) {
      if (isStopped()) return count;
      const step = async (tx: WriteTx) => {
        const record = await purges.get(tx, ...key);
        purges.delete(tx, ...key);
        if (record === undefined) return;
        if (record.what === "container") await purgeContainer(tx, record, now);
        else await purgeBlob(tx, contents, record, now);
      };
      await damage.passed(engine.write(step));
      count++;
    }
    const last = due.at(-1);
    if (last === undefined || due.length < BATCH) break;
    from = Buffer.concat([purges.packed(last.key), Buffer.of(0)]);
  }
  damage.tell();
  return count;
}

type Purge<W extends PurgeRecord["what"]> = Extract<PurgeRecord, { readonly what: W }>;

/** A row may be older than what it speaks of: only what is due by its own record goes. */
async function purgeContainer(
  tx: WriteTx,
  { account, name, at }: Purge<"container">,
  now: Instant,
): Promise<void> {
  const tick = BigInt(`0x${at}`);
  const found = await deletedContainers.get(tx, account, name, tick);
  if (found?.deleted === undefined || found.deleted.until > now) return;
  deletedContainers.delete(tx, account, name, tick);
  garbage.put(tx, [tx.tick()], { container: found.id, account });
}

async function purgeBlob(
  tx: WriteTx,
  contents: Contents,
  record: Exclude<PurgeRecord, Purge<"container">>,
  now: Instant,
): Promise<void> {
  const { what, account, container, name, at = "0" } = record;
  const id = BigInt(`0x${container}`);
  const tick = BigInt(`0x${at}`);
  const kind = what === "snapshot" ? snapshots : versions;
  const found =
    what === "blob" ? await blobs.get(tx, id, name) : await kind.get(tx, id, name, tick);
  const until = found?.deleted?.until ?? found?.expiresAt;
  if (found === undefined || until === undefined || until > now) return;
  if (isImmutable(found, now) !== undefined) {
    // It may not go yet, though its time is over; a legal hold has no end to wait for.
    purges.put(tx, [BigInt(Math.ceil(now)) + BigInt(DAY_MS), tx.tick()], record);
    return;
  }
  await contents.release(tx, found.content);
  if (what !== "blob") return kind.delete(tx, id, name, tick);
  blobs.delete(tx, id, name);
  indexTags(tx, { account, containerName: "", container: id, name }, found.tags, undefined);
}

/** Drops blocks that no list has named for a week since the last of them came ("Put Block", remarks). */
export async function expireBlocks(
  { engine, contents }: SweepOptions,
  now: Instant,
  isStopped: () => boolean = () => false,
): Promise<number> {
  let count = 0;
  const damage = new Damage();
  let from: Uint8Array | undefined;
  for (;;) {
    const marks = await engine.read((tx) =>
      uncommitted.walk(tx, [], { limit: BATCH, ...(from === undefined ? {} : { from }) }),
    );
    for (const { key, value } of marks) {
      if (isStopped()) return count;
      if (value.changedAt + WEEK_MS > now) continue;
      const step = async (tx: WriteTx) => {
        const mark = await uncommitted.get(tx, ...key);
        if (mark === undefined || mark.changedAt + WEEK_MS > now) return;
        await dropBlocks(tx, contents, ...key);
      };
      await damage.passed(engine.write(step));
      count++;
    }
    const last = marks.at(-1);
    if (last === undefined || marks.length < BATCH) break;
    from = Buffer.concat([uncommitted.packed(last.key), Buffer.of(0)]);
  }
  damage.tell();
  return count;
}

/** Removes all blocks of a blob that no list has named, and that it had any. */
export async function dropBlocks(
  tx: WriteTx,
  contents: Contents,
  container: bigint,
  blob: string,
): Promise<void> {
  const rows = await blocks.walk(tx, [container, blob], { limit: Number.MAX_SAFE_INTEGER });
  for (const { key, value } of rows) {
    for (const chunk of value.chunks) await contents.releaseChunk(tx, chunk);
    blocks.delete(tx, ...key);
  }
  uncommitted.delete(tx, container, blob);
}

/** Removes chunk files that no record names: what a crash or an aborted upload left. */
export async function sweepFiles({ engine, files, log }: SweepOptions): Promise<void> {
  const count = await files.sweep((names) =>
    engine.read(async (tx) => {
      const named = new Set<string>();
      for (const name of names) {
        if ((await chunkFiles.get(tx, name)) !== undefined) named.add(name);
      }
      return named;
    }),
  );
  if (count > 0) log.info("removed chunk files that no record names", { count });
}
