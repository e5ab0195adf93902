import type { Instant } from "../base/time.ts";
import type { Policy } from "../rules/immutability.ts";
import { available, type Lease } from "../rules/lease.ts";
import { type Metadata, noMetadata } from "../rules/metadata.ts";
import type { Tags } from "../rules/tags.ts";
import type { Rehydration, Tier } from "../rules/tiers.ts";
import type { Sparse, SparseGarbage } from "./sparse-records.ts";
import type { Codec } from "./subspace.ts";

/** What every record with an ETag has; both come from the tick of its last change. */
export type Changed = { readonly etag: string; readonly modifiedAt: Instant };

/** Settings of one service of an account; what is absent was never set. */
export type ServiceRecord = {
  readonly logging?: LoggingSetting;
  readonly hourMetrics?: MetricsSetting;
  readonly minuteMetrics?: MetricsSetting;
  readonly cors?: readonly CorsRule[];
  readonly defaultServiceVersion?: string;
  readonly deleteRetention?: RetentionSetting & { readonly allowPermanentDelete?: boolean };
  readonly staticWebsite?: {
    readonly enabled: boolean;
    readonly indexDocument?: string;
    readonly defaultIndexDocumentPath?: string;
    readonly errorDocument404Path?: string;
  };
  readonly shareDeleteRetention?: RetentionSetting;
  readonly protocolSettings?: ProtocolSettings;
};
/** How SMB is to be spoken; lists as they were given. */
export type ProtocolSettings = {
  readonly multichannel?: boolean;
  readonly encryptionRequired?: boolean;
  readonly nfsEncryptionRequired?: boolean;
  readonly versions?: string;
  readonly authenticationMethods?: string;
  readonly kerberosTicketEncryption?: string;
  readonly channelEncryption?: string;
};
export type RetentionSetting = { readonly enabled: boolean; readonly days?: number };
export type LoggingSetting = {
  readonly version: string;
  readonly delete: boolean;
  readonly read: boolean;
  readonly write: boolean;
  readonly retention: RetentionSetting;
};
export type MetricsSetting = {
  readonly version: string;
  readonly enabled: boolean;
  readonly includeApis?: boolean;
  readonly retention: RetentionSetting;
};
export type CorsRule = {
  readonly origins: string;
  readonly methods: string;
  readonly allowedHeaders: string;
  readonly exposedHeaders: string;
  readonly maxAgeSeconds: number;
};

export type AccessPolicy = {
  readonly id: string;
  readonly start?: string;
  readonly expiry?: string;
  readonly permission?: string;
};

export type ContainerRecord = Changed & {
  /** Its blobs' keys begin with this number, so that a container of a deleted one's name begins empty. */
  readonly id: string;
  readonly metadata: Metadata;
  readonly lease: Lease;
  readonly publicAccess?: "container" | "blob";
  readonly policies: readonly AccessPolicy[];
  readonly encryptionScope?: string;
  readonly denyScopeOverride?: boolean;
  /** That a state of one of its blobs was made immutable, some time. */
  readonly hasHeld?: true;
  /** Since when it is deleted, and until when it can be restored. */
  readonly deleted?: Deleted;
};

/** When a thing was deleted softly, and from when on it is gone for good. */
export type Deleted = { readonly at: Instant; readonly until: Instant };

/** Bytes that never change; `id` is the heap's number or the file's name. `sum` is a CRC-32 of a heap chunk. */
export type Chunk = {
  readonly at: "heap" | "file";
  readonly id: string;
  readonly size: number;
  readonly sum?: number;
  /** The first counter of a chunk that is encrypted with a customer's key, in base64. */
  readonly iv?: string;
};

/** A chunk in its place in a blob; `block` names the block that begins with it. */
export type Piece = { readonly chunk: Chunk; readonly block?: string };

/**
 * The bytes of a blob: in order, where few pieces stand in the record and many in a list of their own, or
 * written in place.
 */
export type Content = { readonly pieces: readonly Piece[] } | { readonly list: string } | Sparse;

export type HttpHeaders = {
  readonly contentType?: string;
  readonly contentEncoding?: string;
  readonly contentLanguage?: string;
  readonly contentDisposition?: string;
  readonly cacheControl?: string;
  readonly contentMd5?: string;
};

export type BlobType = "BlockBlob" | "PageBlob" | "AppendBlob";

export type BlobRecord = Changed & {
  readonly type: BlobType;
  readonly createdAt: Instant;
  readonly size: number;
  readonly content: Content;
  readonly headers: HttpHeaders;
  readonly metadata: Metadata;
  readonly lease: Lease;
  /** Of a page blob; in decimal digits, because it has 63 bits. */
  readonly sequenceNumber?: string;
  readonly tags?: Tags;
  readonly tier?: Tier;
  readonly tierChangedAt?: Instant;
  readonly rehydration?: Rehydration;
  readonly encryptionScope?: string;
  /** The tick that names this state, where the account keeps versions. */
  readonly version?: string;
  /** There only while the state can be restored; nobody else sees it. */
  readonly deleted?: Deleted;
  readonly expiresAt?: Instant;
  readonly immutability?: Policy;
  readonly legalHold?: true;
  readonly copy?: CopyState;
  /** Of an append blob: that nothing can be appended any more, and how many blocks were. */
  readonly sealed?: true;
  readonly blockCount?: number;
  /** The SHA-256 of the key that the content is encrypted with, if a customer gave one. */
  readonly customerKey?: string;
};

/** How a blob came from elsewhere, or is still coming. */
export type CopyState = {
  readonly id: string;
  readonly source: string;
  readonly status: "pending" | "success" | "aborted" | "failed";
  readonly done: number;
  readonly total: number;
  readonly completedAt?: Instant;
  readonly description?: string;
  /** Of an incremental copy: its blob, the snapshot it has got to, and the one it took then; ticks as hex. */
  readonly incremental?: { readonly blob: string; readonly from: string; readonly taken: string };
};

/** A copy that goes on in the background; its URL may hold a signature, and goes with the record. */
export type CopyRecord = {
  readonly id: string;
  readonly url: string;
  readonly endpoint: string;
  readonly account: string;
  readonly containerName: string;
  readonly etag?: string;
  readonly startedAt: Instant;
};

/** A block that no list has named yet. */
export type BlockRecord = {
  readonly size: number;
  readonly chunks: readonly Chunk[];
  readonly customerKey?: string;
};

/** That a blob has blocks which no list has named yet. */
export type UncommittedRecord = {
  readonly idSize: number;
  readonly count: number;
  readonly changedAt: Instant;
};

/** A chunk that is a file: how many records name it, and the CRC-32 of each block of it, in base64. */
export type ChunkFileRecord = {
  readonly size: number;
  readonly references: number;
  readonly sums: string;
};

/** What is left to be taken apart, or put together, in the background. */
export type GarbageRecord =
  | { readonly list: string }
  | { readonly container: string; readonly account?: string }
  | { readonly messages: string }
  | { readonly table: string }
  | ShareGarbage
  | SparseGarbage;

/** A share that is gone, or one whose old versions are to be thinned out because a snapshot of it is gone. */
export type ShareGarbage = { readonly share: string } | { readonly history: string };

/** What time alone removes: a softly deleted state, a deleted container, a blob that expires. */
export type PurgeRecord =
  | {
      readonly what: "blob" | "snapshot" | "version";
      readonly account: string;
      readonly container: string;
      readonly name: string;
      readonly at?: string;
    }
  | {
      readonly what: "container";
      readonly account: string;
      readonly name: string;
      readonly at: string;
    };

/** That a blob has a tag; the container's name is for the answer. */
export type TagRecord = { readonly container: string };

/** JSON behind a version byte; older versions' decoders go here when there are any. */
export function json<T>(): Codec<T> {
  return {
    encode: (value) => Buffer.from(`\x01${JSON.stringify(value)}`, "utf8"),
    decode(bytes) {
      if (bytes[0] !== 1) throw new Error(`a record has the unknown version ${bytes[0]}`);
      const text = Buffer.from(bytes.buffer, bytes.byteOffset + 1, bytes.byteLength - 1);
      return JSON.parse(text.toString("utf8")) as T;
    },
  };
}

/** The number of a container, alone: blobs are found by it without reading the container's record. */
export const containerIdRecord: Codec<bigint> = {
  encode(value) {
    const bytes = Buffer.allocUnsafe(9);
    bytes[0] = 1;
    bytes.writeBigUInt64BE(value, 1);
    return bytes;
  },
  decode: (bytes) =>
    Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).readBigUInt64BE(1),
};

export const serviceRecord = json<ServiceRecord>();
export const containerRecord = json<ContainerRecord>();
const wholeBlob = json<StoredBlob>();

/** A blob's record without what most blobs have alike, so that more of them fit on a page. */
type StoredBlob = Omit<BlobRecord, "type" | "lease" | "metadata"> &
  Partial<Pick<BlobRecord, "type" | "lease" | "metadata">>;

export const blobRecord: Codec<BlobRecord> = {
  encode({ type, lease, metadata, ...rest }) {
    const stored: { -readonly [K in keyof StoredBlob]: StoredBlob[K] } = rest;
    if (type !== "BlockBlob") stored.type = type;
    if (lease.state !== "available") stored.lease = lease;
    for (const _name in metadata) {
      stored.metadata = metadata;
      break;
    }
    return wholeBlob.encode(stored);
  },
  decode(bytes) {
    const {
      type = "BlockBlob",
      lease = available,
      metadata = noMetadata,
      ...rest
    } = wholeBlob.decode(bytes);
    return { ...rest, type, lease, metadata };
  },
};
export const blockRecord = json<BlockRecord>();
export const uncommittedRecord = json<UncommittedRecord>();
export const chunkFileRecord = json<ChunkFileRecord>();
export const piecesRecord = json<readonly Piece[]>();
export const garbageRecord = json<GarbageRecord>();
export const countRecord = json<number>();
export const purgeRecord = json<PurgeRecord>();
export const tagRecord = json<TagRecord>();
export const copyRecord = json<CopyRecord>();
