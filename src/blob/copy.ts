import { parseBase64 } from "../base/bytes.ts";
import type { Instant } from "../base/time.ts";
import { childText, parseXml, XmlError } from "../base/xml.ts";
import type { ReadTx, WriteTx } from "../engine/engine.ts";
import { parseConditions, tagCondition } from "../http/conditions.ts";
import { IMMUTABILITY_HEADERS, SOURCE_CONDITION_HEADERS } from "../http/heeded.ts";
import {
  type Call,
  createOperation,
  type HeaderValue,
  type LocalSource,
  type Received,
  type Reply,
  type Request,
  type Surroundings,
  writeOperation,
} from "../http/operation.ts";
import { asOwner, parseAddress, parseRequest } from "../http/parse.ts";
import { noBody } from "../http/receive.ts";
import { isCovered, sourceUrlOf, withoutSignature } from "../http/source.ts";
import { failedCondition } from "../rules/conditions.ts";
import { invalidHeader, StorageError } from "../rules/errors.ts";
import { available, leaseAt } from "../rules/lease.ts";
import { checkedMetadata, type Metadata, noMetadata } from "../rules/metadata.ts";
import { PAGE_SIZE, sequenceNumber } from "../rules/pages.ts";
import { meetsTags } from "../rules/tag-expressions.ts";
import { checkedTags, type Tags } from "../rules/tags.ts";
import { type Rehydration, tierAt } from "../rules/tiers.ts";
import { fetchSource, sizeOf, sourceAskOf } from "../service/from-url.ts";
import { changedHeaders, changedNow } from "../service/resource.ts";
import { copies, uncommitted } from "../store/keys.ts";
import type { BlobRecord, CopyState, HttpHeaders, Piece } from "../store/records.ts";
import { dropBlocks } from "../store/sweep.ts";
import { stateHeaders } from "./blob-headers.ts";
import { newBlobOf, overwrite, priorityOf, refuseArchived } from "./block-blob.ts";
import { refuseIncremental } from "./history.ts";
import { blobPlace } from "./place.ts";
import { type BlobPlace, isCurrent, putBlobRecord, theBlob } from "./resource.ts";

const SYNC_SIZE_MAX = 256 * 1024 * 1024;
const MD5_SIZE = 16;

/** What a header says that is true or false; undefined if it is not there. */
function flagOf(request: Request, name: string): boolean | undefined {
  const text = request.header(name)?.toLowerCase();
  if (text === undefined) return undefined;
  if (text !== "true" && text !== "false") throw invalidHeader(name, text);
  return text === "true";
}

/** The headers of Copy Blob and Copy Blob From URL, beside those of every new blob. */
function copyInput(request: Request) {
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

type CopyInput = ReturnType<typeof copyInput>;

/** Whether the source's tags are to be copied; then none may be sent. */
export function copiesTags(request: Request): boolean {
  const name = "x-ms-copy-source-tag-option";
  const option = request.header(name);
  if (option === undefined || option.toUpperCase() === "REPLACE") return false;
  if (option.toUpperCase() !== "COPY") throw invalidHeader(name, option);
  if (request.header("x-ms-tags") !== undefined) {
    throw new StorageError("BothUserTagsAndSourceTagsCopyPresent");
  }
  return true;
}

const COPY_HEADERS = [
  "x-ms-source-if-tags",
  "x-ms-copy-source",
  ...SOURCE_CONDITION_HEADERS,
  ...IMMUTABILITY_HEADERS,
];

/**
 * Within this server a copy shares the bytes of its source and is done at once; from elsewhere it goes on after
 * the answer (http/source.ts says from where, blob/copier.ts how).
 */
export const copyBlob = createOperation({
  name: "Copy Blob",
  match: { method: "PUT", on: "blob", header: { name: "x-ms-copy-source" } },
  allow: { sas: "cw", resource: "o", overwrite: "w" },
  heeds: COPY_HEADERS,
  givesEtag: true,
  guard: { on: theBlob, conditions: "create", lease: "guarded" },
  input: copyInput,
  async prepare(request, input: CopyInput, around) {
    const own = await ownSource(request, input.url, around);
    if (own !== undefined) return noBody;
    refuseTagCondition(input);
    const copiedTags = await sourceTags(request, around);
    const source = await around.sources.open(sourceAskOf(request, "HEAD", false), request);
    source.close();
    sizeOf(source);
    return { ...noBody, source, ...(copiedTags === undefined ? {} : { copiedTags }) };
  },
  async apply(call) {
    const { tx, request, found, input, received, around } = call;
    refuseFiniteLease(found, tx.now);
    const own = around.sources.local(input.url, request);
    if (received.source === undefined && own !== undefined) return copiedHere(call, own);
    return begunCopy(call, received.source as NonNullable<Received["source"]>);
  },
});

export const copyBlobFromUrl = createOperation({
  name: "Copy Blob From URL",
  match: {
    method: "PUT",
    on: "blob",
    header: { name: "x-ms-copy-source" },
    also: { name: "x-ms-requires-sync", value: "true" },
  },
  allow: { sas: "cw", resource: "o", overwrite: "w" },
  heeds: [...COPY_HEADERS, "x-ms-source-content-md5"],
  givesEtag: true,
  guard: { on: theBlob, conditions: "create", lease: "guarded" },
  input: copyInput,
  async prepare(request, input: CopyInput, around) {
    const own = await ownSource(request, input.url, around);
    const isChecked = request.header("x-ms-source-content-md5") !== undefined;
    if (own !== undefined && !isChecked) return noBody;
    if (own === undefined) refuseTagCondition(input);
    const copiedTags = own === undefined ? await sourceTags(request, around) : undefined;
    const sizes = { sizeMax: SYNC_SIZE_MAX, withRange: false };
    const received = await fetchSource(request, around, sizes);
    if (own === undefined) {
      return { ...received, ...(copiedTags === undefined ? {} : { copiedTags }) };
    }
    // The copy shares the bytes of its source; those that were fetched have served for the sum.
    around.contents.discard(received.staged);
    return { ...received, staged: noBody.staged };
  },
  async apply(call) {
    const { tx, found, input, received, request, around } = call;
    const own = around.sources.local(input.url, request);
    if (own?.service === "blob") return copiedHere(call, own, { sizeMax: SYNC_SIZE_MAX });
    if (found !== undefined && found.type !== "BlockBlob")
      throw new StorageError("InvalidBlobType");
    const source = received.source as NonNullable<Received["source"]>;
    if ((source.header("x-ms-blob-type") ?? "BlockBlob") !== "BlockBlob") {
      throw new StorageError("InvalidSourceBlobType");
    }
    const size = received.staged.size;
    const record = await writtenCopy(call, {
      ...facts(source),
      ...(received.copiedTags === undefined ? {} : { tags: received.copiedTags }),
      type: "BlockBlob",
      size,
      content: around.contents.made(
        tx,
        around.contents.keep(tx, received.staged).map((chunk): Piece => ({ chunk })),
      ),
      copy: finished(copyState(call, size), tx.now),
    });
    return copyReply(record, sumHeaders(received));
  },
});

const sumHeaders = ({ md5, crc64 }: Received) => ({
  "Content-MD5": md5,
  "x-ms-content-crc64": crc64,
});

/** Not every server knows of tags, and one that does not would ignore a condition on them. */
export function refuseTagCondition({ ifTags }: Pick<CopyInput, "ifTags">): void {
  if (ifTags === undefined) return;
  throw new StorageError("UnsupportedHeader", { HeaderName: "x-ms-source-if-tags" });
}

/** A copy may take long, so whoever holds its destination must hold it without end (SEMANTICS b.3). */
function refuseFiniteLease(found: BlobRecord | undefined, now: Instant): void {
  const lease = found === undefined ? available : leaseAt(found.lease, now);
  if (lease.state === "leased" && lease.seconds !== -1) {
    throw new StorageError("InfiniteLeaseDurationRequired");
  }
}

type CopyCall = Call<WriteTx, CopyInput, BlobPlace, BlobRecord | undefined>;

/** A source that is a blob of this server and that the caller may read; undefined if it is elsewhere. */
export async function ownSource(
  request: Request,
  url: URL,
  around: Surroundings,
): Promise<LocalSource | undefined> {
  const own = around.sources.local(url, request);
  if (own?.service !== "blob") return undefined;
  if (!isCovered(own, request)) {
    const ask = sourceAskOf(request, "HEAD", false);
    (await around.sources.open(ask, request)).close(); // refuses what the caller may not read
    await sourceTags(request, around); // the tags have a right of their own
  }
  return own;
}

const place = { name: "blob", operations: [], place: blobPlace } as const;

/** What a source of ours is, in this transaction. */
export async function foundSource(tx: ReadTx, { message }: LocalSource, around: Surroundings) {
  const ids = { id: "", clientId: undefined };
  const address = parseAddress(message, false);
  const request = asOwner(parseRequest(message, place, address, ids, undefined));
  theBlob.check?.(request);
  try {
    return await theBlob.find(tx, request, around);
  } catch (error) {
    if (error instanceof StorageError) return undefined;
    throw error;
  }
}

/** A copy whose source is here: one transaction judges both ends and shares the bytes. */
async function copiedHere(
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

/** Whether a copy is sealed: as its source is, unless the request says otherwise; other types never are. */
const isSealed = (type: BlobRecord["type"], wasSealed: boolean, { seal }: CopyInput): boolean =>
  type === "AppendBlob" && (seal ?? wasSealed);

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

type Copied = Pick<BlobRecord, "headers" | "metadata" | "type" | "size" | "content"> &
  Partial<BlobRecord> & { readonly copy: CopyState };

/** Stores the copy over what was there; what the request says of it counts before what the source had. */
async function writtenCopy(call: CopyCall, copied: Copied): Promise<BlobRecord> {
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

const copyState = ({ around, input }: CopyCall, total: number): CopyState => ({
  id: around.ids.guid(),
  source: withoutSignature(input.url),
  status: "pending",
  done: 0,
  total,
});

const finished = (copy: CopyState, now: Instant): CopyState => ({
  ...copy,
  status: "success",
  done: copy.total,
  completedAt: now,
});

const copyReply = (record: BlobRecord, more: Record<string, HeaderValue> = {}): Reply => ({
  status: 202,
  headers: {
    ...stateHeaders(record),
    ...more,
    "x-ms-encryption-scope": record.encryptionScope,
    "x-ms-copy-id": record.copy?.id,
    "x-ms-copy-status": record.copy?.status,
  },
});

/** What a source elsewhere tells of itself; it may be any server, so it is checked as a request's headers are. */
export function facts({ header, metadata }: NonNullable<Received["source"]>) {
  const md5 = header("content-md5");
  const texts: Record<keyof HttpHeaders, string | undefined> = {
    contentType: header("content-type"),
    contentEncoding: header("content-encoding"),
    contentLanguage: header("content-language"),
    contentDisposition: header("content-disposition"),
    cacheControl: header("cache-control"),
    contentMd5: parseBase64(md5 ?? "")?.length === MD5_SIZE ? md5 : undefined,
  };
  const headers: HttpHeaders = Object.fromEntries(
    Object.entries(texts).filter(([, text]) => text !== undefined),
  );
  return { headers, metadata: metadataIn(metadata) };
}

function metadataIn(pairs: readonly (readonly [string, string])[]): Metadata {
  try {
    return checkedMetadata(pairs);
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    const Reason = "The source's metadata is not what a blob can have.";
    throw new StorageError("CannotVerifyCopySource", { Reason }, 409);
  }
}

/** A page blob has its whole length from the begin, as zeros. */
function emptyPages(
  { tx, around }: CopyCall,
  { header }: NonNullable<Received["source"]>,
  size: number,
): Pick<BlobRecord, "size" | "content" | "sequenceNumber"> {
  if (size % PAGE_SIZE !== 0) {
    const Reason = "The source is not made of whole pages.";
    throw new StorageError("CannotVerifyCopySource", { Reason }, 409);
  }
  const NUMBER = "x-ms-blob-sequence-number";
  const number = sequenceNumber(NUMBER, header(NUMBER) ?? "0").toString();
  return { size, content: around.contents.sparse.create(tx), sequenceNumber: number };
}

/** An append blob knows of how many blocks it was made. */
function emptyAppends(
  { tx, input, around }: CopyCall,
  { header }: NonNullable<Received["source"]>,
): Pick<BlobRecord, "content" | "blockCount" | "sealed"> {
  const wasSealed = header("x-ms-blob-sealed") === "true";
  const count = Number(header("x-ms-blob-committed-block-count") ?? 1);
  const blockCount = Number.isSafeInteger(count) && count > 0 ? count : 1;
  return {
    content: around.contents.sparse.create(tx),
    blockCount,
    ...(isSealed("AppendBlob", wasSealed, input) ? { sealed: true as const } : {}),
  };
}

/** Begins a copy from elsewhere: the blob is there, empty, until the copier has filled it. */
async function begunCopy(call: CopyCall, source: NonNullable<Received["source"]>): Promise<Reply> {
  const { tx, request, place, found, input, received, around } = call;
  const sent = source.header("x-ms-blob-type");
  const type = (["PageBlob", "AppendBlob"] as const).find((name) => name === sent) ?? "BlockBlob";
  if (found !== undefined && found.type !== type) throw new StorageError("InvalidBlobType");
  const copy = copyState(call, Number(source.header("content-length")));
  const record = await writtenCopy(call, {
    ...facts(source),
    type,
    size: 0,
    content: { pieces: [] },
    ...(type === "PageBlob" ? emptyPages(call, source, copy.total) : {}),
    ...(type === "AppendBlob" ? emptyAppends(call, source) : {}),
    ...(received.copiedTags === undefined ? {} : { tags: received.copiedTags }),
    copy,
  });
  const etag = source.header("etag");
  copies.put(tx, [place.container, place.name], {
    id: copy.id,
    url: input.url.href,
    endpoint: request.endpoint,
    account: request.account,
    containerName: place.containerName,
    ...(etag === undefined ? {} : { etag }),
    startedAt: tx.now,
  });
  tx.afterCommit(() => around.copies.wake());
  return copyReply(record);
}

export const abortCopyBlob = writeOperation({
  name: "Abort Copy Blob",
  match: {
    method: "PUT",
    on: "blob",
    comp: "copy",
    header: { name: "x-ms-copy-action", value: "abort" },
  },
  allow: { sas: "w", resource: "o" },
  guard: { on: theBlob, conditions: "none", lease: "guarded" },
  input({ query }) {
    const id = query.get("copyid");
    if (id !== undefined) return id;
    throw new StorageError("MissingRequiredQueryParameter", { QueryParameterName: "copyid" });
  },
  async apply({ tx, place, found, input: id, around }) {
    const { copy } = found;
    if (copy?.status !== "pending") throw new StorageError("NoPendingCopyOperation");
    if (copy.id !== id) throw new StorageError("CopyIdMismatch");
    await around.contents.release(tx, found.content);
    copies.delete(tx, place.container, place.name);
    tx.afterCommit(() => around.copies.wake());
    putBlobRecord(tx, place, {
      ...found,
      ...changedNow(tx),
      size: 0,
      content: found.type === "BlockBlob" ? { pieces: [] } : around.contents.sparse.create(tx),
      copy: { ...copy, status: "aborted", completedAt: tx.now },
    });
    return { status: 204, headers: {} };
  },
});

/** The tags of a source, where the request asks for them to be copied. */
export async function sourceTags(
  request: Request,
  around: Surroundings,
): Promise<Tags | undefined> {
  if (!copiesTags(request)) return undefined;
  const url = new URL(sourceUrlOf(request));
  url.searchParams.set("comp", "tags");
  // Conditions and keys are about the bytes, with which they are sent.
  const { authorization } = sourceAskOf(request, "GET", false).headers;
  const headers = authorization === undefined ? {} : { authorization };
  const source = await around.sources.open({ url, method: "GET", headers }, request);
  const parts: Uint8Array[] = [];
  try {
    let size = 0;
    for await (const part of source.stream()) {
      size += part.length;
      if (size > 64 * 1024) throw new StorageError("TagsTooLarge");
      parts.push(part);
    }
  } finally {
    source.close();
  }
  return tagsIn(Buffer.concat(parts));
}

/** The tags that a source told; one that is no blob tells something else. */
function tagsIn(bytes: Buffer): Tags {
  try {
    const [set] = parseXml(bytes).children;
    const pairs = (set?.children ?? []).map((tag): [string, string] => [
      childText(tag, "Key") ?? "",
      childText(tag, "Value") ?? "",
    ]);
    return checkedTags(pairs);
  } catch (error) {
    if (!(error instanceof XmlError || error instanceof StorageError)) throw error;
    const Reason = "The source does not tell its tags.";
    throw new StorageError("CannotVerifyCopySource", { Reason }, 409);
  }
}
