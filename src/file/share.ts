import { httpDate, tickText } from "../base/time.ts";
import { element, XML_DECLARATION } from "../base/xml.ts";
import type { WriteTx } from "../engine/engine.ts";
import {
  createOperation,
  type HeaderValue,
  type Request,
  readOperation,
  writeOperation,
} from "../http/operation.ts";
import { invalidHeader, invalidQuery, missingHeader, StorageError } from "../rules/errors.ts";
import { available, isHeld, leaseAfterWrite, leaseAt, leaseProperties } from "../rules/lease.ts";
import { noMetadata } from "../rules/metadata.ts";
import { ROOT_PERMISSION } from "../rules/sddl.ts";
import { DIRECTORY, parseQuota, parseShareTier, type ShareTier } from "../rules/smb-properties.ts";
import { POLICIES_XML_MAX, policiesOf, policiesXml } from "../service/policies.ts";
import { changedHeaders, changedNow, metadataHeaders, metadataOf } from "../service/resource.ts";
import type { ShareRecord, ShareSnapshotRecord } from "../store/file-records.ts";
import {
  deletedShares,
  garbage,
  nodes,
  services,
  shareSnapshots,
  shares,
  usage,
} from "../store/keys.ts";
import { hexOf, ROOT, tickOf } from "./namespace.ts";
import { keepPermission } from "./node.ts";

import { chosen, type SharePlace, theShare } from "./resource.ts";
import type { Share } from "./tree.ts";

const QUOTA_DEFAULT = 5120;
const SNAPSHOTS_MAX = 200;
const GIB = 1024 ** 3;
const DAY_MS = 24 * 3600 * 1000;

function quotaOf(request: Request): number | undefined {
  const text = request.header("x-ms-share-quota");
  if (text === undefined) return undefined;
  const quota = parseQuota(text);
  if (quota === undefined) throw invalidHeader("x-ms-share-quota", text);
  return quota;
}

function tierOf(request: Request): ShareTier | undefined {
  const text = request.header("x-ms-access-tier");
  if (text === undefined) return undefined;
  const tier = parseShareTier(text);
  if (tier === undefined) throw invalidHeader("x-ms-access-tier", text);
  return tier;
}

/** The share of a place that was found; rows that let it be missing do not use this. */
export function foundShare({ share }: SharePlace): Share {
  if (share === undefined) throw new StorageError("ShareNotFound");
  return share;
}

const putShare = (tx: WriteTx, { account, name }: SharePlace, record: ShareRecord): void =>
  shares.put(tx, [account, name], record);

/** Stores a share's record after a change of it, and forgets a lease that had run out. */
function putChanged(tx: WriteTx, place: SharePlace, record: ShareRecord): void {
  const lease = leaseAfterWrite(leaseAt(record.lease, tx.now));
  putShare(tx, place, { ...record, lease });
}

/** Stores a lease of a share, or of a snapshot of it. */
export function putLease(tx: WriteTx, place: SharePlace, record: ShareSnapshotRecord): void {
  const { id, record: share, snapshot } = foundShare(place);
  if (snapshot === undefined) putShare(tx, place, { ...share, lease: record.lease });
  else shareSnapshots.put(tx, [id, snapshot.at], record);
}

const quotaHeader = ({ quota }: ShareSnapshotRecord) => ({ "x-ms-share-quota": quota });

export const createShare = createOperation({
  name: "Create Share",
  match: { method: "PUT", on: "share", restype: "share" },
  allow: { sas: "cw", resource: "c" },
  guard: { on: theShare, conditions: "none", lease: "own" },
  input(request) {
    chosen(request, "x-ms-enabled-protocols", ["SMB"]);
    return {
      metadata: metadataOf(request),
      quota: quotaOf(request) ?? QUOTA_DEFAULT,
      tier: tierOf(request) ?? ("TransactionOptimized" as const),
    };
  },
  async apply({ tx, place, found, input }) {
    if (found !== undefined) throw new StorageError("ShareAlreadyExists");
    const id = tx.tick();
    const record: ShareRecord = {
      ...changedNow(tx),
      ...input,
      id: hexOf(id),
      lease: available,
      policies: [],
      snapshotCount: 0,
    };
    putShare(tx, place, record);
    await putRoot(tx, id, record);
    return { status: 201, headers: { ...changedHeaders(record), ...quotaHeader(record) } };
  },
});

async function putRoot(tx: WriteTx, share: bigint, record: ShareRecord): Promise<void> {
  const at = hexOf(tx.tick());
  nodes.put(tx, [share, ROOT], {
    kind: "directory",
    etag: record.etag,
    modifiedAt: record.modifiedAt,
    since: at,
    id: "0",
    parent: "0",
    name: "",
    attributes: DIRECTORY,
    createdAt: at,
    writtenAt: at,
    changedAt: at,
    permission: await keepPermission(tx, share, ROOT_PERMISSION),
    metadata: noMetadata,
    lease: available,
  });
}

export const getShareProperties = readOperation({
  name: "Get Share Properties",
  match: { method: "GET", headToo: true, on: "share", restype: "share" },
  allow: { sas: "r", resource: "c" },
  snapshots: true,
  guard: { on: theShare, conditions: "none", lease: "free" },
  async apply({ tx, found }) {
    const lease = leaseProperties(leaseAt(found.lease, tx.now));
    const headers: Record<string, HeaderValue> = {
      ...changedHeaders(found),
      ...metadataHeaders(found.metadata),
      ...quotaHeader(found),
      "x-ms-access-tier": found.tier,
      "x-ms-access-tier-change-time":
        found.tierChangedAt === undefined ? undefined : httpDate(found.tierChangedAt),
      "x-ms-enabled-protocols": "SMB",
      "x-ms-lease-status": lease.status,
      "x-ms-lease-state": lease.state,
      "x-ms-lease-duration": lease.duration,
    };
    return { status: 200, headers };
  },
});

export const setShareProperties = writeOperation({
  name: "Set Share Properties",
  match: { method: "PUT", on: "share", restype: "share", comp: "properties" },
  allow: { sas: "w", resource: "c" },
  guard: { on: theShare, conditions: "none", lease: "guarded" },
  input: (request) => ({ quota: quotaOf(request), tier: tierOf(request) }),
  async apply({ tx, place, input: { quota, tier } }) {
    const { record: before } = foundShare(place);
    const record: ShareRecord = {
      ...before,
      ...changedNow(tx),
      ...(quota === undefined ? {} : { quota }),
      ...(tier === undefined || tier === before.tier ? {} : { tier, tierChangedAt: tx.now }),
    };
    putChanged(tx, place, record);
    return { status: 200, headers: { ...changedHeaders(record), ...quotaHeader(record) } };
  },
});

export const getShareMetadata = readOperation({
  name: "Get Share Metadata",
  match: { method: "GET", headToo: true, on: "share", restype: "share", comp: "metadata" },
  allow: { sas: "r", resource: "c" },
  snapshots: true,
  guard: { on: theShare, conditions: "none", lease: "free" },
  async apply({ found }) {
    const headers = { ...changedHeaders(found), ...metadataHeaders(found.metadata) };
    return { status: 200, headers };
  },
});

export const setShareMetadata = writeOperation({
  name: "Set Share Metadata",
  match: { method: "PUT", on: "share", restype: "share", comp: "metadata" },
  allow: { sas: "w", resource: "c" },
  guard: { on: theShare, conditions: "none", lease: "guarded" },
  input: metadataOf,
  async apply({ tx, place, input: metadata }) {
    const record = { ...foundShare(place).record, ...changedNow(tx), metadata };
    putChanged(tx, place, record);
    return { status: 200, headers: changedHeaders(record) };
  },
});

export const getShareAcl = readOperation({
  name: "Get Share ACL",
  match: { method: "GET", headToo: true, on: "share", restype: "share", comp: "acl" },
  allow: { sas: "", resource: "c" },
  guard: { on: theShare, conditions: "none", lease: "free" },
  async apply({ place, found }) {
    const headers = { ...changedHeaders(found), "Content-Type": "application/xml" };
    return { status: 200, headers, body: policiesXml(foundShare(place).record.policies) };
  },
});

export const setShareAcl = writeOperation({
  name: "Set Share ACL",
  match: { method: "PUT", on: "share", restype: "share", comp: "acl" },
  allow: { sas: "", resource: "c" },
  body: { kind: "xml", sizeMax: POLICIES_XML_MAX, optional: true },
  guard: { on: theShare, conditions: "none", lease: "guarded" },
  input: (_request, { xml }) => (xml === undefined ? [] : policiesOf(xml, "rcwdl")),
  async apply({ tx, place, input: policies }) {
    const record = { ...foundShare(place).record, ...changedNow(tx), policies };
    putChanged(tx, place, record);
    return { status: 200, headers: changedHeaders(record) };
  },
});

export const getShareStats = readOperation({
  name: "Get Share Stats",
  match: { method: "GET", on: "share", restype: "share", comp: "stats" },
  allow: { sas: "r", resource: "c" },
  guard: { on: theShare, conditions: "none", lease: "free" },
  async apply({ tx, request, place, found }) {
    const bytes = (await usage.get(tx, foundShare(place).id)) ?? 0;
    // Before this version the answer was in GiB ("Get Share Stats").
    const stats =
      request.version >= "2018-11-09"
        ? element("ShareUsageBytes", bytes)
        : element("ShareUsage", Math.ceil(bytes / GIB));
    const headers = { ...changedHeaders(found), "Content-Type": "application/xml" };
    return { status: 200, headers, body: `${XML_DECLARATION}<ShareStats>${stats}</ShareStats>` };
  },
});

/**
 * A snapshot is one record: what it shows stays in place until it changes, and is set apart only then
 * (docs/decisions/0009-file-namespace.md).
 */
export const snapshotShare = writeOperation({
  name: "Snapshot Share",
  match: { method: "PUT", on: "share", restype: "share", comp: "snapshot" },
  allow: { sas: "cw", resource: "c" },
  guard: { on: theShare, conditions: "none", lease: "own" },
  input: metadataOf,
  async apply({ tx, place, input: metadata }) {
    const { id, record: share } = foundShare(place);
    if (share.snapshotCount >= SNAPSHOTS_MAX) throw new StorageError("ShareSnapshotCountExceeded");
    const at = tx.tick();
    const { etag, modifiedAt, quota, tier, tierChangedAt } = share;
    const record: ShareSnapshotRecord = {
      ...(metadata === noMetadata ? { etag, modifiedAt } : changedNow(tx)),
      metadata: metadata === noMetadata ? share.metadata : metadata,
      lease: available,
      quota,
      tier,
      ...(tierChangedAt === undefined ? {} : { tierChangedAt }),
    };
    shareSnapshots.put(tx, [id, at], record);
    const snapshotCount = share.snapshotCount + 1;
    putShare(tx, place, { ...share, lastSnapshot: hexOf(at), snapshotCount });
    const headers = { ...changedHeaders(record), "x-ms-snapshot": tickText(at) };
    return { status: 201, headers };
  },
});

export const deleteShare = writeOperation({
  name: "Delete Share",
  match: { method: "DELETE", on: "share", restype: "share" },
  allow: { sas: "d", resource: "c" },
  snapshots: true,
  guard: { on: theShare, conditions: "none", lease: "guarded" },
  input(request) {
    const which = chosen(request, "x-ms-delete-snapshots", ["include", "include-leased"]);
    if (which !== undefined && request.snapshot !== undefined) {
      throw invalidQuery("sharesnapshot", tickText(request.snapshot));
    }
    return which;
  },
  async apply({ tx, request, place, input: which, around: { opens } }) {
    const share = foundShare(place);
    const bytes = (await usage.get(tx, share.id)) ?? 0;
    if (share.snapshot !== undefined) {
      await dropSnapshot(tx, place, share);
      return { status: 202, headers: {} };
    }
    if (share.record.snapshotCount > 0) await checkSnapshots(tx, share, which);
    // Differs from Azure: the name of a deleted share can be used again at once, not after 30 seconds.
    shares.delete(tx, place.account, place.name);
    const settings = await services.get(tx, request.account, request.service);
    const { enabled = false, days = 0 } = settings?.shareDeleteRetention ?? {};
    if (enabled) {
      deletedShares.put(tx, [place.account, place.name, tx.tick()], {
        share: { ...share.record, lease: available },
        deletedAt: tx.now,
        expiresAt: tx.now + days * DAY_MS,
      });
    } else {
      garbage.put(tx, [tx.tick()], { share: share.record.id });
    }
    // What is open goes with the share, which may stay on the disk for days.
    tx.afterCommit(() => {
      for (const open of opens.inShare(share.id)) opens.evict(open);
    });
    return { status: 202, headers: { "x-ms-file-share-usage-bytes": bytes } };
  },
});

/** Sees that the snapshots of a share may go with it. */
async function checkSnapshots(
  tx: WriteTx,
  { id }: Share,
  which: "include" | "include-leased" | undefined,
): Promise<void> {
  if (which === undefined) throw new StorageError("ShareHasSnapshots");
  if (which === "include-leased") return;
  const taken = await shareSnapshots.walk(tx, [id], { limit: SNAPSHOTS_MAX });
  if (taken.some(({ value }) => isHeld(leaseAt(value.lease, tx.now)))) {
    throw new StorageError("DeleteShareWhenSnapshotLeased");
  }
}

/** Removes a snapshot; the versions that only it showed are freed in the background. */
async function dropSnapshot(tx: WriteTx, place: SharePlace, share: Share): Promise<void> {
  if (share.snapshot === undefined) return;
  shareSnapshots.delete(tx, share.id, share.snapshot.at);
  const [newest] = await shareSnapshots.walk(tx, [share.id], { limit: 1, reverse: true });
  const { lastSnapshot: _before, ...rest } = share.record;
  putShare(tx, place, {
    ...rest,
    snapshotCount: share.record.snapshotCount - 1,
    ...(newest === undefined ? {} : { lastSnapshot: hexOf(newest.key[1]) }),
  });
  garbage.put(tx, [tx.tick()], { history: share.record.id });
}

/** The version of a deleted share, as List Shares gives it and Restore Share takes it. */
export const versionText = (tick: bigint): string =>
  tick.toString(16).toUpperCase().padStart(16, "0");

export const restoreShare = createOperation({
  name: "Restore Share",
  match: { method: "PUT", on: "share", restype: "share", comp: "undelete" },
  allow: { sas: "cw", resource: "c" },
  guard: { on: theShare, conditions: "none", lease: "own" },
  input(request) {
    const name = request.header("x-ms-deleted-share-name");
    const version = request.header("x-ms-deleted-share-version");
    if (name === undefined) throw missingHeader("x-ms-deleted-share-name");
    if (version === undefined) throw missingHeader("x-ms-deleted-share-version");
    if (name !== request.names[0]) throw invalidHeader("x-ms-deleted-share-name", name);
    if (!/^[0-9A-Fa-f]{16}$/.test(version)) {
      throw invalidHeader("x-ms-deleted-share-version", version);
    }
    return tickOf(version);
  },
  async apply({ tx, place, found, input: version }) {
    if (found !== undefined) throw new StorageError("ShareAlreadyExists");
    const { account, name } = place;
    const deleted = await deletedShares.get(tx, account, name, version);
    if (deleted === undefined || deleted.expiresAt <= tx.now) {
      throw new StorageError("ShareNotFound");
    }
    deletedShares.delete(tx, account, name, version);
    putShare(tx, place, deleted.share);
    const headers = { ...changedHeaders(deleted.share), ...quotaHeader(deleted.share) };
    return { status: 201, headers };
  },
});
