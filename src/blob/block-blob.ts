import { parseBase64 } from "../base/bytes.ts";
import { element, XML_DECLARATION, type XmlElement } from "../base/xml.ts";
import type { WriteTx } from "../engine/engine.ts";
import { CUSTOMER_KEY_HEADERS, IMMUTABILITY_HEADERS } from "../http/heeded.ts";
import {
  type Call,
  createOperation,
  type HeaderValue,
  type Reply,
  type Request,
  searchOperation,
} from "../http/operation.ts";
import { invalidHeader, invalidQuery, StorageError } from "../rules/errors.ts";
import { available, leaseAfterWrite, leaseAt } from "../rules/lease.ts";
import { checkedMetadata } from "../rules/metadata.ts";
import { parseTagHeader } from "../rules/tags.ts";
import {
  isPremiumTier,
  parseTier,
  type RehydratePriority,
  type Tier,
  tierAt,
} from "../rules/tiers.ts";
import { bodySizeMax } from "../rules/versions.ts";
import { changedHeaders, changedNow } from "../service/resource.ts";
import { blocks, uncommitted } from "../store/keys.ts";
import type { BlobRecord, BlockRecord, Content, Piece } from "../store/records.ts";
import { dropBlocks } from "../store/sweep.ts";
import { httpHeadersOf, stateHeaders } from "./blob-headers.ts";
import { encryptedHeaders, keyNoted, refuseOtherKey } from "./customer-key.ts";
import { refuseOtherScope } from "./encryption-scope.ts";
import { type Change, refusePending, replaceBlob, setAside } from "./history.ts";
import { heldOf, noteHeld, refuseHold } from "./immutability.ts";
import { type BlobPlace, theBlob } from "./resource.ts";

const BLOCK_ID_MAX = 64;
const UNCOMMITTED_MAX = 100_000;
const BLOCKS_MAX = 50_000;
const BLOCK_LIST_SIZE_MAX = 8 * 1024 * 1024;

/** What a request says of the blob it makes, beside its bytes, whose size is the blob's. */
export function newBlobOf(request: Request) {
  const size = request.header("x-ms-blob-content-length");
  if (size !== undefined) throw invalidHeader("x-ms-blob-content-length", size);
  return describedBlob(request);
}

/** What a request says of a blob of any type that it makes. */
export function describedBlob(request: Request) {
  return {
    metadata: checkedMetadata(request.headersFrom("x-ms-meta-")),
    tags: parseTagHeader(request.header("x-ms-tags")),
    tier: tierOf(request),
    encryptionScope: request.header("x-ms-encryption-scope"),
    held: heldOf(request),
  };
}

/** The tier a header names, if it does; a tier of premium page blobs is none for a block blob. */
export function tierOf(request: Request): Tier | undefined {
  const text = request.header("x-ms-access-tier");
  if (text === undefined) return undefined;
  if (isPremiumTier(text)) throw new StorageError("AccessTierNotSupportedForBlobType");
  const tier = parseTier(text);
  if (tier === undefined) throw invalidHeader("x-ms-access-tier", text);
  return tier;
}

/** How soon a blob is to leave the archive. */
export function priorityOf(request: Request): RehydratePriority {
  const text = request.header("x-ms-rehydrate-priority") ?? "Standard";
  const priority = (["High", "Standard"] as const).find(
    (name) => name.toLowerCase() === text.toLowerCase(),
  );
  if (priority === undefined) throw invalidHeader("x-ms-rehydrate-priority", text);
  return priority;
}

type NewBlob = ReturnType<typeof newBlobOf> & {
  readonly type: BlobRecord["type"];
  readonly headers: BlobRecord["headers"];
  readonly size: number;
  readonly content: Content;
} & Partial<Pick<BlobRecord, "copy" | "sealed" | "blockCount" | "customerKey" | "sequenceNumber">>;

/** Writes a whole blob over what was there: its lease, tier and age stay, all else is replaced. */
export async function overwrite(
  change: Change,
  before: BlobRecord | undefined,
  { tags, tier, encryptionScope, held, ...given }: NewBlob,
): Promise<BlobRecord> {
  const { tx, around } = change;
  refuseHold(held, around.settings, tx.now);
  await refuseOtherScope(tx, change.place, encryptionScope);
  if (held.immutability !== undefined || held.legalHold) await noteHeld(tx, change.place);
  const changed = changedNow(tx);
  // Another type of blob has other tiers, or none.
  const same = before?.type === given.type ? before : undefined;
  const kept = same === undefined ? {} : tierAt(same, tx.now);
  const record: BlobRecord = {
    ...changed,
    ...held,
    ...given,
    createdAt: before?.createdAt ?? changed.modifiedAt,
    lease: before === undefined ? available : leaseAfterWrite(leaseAt(before.lease, tx.now)),
    ...(tags === undefined ? {} : { tags }),
    ...(encryptionScope === undefined ? {} : { encryptionScope }),
    ...(kept.tier === undefined ? {} : { tier: kept.tier }),
    ...(same?.tierChangedAt === undefined ? {} : { tierChangedAt: same.tierChangedAt }),
    ...(tier === undefined ? {} : { tier, tierChangedAt: changed.modifiedAt }),
  };
  return replaceBlob(change, before, record);
}

/** Refuses blocks where there is a blob of another type. */
function refuseOtherType(found: BlobRecord | undefined): void {
  if (found !== undefined && found.type !== "BlockBlob") throw new StorageError("InvalidBlobType");
}

/** An archived blob takes no new content, unless the request moves it out of the archive. */
export function refuseArchived(found: BlobRecord | undefined, now: number, tier?: Tier): void {
  if (found === undefined || tier !== undefined) return;
  if (tierAt(found, now).tier === "Archive") throw new StorageError("BlobArchived");
}

export const putBlob = createOperation({
  name: "Put Blob (block blob)",
  match: {
    method: "PUT",
    on: "blob",
    header: { name: "x-ms-blob-type", value: "BlockBlob" },
  },
  allow: { sas: "cw", resource: "o", overwrite: "w" },
  body: {
    kind: "bytes",
    sizeMax: (version) => bodySizeMax(version).blob,
    md5: "always",
    md5Headers: ["x-ms-blob-content-md5", "content-md5"],
  },
  heeds: [...IMMUTABILITY_HEADERS, ...CUSTOMER_KEY_HEADERS],
  givesEtag: true,
  guard: { on: theBlob, conditions: "create", lease: "guarded" },
  input(request) {
    return { ...newBlobOf(request), headers: httpHeadersOf(request, true) };
  },
  async apply(call) {
    const { tx, place, found, input, received } = call;
    const { contents } = call.around;
    refuseArchived(found, tx.now, input.tier);
    const { container, name } = place;
    if ((await uncommitted.get(tx, container, name)) !== undefined) {
      await dropBlocks(tx, contents, container, name);
    }
    const pieces = contents.keep(tx, received.staged).map((chunk): Piece => ({ chunk }));
    const record = await overwrite(call, found, {
      ...input,
      type: "BlockBlob",
      headers: {
        ...input.headers,
        ...(received.md5 === undefined ? {} : { contentMd5: received.md5 }),
      },
      ...keyNoted(call.request),
      size: received.staged.size,
      content: contents.made(tx, pieces),
    });
    const headers: Record<string, HeaderValue> = {
      ...stateHeaders(record),
      "Content-MD5": received.md5,
      "x-ms-content-crc64": received.crc64,
      ...encryptedHeaders(record),
    };
    return { status: 201, headers };
  },
});

function blockIdOf({ query }: Request): string {
  const text = query.get("blockid");
  if (text === undefined) {
    throw new StorageError("MissingRequiredQueryParameter", { QueryParameterName: "blockid" });
  }
  if (!isBlockId(text)) throw invalidQuery("blockid", text, "Not a valid base64 string.");
  return text;
}

function isBlockId(text: string): boolean {
  const size = parseBase64(text)?.length;
  return size !== undefined && size > 0 && size <= BLOCK_ID_MAX;
}

export const blockInput = (request: Request): BlockInput => ({
  id: blockIdOf(request),
  encryptionScope: request.header("x-ms-encryption-scope"),
});

export const putBlock = createOperation({
  name: "Put Block",
  match: { method: "PUT", on: "blob", comp: "block" },
  allow: { sas: "w", resource: "o" },
  body: {
    kind: "bytes",
    sizeMax: (version) => bodySizeMax(version).block,
    md5: "if-sent",
    md5Headers: ["content-md5"],
  },
  heeds: CUSTOMER_KEY_HEADERS,
  guard: { on: theBlob, conditions: "none", lease: "guarded" },
  input(request) {
    if (request.body.size === 0) throw invalidHeader("Content-Length", "0");
    return blockInput(request);
  },
  apply: keptBlock,
});

type BlockInput = { readonly id: string; readonly encryptionScope: string | undefined };
type BlockCall = Call<WriteTx, BlockInput, BlobPlace, BlobRecord | undefined>;

/** Keeps what was received as a block that waits for a list to name it. */
export async function keptBlock(call: BlockCall): Promise<Reply> {
  const { tx, request, place, found, input, received, around } = call;
  const { contents } = around;
  const { container, name } = place;
  refuseOtherType(found);
  refusePending(found);
  refuseArchived(found, tx.now);
  await refuseOtherScope(tx, place, input.encryptionScope);
  setAside(call);
  const mark = await uncommitted.get(tx, container, name);
  const idSize = Buffer.byteLength(input.id, "base64"); // "9" and "10" are of one length in base64, and not the same
  if (mark !== undefined && mark.idSize !== idSize) {
    throw new StorageError("InvalidBlobOrBlock");
  }
  const before = await blocks.get(tx, container, name, input.id);
  const count = (mark?.count ?? 0) + (before === undefined ? 1 : 0);
  if (count > UNCOMMITTED_MAX) throw new StorageError("BlockCountExceedsLimit");
  for (const chunk of before?.chunks ?? []) await contents.releaseChunk(tx, chunk);
  const chunks = contents.keep(tx, received.staged);
  const { size } = received.staged;
  blocks.put(tx, [container, name, input.id], { size, chunks, ...keyNoted(request) });
  const changed = { idSize, count, changedAt: tx.now };
  uncommitted.put(tx, [container, name], changed);
  // Of what was sent one sum is named, of what was fetched both.
  const namesBoth = received.md5 === undefined || received.source !== undefined;
  const headers: Record<string, HeaderValue> = {
    "Content-MD5": received.md5,
    "x-ms-content-crc64": namesBoth ? received.crc64 : undefined,
    ...encryptedHeaders({ ...input, ...keyNoted(request) }),
  };
  return { status: 201, headers };
}

type ListedBlock = { readonly from: "Committed" | "Uncommitted" | "Latest"; readonly id: string };

/** The blocks a document names, in its order, whatever elements they stand in. */
function listedBlocks(xml: XmlElement | undefined): ListedBlock[] {
  if (xml?.name !== "BlockList") throw new StorageError("InvalidXmlDocument");
  if (xml.children.length > BLOCKS_MAX) throw new StorageError("BlockListTooLong");
  return xml.children.map(({ name, text, children }) => {
    if (
      (name !== "Committed" && name !== "Uncommitted" && name !== "Latest") ||
      children.length > 0
    ) {
      throw new StorageError("InvalidXmlDocument");
    }
    if (!isBlockId(text)) throw new StorageError("InvalidBlockId");
    return { from: name, id: text };
  });
}

export const putBlockList = createOperation({
  name: "Put Block List",
  match: { method: "PUT", on: "blob", comp: "blocklist" },
  allow: { sas: "w", resource: "o" },
  body: { kind: "xml", sizeMax: BLOCK_LIST_SIZE_MAX, crc64: true },
  heeds: [...IMMUTABILITY_HEADERS, ...CUSTOMER_KEY_HEADERS],
  givesEtag: true,
  guard: { on: theBlob, conditions: "create", lease: "guarded" },
  input: (request, { xml }) => ({
    ...newBlobOf(request),
    headers: { contentType: "application/octet-stream", ...httpHeadersOf(request, false) },
    listed: listedBlocks(xml),
  }),
  async apply(call) {
    const { tx, found, received } = call;
    const { listed, ...given } = call.input;
    const { contents } = call.around;
    refuseOtherType(found);
    refuseArchived(found, tx.now, given.tier);
    const pieces = await committedPieces(call, listed);
    const record = await overwrite(call, found, {
      ...given,
      type: "BlockBlob",
      ...keyNoted(call.request),
      size: pieces.reduce((sum, { chunk }) => sum + chunk.size, 0),
      content: contents.made(tx, pieces),
    });
    const headers: Record<string, HeaderValue> = {
      ...stateHeaders(record),
      "Content-MD5": received.md5,
      "x-ms-content-crc64": received.md5 === undefined ? received.crc64 : undefined,
      ...encryptedHeaders(record),
    };
    return { status: 201, headers };
  },
});

/**
 * The pieces of the blocks a list names. Each use of a chunk is counted; the blocks that were waiting are
 * no longer so, and those the list does not name are dropped.
 */
async function committedPieces(
  { tx, request, place, found, around }: Omit<BlockCall, "input">,
  listed: readonly ListedBlock[],
): Promise<Piece[]> {
  const { container, name } = place;
  const { contents } = around;
  const rows = await blocks.walk(tx, [container, name], { limit: UNCOMMITTED_MAX + 1 });
  const waiting = new Map(rows.map(({ key, value }): [string, BlockRecord] => [key[2], value]));
  const needsOld = listed.some(({ from, id }) => from === "Committed" || !waiting.has(id));
  const old = needsOld && found !== undefined ? await contents.pieces(tx, found.content) : [];
  const committed = blocksOf(old);
  const used = new Set<string>();
  const pieces: Piece[] = [];
  for (const { from, id } of listed) {
    const fresh = from === "Committed" ? undefined : waiting.get(id);
    const known = from === "Uncommitted" ? undefined : committed.get(id);
    const chunks = fresh?.chunks ?? known?.chunks;
    if (chunks === undefined) throw new StorageError("InvalidBlockList");
    refuseOtherKey(fresh === undefined ? found?.customerKey : fresh.customerKey, request);
    // A waiting block's count passes on to its first use in the list; every other use counts anew.
    if (fresh === undefined || used.has(id)) {
      for (const chunk of chunks) await contents.shareChunk(tx, chunk);
    }
    if (fresh !== undefined) used.add(id);
    chunks.forEach((chunk, i) => void pieces.push(i === 0 ? { chunk, block: id } : { chunk }));
  }
  for (const [id, { chunks }] of waiting) {
    if (!used.has(id)) for (const chunk of chunks) await contents.releaseChunk(tx, chunk);
    blocks.delete(tx, container, name, id);
  }
  uncommitted.delete(tx, container, name);
  return pieces;
}

/** The blocks that pieces were put together from, by id; a later one of the same id counts. */
function blocksOf(pieces: readonly Piece[]): Map<string, BlockRecord> {
  const found = new Map<string, BlockRecord>();
  let id: string | undefined;
  for (const { chunk, block } of pieces) {
    id = block ?? id;
    if (id === undefined) continue; // written by Put Blob: there are no blocks
    const known = block === undefined ? found.get(id) : undefined;
    found.set(id, {
      size: (known?.size ?? 0) + chunk.size,
      chunks: [...(known?.chunks ?? []), chunk],
    });
  }
  return found;
}

export const getBlockList = searchOperation({
  name: "Get Block List",
  match: { method: "GET", on: "blob", comp: "blocklist" },
  allow: { sas: "r", resource: "o", public: "blob" },
  snapshots: true,
  heeds: ["x-ms-if-tags"],
  givesEtag: true,
  guard: { on: theBlob, conditions: "none", lease: "free" },
  input(request) {
    const type = request.query.get("blocklisttype") ?? "committed";
    const known = ["committed", "uncommitted", "all"];
    if (!known.includes(type.toLowerCase())) throw invalidQuery("blocklisttype", type);
    // Everybody may see what is committed in a public container, and no more.
    if (request.caller.kind === "anonymous" && type.toLowerCase() !== "committed") {
      throw new StorageError("ResourceNotFound");
    }
    return type.toLowerCase();
  },
  async apply({ tx, place, found, input: type, around: { contents } }) {
    const { container, name, snapshot } = place;
    const mark = snapshot === undefined ? await uncommitted.get(tx, container, name) : undefined;
    if (found === undefined && mark === undefined) throw new StorageError("BlobNotFound");
    refuseOtherType(found);
    let lists = "";
    if (type !== "uncommitted") {
      const pieces = found === undefined ? [] : await contents.pieces(tx, found.content);
      lists += blocksXml("CommittedBlocks", listOf(pieces));
    }
    if (type !== "committed") {
      const rows = await blocks.walk(tx, [container, name], {
        limit: mark === undefined ? 0 : UNCOMMITTED_MAX,
      });
      const waiting = rows.map(({ key: [, , id], value: { size } }) => ({ id, size }));
      lists += blocksXml("UncommittedBlocks", waiting);
    }
    const headers: Record<string, HeaderValue> = {
      ...(found === undefined ? {} : changedHeaders(found)),
      "Content-Type": "application/xml",
      "x-ms-blob-content-length": found?.size ?? 0,
    };
    return { status: 200, headers, body: `${XML_DECLARATION}<BlockList>${lists}</BlockList>` };
  },
});

type NamedBlock = { readonly id: string; readonly size: number };

/** The blocks in the blob's order; one that is used twice stands twice. */
function listOf(pieces: readonly Piece[]): NamedBlock[] {
  const list: { id: string; size: number }[] = [];
  for (const { chunk, block } of pieces) {
    const last = list.at(-1);
    if (block !== undefined) list.push({ id: block, size: chunk.size });
    else if (last !== undefined) last.size += chunk.size;
  }
  return list;
}

const blocksXml = (name: string, list: readonly NamedBlock[]): string =>
  `<${name}>${list
    .map(({ id, size }) => `<Block>${element("Name", id)}${element("Size", size)}</Block>`)
    .join("")}</${name}>`;
