import type { Instant } from "../base/time.ts";
import { available, type Lease } from "../rules/lease.ts";
import { type Metadata, noMetadata } from "../rules/metadata.ts";
import type { NodeKind, ShareTier } from "../rules/smb-properties.ts";
import { type AccessPolicy, type Changed, type HttpHeaders, json } from "./records.ts";
import type { Sparse } from "./sparse-records.ts";
import type { Codec } from "./subspace.ts";

/** What a share and a snapshot of it both tell. */
type ShareProperties = Changed & {
  readonly metadata: Metadata;
  readonly lease: Lease;
  /** In GiB. */
  readonly quota: number;
  readonly tier: ShareTier;
  readonly tierChangedAt?: Instant;
};

export type ShareRecord = ShareProperties & {
  /** All its keys begin with this number, so that a share of a deleted one's name begins empty. */
  readonly id: string;
  readonly policies: readonly AccessPolicy[];
  /** The newest snapshot there is: what has not changed since then is kept for it when it changes. */
  readonly lastSnapshot?: string;
  readonly snapshotCount: number;
};

export type ShareSnapshotRecord = ShareProperties;

/** A share that can still be restored until it expires. */
export type DeletedShareRecord = {
  readonly share: ShareRecord;
  readonly deletedAt: Instant;
  readonly expiresAt: Instant;
};

/** Since when this has been so: a tick, as all ticks in these records in hexadecimal. */
type Since = { readonly since: string };

/** A name in a directory; `name` is as it was given, the key has it folded. */
export type EntryRecord = Since & {
  readonly name: string;
  readonly id: string;
  readonly kind: NodeKind;
};

/** How a copy into a file went, or goes. */
export type CopyState = {
  readonly id: string;
  readonly source: string;
  readonly status: "pending" | "success" | "aborted" | "failed";
  readonly done: number;
  readonly total: number;
  readonly endedAt?: Instant;
  readonly description?: string;
};

/** A copy into a file that goes on in the background; its URL may hold a signature, and goes with the record. */
export type FileCopyRecord = {
  readonly id: string;
  readonly url: string;
  readonly endpoint: string;
  readonly account: string;
  readonly shareName: string;
  readonly etag?: string;
  readonly startedAt: Instant;
};

type NodeProperties = Changed &
  Since & {
    readonly id: string;
    /** The directory it is in, and its name there; the root is its own parent. */
    readonly parent: string;
    readonly name: string;
    readonly attributes: number;
    readonly createdAt: string;
    readonly writtenAt: string;
    readonly changedAt: string;
    /** Where an SMB client has set it; otherwise the time of the last write stands for it. */
    readonly accessedAt?: string;
    readonly permission: string;
    readonly metadata: Metadata;
    readonly lease: Lease;
  };

export type DirectoryRecord = NodeProperties & { readonly kind: "directory" };

export type FileRecord = NodeProperties & {
  readonly kind: "file";
  readonly size: number;
  readonly content: Sparse;
  readonly headers: HttpHeaders;
  /** The tick of the creation or overwriting that its content goes back to. */
  readonly generation: string;
  readonly copy?: CopyState;
};

/** A file or directory by its number, which stays the same wherever it is moved. */
export type NodeRecord = FileRecord | DirectoryRecord;

/** What `lease` and `metadata` are for most nodes is not stored. */
type Stored<T extends NodeRecord> = Omit<T, "lease" | "metadata"> &
  Partial<Pick<T, "lease" | "metadata">>;

const storedNode = json<Stored<FileRecord> | Stored<DirectoryRecord>>();

export const nodeRecord: Codec<NodeRecord> = {
  encode({ lease, metadata, ...rest }) {
    const hasMetadata = Object.keys(metadata).length > 0;
    return storedNode.encode({
      ...rest,
      ...(lease.state === "available" ? {} : { lease }),
      ...(hasMetadata ? { metadata } : {}),
    } as Stored<FileRecord>);
  },
  decode(bytes) {
    const { lease = available, metadata = noMetadata, ...rest } = storedNode.decode(bytes);
    return { ...rest, lease, metadata } as NodeRecord;
  },
};

export const shareRecord = json<ShareRecord>();
export const shareSnapshotRecord = json<ShareSnapshotRecord>();
export const deletedShareRecord = json<DeletedShareRecord>();
export const entryRecord = json<EntryRecord>();
export const permissionRecord = json<string>();
export const fileCopyRecord = json<FileCopyRecord>();
