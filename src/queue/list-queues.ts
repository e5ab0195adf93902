import { afterPrefix } from "../base/bytes.ts";
import { element, escapeXml, isBeyondXml, XML_DECLARATION } from "../base/xml.ts";
import { type Request, readOperation, theService } from "../http/operation.ts";
import { invalidQuery } from "../rules/errors.ts";
import { echoed, includeOf, LAST, markerOf, markerText, pageSizeOf } from "../service/paging.ts";
import { metadataXml } from "../service/resource.ts";
import { queues } from "../store/keys.ts";

export const listQueues = readOperation({
  name: "List Queues",
  match: { method: "GET", on: "service", comp: "list" },
  allow: { sas: "l", resource: "s" },
  guard: { on: theService, conditions: "none", lease: "own" },
  input: (request) => ({
    prefix: prefixOf(request),
    size: pageSizeOf(request),
    marker: markerOf(request, "InvalidMarker"),
    include: includeOf(request, ["metadata"]),
  }),
  async apply({ tx, request, input: { prefix, size, marker, include } }) {
    const first = queues.packed([request.account], prefix);
    const from = marker === undefined ? first : queues.packed([request.account], marker.name);
    const rows = await queues.walk(tx, [request.account], {
      from: Buffer.compare(from, first) < 0 ? first : from,
      to: afterPrefix(first),
      limit: size + 1,
    });
    const next = rows.length > size ? rows[size] : undefined;
    const items = rows
      .slice(0, size)
      .map(
        ({ key: [, name], value: { metadata } }) =>
          `<Queue>${element("Name", name)}${include.has("metadata") ? metadataXml(metadata) : ""}</Queue>`,
      );
    const nextMarker = next === undefined ? "" : markerText({ name: next.key[1], at: LAST });
    const body = `${XML_DECLARATION}<EnumerationResults ServiceEndpoint="${escapeXml(request.endpoint)}">${echoed(request)}<Queues>${items.join("")}</Queues><NextMarker>${nextMarker}</NextMarker></EnumerationResults>`;
    return { status: 200, headers: { "Content-Type": "application/xml" }, body };
  },
});

/** The reply tells it back, so it must be something that XML can hold. */
function prefixOf({ query }: Request): string {
  const prefix = query.get("prefix") ?? "";
  if (isBeyondXml(prefix)) throw invalidQuery("prefix", "");
  return prefix;
}
