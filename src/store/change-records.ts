import type { Tags } from "../rules/tags.ts";

/** One event of the change feed, until it is packed into a log; its tick is in its key. */
export type ChangeRecord = {
  readonly type: ChangeType;
  /** The operation that caused it, as Azure's events name it. */
  readonly api: string;
  readonly id: string;
  readonly container: string;
  readonly blob: string;
  readonly requestId: string;
  readonly clientRequestId?: string;
  readonly etag: string;
  readonly contentType: string;
  readonly contentLength: number;
  readonly blobType: string;
  readonly version?: string;
  readonly tier?: string;
  readonly snapshot?: string;
  readonly previous?: Readonly<Record<string, string>>;
  readonly properties?: Readonly<Record<string, Changed>>;
  readonly asyncOperation?: Readonly<Record<string, string>>;
  readonly tags?: { readonly previous: Tags; readonly current: Tags };
};

export type Changed = { readonly current: string; readonly previous: string };

export type ChangeType =
  | "BlobCreated"
  | "BlobDeleted"
  | "BlobPropertiesUpdated"
  | "BlobSnapshotCreated"
  | "BlobTierChanged"
  | "BlobAsyncOperationInitiated";

/** How far the packing of an account's events has come: the hour, and its last chunk. */
export type FeedRecord = { readonly hour: number; readonly chunk: number };
