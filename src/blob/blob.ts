import { hash } from "node:crypto";
import { crc64 } from "../base/crc64.ts";
import type { Instant } from "../base/time.ts";
import { tickText } from "../base/time.ts";
import {
  createOperation,
  type HeaderValue,
  type Reply,
  type Request,
  readOperation,
  writeOperation,
} from "../http/operation.ts";
import { invalidHeader, missingHeader, StorageError } from "../rules/errors.ts";
import { available, leaseAfterWrite, leaseAt } from "../rules/lease.ts";
import { checkedMetadata, noMetadata } from "../rules/metadata.ts";
import { parseRange, rangeOf } from "../rules/ranges.ts";
import { type RehydratePriority, tierAt, tierChanged } from "../rules/tiers.ts";
import { changedHeaders, changedNow, metadataHeaders } from "../service/resource.ts";
import type { Opened } from "../store/content.ts";
import { blobs, snapshots, uncommitted } from "../store/keys.ts";
import type { BlobRecord } from "../store/records.ts";
import { dropBlocks } from "../store/sweep.ts";
import { blobHeaders, httpHeadersOf, tierHeaders } from "./blob-headers.ts";
import { tierOf } from "./block-blob.ts";
import { putBlobRecord, theBlob } from "./resource.ts";

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
  allow: { sas: "r", resource: "o" },
  snapshots: true,
  guard: { on: theBlob, conditions: "read", lease: "free" },
  input: rangeInput,
  async apply({ tx, place, found, input: { asked, sum, name }, around: { contents } }) {
    if (tierAt(found, tx.now).tier === "Archive") throw new StorageError("BlobArchived");
    const { size, headers: stored } = found;
    let range: ReturnType<typeof rangeOf>;
    try {
      range = rangeOf(asked, size);
    } catch {
      throw new StorageError("InvalidRange", { "Content-Range": `bytes */${size}` });
    }
    if (sum !== undefined && range.count > RANGE_SUM_MAX) throw invalidHeader(name, "true");
    const body = await contents.open(tx, found.content, range);
    const whole = asked === undefined;
    const headers: Record<string, HeaderValue> = {
      ...blobHeaders(found, tx.now, place.snapshot !== undefined),
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

/** A reply whose body, of 4 MiB at most, is fetched now, because a header must tell its sum. */
async function withSum(reply: Reply, sum: "md5" | "crc64"): Promise<Reply> {
  const opened = reply.body as Opened;
  const parts: Uint8Array[] = [...(opened.bytes ?? [])];
  try {
    if (opened.bytes === undefined) for await (const part of opened.stream()) parts.push(part);
  } finally {
    opened.close();
  }
  const bytes = Buffer.concat(parts);
  const headers =
    sum === "md5"
      ? { "Content-MD5": hash("md5", bytes, "base64") }
      : { "x-ms-content-crc64": crc64(bytes) };
  const body: Opened = { ...opened, bytes: [bytes], close: () => {} };
  return { ...reply, headers: { ...reply.headers, ...headers }, body };
}

export const getBlobProperties = readOperation({
  name: "Get Blob Properties",
  match: { method: "HEAD", on: "blob" },
  allow: { sas: "r", resource: "o" },
  snapshots: true,
  guard: { on: theBlob, conditions: "read", lease: "free" },
  async apply({ tx, place, found }) {
    const headers: Record<string, HeaderValue> = {
      ...blobHeaders(found, tx.now, place.snapshot !== undefined),
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
  allow: { sas: "r", resource: "o" },
  snapshots: true,
  guard: { on: theBlob, conditions: "read", lease: "free" },
  async apply({ found }) {
    const headers = { ...changedHeaders(found), ...metadataHeaders(found.metadata) };
    return { status: 200, headers };
  },
});

/** The record after a change that leaves its content: a new ETag, and no lease that had run out. */
const changedBlob = (
  found: BlobRecord,
  changed: Pick<BlobRecord, "etag" | "modifiedAt">,
  now: Instant,
): BlobRecord => ({ ...found, ...changed, lease: leaseAfterWrite(leaseAt(found.lease, now)) });

export const setBlobMetadata = writeOperation({
  name: "Set Blob Metadata",
  match: { method: "PUT", on: "blob", comp: "metadata" },
  allow: { sas: "w", resource: "o" },
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  input: (request) => checkedMetadata(request.headersFrom("x-ms-meta-")),
  async apply({ tx, place, found, input: metadata }) {
    const record = { ...changedBlob(found, changedNow(tx), tx.now), metadata };
    putBlobRecord(tx, place, record);
    const headers = { ...changedHeaders(record), "x-ms-request-server-encrypted": true };
    return { status: 200, headers };
  },
});

export const setBlobProperties = writeOperation({
  name: "Set Blob Properties",
  match: { method: "PUT", on: "blob", comp: "properties" },
  allow: { sas: "w", resource: "o" },
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  input(request) {
    for (const name of ["x-ms-blob-content-length", "x-ms-sequence-number-action"]) {
      const value = request.header(name); // of page blobs only
      if (value !== undefined) throw invalidHeader(name, value);
    }
    return httpHeadersOf(request, false);
  },
  async apply({ tx, place, found, input: headers }) {
    const record = { ...changedBlob(found, changedNow(tx), tx.now), headers };
    putBlobRecord(tx, place, record);
    return { status: 200, headers: changedHeaders(record) };
  },
});

export const snapshotBlob = writeOperation({
  name: "Snapshot Blob",
  match: { method: "PUT", on: "blob", comp: "snapshot" },
  allow: { sas: "cw", resource: "o" },
  guard: { on: theBlob, conditions: "snapshot", lease: "free" },
  input: (request) => checkedMetadata(request.headersFrom("x-ms-meta-")),
  async apply({ tx, place, found, input: metadata, around: { contents } }) {
    if (tierAt(found, tx.now).tier === "Archive") throw new StorageError("BlobArchived");
    const snapshot = tx.tick();
    const changes = metadata === noMetadata ? {} : { metadata, ...changedNow(tx) };
    const record: BlobRecord = { ...found, ...changes, lease: available };
    await contents.share(tx, found.content);
    snapshots.put(tx, [place.container, place.name, snapshot], record);
    const headers: Record<string, HeaderValue> = {
      ...changedHeaders(record),
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
  if (!valid || request.snapshot !== undefined) throw invalidHeader("x-ms-delete-snapshots", text);
  return which;
}

export const deleteBlob = createOperation({
  name: "Delete Blob",
  match: { method: "DELETE", on: "blob" },
  allow: { sas: "d", resource: "o" },
  snapshots: true,
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  input(request) {
    const type = request.query.get("deletetype");
    if (type !== undefined)
      throw new StorageError("UnsupportedQueryParameter", { QueryParameterName: "deletetype" });
    return deleteSnapshotsOf(request);
  },
  async apply({ tx, place, found, input: which, around: { contents } }) {
    const { container, name, snapshot } = place;
    const reply = { status: 202, headers: { "x-ms-delete-type-permanent": true } };
    if (snapshot !== undefined) {
      if (found === undefined) throw new StorageError("BlobNotFound");
      await contents.release(tx, found.content);
      snapshots.delete(tx, container, name, snapshot);
      return reply;
    }
    const waiting = await uncommitted.get(tx, container, name);
    if (found === undefined && waiting === undefined) throw new StorageError("BlobNotFound");
    const limit = which === undefined ? 1 : Number.MAX_SAFE_INTEGER;
    const taken = await snapshots.walk(tx, [container, name], { limit });
    if (taken.length > 0 && which === undefined) throw new StorageError("SnapshotsPresent");
    for (const { key, value } of taken) {
      await contents.release(tx, value.content);
      snapshots.delete(tx, ...key);
    }
    if (which === "only") return reply;
    if (waiting !== undefined) await dropBlocks(tx, contents, container, name);
    if (found !== undefined) {
      await contents.release(tx, found.content);
      blobs.delete(tx, container, name);
    }
    return reply;
  },
});

function priorityOf(request: Request): RehydratePriority {
  const text = request.header("x-ms-rehydrate-priority") ?? "Standard";
  const priority = (["High", "Standard"] as const).find(
    (name) => name.toLowerCase() === text.toLowerCase(),
  );
  if (priority === undefined) throw invalidHeader("x-ms-rehydrate-priority", text);
  return priority;
}

export const setBlobTier = writeOperation({
  name: "Set Blob Tier",
  match: { method: "PUT", on: "blob", comp: "tier" },
  allow: { sas: "w", resource: "o" },
  snapshots: true,
  guard: { on: theBlob, conditions: "none", lease: "free" },
  input(request) {
    const tier = tierOf(request);
    if (tier === undefined) throw missingHeader("x-ms-access-tier");
    return { tier, priority: priorityOf(request) };
  },
  async apply({ tx, place, found, input: { tier, priority }, around: { settings } }) {
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
