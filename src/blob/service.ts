import { httpDate } from "../base/time.ts";
import { element, escapeXml, XML_DECLARATION } from "../base/xml.ts";
import { type Level, readOperation, theService } from "../http/operation.ts";
import { leaseAt, leaseProperties } from "../rules/lease.ts";
import { echoed, includeOf, LAST, markerOf, markerText, pageSizeOf } from "../service/paging.ts";
import { metadataXml } from "../service/resource.ts";
import { containers } from "../store/keys.ts";
import type { ContainerRecord } from "../store/records.ts";

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
  async apply({ tx, request, input: { size, marker, include } }) {
    const prefix = request.query.get("prefix") ?? "";
    const first = containers.packed([request.account], prefix);
    const from = marker === undefined ? first : containers.packed([request.account], marker.name);
    const rows = await containers.walk(tx, [request.account], {
      from: Buffer.compare(from, first) < 0 ? first : from,
      limit: size + 1,
    });
    const found = rows.filter(({ key: [, name] }) => name.startsWith(prefix));
    const next = found.length > size ? found[size] : undefined;
    const items = found
      .slice(0, size)
      .map(({ key: [, name], value }) =>
        containerXml(name, value, include.has("metadata"), tx.now),
      );
    const nextMarker = next === undefined ? "" : markerText({ name: next.key[1], at: LAST });
    const body = `${XML_DECLARATION}<EnumerationResults ServiceEndpoint="${escapeXml(request.endpoint)}">${echoed(request)}<Containers>${items.join("")}</Containers><NextMarker>${nextMarker}</NextMarker></EnumerationResults>`;
    return { status: 200, headers: { "Content-Type": "application/xml" }, body };
  },
});

function containerXml(
  name: string,
  record: ContainerRecord,
  withMetadata: boolean,
  now: number,
): string {
  const lease = leaseProperties(leaseAt(record.lease, now));
  const properties =
    element("Last-Modified", httpDate(record.modifiedAt)) +
    element("Etag", record.etag) +
    element("LeaseStatus", lease.status) +
    element("LeaseState", lease.state) +
    element("LeaseDuration", lease.duration) +
    element("PublicAccess", record.publicAccess) +
    element("DefaultEncryptionScope", record.encryptionScope ?? "$account-encryption-key") +
    element("DenyEncryptionScopeOverride", record.denyScopeOverride ?? false) +
    element("HasImmutabilityPolicy", false) +
    element("HasLegalHold", false) +
    element("ImmutableStorageWithVersioningEnabled", false);
  const metadata = withMetadata ? metadataXml(record.metadata) : "";
  return `<Container>${element("Name", name)}<Properties>${properties}</Properties>${metadata}</Container>`;
}

/** The account is what a general purpose account of Azure would say of itself, whatever the path names. */
export const getAccountInformation = (["service", "container", "blob"] as const).map((on: Level) =>
  readOperation({
    name: on === "service" ? "Get Account Information" : `Get Account Information (${on})`,
    match: { method: "GET", headToo: true, on, restype: "account", comp: "properties" },
    allow: { sas: "rwdlacup", resource: on === "service" ? "s" : on === "container" ? "c" : "o" },
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
