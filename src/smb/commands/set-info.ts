import { refusePending } from "../../file/file.ts";
import { hexOf, ROOT, tickOf } from "../../file/namespace.ts";
import { keepPermission, stamped } from "../../file/node.ts";
import {
  isWithin,
  move,
  prepare,
  remove,
  type ShareTx,
  save,
  viewOf,
  walk,
} from "../../file/tree.ts";
import { DACL, GROUP, OWNER, SACL } from "../../rules/descriptor-parts.ts";
import { isHeld, leaseAt } from "../../rules/lease.ts";
import { READ, WRITE } from "../../rules/sharing.ts";
import { DIRECTORY, READ_ONLY, TEMPORARY } from "../../rules/smb-properties.ts";
import type { FileRecord, NodeRecord } from "../../store/file-records.ts";
import { entries } from "../../store/keys.ts";
import { access } from "../access.ts";
import { type CallWith, command } from "../command.ts";
import { endWatches, type FileOpen } from "../file-open.ts";
import { HOLD_HANDLE } from "../holdings.ts";
import { mayTouch } from "../lock-waiters.ts";
import { breakHandles, breakReaders } from "../oplocks.ts";
import { pathOf } from "../paths.ts";
import { mergedSddl } from "../security.ts";
import { SmbError } from "../status.ts";
import { tickOfFileTime } from "../times.ts";
import { waitedFor } from "../waiting.ts";
import { layout, partOf, u8, u16, u32, u64 } from "../wire/layout.ts";
import { FILE_SIZE_MAX, touched } from "./write.ts";

const FILE = 1;
const SECURITY = 3;
/** Those that REST knows, too, so that neither door loses what the other has set. */
const ATTRIBUTES_KEPT = 0x23127;
const ATTRIBUTES_REFUSED = 0x48;

const basic = layout({
  creationTime: u64,
  lastAccessTime: u64,
  lastWriteTime: u64,
  changeTime: u64,
  attributes: u32,
});
const rename = layout({
  replaces: u8,
  reserved: u8,
  reserved2: u16,
  reserved3: u32,
  root: u64,
  nameLength: u32,
});

type SetCall = CallWith<"open"> & { readonly open: FileOpen };
type SetRow = { readonly least: number; set(call: SetCall, data: Buffer): Promise<void> };

const rows = new Map<number, SetRow>([
  [4, { least: 36, set: setBasic }],
  [10, { least: rename.size, set: setName }],
  [
    11,
    {
      least: rename.size,
      async set() {
        throw new SmbError("STATUS_NOT_SUPPORTED");
      },
    },
  ],
  [13, { least: 1, set: (call, data) => setDisposition(call, { deletes: data[0] !== 0 }) }],
  [14, { least: 8, set: setPosition }],
  [
    15,
    {
      least: 0,
      async set() {
        throw new SmbError("STATUS_EAS_NOT_SUPPORTED");
      },
    },
  ],
  [16, { least: 4, set: setMode }],
  [19, { least: 8, set: setAllocation }],
  [20, { least: 8, set: (call, data) => setEnd(call, data.readBigUInt64LE()) }],
  [39, { least: 8, set: async (call) => call.open.need(access.writeData) }],
  [64, { least: 4, set: (call, data) => setDispositionByFlags(call, data.readUInt32LE()) }],
]);

export const setInfo = command({
  code: 0x0011,
  name: "SET_INFO",
  needs: "open",
  structureSize: 33,
  request: {
    structureSize: u16,
    infoType: u8,
    infoClass: u8,
    bufferLength: u32,
    bufferOffset: u16,
    reserved: u16,
    additional: u32,
    filePersistent: u64,
    fileVolatile: u64,
  },
  payload: ({ bufferLength }) => bufferLength,
  async handle(call, { infoType, infoClass, bufferLength, bufferOffset, additional }) {
    const { open, message, connection } = call;
    if (bufferLength > (connection.negotiated?.sizeMax ?? 0)) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
    const data = partOf(message, bufferOffset, bufferLength);
    const done = { body: [Buffer.of(2, 0)] };
    if (open.kind !== "file") throw new SmbError("STATUS_NOT_SUPPORTED");
    if (open.isSnapshot) throw new SmbError("STATUS_MEDIA_WRITE_PROTECTED");
    const onFile: SetCall = { ...call, open };
    if (infoType === SECURITY) {
      await setSecurity(onFile, data, additional);
      return done;
    }
    if (infoType !== FILE) throw new SmbError("STATUS_NOT_SUPPORTED");
    const row = rows.get(infoClass);
    if (row === undefined) throw new SmbError("STATUS_INVALID_INFO_CLASS");
    if (data.length < row.least) throw new SmbError("STATUS_INFO_LENGTH_MISMATCH");
    await row.set(onFile, data);
    return done;
  },
});

const KEEP = 0n;
const FREEZE = 0xffff_ffff_ffff_ffffn;
const THAW = 0xffff_ffff_ffff_fffen;

/** Times of 0 stay; −1 keeps what the open does from changing them, −2 lets it again (MS-FSCC 2.4.7). */
async function setBasic({ open }: SetCall, data: Buffer): Promise<void> {
  open.need(access.writeAttributes);
  const given = basic.read(data);
  const times = [
    ["createdAt", given.creationTime],
    ["accessedAt", given.lastAccessTime],
    ["writtenAt", given.lastWriteTime],
    ["changedAt", given.changeTime],
  ] as const;
  const set: Partial<Record<(typeof times)[number][0], string>> = {};
  for (const [name, time] of times) {
    if (time === KEEP || time === FREEZE || time === THAW) continue;
    if (time > 0x7fff_ffff_ffff_ffffn) throw new SmbError("STATUS_INVALID_PARAMETER");
    set[name] = hexOf(tickOfFileTime(time));
  }
  const { attributes } = given;
  await open.change(async (change) => {
    const node = await open.node(change.tx);
    if (node.kind === "file" && (attributes & DIRECTORY) !== 0) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
    if (node.kind === "directory" && (attributes & TEMPORARY) !== 0) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
    if ((attributes & ATTRIBUTES_REFUSED) !== 0) throw new SmbError("STATUS_INVALID_PARAMETER");
    const own = node.kind === "directory" ? DIRECTORY : 0;
    const bits = attributes === 0 ? node.attributes : (attributes & ATTRIBUTES_KEPT) | own;
    const { tick, ...changed } = stamped(change.tx);
    const isKept = open.keptTimes.has("changedAt") || given.changeTime !== KEEP;
    const changedAt = isKept ? {} : { changedAt: hexOf(tick) };
    const ready = await prepare(change, node);
    await save(change, node, { ...ready, ...changed, ...changedAt, ...set, attributes: bits });
    for (const [name, time] of times) {
      if (time === KEEP || name === "createdAt") continue;
      if (time === THAW) open.keptTimes.delete(name);
      else open.keptTimes.add(name);
    }
  });
}

async function setPosition({ open }: SetCall, data: Buffer): Promise<void> {
  open.position = data.readBigUInt64LE();
}

async function setMode({ open }: SetCall, data: Buffer): Promise<void> {
  const mode = data.readUInt32LE();
  if (mode !== 0 && mode !== 2 && mode !== 4 && mode !== 6)
    throw new SmbError("STATUS_INVALID_PARAMETER");
  open.mode = mode;
}

async function setAllocation(call: SetCall, data: Buffer): Promise<void> {
  const { open } = call;
  const size = data.readBigUInt64LE();
  open.need(access.writeData);
  if (size > 0x7fff_ffff_ffff_ffffn) throw new SmbError("STATUS_INVALID_PARAMETER");
  if (size > BigInt(FILE_SIZE_MAX)) throw new SmbError("STATUS_DISK_FULL");
  const { size: end } = await open.read((tx) => open.fileRecord(tx));
  if (size < BigInt(end)) await setEnd(call, size);
  open.allocation = Number(size);
  breakReaders(call.around, open);
}

async function setEnd({ open, around }: SetCall, size: bigint): Promise<void> {
  open.need(access.writeData);
  if (size > 0x7fff_ffff_ffff_ffffn) throw new SmbError("STATUS_INVALID_PARAMETER");
  if (size > BigInt(FILE_SIZE_MAX)) throw new SmbError("STATUS_DISK_FULL");
  if (open.isDirectory) throw new SmbError("STATUS_INVALID_PARAMETER");
  const end = Number(size);
  await open.change(async (change) => {
    const node = await open.fileRecord(change.tx);
    const from = Math.min(end, node.size);
    const range = { start: BigInt(from), count: BigInt(Math.abs(end - node.size)) };
    if (!mayTouch(around.opens, open, range, true)) throw new SmbError("STATUS_FILE_LOCK_CONFLICT");
    const ready = await prepare(change, node);
    const after: FileRecord = { ...touched(open, ready, stamped(change.tx)), size: end };
    await save(change, node, after);
    if (end < node.size) await change.sparse.cut(change.tx, after.content, end);
  });
  if (open.allocation > 0) open.allocation = end;
  breakReaders(around, open);
}

// How a file is to be deleted (MS-FSCC 2.4.12).
const DELETES = 0x1;
const AT_ONCE = 0x2;
const IMAGE_CHECKED = 0x4;
const ON_CLOSE = 0x8;
const READ_ONLY_TOO = 0x10;
const DISPOSITIONS = DELETES | AT_ONCE | IMAGE_CHECKED | ON_CLOSE | READ_ONLY_TOO;

/** The newer form. Names do not go before the last close, nor does the file system say they do: clients try without. */
async function setDispositionByFlags(call: SetCall, flags: number): Promise<void> {
  const { open } = call;
  const deletes = (flags & DELETES) !== 0;
  if ((flags & ~DISPOSITIONS) !== 0) throw new SmbError("STATUS_INVALID_PARAMETER");
  if ((flags & AT_ONCE) !== 0) throw new SmbError("STATUS_NOT_SUPPORTED");
  if ((flags & ON_CLOSE) !== 0) {
    open.need(access.delete);
    // Only what an open was made with can be changed so.
    if (!open.wasToDelete) throw new SmbError("STATUS_NOT_SUPPORTED");
    open.deletesOnClose = deletes;
    return;
  }
  await setDisposition(call, { deletes, readOnlyToo: (flags & READ_ONLY_TOO) !== 0 });
}

type Disposition = { readonly deletes: boolean; readonly readOnlyToo?: boolean };

/** Marks a file to be deleted with its last close, or takes the mark off. */
async function setDisposition(
  call: SetCall,
  { deletes, readOnlyToo = false }: Disposition,
): Promise<void> {
  const { open, around } = call;
  open.need(access.delete);
  if (open.file === ROOT) throw new SmbError("STATUS_CANNOT_DELETE");
  if (!deletes) {
    await open.marking; // which was sent before
    around.opens.setDeletePending(open, false);
    return;
  }
  const wait = breakHandles(around, open);
  if (wait !== undefined) await waitedFor(call, wait);
  const marking = open.read(async (tx) => {
    const node = await open.node(tx);
    const isKept = (node.attributes & READ_ONLY) !== 0 && !readOnlyToo;
    if (isKept) throw new SmbError("STATUS_CANNOT_DELETE");
    if (node.kind === "directory") {
      const [child] = await entries.walk(tx, [open.share, open.file], { limit: 1 });
      if (child !== undefined) throw new SmbError("STATUS_DIRECTORY_NOT_EMPTY");
    }
    // A handle that was closed meanwhile would be closed no more, and the file would wait for that for ever.
    if (open.isClosed) throw new SmbError("STATUS_FILE_CLOSED");
    around.opens.setDeletePending(open, true);
  });
  open.marking = marking.catch(() => {});
  await marking;
  if (open.isDirectory) endWatches(around, open);
}

/** How a rename opens the directory that the new name is put in (MS-FSA, FileRenameInformation). */
const TARGET_USE = { access: WRITE, shares: READ | WRITE };

async function setName(call: SetCall, data: Buffer): Promise<void> {
  const { open, around } = call;
  const { replaces, root, nameLength } = rename.read(data);
  if (root !== 0n || nameLength === 0 || nameLength % 2 !== 0)
    throw new SmbError("STATUS_INVALID_PARAMETER");
  const name = partOf(data, rename.size, nameLength).toString("utf16le");
  open.need(access.delete);
  if (open.file === ROOT) throw new SmbError("STATUS_ACCESS_DENIED");
  const path = pathOf(name);
  const wait = breakHandles(around, open);
  if (wait !== undefined) await waitedFor(call, wait);
  for (;;) {
    const target = await open.change((change) =>
      renamed(call, change, { path, replaces: replaces !== 0 }),
    );
    if (target === undefined) return;
    await waitedFor(call, target.wait);
  }
}

/** What must be waited for outside of the transaction. */
type Wait = { readonly wait: Promise<unknown> };
type To = { readonly path: readonly string[]; readonly replaces: boolean };

async function renamed(
  { open, around }: SetCall,
  change: ShareTx,
  { path, replaces }: To,
): Promise<Wait | undefined> {
  const { tx, share, opens } = change;
  const node = await open.node(tx);
  const view = viewOf(share);
  const { parent, name, node: there } = await walk(tx, view, path);
  if (there?.id === "0") throw new SmbError("STATUS_OBJECT_NAME_COLLISION");
  if (node.kind === "directory") {
    if (await isWithin(tx, view, parent, tickOf(node.id)))
      throw new SmbError("STATUS_ACCESS_DENIED");
    const wait = await emptied(around, () => opensBelow(change, open, node));
    if (wait !== undefined) return wait;
  }
  const from = tickOf(node.parent);
  if (opens.conflicts({ share: share.id, file: parent }, TARGET_USE).length > 0) {
    throw new SmbError("STATUS_SHARING_VIOLATION");
  }
  if (there !== undefined && there.id !== node.id) {
    const wait = await makeWay({ around, change, node, there, replaces });
    if (wait !== undefined) return wait;
  }
  if (from === parent && node.name === name) return undefined;
  const moved = await move(change, node, { parent, name });
  const { tick, ...changed } = stamped(tx);
  const changedAt = open.keptTimes.has("changedAt") ? node.changedAt : hexOf(tick);
  await save(change, moved, { ...moved, ...changed, changedAt });
  return undefined;
}

/** What is open below a directory; the directory's own opens do not count. */
async function opensBelow(
  { tx, share, opens }: ShareTx,
  { file }: FileOpen,
  node: NodeRecord,
): Promise<FileOpen[]> {
  const below: FileOpen[] = [];
  for (const open of opens.inShare(share.id) as FileOpen[]) {
    if (open.file === file) continue;
    if (await isWithin(tx, viewOf(share), open.file, tickOf(node.id))) below.push(open);
  }
  return below;
}

/** Asks for all that clients only keep open for later, and refuses if something is open even so. */
async function emptied(
  around: SetCall["around"],
  holders: () => FileOpen[] | Promise<FileOpen[]>,
): Promise<Wait | undefined> {
  const found = await holders();
  if (found.length === 0) return undefined;
  const held = new Set(found.flatMap(({ holding }) => holding ?? []));
  const waits = [...held].flatMap((holding) => {
    if ((holding.state & HOLD_HANDLE) === 0) return [];
    return around.holdings.break(holding, holding.state & ~HOLD_HANDLE) ?? [];
  });
  if (waits.length > 0) return { wait: Promise.all(waits) };
  // Handles that only waited for a client that is gone have been given up by now.
  if ((await holders()).length > 0) throw new SmbError("STATUS_ACCESS_DENIED");
  return undefined;
}

/** Removes what has the new name, if that is wanted and nobody has it open. */
async function makeWay({
  around,
  change,
  node,
  there,
  replaces,
}: {
  around: SetCall["around"];
  change: ShareTx;
  node: NodeRecord;
  there: NodeRecord;
  replaces: boolean;
}): Promise<Wait | undefined> {
  const { tx, share, opens } = change;
  if (!replaces) throw new SmbError("STATUS_OBJECT_NAME_COLLISION");
  // Only a file replaces something, and only a file is replaced.
  const isFiles = node.kind === "file" && there.kind === "file";
  if (!isFiles || (there.attributes & READ_ONLY) !== 0) throw new SmbError("STATUS_ACCESS_DENIED");
  refusePending(there);
  const identity = { share: share.id, file: tickOf(there.id) };
  if (opens.isDeletePending(identity)) throw new SmbError("STATUS_ACCESS_DENIED");
  const wait = await emptied(around, () => opens.of(identity) as FileOpen[]);
  if (wait !== undefined) return wait;
  if (isHeld(leaseAt(there.lease, tx.now))) throw new SmbError("STATUS_SHARING_VIOLATION");
  await remove(change, there);
  return undefined;
}

async function setSecurity({ open }: SetCall, data: Buffer, parts: number): Promise<void> {
  if ((parts & (OWNER | GROUP)) !== 0) open.need(access.writeOwner);
  if ((parts & DACL) !== 0) open.need(access.writeDac);
  if ((parts & SACL) !== 0) open.need(access.systemSecurity);
  await open.change(async (change) => {
    const node = await open.node(change.tx);
    const at = { share: open.share, key: node.permission };
    const sddl = await mergedSddl(change.tx, at, data, parts);
    const permission = await keepPermission(change.tx, open.share, sddl);
    const { tick, ...changed } = stamped(change.tx);
    const ready = await prepare(change, node);
    const changedAt = open.keptTimes.has("changedAt") ? node.changedAt : hexOf(tick);
    await save(change, node, { ...ready, ...changed, changedAt, permission });
  });
}
