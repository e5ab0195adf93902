import type { Instant, Tick } from "../base/time.ts";
import type { WriteTx } from "../engine/engine.ts";
import type { Target } from "../http/operation.ts";
import { refuse, StorageError } from "../rules/errors.ts";
import { isImmutable } from "../rules/immutability.ts";
import { blobLeaseCodes, containerLeaseCodes } from "../rules/lease.ts";
import { badBlobName, badContainerName } from "../rules/names.ts";
import { blobs, containerIds, containers, snapshots, versions } from "../store/keys.ts";
import type { BlobRecord, ContainerRecord } from "../store/records.ts";
import { indexTags } from "../store/tag-index.ts";

export type ContainerPlace = { readonly account: string; readonly name: string };

/** Where a blob is: its container's number and its own name, and the snapshot or version if one is meant. */
export type BlobPlace = {
  readonly account: string;
  readonly containerName: string;
  readonly container: bigint;
  readonly name: string;
  readonly snapshot?: Tick;
  /** A version that is not the current one. */
  readonly version?: Tick;
  /** What stands in the place of a blob that is deleted or has expired, and that nobody sees any more. */
  readonly remains?: BlobRecord;
};

export const theContainer: Target<ContainerPlace, ContainerRecord> = {
  check: ({ names: [name = ""] }) => refuse(badContainerName(name)),
  async find(tx, { account, names: [name = ""] }) {
    return { place: { account, name }, found: await containers.get(tx, account, name) };
  },
  missing: "ContainerNotFound",
  leaseCodes: containerLeaseCodes,
};

export const theBlob: Target<BlobPlace, BlobRecord> = {
  check({ names: [container = "", blob = ""] }) {
    refuse(badContainerName(container));
    refuse(badBlobName(blob, container));
  },
  async find(tx, request) {
    const { account, snapshot, versionId, names } = request;
    const [containerName = "", name = ""] = names;
    const container = await containerIds.get(tx, account, containerName);
    if (container === undefined) throw new StorageError("ContainerNotFound");
    const place: BlobPlace = { account, containerName, container, name };
    if (snapshot !== undefined) {
      const found = visible(await snapshots.get(tx, container, name, snapshot), tx.now);
      return { place: { ...place, snapshot }, found };
    }
    const current = await blobs.get(tx, container, name);
    const found = visible(current, tx.now);
    if (versionId !== undefined && found?.version !== versionText(versionId)) {
      const before = visible(await versions.get(tx, container, name, versionId), tx.now);
      return { place: { ...place, version: versionId }, found: before };
    }
    if (found === undefined && current !== undefined) {
      return { place: { ...place, remains: current }, found };
    }
    return { place, found };
  },
  missing: "BlobNotFound",
  hasTags: true,
  leaseCodes: blobLeaseCodes,
};

/** How a record names the version that a tick is. */
export const versionText = (tick: Tick): string => tick.toString(16);

/** A record, unless it is deleted or has expired; what is immutable does not expire before that is over. */
export const visible = (record: BlobRecord | undefined, now: Instant): BlobRecord | undefined =>
  record?.deleted !== undefined || isExpired(record, now) ? undefined : record;

const isExpired = (record: BlobRecord | undefined, now: Instant): boolean =>
  record?.expiresAt !== undefined &&
  record.expiresAt <= now &&
  isImmutable(record, now) === undefined;

/** Whether a blob's place means its current state, not a snapshot or an earlier version. */
export const isCurrent = ({ snapshot, version }: BlobPlace): boolean =>
  snapshot === undefined && version === undefined;

/** Stores a changed record in its place, be it current, a snapshot or a version. */
export function putBlobRecord(tx: WriteTx, place: BlobPlace, record: BlobRecord): void {
  const { container, name, snapshot, version } = place;
  if (snapshot !== undefined) snapshots.put(tx, [container, name, snapshot], record);
  else if (version !== undefined) versions.put(tx, [container, name, version], record);
  else blobs.put(tx, [container, name], record);
}

/** The same, where the tags may have changed too: `before` are those that the index has now. */
export function putTaggedRecord(
  tx: WriteTx,
  place: BlobPlace,
  before: BlobRecord | undefined,
  record: BlobRecord,
): void {
  putBlobRecord(tx, place, record);
  if (isCurrent(place)) indexTags(tx, place, before?.tags, record.tags);
}

export const putContainerRecord = (
  tx: WriteTx,
  { account, name }: ContainerPlace,
  record: ContainerRecord,
): void => containers.put(tx, [account, name], record);
