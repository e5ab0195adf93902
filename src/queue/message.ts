import { httpDate } from "../base/time.ts";
import type { ReadTx } from "../engine/engine.ts";
import { type Request, writeOperation } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import {
  checkedVisibleAt,
  hasExpired,
  type Receipt,
  receiptOf,
  receiptText,
  updateMsOf,
} from "../rules/messages.ts";
import { queueStates } from "../store/keys.ts";
import {
  dropText,
  findMessage,
  keptText,
  leavePlace,
  placeMessage,
  removeMessage,
} from "../store/messages.ts";
import type { MessageRecord } from "../store/queue-records.ts";
import { MESSAGE_XML_MAX, messageTextOf } from "./message-xml.ts";
import { theMessages } from "./resource.ts";

/**
 * The message of a request, by its receipt: each retrieval and update puts the message elsewhere, so an older
 * receipt leads to where it is no more. That is answered as a missing message, as the service does.
 */
async function held(
  tx: ReadTx,
  generation: bigint,
  { names: [, id = ""] }: Request,
  receipt: Receipt,
): Promise<MessageRecord> {
  const record = await findMessage(tx, generation, receipt);
  if (record?.id !== id.toLowerCase() || hasExpired(record.expiresAt, tx.now)) {
    throw new StorageError("MessageNotFound");
  }
  return record;
}

export const updateMessage = writeOperation({
  name: "Update Message",
  match: { method: "PUT", on: "message" },
  allow: { sas: "u", resource: "o" },
  body: { kind: "whole", sizeMax: MESSAGE_XML_MAX },
  guard: { on: theMessages, conditions: "none", lease: "own" },
  input: ({ query }, { bytes }) => ({
    receipt: receiptOf(query),
    hiddenMs: updateMsOf(query),
    text: bytes.length === 0 ? undefined : messageTextOf(bytes),
  }),
  async apply({ tx, request, found: { generation }, input: { receipt, hiddenMs, text } }) {
    const before = await held(tx, generation, request, receipt);
    const visibleAt = checkedVisibleAt(tx.now, hiddenMs, before.expiresAt);
    const place = { visibleAt, tick: tx.tick() };
    if (text !== undefined) dropText(tx, before.text);
    const record = text === undefined ? before : { ...before, text: keptText(tx, text) };
    leavePlace(tx, generation, receipt);
    placeMessage(tx, generation, { place, record });
    const headers = {
      "x-ms-popreceipt": receiptText(place),
      "x-ms-time-next-visible": httpDate(visibleAt),
    };
    return { status: 204, headers };
  },
});

export const deleteMessage = writeOperation({
  name: "Delete Message",
  match: { method: "DELETE", on: "message" },
  allow: { sas: "p", resource: "o" },
  guard: { on: theMessages, conditions: "none", lease: "own" },
  input: ({ query }) => receiptOf(query),
  async apply({ tx, request, place: queue, found: { generation, count }, input: receipt }) {
    const record = await held(tx, generation, request, receipt);
    removeMessage(tx, generation, { place: receipt, record });
    queueStates.put(tx, [queue.account, queue.name], { generation, count: count - 1 });
    return { status: 204, headers: {} };
  },
});
