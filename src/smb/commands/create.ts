import { type Tick, tickAt } from "../../base/time.ts";
import type { ReadTx } from "../../engine/engine.ts";
import { hexOf, tickOf, type View } from "../../file/namespace.ts";
import { newProperties, stamped } from "../../file/node.ts";
import {
  create as createNode,
  pathOf as pathIn,
  prepare,
  type ShareTx,
  type Spot,
  save,
  walk,
} from "../../file/tree.ts";
import { DACL, GROUP, OWNER, partsIn } from "../../rules/descriptor-parts.ts";
import { folded } from "../../rules/file-names.ts";
import { available, isHeld, leaseAt } from "../../rules/lease.ts";
import { noMetadata } from "../../rules/metadata.ts";
import { DELETE, type Rights, WRITE } from "../../rules/sharing.ts";
import { ARCHIVE, DIRECTORY, READ_ONLY } from "../../rules/smb-properties.ts";
import type { FileRecord, NodeRecord } from "../../store/file-records.ts";
import { nodes, shareSnapshots } from "../../store/keys.ts";
import type { Identity } from "../../store/opens.ts";
import { access, FILE_ALL, isLeaseStatOpen, isStatOpen, mappedAccess } from "../access.ts";
import { type CallWith, command, type Reply } from "../command.ts";
import {
  type CreateContexts,
  contextsBytes,
  createContextsOf,
  leaseAnswer,
} from "../create-contexts.ts";
import { FileOpen, inShare, rightsOf } from "../file-open.ts";
import {
  HOLD_HANDLE,
  HOLD_READ,
  HOLD_WRITE,
  LEVEL_LEASE,
  LEVEL_NONE,
  levelOf,
  stateOfLevel,
} from "../holdings.ts";
import { allocationOf, attributesOf, timesOf } from "../node-facts.ts";
import { pathOf } from "../paths.ts";
import { PipeOpen } from "../pipe-open.ts";
import { SMB_202 } from "../protection.ts";
import { Rpc } from "../rpc.ts";
import { mergedSddl } from "../security.ts";
import { serverFacts } from "../server-facts.ts";
import type { SharePlace } from "../session.ts";
import { SmbError } from "../status.ts";
import { fileTimeOf } from "../times.ts";
import { waitedFor } from "../waiting.ts";
import { FLAG_REPLAY } from "../wire/header.ts";
import { layout, partOf, u8, u16, u32, u64 } from "../wire/layout.ts";

const dispositions = ["supersede", "open", "create", "openIf", "overwrite", "overwriteIf"] as const;
type Disposition = (typeof dispositions)[number];

// Create options (MS-SMB2 2.2.13).
const DIRECTORY_FILE = 0x1;
const WRITE_THROUGH = 0x2;
const NON_DIRECTORY_FILE = 0x40;
const DELETE_ON_CLOSE = 0x1000;
const OPEN_BY_ID = 0x2000;
const OPTIONS_REFUSED = 0xff000000;
const OPTIONS_UNSUPPORTED = 0x00102080;

const ATTRIBUTES_REFUSED = 0xffff8048;
const ATTRIBUTES_KEPT = 0x5127;
const HIDDEN = 0x2;
const SYSTEM = 0x4;
const ACCESS_REFUSED = 0x0de0fe00;
const IMPERSONATION_MAX = 3;
const SHARE_ALL = 7;

const SUPERSEDED = 0;
const OPENED = 1;
const CREATED = 2;
const OVERWRITTEN = 3;

const DURABLE_MS = 60_000;
const DURABLE_MAX_MS = 300_000;
/** As many as Samba lets a client have. */
const OPENS_MAX = 16_384;

const answerLayout = layout({
  structureSize: u16,
  oplockLevel: u8,
  flags: u8,
  createAction: u32,
  creationTime: u64,
  lastAccessTime: u64,
  lastWriteTime: u64,
  changeTime: u64,
  allocationSize: u64,
  endOfFile: u64,
  attributes: u32,
  reserved: u32,
  filePersistent: u64,
  fileVolatile: u64,
  contextsOffset: u32,
  contextsLength: u32,
});

type CreateCall = CallWith<"tree">;

/** An open as it is asked for. */
type Asked = {
  readonly call: CreateCall;
  readonly place: SharePlace;
  readonly path: readonly string[];
  readonly view: View;
  readonly disposition: Disposition;
  readonly options: number;
  readonly attributes: number;
  readonly desired: number;
  readonly shares: Rights;
  readonly level: number;
  readonly contexts: CreateContexts;
};

type Opened = { readonly open: FileOpen; readonly node: NodeRecord; readonly action: number };
type Attempt = Opened | { readonly wait: Promise<unknown> } | "missing";

export const create = command({
  code: 0x0005,
  name: "CREATE",
  needs: "tree",
  structureSize: 57,
  request: {
    structureSize: u16,
    securityFlags: u8,
    oplockLevel: u8,
    impersonationLevel: u32,
    smbCreateFlags: u64,
    reserved: u64,
    desiredAccess: u32,
    attributes: u32,
    shareAccess: u32,
    disposition: u32,
    options: u32,
    nameOffset: u16,
    nameLength: u16,
    contextsOffset: u32,
    contextsLength: u32,
  },
  async handle(call, request) {
    const { message, session, tree, connection } = call;
    if (request.nameLength % 2 !== 0) throw new SmbError("STATUS_INVALID_PARAMETER");
    const name = partOf(message, request.nameOffset, request.nameLength).toString("utf16le");
    if (session.opens.size >= OPENS_MAX) throw new SmbError("STATUS_TOO_MANY_OPENED_FILES");
    if (tree.share === undefined) return openPipe(call, name);
    const list = partOf(message, request.contextsOffset, request.contextsLength);
    const contexts = createContextsOf(list);
    if (contexts.reconnect !== undefined) return reconnected(call, contexts, tree.share, name);
    if (request.impersonationLevel > IMPERSONATION_MAX) {
      throw new SmbError("STATUS_BAD_IMPERSONATION_LEVEL");
    }
    const disposition = dispositions[request.disposition];
    if (disposition === undefined) throw new SmbError("STATUS_INVALID_PARAMETER");
    checkMasks(request);
    if (contexts.hasAttributes) throw new SmbError("STATUS_EAS_NOT_SUPPORTED");
    const isOld = connection.negotiated?.dialect === SMB_202;
    const path = pathOf(name);
    const replayed = replayOf(call, contexts);
    if (replayed !== undefined) return replayed;
    const asked: Asked = {
      call,
      place: tree.share,
      path,
      view: await viewFor(call, tree.share, contexts),
      disposition,
      options: request.options,
      attributes: request.attributes,
      desired: request.desiredAccess,
      shares: request.shareAccess,
      level: request.oplockLevel,
      contexts: isOld ? { ...contexts, lease: undefined } : contexts,
    };
    for (;;) {
      const attempt = await attempted(asked);
      if (attempt === "missing") throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
      if ("wait" in attempt) await waitedFor(call, attempt.wait);
      else return replyOf(asked, attempt);
    }
  },
});

function checkMasks(request: {
  options: number;
  attributes: number;
  shareAccess: number;
  desiredAccess: number;
}): void {
  const { options, attributes, shareAccess, desiredAccess } = request;
  if (desiredAccess === 0) throw new SmbError("STATUS_ACCESS_DENIED");
  if ((desiredAccess & ACCESS_REFUSED) !== 0) throw new SmbError("STATUS_ACCESS_DENIED");
  const isBoth = (options & DIRECTORY_FILE) !== 0 && (options & NON_DIRECTORY_FILE) !== 0;
  if ((options & OPTIONS_REFUSED) !== 0 || isBoth) throw new SmbError("STATUS_INVALID_PARAMETER");
  if ((options & (OPTIONS_UNSUPPORTED | OPEN_BY_ID)) !== 0)
    throw new SmbError("STATUS_NOT_SUPPORTED");
  if ((attributes & ATTRIBUTES_REFUSED) !== 0) throw new SmbError("STATUS_INVALID_PARAMETER");
  if ((shareAccess & ~SHARE_ALL) !== 0) throw new SmbError("STATUS_INVALID_PARAMETER");
}

/** The share as it is, or a snapshot of it: previous versions are named by their second. */
async function viewFor(call: CreateCall, place: SharePlace, { at }: CreateContexts): Promise<View> {
  if (at === undefined || at === 0n) return { share: place.id, at: undefined };
  const second = at / 10_000_000n;
  const found = await call.around.engine.read(async (tx) => {
    const rows = await shareSnapshots.walk(tx, [place.id], { limit: 1000 });
    return rows.find(({ key }) => fileTimeOf(key[1]) / 10_000_000n === second)?.key[1];
  }, "soon");
  if (found === undefined) throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
  return { share: place.id, at: found };
}

const makes = (disposition: Disposition) => disposition !== "open" && disposition !== "overwrite";
const replaces = (disposition: Disposition) =>
  disposition === "supersede" || disposition === "overwrite" || disposition === "overwriteIf";

async function attempted(asked: Asked): Promise<Attempt> {
  const { call, disposition, place, view } = asked;
  if (disposition === "open" || disposition === "openIf" || view.at !== undefined) {
    const read = await call.around.engine.read(async (tx) => {
      const spot = await walk(tx, view, asked.path);
      return spot.node === undefined ? "missing" : existing(asked, tx, spot.node);
    }, "soon");
    if (read !== "missing" || disposition === "open") return read;
  }
  if (view.at !== undefined) throw new SmbError("STATUS_MEDIA_WRITE_PROTECTED");
  return inShare(
    call.around,
    place,
    async (change) => {
      const spot = await walk(change.tx, view, asked.path);
      if (spot.node !== undefined) return existing(asked, change.tx, spot.node, change);
      return makes(disposition) ? made(asked, change, spot) : "missing";
    },
    "soon",
  );
}

/** Opens what is there, or says what must be waited for; with `change` it may be overwritten. */
async function existing(
  asked: Asked,
  tx: ReadTx,
  node: NodeRecord,
  change?: ShareTx,
): Promise<Attempt> {
  const { call, disposition, options, view } = asked;
  const { opens } = call.around;
  const identity: Identity = { share: asked.place.id, file: tickOf(node.id) };
  const isLive = view.at === undefined;
  if (disposition === "create") throw new SmbError("STATUS_OBJECT_NAME_COLLISION");
  if (isLive && opens.isDeletePending(identity)) throw new SmbError("STATUS_DELETE_PENDING");
  const overwrites = replaces(disposition);
  checkKind(node, options, overwrites);
  const granted = grantedFor(asked, node);
  if (!isLive) {
    if (
      (rightsOf(granted) & (WRITE | DELETE)) !== 0 &&
      (asked.desired & access.maximumAllowed) === 0
    ) {
      throw new SmbError("STATUS_ACCESS_DENIED");
    }
    return opened(asked, node, granted & ~WRITE_ACCESS, OPENED);
  }
  checkAttributes(asked, node, granted, overwrites);
  const rights = rightsOf(granted) | (overwrites ? WRITE : 0);
  if (isHeld(leaseAt(node.lease, tx.now)) && (rights & (WRITE | DELETE)) !== 0) {
    throw new SmbError("STATUS_SHARING_VIOLATION");
  }
  const isCopied = node.kind === "file" && node.copy?.status === "pending";
  if (isCopied && (rights & (WRITE | DELETE)) !== 0) throw new SmbError("STATUS_SHARING_VIOLATION");
  checkLease(asked, identity);
  const wait = inTheWay(asked, identity, { granted, rights, overwrites });
  if (wait !== undefined) return { wait };
  if (!overwrites || change === undefined) return opened(asked, node, granted, OPENED);
  if (node.kind !== "file") throw new SmbError("STATUS_INVALID_PARAMETER");
  const after = await overwritten(asked, change, node);
  return opened(asked, after, granted, disposition === "supersede" ? SUPERSEDED : OVERWRITTEN);
}

const WRITE_ACCESS =
  access.writeData |
  access.appendData |
  access.writeEa |
  access.deleteChild |
  access.writeAttributes |
  access.delete |
  access.writeDac |
  access.writeOwner;

function checkKind(node: NodeRecord, options: number, overwrites: boolean): void {
  if (node.kind === "directory") {
    if ((options & NON_DIRECTORY_FILE) !== 0) throw new SmbError("STATUS_FILE_IS_A_DIRECTORY");
    if (!overwrites) return;
    const isMeant = (options & DIRECTORY_FILE) !== 0;
    throw new SmbError(isMeant ? "STATUS_INVALID_PARAMETER" : "STATUS_OBJECT_NAME_COLLISION");
  }
  if ((options & DIRECTORY_FILE) !== 0) {
    throw new SmbError(overwrites ? "STATUS_INVALID_PARAMETER" : "STATUS_NOT_A_DIRECTORY");
  }
}

/** What the client may do: all it asked for, as the account's key opens everything. */
function grantedFor({ desired }: Asked, node: NodeRecord | undefined): number {
  const isReadOnly = node?.kind === "file" && (node.attributes & READ_ONLY) !== 0;
  const most = isReadOnly ? FILE_ALL & ~(access.writeData | access.appendData) : FILE_ALL;
  return mappedAccess(desired, most);
}

function checkAttributes(
  { options, attributes, path }: Asked,
  node: NodeRecord,
  granted: number,
  overwrites: boolean,
): void {
  const isReadOnly = (node.attributes & READ_ONLY) !== 0;
  if ((options & DELETE_ON_CLOSE) !== 0) {
    if ((granted & access.delete) === 0) throw new SmbError("STATUS_INVALID_PARAMETER");
    if (isReadOnly || path.length === 0) throw new SmbError("STATUS_CANNOT_DELETE");
  }
  if (node.kind === "directory") return;
  const writes = (granted & (access.writeData | access.appendData)) !== 0;
  if (isReadOnly && (writes || overwrites)) throw new SmbError("STATUS_ACCESS_DENIED");
  const hidden = node.attributes & (HIDDEN | SYSTEM);
  if (overwrites && (hidden & ~attributes) !== 0) throw new SmbError("STATUS_ACCESS_DENIED");
}

/** A lease's key stands for one file. */
function checkLease({ call, contexts, level }: Asked, identity: Identity | undefined): void {
  const clientGuid = call.connection.negotiated?.clientGuid;
  if (contexts.lease === undefined || level !== LEVEL_LEASE || clientGuid === undefined) return;
  const known = call.around.holdings.leaseOf({ clientGuid, key: contexts.lease.key });
  for (const open of known?.opens ?? []) {
    if (open.share !== identity?.share || open.file !== identity.file) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
  }
}

/** What other clients must give up first; throws if the open cannot stand beside theirs. */
function inTheWay(
  asked: Asked,
  identity: Identity,
  { granted, rights, overwrites }: { granted: number; rights: Rights; overwrites: boolean },
): Promise<unknown> | undefined {
  const { opens, holdings } = asked.call.around;
  const sharing = { access: rights, shares: asked.shares };
  const conflicts = () => opens.conflicts(identity, sharing) as FileOpen[];
  for (const open of conflicts()) if (open.session === undefined) open.abandon();
  const isViolated = conflicts().length > 0;
  const mask = isViolated ? HOLD_HANDLE : HOLD_WRITE;
  const waits: Promise<unknown>[] = [];
  if (overwrites || isViolated || !isStatOpen(granted)) {
    const own = ownLease(asked);
    const seen = new Set<unknown>();
    for (const { holding } of opens.of(identity) as FileOpen[]) {
      if (holding === undefined || holding === own || seen.has(holding)) continue;
      seen.add(holding);
      if (holding.lease !== undefined && isLeaseStatOpen(granted) && !overwrites) continue;
      const { state } = holding;
      if (isViolated && (state & HOLD_HANDLE) === 0) continue;
      const to = overwrites && !isViolated ? 0 : state & ~mask;
      const done = holdings.break(holding, to);
      if (done !== undefined && (state & mask) !== 0) waits.push(done);
    }
  }
  if (waits.length > 0) return Promise.all(waits);
  // What waited for a client that is gone may have been given up by now.
  if (isViolated && conflicts().length > 0) throw new SmbError("STATUS_SHARING_VIOLATION");
  return undefined;
}

function ownLease({ call, contexts, level }: Asked) {
  const clientGuid = call.connection.negotiated?.clientGuid;
  if (contexts.lease === undefined || level !== LEVEL_LEASE || clientGuid === undefined)
    return undefined;
  return call.around.holdings.leaseOf({ clientGuid, key: contexts.lease.key });
}

const fileAttributes = (asked: number) => (asked | ARCHIVE) & ATTRIBUTES_KEPT;

async function permissionOf({ contexts }: Asked, change: ShareTx, parent: bigint) {
  if (contexts.security === undefined) return undefined;
  const directory = await nodes.get(change.tx, change.share.id, parent);
  const at = { share: change.share.id, key: directory?.permission ?? "" };
  const given = OWNER | GROUP | DACL;
  // What the client does not say is the directory's.
  const parts = partsIn(contexts.security) & given;
  return { sddl: await mergedSddl(change.tx, at, contexts.security, parts) };
}

/** Makes a new file or directory. */
async function made(asked: Asked, change: ShareTx, spot: Spot): Promise<Opened> {
  const { tx, share, opens, sparse } = change;
  const { options, attributes, disposition } = asked;
  const isDirectory = (options & DIRECTORY_FILE) !== 0;
  if (isDirectory && replaces(disposition)) throw new SmbError("STATUS_INVALID_PARAMETER");
  if (opens.isDeletePending({ share: share.id, file: spot.parent })) {
    throw new SmbError("STATUS_DELETE_PENDING");
  }
  const granted = grantedFor(asked, undefined);
  if ((options & DELETE_ON_CLOSE) !== 0) {
    if ((granted & access.delete) === 0) throw new SmbError("STATUS_INVALID_PARAMETER");
    if ((attributes & READ_ONLY) !== 0 && !isDirectory) throw new SmbError("STATUS_CANNOT_DELETE");
  }
  checkLease(asked, undefined);
  const kind = isDirectory ? "directory" : "file";
  const { tick, ...changed } = stamped(tx);
  const at = hexOf(tick);
  const given = {
    attributes: isDirectory
      ? (attributes & ATTRIBUTES_KEPT) | DIRECTORY
      : fileAttributes(attributes),
    createdAt: undefined,
    writtenAt: undefined,
    changedAt: undefined,
    permission: await permissionOf(asked, change, spot.parent),
  };
  const where = { share: share.id, parent: spot.parent, kind, tick } as const;
  const common = {
    ...changed,
    ...(await newProperties(tx, given, where)),
    id: at,
    parent: hexOf(spot.parent),
    name: spot.name,
    since: at,
    lease: available,
    metadata: noMetadata,
  };
  const node: NodeRecord = isDirectory
    ? { ...common, kind: "directory" }
    : { ...common, kind: "file", size: 0, content: sparse.create(tx), headers: {}, generation: at };
  await createNode(change, node);
  const result = opened(asked, node, granted, CREATED);
  result.open.isDirty = true;
  return result;
}

/** Empties a file; it stays the same one. */
async function overwritten(asked: Asked, change: ShareTx, node: FileRecord): Promise<FileRecord> {
  const { tx, sparse } = change;
  const { tick, ...changed } = stamped(tx);
  const ready = await prepare(change, node);
  await sparse.release(tx, ready.content);
  const at = hexOf(tick);
  const { copy: _copy, ...rest } = ready;
  const after: FileRecord = {
    ...rest,
    ...changed,
    attributes: fileAttributes(asked.attributes),
    size: 0,
    content: sparse.create(tx),
    writtenAt: at,
    changedAt: at,
    generation: at,
  };
  await save(change, node, after);
  return after;
}

/** Enters the open beside the others, with what it may keep to itself. */
function opened(asked: Asked, node: NodeRecord, granted: number, action: number): Opened {
  const { call, contexts, options, place, view } = asked;
  const { around, session, tree, connection } = call;
  const open = new FileOpen(around, {
    handle: around.nextHandle(),
    place,
    session,
    tree,
    node,
    view,
    granted,
    shares: asked.shares,
    deletesOnClose: (options & DELETE_ON_CLOSE) !== 0,
    isWriteThrough: (options & WRITE_THROUGH) !== 0,
  });
  if (action !== OPENED) open.isDirty = true;
  if (contexts.allocation !== undefined && node.kind === "file" && action !== OPENED) {
    open.allocation = Number(contexts.allocation);
  }
  session.opens.set(open.handle, open);
  if (open.isSnapshot) return { open, node, action };
  const clientGuid = connection.negotiated?.clientGuid ?? Buffer.alloc(16);
  const isLease =
    asked.level === LEVEL_LEASE && contexts.lease !== undefined && node.kind === "file";
  const state = node.kind === "file" ? mayHold(asked, open) : 0;
  around.opens.enter(open);
  if (isLease) around.holdings.hold(open, state, { asked: contexts.lease, clientGuid });
  else if (state !== 0) around.holdings.hold(open, state, undefined);
  makeDurable(asked, open);
  return { open, node, action };
}

/** What an open may keep to itself beside the others (digest section 16.2). */
function mayHold({ call, contexts, level }: Asked, open: FileOpen): number {
  const isLease = level === LEVEL_LEASE;
  let state = isLease ? (contexts.lease?.state ?? 0) : stateOfLevel(level);
  if ((state & HOLD_READ) === 0) return 0;
  const own = isLease ? ownLease({ call, contexts, level } as Asked) : undefined;
  for (const other of call.around.opens.of(open) as FileOpen[]) {
    if (other.locks.length > 0) return 0;
    if (own !== undefined && other.holding === own) continue;
    const held = other.holding?.state ?? 0;
    // What was not broken for this open, because it only looks, stays with its holder.
    if ((held & HOLD_WRITE) !== 0) return 0;
    if (held !== 0 || !isStatOpen(other.granted)) state &= ~HOLD_WRITE;
    if (held === 0) continue;
    if (isLease && other.holding?.lease === undefined) state &= ~HOLD_HANDLE;
    if (!isLease && other.holding?.lease !== undefined && (held & HOLD_HANDLE) !== 0) return 0;
  }
  if (isLease) return state;
  return (state & HOLD_WRITE) !== 0 ? state : state & HOLD_READ;
}

function makeDurable({ call, contexts }: Asked, open: FileOpen): void {
  const { around, connection, session } = call;
  if (!contexts.durable && contexts.durable2 === undefined) return;
  if (open.isDirectory || !open.oplock.handle) return;
  const { durable2 } = contexts;
  const wanted =
    durable2 === undefined || durable2.timeoutMs === 0 ? DURABLE_MS : durable2.timeoutMs;
  open.durable = {
    version: durable2 === undefined ? 1 : 2,
    timeoutMs: Math.min(wanted, DURABLE_MAX_MS),
    createGuid: durable2?.createGuid,
    clientGuid: connection.negotiated?.clientGuid ?? Buffer.alloc(16),
    account: session.account?.name ?? "",
    isResilient: false,
    timer: undefined,
  };
  around.durables.set(open.handle, open);
}

function replyOf(asked: Pick<Asked, "contexts" | "level">, { open, node, action }: Opened): Reply {
  const { contexts, level } = asked;
  const answers: [string, Buffer][] = [];
  const { holding } = open;
  const lease = holding?.lease;
  if (contexts.wantsMaximalAccess) {
    const most = Buffer.alloc(8);
    most.writeUInt32LE(FILE_ALL, 4);
    answers.push(["MxAc", most]);
  }
  if (contexts.wantsFileId) {
    const ids = Buffer.alloc(32);
    ids.writeBigUInt64LE(open.file, 0);
    ids.writeBigUInt64LE(open.share, 8);
    answers.push(["QFid", ids]);
  }
  if (holding !== undefined && lease !== undefined && contexts.lease !== undefined) {
    const { state, breaking } = holding;
    const told = { state, epoch: lease.epoch, isBreaking: breaking !== undefined };
    answers.push(["RqLs", leaseAnswer(lease.asked, told)]);
  }
  if (open.durable !== undefined && contexts.durable2 !== undefined) {
    const data = Buffer.alloc(8);
    data.writeUInt32LE(open.durable.timeoutMs);
    answers.push(["DH2Q", data]);
  } else if (open.durable !== undefined && contexts.durable) {
    answers.push(["DHnQ", Buffer.alloc(8)]);
  }
  const list = contextsBytes(answers);
  const size = node.kind === "file" ? node.size : 0;
  const isLease = lease !== undefined && level === LEVEL_LEASE;
  const fixed = answerLayout.bytes({
    structureSize: 89,
    oplockLevel: isLease
      ? LEVEL_LEASE
      : holding === undefined
        ? LEVEL_NONE
        : levelOf(holding.state),
    createAction: action,
    ...timesOf(node),
    allocationSize: BigInt(allocationOf(node, open.allocation)),
    endOfFile: BigInt(size),
    attributes: attributesOf(node),
    filePersistent: open.handle,
    fileVolatile: open.handle,
    contextsOffset: list.length === 0 ? 0 : 64 + answerLayout.size,
    contextsLength: list.length,
  });
  return { body: list.length === 0 ? [fixed] : [fixed, list], fileId: open.handle };
}

/** A client that lost its connection takes up an open that has waited for it (MS-SMB2 3.3.5.9.7 and .12). */
async function reconnected(
  call: CreateCall,
  contexts: CreateContexts,
  place: SharePlace,
  name: string,
): Promise<Reply> {
  const { around, session, tree, connection } = call;
  const { reconnect, lease } = contexts;
  const open = around.durables.get(reconnect?.handle ?? 0n);
  const durable = open?.durable;
  const clientGuid = connection.negotiated?.clientGuid ?? Buffer.alloc(16);
  if (open === undefined || durable === undefined || reconnect === undefined) {
    throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
  }
  const held = open.holding?.lease;
  const isSameLease =
    held === undefined
      ? lease === undefined
      : lease?.key.equals(held.asked.key) && durable.clientGuid.equals(clientGuid);
  // The first version of durable handles has no number of its own, and either way of coming back will do.
  const guid = reconnect.createGuid;
  const isSameGuid = guid === undefined || guid.equals(durable.createGuid ?? Buffer.alloc(16));
  const isMine = open.session === undefined && durable.account === session.account?.name;
  if (!isMine || !isSameLease || !isSameGuid || open.share !== place.id) {
    throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
  }
  const { node, path } = await open.read(async (tx) => {
    const found = await open.node(tx);
    return { node: found, path: await pathIn(tx, open.view, found) };
  });
  // A lease stands for a file by its name, which the client repeats.
  const isSameName = folded(path.join("\\")) === folded(name);
  if (held !== undefined && !isSameName) throw new SmbError("STATUS_INVALID_PARAMETER");
  if (open.isClosed || open.session !== undefined)
    throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
  open.resume(session, tree);
  const level = held === undefined ? LEVEL_NONE : LEVEL_LEASE;
  return replyOf(
    { contexts: { ...contexts, durable: false, durable2: undefined }, level },
    {
      open,
      node,
      action: OPENED,
    },
  );
}

/** A create that is sent again because its answer was lost gets the open it made (MS-SMB2 3.3.5.9.10). */
function replayOf(call: CreateCall, contexts: CreateContexts): Reply | undefined {
  const guid = contexts.durable2?.createGuid;
  const clientGuid = call.connection.negotiated?.clientGuid;
  if (guid === undefined || clientGuid === undefined) return undefined;
  for (const { durable } of call.around.durables.values()) {
    if (durable?.createGuid?.equals(guid) !== true || !durable.clientGuid.equals(clientGuid))
      continue;
    if ((call.header.flags & FLAG_REPLAY) === 0) throw new SmbError("STATUS_DUPLICATE_OBJECTID");
  }
  return undefined;
}

/** Named pipes: the only one there is tells of the shares. */
async function openPipe(call: CreateCall, name: string): Promise<Reply> {
  const { around, session, tree } = call;
  const pipe = name.toLowerCase().replace(/^\\?(?:pipe\\)?/, "");
  if (pipe !== "srvsvc") throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
  const rpc = new Rpc(serverFacts(around, session.account?.name ?? ""), pipe);
  const open = new PipeOpen({ handle: around.nextHandle(), tree, session, rpc });
  session.opens.set(open.handle, open);
  const now = fileTimeOf(tickAt(around.clock.now()) as Tick);
  const body = answerLayout.bytes({
    structureSize: 89,
    createAction: OPENED,
    creationTime: now,
    lastAccessTime: now,
    lastWriteTime: now,
    changeTime: now,
    allocationSize: 4096n,
    attributes: 0x80,
    filePersistent: open.handle,
    fileVolatile: open.handle,
  });
  return { body: [body], fileId: open.handle };
}
