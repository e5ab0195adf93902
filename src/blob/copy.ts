import type { Instant } from "../base/time.ts";
import { IMMUTABILITY_HEADERS, SOURCE_CONDITION_HEADERS } from "../http/heeded.ts";
import { createOperation, type Received, writeOperation } from "../http/operation.ts";
import { noBody } from "../http/receive.ts";
import { StorageError } from "../rules/errors.ts";
import { available, leaseAt } from "../rules/lease.ts";
import { fetchSource, sizeOf, sourceAskOf } from "../service/from-url.ts";
import { changedNow } from "../service/resource.ts";
import { copies } from "../store/keys.ts";
import type { BlobRecord } from "../store/records.ts";
import { type CopyInput, copyInput } from "./copied-blob.ts";
import { ownSource, refuseTagCondition, sourceTags } from "./copy-source.ts";
import { copiedHere } from "./local-copy.ts";
import { begunCopy, fetchedCopy } from "./remote-copy.ts";
import { putBlobRecord, theBlob } from "./resource.ts";

const SYNC_SIZE_MAX = 256 * 1024 * 1024;

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
    const { input, request, around } = call;
    const own = around.sources.local(input.url, request);
    if (own?.service === "blob") return copiedHere(call, own, { sizeMax: SYNC_SIZE_MAX });
    return fetchedCopy(call);
  },
});

/** A copy may take long, so whoever holds its destination must hold it without end ("Lease Blob", remarks). */
function refuseFiniteLease(found: BlobRecord | undefined, now: Instant): void {
  const lease = found === undefined ? available : leaseAt(found.lease, now);
  if (lease.state === "leased" && lease.seconds !== -1) {
    throw new StorageError("InfiniteLeaseDurationRequired");
  }
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
