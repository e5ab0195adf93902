import { avroBlock, avroHead } from "../base/avro.ts";
import type { Log } from "../base/log.ts";
import { type Recurring, recurring } from "../base/recurring.ts";
import { type Instant, instantOf, type Tick, tickText } from "../base/time.ts";
import type { Engine, WriteTx } from "../engine/engine.ts";
import type { ChangeNotes, Operation, Request, Surroundings } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import { available } from "../rules/lease.ts";
import { noMetadata } from "../rules/metadata.ts";
import { INFERRED_TIER, tierAt } from "../rules/tiers.ts";
import { changedNow } from "../service/resource.ts";
import type { Changed, ChangeRecord, ChangeType, FeedRecord } from "../store/change-records.ts";
import { HEAP_CHUNK_MAX, type Staged } from "../store/content.ts";
import {
  blobs,
  changeFeeds,
  changes,
  containerIds,
  containers,
  snapshots,
  versions,
} from "../store/keys.ts";
import type { BlobRecord, HttpHeaders, Piece } from "../store/records.ts";
import { EVENT_SCHEMA, encodedEvent } from "./change-event.ts";
import type { BlobPlace } from "./resource.ts";

/** Where the feed is; clients read it and nobody but the packing below writes it. */
export const FEED_CONTAINER = "$blobchangefeed";

/** Which operations make which events. Appends and pages make none, in Azure neither. */
export const EVENTS: Readonly<Record<string, readonly [type: ChangeType, api: string]>> = {
  "Put Blob (block blob)": ["BlobCreated", "PutBlob"],
  "Put Blob (append blob)": ["BlobCreated", "PutBlob"],
  "Put Blob (page blob)": ["BlobCreated", "PutBlob"],
  "Put Blob From URL": ["BlobCreated", "PutBlobFromUrl"],
  "Put Block List": ["BlobCreated", "PutBlockList"],
  "Copy Blob": ["BlobCreated", "CopyBlob"],
  "Copy Blob From URL": ["BlobCreated", "CopyBlobFromUrl"],
  "Undelete Blob": ["BlobCreated", "UndeleteBlob"],
  "Delete Blob": ["BlobDeleted", "DeleteBlob"],
  "Set Blob Metadata": ["BlobPropertiesUpdated", "SetBlobMetadata"],
  "Set Blob Properties": ["BlobPropertiesUpdated", "SetBlobProperties"],
  "Set Blob Tags": ["BlobPropertiesUpdated", "SetBlobTags"],
  "Snapshot Blob": ["BlobSnapshotCreated", "SnapshotBlob"],
  "Set Blob Tier": ["BlobTierChanged", "SetBlobTier"],
};

const ACCEPTED = 202;

/** Keeps an event for every change of a blob, in the transaction of the change. */
export function changeNotes({ ids }: Pick<Surroundings, "ids">): ChangeNotes {
  const put = (
    tx: WriteTx,
    { account, containerName, name }: BlobPlace,
    record: BlobRecord,
    event: Pick<ChangeRecord, "type" | "api" | "requestId"> & Partial<ChangeRecord>,
  ) =>
    changes.put(tx, [account, tx.tick()], {
      id: ids.guid(),
      container: containerName,
      blob: name,
      etag: record.etag,
      contentType: record.headers.contentType ?? "",
      contentLength: record.size,
      blobType: record.type,
      ...(record.version === undefined ? {} : { version: timeOf(record.version) }),
      ...event,
    });
  return {
    async note({ tx, operation, request, place: at, found, reply }) {
      const known = EVENTS[operation.name];
      if (known === undefined || request.service !== "blob") return;
      const place = at as BlobPlace;
      const before = found as BlobRecord | undefined;
      const [type, api] = known;
      const caused = {
        api,
        requestId: request.id,
        ...(request.clientId === undefined ? {} : { clientRequestId: request.clientId }),
      };
      if (type === "BlobDeleted") {
        // Without the blob itself there is nothing that a reader could miss.
        const onlySnapshots = request.header("x-ms-delete-snapshots")?.toLowerCase() === "only";
        if (before !== undefined && !onlySnapshots) {
          put(tx, place, before, { type, ...caused, ...pastOf(place) });
        }
        return;
      }
      // Undelete of a blob that is there brings back its snapshots only.
      if (api === "UndeleteBlob" && before !== undefined) return;
      const after = await recordAt(tx, place);
      if (after === undefined || after.deleted !== undefined) return;
      if (after.copy?.status === "pending" && type === "BlobCreated") {
        const asyncOperation = { WasAsyncOperation: "true", CopyId: after.copy.id };
        put(tx, place, after, { type: "BlobAsyncOperationInitiated", ...caused, asyncOperation });
        return;
      }
      if (type === "BlobTierChanged" && reply.status === ACCEPTED) {
        const asyncOperation = {
          WasAsyncOperation: "true",
          DestinationTier: after.rehydration?.to ?? "",
        };
        put(tx, place, after, { type: "BlobAsyncOperationInitiated", ...caused, asyncOperation });
        return;
      }
      put(tx, place, after, {
        type,
        ...caused,
        ...pastOf(place),
        ...detailsOf(type, before, after, tx.now),
        ...snapshotOf(reply.headers["x-ms-snapshot"]),
      });
    },
    copied(tx, place, record) {
      const copyId = (record as BlobRecord).copy?.id ?? "";
      const asyncOperation = { WasAsyncOperation: "true", CopyId: copyId };
      const caused = { api: "CopyBlob", requestId: "", asyncOperation };
      put(tx, place as BlobPlace, record as BlobRecord, { type: "BlobCreated", ...caused });
    },
  };
}

/** The record that a place means, as the transaction has made it. */
function recordAt(tx: WriteTx, place: BlobPlace): Promise<BlobRecord | undefined> {
  const { container, name, snapshot, version } = place;
  if (snapshot !== undefined) return snapshots.get(tx, container, name, snapshot);
  return version === undefined
    ? blobs.get(tx, container, name)
    : versions.get(tx, container, name, version);
}

const timeOf = (version: string): string => tickText(BigInt(`0x${version}`));

const snapshotOf = (value: unknown) => (typeof value === "string" ? { snapshot: value } : {});

/** The snapshot or version that an operation was about, if it was about one. */
const pastOf = ({ snapshot, version }: BlobPlace): Partial<ChangeRecord> => ({
  ...(snapshot === undefined ? {} : { snapshot: tickText(snapshot) }),
  ...(version === undefined ? {} : { version: tickText(version) }),
});

/** What was before, as far as the event tells it. */
function detailsOf(
  type: ChangeType,
  before: BlobRecord | undefined,
  after: BlobRecord,
  now: Instant,
): Partial<ChangeRecord> {
  const tier = tierAt(after, now).tier ?? INFERRED_TIER;
  if (before === undefined) return type === "BlobCreated" ? { tier } : {};
  const previous: Record<string, string> = {};
  if (after.version !== undefined && before.version !== undefined && type === "BlobCreated") {
    previous.BlobVersion = timeOf(after.version);
    previous.LastVersion = timeOf(before.version);
  }
  if (type === "BlobTierChanged") previous.PreviousTier = tierAt(before, now).tier ?? INFERRED_TIER;
  const properties = type === "BlobPropertiesUpdated" ? changedHeaders(before, after) : {};
  const hasNewTags = JSON.stringify(before.tags ?? {}) !== JSON.stringify(after.tags ?? {});
  return {
    tier,
    ...(Object.keys(previous).length === 0 ? {} : { previous }),
    ...(Object.keys(properties).length === 0 ? {} : { properties }),
    ...(type === "BlobPropertiesUpdated" && hasNewTags
      ? { tags: { previous: before.tags ?? {}, current: after.tags ?? {} } }
      : {}),
  };
}

const HEADER_NAMES: Readonly<Record<keyof HttpHeaders, string>> = {
  contentType: "ContentType",
  contentEncoding: "ContentEncoding",
  contentLanguage: "ContentLanguage",
  contentDisposition: "ContentDisposition",
  cacheControl: "CacheControl",
  contentMd5: "ContentMD5",
};

function changedHeaders(before: BlobRecord, after: BlobRecord): Record<string, Changed> {
  const changed: Record<string, Changed> = {};
  for (const [key, name] of Object.entries(HEADER_NAMES) as [keyof HttpHeaders, string][]) {
    const previous = before.headers[key] ?? "";
    const current = after.headers[key] ?? "";
    if (previous !== current) changed[name] = { current, previous };
  }
  return changed;
}

/** Refuses what a client would write into the feed. */
export function refuseFeedWrites(operation: Operation, { names: [container] }: Request): void {
  if (container === FEED_CONTAINER && operation.kind === "write") {
    throw new StorageError("AuthorizationFailure");
  }
}

export type ChangeFeedOptions = {
  readonly engine: Engine;
  readonly around: Pick<Surroundings, "contents" | "ids">;
  readonly accounts: () => Iterable<string>;
  readonly log: Log;
  readonly intervalMs: number;
};

/** Packs events into the feed, at start and then at intervals; what is left at a stop waits for the next start. */
export function startChangeFeed(options: ChangeFeedOptions): Recurring {
  const { accounts, log, intervalMs } = options;
  return recurring(async (isStopped) => {
    try {
      for (const account of accounts()) await packChanges(options, account, isStopped);
    } catch (error) {
      log.error("the change feed could not be written", { error: String(error) });
    }
  }, intervalMs);
}

const BATCH = 500;
const HOUR_MS = 3_600_000;

/** Moves the events of an account into its feed, some in each transaction; gives how many there were. */
export async function packChanges(
  { engine, around }: Pick<ChangeFeedOptions, "engine" | "around">,
  account: string,
  isStopped: () => boolean = () => false,
): Promise<number> {
  let count = 0;
  for (;;) {
    const packed = await engine.write((tx) => packSome(tx, around, account));
    count += packed;
    if (packed === 0 || isStopped()) return count;
  }
}

/** Takes events of one hour, from the oldest on, and puts them into a chunk of that hour's segment. */
async function packSome(
  tx: WriteTx,
  around: ChangeFeedOptions["around"],
  account: string,
): Promise<number> {
  const feed: Feed = { tx, around, container: await feedContainer(tx, around, account) };
  const state = await changeFeeds.get(tx, account);
  const rows = await changes.walk(tx, [account], { limit: BATCH });
  const [first] = rows;
  const hour = first === undefined ? hourAt(tx.now) : hourAt(instantOf(first.key[1]));
  if (state !== undefined && state.hour < hour && state.chunk >= 0) {
    await putManifest(feed, state.hour, "Finalized");
    changeFeeds.put(tx, [account], { hour, chunk: -1 });
    if (first === undefined) await putSegments(feed, hour);
  }
  if (first === undefined) return 0;
  const batch = rows.filter(({ key }) => hourAt(instantOf(key[1])) === hour);
  const chunk = state?.hour === hour ? state.chunk + 1 : 0;
  const sync = Buffer.from(around.ids.guid().replaceAll("-", ""), "hex");
  const events = batch.map(({ key: [, tick], value }) => encodedEvent(account, tick, value));
  const bytes = Buffer.concat([
    avroHead(EVENT_SCHEMA, sync),
    avroBlock(events.length, Buffer.concat(events), sync),
  ]);
  const name = `${logPath(hour)}${String(chunk).padStart(5, "0")}.avro`;
  await putFile(feed, name, bytes, "avro/binary");
  await putManifest(feed, hour, "Publishing");
  await putSegments(feed, hour);
  for (const { key } of batch) changes.delete(tx, ...key);
  const reached: FeedRecord = { hour, chunk };
  changeFeeds.put(tx, [account], reached);
  return batch.length;
}

type Feed = {
  readonly tx: WriteTx;
  readonly around: ChangeFeedOptions["around"];
  readonly container: bigint;
};

const hourAt = (at: Instant): Instant => at - (at % HOUR_MS);

/** YYYY/MM/DD/HH00 */
const hourPath = (hour: Instant): string => {
  const text = new Date(hour).toISOString();
  return `${text.slice(0, 10).replaceAll("-", "/")}/${text.slice(11, 13)}00`;
};
const logPath = (hour: Instant): string => `log/00/${hourPath(hour)}/`;
const manifestPath = (hour: Instant): string => `idx/segments/${hourPath(hour)}/meta.json`;

const FIRST_HOUR: Instant = Date.UTC(1601, 0, 1);

/** The number of the feed's container, which is made if it is not there yet. */
async function feedContainer(
  tx: WriteTx,
  around: ChangeFeedOptions["around"],
  account: string,
): Promise<bigint> {
  const known = await containerIds.get(tx, account, FEED_CONTAINER);
  if (known !== undefined) return known;
  const container: Tick = tx.tick();
  containers.put(tx, [account, FEED_CONTAINER], {
    ...changedNow(tx),
    id: container.toString(16),
    metadata: noMetadata,
    lease: available,
    policies: [],
  });
  containerIds.put(tx, [account, FEED_CONTAINER], container);
  // A segment without events, by which Azure marks that the feed has been switched on.
  await putManifest({ tx, around, container }, FIRST_HOUR, "Finalized");
  return container;
}

function putManifest(feed: Feed, hour: Instant, status: "Publishing" | "Finalized") {
  const paths = hour === FIRST_HOUR ? [] : [`${FEED_CONTAINER}/${logPath(hour)}`];
  return putJson(feed, manifestPath(hour), {
    version: 0,
    begin: new Date(hour).toISOString(),
    intervalSecs: HOUR_MS / 1000,
    status,
    config: {
      version: 0,
      configVersionEtag: "0x0",
      numShards: 1,
      recordsFormat: "avro",
      formatSchemaVersion: 5,
      shardDistFnVersion: 1,
    },
    chunkFilePaths: paths,
    storageDiagnostics: diagnostics(feed),
  });
}

// Differs from Azure: a segment can be read while its hour still runs; its log only grows.
/** Up to where segments may be read: readers leave out those that do not begin before this time. */
const putSegments = (feed: Feed, hour: Instant) =>
  putJson(feed, "meta/segments.json", {
    version: 0,
    lastConsumable: new Date(Math.max(feed.tx.now, hour + 1)).toISOString(),
    storageDiagnostics: diagnostics(feed),
  });

const diagnostics = ({ tx }: Feed) => ({
  version: 0,
  lastModifiedTime: new Date(tx.now).toISOString(),
  data: {},
});

const putJson = (feed: Feed, name: string, value: unknown) =>
  putFile(feed, name, Buffer.from(JSON.stringify(value, undefined, 2)), "application/json");

/** Writes a blob of the feed; its state before is let go, no version or deleted state is kept of it. */
async function putFile(
  { tx, around: { contents }, container }: Feed,
  name: string,
  bytes: Buffer,
  contentType: string,
): Promise<void> {
  const before = await blobs.get(tx, container, name);
  const pieces = contents.keep(tx, stagedOf(bytes)).map((chunk): Piece => ({ chunk }));
  const changed = changedNow(tx);
  blobs.put(tx, [container, name], {
    ...changed,
    type: "BlockBlob",
    createdAt: before?.createdAt ?? changed.modifiedAt,
    size: bytes.length,
    content: contents.made(tx, pieces),
    headers: { contentType },
    metadata: noMetadata,
    lease: available,
  });
  if (before !== undefined) await contents.release(tx, before.content);
}

function stagedOf(bytes: Buffer): Staged {
  const parts: { bytes: Buffer }[] = [];
  for (let at = 0; at < bytes.length; at += HEAP_CHUNK_MAX) {
    parts.push({ bytes: bytes.subarray(at, at + HEAP_CHUNK_MAX) });
  }
  return { size: bytes.length, parts };
}
