import { httpDate, type Instant } from "../base/time.ts";
import { element, escapeXml, XML_DECLARATION } from "../base/xml.ts";
import type { ReadTx } from "../engine/engine.ts";
import { type Level, readOperation, theService } from "../http/operation.ts";
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
import { containers, deletedContainers } from "../store/keys.ts";
import type { ContainerRecord } from "../store/records.ts";
import { FEED_CONTAINER } from "./change-feed.ts";
import { daysLeft } from "./history.ts";

export const listContainers = readOperation({
  name: "List Containers",
  match: { method: "GET", on: "service", comp: "list" },
  allow: { sas: "l", resource: "s" },
  guard: { on: theService, conditions: "none", lease: "own" },
  input: (request) => ({
    size: pageSizeOf(request),
    marker: markerOf(request),
    include: includeOf(request, ["metadata", "deleted", "system"]),
  }),
  async apply({ tx, request, input: { size, marker, include }, around: { settings } }) {
    const { account } = request;
    const prefix = request.query.get("prefix") ?? "";
    const walk = {
      from: after(containers.packed([account], prefix), marker, account),
      limit: size + 2, // one more than a page, and one that may be hidden
    };
    const rows = await containers.walk(tx, [account], walk);
    const found: Listed[] = rows
      .map(({ key: [, name], value }) => ({ name, at: LAST, value }))
      .filter(({ name }) => name !== FEED_CONTAINER || include.has("system"));
    if (include.has("deleted"))
      found.push(...(await deletedOf(tx, account, { prefix, marker, size })));
    const matching = found.filter(({ name }) => name.startsWith(prefix)).sort(compareListed);
    const next = matching.length > size ? matching[size] : undefined;
    const items = matching
      .slice(0, size)
      .map((listed) =>
        containerXml(listed, include.has("metadata"), settings.immutableStorage, tx.now),
      );
    const nextMarker = next === undefined ? "" : markerText(next);
    const body = `${XML_DECLARATION}<EnumerationResults ServiceEndpoint="${escapeXml(request.endpoint)}">${echoed(request)}<Containers>${items.join("")}</Containers><NextMarker>${nextMarker}</NextMarker></EnumerationResults>`;
    return { status: 200, headers: { "Content-Type": "application/xml" }, body };
  },
});

/** A container in a list; those that are deleted stand before the one that has their name now. */
type Listed = { readonly name: string; readonly at: bigint; readonly value: ContainerRecord };

const compareListed = (a: Listed, b: Listed): number =>
  a.name < b.name ? -1 : a.name > b.name ? 1 : a.at < b.at ? -1 : a.at > b.at ? 1 : 0;

/** Where a walk over current containers begins. */
function after(first: Buffer, marker: Marker | undefined, account: string): Buffer {
  const from = marker === undefined ? first : containers.packed([account], marker.name);
  return Buffer.compare(from, first) < 0 ? first : from;
}

async function deletedOf(
  tx: ReadTx,
  account: string,
  { prefix, marker, size }: { prefix: string; marker: Marker | undefined; size: number },
): Promise<Listed[]> {
  const first = deletedContainers.packed([account], prefix);
  const start =
    marker === undefined ? first : deletedContainers.packed([account, marker.name, marker.at]);
  const from = Buffer.compare(start, first) < 0 ? first : start;
  const rows = await deletedContainers.walk(tx, [account], { from, limit: size + 1 });
  return rows
    .filter(({ value }) => value.deleted !== undefined && value.deleted.until > tx.now)
    .map(({ key: [, name, at], value }) => ({ name, at, value }));
}

function containerXml(
  { name, at, value: record }: Listed,
  withMetadata: boolean,
  isImmutable: boolean,
  now: Instant,
): string {
  const { deleted } = record;
  const lease = leaseProperties(leaseAt(record.lease, now));
  const properties =
    element("Last-Modified", httpDate(record.modifiedAt)) +
    element("Etag", record.etag) +
    (deleted === undefined
      ? element("LeaseStatus", lease.status) +
        element("LeaseState", lease.state) +
        element("LeaseDuration", lease.duration)
      : element("DeletedTime", httpDate(deleted.at)) +
        element("RemainingRetentionDays", daysLeft(deleted, now))) +
    element("PublicAccess", record.publicAccess) +
    element("DefaultEncryptionScope", record.encryptionScope ?? "$account-encryption-key") +
    element("DenyEncryptionScopeOverride", record.denyScopeOverride ?? false) +
    element("HasImmutabilityPolicy", false) +
    element("HasLegalHold", false) +
    element("ImmutableStorageWithVersioningEnabled", isImmutable);
  const metadata = withMetadata ? metadataXml(record.metadata) : "";
  const version =
    deleted === undefined
      ? ""
      : element("Deleted", true) + element("Version", at.toString(16).toUpperCase());
  return `<Container>${element("Name", name)}${version}<Properties>${properties}</Properties>${metadata}</Container>`;
}

/** Whatever a signature allows, it allows to ask this. */
const ANY = "racwdxyltmeopif";

/** The account is what a general purpose account of Azure would say of itself, whatever the path names. */
export const getAccountInformation = (["service", "container", "blob"] as const).map((on: Level) =>
  readOperation({
    name: on === "service" ? "Get Account Information" : `Get Account Information (${on})`,
    match: { method: "GET", headToo: true, on, restype: "account", comp: "properties" },
    allow: {
      sas: ANY,
      resource: on === "service" ? "s" : on === "container" ? "c" : "o",
      service: ANY,
      user: ANY,
    },
    guard: { on: theService, conditions: "none", lease: "own" },
    async apply() {
      const headers = {
        "x-ms-sku-name": "Standard_LRS",
        "x-ms-account-kind": "StorageV2",
        "x-ms-is-hns-enabled": false,
      };
      return { status: 200, headers };
    },
  }),
);
