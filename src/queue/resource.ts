import type { Instant } from "../base/time.ts";
import type { Guarded, Target } from "../http/operation.ts";
import { refuse } from "../rules/errors.ts";
import { available, containerLeaseCodes } from "../rules/lease.ts";
import { badQueueName } from "../rules/names.ts";
import { queueStates, queues } from "../store/keys.ts";
import type { QueueName, QueueRecord, QueueState } from "../store/queue-records.ts";

/** Nothing of the Queue service has an ETag or a lease, and its rows ask for neither. */
const unguarded: Guarded = { etag: "", modifiedAt: 0 as Instant, lease: available };

/** A queue as its owner sees it. */
export const theQueue: Target<QueueName, QueueRecord & Guarded> = {
  check: ({ names: [name = ""] }) => refuse(badQueueName(name)),
  async find(tx, { account, names: [name = ""] }) {
    const record = await queues.get(tx, account, name);
    const found = record === undefined ? undefined : { ...record, ...unguarded };
    return { place: { account, name }, found };
  },
  missing: "QueueNotFound",
  leaseCodes: containerLeaseCodes,
};

/** A queue as its messages see it: found by a small record, which each of them may change. */
export const theMessages: Target<QueueName, QueueState & Guarded> = {
  check: ({ names: [name = ""] }) => refuse(badQueueName(name)),
  async find(tx, { account, names: [name = ""] }) {
    const state = await queueStates.get(tx, account, name);
    const found = state === undefined ? undefined : { ...state, ...unguarded };
    return { place: { account, name }, found };
  },
  missing: "QueueNotFound",
  leaseCodes: containerLeaseCodes,
};
