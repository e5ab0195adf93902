import type { ReadTx, WriteTx } from "../engine/engine.ts";
import {
  type Call,
  createOperation,
  type Received,
  type Reply,
  type Request,
  type Surroundings,
  writeOperation,
} from "../http/operation.ts";
import { noBody } from "../http/receive.ts";
import { isCovered, sourceUrlOf, withoutSignature } from "../http/source.ts";
import { invalidHeader, missingHeader, StorageError } from "../rules/errors.ts";
import { checkedMetadata, noMetadata } from "../rules/metadata.ts";
import { ARCHIVE } from "../rules/smb-properties.ts";
import { sizeOf, sourceAskOf } from "../service/from-url.ts";
import { changedHeaders, metadataOf } from "../service/resource.ts";
import type { CopyState, FileRecord } from "../store/file-records.ts";
import { fileCopies } from "../store/keys.ts";
import { FILE_SIZE_MAX, leaseNow, refusePending, refuseReadOnly, replaceFile } from "./file.ts";
import { hexOf, tickOf } from "./namespace.ts";
import { keepPermission, newProperties, permissionIn, type SmbGiven, stamped } from "./node.ts";

import { HTTP_NAMES, smbGivenOf } from "./properties.ts";
import { changing, chosen, enter, isTrue, type NodePlace, theFile } from "./resource.ts";
import { copySourceOf, type Source } from "./source.ts";
import { findShare, isFile, prepare, type Share, save, viewOf, walk } from "./tree.ts";

/** The properties of the source that the copy takes over. */
type FromSource = {
  readonly attributes: boolean;
  readonly createdAt: boolean;
  readonly writtenAt: boolean;
  readonly changedAt: boolean;
  readonly permission: boolean;
};

const isSource = (request: Request, name: string): boolean =>
  request.header(name)?.toLowerCase() === "source";

const TAKEN = {
  attributes: "x-ms-file-attributes",
  createdAt: "x-ms-file-creation-time",
  writtenAt: "x-ms-file-last-write-time",
  changedAt: "x-ms-file-change-time",
} as const;

/** What is taken from the source, and what the request gives itself. */
function propertiesInput(request: Request): { taken: FromSource; given: SmbGiven } {
  const mode = chosen(request, "x-ms-file-permission-copy-mode", ["source", "override"]);
  const isGiven = ["x-ms-file-permission", "x-ms-file-permission-key"].some(
    (name) => request.header(name) !== undefined,
  );
  if (mode === "override" && !isGiven) throw missingHeader("x-ms-file-permission");
  if (mode === "source" && isGiven) {
    throw invalidHeader("x-ms-file-permission-copy-mode", "source");
  }
  const isTaken = (name: string) => isSource(request, name);
  const own: Request = {
    ...request,
    header: (name) => (isTaken(name) ? undefined : request.header(name)),
  };
  const taken = {
    attributes: isTaken(TAKEN.attributes),
    createdAt: isTaken(TAKEN.createdAt),
    writtenAt: isTaken(TAKEN.writtenAt),
    changedAt: isTaken(TAKEN.changedAt),
    permission: mode === "source",
  };
  return { taken, given: smbGivenOf(own, "file", "copy") };
}

/** Finds a file of this server that is to be copied, and sees that it may be read beside what is open. */
async function sourceFile(
  tx: ReadTx,
  source: Source,
  opens: Surroundings["opens"],
): Promise<{ readonly share: Share; readonly file: FileRecord }> {
  const share = await findShare(tx, source.account, source.share, source.snapshot);
  if (share === undefined) throw new StorageError("ShareNotFound");
  const { node } = await walk(tx, viewOf(share), source.path);
  if (node === undefined || !isFile(node)) throw new StorageError("ResourceNotFound");
  if (source.snapshot === undefined) enter(opens, share, node, "read");
  refusePending(node);
  return { share, file: node };
}

/** A source that is a file of this server and that the caller may read; undefined if it is elsewhere. */
async function ownSource(
  request: Request,
  url: URL,
  { sources }: Surroundings,
): Promise<Source | undefined> {
  const own = sources.local(url, request);
  if (own?.service !== "file") return undefined;
  if (!isCovered(own, request)) {
    const ask = sourceAskOf(request, "HEAD", false);
    (await sources.open(ask, request)).close(); // refuses what the caller may not read
  }
  return copySourceOf(request, own);
}

/** Headers of copies between NFS shares. */
const FOREIGN = ["x-ms-file-mode-copy-mode", "x-ms-file-owner-copy-mode"];

function copyInput(request: Request) {
  for (const name of FOREIGN) {
    if (request.header(name) === undefined) continue;
    throw new StorageError("UnsupportedHeader", { HeaderName: name });
  }
  return {
    url: sourceUrlOf(request),
    metadata: metadataOf(request),
    ignoresReadOnly: isTrue(request, "x-ms-file-copy-ignore-readonly"),
    setsArchive: isTrue(request, "x-ms-file-copy-set-archive"),
    ...propertiesInput(request),
  };
}

type CopyInput = ReturnType<typeof copyInput>;
type CopyCall = Call<WriteTx, CopyInput, NodePlace, FileRecord | undefined>;

/** What the copy takes over of its source: bytes that are shared, or none yet. */
type Taken = Pick<FileRecord, "size" | "content" | "headers" | "metadata"> &
  Partial<Pick<FileRecord, keyof FromSource>>;

/**
 * Within this server a copy shares the bytes of its source and is done at once; from elsewhere, blobs among it, it
 * goes on after the answer (http/source.ts says from where, file/copier.ts how).
 */
export const copyFile = createOperation({
  name: "Copy File",
  match: { method: "PUT", on: "file", header: { name: "x-ms-copy-source" } },
  allow: { sas: "cw", resource: "o", overwrite: "w" },
  guard: { on: theFile("replace"), conditions: "none", lease: "guarded" },
  input: copyInput,
  async prepare(request, input: CopyInput, around) {
    if ((await ownSource(request, input.url, around)) !== undefined) return noBody;
    const source = await around.sources.open(sourceAskOf(request, "HEAD", false), request);
    source.close();
    sizeOf(source);
    return { ...noBody, source };
  },
  async apply(call) {
    const { request, found, input, received, around } = call;
    if (found === undefined && request.leaseId !== undefined) {
      throw new StorageError("LeaseNotPresentWithFileOperation");
    }
    if (found !== undefined) {
      if (!input.ignoresReadOnly) refuseReadOnly(found);
      refusePending(found);
    }
    const own = around.sources.local(input.url, request);
    const { source } = received;
    if (source !== undefined) return begunCopy(call, source);
    if (own === undefined) throw new StorageError("CannotVerifyCopySource");
    return copiedHere(call, copySourceOf(request, own));
  },
});

async function copiedHere(call: CopyCall, source: Source): Promise<Reply> {
  const { tx, place, input, around } = call;
  const from = await sourceFile(tx, source, around.opens);
  const { file } = from;
  const { size, headers, metadata } = file;
  const content = await around.contents.sparse.fork(tx, file.content);
  const properties = await takenProperties(tx, input.taken, from, place.share.id);
  const state = { status: "success", done: size, total: size, endedAt: tx.now } as const;
  return written(call, { size, headers, metadata, content, ...properties }, state);
}

/** A copy from elsewhere: the file is there with its size, and is filled in the background. */
async function begunCopy(call: CopyCall, source: NonNullable<Received["source"]>): Promise<Reply> {
  const { tx, request, place, input, around } = call;
  const size = sizeOf(source);
  if (size > FILE_SIZE_MAX) {
    const Reason = "The source is too large.";
    throw new StorageError("CannotVerifyCopySource", { Reason }, 409);
  }
  const given = HTTP_NAMES.flatMap(([name, key]) => {
    const text = source.header(name);
    return text === undefined ? [] : [[key, text] as const];
  });
  const content = around.contents.sparse.create(tx);
  const headers = Object.fromEntries(given);
  const metadata = checkedMetadata(source.metadata);
  const state = { status: "pending", done: 0, total: size } as const;
  return written(call, { size, headers, metadata, content }, state, (record) => {
    const etag = source.header("etag");
    fileCopies.put(tx, [place.share.id, tickOf(record.id)], {
      id: record.copy?.id ?? "",
      url: input.url.href,
      endpoint: request.endpoint,
      account: request.account,
      shareName: place.share.name,
      ...(etag === undefined ? {} : { etag }),
      startedAt: tx.now,
    });
    tx.afterCommit(() => around.copies.wake());
  });
}

/** Puts the copy in its place. */
async function written(
  call: CopyCall,
  taken: Taken,
  state: Omit<CopyState, "id" | "source">,
  then?: (record: FileRecord) => void,
): Promise<Reply> {
  const { tx, place, input, around } = call;
  const { tick, ...changed } = stamped(tx);
  const at = { share: place.share.id, parent: place.parent, kind: "file" as const, tick };
  const properties = { ...(await newProperties(tx, input.given, at)), ...taken };
  if (input.setsArchive) properties.attributes |= ARCHIVE;
  const record = await replaceFile(call, {
    ...changed,
    ...properties,
    metadata: input.metadata === noMetadata ? taken.metadata : input.metadata,
    copy: { id: around.ids.guid(), source: withoutSignature(input.url), ...state },
  });
  then?.(record);
  const headers = {
    ...changedHeaders(record),
    "x-ms-copy-id": record.copy?.id,
    "x-ms-copy-status": record.copy?.status,
  };
  return { status: 202, headers };
}

async function takenProperties(
  tx: WriteTx,
  taken: FromSource,
  { share, file }: { readonly share: Share; readonly file: FileRecord },
  into: bigint,
): Promise<Partial<Pick<FileRecord, keyof FromSource>>> {
  const permission = taken.permission
    ? await keepPermission(tx, into, await permissionIn(tx, share.id, file.permission))
    : undefined;
  return {
    ...(taken.attributes ? { attributes: file.attributes } : {}),
    ...(taken.createdAt ? { createdAt: file.createdAt } : {}),
    ...(taken.writtenAt ? { writtenAt: file.writtenAt } : {}),
    ...(taken.changedAt ? { changedAt: file.changedAt } : {}),
    ...(permission === undefined ? {} : { permission }),
  };
}

export const abortCopyFile = writeOperation({
  name: "Abort Copy File",
  match: {
    method: "PUT",
    on: "file",
    comp: "copy",
    header: { name: "x-ms-copy-action", value: "abort" },
  },
  allow: { sas: "w", resource: "o" },
  guard: { on: theFile("write"), conditions: "none", lease: "guarded" },
  input({ query }) {
    const id = query.get("copyid");
    if (id === undefined || id === "") {
      throw new StorageError("MissingRequiredQueryParameter", { QueryParameterName: "copyid" });
    }
    return id;
  },
  async apply(call) {
    const { tx, place, found, input: id, around } = call;
    const { copy } = found;
    if (copy?.status !== "pending") throw new StorageError("NoPendingCopyOperation");
    if (copy.id !== id) throw new StorageError("CopyIdMismatch");
    const change = changing(call);
    const { tick, ...changed } = stamped(tx);
    const record: FileRecord = {
      ...(await prepare(change, found)),
      ...changed,
      changedAt: hexOf(tick),
      size: 0,
      copy: { ...copy, status: "aborted", endedAt: tx.now },
      lease: leaseNow(found, tx.now),
    };
    await change.sparse.cut(tx, record.content, 0);
    await save(change, found, record);
    fileCopies.delete(tx, place.share.id, tickOf(found.id));
    tx.afterCommit(() => around.copies.wake());
    return { status: 204, headers: {} };
  },
});
