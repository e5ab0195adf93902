import { httpDate, type Instant, tickText } from "../base/time.ts";
import { element, escapeXml, XML_DECLARATION } from "../base/xml.ts";
import type { ReadTx } from "../engine/engine.ts";
import { readOperation, theService } from "../http/operation.ts";
import { leaseAt, leaseProperties } from "../rules/lease.ts";
import { echoed, includeOf, LAST, markerOf, markerText, pageSizeOf } from "../service/paging.ts";
import { metadataXml } from "../service/resource.ts";
import type { DeletedShareRecord, ShareSnapshotRecord } from "../store/file-records.ts";
import { deletedShares, shareSnapshots, shares } from "../store/keys.ts";
import { tickOf } from "./namespace.ts";
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
  readonly from: { readonly name: string; readonly at: bigint };
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

/** Shares by name; of one name the deleted ones first, then the snapshots from the oldest, then the share. */
async function* itemsOf(tx: ReadTx, wanted: Wanted): AsyncGenerator<Item> {
  const { account, prefix, include, from } = wanted;
  const isFrom = ({ name, at }: Item) => name > from.name || (name === from.name && at >= from.at);
  for (let start = from.name > prefix ? from.name : prefix; ; ) {
    const first = shares.packed([account], start);
    const live = await shares.walk(tx, [account], { from: first, limit: BATCH });
    const end = live.length < BATCH ? undefined : live.at(-1)?.key[1];
    const gone = include.has("deleted") ? await goneFrom(tx, account, start, end) : [];
    const names = new Set([...gone.map(({ name }) => name), ...live.map(({ key }) => key[1])]);
    for (const name of [...names].sort()) {
      if (!name.startsWith(prefix)) return;
      for (const item of gone) if (item.name === name && isFrom(item)) yield item;
      const share = live.find(({ key }) => key[1] === name)?.value;
      if (share === undefined) continue;
      if (include.has("snapshots")) {
        const taken = await shareSnapshots.walk(tx, [tickOf(share.id)], { limit: 1000 });
        for (const { key, value } of taken) {
          const item = { name, at: key[1], record: value };
          if (isFrom(item)) yield item;
        }
      }
      const item = { name, at: LAST, record: share };
      if (isFrom(item)) yield item;
    }
    if (end === undefined) return;
    start = `${end}\u0001`; // names hold no control character, so this comes right behind
  }
}

/** Deleted shares that can still be restored, from a name on up to another. */
async function goneFrom(
  tx: ReadTx,
  account: string,
  start: string,
  end: string | undefined,
): Promise<Item[]> {
  const found: Item[] = [];
  for (let from = deletedShares.packed([account], start); ; ) {
    const rows = await deletedShares.walk(tx, [account], { from, limit: BATCH });
    for (const { key, value } of rows) {
      if (end !== undefined && key[1] > end) return found;
      if (value.expiresAt <= tx.now) continue;
      found.push({ name: key[1], at: key[2], record: value.share, deleted: value });
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH) return found;
    from = Buffer.concat([deletedShares.packed(last.key), Buffer.of(0)]);
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
