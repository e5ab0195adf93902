import type { Instant } from "../base/time.ts";
import type { Engine, WriteTx } from "../engine/engine.ts";
import { Damage } from "./damage.ts";
import { expiries, messages, queueNames, queueStates } from "./keys.ts";
import { findMessage, removeMessage } from "./messages.ts";
import { BrokenRecord } from "./subspace.ts";

/** Few, so that requests come in between: each of these steps waits for those that came before it. */
const BATCH = 32;

/**
 * Removes messages whose time is over, some in each transaction. Nobody has seen them since: the
 * operations look at the time themselves. Gives how many they were.
 */
export async function expireMessages(
  engine: Engine,
  now: Instant,
  isStopped: () => boolean = () => false,
): Promise<number> {
  let count = 0;
  const damage = new Damage();
  const to = expiries.packed([now + 1]);
  for (let from = expiries.packed([]); !isStopped(); ) {
    const due = await engine.read((tx) => tx.range({ from, to, limit: BATCH }));
    const last = due.at(-1);
    if (last === undefined) break;
    const remove = (keys: readonly Uint8Array[]) =>
      damage.passed(engine.write((tx) => removed(tx, keys)).then((done) => (count += done)));
    const keys = due.map(({ key }) => key);
    // Where one is damaged none of them went, and the others go one by one.
    if (!(await remove(keys))) for (const key of keys) await remove([key]);
    from = Buffer.concat([last.key, Buffer.of(0)]);
  }
  damage.tell();
  return count;
}

/** Removes the messages that these rows of the index still lead to; how many they were. */
async function removed(tx: WriteTx, keys: readonly Uint8Array[]): Promise<number> {
  const counts = new Map<bigint, number>();
  let count = 0;
  for (const key of keys) {
    const value = await tx.get(key);
    if (value === undefined) continue; // it was deleted in between
    const place = expiries.decoded(value);
    const [, generation, number] = expiries.unpacked(key);
    const record = await findMessage(tx, generation, place);
    if (record?.number !== number) throw new BrokenRecord("the index of expiry names no message");
    removeMessage(tx, generation, { place, record });
    counts.set(generation, (counts.get(generation) ?? 0) + 1);
    count++;
  }
  for (const [generation, less] of counts) await countDown(tx, generation, less);
  return count;
}

/** A generation without a name was cleared or deleted: nobody counts it any more. */
async function countDown(tx: WriteTx, generation: bigint, less: number): Promise<void> {
  const queue = await queueNames.get(tx, generation);
  if (queue === undefined) return;
  const state = await queueStates.get(tx, queue.account, queue.name);
  if (state?.generation !== generation) return;
  queueStates.put(tx, [queue.account, queue.name], { generation, count: state.count - less });
}

/** Takes some messages out of a generation that was cleared or deleted; whether none is left. */
export async function emptiedGeneration(tx: WriteTx, generation: bigint): Promise<boolean> {
  const rows = await messages.walk(tx, [generation], { limit: BATCH });
  for (const { key, value: record } of rows) {
    const [, visibleAt, tick] = key;
    removeMessage(tx, generation, { place: { visibleAt, tick }, record });
  }
  return rows.length < BATCH;
}
