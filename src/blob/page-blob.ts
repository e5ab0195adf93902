import { parseTickText, type Tick } from "../base/time.ts";
import { element, XML_DECLARATION } from "../base/xml.ts";
import type { ReadTx, WriteTx } from "../engine/engine.ts";
import { CUSTOMER_KEY_HEADERS, IMMUTABILITY_HEADERS } from "../http/heeded.ts";
import {
  type Call,
  createOperation,
  type HeaderValue,
  type Reply,
  type Request,
  readOperation,
  writeOperation,
} from "../http/operation.ts";
import {
  invalidHeader,
  invalidQuery,
  missingHeader,
  refuse,
  StorageError,
} from "../rules/errors.ts";
import { leaseAfterWrite, leaseAt } from "../rules/lease.ts";
import {
  failedSequence,
  PAGES_SIZE_MAX,
  pageBlobSize,
  pagesOf,
  type SequenceConditions,
  sequenceAction,
  sequenceAfter,
  sequenceNumber,
  wholePages,
} from "../rules/pages.ts";
import { parseRange, type Range, rangeOf } from "../rules/ranges.ts";
import { isPremiumTier, parseTier } from "../rules/tiers.ts";
import { FROM_URL_HEADERS, fetchSource } from "../service/from-url.ts";
import { changedHeaders, changedNow } from "../service/resource.ts";
import type { Contents, Opened } from "../store/content.ts";
import { snapshots, uncommitted } from "../store/keys.ts";
import type { BlobRecord } from "../store/records.ts";
import type { Marked, RangeList } from "../store/sparse-ranges.ts";
import type { Sparse } from "../store/sparse-records.ts";
import { dropBlocks } from "../store/sweep.ts";
import { httpHeadersOf, stateHeaders } from "./blob-headers.ts";
import { describedBlob, overwrite, refuseArchived } from "./block-blob.ts";
import { encryptedHeaders, keyNoted, refuseOtherKey } from "./customer-key.ts";
import { refuseOtherScope } from "./encryption-scope.ts";
import { refuseFixed, refuseIncremental } from "./history.ts";
import { type BlobPlace, putBlobRecord, theBlob, visible } from "./resource.ts";

const RANGES_MAX = 10_000;
/** The first version whose lists of pages come in parts. */
const PAGED_LISTS = "2020-10-02";
const SEQUENCE_HEADERS = [
  "x-ms-if-sequence-number-le",
  "x-ms-if-sequence-number-lt",
  "x-ms-if-sequence-number-eq",
] as const;

const PAGE_WRITE_HEADERS = [...SEQUENCE_HEADERS, ...CUSTOMER_KEY_HEADERS];

/** A page blob's content, or the refusal of an operation on a blob of another type. */
function pagesIn({ type, content }: BlobRecord): Sparse {
  if (type !== "PageBlob" || !("sparse" in content)) throw new StorageError("InvalidBlobType");
  return content;
}

/** Tiers belong to block blobs here, and those of page blobs to accounts of another kind. */
function refuseTier(request: Request): void {
  const text = request.header("x-ms-access-tier");
  if (text === undefined) return;
  if (isPremiumTier(text)) throw new StorageError("BlobAccessTierNotSupportedForAccountType");
  if (parseTier(text) === undefined) throw invalidHeader("x-ms-access-tier", text);
  throw new StorageError("AccessTierNotSupportedForBlobType");
}

/** Only pages have bytes; what makes a blob of them, or clears some, has none. */
function refuseBody({ body }: Request): void {
  if (body.size !== 0) throw invalidHeader("Content-Length", String(body.size ?? ""));
}

export const putPageBlob = createOperation({
  name: "Put Blob (page blob)",
  match: { method: "PUT", on: "blob", header: { name: "x-ms-blob-type", value: "PageBlob" } },
  allow: { sas: "cw", resource: "o", overwrite: "w" },
  body: { kind: "bytes", sizeMax: () => 0, md5: "if-sent", md5Headers: ["content-md5"] },
  heeds: [...IMMUTABILITY_HEADERS, ...CUSTOMER_KEY_HEADERS],
  givesEtag: true,
  guard: { on: theBlob, conditions: "create", lease: "guarded" },
  input(request) {
    const size = request.header("x-ms-blob-content-length");
    if (size === undefined) throw missingHeader("x-ms-blob-content-length");
    const number = request.header("x-ms-blob-sequence-number") ?? "0";
    refuseTier(request);
    refuseBody(request);
    return {
      ...describedBlob(request),
      headers: httpHeadersOf(request, true),
      size: pageBlobSize(size),
      sequenceNumber: sequenceNumber("x-ms-blob-sequence-number", number).toString(),
    };
  },
  async apply(call) {
    const { tx, place, found, input, around } = call;
    refuseArchived(found, tx.now);
    const { container, name } = place;
    if ((await uncommitted.get(tx, container, name)) !== undefined) {
      await dropBlocks(tx, around.contents, container, name);
    }
    const record = await overwrite(call, found, {
      ...input,
      type: "PageBlob",
      ...keyNoted(call.request),
      content: around.contents.sparse.create(tx),
    });
    return { status: 201, headers: { ...stateHeaders(record), ...encryptedHeaders(record) } };
  },
});

/** The header that names the range, x-ms-range before Range, and its value. */
function rangeHeader(request: Request): [name: string, text: string | undefined] {
  const own = request.header("x-ms-range");
  const standard = request.header("range");
  return own === undefined && standard !== undefined ? ["Range", standard] : ["x-ms-range", own];
}

function sequenceConditions(request: Request): SequenceConditions {
  const [atMost, below, equal] = SEQUENCE_HEADERS.map((name) => {
    const text = request.header(name);
    return text === undefined ? undefined : sequenceNumber(name, text);
  });
  return {
    ...(atMost === undefined ? {} : { atMost }),
    ...(below === undefined ? {} : { below }),
    ...(equal === undefined ? {} : { equal }),
  };
}

/** What every change of pages says: where, and under which sequence number. */
const pageWriteOf = (request: Request) => ({
  pages: pagesOf(...rangeHeader(request)),
  sequence: sequenceConditions(request),
  encryptionScope: request.header("x-ms-encryption-scope"),
});

type PageWrite = ReturnType<typeof pageWriteOf>;

type PageCall = Call<WriteTx, PageWrite, BlobPlace, BlobRecord>;

/** Puts what was received where the request says. */
async function writtenPages(call: PageCall): Promise<Reply> {
  const { tx, request, input, received, around } = call;
  const changed = await changePages(call, (content, { start }) =>
    around.contents.sparse.write(tx, content, start, received.staged),
  );
  const headers: Record<string, HeaderValue> = {
    ...changed,
    "Content-MD5": received.md5,
    "x-ms-content-crc64": received.crc64,
    ...encryptedHeaders({ ...input, ...keyNoted(request) }),
  };
  return { status: 201, headers };
}

/** Judges what only the blob can tell, lets `change` happen to its pages, and stores the new state. */
async function changePages(
  { tx, request, place, found, input }: PageCall,
  change: (content: Sparse, pages: Range) => Promise<void>,
): Promise<Record<string, HeaderValue>> {
  const content = pagesIn(found);
  refuseOtherKey(found.customerKey, request);
  await refuseOtherScope(tx, place, input.encryptionScope);
  refuseIncremental(found);
  refuseFixed(found, tx.now);
  const { pages, sequence } = input;
  const number = found.sequenceNumber ?? "0";
  refuse(failedSequence(sequence, BigInt(number)));
  if (pages.start + pages.count > found.size) throw new StorageError("InvalidPageRange");
  await change(content, pages);
  const lease = leaseAfterWrite(leaseAt(found.lease, tx.now));
  const record = { ...found, ...changedNow(tx), lease };
  putBlobRecord(tx, place, record);
  return { ...changedHeaders(record), "x-ms-blob-sequence-number": number };
}

export const putPage = writeOperation({
  name: "Put Page (update)",
  match: {
    method: "PUT",
    on: "blob",
    comp: "page",
    header: { name: "x-ms-page-write", value: "update" },
  },
  allow: { sas: "w", resource: "o" },
  body: {
    kind: "bytes",
    sizeMax: () => PAGES_SIZE_MAX,
    md5: "if-sent",
    md5Headers: ["content-md5"],
  },
  heeds: PAGE_WRITE_HEADERS,
  givesEtag: true,
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  input(request) {
    const input = pageWriteOf(request);
    const { size } = request.body;
    // A body that is too large, or whose length is not told, has an error of its own.
    if (size !== undefined && size <= PAGES_SIZE_MAX && size !== input.pages.count) {
      throw invalidHeader("Content-Length", String(size));
    }
    return input;
  },
  apply: writtenPages,
});

/** Pages from a URL, as many bytes as the range that they go to. */
export const putPageFromUrl = writeOperation({
  name: "Put Page From URL",
  match: {
    method: "PUT",
    on: "blob",
    comp: "page",
    header: { name: "x-ms-page-write", value: "update" },
    also: { name: "x-ms-copy-source" },
  },
  allow: { sas: "w", resource: "o" },
  heeds: [...FROM_URL_HEADERS, ...PAGE_WRITE_HEADERS, "x-ms-source-range"],
  givesEtag: true,
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  input(request) {
    const input = pageWriteOf(request);
    if (input.pages.count > PAGES_SIZE_MAX) {
      throw new StorageError("RequestBodyTooLarge", { MaxLimit: String(PAGES_SIZE_MAX) });
    }
    const text = request.header("x-ms-source-range");
    if (text === undefined) throw missingHeader("x-ms-source-range");
    const from = parseRange(text);
    if (from?.end === undefined || from.end - from.start + 1 !== input.pages.count) {
      throw invalidHeader("x-ms-source-range", text);
    }
    return input;
  },
  prepare: (request, _input, around) =>
    fetchSource(request, around, { sizeMax: PAGES_SIZE_MAX, withRange: true }),
  async apply(call) {
    if (call.received.staged.size !== call.input.pages.count) {
      const Reason = "The source ends before the range does.";
      throw new StorageError("CannotVerifyCopySource", { Reason }, 416);
    }
    return writtenPages(call);
  },
});

export const clearPage = writeOperation({
  name: "Put Page (clear)",
  match: {
    method: "PUT",
    on: "blob",
    comp: "page",
    header: { name: "x-ms-page-write", value: "clear" },
  },
  allow: { sas: "w", resource: "o" },
  heeds: PAGE_WRITE_HEADERS,
  givesEtag: true,
  guard: { on: theBlob, conditions: "write", lease: "guarded" },
  input(request) {
    refuseBody(request);
    for (const name of ["content-md5", "x-ms-content-crc64"]) {
      const sum = request.header(name);
      if (sum !== undefined) throw invalidHeader(name, sum); // there is nothing to sum
    }
    return pageWriteOf(request);
  },
  async apply(call) {
    const { tx, around } = call;
    const headers = await changePages(call, (content, pages) =>
      around.contents.sparse.clear(tx, content, pages),
    );
    return { status: 201, headers };
  },
});

/** What Set Blob Properties says of the pages, if it says anything. */
export function pagePropertiesOf(request: Request) {
  const text = request.header("x-ms-blob-content-length");
  const sequence = sequenceAction(
    request.header("x-ms-sequence-number-action"),
    request.header("x-ms-blob-sequence-number"),
  );
  if (text === undefined && sequence === undefined) return undefined;
  return { size: text === undefined ? undefined : pageBlobSize(text), sequence };
}

type PageProperties = NonNullable<ReturnType<typeof pagePropertiesOf>>;

/** What becomes of a page blob: pages behind its new end are cleared, the sequence number acts as it is told. */
export async function changedPageProperties(
  tx: WriteTx,
  { sparse }: Contents,
  found: BlobRecord,
  { size, sequence }: PageProperties,
): Promise<Partial<BlobRecord>> {
  if (found.type !== "PageBlob") {
    const name = size === undefined ? "x-ms-sequence-number-action" : "x-ms-blob-content-length";
    throw invalidHeader(name, size === undefined ? (sequence?.action ?? "") : String(size));
  }
  if (size !== undefined && size < found.size) await sparse.cut(tx, pagesIn(found), size);
  const number = BigInt(found.sequenceNumber ?? "0");
  const next = sequence === undefined ? number : sequenceAfter(number, sequence);
  if (typeof next === "string") throw new StorageError(next);
  return { sequenceNumber: next.toString(), ...(size === undefined ? {} : { size }) };
}

/** The snapshot that a list of pages is compared with, if it is. */
function previousOf(request: Request): Tick | undefined {
  const text = request.query.get("prevsnapshot");
  const url = request.header("x-ms-previous-snapshot-url");
  if (text !== undefined && url !== undefined) {
    throw invalidHeader("x-ms-previous-snapshot-url", url);
  }
  if (url !== undefined) return snapshotAt(request, url);
  if (text === undefined) return undefined;
  const tick = parseTickText(text);
  if (tick === undefined) throw invalidQuery("prevsnapshot", text);
  return tick;
}

/** The snapshot of the same blob that a URL names; those of other blobs cannot be compared with. */
function snapshotAt({ endpoint, names }: Request, text: string): Tick {
  const url = URL.parse(text);
  const tick = parseTickText(url?.searchParams.get("snapshot") ?? "");
  if (url === null || tick === undefined) throw invalidHeader("x-ms-previous-snapshot-url", text);
  const own = (URL.parse(endpoint)?.pathname ?? "/") + names.join("/");
  if (decoded(url.pathname) !== own) {
    throw new StorageError("PreviousSnapshotOperationNotSupported");
  }
  return tick;
}

/** A path without its escapes; undefined if they are none. */
function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

/** Where a list goes on, and how long it may be; before lists came in parts it has no bound. */
function pagingOf({ query, version }: Request): { from: number; limit: number } {
  const marker = query.get("marker") ?? "";
  const size = query.get("maxresults") ?? "";
  if (!/^(1!\d{1,15})?$/.test(marker)) throw invalidQuery("marker", marker);
  if (!/^(-?\d{1,9})?$/.test(size)) throw invalidQuery("maxresults", size);
  if (size !== "" && Number(size) < 1) {
    throw new StorageError("OutOfRangeQueryParameterValue", {
      QueryParameterName: "maxresults",
      QueryParameterValue: size,
      MinimumAllowed: "1",
      MaximumAllowed: String(RANGES_MAX),
    });
  }
  const most = version >= PAGED_LISTS ? RANGES_MAX : Number.MAX_SAFE_INTEGER;
  return {
    from: marker === "" ? 0 : Number(marker.slice(2)),
    limit: size === "" ? most : Math.min(Number(size), most),
  };
}

export const getPageRanges = readOperation({
  name: "Get Page Ranges",
  match: { method: "GET", on: "blob", comp: "pagelist" },
  allow: { sas: "r", resource: "o", public: "blob" },
  snapshots: true,
  versions: true,
  givesEtag: true,
  guard: { on: theBlob, conditions: "read", lease: "free" },
  input(request) {
    const [, text] = rangeHeader(request);
    return { asked: parseRange(text), previous: previousOf(request), ...pagingOf(request) };
  },
  async apply({ tx, request, place, found, input, around }) {
    const content = pagesIn(found);
    const { asked, previous, from, limit } = input;
    const range = behind(wholePages(rangeOf(asked, found.size)), from);
    const since = previous === undefined ? {} : { since: await previousPages(tx, place, previous) };
    const { sparse } = around.contents;
    const list = await sparse.openRanges(tx, content, { ...since, range, limit });
    if (list === undefined) throw new StorageError("BlobOverwritten");
    const end = (next: number | undefined) =>
      `${request.version < PAGED_LISTS ? "" : `<NextMarker>${next === undefined ? "" : `1!${next}`}</NextMarker>`}</PageList>`;
    const headers: Record<string, HeaderValue> = {
      ...changedHeaders(found),
      "Content-Type": "application/xml",
      "x-ms-blob-content-length": found.size,
    };
    if (list.whole === undefined) return { status: 200, headers, body: longList(list, end) };
    const { items, next } = list.whole;
    return { status: 200, headers, body: `${LIST_HEAD}${itemsXml(items)}${end(next)}` };
  },
});

const LIST_HEAD = `${XML_DECLARATION}<PageList>`;

/** A list that is sent while it is still being read. */
function longList(list: RangeList, end: (next: number | undefined) => string): Opened {
  async function* stream() {
    const looks = list.looks();
    yield Buffer.from(LIST_HEAD);
    for (;;) {
      const { value, done } = await looks.next();
      if (done) {
        yield Buffer.from(end(value));
        return;
      }
      yield Buffer.from(itemsXml(value));
    }
  }
  return { stream, close: list.close };
}

/** The part of a range that begins at `from`, where that is further on. */
function behind({ start, count }: Range, from: number): Range {
  const first = Math.max(start, from);
  return { start: first, count: Math.max(0, start + count - first) };
}

/**
 * The pages of an earlier snapshot.
 * Differs from Azure: where the blob was replaced by a copy of one of its own snapshots, a comparison still
 * works and tells what differs; Azure answers BlobOverwritten.
 */
async function previousPages(
  tx: ReadTx,
  { container, name, snapshot }: BlobPlace,
  previous: Tick,
): Promise<Sparse> {
  if (snapshot !== undefined && previous > snapshot) {
    throw new StorageError("PreviousSnapshotCannotBeNewer");
  }
  const record = visible(await snapshots.get(tx, container, name, previous), tx.now);
  if (record === undefined) throw new StorageError("PreviousSnapshotNotFound");
  if (record.type !== "PageBlob") throw new StorageError("BlobOverwritten");
  return pagesIn(record);
}

const itemsXml = (items: readonly Marked[]): string =>
  items
    .map(({ start, count, isCleared }) => {
      const name = isCleared ? "ClearRange" : "PageRange";
      return `<${name}>${element("Start", start)}${element("End", start + count - 1)}</${name}>`;
    })
    .join("");
