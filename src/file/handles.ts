import { httpDate } from "../base/time.ts";
import { element, escapeXml, XML_DECLARATION } from "../base/xml.ts";
import type { ReadTx } from "../engine/engine.ts";
import { type Request, readOperation, writeOperation } from "../http/operation.ts";
import { invalidHeader, invalidQuery, missingHeader } from "../rules/errors.ts";
import { DELETE, READ, type Rights, WRITE } from "../rules/sharing.ts";
import { pageSizeOf } from "../service/paging.ts";
import type { NodeRecord } from "../store/file-records.ts";
import type { OpenFile, Opens } from "../store/opens.ts";
import { nodeOf, tickOf, type View } from "./namespace.ts";
import { isTrue, type NodePlace, theNode } from "./resource.ts";
import { isWithin, pathOf, viewOf } from "./tree.ts";

/** Handles closed by one request at most; the reply says where to go on. */
const CLOSE_MAX = 1000;
const NUMBER = /^\d{1,20}$/;

function afterOf({ query }: Request): bigint {
  const text = query.get("marker");
  if (text === undefined || text === "") return 0n;
  if (!NUMBER.test(text)) throw invalidQuery("marker", text);
  return BigInt(text);
}

type Wanted = { readonly isRecursive: boolean; readonly from: bigint };

/** The opens of a file, or of a directory and, if that is wanted, of all that is in it. */
async function opensOf(
  tx: ReadTx,
  opens: Opens,
  { share }: NodePlace,
  node: NodeRecord,
  { isRecursive, from }: Wanted,
): Promise<OpenFile[]> {
  if (node.kind === "file" && isRecursive) throw invalidHeader("x-ms-recursive", "true");
  const view = viewOf(share);
  if (view.at !== undefined) return []; // nothing is held open in a snapshot
  const id = tickOf(node.id);
  const found: OpenFile[] = [];
  for (const open of opens.inShare(share.id)) {
    if (open.handle < from) continue;
    const isMeant = isRecursive ? await isWithin(tx, view, open.file, id) : open.file === id;
    if (isMeant) found.push(open);
  }
  return found;
}

export const listHandles = readOperation({
  name: "List Handles",
  match: { method: "GET", on: "file", comp: "listhandles" },
  allow: { sas: "rl", resource: "o" },
  snapshots: true,
  guard: { on: theNode("list"), conditions: "none", lease: "own" },
  input: (request) => ({
    size: pageSizeOf(request),
    wanted: { isRecursive: isTrue(request, "x-ms-recursive"), from: afterOf(request) },
  }),
  async apply({ tx, place, found, input: { size, wanted }, around: { opens } }) {
    const all = await opensOf(tx, opens, place, found, wanted);
    const items: string[] = [];
    for (const open of all.slice(0, size))
      items.push(await handleXml(tx, viewOf(place.share), open));
    const next = all[size]?.handle;
    const body = `${XML_DECLARATION}<EnumerationResults><Entries>${items.join("")}</Entries><NextMarker>${next ?? ""}</NextMarker></EnumerationResults>`;
    return { status: 200, headers: { "Content-Type": "application/xml" }, body };
  },
});

async function handleXml(tx: ReadTx, view: View, open: OpenFile): Promise<string> {
  const node = await nodeOf(tx, view, open.file);
  const path = node === undefined ? "" : (await pathOf(tx, view, node)).join("/");
  const { session, address, name, openedAt, resumedAt } = open.holder;
  return `<Handle>${element("HandleId", String(open.handle))}<Path>${escapeXml(path)}</Path>${element("FileId", String(open.file))}${element("ParentId", node === undefined ? undefined : String(tickOf(node.parent)))}${element("SessionId", String(session))}${element("ClientIp", address)}${element("ClientName", name)}${element("OpenTime", httpDate(openedAt))}${element("LastReconnectTime", resumedAt === undefined ? undefined : httpDate(resumedAt))}<AccessRightList>${rightsXml(open.access)}</AccessRightList></Handle>`;
}

const rightsXml = (access: Rights): string =>
  (
    [
      [READ, "Read"],
      [WRITE, "Write"],
      [DELETE, "Delete"],
    ] as const
  )
    .filter(([bit]) => (access & bit) !== 0)
    .map(([, name]) => element("AccessRight", name))
    .join("");

export const forceCloseHandles = writeOperation({
  name: "Force Close Handles",
  match: { method: "PUT", on: "file", comp: "forceclosehandles" },
  allow: { sas: "w", resource: "o" },
  snapshots: true,
  guard: { on: theNode("list"), conditions: "none", lease: "own" },
  input(request) {
    const text = request.header("x-ms-handle-id");
    if (text === undefined) throw missingHeader("x-ms-handle-id");
    if (text !== "*" && !NUMBER.test(text)) throw invalidHeader("x-ms-handle-id", text);
    return {
      handle: text === "*" ? undefined : BigInt(text),
      wanted: { isRecursive: isTrue(request, "x-ms-recursive"), from: afterOf(request) },
    };
  },
  async apply({ tx, place, found, input: { handle, wanted }, around: { opens } }) {
    const all = await opensOf(tx, opens, place, found, wanted);
    const meant = all.filter((open) => handle === undefined || open.handle === handle);
    const closed = meant.slice(0, CLOSE_MAX);
    tx.afterCommit(() => {
      for (const open of closed) opens.evict(open);
    });
    const next = meant[CLOSE_MAX]?.handle;
    const headers = {
      "x-ms-marker": next === undefined ? undefined : String(next),
      "x-ms-number-of-handles-closed": closed.length,
      "x-ms-number-of-handles-failed": 0,
    };
    return { status: 200, headers };
  },
});
