import { setImmediate } from "node:timers/promises";
import type { Log } from "../base/log.ts";
import { type Recurring, recurring } from "../base/recurring.ts";
import { instantOf, tickText } from "../base/time.ts";
import type { Engine, ReadTx } from "../engine/engine.ts";
import type { Operation, Surroundings, Target } from "../http/operation.ts";
import { asOwner, type Message, parseAddress, parseRequest } from "../http/parse.ts";
import { run } from "../http/run.ts";
import { StorageError } from "../rules/errors.ts";
import {
  concernsContainer,
  type Due,
  type LifecycleAction,
  type LifecycleBlob,
  type LifecycleRule,
  lifecycleAction,
} from "../rules/lifecycle.ts";
import { type CheckedPolicy, checkedPolicy } from "../rules/lifecycle-policy.ts";
import { INFERRED_TIER, type Tier, tierAt } from "../rules/tiers.ts";
import { NEWEST_VERSION } from "../rules/versions.ts";
import { blobs, containers, snapshots, versions } from "../store/keys.ts";
import type { BlobRecord } from "../store/records.ts";
import { deleteBlob, setBlobTier } from "./blob.ts";
import { blobService } from "./operations.ts";
import { type BlobPlace, theBlob, visible } from "./resource.ts";

export type LifecycleOptions = {
  readonly engine: Engine;
  readonly around: Surroundings;
  readonly rules: readonly LifecycleRule[];
  /** The accounts that the rules hold for. */
  readonly accounts: () => Iterable<string>;
  readonly log: Log;
  readonly intervalMs: number;
};

/** Reads a policy from the text of a file. */
export const readLifecycle = (text: string): CheckedPolicy => checkedPolicy(text);

const PAGE = 100;
const TIERS: Readonly<Record<Exclude<LifecycleAction, "delete">, Tier>> = {
  tierToCool: "Cool",
  tierToCold: "Cold",
  tierToArchive: "Archive",
};

/** What one run did: how often each action, and how many were due but could not be done. */
export type LifecycleReport = Record<LifecycleAction | "skipped", number>;

/**
 * Deletes and tiers blobs by rules, over and over: at start and then at intervals. It looks at some records at
 * a time, and does each thing as the operation of the same name does it, in a transaction of its own in which
 * the rule still holds and no lease is held.
 */
export function startLifecycle(options: LifecycleOptions): Recurring {
  const { log, intervalMs } = options;
  return recurring(async (isStopped) => {
    try {
      const report = await runLifecycle(options, isStopped);
      if (Object.values(report).some((count) => count > 0)) log.info("lifecycle ran", report);
    } catch (error) {
      log.error("the lifecycle rules could not be run", { error: String(error) });
    }
  }, intervalMs);
}

/** Goes through all blobs once. */
export async function runLifecycle(
  options: Omit<LifecycleOptions, "intervalMs">,
  isStopped: () => boolean = () => false,
): Promise<LifecycleReport> {
  const report = { delete: 0, tierToArchive: 0, tierToCold: 0, tierToCool: 0, skipped: 0 };
  for await (const found of everything(options)) {
    if (isStopped()) break;
    const done = await acted(options, found);
    if (done !== undefined) report[done]++;
  }
  return report;
}

/** A state of a blob that is due, and where it is. */
type Found = {
  readonly account: string;
  readonly container: string;
  readonly name: string;
  readonly at: { readonly snapshot: bigint } | { readonly version: bigint } | undefined;
  readonly due: Due;
};

async function* everything(options: Omit<LifecycleOptions, "intervalMs">): AsyncGenerator<Found> {
  const { engine, rules } = options;
  for (const account of options.accounts()) {
    for await (const { key, value } of pages(engine, containers, [account])) {
      const [, container] = key;
      if (!concernsContainer(rules, container)) continue;
      yield* inContainer(options, account, container, BigInt(`0x${value.id}`));
    }
  }
}

/** What is due in a container: snapshots and versions before the blobs that they belong to. */
async function* inContainer(
  { engine, rules }: Pick<LifecycleOptions, "engine" | "rules">,
  account: string,
  container: string,
  id: bigint,
): AsyncGenerator<Found> {
  for await (const { key, value, now } of pages(engine, snapshots, [id])) {
    const [, name, snapshot] = key;
    const due = dueOf(rules, { container, name, at: { snapshot } }, value, now);
    if (due !== undefined) yield { account, container, name, at: { snapshot }, due };
  }
  for await (const { key, value, now } of pages(engine, versions, [id])) {
    const [, name, version] = key;
    const due = dueOf(rules, { container, name, at: { version } }, value, now);
    if (due !== undefined) yield { account, container, name, at: { version }, due };
  }
  for await (const { key, value, now } of pages(engine, blobs, [id])) {
    const [, name] = key;
    const due = dueOf(rules, { container, name, at: undefined }, value, now);
    if (due !== undefined) yield { account, container, name, at: undefined, due };
  }
}

type Walked<K, V> = {
  walk(
    tx: ReadTx,
    prefix: readonly unknown[],
    walk: { from?: Uint8Array; limit: number },
  ): Promise<readonly { readonly key: K; readonly value: V }[]>;
  packed(prefix: readonly unknown[]): Uint8Array;
};

/** All rows below a prefix, some at a time, with the time at which they were so; others get their turn between. */
async function* pages<K extends readonly unknown[], V>(
  engine: Engine,
  kind: Walked<K, V>,
  prefix: readonly unknown[],
): AsyncGenerator<{ key: K; value: V; now: number }> {
  let from: Uint8Array | undefined;
  for (;;) {
    const { rows, now } = await engine.read(async (tx) => ({
      rows: await kind.walk(tx, prefix, {
        limit: PAGE,
        ...(from === undefined ? {} : { from }),
      }),
      now: tx.now,
    }));
    for (const row of rows) yield { ...row, now };
    const last = rows.at(-1)?.key;
    if (last === undefined || rows.length < PAGE) return;
    from = Buffer.concat([kind.packed(last), Buffer.from([0])]); // the first key after it
    await setImmediate();
  }
}

type Where = Pick<Found, "container" | "name" | "at">;

function dueOf(
  rules: readonly LifecycleRule[],
  where: Where,
  record: BlobRecord,
  now: number,
): Due | undefined {
  if (visible(record, now) === undefined) return undefined;
  return lifecycleAction(rules, seen(where, record, now), now);
}

/** A record as rules look at it. */
function seen({ container, name, at }: Where, record: BlobRecord, now: number): LifecycleBlob {
  const taken = at === undefined ? undefined : "snapshot" in at ? at.snapshot : at.version;
  return {
    subject: at === undefined ? "baseBlob" : "snapshot" in at ? "snapshot" : "version",
    path: `${container}/${name}`,
    type: record.type,
    tier: tierAt(record, now).tier ?? INFERRED_TIER,
    tags: record.tags,
    modifiedAt: record.modifiedAt,
    createdAt: taken === undefined ? record.createdAt : instantOf(taken),
    tierChangedAt: record.tierChangedAt,
  };
}

/** Does what is due, if it still is; gives what was done. */
async function acted(
  { engine, around, rules, log }: Omit<LifecycleOptions, "intervalMs">,
  found: Found,
): Promise<LifecycleAction | "skipped" | undefined> {
  const { account, container, name, at, due } = found;
  const { action } = due;
  const row = action === "delete" ? deleteBlob : setBlobTier;
  const what = { rule: due.rule, action, account, container, blob: name, ...timesOf(at) };
  const on: Target<BlobPlace, BlobRecord> = {
    ...theBlob,
    async find(tx, request) {
      const target = await theBlob.find(tx, request, around);
      const { found: record } = target;
      const still = record && lifecycleAction(rules, seen(found, record, tx.now), tx.now);
      return still?.action === action ? target : { ...target, found: undefined };
    },
  };
  // A tier can be set whoever holds a lease, but no rule shall come between a holder and the blob.
  const operation: Operation = {
    ...row,
    guard: { ...row.guard, on, lease: "guarded", mayMiss: false },
  };
  try {
    await run(operation, requestOf(found, around), engine, around);
    log.info("lifecycle", what);
    return action;
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    if (error.code === "BlobNotFound" || error.code === "ContainerNotFound") return undefined;
    log.debug("lifecycle left a blob as it is", { ...what, because: error.code });
    return "skipped";
  }
}

const timesOf = (at: Found["at"]): Record<string, string> =>
  at === undefined
    ? {}
    : "snapshot" in at
      ? { snapshot: tickText(at.snapshot) }
      : { versionid: tickText(at.version) };

/** The request that a client would send for it. */
function requestOf({ account, container, name, at, due }: Found, { ids }: Surroundings) {
  const isDelete = due.action === "delete";
  const query = new URLSearchParams({ ...(isDelete ? {} : { comp: "tier" }), ...timesOf(at) });
  const path = [account, container, ...name.split("/")].map(encodeURIComponent).join("/");
  const tier = due.action === "delete" ? {} : { "x-ms-access-tier": TIERS[due.action] };
  const headers = { host: "localhost", "x-ms-version": NEWEST_VERSION, ...tier };
  const message: Message = {
    method: isDelete ? "DELETE" : "PUT",
    url: `/${path}?${query}`,
    headers,
    rawHeaders: Object.entries(headers).flat(),
  };
  const address = parseAddress(message, false);
  const requestIds = { id: ids.guid(), clientId: undefined };
  return asOwner(parseRequest(message, blobService, address, requestIds, NEWEST_VERSION));
}
