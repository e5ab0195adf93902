import type { Instant } from "../base/time.ts";
import type { WriteTx } from "../engine/engine.ts";
import { parseConditions, tagCondition } from "../http/conditions.ts";
import type { Call, HeaderValue, Received, Reply, Request } from "../http/operation.ts";
import { sourceUrlOf, withoutSignature } from "../http/source.ts";
import { invalidHeader, StorageError } from "../rules/errors.ts";
import { noMetadata } from "../rules/metadata.ts";
import { uncommitted } from "../store/keys.ts";
import type { BlobRecord, CopyState } from "../store/records.ts";
import { dropBlocks } from "../store/sweep.ts";
import { stateHeaders } from "./blob-headers.ts";
import { newBlobOf, overwrite, priorityOf, refuseArchived } from "./block-blob.ts";
import { copiesTags } from "./copy-source.ts";
import { type BlobPlace, putBlobRecord } from "./resource.ts";

/** The headers of Copy Blob and Copy Blob From URL, beside those of every new blob. */
export function copyInput(request: Request) {
  flagOf(request, "x-ms-requires-sync"); // it has chosen the row; what is no flag has not been understood
  return {
    ...newBlobOf(request),
    url: sourceUrlOf(request),
    conditions: parseConditions(request.header, "x-ms-source-"),
    ifTags: tagCondition(request.header, "x-ms-source-if-tags"),
    priority: priorityOf(request),
    seal: flagOf(request, "x-ms-seal-blob"),
    copiesTags: copiesTags(request),
  };
}

export type CopyInput = ReturnType<typeof copyInput>;
export type CopyCall = Call<WriteTx, CopyInput, BlobPlace, BlobRecord | undefined>;

/** What a header says that is true or false; undefined if it is not there. */
function flagOf(request: Request, name: string): boolean | undefined {
  const text = request.header(name)?.toLowerCase();
  if (text === undefined) return undefined;
  if (text !== "true" && text !== "false") throw invalidHeader(name, text);
  return text === "true";
}

type Copied = Pick<BlobRecord, "headers" | "metadata" | "type" | "size" | "content"> &
  Partial<BlobRecord> & { readonly copy: CopyState };

/** Stores the copy over what was there; what the request says of it counts before what the source had. */
export async function writtenCopy(call: CopyCall, copied: Copied): Promise<BlobRecord> {
  const { tx, place, found, input, around } = call;
  const { container, name } = place;
  refuseArchived(found, tx.now, input.tier);
  if ((await uncommitted.get(tx, container, name)) !== undefined) {
    await dropBlocks(tx, around.contents, container, name);
  }
  const { metadata, tags, tier, encryptionScope, held } = input;
  if (tier !== undefined && copied.type !== "BlockBlob") {
    throw new StorageError("AccessTierNotSupportedForBlobType");
  }
  const { rehydration, ...rest } = copied;
  const record = await overwrite(call, found, {
    ...rest,
    metadata: metadata === noMetadata ? copied.metadata : metadata,
    tags: tags ?? copied.tags,
    tier: rehydration === undefined ? tier : "Archive",
    encryptionScope,
    held,
  });
  if (rehydration === undefined) return record;
  const rehydrating = { ...record, rehydration };
  putBlobRecord(tx, place, rehydrating);
  return rehydrating;
}

/** Whether a copy is sealed: as its source is, unless the request says otherwise; other types never are. */
export const isSealed = (
  type: BlobRecord["type"],
  wasSealed: boolean,
  { seal }: CopyInput,
): boolean => type === "AppendBlob" && (seal ?? wasSealed);

export const copyState = ({ around, input }: CopyCall, total: number): CopyState => ({
  id: around.ids.guid(),
  source: withoutSignature(input.url),
  status: "pending",
  done: 0,
  total,
});

export const finished = (copy: CopyState, now: Instant): CopyState => ({
  ...copy,
  status: "success",
  done: copy.total,
  completedAt: now,
});

export const copyReply = (record: BlobRecord, more: Record<string, HeaderValue> = {}): Reply => ({
  status: 202,
  headers: {
    ...stateHeaders(record),
    ...more,
    "x-ms-encryption-scope": record.encryptionScope,
    "x-ms-copy-id": record.copy?.id,
    "x-ms-copy-status": record.copy?.status,
  },
});

export const sumHeaders = ({ md5, crc64 }: Received) => ({
  "Content-MD5": md5,
  "x-ms-content-crc64": crc64,
});
