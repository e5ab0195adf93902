import { httpDate, tickText } from "../base/time.ts";
import { element, escapeXml, XML_DECLARATION } from "../base/xml.ts";
import type { ReadTx } from "../engine/engine.ts";
import { readOperation } from "../http/operation.ts";
import { folded } from "../rules/file-names.ts";
import { attributesText } from "../rules/smb-properties.ts";
import { echoed, includeOf, LAST, markerOf, markerText, pageSizeOf } from "../service/paging.ts";
import type { EntryRecord, NodeRecord } from "../store/file-records.ts";
import { entriesOf, nodeOf, tickOf, type View } from "./namespace.ts";
import { isTrue, pathIn, theDirectory } from "./resource.ts";
import { viewOf } from "./tree.ts";

const EXTRAS = ["timestamps", "etag", "attributes", "permissionkey"];

export const listDirectoriesAndFiles = readOperation({
  name: "List Directories and Files",
  match: { method: "GET", on: "directory", restype: "directory", comp: "list" },
  allow: { sas: "l", resource: "c", service: "l" },
  snapshots: true,
  guard: { on: theDirectory("list"), conditions: "none", lease: "own" },
  input(request) {
    isTrue(request, "x-ms-file-extended-info"); // sizes are always up to date here
    return {
      size: pageSizeOf(request),
      marker: markerOf(request),
      include: includeOf(request, EXTRAS),
    };
  },
  async apply({ tx, request, place, found, input: { size, marker, include }, around: { opens } }) {
    const { share } = place;
    const view = viewOf(share);
    const listed = await entriesOf(tx, view, tickOf(found.id), {
      prefix: folded(request.query.get("prefix") ?? ""),
      from: marker?.name,
      limit: size,
    });
    let items = "";
    for (const entry of listed.entries) {
      const identity = { share: share.id, file: tickOf(entry.id) };
      // What SMB clients have marked for deletion is listed no more, though it is still there.
      if (view.at === undefined && opens.isDeletePending(identity)) continue;
      items += await entryXml(tx, view, entry, include);
    }
    const { next } = listed;
    const nextMarker = next === undefined ? "" : markerText({ name: next, at: LAST });
    const attributes = [
      `ServiceEndpoint="${escapeXml(request.endpoint)}"`,
      `ShareName="${escapeXml(share.name)}"`,
      ...(view.at === undefined ? [] : [`ShareSnapshot="${tickText(view.at)}"`]),
      `DirectoryPath="${escapeXml(pathIn(request).join("/"))}"`,
    ];
    const body = `${XML_DECLARATION}<EnumerationResults ${attributes.join(" ")}>${echoed(request)}<Entries>${items}</Entries><NextMarker>${nextMarker}</NextMarker>${element("DirectoryId", String(tickOf(found.id)))}</EnumerationResults>`;
    return { status: 200, headers: { "Content-Type": "application/xml" }, body };
  },
});

async function entryXml(
  tx: ReadTx,
  view: View,
  entry: EntryRecord,
  include: ReadonlySet<string>,
): Promise<string> {
  const id = tickOf(entry.id);
  const head = element("FileId", String(id)) + element("Name", entry.name);
  // Of a directory nothing else is told unless it is asked for.
  const isPlain = entry.kind === "directory" && include.size === 0;
  const node = isPlain ? undefined : await nodeOf(tx, view, id);
  if (node === undefined) return `<Directory>${head}<Properties /></Directory>`;
  const tail =
    (include.has("attributes") ? element("Attributes", attributesText(node.attributes)) : "") +
    (include.has("permissionkey") ? element("PermissionKey", node.permission) : "");
  const kind = node.kind === "file" ? "File" : "Directory";
  return `<${kind}>${head}<Properties>${propertiesXml(node, include)}</Properties>${tail}</${kind}>`;
}

function propertiesXml(node: NodeRecord, include: ReadonlySet<string>): string {
  const size = node.kind === "file" ? element("Content-Length", node.size) : "";
  const time = (hex: string) => tickText(tickOf(hex));
  const times = include.has("timestamps")
    ? element("CreationTime", time(node.createdAt)) +
      element("LastAccessTime", time(node.accessedAt ?? node.writtenAt)) +
      element("LastWriteTime", time(node.writtenAt)) +
      element("ChangeTime", time(node.changedAt)) +
      element("Last-Modified", httpDate(node.modifiedAt))
    : "";
  return size + times + (include.has("etag") ? element("Etag", `"${node.etag}"`) : "");
}
