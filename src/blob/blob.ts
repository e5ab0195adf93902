import { type Instant, parseHttpDate, tickText } from "../base/time.ts";
import type { ReadTx, WriteTx } from "../engine/engine.ts";
import { parseConditions } from "../http/conditions.ts";
import { CUSTOMER_KEY_HEADERS } from "../http/heeded.ts";
import {
  type Call,
  createOperation,
  type HeaderValue,
  type Reply,
  type Request,
  readOperation,
  writeOperation,
} from "../http/operation.ts";
import { failedCondition } from "../rules/conditions.ts";
import {
  invalidHeader,
  invalidQuery,
  missingHeader,
  refuse,
  StorageError,
} from "../rules/errors.ts";
import { leaseAfterWrite, leaseAt } from "../rules/lease.ts";
import { checkedMetadata, noMetadata } from "../rules/metadata.ts";
import { parseRange, rangeOf } from "../rules/ranges.ts";
import { tierAt, tierChanged } from "../rules/tiers.ts";
import { changedHeaders, changedNow, metadataHeaders, parseInteger } from "../service/resource.ts";
import { withSum } from "../service/summed.ts";
import { services, snapshots, uncommitted, versions } from "../store/keys.ts";
import type { BlobRecord } from "../store/records.ts";
import { dropBlocks } from "../store/sweep.ts";
import { blobHeaders, httpHeadersOf, stateHeaders, tierHeaders } from "./blob-headers.ts";
import { priorityOf, tierOf } from "./block-blob.ts";
import { encryptedHeaders, refuseOtherKey } from "./customer-key.ts";
import { refuseOtherScope } from "./encryption-scope.ts";
import {
  changeBlob,
  expireLater,
  past,
  refuseFixed,
  refuseIncremental,
  removeBlob,
  removePast,
} from "./history.ts";
import { changedPageProperties, pagePropertiesOf } from "./page-blob.ts";
import { type BlobPlace, isCurrent, putBlobRecord, putTaggedRecord, theBlob } from "./resource.ts";

const SNAPSHOTS_MAX = Number.MAX_SAFE_INTEGER;
const SNAPSHOTS_LOOK = 64;
const RANGE_SUM_MAX = 4 * 1024 * 1024;

const isTrue = (request: Request, name: string): boolean => {
  const text = request.header(name)?.toLowerCase();
  if (text !== undefined && text !== "true" && text !== "false") throw invalidHeader(name, text);
  return text === "true";
};

/** The range of a read, and which sum of it is wanted; x-ms-range counts before Range. */
function rangeInput(request: Request) {
  const asked = parseRange(request.header("x-ms-range") ?? request.header("range"));
  const md5 = isTrue(request, "x-ms-range-get-content-md5");
  const crc = isTrue(request, "x-ms-range-get-content-crc64");
  const name = md5 ? "x-ms-range-get-content-md5" : "x-ms-range-get-content-crc64";
  if (md5 && crc) throw invalidHeader("x-ms-range-get-content-crc64", "true");
  if ((md5 || crc) && asked === undefined) throw invalidHeader(name, "true");
  return { asked, sum: md5 ? ("md5" as const) : crc ? ("crc64" as const) : undefined, name };
}

export const getBlob = readOperation({
  name: "Get Blob",
  match: { method: "GET", on: "blob" },
  allow: { sas: "r", resource: "o", public: "blob" },
  snapshots: true,
  versions: true,
  heeds: CUSTOMER_KEY_HEADERS,
  structured: true,
  givesEtag: true,
  guard: { on: theBlob, conditions: "read", lease: "free" },
  input: rangeInput,
  async apply({ tx, request, place, found, input: { asked, sum, name }, around: { contents } }) {
    refuseOtherKey(found.customerKey, request);
    if (isCurrent(place)) refuseIncremental(found);
    if (tierAt(found, tx.now).tier === "Archive") throw new StorageError("BlobArchived");
    const { size, headers: stored } = found;
    let range: ReturnType<typeof rangeOf>;
    try {
      range = rangeOf(asked, size);
    } catch {
      throw new StorageError("InvalidRange", { "Content-Range": `bytes */${size}` });
    }
    if (sum !== undefined && range.count > RANGE_SUM_MAX) throw invalidHeader(name, "true");
    const body = await contents.open(tx, found.content, range, request.customerKey?.key);
    const whole = asked === undefined || size === 0; // no Content-Range can tell of no bytes
    const headers: Record<string, HeaderValue> = {
      ...blobHeaders(found, tx.now, place),
      "Content-Length": range.count,
      "Content-Range": whole
        ? undefined
        : `bytes ${range.start}-${range.start + range.count - 1}/${size}`,
      "Content-MD5": whole ? stored.contentMd5 : undefined,
      "x-ms-blob-content-md5": whole ? undefined : stored.contentMd5,
    };
    return { status: whole ? 200 : 206, headers, body };
  },
  async finish(reply, { sum }) {
    return sum === undefined ? reply : withSum(reply, sum);
  },
});

export const getBlobProperties = readOperation({
  name: "Get Blob Properties",
  match: { method: "HEAD", on: "blob" },
  allow: { sas: "r", resource: "o", public: "blob" },
  snapshots: true,
  versions: true,
  heeds: CUSTOMER_KEY_HEADERS,
  givesEtag: true,
  guard: { on: theBlob, conditions: "read", lease: "free" },
  async apply({ tx, request, place, found }) {
    refuseOtherKey(found.customerKey, request);
    const headers: Record<string, HeaderValue> = {
      ...blobHeaders(found, tx.now, place),
      ...tierHeaders(found, tx.now),
      "Content-Length": found.size,
      "Content-MD5": found.headers.contentMd5,
    };
    return { status: 200, headers };
  },
});

export const getBlobMetadata = readOperation({
  name: "Get Blob Metadata",
  match: { method: "GET", headToo: true, on: "blob", comp: "metadata" },
  allow: { sas: "r", resource: "o", public: "blob" },
  snapshots: true,
  versions: true,
  heeds: CUSTOMER_KEY_HEADERS,
  givesEtag: true,
  guard: { on: theBlob, conditions: "read", lease: "free" },
  async apply({ request, found }) {
    refuseOtherKey(found.customerKey, request);
    const headers = { ...changedHeaders(found), ...metadataHeaders(found.metadata) };
    return { status: 200, headers };
  },
});

/** The record after a change that leaves its content: a new ETag, and no lease that had run out. */
export const changedBlob = (
  found: BlobRecord,
  changed: Pick<BlobRecord, "etag" | "modifiedAt">,
  now: Instant,
): BlobRecord => {
  const { copy: _copy, ...state } = found; // how it came is told until the next write
  return { ...state, ...changed, lease: leaseAfterWrite(leaseAt(found.lease, now)) };
};

export const setBlobMetadata = writeOperation({
  name: "Set Blob Metadata",
  match: { method: "PUT", on: "blob", comp: "metadata" },
  allow: { sas: "w", resource: "o" },
  heeds: CUSTOMER_KEY_HEADERS,
  givesEtag: true,
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  input: (request) => checkedMetadata(request.headersFrom("x-ms-meta-")),
  async apply(call) {
    const { tx, request, place, found, input: metadata } = call;
    refuseOtherKey(found.customerKey, request);
    await refuseOtherScope(tx, place, request.header("x-ms-encryption-scope"));
    refuseIncremental(found);
    refuseFixed(found, tx.now);
    const next = { ...changedBlob(found, changedNow(tx), tx.now), metadata };
    const record = await changeBlob(call, found, next);
    const headers = { ...stateHeaders(record), ...encryptedHeaders(record) };
    return { status: 200, headers };
  },
});

export const setBlobProperties = writeOperation({
  name: "Set Blob Properties",
  match: { method: "PUT", on: "blob", comp: "properties" },
  allow: { sas: "w", resource: "o" },
  heeds: CUSTOMER_KEY_HEADERS,
  givesEtag: true,
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  input(request) {
    const pages = pagePropertiesOf(request);
    const headers = httpHeadersOf(request, false);
    // A request about the pages alone leaves the other properties as they are.
    const isKept = pages !== undefined && Object.keys(headers).length === 0;
    return { pages, headers: isKept ? undefined : headers };
  },
  async apply({ tx, request, place, found, input, around }) {
    // Properties are not encrypted, so no key is needed; but one that comes along must be right.
    if (request.customerKey !== undefined) refuseOtherKey(found.customerKey, request);
    await refuseOtherScope(tx, place, request.header("x-ms-encryption-scope"));
    refuseIncremental(found);
    refuseFixed(found, tx.now);
    const { pages, headers = found.headers } = input;
    const changed =
      pages === undefined ? {} : await changedPageProperties(tx, around.contents, found, pages);
    const record = { ...changedBlob(found, changedNow(tx), tx.now), headers, ...changed };
    putBlobRecord(tx, place, record);
    const reply: Record<string, HeaderValue> = {
      ...changedHeaders(record),
      "x-ms-blob-sequence-number": record.sequenceNumber,
    };
    return { status: 200, headers: reply };
  },
});

export const snapshotBlob = writeOperation({
  name: "Snapshot Blob",
  match: { method: "PUT", on: "blob", comp: "snapshot" },
  allow: { sas: "cw", resource: "o" },
  heeds: CUSTOMER_KEY_HEADERS,
  givesEtag: true,
  guard: { on: theBlob, conditions: "snapshot", lease: "free" },
  input: (request) => checkedMetadata(request.headersFrom("x-ms-meta-")),
  async apply(call) {
    const { tx, request, place, found, input: metadata, around } = call;
    refuseOtherKey(found.customerKey, request);
    await refuseOtherScope(tx, place, request.header("x-ms-encryption-scope"));
    refuseIncremental(found);
    if (tierAt(found, tx.now).tier === "Archive") throw new StorageError("BlobArchived");
    const snapshot = tx.tick();
    const content = await around.contents.copied(tx, found.content);
    const changes = metadata === noMetadata ? {} : { metadata, ...changedNow(tx) };
    const { version: _version, ...state } = past(found);
    const record: BlobRecord = { ...state, ...changes, content };
    snapshots.put(tx, [place.container, place.name, snapshot], record);
    const current = await changeBlob(call, found, found);
    const headers: Record<string, HeaderValue> = {
      ...stateHeaders({ ...record, ...(current.version && { version: current.version }) }),
      "x-ms-snapshot": tickText(snapshot),
      "x-ms-request-server-encrypted": metadata === noMetadata ? undefined : true,
    };
    return { status: 201, headers };
  },
});

function deleteSnapshotsOf(request: Request): "include" | "only" | undefined {
  const text = request.header("x-ms-delete-snapshots");
  if (text === undefined) return undefined;
  const which = text.toLowerCase();
  const valid = which === "include" || which === "only";
  const ofPast = request.snapshot !== undefined || request.versionId !== undefined;
  if (!valid || ofPast) throw invalidHeader("x-ms-delete-snapshots", text);
  return which;
}

/** A version and what is deleted for good have letters of their own ("Permissions for a blob"). */
function deleteLetters({ query }: Pick<Request, "query">): string {
  if (query.has("deletetype")) return "y";
  return query.has("versionid") ? "x" : "d";
}

export const deleteBlob = createOperation({
  name: "Delete Blob",
  match: { method: "DELETE", on: "blob" },
  allow: { sas: "d", resource: "o", letters: deleteLetters },
  snapshots: true,
  versions: true,
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  heeds: ["x-ms-access-tier-if-modified-since", "x-ms-access-tier-if-unmodified-since"],
  input(request) {
    const type = request.query.get("deletetype");
    if (type !== undefined && type.toLowerCase() !== "permanent") {
      throw invalidQuery("deletetype", type);
    }
    return {
      isPermanent: type !== undefined,
      which: deleteSnapshotsOf(request),
      tierTimes: parseConditions(request.header, "x-ms-access-tier-"),
    };
  },
  async apply(call) {
    const { tx, request, place, found, input } = call;
    if (input.isPermanent) return deletedForGood(call);
    if (found !== undefined) {
      refuseFixed(found, tx.now);
      refuse(failedCondition(input.tierTimes, tierVersion(found), "write"));
    }
    if (place.snapshot !== undefined || place.version !== undefined) {
      if (found === undefined) throw new StorageError("BlobNotFound");
      const { snapshot, version = 0n } = place;
      const at = snapshot === undefined ? { version } : { snapshot };
      return deleted(await removePast(call, found, at));
    }
    if (request.versionId !== undefined) throw new StorageError("OperationNotAllowedOnRootBlob");
    return deletedCurrent(call);
  },
});

type DeleteCall = Call<WriteTx, DeleteInput, BlobPlace, BlobRecord | undefined>;
type DeleteInput = { readonly which: "include" | "only" | undefined };

const deleted = (isGone: boolean): Reply => ({
  status: 202,
  headers: { "x-ms-delete-type-permanent": isGone },
});

/** What the times of a blob's tier are judged by. */
const tierVersion = ({ etag, tierChangedAt, createdAt }: BlobRecord) => ({
  etag,
  modifiedAt: tierChangedAt ?? createdAt,
});

/** Whether a blob has a snapshot that is not deleted; there may be very many, and one is enough. */
async function hasSnapshots(tx: ReadTx, container: bigint, name: string): Promise<boolean> {
  for (let from: Uint8Array = snapshots.packed([container, name]); ; ) {
    const rows = await snapshots.walk(tx, [container, name], { from, limit: SNAPSHOTS_LOOK });
    if (rows.some(({ value }) => value.deleted === undefined)) return true;
    const last = rows.at(-1);
    if (last === undefined || rows.length < SNAPSHOTS_LOOK) return false;
    from = Buffer.concat([snapshots.packed(last.key), Buffer.of(0)]);
  }
}

/** Deletes the current state, its snapshots if the request says so, and blocks that wait. */
async function deletedCurrent(call: DeleteCall) {
  const { tx, place, found, input, around } = call;
  const { container, name } = place;
  const waiting = await uncommitted.get(tx, container, name);
  if (found === undefined && waiting === undefined) throw new StorageError("BlobNotFound");
  // Blocks that wait are no version, so none of them is the one that the request means.
  if (found === undefined && call.request.conditions.ifMatch !== undefined) {
    throw new StorageError("ConditionNotMet");
  }
  if (input.which === undefined && (await hasSnapshots(tx, container, name))) {
    throw new StorageError("SnapshotsPresent");
  }
  const all =
    input.which === undefined
      ? []
      : await snapshots.walk(tx, [container, name], { limit: SNAPSHOTS_MAX });
  const taken = all.filter(({ value }) => value.deleted === undefined);
  for (const { value } of taken) refuseFixed(value, tx.now);
  let isGone = true;
  for (const { key, value } of taken) {
    isGone = await removePast(call, value, { snapshot: key[2] });
  }
  if (input.which === "only") return deleted(isGone);
  if (waiting !== undefined) await dropBlocks(tx, around.contents, container, name);
  return deleted(found === undefined || (await removeBlob(call, found)));
}

/** Ends the time in which a deleted snapshot or version could be restored ("Delete Blob", deletetype). */
async function deletedForGood({ tx, request, place, around }: DeleteCall) {
  const { account, container, name, snapshot, version } = place;
  const setting = (await services.get(tx, account, "blob"))?.deleteRetention;
  const kind = snapshot === undefined ? versions : snapshots;
  const at = snapshot ?? version;
  const found = at === undefined ? undefined : await kind.get(tx, container, name, at);
  if (at !== undefined && found === undefined) throw new StorageError("BlobNotFound");
  if (at === undefined || !found?.deleted || !setting?.allowPermanentDelete) {
    throw new StorageError("PermanentDeleteNotAllowed");
  }
  refuse(failedCondition(request.conditions, found, "write"));
  await around.contents.release(tx, found.content);
  kind.delete(tx, container, name, at);
  return deleted(true);
}

/** Restores all that was deleted under a name; what is current stays so ("Undelete Blob"). */
export const undeleteBlob = createOperation({
  name: "Undelete Blob",
  match: { method: "PUT", on: "blob", comp: "undelete" },
  allow: { sas: "w", resource: "o" },
  guard: { on: theBlob, conditions: "none", lease: "free" },
  async apply({ tx, place, found }) {
    const { container, name, remains } = place;
    let isKnown = found !== undefined;
    if (remains?.deleted !== undefined && remains.deleted.until > tx.now) {
      const { deleted: _deleted, ...record } = remains;
      putTaggedRecord(tx, place, undefined, record);
      // The sweep may have come by at the time of its expiry, when there was nothing to do.
      if (record.expiresAt !== undefined) expireLater(tx, place, record.expiresAt);
      isKnown = true;
    }
    for (const kind of [snapshots, versions]) {
      for (const { key, value } of await kind.walk(tx, [container, name], {
        limit: SNAPSHOTS_MAX,
      })) {
        isKnown = true;
        if (value.deleted === undefined || value.deleted.until <= tx.now) continue;
        const { deleted: _deleted, ...record } = value;
        kind.put(tx, key, record);
      }
    }
    if (!isKnown) throw new StorageError("BlobNotFound");
    return { status: 200, headers: {} };
  },
});

export const setBlobTier = writeOperation({
  name: "Set Blob Tier",
  match: { method: "PUT", on: "blob", comp: "tier" },
  allow: { sas: "w", resource: "o" },
  snapshots: true,
  versions: true,
  heeds: ["x-ms-if-tags"],
  guard: { on: theBlob, conditions: "none", lease: "free" },
  input(request) {
    const tier = tierOf(request);
    if (tier === undefined) throw missingHeader("x-ms-access-tier");
    return { tier, priority: priorityOf(request) };
  },
  async apply({ tx, place, found, input: { tier, priority }, around: { settings } }) {
    if (found.type !== "BlockBlob") throw new StorageError("AccessTierNotSupportedForBlobType");
    const endsAt = tx.now + settings.rehydrateMs;
    const result = tierChanged(tierAt(found, tx.now), tier, { priority, endsAt });
    if (typeof result === "string") throw new StorageError(result);
    const { rehydration: _before, tier: _tier, ...rest } = found;
    const { state, begun } = result;
    putBlobRecord(tx, place, {
      ...rest,
      ...(state.tier === undefined ? {} : { tier: state.tier }),
      ...(state.rehydration === undefined ? {} : { rehydration: state.rehydration }),
      tierChangedAt: tx.now,
    });
    return { status: begun ? 202 : 200, headers: {} };
  },
});

/** When a blob vanishes by itself ("Set Blob Expiry"). */
function expiryOf(request: Request) {
  const option = request.header("x-ms-expiry-option");
  if (option === undefined) throw missingHeader("x-ms-expiry-option");
  const known = EXPIRY_OPTIONS.find((name) => name.toLowerCase() === option.toLowerCase());
  if (known === undefined) throw invalidHeader("x-ms-expiry-option", option);
  const time = request.header("x-ms-expiry-time");
  if (known === "NeverExpire") {
    if (time !== undefined) throw invalidHeader("x-ms-expiry-time", time);
    return { option: known, value: 0 };
  }
  if (time === undefined) throw missingHeader("x-ms-expiry-time");
  const value = known === "Absolute" ? parseHttpDate(time) : parseInteger(time);
  if (value === undefined || value < 0) throw invalidHeader("x-ms-expiry-time", time);
  return { option: known, value };
}

const EXPIRY_OPTIONS = ["NeverExpire", "RelativeToCreation", "RelativeToNow", "Absolute"] as const;

// Differs from Azure: Set Blob Expiry works here also in an account without a hierarchical namespace.
export const setBlobExpiry = writeOperation({
  name: "Set Blob Expiry",
  match: { method: "PUT", on: "blob", comp: "expiry" },
  allow: { sas: "w", resource: "o" },
  givesEtag: true,
  heeds: ["x-ms-expiry-option"],
  guard: { on: theBlob, conditions: "none", lease: "guarded" },
  input: expiryOf,
  async apply({ tx, request, place, found, input: { option, value } }) {
    refuseIncremental(found);
    refuseFixed(found, tx.now);
    const { expiresAt: _before, ...rest } = found;
    const since = { RelativeToCreation: found.createdAt, RelativeToNow: tx.now, Absolute: 0 };
    const expiresAt = option === "NeverExpire" ? undefined : since[option] + value;
    if (expiresAt !== undefined && expiresAt <= tx.now) {
      throw invalidHeader("x-ms-expiry-time", request.header("x-ms-expiry-time") ?? "");
    }
    const changed = changedBlob(rest, changedNow(tx), tx.now);
    const record = expiresAt === undefined ? changed : { ...changed, expiresAt };
    putBlobRecord(tx, place, record);
    if (expiresAt !== undefined) expireLater(tx, place, expiresAt);
    return { status: 200, headers: changedHeaders(record) };
  },
});
