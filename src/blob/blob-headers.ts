import { parseBase64 } from "../base/bytes.ts";
import { httpDate, type Instant, tickText } from "../base/time.ts";
import type { HeaderValue, Request } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import { leaseAt, leaseProperties } from "../rules/lease.ts";
import { INFERRED_TIER, tierAt } from "../rules/tiers.ts";
import { changedHeaders, metadataHeaders } from "../service/resource.ts";
import type { BlobRecord, CopyState, HttpHeaders } from "../store/records.ts";
import { type BlobPlace, isCurrent } from "./resource.ts";

const DEFAULT_TYPE = "application/octet-stream";
const MD5_SIZE = 16;

/** The six HTTP properties of a request, each from its `x-ms-blob-` header, else from the standard one. */
export function httpHeadersOf(request: Request, standardToo: boolean): HttpHeaders {
  const value = (name: string) =>
    request.header(`x-ms-blob-${name}`) ?? (standardToo ? request.header(name) : undefined);
  const contentMd5 = request.header("x-ms-blob-content-md5");
  if (contentMd5 && parseBase64(contentMd5)?.length !== MD5_SIZE) {
    throw new StorageError("InvalidMd5");
  }
  const given: Record<string, string | undefined> = {
    contentType: value("content-type") ?? (standardToo ? DEFAULT_TYPE : undefined),
    contentEncoding: value("content-encoding"),
    contentLanguage: value("content-language"),
    contentDisposition: value("content-disposition"),
    cacheControl: value("cache-control"),
    contentMd5,
  };
  return Object.fromEntries(Object.entries(given).filter(([, text]) => text));
}

/** The headers that Get Blob and Get Blob Properties share, but for length and sums. */
export function blobHeaders(
  blob: BlobRecord,
  now: Instant,
  place: BlobPlace,
): Record<string, HeaderValue> {
  const { headers } = blob;
  const isPast = !isCurrent(place);
  const lease = leaseProperties(leaseAt(blob.lease, now));
  const tagCount = blob.tags === undefined ? 0 : Object.keys(blob.tags).length;
  // A state from before versions were kept has become one, and is named by its place alone.
  const version = blob.version ?? place.version?.toString(16);
  return {
    ...changedHeaders(blob),
    ...metadataHeaders(blob.metadata),
    "Content-Type": headers.contentType ?? DEFAULT_TYPE,
    "Content-Encoding": headers.contentEncoding,
    "Content-Language": headers.contentLanguage,
    "Content-Disposition": headers.contentDisposition,
    "Cache-Control": headers.cacheControl,
    "Accept-Ranges": "bytes",
    "x-ms-blob-type": blob.type,
    "x-ms-blob-sequence-number": blob.sequenceNumber,
    "x-ms-creation-time": httpDate(blob.createdAt),
    "x-ms-lease-status": isPast ? undefined : lease.status,
    "x-ms-lease-state": isPast ? undefined : lease.state,
    "x-ms-lease-duration": isPast ? undefined : lease.duration,
    "x-ms-server-encrypted": true,
    "x-ms-encryption-key-sha256": blob.customerKey,
    "x-ms-encryption-scope": blob.encryptionScope,
    "x-ms-tag-count": tagCount > 0 ? tagCount : undefined,
    ...(version === undefined ? noHeaders : versionHeaders(version, place)),
    "x-ms-immutability-policy-until-date":
      blob.immutability === undefined ? undefined : httpDate(blob.immutability.until),
    "x-ms-immutability-policy-mode": blob.immutability?.mode.toLowerCase(),
    "x-ms-legal-hold": blob.legalHold,
    "x-ms-blob-committed-block-count": blob.blockCount,
    "x-ms-blob-sealed": blob.sealed,
    ...(blob.copy === undefined ? noHeaders : copyHeaders(blob.copy)),
  };
}

const noHeaders: Record<string, HeaderValue> = {};

const copyHeaders = (copy: CopyState): Record<string, HeaderValue> => ({
  "x-ms-copy-id": copy.id,
  "x-ms-copy-source": copy.source,
  "x-ms-copy-status": copy.status,
  "x-ms-copy-progress": `${copy.done}/${copy.total}`,
  "x-ms-copy-completion-time":
    copy.completedAt === undefined ? undefined : httpDate(copy.completedAt),
  "x-ms-copy-status-description": copy.description,
  "x-ms-incremental-copy": copy.incremental === undefined ? undefined : true,
  "x-ms-copy-destination-snapshot":
    copy.incremental === undefined ? undefined : versionId(copy.incremental.taken),
});

const versionHeaders = (version: string, place: BlobPlace): Record<string, HeaderValue> => ({
  "x-ms-version-id": versionId(version),
  "x-ms-is-current-version": isCurrent(place) ? true : undefined,
});

const versionId = (version: string): string => tickText(BigInt(`0x${version}`));

/** ETag, time of change and version of a state that a write made. */
export const stateHeaders = (blob: BlobRecord): Record<string, HeaderValue> => ({
  ...changedHeaders(blob),
  "x-ms-version-id": blob.version === undefined ? undefined : versionId(blob.version),
});

/** What only Get Blob Properties tells: the tier and its history. */
export function tierHeaders(blob: BlobRecord, now: Instant): Record<string, HeaderValue> {
  const { tier, rehydration } = tierAt(blob, now);
  const inferred = blob.type === "BlockBlob" ? INFERRED_TIER : undefined; // no other type has tiers
  return {
    "x-ms-access-tier": tier ?? inferred,
    "x-ms-access-tier-inferred": tier === undefined && inferred !== undefined ? true : undefined,
    "x-ms-access-tier-change-time":
      blob.tierChangedAt === undefined ? undefined : httpDate(blob.tierChangedAt),
    "x-ms-archive-status":
      rehydration === undefined
        ? undefined
        : `rehydrate-pending-to-${rehydration.to.toLowerCase()}`,
    "x-ms-rehydrate-priority": rehydration?.priority,
    "x-ms-expiry-time": blob.expiresAt === undefined ? undefined : httpDate(blob.expiresAt),
  };
}
