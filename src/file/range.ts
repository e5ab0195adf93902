import { parseTickText, tickText } from "../base/time.ts";
import { element, XML_DECLARATION } from "../base/xml.ts";
import type { ReadTx } from "../engine/engine.ts";
import { SOURCE_CONDITION_HEADERS, SOURCE_SUM_HEADERS } from "../http/heeded.ts";
import {
  type HeaderValue,
  type Request,
  readOperation,
  writeOperation,
} from "../http/operation.ts";
import { invalidHeader, invalidQuery, missingHeader, StorageError } from "../rules/errors.ts";
import { parseRange, type Range, rangeOf } from "../rules/ranges.ts";
import { fetchSource } from "../service/from-url.ts";
import { changedHeaders } from "../service/resource.ts";
import type { Opened } from "../store/content.ts";
import type { FileRecord } from "../store/file-records.ts";
import { shareSnapshots } from "../store/keys.ts";
import type { Marked, RangeList } from "../store/sparse-ranges.ts";
import { cleared } from "./clearing.ts";
import { leaseNow, refusePending, refuseReadOnly } from "./file.ts";
import { hexOf, nodeOf, tickOf } from "./namespace.ts";
import { stamped } from "./node.ts";

import { changing, chosen, isTrue, type NodePlace, pathIn, theFile } from "./resource.ts";
import { isFile, prepare, type ShareTx, save, walk } from "./tree.ts";

const UPDATE_MAX = 4 * 1024 * 1024;

/** The bytes a write is about; both ends must be named. */
export function writtenRange(request: Request): Range {
  const text = request.header("x-ms-range") ?? request.header("range");
  if (text === undefined) throw missingHeader("x-ms-range");
  const asked = parseRange(text);
  if (asked?.end === undefined) throw invalidHeader("x-ms-range", text);
  return { start: asked.start, count: asked.end - asked.start + 1 };
}

/** Whether a write keeps the time of the last one. */
export const keepsTime = (request: Request): boolean =>
  chosen(request, "x-ms-file-last-write-time", ["now", "preserve"]) === "preserve";

/** Writes into a file, within its size, what `write` puts into its content. */
export async function writeInto(
  change: ShareTx,
  found: FileRecord,
  { start, count }: Range,
  { keepsTime: keeps, write }: { keepsTime: boolean; write: (file: FileRecord) => Promise<void> },
): Promise<FileRecord> {
  const { tx } = change;
  refuseReadOnly(found);
  refusePending(found);
  if (start + count > found.size) throw new StorageError("InvalidRange");
  const { tick, ...changed } = stamped(tx);
  const at = hexOf(tick);
  const record: FileRecord = {
    ...(await prepare(change, found)),
    ...changed,
    changedAt: at,
    ...(keeps ? {} : { writtenAt: at }),
    lease: leaseNow(found, tx.now),
  };
  await write(record);
  await save(change, found, record);
  return record;
}

export const writtenHeaders = (record: FileRecord): Record<string, HeaderValue> => ({
  ...changedHeaders(record),
  "x-ms-file-last-write-time": tickText(tickOf(record.writtenAt)),
  "x-ms-request-server-encrypted": true,
});

export const putRange = writeOperation({
  name: "Put Range",
  match: { method: "PUT", on: "file", comp: "range", header: { name: "x-ms-write" } },
  allow: { sas: "w", resource: "o" },
  body: { kind: "bytes", sizeMax: () => UPDATE_MAX, md5: "always", md5Headers: ["content-md5"] },
  guard: { on: theFile("write"), conditions: "none", lease: "guarded" },
  input(request) {
    const what = chosen(request, "x-ms-write", ["update", "clear"]) ?? "update";
    const range = writtenRange(request);
    const size = request.body.size ?? 0;
    if (what === "clear") {
      const md5 = request.header("content-md5");
      if (md5 !== undefined) throw invalidHeader("Content-MD5", md5);
      if (size > 0) throw invalidHeader("Content-Length", String(size));
    } else if (size <= UPDATE_MAX && size !== range.count) {
      throw invalidHeader("Content-Length", String(size));
    }
    return { what, range, keepsTime: keepsTime(request) };
  },
  async apply(call) {
    const { tx, found, received, input, around } = call;
    const { range } = input;
    const { sparse } = around.contents;
    const record = await writeInto(changing(call), found, range, {
      keepsTime: input.keepsTime,
      write: ({ content }) =>
        input.what === "update"
          ? sparse.write(tx, content, range.start, received.staged)
          : cleared({ tx, sparse }, content, range),
    });
    const md5 = input.what === "update" ? received.md5 : undefined;
    const headers = { ...writtenHeaders(record), "Content-MD5": md5 };
    return { status: 201, headers };
  },
});

/** The sum of the source that a write asks for, or refuses. */
function sumsAsked(request: Request) {
  return {
    only: request.header("x-ms-source-if-match-crc64"),
    not: request.header("x-ms-source-if-none-match-crc64"),
  };
}

export const putRangeFromUrl = writeOperation({
  name: "Put Range From URL",
  match: {
    method: "PUT",
    on: "file",
    comp: "range",
    header: { name: "x-ms-write", value: "update" },
    also: { name: "x-ms-copy-source" },
  },
  allow: { sas: "w", resource: "o" },
  heeds: ["x-ms-source-range", ...SOURCE_CONDITION_HEADERS, ...SOURCE_SUM_HEADERS],
  guard: { on: theFile("write"), conditions: "none", lease: "guarded" },
  input: (request) => ({
    range: writtenRange(request),
    keepsTime: keepsTime(request),
    sums: sumsAsked(request),
  }),
  prepare: (request, _input, around) =>
    fetchSource(request, around, { sizeMax: UPDATE_MAX, withRange: true }),
  async apply(call) {
    const { tx, found, received, input, around } = call;
    const { range, sums } = input;
    if (sums.only !== undefined && sums.only !== received.crc64) {
      throw new StorageError("SourceConditionNotMet");
    }
    if (sums.not !== undefined && sums.not === received.crc64) {
      throw new StorageError("SourceConditionNotMet");
    }
    const { staged } = received;
    if (staged.size !== range.count) {
      throw invalidHeader("x-ms-range", call.request.header("x-ms-range") ?? "");
    }
    const record = await writeInto(changing(call), found, range, {
      keepsTime: input.keepsTime,
      write: ({ content }) => around.contents.sparse.write(tx, content, range.start, staged),
    });
    const headers = { ...writtenHeaders(record), "x-ms-content-crc64": received.crc64 };
    return { status: 201, headers };
  },
});

export const listRanges = readOperation({
  name: "List Ranges",
  match: { method: "GET", on: "file", comp: "rangelist" },
  allow: { sas: "r", resource: "o" },
  snapshots: true,
  guard: { on: theFile("read"), conditions: "none", lease: "free" },
  input(request) {
    const text = request.query.get("prevsharesnapshot");
    const since = text === undefined ? undefined : parseTickText(text);
    if (text !== undefined && since === undefined) throw invalidQuery("prevsharesnapshot", text);
    if (since !== undefined && request.snapshot !== undefined && since > request.snapshot) {
      throw invalidQuery("prevsharesnapshot", text ?? "");
    }
    return {
      since,
      asked: parseRange(request.header("x-ms-range") ?? request.header("range")),
      followsRename: isTrue(request, "x-ms-file-support-rename"),
    };
  },
  async apply({ tx, request, place, found, input: { since, asked, followsRename }, around }) {
    const range = rangeOf(asked, found.size);
    const from = { at: since, path: pathIn(request), followsRename };
    const before = since === undefined ? undefined : await fileBefore(tx, place, found, from);
    const list = await around.contents.sparse.openRanges(tx, found.content, {
      range,
      limit: Number.MAX_SAFE_INTEGER,
      ...(before === undefined ? {} : { since: before.content }),
    });
    if (list === undefined) throw new StorageError("FileGenerationMismatch");
    const headers = {
      ...changedHeaders(found),
      "Content-Type": "application/xml",
      "x-ms-content-length": found.size,
    };
    if (list.whole === undefined) return { status: 200, headers, body: longList(list) };
    const body = `${LIST_HEAD}${rangesXml(list.whole.items)}${LIST_END}`;
    return { status: 200, headers, body };
  },
});

/** The same file in an earlier snapshot; one that was made anew since then is another. */
async function fileBefore(
  tx: ReadTx,
  { share }: NodePlace,
  file: FileRecord,
  from: { at: bigint | undefined; path: readonly string[]; followsRename: boolean },
): Promise<FileRecord> {
  const at = from.at ?? 0n;
  if ((await shareSnapshots.get(tx, share.id, at)) === undefined) {
    throw new StorageError("PreviousSnapshotNotFound");
  }
  const view = { share: share.id, at };
  const node = from.followsRename
    ? await nodeOf(tx, view, tickOf(file.id))
    : (await walk(tx, view, from.path)).node;
  if (node === undefined || !isFile(node)) throw new StorageError("ResourceNotFound");
  if (node.id !== file.id || node.generation !== file.generation) {
    throw new StorageError("FileGenerationMismatch");
  }
  return node;
}

const LIST_HEAD = `${XML_DECLARATION}<Ranges>`;
const LIST_END = "</Ranges>";

const rangesXml = (items: readonly Marked[]): string =>
  items
    .map(({ start, count, isCleared }) => {
      const name = isCleared ? "ClearRange" : "Range";
      return `<${name}>${element("Start", start)}${element("End", start + count - 1)}</${name}>`;
    })
    .join("");

/** A list that is sent while it is still being read. */
function longList(list: RangeList): Opened {
  async function* stream() {
    yield Buffer.from(LIST_HEAD);
    for await (const items of list.looks()) yield Buffer.from(rangesXml(items));
    yield Buffer.from(LIST_END);
  }
  return { stream, close: list.close };
}
