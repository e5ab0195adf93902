import type { Instant, Tick } from "../base/time.ts";
import type { Metadata } from "../rules/metadata.ts";
import { type AccessPolicy, json } from "./records.ts";
import type { Codec } from "./subspace.ts";

export type QueueRecord = {
  readonly metadata: Metadata;
  readonly policies: readonly AccessPolicy[];
};

/**
 * Its messages' keys begin with the generation's number: a queue that is cleared gets a new one, and so is
 * empty at once. `count` is of all that have not been removed, so never less than there are.
 */
export type QueueState = { readonly generation: bigint; readonly count: number };

export type QueueName = { readonly account: string; readonly name: string };

/**
 * Where a message is in its queue: the time from which it is visible, and the tick of the change that said
 * so. Each change makes another place, which is therefore what a pop receipt tells.
 */
export type MessagePlace = { readonly visibleAt: Instant; readonly tick: Tick };

/**
 * Short texts stand in the record; it moves with every retrieval, so long ones lie in the heap. `sum` is a
 * CRC-32 of such a one; those of earlier versions have none.
 */
export type MessageText =
  | { readonly bytes: Uint8Array }
  | { readonly heap: Tick; readonly sum?: number };

export type MessageRecord = {
  readonly id: string;
  /** The tick of its insertion. */
  readonly number: Tick;
  readonly expiresAt: Instant;
  readonly dequeueCount: number;
  readonly text: MessageText;
};

export const queueRecord = json<QueueRecord>();
export const queueNameRecord = json<QueueName>();

const VERSION = 1;

const view = (bytes: Uint8Array): Buffer => {
  if (bytes[0] !== VERSION) throw new Error(`a record has the unknown version ${bytes[0]}`);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
};

const begun = (size: number): Buffer => {
  const bytes = Buffer.allocUnsafe(size);
  bytes[0] = VERSION;
  return bytes;
};

export const queueStateRecord: Codec<QueueState> = {
  encode({ generation, count }) {
    const bytes = begun(15);
    bytes.writeBigUInt64BE(generation, 1);
    bytes.writeUIntBE(count, 9, 6);
    return bytes;
  },
  decode(bytes) {
    const from = view(bytes);
    return { generation: from.readBigUInt64BE(1), count: from.readUIntBE(9, 6) };
  },
};

export const messagePlaceRecord: Codec<MessagePlace> = {
  encode({ visibleAt, tick }) {
    const bytes = begun(15);
    bytes.writeUIntBE(visibleAt, 1, 6);
    bytes.writeBigUInt64BE(tick, 7);
    return bytes;
  },
  decode(bytes) {
    const from = view(bytes);
    return { visibleAt: from.readUIntBE(1, 6), tick: from.readBigUInt64BE(7) };
  },
};

// version 1, id 16, number 8, expires at 6, dequeue count 4, where the text is 1, then the text, or its heap id
// and its sum
const TEXT_AT = 36;
const SUM_AT = 44;
const IN_RECORD = 0;
const IN_HEAP = 1;
const IN_HEAP_SUMMED = 2;

function sizeOf(text: MessageText): number {
  if ("bytes" in text) return TEXT_AT + text.bytes.length;
  return text.sum === undefined ? SUM_AT : SUM_AT + 4;
}

/** Compact, because every retrieval writes it anew. */
export const messageRecord: Codec<MessageRecord> = {
  encode({ id, number, expiresAt, dequeueCount, text }) {
    const bytes = begun(sizeOf(text));
    bytes.write(id.replaceAll("-", ""), 1, "hex");
    bytes.writeBigUInt64BE(number, 17);
    bytes.writeUIntBE(expiresAt, 25, 6);
    bytes.writeUInt32BE(dequeueCount, 31);
    if ("bytes" in text) {
      bytes[35] = IN_RECORD;
      bytes.set(text.bytes, TEXT_AT);
      return bytes;
    }
    bytes[35] = text.sum === undefined ? IN_HEAP : IN_HEAP_SUMMED;
    bytes.writeBigUInt64BE(text.heap, TEXT_AT);
    if (text.sum !== undefined) bytes.writeUInt32BE(text.sum, SUM_AT);
    return bytes;
  },
  decode(bytes) {
    const from = view(bytes);
    const hex = from.toString("hex", 1, 17);
    return {
      id: `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`,
      number: from.readBigUInt64BE(17),
      expiresAt: from.readUIntBE(25, 6),
      dequeueCount: from.readUInt32BE(31),
      text: textFrom(from),
    };
  },
};

function textFrom(record: Buffer): MessageText {
  if (record[35] === IN_RECORD) return { bytes: record.subarray(TEXT_AT) };
  const heap = record.readBigUInt64BE(TEXT_AT);
  return record[35] === IN_HEAP_SUMMED ? { heap, sum: record.readUInt32BE(SUM_AT) } : { heap };
}
