import { NEVER } from "../rules/messages.ts";
import type { ByteUses } from "./check-bytes.ts";
import { type Checking, each } from "./checking.ts";
import { expiries, messages, queueNames, queueStates, queues } from "./keys.ts";
import { findMessage } from "./messages.ts";
import type { MessagePlace } from "./queue-records.ts";

const isSame = (one: MessagePlace | undefined, other: MessagePlace) =>
  one?.visibleAt === other.visibleAt && one.tick === other.tick;

/**
 * Holds the rows of queues against each other: every message belongs to a queue, or waits to be taken apart;
 * counts are right; the index of expiry names each message that expires, and nothing else.
 */
export async function checkQueues(
  checking: Checking & { readonly bytes: ByteUses },
  dropped: ReadonlySet<bigint>,
): Promise<void> {
  const { engine, problem, bytes } = checking;
  /** How many messages each generation has, and how many it should have; none is said of garbage. */
  const found = new Map<bigint, number>();
  const wanted = new Map<bigint, { readonly queue: string; readonly count: number }>();
  await each(
    checking,
    "queue state",
    queueStates,
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
  await each(checking, "queue", queues, async ([account, name]) => {
    const state = await engine.read((tx) => queueStates.get(tx, account, name));
    if (state === undefined) problem(`queue ${account}/${name}: its state is missing`);
  });
  await each(checking, "queue number", queueNames, async ([generation], { account, name }) => {
    if (!wanted.has(generation)) problem(`queue ${account}/${name}: it has an old number`);
  });
  await each(
    checking,
    "message",
    messages,
    async ([generation, visibleAt, tick], { id, number, expiresAt, text }) => {
      found.set(generation, (found.get(generation) ?? 0) + 1);
      if ("heap" in text) await bytes.useText(`message ${id}`, text.heap, text.sum);
      const place = await engine.read((tx) => expiries.get(tx, expiresAt, generation, number));
      if (expiresAt < NEVER && !isSame(place, { visibleAt, tick })) {
        problem(`message ${id}: the index of expiry does not lead to it`);
      }
    },
  );
  await each(checking, "expiry", expiries, async ([expiresAt, generation, number], place) => {
    const record = await engine.read((tx) => findMessage(tx, generation, place));
    if (record?.number !== number || record.expiresAt !== expiresAt) {
      problem(`expiry ${expiresAt} of message number ${number}: there is no such message`);
    }
  });
  for (const [generation, { queue, count: counted }] of wanted) {
    const there = found.get(generation) ?? 0;
    if (there !== counted) problem(`${queue}: ${there} messages are there, ${counted} are counted`);
  }
  for (const [generation, there] of found) {
    if (!wanted.has(generation) && !dropped.has(generation)) {
      problem(`${there} messages of number ${generation}: they belong to no queue`);
    }
  }
}
