import { httpDate, type Instant } from "../base/time.ts";
import type { WriteTx } from "../engine/engine.ts";
import {
  type Call,
  createOperation,
  type HeaderValue,
  type Request,
  readOperation,
  writeOperation,
} from "../http/operation.ts";
import { invalidHeader, missingHeader, StorageError } from "../rules/errors.ts";
import { available, leaseAfterWrite, leaseAt, leaseProperties } from "../rules/lease.ts";
import { parseRange, rangeOf } from "../rules/ranges.ts";
import { ARCHIVE, READ_ONLY } from "../rules/smb-properties.ts";
import { changedHeaders, metadataHeaders, metadataOf, parseInteger } from "../service/resource.ts";
import { withSum } from "../service/summed.ts";
import type { CopyState, FileRecord } from "../store/file-records.ts";
import { hexOf } from "./namespace.ts";
import { changedProperties, newProperties, type SmbGiven, stamped } from "./node.ts";
import { httpGivenOf, httpHeaders, isRestored, smbGivenOf, smbHeaders } from "./properties.ts";
import { changing, isTrue, type NodePlace, theFile } from "./resource.ts";
import { create, prepare, remove, save } from "./tree.ts";

export const FILE_SIZE_MAX = 4 * 1024 ** 4;
const BODY_MAX = 4 * 1024 * 1024;
const RANGE_SUM_MAX = 4 * 1024 * 1024;

const encrypted = { "x-ms-request-server-encrypted": true };

/** Refuses to change a file that is marked read-only. */
export function refuseReadOnly({ attributes }: FileRecord): void {
  if ((attributes & READ_ONLY) !== 0) throw new StorageError("ReadOnlyAttribute");
}

/** Refuses to change a file that a copy is being written into. */
export function refusePending({ copy }: FileRecord): void {
  if (copy?.status === "pending") throw new StorageError("PendingCopyOperation");
}

function sizeOf(request: Request): number | undefined {
  const text = request.header("x-ms-content-length");
  if (text === undefined) return undefined;
  const size = parseInteger(text);
  if (size === undefined || size < 0 || size > FILE_SIZE_MAX) {
    throw invalidHeader("x-ms-content-length", text);
  }
  return size;
}

/** The file's lease after a write: one that was broken is forgotten. */
export const leaseNow = ({ lease }: FileRecord, now: Instant) =>
  leaseAfterWrite(leaseAt(lease, now));

/** A new file in the place of the call, or over the one that is there, whose number and lease it keeps. */
export async function replaceFile(
  call: Call<WriteTx, unknown, NodePlace, FileRecord | undefined>,
  made: Omit<FileRecord, "id" | "parent" | "name" | "since" | "lease" | "kind" | "generation">,
): Promise<FileRecord> {
  const { tx, place, found } = call;
  const change = changing(call);
  const at = hexOf(tx.tick());
  if (found === undefined) {
    const record: FileRecord = {
      ...made,
      kind: "file",
      id: at,
      parent: hexOf(place.parent),
      name: place.name,
      since: at,
      generation: at,
      lease: available,
    };
    await create(change, record);
    return record;
  }
  const { id, parent, name, since, content } = await prepare(change, found);
  await change.sparse.release(tx, content);
  const lease = leaseNow(found, tx.now);
  const record: FileRecord = {
    ...made,
    ...{ kind: "file", id, parent, name, since, lease, generation: at },
  };
  await save(change, found, record);
  return record;
}

/** A new file has the attribute Archive, whatever else is asked for; one that is restored has what it had. */
const dueForBackup = (given: SmbGiven): SmbGiven =>
  given.attributes === undefined ? given : { ...given, attributes: given.attributes | ARCHIVE };

export const createFile = createOperation({
  name: "Create File",
  match: { method: "PUT", on: "file", header: { name: "x-ms-type", value: "file" } },
  allow: { sas: "cw", resource: "o", overwrite: "w" },
  body: { kind: "bytes", sizeMax: () => BODY_MAX, md5: "always", md5Headers: ["content-md5"] },
  guard: { on: theFile("replace"), conditions: "none", lease: "guarded" },
  input(request) {
    const size = sizeOf(request);
    if (size === undefined) throw missingHeader("x-ms-content-length");
    const length = request.body.size ?? 0;
    // With a body the file begins with it; it cannot be shorter ("Create File", 2026-04-06).
    if (length > size) throw invalidHeader("x-ms-content-length", String(size));
    const restores = isRestored(request);
    const given = smbGivenOf(request, "file", restores ? "restore" : "create");
    return {
      size,
      metadata: metadataOf(request),
      headers: httpGivenOf(request) ?? {},
      given: restores ? given : dueForBackup(given),
    };
  },
  async apply(call) {
    const { tx, request, place, found, received, input, around } = call;
    if (found === undefined && request.leaseId !== undefined) {
      throw new StorageError("LeaseNotPresentWithFileOperation");
    }
    if (found !== undefined) {
      refuseReadOnly(found);
      refusePending(found);
    }
    const { sparse } = around.contents;
    const { tick, ...changed } = stamped(tx);
    const { size, metadata, headers } = input;
    const at = { share: place.share.id, parent: place.parent, kind: "file" as const, tick };
    const content = sparse.create(tx);
    const properties = await newProperties(tx, input.given, at);
    const made = { ...changed, ...properties, size, content, headers, metadata };
    const record = await replaceFile(call, made);
    const { staged, md5 } = received;
    if (staged.size > 0) await sparse.write(tx, content, 0, staged);
    const reply: Record<string, HeaderValue> = {
      ...changedHeaders(record),
      ...smbHeaders(record),
      ...encrypted,
      "Content-MD5": staged.size > 0 ? md5 : undefined,
    };
    return { status: 201, headers: reply };
  },
});

const copyHeaders = (copy: CopyState | undefined): Record<string, HeaderValue> =>
  copy === undefined
    ? {}
    : {
        "x-ms-copy-id": copy.id,
        "x-ms-copy-source": copy.source,
        "x-ms-copy-status": copy.status,
        "x-ms-copy-status-description": copy.description,
        "x-ms-copy-progress": `${copy.done}/${copy.total}`,
        "x-ms-copy-completion-time":
          copy.endedAt === undefined ? undefined : httpDate(copy.endedAt),
      };

/** What Get File and Get File Properties both tell. */
function fileHeaders(
  file: FileRecord,
  { share }: NodePlace,
  now: Instant,
): Record<string, HeaderValue> {
  const lease = leaseProperties(leaseAt(file.lease, now));
  const isNow = share.snapshot === undefined; // a lease is on the file, not on what a snapshot shows
  return {
    ...changedHeaders(file),
    ...metadataHeaders(file.metadata),
    ...httpHeaders(file),
    ...smbHeaders(file),
    ...copyHeaders(file.copy),
    "x-ms-type": "File",
    "x-ms-lease-status": isNow ? lease.status : undefined,
    "x-ms-lease-state": isNow ? lease.state : undefined,
    "x-ms-lease-duration": isNow ? lease.duration : undefined,
    "x-ms-server-encrypted": true,
  };
}

export const getFile = readOperation({
  name: "Get File",
  match: { method: "GET", on: "file" },
  allow: { sas: "r", resource: "o" },
  snapshots: true,
  structured: true,
  guard: { on: theFile("read"), conditions: "none", lease: "free" },
  input(request) {
    const asked = parseRange(request.header("x-ms-range") ?? request.header("range"));
    const wantsMd5 = isTrue(request, "x-ms-range-get-content-md5");
    if (wantsMd5 && asked === undefined) throw invalidHeader("x-ms-range-get-content-md5", "true");
    return { asked, wantsMd5 };
  },
  async apply({ tx, place, found, input: { asked, wantsMd5 }, around: { contents } }) {
    const { size, headers: stored } = found;
    let range: ReturnType<typeof rangeOf>;
    try {
      range = rangeOf(asked, size);
    } catch {
      throw new StorageError("InvalidRange", { "Content-Range": `bytes */${size}` });
    }
    if (wantsMd5 && range.count > RANGE_SUM_MAX) {
      throw invalidHeader("x-ms-range-get-content-md5", "true");
    }
    const body = await contents.open(tx, found.content, range);
    const isWhole = asked === undefined || size === 0; // no Content-Range can tell of no bytes
    const headers: Record<string, HeaderValue> = {
      ...fileHeaders(found, place, tx.now),
      "Accept-Ranges": "bytes",
      "Content-Length": range.count,
      "Content-Range": isWhole
        ? undefined
        : `bytes ${range.start}-${range.start + range.count - 1}/${size}`,
      "Content-MD5": isWhole ? stored.contentMd5 : undefined,
      "x-ms-content-md5": isWhole ? undefined : stored.contentMd5,
    };
    return { status: isWhole ? 200 : 206, headers, body };
  },
  finish: async (reply, { wantsMd5 }) => (wantsMd5 ? withSum(reply, "md5") : reply),
});

export const getFileProperties = readOperation({
  name: "Get File Properties",
  match: { method: "HEAD", on: "file" },
  allow: { sas: "r", resource: "o" },
  snapshots: true,
  guard: { on: theFile("look"), conditions: "none", lease: "free" },
  async apply({ tx, place, found }) {
    const headers: Record<string, HeaderValue> = {
      ...fileHeaders(found, place, tx.now),
      "Content-Length": found.size,
      "Content-MD5": found.headers.contentMd5,
    };
    return { status: 200, headers };
  },
});

export const getFileMetadata = readOperation({
  name: "Get File Metadata",
  match: { method: "GET", headToo: true, on: "file", comp: "metadata" },
  allow: { sas: "r", resource: "o" },
  snapshots: true,
  guard: { on: theFile("look"), conditions: "none", lease: "free" },
  async apply({ found }) {
    const headers = { ...changedHeaders(found), ...metadataHeaders(found.metadata) };
    return { status: 200, headers };
  },
});

export const setFileProperties = writeOperation({
  name: "Set File Properties",
  match: { method: "PUT", on: "file", comp: "properties" },
  allow: { sas: "w", resource: "o" },
  guard: { on: theFile("write"), conditions: "none", lease: "guarded" },
  input: (request) => ({
    size: sizeOf(request),
    headers: httpGivenOf(request),
    given: smbGivenOf(request, "file", "set"),
  }),
  async apply(call) {
    const { tx, place, found, input, around } = call;
    const { size = found.size, headers = found.headers, given } = input;
    // The mark itself can be taken off; nothing else is changed in the same breath unless it is.
    const isFreed = given.attributes !== undefined && (given.attributes & READ_ONLY) === 0;
    if (!isFreed) refuseReadOnly(found);
    refusePending(found);
    const change = changing(call);
    const { tick, ...changed } = stamped(tx);
    const isResized = size !== found.size;
    const times =
      isResized && given.writtenAt === undefined ? { ...given, writtenAt: "now" as const } : given;
    const record: FileRecord = {
      ...(await prepare(change, found)),
      ...changed,
      ...(await changedProperties(tx, times, found, { share: place.share.id, tick })),
      size,
      headers,
      lease: leaseNow(found, tx.now),
    };
    await save(change, found, record);
    if (size < found.size) await around.contents.sparse.cut(tx, record.content, size);
    const reply = { ...changedHeaders(record), ...smbHeaders(record), ...encrypted };
    return { status: 200, headers: reply };
  },
});

export const setFileMetadata = writeOperation({
  name: "Set File Metadata",
  match: { method: "PUT", on: "file", comp: "metadata" },
  allow: { sas: "w", resource: "o" },
  guard: { on: theFile("write"), conditions: "none", lease: "guarded" },
  input: metadataOf,
  async apply(call) {
    const { tx, found, input: metadata } = call;
    refuseReadOnly(found);
    refusePending(found);
    const change = changing(call);
    const { tick, ...changed } = stamped(tx);
    const record: FileRecord = {
      ...(await prepare(change, found)),
      ...changed,
      metadata,
      changedAt: hexOf(tick),
      lease: leaseNow(found, tx.now),
    };
    await save(change, found, record);
    return { status: 200, headers: { ...changedHeaders(record), ...encrypted } };
  },
});

export const deleteFile = writeOperation({
  name: "Delete File",
  match: { method: "DELETE", on: "file" },
  allow: { sas: "d", resource: "o" },
  guard: { on: theFile("delete"), conditions: "none", lease: "guarded" },
  async apply(call) {
    refuseReadOnly(call.found);
    refusePending(call.found);
    await remove(changing(call), call.found);
    return { status: 202, headers: {} };
  },
});
