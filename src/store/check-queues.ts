import type { Engine } from "../engine/engine.ts";
import { NEVER } from "../rules/messages.ts";
import { each } from "./each.ts";
import { expiries, garbage, messages, queueNames, queueStates, queues } from "./keys.ts";
import { findMessage } from "./messages.ts";
import type { MessagePlace } from "./queue-records.ts";

const isSame = (one: MessagePlace | undefined, other: MessagePlace) =>
  one?.visibleAt === other.visibleAt && one.tick === other.tick;

/**
 * Holds the rows of queues against each other: every message belongs to a queue, or waits to be taken apart;
 * counts are right; the index of expiry names each message that expires, and nothing else. Gives how many
 * messages there are.
 */
export async function checkQueues(
  engine: Engine,
  problem: (line: string) => void,
): Promise<number> {
  /** How many messages each generation has, and how many it should have; none is said of garbage. */
  const found = new Map<bigint, number>();
  const wanted = new Map<bigint, { readonly queue: string; readonly count: number }>();
  const dropped = new Set<bigint>();
  await each(
    engine,
    (tx, from) => garbage.walk(tx, [], from),
    garbage.packed,
    async (_key, value) => {
      if ("messages" in value) dropped.add(BigInt(`0x${value.messages}`));
    },
  );
  await each(
    engine,
    (tx, from) => queueStates.walk(tx, [], from),
    queueStates.packed,
    async ([account, name], { generation, count }) => {
      const queue = `queue ${account}/${name}`;
      wanted.set(generation, { queue, count });
      const [record, owner] = await engine.read(async (tx) => [
        await queues.get(tx, account, name),
        await queueNames.get(tx, generation),
      ]);
      if (record === undefined) problem(`${queue}: it has messages, and no record`);
      if (owner?.account !== account || owner.name !== name) {
        problem(`${queue}: its number is not known as its own`);
      }
    },
  );
  await each(
    engine,
    (tx, from) => queues.walk(tx, [], from),
    queues.packed,
    async ([account, name]) => {
      const state = await engine.read((tx) => queueStates.get(tx, account, name));
      if (state === undefined) problem(`queue ${account}/${name}: its state is missing`);
    },
  );
  await each(
    engine,
    (tx, from) => queueNames.walk(tx, [], from),
    queueNames.packed,
    async ([generation], { account, name }) => {
      if (!wanted.has(generation)) problem(`queue ${account}/${name}: it has an old number`);
    },
  );
  let count = 0;
  await each(
    engine,
    (tx, from) => messages.walk(tx, [], from),
    messages.packed,
    async ([generation, visibleAt, tick], { id, number, expiresAt, text }) => {
      count++;
      found.set(generation, (found.get(generation) ?? 0) + 1);
      const [place, long] = await engine.read(async (tx) => [
        await expiries.get(tx, expiresAt, generation, number),
        "heap" in text ? await tx.getHeap(text.heap) : text.bytes,
      ]);
      if (long === undefined) problem(`message ${id}: its text is missing`);
      if (expiresAt < NEVER && !isSame(place, { visibleAt, tick })) {
        problem(`message ${id}: the index of expiry does not lead to it`);
      }
    },
  );
  await each(
    engine,
    (tx, from) => expiries.walk(tx, [], from),
    expiries.packed,
    async ([expiresAt, generation, number], place) => {
      const record = await engine.read((tx) => findMessage(tx, generation, place));
      if (record?.number !== number || record.expiresAt !== expiresAt) {
        problem(`expiry ${expiresAt} of message number ${number}: there is no such message`);
      }
    },
  );
  for (const [generation, { queue, count: counted }] of wanted) {
    const there = found.get(generation) ?? 0;
    if (there !== counted) problem(`${queue}: ${there} messages are there, ${counted} are counted`);
  }
  for (const [generation, there] of found) {
    if (!wanted.has(generation) && !dropped.has(generation)) {
      problem(`${there} messages of number ${generation}: they belong to no queue`);
    }
  }
  return count;
}
