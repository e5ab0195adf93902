import type { RawRequest } from "./raw.ts";

/** How an operation is tried on a thing that is there: all of the request but its path. */
export type Attempt = Omit<RawRequest, "path"> & {
  /** What must be so before, beside that the thing is there. */
  readonly first?: "append blob" | "page blob" | "incremental copy" | "leased" | "blocks";
  /** The code of a refusal that comes only when neither condition nor lease is in the way. */
  readonly passes?: string;
};

export type Attempts = Readonly<Record<string, Attempt>>;

export const LEASE = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";
export const OTHER_LEASE = "11111111-2222-3333-4444-555555555555";
const PAGE = 512;

/** The five actions of a lease, or four where it has no end. */
function leaseActions(name: string, query: Record<string, string>, endless = false): Attempts {
  const own = { "x-ms-lease-id": LEASE };
  const headers: Record<string, Record<string, string>> = {
    acquire: { "x-ms-lease-duration": "-1" },
    ...(endless ? {} : { renew: own }),
    change: { ...own, "x-ms-proposed-lease-id": OTHER_LEASE },
    release: own,
    break: {},
  };
  return Object.fromEntries(
    Object.entries(headers).map(([action, given]) => [
      `${name}: ${action}`,
      {
        method: "PUT",
        query: { ...query, comp: "lease" },
        headers: { "x-ms-lease-action": action, ...given },
        ...(action === "acquire" ? {} : { first: "leased" as const }),
      },
    ]),
  );
}

const onContainer = (comp?: string) => ({
  restype: "container",
  ...(comp === undefined ? {} : { comp }),
});

export const containerAttempts: Attempts = {
  "Create Container": { method: "PUT", query: onContainer(), passes: "ContainerAlreadyExists" },
  "Get Container Properties": { method: "GET", query: onContainer() },
  "Get Container Metadata": { method: "GET", query: onContainer("metadata") },
  "Set Container Metadata": { method: "PUT", query: onContainer("metadata") },
  "Get Container ACL": { method: "GET", query: onContainer("acl") },
  "Set Container ACL": { method: "PUT", query: onContainer("acl") },
  "Delete Container": { method: "DELETE", query: onContainer() },
  "Restore Container": {
    method: "PUT",
    query: onContainer("undelete"),
    headers: { "x-ms-deleted-container-name": "none", "x-ms-deleted-container-version": "none" },
    passes: "InvalidHeaderValue",
  },
  "List Blobs": { method: "GET", query: onContainer("list") },
  "Find Blobs by Tags in Container": {
    method: "GET",
    query: { ...onContainer("blobs"), where: "a='b'" },
  },
  ...leaseActions("Lease Container", { restype: "container" }),
};

/** `source` is the URL of a block blob of one page, `snapshot` that of a page blob's newest snapshot. */
export function blobAttempts({ source, snapshot }: { source: string; snapshot: string }): Attempts {
  const page = Buffer.alloc(PAGE, "p");
  const pages = { "x-ms-range": `bytes=0-${PAGE - 1}` };
  const from = { "x-ms-copy-source": source };
  const block = { blockid: "AAAAAAAA" };
  const until = new Date(Date.now() + 86_400_000).toUTCString();
  return {
    "Put Blob (block blob)": {
      method: "PUT",
      headers: { "x-ms-blob-type": "BlockBlob" },
      body: "new",
    },
    "Put Blob (append blob)": {
      first: "append blob",
      method: "PUT",
      headers: { "x-ms-blob-type": "AppendBlob" },
    },
    "Put Blob (page blob)": {
      first: "page blob",
      method: "PUT",
      headers: { "x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": String(PAGE) },
    },
    "Put Blob From URL": { method: "PUT", headers: { "x-ms-blob-type": "BlockBlob", ...from } },
    "Append Block": {
      first: "append blob",
      method: "PUT",
      query: { comp: "appendblock" },
      body: "more",
    },
    "Append Block From URL": {
      first: "append blob",
      method: "PUT",
      query: { comp: "appendblock" },
      headers: from,
    },
    "Append Blob Seal": { first: "append blob", method: "PUT", query: { comp: "seal" } },
    "Copy Blob": { method: "PUT", headers: from },
    "Copy Blob From URL": { method: "PUT", headers: { ...from, "x-ms-requires-sync": "true" } },
    "Abort Copy Blob": {
      method: "PUT",
      query: { comp: "copy", copyid: LEASE },
      headers: { "x-ms-copy-action": "abort" },
      passes: "NoPendingCopyOperation",
    },
    "Incremental Copy Blob": {
      first: "incremental copy",
      method: "PUT",
      query: { comp: "incrementalcopy" },
      headers: { "x-ms-copy-source": snapshot },
    },
    "Put Block": { method: "PUT", query: { comp: "block", ...block }, body: "block" },
    "Put Block From URL": { method: "PUT", query: { comp: "block", ...block }, headers: from },
    "Put Block List": {
      first: "blocks",
      method: "PUT",
      query: { comp: "blocklist" },
      body: `<BlockList><Latest>${block.blockid}</Latest></BlockList>`,
    },
    "Get Block List": { method: "GET", query: { comp: "blocklist" } },
    "Put Page (update)": {
      first: "page blob",
      method: "PUT",
      query: { comp: "page" },
      headers: { ...pages, "x-ms-page-write": "update" },
      body: page,
    },
    "Put Page From URL": {
      first: "page blob",
      method: "PUT",
      query: { comp: "page" },
      headers: {
        ...pages,
        ...from,
        "x-ms-page-write": "update",
        "x-ms-source-range": pages["x-ms-range"],
      },
    },
    "Put Page (clear)": {
      first: "page blob",
      method: "PUT",
      query: { comp: "page" },
      headers: { ...pages, "x-ms-page-write": "clear" },
    },
    "Get Page Ranges": { first: "page blob", method: "GET", query: { comp: "pagelist" } },
    "Get Blob": { method: "GET" },
    "Query Blob Contents": {
      method: "POST",
      query: { comp: "query" },
      body: "<QueryRequest><QueryType>SQL</QueryType><Expression>select * from BlobStorage</Expression></QueryRequest>",
    },
    "Get Blob Properties": { method: "HEAD" },
    "Set Blob Properties": { method: "PUT", query: { comp: "properties" } },
    "Get Blob Metadata": { method: "GET", query: { comp: "metadata" } },
    "Set Blob Metadata": { method: "PUT", query: { comp: "metadata" } },
    "Get Blob Tags": { method: "GET", query: { comp: "tags" } },
    "Set Blob Tags": {
      method: "PUT",
      query: { comp: "tags" },
      body: "<Tags><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tags>",
    },
    "Set Blob Tier": {
      method: "PUT",
      query: { comp: "tier" },
      headers: { "x-ms-access-tier": "Cool" },
    },
    "Set Blob Expiry": {
      method: "PUT",
      query: { comp: "expiry" },
      headers: { "x-ms-expiry-option": "NeverExpire" },
    },
    "Set Blob Immutability Policy": {
      method: "PUT",
      query: { comp: "immutabilityPolicies" },
      headers: {
        "x-ms-immutability-policy-until-date": until,
        "x-ms-immutability-policy-mode": "Unlocked",
      },
    },
    "Delete Blob Immutability Policy": {
      method: "DELETE",
      query: { comp: "immutabilityPolicies" },
    },
    "Set Blob Legal Hold": {
      method: "PUT",
      query: { comp: "legalhold" },
      headers: { "x-ms-legal-hold": "true" },
    },
    "Snapshot Blob": { method: "PUT", query: { comp: "snapshot" } },
    "Delete Blob": { method: "DELETE" },
    "Undelete Blob": { method: "PUT", query: { comp: "undelete" } },
    ...leaseActions("Lease Blob", {}),
  };
}

const onShare = (comp?: string) => ({ restype: "share", ...(comp === undefined ? {} : { comp }) });

export const shareAttempts: Attempts = {
  "Get Share Properties": { method: "GET", query: onShare() },
  "Set Share Properties": { method: "PUT", query: onShare("properties") },
  "Get Share Metadata": { method: "GET", query: onShare("metadata") },
  "Set Share Metadata": { method: "PUT", query: onShare("metadata") },
  "Get Share ACL": { method: "GET", query: onShare("acl") },
  "Set Share ACL": { method: "PUT", query: onShare("acl") },
  "Get Share Stats": { method: "GET", query: onShare("stats") },
  "Delete Share": { method: "DELETE", query: onShare() },
};

/** `source` is the URL of a file of at least one byte. */
export const fileAttempts = (source: string): Attempts => ({
  "Create File": { method: "PUT", headers: { "x-ms-type": "file", "x-ms-content-length": "4" } },
  "Get File": { method: "GET" },
  "Get File Properties": { method: "HEAD" },
  "Set File Properties": { method: "PUT", query: { comp: "properties" } },
  "Get File Metadata": { method: "GET", query: { comp: "metadata" } },
  "Set File Metadata": { method: "PUT", query: { comp: "metadata" } },
  "Put Range": {
    method: "PUT",
    query: { comp: "range" },
    headers: { "x-ms-write": "update", "x-ms-range": "bytes=0-0" },
    body: "x",
  },
  "Put Range From URL": {
    method: "PUT",
    query: { comp: "range" },
    headers: {
      "x-ms-write": "update",
      "x-ms-range": "bytes=0-0",
      "x-ms-copy-source": source,
      "x-ms-source-range": "bytes=0-0",
    },
  },
  "List Ranges": { method: "GET", query: { comp: "rangelist" } },
  "Copy File": { method: "PUT", headers: { "x-ms-copy-source": source } },
  "Abort Copy File": {
    method: "PUT",
    query: { comp: "copy", copyid: LEASE },
    headers: { "x-ms-copy-action": "abort" },
    passes: "NoPendingCopyOperation",
  },
  "Delete File": { method: "DELETE" },
  "List Handles": { method: "GET", query: { comp: "listhandles" } },
  "Force Close Handles": {
    method: "PUT",
    query: { comp: "forceclosehandles" },
    headers: { "x-ms-handle-id": "1" },
  },
  ...leaseActions("Lease File", {}, true),
});
