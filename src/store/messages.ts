import { crc32 } from "node:zlib";
import type { Instant } from "../base/time.ts";
import type { ReadTx, WriteTx } from "../engine/engine.ts";
import { NEVER } from "../rules/messages.ts";
import { expiries, messages, queueNames, queueStates } from "./keys.ts";
import type { MessagePlace, MessageRecord, MessageText, QueueName } from "./queue-records.ts";

/** A message and where it is. */
export type Placed = { readonly place: MessagePlace; readonly record: MessageRecord };

/**
 * Up to this size a text moves with its record. Measured: at 200 bytes that is a tenth faster than the heap,
 * at 400 as fast, at 1 KiB half again as slow in a deep queue, since fewer records fit on a page.
 */
const TEXT_IN_RECORD_MAX = 256;

/** Keeps a text of this transaction's; what it gives belongs into the record. */
export function keptText(tx: WriteTx, bytes: Uint8Array): MessageText {
  if (bytes.length <= TEXT_IN_RECORD_MAX) return { bytes };
  const heap = tx.tick();
  tx.putHeap(heap, bytes);
  return { heap, sum: crc32(bytes) };
}

export function dropText(tx: WriteTx, text: MessageText): void {
  if ("heap" in text) tx.deleteHeap(text.heap);
}

/** The text; undefined if it is damaged or not there. */
export async function textOf(tx: ReadTx, text: MessageText): Promise<string | undefined> {
  const bytes = "bytes" in text ? text.bytes : await tx.getHeap(text.heap);
  if (bytes === undefined) return undefined;
  if ("sum" in text && crc32(bytes) !== text.sum) return undefined;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

export const findMessage = (
  tx: ReadTx,
  generation: bigint,
  { visibleAt, tick }: MessagePlace,
): Promise<MessageRecord | undefined> => messages.get(tx, generation, visibleAt, tick);

/** Puts a message into its place, and says in the index of expiry where it is. */
export function placeMessage(tx: WriteTx, generation: bigint, { place, record }: Placed): void {
  messages.put(tx, [generation, place.visibleAt, place.tick], record);
  if (record.expiresAt < NEVER) {
    expiries.put(tx, [record.expiresAt, generation, record.number], place);
  }
}

/** Takes a message out of a place that it leaves for another one. */
export const leavePlace = (
  tx: WriteTx,
  generation: bigint,
  { visibleAt, tick }: MessagePlace,
): void => messages.delete(tx, generation, visibleAt, tick);

/** Removes a message and all that is kept of it; the queue's count is the caller's matter. */
export function removeMessage(tx: WriteTx, generation: bigint, { place, record }: Placed): void {
  leavePlace(tx, generation, place);
  if (record.expiresAt < NEVER) expiries.delete(tx, record.expiresAt, generation, record.number);
  dropText(tx, record.text);
}

/** Messages that are visible at `now`, those visible the longest first; also such as have expired. */
export async function visibleMessages(
  tx: ReadTx,
  generation: bigint,
  now: Instant,
  { after, limit }: { readonly after?: MessagePlace | undefined; readonly limit: number },
): Promise<Placed[]> {
  const rows = await messages.walk(tx, [generation], {
    from:
      after === undefined
        ? messages.packed([generation])
        : messages.packed([generation, after.visibleAt, after.tick + 1n]),
    to: messages.packed([generation, now + 1]),
    limit,
  });
  return rows.map(({ key: [, visibleAt, tick], value }) => ({
    place: { visibleAt, tick },
    record: value,
  }));
}

/** Gives a queue a new generation, in which there are no messages. */
export function beginGeneration(tx: WriteTx, queue: QueueName): void {
  const generation = tx.tick();
  queueStates.put(tx, [queue.account, queue.name], { generation, count: 0 });
  queueNames.put(tx, [generation], queue);
}
