import type { Given } from "../../engine/engine.ts";
import { hexOf } from "../../file/namespace.ts";
import { stamped } from "../../file/node.ts";
import { prepare, save } from "../../file/tree.ts";
import { HEAP_CHUNK_MAX, type Staged } from "../../store/content.ts";
import type { FileRecord } from "../../store/file-records.ts";
import { access } from "../access.ts";
import type { Around } from "../around.ts";
import { command } from "../command.ts";
import type { FileOpen } from "../file-open.ts";
import { mayTouch } from "../lock-waiters.ts";
import { breakReaders } from "../oplocks.ts";
import { SmbError } from "../status.ts";
import { layout, partOf, u16, u32, u64 } from "../wire/layout.ts";

const OFFSET_MAX = 0x7fff_ffff_ffff_ffffn;
/** The largest file that Azure has. */
export const FILE_SIZE_MAX = 4 * 1024 ** 4;
const APPEND = 0xffff_ffff_ffff_ffffn;
const WRITE_THROUGH = 1;

const answerLayout = layout({
  structureSize: u16,
  reserved: u16,
  count: u32,
  remaining: u32,
  channelInfoOffset: u16,
  channelInfoLength: u16,
});

export const write = command({
  code: 0x0009,
  name: "WRITE",
  needs: "open",
  structureSize: 49,
  request: {
    structureSize: u16,
    dataOffset: u16,
    length: u32,
    offset: u64,
    filePersistent: u64,
    fileVolatile: u64,
    channel: u32,
    remaining: u32,
    channelInfoOffset: u16,
    channelInfoLength: u16,
    flags: u32,
  },
  payload: ({ length }) => length,
  async handle({ around, open, message, connection }, { dataOffset, length, offset, flags }) {
    if (length > (connection.negotiated?.sizeMax ?? 0))
      throw new SmbError("STATUS_INVALID_PARAMETER");
    const data = partOf(message, dataOffset, length);
    const body = [answerLayout.bytes({ structureSize: 17, count: length })];
    if (open.kind === "pipe") {
      await open.rpc.write(data);
      return { body };
    }
    if (open.isDirectory) throw new SmbError("STATUS_INVALID_DEVICE_REQUEST");
    open.need(access.writeData | access.appendData);
    // Who may only append says so by this offset; for others it is a place beyond all files.
    const appends = offset === APPEND && (open.granted & access.writeData) === 0;
    if (!appends && offset + BigInt(length) > OFFSET_MAX)
      throw new SmbError("STATUS_INVALID_PARAMETER");
    if (!appends && offset + BigInt(length) > BigInt(FILE_SIZE_MAX))
      throw new SmbError("STATUS_DISK_FULL");
    const isThrough = open.isWriteThrough || (flags & WRITE_THROUGH) !== 0;
    const start = appends ? undefined : Number(offset);
    await written(around, open, { start, data, given: isThrough ? "durable" : "soon" });
    if (!appends) open.position = offset + BigInt(length);
    return { body };
  },
});

/** Puts bytes into a file, at its end if no place is named; it grows as far as it must. */
export async function written(
  around: Around,
  open: FileOpen,
  what: { readonly start: number | undefined; readonly data: Buffer; readonly given: Given },
): Promise<void> {
  const { data, given } = what;
  const staged = await stagedOf(around, data);
  try {
    await open.change(async (change) => {
      const node = await open.fileRecord(change.tx);
      const start = what.start ?? node.size;
      const range = { start: BigInt(start), count: BigInt(data.length) };
      if (!mayTouch(around.opens, open, range, true))
        throw new SmbError("STATUS_FILE_LOCK_CONFLICT");
      if (data.length === 0) return;
      // Who may append and not write changes nothing that is there (MS-SMB2 3.3.5.13).
      if (start < node.size) open.need(access.writeData);
      const end = start + data.length;
      if (end > FILE_SIZE_MAX) throw new SmbError("STATUS_DISK_FULL");
      const ready = touched(open, await prepare(change, node), stamped(change.tx));
      const after: FileRecord = { ...ready, size: Math.max(node.size, end) };
      await change.sparse.write(change.tx, after.content, start, staged);
      await save(change, node, after);
    }, given);
  } catch (error) {
    around.contents.discard(staged);
    throw error;
  }
  breakReaders(around, open);
  if (data.length <= HEAP_CHUNK_MAX) open.settleEarly();
}

/** A file whose content is changed through an open that may keep its times as they are. */
export function touched(
  open: FileOpen,
  node: FileRecord,
  { tick, ...changed }: ReturnType<typeof stamped>,
): FileRecord {
  const at = hexOf(tick);
  return {
    ...node,
    ...changed,
    ...(open.keptTimes.has("writtenAt") ? {} : { writtenAt: at }),
    ...(open.keptTimes.has("changedAt") ? {} : { changedAt: at }),
  };
}

async function stagedOf({ contents }: Around, data: Buffer): Promise<Staged> {
  if (data.length === 0) return { size: 0, parts: [] };
  if (data.length <= HEAP_CHUNK_MAX) return { size: data.length, parts: [{ bytes: data }] };
  return contents.stage(once(data), data.length);
}

async function* once(data: Buffer): AsyncGenerator<Buffer> {
  yield data;
}
