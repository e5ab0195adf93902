import type { ReadTx } from "../engine/engine.ts";
import { type Request, readOperation, unfinished, writeOperation } from "../http/operation.ts";
import { invalidQuery } from "../rules/errors.ts";
import {
  expiryOf,
  hasExpired,
  lifetimeOf,
  messageCountOf,
  retrievalMsOf,
} from "../rules/messages.ts";
import { garbage, queueNames, queueStates } from "../store/keys.ts";
import {
  beginGeneration,
  keptText,
  leavePlace,
  type Placed,
  placeMessage,
  removeMessage,
  textOf,
  visibleMessages,
} from "../store/messages.ts";
import {
  gottenXml,
  MESSAGE_XML_MAX,
  messagesXml,
  messageTextOf,
  peekedXml,
  putXml,
} from "./message-xml.ts";
import { theMessages } from "./resource.ts";

/**
 * Messages are handed out in the order in which they became visible. So they come first in, first out, but
 * one that was delayed, or was retrieved and not deleted, comes behind those that were visible before it:
 * the documents promise no order, and this one keeps a message that nobody can digest from blocking all.
 */
export const getMessages = writeOperation({
  name: "Get Messages",
  match: { method: "GET", on: "messages" },
  allow: { sas: "p", resource: "o" },
  guard: { on: theMessages, conditions: "none", lease: "own" },
  input: (request) => {
    refusePeekOnly(request);
    return { wanted: messageCountOf(request.query), hiddenMs: retrievalMsOf(request.query) };
  },
  async apply(call) {
    const { tx, place: queue, found, input, around } = call;
    const { generation, count } = found;
    const { wanted, hiddenMs } = input;
    const { live, expired, isWhole } = await look(tx, generation, wanted);
    if (expired.length > 0) {
      for (const message of expired) removeMessage(tx, generation, message);
      const left = count - expired.length;
      queueStates.put(tx, [queue.account, queue.name], { generation, count: left });
    }
    if (!isWhole) return unfinished;
    const visibleAt = tx.now + hiddenMs;
    const items: string[] = [];
    for (const { place: before, record: kept } of live) {
      const record = { ...kept, dequeueCount: kept.dequeueCount + 1 };
      const place = { visibleAt, tick: tx.tick() };
      leavePlace(tx, generation, before);
      placeMessage(tx, generation, { place, record });
      const text = await textOf(tx, record.text);
      if (text !== undefined) items.push(gottenXml({ place, record }, text));
      // One that is damaged goes behind the others like one that nobody could digest, and blocks none of them.
      else tx.afterCommit(() => around.log.error(DAMAGED, { queue: queue.name, id: record.id }));
    }
    return listReply(200, items);
  },
});

const DAMAGED = "the text of a message is damaged; the message is not given to anybody";

/**
 * Peek changes nothing, so it cannot clear away the expired messages that it meets: when they are very many
 * it goes on behind them in another transaction, and keeps what it found until then.
 */
type Progress = {
  generation: bigint;
  after: Placed["place"] | undefined;
  items: Map<string, string>;
};

export const peekMessages = readOperation({
  name: "Peek Messages",
  match: { method: "GET", on: "messages", query: { name: "peekonly", value: "true" } },
  allow: { sas: "r", resource: "o" },
  guard: { on: theMessages, conditions: "none", lease: "own" },
  input: (request): { wanted: number; progress: Progress } => ({
    wanted: messageCountOf(request.query),
    progress: { generation: 0n, after: undefined, items: new Map() },
  }),
  async apply({ tx, found: { generation }, input: { wanted, progress } }) {
    if (progress.generation !== generation) {
      Object.assign(progress, { generation, after: undefined, items: new Map() });
    }
    const { items, after } = progress;
    const { live, isWhole, last } = await look(tx, generation, wanted - items.size, after);
    for (const message of live) {
      const text = await textOf(tx, message.record.text);
      if (text !== undefined) items.set(message.record.id, peekedXml(message, text));
    }
    progress.after = last;
    return isWhole ? listReply(200, [...items.values()]) : unfinished;
  },
});

/** How many expired messages one transaction takes out of the way, or passes by. */
const EXPIRED_MAX = 512;

type Looked = {
  readonly live: readonly Placed[];
  /** Those that stood before and between them. */
  readonly expired: readonly Placed[];
  /** Whether there are no more visible ones, or none is wanted. */
  readonly isWhole: boolean;
  readonly last: Placed["place"] | undefined;
};

/** The first visible messages that live; a short look, unless the sweep has fallen behind. */
async function look(
  tx: ReadTx,
  generation: bigint,
  wanted: number,
  after?: Placed["place"],
): Promise<Looked> {
  const live: Placed[] = [];
  const expired: Placed[] = [];
  let last = after;
  for (;;) {
    // One batch if nothing has expired; larger ones the more has.
    const limit = Math.max(wanted - live.length, expired.length);
    const rows = await visibleMessages(tx, generation, tx.now, { after: last, limit });
    for (const message of rows) {
      if (hasExpired(message.record.expiresAt, tx.now)) expired.push(message);
      else live.push(message);
      last = message.place;
      if (live.length === wanted) return { live, expired, isWhole: true, last };
    }
    if (rows.length < limit) return { live, expired, isWhole: true, last };
    if (expired.length >= EXPIRED_MAX) return { live, expired, isWhole: false, last };
  }
}

export const putMessage = writeOperation({
  name: "Put Message",
  match: { method: "POST", on: "messages" },
  allow: { sas: "a", resource: "o" },
  body: { kind: "whole", sizeMax: MESSAGE_XML_MAX },
  guard: { on: theMessages, conditions: "none", lease: "own" },
  input: ({ query, version }, { bytes }) => ({
    ...lifetimeOf(query, version),
    text: messageTextOf(bytes),
  }),
  async apply({ tx, request, place: queue, found: { generation, count }, input, around }) {
    const tick = tx.tick();
    const place = { visibleAt: tx.now + input.delayMs, tick };
    const record = {
      id: around.ids.guid(),
      number: tick,
      expiresAt: expiryOf(tx.now, input),
      dequeueCount: 0,
      text: keptText(tx, input.text),
    };
    placeMessage(tx, generation, { place, record });
    queueStates.put(tx, [queue.account, queue.name], { generation, count: count + 1 });
    // Before this version nothing was told of it ("Put Message").
    if (request.version < "2016-05-31") return { status: 201, headers: {} };
    return listReply(201, [putXml({ place, record })]);
  },
});

/** However many there are: they keep a number that the queue has no more, and are taken apart later. */
export const clearMessages = writeOperation({
  name: "Clear Messages",
  match: { method: "DELETE", on: "messages" },
  allow: { sas: "d", resource: "o", service: "" },
  guard: { on: theMessages, conditions: "none", lease: "own" },
  async apply({ tx, place: queue, found: { generation, count } }) {
    if (count > 0) {
      queueNames.delete(tx, generation);
      beginGeneration(tx, queue);
      garbage.put(tx, [tx.tick()], { messages: generation.toString(16) });
    }
    return { status: 204, headers: {} };
  },
});

const listReply = (status: number, items: readonly string[]) => ({
  status,
  headers: { "Content-Type": "application/xml" },
  body: messagesXml(items),
});

function refusePeekOnly({ query }: Request): void {
  const peekOnly = query.get("peekonly");
  if (peekOnly !== undefined && peekOnly.toLowerCase() !== "false") {
    throw invalidQuery("peekonly", peekOnly);
  }
}
