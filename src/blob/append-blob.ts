import type { WriteTx } from "../engine/engine.ts";
import {
  APPEND_CONDITION_HEADERS,
  CUSTOMER_KEY_HEADERS,
  IMMUTABILITY_HEADERS,
} from "../http/heeded.ts";
import {
  type Call,
  createOperation,
  type HeaderValue,
  type Reply,
  type Request,
  writeOperation,
} from "../http/operation.ts";
import { invalidHeader, StorageError } from "../rules/errors.ts";
import { bodySizeMax } from "../rules/versions.ts";
import { FROM_URL_HEADERS, fetchSource } from "../service/from-url.ts";
import { changedHeaders, changedNow, parseInteger } from "../service/resource.ts";
import { uncommitted } from "../store/keys.ts";
import type { BlobRecord } from "../store/records.ts";
import { dropBlocks } from "../store/sweep.ts";
import { changedBlob } from "./blob.ts";
import { httpHeadersOf, stateHeaders } from "./blob-headers.ts";
import { newBlobOf, overwrite, refuseArchived } from "./block-blob.ts";
import { encryptedHeaders, keyNoted, refuseOtherKey } from "./customer-key.ts";
import { refuseOtherScope } from "./encryption-scope.ts";
import { refuseFixed } from "./history.ts";
import { type BlobPlace, putBlobRecord, theBlob } from "./resource.ts";

const BLOCKS_MAX = 50_000;

/** A new append blob is empty, whatever was there before. */
export const putAppendBlob = createOperation({
  name: "Put Blob (append blob)",
  match: { method: "PUT", on: "blob", header: { name: "x-ms-blob-type", value: "AppendBlob" } },
  allow: { sas: "cw", resource: "o", overwrite: "w" },
  heeds: [...IMMUTABILITY_HEADERS, ...CUSTOMER_KEY_HEADERS],
  givesEtag: true,
  guard: { on: theBlob, conditions: "create", lease: "guarded" },
  input(request) {
    if (request.body.size !== 0) {
      throw invalidHeader("Content-Length", String(request.body.size ?? ""));
    }
    const blob = newBlobOf(request);
    if (blob.tier !== undefined) throw new StorageError("AccessTierNotSupportedForBlobType");
    return { ...blob, headers: httpHeadersOf(request, true) };
  },
  async apply(call) {
    const { tx, place, found, input, around } = call;
    refuseArchived(found, tx.now);
    if ((await uncommitted.get(tx, place.container, place.name)) !== undefined) {
      await dropBlocks(tx, around.contents, place.container, place.name);
    }
    const record = await overwrite(call, found, {
      ...input,
      type: "AppendBlob",
      size: 0,
      blockCount: 0,
      ...keyNoted(call.request),
      content: around.contents.sparse.create(tx),
    });
    return { status: 201, headers: { ...stateHeaders(record), ...encryptedHeaders(record) } };
  },
});

/** A limit from a header: bytes, from 0 on. */
function limitOf(request: Request, name: string): number | undefined {
  const text = request.header(name);
  if (text === undefined) return undefined;
  const value = parseInteger(text);
  if (value === undefined || value < 0) throw invalidHeader(name, text);
  return value;
}

const appendInput = (request: Request) => ({
  position: limitOf(request, "x-ms-blob-condition-appendpos"),
  sizeMax: limitOf(request, "x-ms-blob-condition-maxsize"),
  encryptionScope: request.header("x-ms-encryption-scope"),
});

type AppendInput = ReturnType<typeof appendInput>;
type AppendCall = Call<WriteTx, AppendInput, BlobPlace, BlobRecord>;

/** Puts what was received behind the end; offset and count in the answer are those of this very block. */
async function appended(call: AppendCall): Promise<Reply> {
  const { tx, request, place, found, input, received, around } = call;
  const { size, blockCount = 0, content } = found;
  if (found.type !== "AppendBlob" || !("sparse" in content)) {
    throw new StorageError("InvalidBlobType");
  }
  refuseOtherKey(found.customerKey, request);
  await refuseOtherScope(tx, place, input.encryptionScope);
  refuseFixed(found, tx.now);
  if (found.sealed) throw new StorageError("BlobIsSealed");
  const end = size + received.staged.size;
  if (input.position !== undefined && input.position !== size) {
    throw new StorageError("AppendPositionConditionNotMet");
  }
  if (input.sizeMax !== undefined && end > input.sizeMax) {
    throw new StorageError("MaxBlobSizeConditionNotMet");
  }
  if (blockCount >= BLOCKS_MAX) throw new StorageError("AppendBlockCountExceedsLimit");
  await around.contents.sparse.write(tx, content, size, received.staged);
  const record: BlobRecord = {
    ...changedBlob(found, changedNow(tx), tx.now),
    size: end,
    blockCount: blockCount + 1,
  };
  putBlobRecord(tx, place, record);
  const headers: Record<string, HeaderValue> = {
    ...changedHeaders(record),
    "Content-MD5": received.md5,
    "x-ms-content-crc64": received.crc64,
    "x-ms-blob-append-offset": size,
    "x-ms-blob-committed-block-count": blockCount + 1,
    ...encryptedHeaders({ ...input, ...keyNoted(request) }),
  };
  return { status: 201, headers };
}

export const appendBlock = writeOperation({
  name: "Append Block",
  match: { method: "PUT", on: "blob", comp: "appendblock" },
  allow: { sas: "aw", resource: "o" },
  body: {
    kind: "bytes",
    sizeMax: (version) => bodySizeMax(version).append,
    md5: "if-sent",
    md5Headers: ["content-md5"],
  },
  heeds: [...CUSTOMER_KEY_HEADERS, ...APPEND_CONDITION_HEADERS],
  givesEtag: true,
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  input(request) {
    if (request.body.size === 0) throw invalidHeader("Content-Length", "0");
    return appendInput(request);
  },
  apply: appended,
});

export const appendBlockFromUrl = writeOperation({
  name: "Append Block From URL",
  match: { method: "PUT", on: "blob", comp: "appendblock", header: { name: "x-ms-copy-source" } },
  allow: { sas: "aw", resource: "o" },
  heeds: [...FROM_URL_HEADERS, ...APPEND_CONDITION_HEADERS, "x-ms-source-range"],
  givesEtag: true,
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  input: appendInput,
  prepare: (request, _input, around) =>
    fetchSource(request, around, {
      sizeMin: 1,
      sizeMax: bodySizeMax(request.version).append,
      withRange: true,
    }),
  apply: appended,
});

/** After this nothing can be appended; to seal twice is to seal once. */
export const sealAppendBlob = writeOperation({
  name: "Append Blob Seal",
  match: { method: "PUT", on: "blob", comp: "seal" },
  allow: { sas: "w", resource: "o" },
  heeds: ["x-ms-blob-condition-appendpos"],
  givesEtag: true,
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  input: appendInput,
  async apply({ tx, place, found, input }) {
    if (found.type !== "AppendBlob") throw new StorageError("InvalidBlobType");
    refuseFixed(found, tx.now);
    if (input.position !== undefined && input.position !== found.size) {
      throw new StorageError("AppendPositionConditionNotMet");
    }
    const record: BlobRecord = found.sealed
      ? found
      : { ...changedBlob(found, changedNow(tx), tx.now), sealed: true };
    if (record !== found) putBlobRecord(tx, place, record);
    return { status: 200, headers: { ...changedHeaders(record), "x-ms-blob-sealed": true } };
  },
});
