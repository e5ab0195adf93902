import type { LocalSource, Reply } from "../http/operation.ts";
import { failedCondition } from "../rules/conditions.ts";
import { StorageError } from "../rules/errors.ts";
import { meetsTags } from "../rules/tag-expressions.ts";
import { type Rehydration, tierAt } from "../rules/tiers.ts";
import { changedHeaders } from "../service/resource.ts";
import type { BlobRecord } from "../store/records.ts";
import {
  type CopyCall,
  type CopyInput,
  copyReply,
  copyState,
  finished,
  isSealed,
  sumHeaders,
  writtenCopy,
} from "./copied-blob.ts";
import { foundSource } from "./copy-source.ts";
import { refuseIncremental } from "./history.ts";
import { isCurrent } from "./resource.ts";

/** A copy whose source is here: one transaction judges both ends and shares the bytes. */
export async function copiedHere(
  call: CopyCall,
  own: LocalSource,
  { sizeMax }: { sizeMax?: number } = {},
): Promise<Reply> {
  const { tx, place, found, input, received, around } = call;
  const from = await foundSource(tx, own, around);
  const source = from?.found;
  if (from === undefined || source === undefined) {
    const Reason = "The source does not exist.";
    throw new StorageError("CannotVerifyCopySource", { Reason }, 404);
  }
  refuseSource(source, input);
  if (isCurrent(from.place)) refuseIncremental(source);
  const summed = received.source?.header("etag");
  if (summed !== undefined && summed !== changedHeaders(source).ETag) {
    const Reason = "The source changed while it was read.";
    throw new StorageError("CannotVerifyCopySource", { Reason }, 409);
  }
  const isArchived = tierAt(source, tx.now).tier === "Archive";
  if (isArchived && from.place.account !== place.account) throw new StorageError("BlobArchived");
  if (sizeMax !== undefined) {
    if (source.type !== "BlockBlob") throw new StorageError("InvalidSourceBlobType");
    if (isArchived) throw new StorageError("BlobArchived"); // such a copy is done at once
    if (source.size > sizeMax) {
      const Reason = "The source is too large.";
      throw new StorageError("CannotVerifyCopySource", { Reason }, 409);
    }
  }
  if (source.customerKey !== undefined) {
    throw new StorageError("BlobUsesCustomerSpecifiedEncryption");
  }
  if (source.copy?.status === "pending") throw new StorageError("PendingCopyOperation");
  if (found !== undefined && found.type !== source.type) throw new StorageError("InvalidBlobType");
  const { sealed: _sealed, ...had } = carried(source);
  const record = await writtenCopy(call, {
    ...had,
    content: await around.contents.copied(tx, source.content),
    ...(isSealed(source.type, source.sealed === true, input) ? { sealed: true as const } : {}),
    ...(input.copiesTags && source.tags !== undefined ? { tags: source.tags } : {}),
    ...rehydrated(source, call),
    copy: finished(copyState(call, source.size), tx.now),
  });
  return copyReply(record, sumHeaders(received));
}

/** What a copy has from its source: all but what is the place's own, or is said anew. */
export function carried(source: BlobRecord) {
  const {
    etag: _etag,
    modifiedAt: _modifiedAt,
    createdAt: _createdAt,
    lease: _lease,
    tags: _tags,
    tier: _tier,
    tierChangedAt: _tierChangedAt,
    rehydration: _rehydration,
    encryptionScope: _encryptionScope,
    version: _version,
    expiresAt: _expiresAt,
    immutability: _immutability,
    legalHold: _legalHold,
    copy: _copy,
    ...rest
  } = source;
  return rest;
}

/** The conditions on a source fail with 412, whichever they are ("Specifying conditional headers"). */
function refuseSource(source: BlobRecord, { conditions, ifTags }: CopyInput): void {
  const isMet = failedCondition(conditions, source, "snapshot") === undefined;
  if (!isMet || (ifTags !== undefined && !meetsTags(ifTags, source.tags))) {
    throw new StorageError("SourceConditionNotMet");
  }
}

/** An archived blob can be copied only into a tier that is named, and takes its time to get there. */
function rehydrated(source: BlobRecord, { tx, input, around }: CopyCall) {
  if (tierAt(source, tx.now).tier !== "Archive") return {};
  if (input.tier === undefined) throw new StorageError("BlobArchived");
  if (input.tier === "Archive") return {};
  const rehydration: Rehydration = {
    to: input.tier,
    priority: input.priority,
    endsAt: tx.now + around.settings.rehydrateMs,
  };
  return { rehydration };
}
