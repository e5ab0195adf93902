import assert from "node:assert/strict";
import type { Instant } from "../base/time.ts";
import type { Engine, WriteTx } from "../engine/engine.ts";
import { expiries, messages, queueNames, queueStates } from "./keys.ts";
import { findMessage, removeMessage } from "./messages.ts";

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
  while (!isStopped()) {
    const due = (limit: number) => ({ to: expiries.packed([now + 1]), limit });
    const any = await engine.read((tx) => expiries.walk(tx, [], due(1)));
    if (any.length === 0) break;
    count += await engine.write(async (tx) => {
      const rows = await expiries.walk(tx, [], due(BATCH));
      const removed = new Map<bigint, number>();
      for (const { key, value: place } of rows) {
        const [, generation, number] = key;
        const record = await findMessage(tx, generation, place);
        assert.equal(record?.number, number, "the index of expiry names no message");
        removeMessage(tx, generation, { place, record });
        removed.set(generation, (removed.get(generation) ?? 0) + 1);
      }
      for (const [generation, less] of removed) await countDown(tx, generation, less);
      return rows.length;
    });
  }
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
