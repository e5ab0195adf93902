import { afterPrefix } from "../base/bytes.ts";
import { httpDate, type Instant, tickText } from "../base/time.ts";
import { element, escapeXml, isBeyondXml, XML_DECLARATION } from "../base/xml.ts";
import type { ReadTx } from "../engine/engine.ts";
import { readOperation } from "../http/operation.ts";
import { invalidQuery, StorageError } from "../rules/errors.ts";
import { leaseAt, leaseProperties } from "../rules/lease.ts";
import { INFERRED_TIER, tierAt } from "../rules/tiers.ts";
import {
  echoed,
  includeOf,
  LAST,
  type Marker,
  markerOf,
  markerText,
  pageSizeOf,
} from "../service/paging.ts";
import { metadataXml } from "../service/resource.ts";
import { blobs, snapshots, uncommitted, versions } from "../store/keys.ts";
import type { BlobRecord } from "../store/records.ts";
import { daysLeft } from "./history.ts";
import { theContainer, visible } from "./resource.ts";
import { tagsXml } from "./tags.ts";

const INCLUDES = [
  "copy",
  "deleted",
  "metadata",
  "snapshots",
  "uncommittedblobs",
  "versions",
  "tags",
  "immutabilitypolicy",
  "legalhold",
  "deletedwithversions",
];

export const listBlobs = readOperation({
  name: "List Blobs",
  match: { method: "GET", on: "container", restype: "container", comp: "list" },
  allow: { sas: "l", resource: "c", service: "l", public: "container" },
  guard: { on: theContainer, conditions: "none", lease: "free" },
  input(request) {
    const include = includeOf(request, INCLUDES);
    const delimiter = request.query.get("delimiter") ?? "";
    if (delimiter !== "" && include.has("snapshots")) {
      throw invalidQuery("include", request.query.get("include") ?? "");
    }
    // It parts files from directories, and only accounts with a hierarchical namespace have those.
    if (request.query.get("showonly")) {
      throw new StorageError("UnsupportedQueryParameter", { QueryParameterName: "showonly" });
    }
    const startFrom = request.query.get("startfrom");
    return {
      include,
      delimiter,
      size: pageSizeOf(request),
      prefix: request.query.get("prefix") ?? "",
      from: markerOf(request) ?? (startFrom ? { name: startFrom, at: 0n } : undefined),
    };
  },
  async apply({ tx, request, found, input }) {
    const { include, delimiter } = input;
    const page = await pageOf(tx, BigInt(`0x${found.id}`), input);
    let items = "";
    for (const item of page.items) {
      items +=
        item.record === "prefix"
          ? `<BlobPrefix>${nameXml(item.name)}</BlobPrefix>`
          : blobXml(item, include, tx.now);
    }
    const head = `<EnumerationResults ServiceEndpoint="${escapeXml(request.endpoint)}" ContainerName="${escapeXml(request.names[0] ?? "")}">`;
    const next = page.next === undefined ? "" : markerText(page.next);
    const delimited = delimiter === "" ? "" : element("Delimiter", delimiter);
    const body = `${XML_DECLARATION}${head}${echoed(request)}${delimited}<Blobs>${items}</Blobs><NextMarker>${next}</NextMarker></EnumerationResults>`;
    return { status: 200, headers: { "Content-Type": "application/xml" }, body };
  },
});

/**
 * One line of a list: a state of a blob, a blob that has only uncommitted blocks, a folded prefix; "hidden" is
 * none, it is passed over.
 */
type Item = {
  readonly name: string;
  readonly at: bigint;
  readonly record: BlobRecord | "uncommitted" | "prefix" | "hidden";
  readonly kind?: "current" | "snapshot" | "version" | "versions-only";
};

type PageQuery = {
  readonly include: ReadonlySet<string>;
  readonly delimiter: string;
  readonly size: number;
  readonly prefix: string;
  readonly from: Marker | undefined;
};

/**
 * One page, in the order of names, snapshots of a blob before it. Names that share a prefix up to the
 * delimiter become one item, and the walk jumps over them, so that a page costs what it shows.
 */
async function pageOf(
  tx: ReadTx,
  container: bigint,
  { include, delimiter, size, prefix, from }: PageQuery,
): Promise<{ items: Item[]; next?: Marker }> {
  const batch = Math.min(size + 1, delimiter === "" ? BATCH_MAX : FOLDING_BATCH_MAX);
  const cursors = sourcesOf(include).map(
    (source) => new Cursor(source, tx, { container, prefix, batch, from }),
  );
  const items: Item[] = [];
  for (let seen = 0; ; seen++) {
    const item = await firstOf(cursors);
    if (item === undefined) return { items };
    // A page may be short: what is hidden costs time too.
    if (seen >= size + HIDDEN_MAX) return { items, next: item };
    if (item.record === "hidden") {
      for (const cursor of cursors) cursor.pass(item);
      continue;
    }
    const end = delimiter === "" ? -1 : item.name.indexOf(delimiter, prefix.length);
    const folded = end === -1 ? undefined : item.name.slice(0, end + delimiter.length);
    if (items.length === size) {
      return { items, next: folded === undefined ? item : { name: folded, at: 0n } };
    }
    if (folded === undefined) {
      items.push(item);
      for (const cursor of cursors) cursor.pass(item);
    } else {
      items.push({ name: folded, at: LAST, record: "prefix" });
      for (const cursor of cursors) cursor.passAll(folded);
    }
  }
}

const BATCH_MAX = 1000;
const HIDDEN_MAX = 10_000;
const FOLDING_BATCH_MAX = 100;

/** The next item of all cursors; where two have the same place, the first cursor's counts, unless it is hidden. */
async function firstOf(cursors: readonly Cursor[]): Promise<Item | undefined> {
  let first: Item | undefined;
  for (const cursor of cursors) {
    const item = await cursor.peek();
    if (item === undefined) continue;
    const order = first === undefined ? -1 : comparePlaces(item, first);
    if (order < 0 || (order === 0 && first?.record === "hidden")) first = item;
  }
  return first;
}

function comparePlaces(a: Item, b: Item): number {
  if (a.name === b.name) return a.at < b.at ? -1 : a.at > b.at ? 1 : 0;
  return Buffer.compare(Buffer.from(a.name), Buffer.from(b.name));
}

/** A kind of thing that a list can show: where its rows are, and what items they make. */
type Source = {
  /** The bytes that rows of these names begin with. */
  packed(container: bigint, names: string): Buffer;
  /** The bytes of the first row that a marker leaves to be shown. */
  start(container: bigint, marker: Marker): Buffer;
  /** The bytes of the first row after those that made this item, if it is made of several. */
  after?(container: bigint, item: Item): Buffer;
  rows(
    tx: ReadTx,
    container: bigint,
    walk: { from: Buffer; to: Uint8Array; limit: number },
  ): Promise<Item[]>;
};

/** What a list shows of a record: deleted ones only where they are asked for, and while they can be restored. */
const shown = (record: BlobRecord, now: Instant, withDeleted: boolean): BlobRecord | "hidden" => {
  if (record.deleted !== undefined) {
    return withDeleted && record.deleted.until > now ? record : "hidden";
  }
  return visible(record, now) ?? "hidden";
};

const blobSource = (withDeleted: boolean): Source => ({
  packed: (container, names) => blobs.packed([container], names),
  start: (container, { name }) => blobs.packed([container, name]),
  async rows(tx, container, walk) {
    const rows = await blobs.walk(tx, [container], walk);
    return rows.map(({ key: [, name], value }) => ({
      name,
      at: LAST,
      record: shown(value, tx.now, withDeleted),
      kind: "current",
    }));
  },
});

/** Snapshots or versions: they have a time of their own beside the name. */
const pastSource = (
  of: typeof snapshots,
  kind: "snapshot" | "version",
  withDeleted: boolean,
): Source => ({
  packed: (container, names) => of.packed([container], names),
  start: (container, { name, at }) => of.packed([container, name, at]),
  async rows(tx, container, walk) {
    const rows = await of.walk(tx, [container], walk);
    return rows.map(({ key: [, name, at], value }) => ({
      name,
      at,
      record: shown(value, tx.now, withDeleted),
      kind,
    }));
  },
});

/** The newest version, deleted or not, of each blob that has versions but no current state. */
const versionsOnlySource: Source = {
  packed: (container, names) => versions.packed([container], names),
  start: (container, { name }) => versions.packed([container, name]),
  after: (container, { name }) => Buffer.from(afterPrefix(versions.packed([container, name]))),
  async rows(tx, container, walk) {
    const items: Item[] = [];
    let from: Uint8Array = walk.from;
    while (items.length < walk.limit) {
      const [first] = await versions.walk(tx, [container], { from, to: walk.to, limit: 1 });
      if (first === undefined) break;
      const [, name] = first.key;
      from = afterPrefix(versions.packed([container, name]));
      const newest = { to: from, limit: 1, reverse: true };
      const [last = first] = await versions.walk(tx, [container, name], newest);
      const current = visible(await blobs.get(tx, container, name), tx.now);
      const record = current === undefined ? shown(last.value, tx.now, true) : "hidden";
      items.push({ name, at: LAST, record, kind: "versions-only" });
    }
    return items;
  },
};

const uncommittedSource: Source = {
  packed: (container, names) => uncommitted.packed([container], names),
  start: (container, { name }) => uncommitted.packed([container, name]),
  async rows(tx, container, walk) {
    const rows = await uncommitted.walk(tx, [container], walk);
    return rows.map(({ key: [, name] }) => ({ name, at: LAST, record: "uncommitted" }));
  },
};

const sourcesOf = (include: ReadonlySet<string>): Source[] => [
  blobSource(include.has("deleted")),
  ...(include.has("snapshots") ? [pastSource(snapshots, "snapshot", include.has("deleted"))] : []),
  ...(include.has("versions") ? [pastSource(versions, "version", include.has("deleted"))] : []),
  ...(include.has("deletedwithversions") && !include.has("versions") ? [versionsOnlySource] : []),
  ...(include.has("uncommittedblobs") ? [uncommittedSource] : []),
];

type CursorStart = {
  readonly container: bigint;
  readonly prefix: string;
  readonly batch: number;
  readonly from: Marker | undefined;
};

/** Walks one source, a batch at a time. */
class Cursor {
  readonly #source: Source;
  readonly #tx: ReadTx;
  readonly #container: bigint;
  readonly #batch: number;
  readonly #to: Uint8Array;
  #from: Buffer;
  #rows: Item[] = [];
  #at = 0;
  #isLast = false;

  constructor(source: Source, tx: ReadTx, { container, prefix, batch, from }: CursorStart) {
    this.#source = source;
    this.#tx = tx;
    this.#container = container;
    this.#batch = batch;
    const first = source.packed(container, prefix);
    const start = from === undefined ? first : source.start(container, from);
    this.#from = Buffer.compare(start, first) < 0 ? first : start;
    this.#to = afterPrefix(first);
  }

  async peek(): Promise<Item | undefined> {
    if (this.#at === this.#rows.length && !this.#isLast) {
      const walk = { from: this.#from, to: this.#to, limit: this.#batch };
      this.#rows = await this.#source.rows(this.#tx, this.#container, walk);
      this.#isLast = this.#rows.length < this.#batch;
      this.#at = 0;
      const last = this.#rows.at(-1);
      if (last !== undefined) {
        this.#from =
          this.#source.after?.(this.#container, last) ??
          Buffer.concat([this.#source.start(this.#container, last), Buffer.of(0)]);
      }
    }
    return this.#rows[this.#at];
  }

  /** Goes on past this item, if it stands at it or at its double. */
  pass(item: Item): void {
    const mine = this.#rows[this.#at];
    if (mine?.name === item.name && mine.at === item.at) this.#at++;
  }

  /** Goes on past all names that begin so, without reading them. */
  passAll(names: string): void {
    while (this.#rows[this.#at]?.name.startsWith(names)) this.#at++;
    const beyond = Buffer.from(afterPrefix(this.#source.packed(this.#container, names)));
    if (this.#at === this.#rows.length && Buffer.compare(this.#from, beyond) < 0) {
      this.#from = beyond;
    }
  }
}

/** A name as an element; one that XML cannot hold is percent-encoded, and says so (2021-02-12 and later). */
export const nameXml = (name: string): string =>
  isBeyondXml(name)
    ? `<Name Encoded="true">${encodeURIComponent(name)}</Name>`
    : `<Name>${escapeXml(name)}</Name>`;

function blobXml(
  { name, at, record, kind }: Item,
  include: ReadonlySet<string>,
  now: Instant,
): string {
  if (record === "prefix" || record === "hidden") return "";
  if (record === "uncommitted") {
    return `<Blob>${nameXml(name)}<Properties><Content-Length>0</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>`;
  }
  const metadata = !include.has("metadata")
    ? ""
    : record.customerKey === undefined
      ? metadataXml(record.metadata)
      : '<Metadata Encrypted="true" />';
  const tags = include.has("tags") && record.tags !== undefined ? tagsXml(record.tags) : "";
  let head = nameXml(name);
  if (record.deleted !== undefined) head += element("Deleted", true);
  if (kind === "snapshot") head += element("Snapshot", tickText(at));
  else if (kind === "version") head += element("VersionId", tickText(at));
  else if (record.version !== undefined) {
    head += element("VersionId", tickText(BigInt(`0x${record.version}`)));
    if (kind === "current") head += element("IsCurrentVersion", true);
  }
  const tail = kind === "versions-only" ? element("HasVersionsOnly", true) : "";
  const isLeasable = kind === "current" && record.deleted === undefined;
  const properties = propertiesXml(record, isLeasable, include, now);
  return `<Blob>${head}<Properties>${properties}</Properties>${metadata}${tags}${tail}</Blob>`;
}

function propertiesXml(
  blob: BlobRecord,
  isLeasable: boolean,
  include: ReadonlySet<string>,
  now: Instant,
): string {
  const { headers } = blob;
  const { tier, rehydration } = tierAt(blob, now);
  const tagCount = blob.tags === undefined ? 0 : Object.keys(blob.tags).length;
  let text = `<Creation-Time>${httpDate(blob.createdAt)}</Creation-Time><Last-Modified>${httpDate(blob.modifiedAt)}</Last-Modified><Etag>${blob.etag}</Etag><Content-Length>${blob.size}</Content-Length>`;
  text += element("Content-Type", headers.contentType ?? "application/octet-stream");
  text += element("Content-Encoding", headers.contentEncoding ?? "");
  text += element("Content-Language", headers.contentLanguage ?? "");
  text += element("Content-MD5", headers.contentMd5);
  text += element("Cache-Control", headers.cacheControl ?? "");
  text += element("Content-Disposition", headers.contentDisposition ?? "");
  text += element("x-ms-blob-sequence-number", blob.sequenceNumber);
  text += `<BlobType>${blob.type}</BlobType>`;
  if (blob.type === "BlockBlob") {
    text += `<AccessTier>${tier ?? INFERRED_TIER}</AccessTier>`;
    if (tier === undefined) text += "<AccessTierInferred>true</AccessTierInferred>";
  }
  if (blob.tierChangedAt !== undefined) {
    text += element("AccessTierChangeTime", httpDate(blob.tierChangedAt));
  }
  if (rehydration !== undefined) {
    text += element("ArchiveStatus", `rehydrate-pending-to-${rehydration.to.toLowerCase()}`);
    text += element("RehydratePriority", rehydration.priority);
  }
  if (isLeasable) {
    const lease = leaseProperties(leaseAt(blob.lease, now));
    text += `<LeaseStatus>${lease.status}</LeaseStatus><LeaseState>${lease.state}</LeaseState>`;
    text += element("LeaseDuration", lease.duration);
  }
  text += "<ServerEncrypted>true</ServerEncrypted>";
  text += element("CustomerProvidedKeySha256", blob.customerKey);
  text += element("EncryptionScope", blob.encryptionScope);
  if (tagCount > 0) text += `<TagCount>${tagCount}</TagCount>`;
  text += element("Sealed", blob.sealed);
  if (blob.expiresAt !== undefined) text += element("Expiry-Time", httpDate(blob.expiresAt));
  if (blob.deleted !== undefined) {
    text += element("DeletedTime", httpDate(blob.deleted.at));
    text += element("RemainingRetentionDays", daysLeft(blob.deleted, now));
  }
  const { copy } = blob;
  if (include.has("copy") && copy !== undefined) {
    text += `${element("CopyId", copy.id)}${element("CopyStatus", copy.status)}${element("CopySource", copy.source)}`;
    text += element("CopyProgress", `${copy.done}/${copy.total}`);
    if (copy.completedAt !== undefined) {
      text += element("CopyCompletionTime", httpDate(copy.completedAt));
    }
    text += element("CopyStatusDescription", copy.description);
    if (copy.incremental !== undefined) {
      text += element("IncrementalCopy", true);
      const taken = tickText(BigInt(`0x${copy.incremental.taken}`));
      text += element("DestinationSnapshot", taken);
    }
  }
  if (include.has("immutabilitypolicy") && blob.immutability !== undefined) {
    text += element("ImmutabilityPolicyUntilDate", httpDate(blob.immutability.until));
    text += element("ImmutabilityPolicyMode", blob.immutability.mode.toLowerCase());
  }
  if (include.has("legalhold")) text += element("LegalHold", blob.legalHold ?? false);
  return text;
}
