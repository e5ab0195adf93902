import { type Instant, instantOf, tickAt } from "../base/time.ts";
import type { WriteTx } from "../engine/engine.ts";
import type { Surroundings } from "../http/operation.ts";
import { refuse, StorageError } from "../rules/errors.ts";
import { isImmutable } from "../rules/immutability.ts";
import { available } from "../rules/lease.ts";
import { blobs, purges, services, snapshots, versions } from "../store/keys.ts";
import type { BlobRecord, Deleted, PurgeRecord } from "../store/records.ts";
import { indexTags } from "../store/tag-index.ts";
import { type BlobPlace, versionText } from "./resource.ts";

/** A change of the current state of a blob, in the transaction that makes it. */
export type Change = {
  readonly tx: WriteTx;
  readonly place: BlobPlace;
  readonly around: Surroundings;
};

const DAY_MS = 24 * 3600 * 1000;

/**
 * Puts a new state in the place of a blob. The state before it becomes a version where the account keeps
 * versions, else a deleted snapshot where it keeps deleted data, else it is let go ("Soft delete for blobs",
 * the table of what protects what). Gives the record as it is stored.
 */
export async function replaceBlob(
  change: Change,
  before: BlobRecord | undefined,
  next: BlobRecord,
): Promise<BlobRecord> {
  const { tx, place, around } = change;
  const { container, name, remains } = place;
  refusePending(before);
  let { content } = next;
  if (before !== undefined) {
    if (isVersioned(change, before)) {
      if (before.type !== next.type) throw new StorageError("InvalidBlobType");
      versions.put(tx, [container, name, versionOf(before)], past(before));
    } else {
      refuse(isImmutable(before, tx.now)); // no version of it would stay
      const days = await retentionDays(tx, place.account);
      if (days === undefined || before.type !== next.type) {
        content = await around.contents.replaced(tx, before.content, content);
      } else {
        keepDeletedSnapshot(change, before, deletedNow(tx, days));
      }
    }
  } else if (remains !== undefined) {
    if (remains.deleted === undefined || remains.type !== next.type) {
      content = await around.contents.replaced(tx, remains.content, content);
    } else {
      keepDeletedSnapshot(change, remains, remains.deleted);
    }
  }
  const record = versioned(change, { ...next, content });
  blobs.put(tx, [container, name], record);
  // The index forgets a deleted blob at once, but one that has expired only now or when the sweep comes by.
  const indexed = remains?.deleted === undefined ? remains : undefined;
  indexTags(tx, place, (before ?? indexed)?.tags, record.tags);
  return record;
}

/** Stores a change that leaves the content as it is, and makes a version of the state before it. */
export async function changeBlob(
  change: Change,
  before: BlobRecord,
  next: BlobRecord,
): Promise<BlobRecord> {
  const { tx, place, around } = change;
  const { container, name } = place;
  refusePending(before);
  let record = next;
  if (isVersioned(change, before)) {
    const content = await around.contents.copied(tx, before.content);
    versions.put(tx, [container, name, versionOf(before)], { ...past(before), content });
    record = versioned(change, next);
  }
  blobs.put(tx, [container, name], record);
  return record;
}

/**
 * Makes room for a blob that has only blocks: what was deleted under its name becomes a deleted snapshot
 * ("Soft delete for blobs", the row of Put Block).
 */
export function setAside(change: Change): void {
  const { tx, place } = change;
  const { container, name, remains } = place;
  if (remains?.deleted === undefined) return;
  keepDeletedSnapshot(change, remains, remains.deleted);
  blobs.delete(tx, container, name);
}

/** Takes the current state away; gives whether it is gone for good. */
export async function removeBlob(change: Change, found: BlobRecord): Promise<boolean> {
  const { tx, place, around } = change;
  const { account, container, name } = place;
  indexTags(tx, place, found.tags, undefined);
  if (isVersioned(change, found)) {
    versions.put(tx, [container, name, versionOf(found)], past(found));
    blobs.delete(tx, container, name);
    return false;
  }
  const days = await retentionDays(tx, account);
  if (days === undefined) {
    await around.contents.release(tx, found.content);
    blobs.delete(tx, container, name);
    return true;
  }
  const deleted = deletedNow(tx, days);
  blobs.put(tx, [container, name], { ...found, lease: available, deleted });
  purgeLater(tx, deleted.until, purgeOf(place, "blob"));
  return false;
}

/** Takes a snapshot or an earlier version away; gives whether it is gone for good. */
export async function removePast(
  change: Change,
  found: BlobRecord,
  at: { readonly snapshot: bigint } | { readonly version: bigint },
): Promise<boolean> {
  const { tx, place, around } = change;
  const { account, container, name } = place;
  const [kind, what, tick] =
    "snapshot" in at
      ? ([snapshots, "snapshot", at.snapshot] as const)
      : ([versions, "version", at.version] as const);
  const days = await retentionDays(tx, account);
  if (days === undefined) {
    await around.contents.release(tx, found.content);
    kind.delete(tx, container, name, tick);
    return true;
  }
  const deleted = deletedNow(tx, days);
  kind.put(tx, [container, name, tick], { ...found, deleted });
  purgeLater(tx, deleted.until, purgeOf(place, what, tick));
  return false;
}

/** Refuses a change of what a policy or a legal hold keeps as it is, or what a copy is still filling. */
export function refuseFixed(found: BlobRecord | undefined, now: Instant): void {
  if (found === undefined) return;
  refusePending(found);
  refuse(isImmutable(found, now));
}

/** An incremental copy has nothing but its snapshots; it cannot be read or written itself. */
export function refuseIncremental(found: BlobRecord): void {
  if (found.copy?.incremental !== undefined) {
    throw new StorageError("OperationNotAllowedOnIncrementalCopyBlob");
  }
}

export function refusePending(found: BlobRecord | undefined): void {
  if (found?.copy?.status === "pending") throw new StorageError("PendingCopyOperation");
}

/** Whether a state stays as a version: also the last one from when the account still kept versions. */
const isVersioned = ({ around }: Change, { version }: BlobRecord): boolean =>
  around.settings.versioning || version !== undefined;

/** A record as a past state: nobody leases those, and only a blob itself expires. */
export const past = ({ expiresAt: _expiresAt, ...record }: BlobRecord): BlobRecord => ({
  ...record,
  lease: available,
});

/** The tick that names a state; one from before versions were kept is named by its last change. */
const versionOf = ({ version, modifiedAt }: BlobRecord): bigint =>
  version === undefined ? tickAt(modifiedAt) : BigInt(`0x${version}`);

function versioned({ tx, around }: Change, record: BlobRecord): BlobRecord {
  if (around.settings.versioning) return { ...record, version: versionText(tx.tick()) };
  const { version: _before, ...rest } = record;
  return rest;
}

function keepDeletedSnapshot({ tx, place }: Change, record: BlobRecord, deleted: Deleted): void {
  const tick = tx.tick();
  snapshots.put(tx, [place.container, place.name, tick], { ...past(record), deleted });
  purgeLater(tx, deleted.until, purgeOf(place, "snapshot", tick));
}

const purgeOf = (
  { account, container, name }: BlobPlace,
  what: "blob" | "snapshot" | "version",
  at?: bigint,
): PurgeRecord => ({
  what,
  account,
  container: container.toString(16),
  name,
  ...(at === undefined ? {} : { at: at.toString(16) }),
});

/** Notes that the sweep must look at a thing at that time. */
export function purgeLater(tx: WriteTx, at: Instant, record: PurgeRecord): void {
  purges.put(tx, [BigInt(Math.ceil(at)), tx.tick()], record);
}

/** Notes that a blob vanishes at that time by itself. */
export const expireLater = (tx: WriteTx, place: BlobPlace, at: Instant): void =>
  purgeLater(tx, at, purgeOf(place, "blob"));

export const deletedNow = (tx: WriteTx, days: number): Deleted => ({
  at: tx.now,
  until: tx.now + days * DAY_MS,
});

/** For how many days the account keeps deleted blobs; undefined if it does not. */
async function retentionDays(tx: WriteTx, account: string): Promise<number | undefined> {
  const setting = (await services.get(tx, account, "blob"))?.deleteRetention;
  return setting?.enabled ? setting.days : undefined;
}

/** How many days are left of a deleted thing's time, as lists tell it. */
export const daysLeft = ({ until }: Deleted, now: Instant): number =>
  Math.max(0, Math.floor((until - now) / DAY_MS));

export const instantOfVersion = (version: string): Instant => instantOf(BigInt(`0x${version}`));
