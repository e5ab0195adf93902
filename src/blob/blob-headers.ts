import { httpDate, type Instant } from "../base/time.ts";
import type { HeaderValue, Request } from "../http/operation.ts";
import { leaseAt, leaseProperties } from "../rules/lease.ts";
import { INFERRED_TIER, tierAt } from "../rules/tiers.ts";
import { changedHeaders, metadataHeaders } from "../service/resource.ts";
import type { BlobRecord, HttpHeaders } from "../store/records.ts";

const DEFAULT_TYPE = "application/octet-stream";

/** The six HTTP properties of a request, each from its `x-ms-blob-` header, else from the standard one. */
export function httpHeadersOf(request: Request, standardToo: boolean): HttpHeaders {
  const value = (name: string) =>
    request.header(`x-ms-blob-${name}`) ?? (standardToo ? request.header(name) : undefined);
  const given: Record<string, string | undefined> = {
    contentType: value("content-type") ?? (standardToo ? DEFAULT_TYPE : undefined),
    contentEncoding: value("content-encoding"),
    contentLanguage: value("content-language"),
    contentDisposition: value("content-disposition"),
    cacheControl: value("cache-control"),
    contentMd5: request.header("x-ms-blob-content-md5"),
  };
  return Object.fromEntries(Object.entries(given).filter(([, text]) => text));
}

/** The headers that Get Blob and Get Blob Properties share, but for length and sums. */
export function blobHeaders(
  blob: BlobRecord,
  now: Instant,
  onSnapshot: boolean,
): Record<string, HeaderValue> {
  const { headers } = blob;
  const lease = leaseProperties(leaseAt(blob.lease, now));
  const tagCount = blob.tags === undefined ? 0 : Object.keys(blob.tags).length;
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
    "x-ms-creation-time": httpDate(blob.createdAt),
    "x-ms-lease-status": onSnapshot ? undefined : lease.status,
    "x-ms-lease-state": onSnapshot ? undefined : lease.state,
    "x-ms-lease-duration": onSnapshot ? undefined : lease.duration,
    "x-ms-server-encrypted": true,
    "x-ms-encryption-scope": blob.encryptionScope,
    "x-ms-tag-count": tagCount > 0 ? tagCount : undefined,
  };
}

/** What only Get Blob Properties tells: the tier and its history. */
export function tierHeaders(blob: BlobRecord, now: Instant): Record<string, HeaderValue> {
  const { tier, rehydration } = tierAt(blob, now);
  return {
    "x-ms-access-tier": tier ?? INFERRED_TIER,
    "x-ms-access-tier-inferred": tier === undefined ? true : undefined,
    "x-ms-access-tier-change-time":
      blob.tierChangedAt === undefined ? undefined : httpDate(blob.tierChangedAt),
    "x-ms-archive-status":
      rehydration === undefined
        ? undefined
        : `rehydrate-pending-to-${rehydration.to.toLowerCase()}`,
    "x-ms-rehydrate-priority": rehydration?.priority,
  };
}
