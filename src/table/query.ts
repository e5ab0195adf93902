import type { KeyRange } from "../auth/caller.ts";
import { keysOf } from "../auth/may-do.ts";
import { afterPrefix, compareBytes } from "../base/bytes.ts";
import type { ReadTx } from "../engine/engine.ts";
import { parseConditions } from "../http/conditions.ts";
import type { HeaderValue, Reply } from "../http/operation.ts";
import { refuseKey } from "../rules/entity.ts";
import { explained, StorageError } from "../rules/errors.ts";
import {
  comparisonsIn,
  type Filter,
  FilterError,
  matches,
  parseFilter,
  UnsupportedFilter,
} from "../rules/filter.ts";
import { type Box, isPoint, isRun, type KeyRanges, keyRanges } from "../rules/key-ranges.ts";
import { entities } from "../store/keys.ts";
import { type EntityRecord, entityRecord } from "../store/table-records.ts";
import { tokenOf, tokenText } from "./continuation.ts";
import {
  jsonReply,
  type MetadataLevel,
  metadataLevel,
  refuseOptions,
  refuseVersions,
  type TableRequest,
} from "./format.ts";
import { entityBytes, etagOf, memberBytes, type View, valuesOf, viewOf } from "./view.ts";

const PAGE_MAX = 1000;
const SELECT_MAX = 255;

/** A page ends where its reply, or what was read for it, is this large; the next one goes on from there. */
const REPLY_SIZE_MAX = 4 * 1024 * 1024;
const SCAN_SIZE_MAX = 16 * 1024 * 1024;
/** What may be spent on one page, so that nobody else waits long: an entity counts 4, a comparison 1. */
const STEPS_MAX = 50_000;
const STEPS_PER_ENTITY = 4;
/** How much is read at a time: first a few entities, since they may be large, then about this many bytes. */
const FIRST_ROWS = 32;
const READ_SIZE = 512 * 1024;

/** `$filter`, or nothing; a text that is no filter is refused with a sentence on what is wrong. */
export function filterOf({ query }: TableRequest): Filter | undefined {
  const text = query.get("$filter");
  if (text === undefined || text.trim() === "") return undefined;
  try {
    return parseFilter(text);
  } catch (error) {
    if (error instanceof UnsupportedFilter) throw new StorageError("NotImplemented");
    if (!(error instanceof FilterError)) throw error;
    const message = `One of the request inputs is not valid: ${error.message}.`;
    throw explained("InvalidInput", message);
  }
}

/** `$top`: how many a page may hold, at most 1,000. */
export function topOf({ query }: TableRequest): number {
  const text = query.get("$top");
  if (text === undefined) return PAGE_MAX;
  const top = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (!(top <= PAGE_MAX)) throw new StorageError("InvalidInput");
  return top;
}

const NAME = /^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Nd}\p{Pc}\p{Mn}\p{Mc}\p{Cf}]*$/u;

/** `$select`: the names wanted, each once; undefined for all. */
export function selectOf({ query }: TableRequest): readonly string[] | undefined {
  const text = query.get("$select");
  if (text === undefined || text.trim() === "") return undefined;
  const names = text.split(",").map((name) => name.trim());
  if (names.includes("*")) return undefined;
  const isGood = names.length <= SELECT_MAX && names.every((name) => NAME.test(name));
  if (!isGood) throw new StorageError("InvalidInput");
  return [...new Set(names)];
}

/** A query for one entity by its keys. */
export type PointQuery = {
  readonly partitionKey: string;
  readonly rowKey: string;
  /** ETags of copies that the client has, without what makes them weak. */
  readonly known: readonly string[];
  readonly filter: Filter | undefined;
  readonly view: View;
};

export function pointOf(request: TableRequest): PointQuery {
  const [, partitionKey = "", rowKey = ""] = request.names;
  refuseVersions(request);
  refuseOptions(request, "query");
  refuseKey("PartitionKey", partitionKey);
  refuseKey("RowKey", rowKey);
  const view = viewOf(request, metadataLevel(request), selectOf(request));
  return { partitionKey, rowKey, known: knownTags(request), filter: filterOf(request), view };
}

/**
 * If-None-Match, the one condition that a read of an entity knows: a browser keeps what has an ETag, and asks with
 * this header of its own whether it is still good.
 */
function knownTags({ header }: TableRequest): readonly string[] {
  const { ifNoneMatch = [], ...others } = parseConditions(header);
  if (Object.keys(others).length > 0) throw new StorageError("ConditionHeadersNotSupported");
  return ifNoneMatch;
}

export async function answerPoint(tx: ReadTx, table: bigint, query: PointQuery): Promise<Reply> {
  const { partitionKey, rowKey, known, filter, view } = query;
  const found = await entities.get(tx, table, partitionKey, rowKey);
  if (found === undefined || (filter !== undefined && !matches(filter, valuesOf(found)))) {
    throw new StorageError("ResourceNotFound");
  }
  const etag = etagOf(found);
  if (known.includes("*") || known.some((tag) => etag === `W/"${tag}"`)) {
    throw new StorageError("NotModified");
  }
  return jsonReply(200, view.level, entityBytes(found, view), { ETag: etag });
}

/** A query for a page of entities. */
export type EntityQuery = {
  readonly filter: Filter | undefined;
  readonly ranges: KeyRanges;
  readonly top: number;
  /** Where the page begins, if it is not the first. */
  readonly from: readonly [partitionKey: string, rowKey: string] | undefined;
  /** The keys that the caller is kept to, if there are such. */
  readonly limits: KeyRange | undefined;
  readonly view: View;
};

export function queryOf(request: TableRequest): EntityQuery {
  refuseVersions(request);
  refuseOptions(request, "query");
  const filter = filterOf(request);
  const level: MetadataLevel = metadataLevel(request);
  return {
    filter,
    ranges: keyRanges(filter),
    top: topOf(request),
    from: fromOf(request),
    limits: keysOf(request.caller),
    view: viewOf(request, level, selectOf(request)),
  };
}

function fromOf({ query }: TableRequest): EntityQuery["from"] {
  const partitionKey = tokenOf(query, "NextPartitionKey");
  const rowKey = tokenOf(query, "NextRowKey");
  if (partitionKey !== undefined) return [partitionKey, rowKey ?? ""];
  if (rowKey !== undefined) throw new StorageError("InvalidInput");
  return undefined;
}

const OPEN = Buffer.from('{"value":[');
const COMMA = Buffer.from(",");
const CLOSE = Buffer.from("]}");

export async function answerQuery(tx: ReadTx, table: bigint, query: EntityQuery): Promise<Reply> {
  const { view } = query;
  const { found, next } = await scanned(tx, table, query);
  const bytes: Uint8Array[] = [];
  if (view.level === "nometadata") bytes.push(OPEN);
  else {
    const context = JSON.stringify(`${view.endpoint}$metadata#${view.table}`);
    bytes.push(Buffer.from(`{"odata.metadata":${context},"value":[`));
  }
  for (let i = 0; i < found.length; i++) {
    if (i > 0) bytes.push(COMMA);
    bytes.push(...memberBytes(found[i] as EntityRecord, view));
  }
  bytes.push(CLOSE);
  const headers: Record<string, HeaderValue> = {};
  if (next !== undefined) {
    headers["x-ms-continuation-NextPartitionKey"] = tokenText(next[0]);
    headers["x-ms-continuation-NextRowKey"] = tokenText(next[1]);
  }
  return jsonReply(200, view.level, bytes, headers);
}

type Page = {
  readonly found: readonly EntityRecord[];
  /** The keys of the first entity that was not looked at. */
  readonly next: readonly [string, string] | undefined;
};

/** Reads the runs of keys that can match, in order, until the page is full or enough was spent on it. */
async function scanned(tx: ReadTx, table: bigint, query: EntityQuery): Promise<Page> {
  const { filter, ranges, top, from, limits } = query;
  const found: EntityRecord[] = [];
  if (top === 0) return { found, next: undefined };
  const needsFilter = filter !== undefined && !(ranges.exact && ranges.boxes.every(isRun));
  const start = from === undefined ? undefined : entities.packed([table, ...from]);
  const stepsPerEntity = STEPS_PER_ENTITY + (needsFilter ? comparisonsIn(filter) : 0);
  let stepsLeft = STEPS_MAX;
  let scanSize = 0;
  let replySize = 0;
  let rows = FIRST_ROWS;
  for (const whole of runsOf(table, ranges.boxes)) {
    const run = limits === undefined ? whole : clipped(whole, limitsOf(table, limits));
    let at = start !== undefined && compareBytes(start, run.from) > 0 ? start : run.from;
    while (compareBytes(at, run.to) < 0) {
      const limit = needsFilter ? rows : Math.min(rows, top - found.length + 1);
      const batch = await tx.range({ from: at, to: run.to, limit });
      for (const { key, value } of batch) {
        const isFull = found.length === top || replySize > REPLY_SIZE_MAX;
        if (isFull || stepsLeft <= 0 || scanSize > SCAN_SIZE_MAX) {
          const [, partitionKey, rowKey] = entities.unpacked(key);
          return { found, next: [partitionKey, rowKey] };
        }
        stepsLeft -= stepsPerEntity;
        scanSize += value.length;
        const record = entityRecord.decode(value);
        if (needsFilter && !matches(filter, valuesOf(record))) continue;
        found.push(record);
        replySize += value.length;
      }
      const last = batch.at(-1);
      if (last === undefined || batch.length < limit) break;
      at = Buffer.concat([last.key, Buffer.of(0)]);
      rows = rowsFor(batch);
    }
  }
  return { found, next: undefined };
}

/** How many entities of the size seen last make a read worth its while. */
function rowsFor(batch: readonly { readonly value: Uint8Array }[]): number {
  let size = 0;
  for (const { value } of batch) size += value.length;
  const average = size / batch.length;
  return Math.max(FIRST_ROWS, Math.min(PAGE_MAX, Math.floor(READ_SIZE / average)));
}

type Run = { readonly from: Uint8Array; readonly to: Uint8Array };

/** The runs of stored keys that boxes cover, in order and without overlap. */
function runsOf(table: bigint, boxes: readonly Box[]): Run[] {
  const all = boxes.map((box) => runOf(table, box));
  if (all.length < 2) return all;
  all.sort((a, b) => compareBytes(a.from, b.from));
  const runs: Run[] = [];
  for (const run of all) {
    const last = runs.at(-1);
    if (last === undefined || compareBytes(run.from, last.to) > 0) runs.push(run);
    else if (compareBytes(run.to, last.to) > 0) runs[runs.length - 1] = { ...last, to: run.to };
  }
  return runs;
}

function clipped(run: Run, limits: Run): Run {
  return {
    from: compareBytes(run.from, limits.from) > 0 ? run.from : limits.from,
    to: compareBytes(run.to, limits.to) < 0 ? run.to : limits.to,
  };
}

/** The run of keys that a signature reaches: from one pair to another, both included. */
function limitsOf(
  table: bigint,
  { startPartition, startRow, endPartition, endRow }: KeyRange,
): Run {
  const first = startPartition === undefined ? [] : [startPartition, startRow ?? ""];
  const last = endPartition === undefined ? [] : [endPartition];
  if (endPartition !== undefined && endRow !== undefined) last.push(endRow);
  return {
    from: entities.packed([table, ...first]),
    to: afterPrefix(entities.packed([table, ...last])),
  };
}

/** Within one partition the row keys bound the run; across partitions they do not. */
function runOf(table: bigint, { partition, row }: Box): Run {
  const prefix = isPoint(partition) ? [table, partition.low] : [table];
  const { low, lowIsOpen, high, highIsOpen } = isPoint(partition) ? row : partition;
  const first = entities.packed([...prefix, low]);
  const end = high === undefined ? undefined : entities.packed([...prefix, high]);
  return {
    from: lowIsOpen ? afterPrefix(first) : first,
    to:
      end === undefined
        ? afterPrefix(entities.packed(prefix))
        : highIsOpen
          ? end
          : afterPrefix(end),
  };
}
