import { afterPrefix } from "../base/bytes.ts";
import { httpDate, type Instant, tickText } from "../base/time.ts";
import { element, escapeXml, XML_DECLARATION } from "../base/xml.ts";
import type { ReadTx } from "../engine/engine.ts";
import { readOperation, theService } from "../http/operation.ts";
import { leaseAt, leaseProperties } from "../rules/lease.ts";
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
import type {
  DeletedShareRecord,
  ShareRecord,
  ShareSnapshotRecord,
} from "../store/file-records.ts";
import { deletedShares, shareSnapshots, shares } from "../store/keys.ts";
import { rowsOf, tickOf } from "./namespace.ts";
import { versionText } from "./share.ts";

/** A share, a snapshot of one, or a deleted one; `at` orders those of one name. */
type Item = {
  readonly name: string;
  readonly at: bigint;
  readonly record: ShareSnapshotRecord;
  readonly deleted?: DeletedShareRecord;
};

type Wanted = {
  readonly account: string;
  readonly prefix: string;
  readonly include: ReadonlySet<string>;
  readonly from: Marker;
};

export const listShares = readOperation({
  name: "List Shares",
  match: { method: "GET", on: "service", comp: "list" },
  allow: { sas: "l", resource: "s" },
  guard: { on: theService, conditions: "none", lease: "own" },
  input: (request) => ({
    size: pageSizeOf(request),
    marker: markerOf(request),
    include: includeOf(request, ["snapshots", "metadata", "deleted"]),
  }),
  async apply({ tx, request, input: { size, marker, include } }) {
    const from = marker ?? { name: "", at: 0n };
    const prefix = request.query.get("prefix") ?? "";
    const items: Item[] = [];
    for await (const item of itemsOf(tx, { account: request.account, prefix, include, from })) {
      items.push(item);
      if (items.length > size) break;
    }
    const next = items[size];
    const texts = items.slice(0, size).map((item) => shareXml(item, include, tx.now));
    const nextMarker = next === undefined ? "" : markerText(next);
    const body = `${XML_DECLARATION}<EnumerationResults ServiceEndpoint="${escapeXml(request.endpoint)}">${echoed(request)}<Shares>${texts.join("")}</Shares><NextMarker>${nextMarker}</NextMarker></EnumerationResults>`;
    return { status: 200, headers: { "Content-Type": "application/xml" }, body };
  },
});

const BATCH = 100;

const isBefore = (one: Marker, other: Marker): boolean =>
  one.name < other.name || (one.name === other.name && one.at < other.at);

/** Shares by name; of one name the deleted ones and the snapshots from the oldest, then the share. */
async function* itemsOf(tx: ReadTx, wanted: Wanted): AsyncGenerator<Item> {
  const { account, prefix, include, from } = wanted;
  const start = from.name > prefix ? from.name : prefix;
  const to = afterPrefix(shares.packed([account], prefix));
  const living = rowsOf((page) => shares.walk(tx, [account], { ...page, to }), {
    start: shares.packed([account], start),
    batch: BATCH,
    packed: shares.packed,
  });
  const gone = include.has("deleted") ? goneItems(tx, account, prefix, start) : noItems();
  let dead = await gone.next();
  for await (const { key, value: share } of living) {
    const name = key[1];
    const items: Item[] = include.has("snapshots") ? await snapshotItems(tx, name, share) : [];
    items.push({ name, at: LAST, record: share });
    for (const item of items) {
      for (; !dead.done && isBefore(dead.value, item); dead = await gone.next()) {
        if (!isBefore(dead.value, from)) yield dead.value;
      }
      if (!isBefore(item, from)) yield item;
    }
  }
  for (; !dead.done; dead = await gone.next()) if (!isBefore(dead.value, from)) yield dead.value;
}

/** At most 200, and so few enough to be read together. */
async function snapshotItems(tx: ReadTx, name: string, share: ShareRecord): Promise<Item[]> {
  const taken = await shareSnapshots.walk(tx, [tickOf(share.id)], { limit: 1000 });
  return taken.map(({ key, value }) => ({ name, at: key[1], record: value }));
}

async function* noItems(): AsyncGenerator<Item> {}

/** Deleted shares that can still be restored, by name, those that were deleted earlier first. */
async function* goneItems(
  tx: ReadTx,
  account: string,
  prefix: string,
  start: string,
): AsyncGenerator<Item> {
  const to = afterPrefix(deletedShares.packed([account], prefix));
  const rows = rowsOf((page) => deletedShares.walk(tx, [account], { ...page, to }), {
    start: deletedShares.packed([account], start),
    batch: BATCH,
    packed: deletedShares.packed,
  });
  for await (const { key, value } of rows) {
    if (value.expiresAt <= tx.now) continue;
    yield { name: key[1], at: key[2], record: value.share, deleted: value };
  }
}

const DAY_MS = 24 * 3600 * 1000;

function shareXml(item: Item, include: ReadonlySet<string>, now: Instant): string {
  const { name, at, record, deleted } = item;
  const lease = leaseProperties(leaseAt(record.lease, now));
  const head =
    deleted !== undefined
      ? element("Deleted", true) + element("Version", versionText(at))
      : element("Snapshot", at === LAST ? undefined : tickText(at));
  const properties =
    element("Last-Modified", httpDate(record.modifiedAt)) +
    element("Etag", `"${record.etag}"`) +
    element("Quota", record.quota) +
    (deleted === undefined
      ? ""
      : element("DeletedTime", httpDate(deleted.deletedAt)) +
        element("RemainingRetentionDays", Math.ceil((deleted.expiresAt - now) / DAY_MS))) +
    element("AccessTier", record.tier) +
    element(
      "AccessTierChangeTime",
      record.tierChangedAt === undefined ? undefined : httpDate(record.tierChangedAt),
    ) +
    element("LeaseStatus", lease.status) +
    element("LeaseState", lease.state) +
    element("LeaseDuration", lease.duration) +
    element("EnabledProtocols", "SMB");
  const metadata = include.has("metadata") ? metadataXml(record.metadata) : "";
  return `<Share>${element("Name", name)}${head}<Properties>${properties}</Properties>${metadata}</Share>`;
}
