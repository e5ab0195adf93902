import { cleared } from "../../file/clearing.ts";
import { stamped } from "../../file/node.ts";
import { prepare, save } from "../../file/tree.ts";
import { StorageError } from "../../rules/errors.ts";
import { shareSnapshots } from "../../store/keys.ts";
import { access } from "../access.ts";
import { type Call, type CallWith, command } from "../command.ts";
import { DURABLES_MAX } from "../create/durable.ts";
import type { FileOpen } from "../file-open.ts";
import { mayTouch } from "../lock-waiters.ts";
import type { Open } from "../open.ts";
import { breakReaders } from "../oplocks.ts";
import { SMB_210, SMB_311 } from "../protection.ts";
import { type NtStatus, ProtocolViolation, SmbError } from "../status.ts";
import { statusOf } from "../storage-status.ts";
import { fileTimeOf } from "../times.ts";
import { layout, partOf, raw, u16, u32, u64 } from "../wire/layout.ts";
import { bytesOf } from "./read.ts";
import { FILE_SIZE_MAX, touched, written } from "./write.ts";

const IS_FSCTL = 1;
const NO_ID = 0xffff_ffff_ffff_ffffn;

const answerLayout = layout({
  structureSize: u16,
  reserved: u16,
  code: u32,
  filePersistent: u64,
  fileVolatile: u64,
  inputOffset: u32,
  inputCount: u32,
  outputOffset: u32,
  outputCount: u32,
  flags: u32,
  reserved2: u32,
});

type Control = {
  readonly call: CallWith<"tree">;
  readonly input: Buffer;
  readonly room: number;
};
type Output = { readonly status?: NtStatus; readonly output: Buffer };
type ControlRow = (control: Control, open: FileOpen) => Promise<Output>;

const none: Output = { output: Buffer.alloc(0) };
const refused =
  (status: NtStatus): ControlRow =>
  async () => {
    throw new SmbError(status);
  };

const VALIDATE_NEGOTIATE = 0x00140204;
const NETWORK_INTERFACES = 0x001401fc;
const DFS_REFERRALS = 0x00060194;
const DFS_REFERRALS_EX = 0x000601b0;
const PIPE_TRANSCEIVE = 0x0011c017;
const PIPE_WAIT = 0x00110018;

/** Controls of a file, by their codes (MS-FSCC 2.3 and MS-SMB2 2.2.31). */
const fileControls = new Map<number, ControlRow>([
  [0x00140078, resumeKey],
  [0x001440f2, (control, open) => copyChunks(control, open, true)],
  [0x001480f2, (control, open) => copyChunks(control, open, false)],
  [0x000900c4, setSparse],
  [0x000980c8, setZeroData],
  [0x000940cf, allocatedRanges],
  [0x00144064, enumerateSnapshots],
  [0x000900a8, refused("STATUS_NOT_A_REPARSE_POINT")],
  [0x0009009c, refused("STATUS_NOT_SUPPORTED")],
  [0x000900c0, objectId],
  [0x0009003c, async () => ({ output: Buffer.alloc(2) })],
  [0x0009c040, setCompression],
  [0x000900a4, refused("STATUS_NOT_SUPPORTED")],
  [0x001401d4, requestResiliency],
]);

export const ioctl = command({
  code: 0x000b,
  name: "IOCTL",
  needs: "tree",
  structureSize: 57,
  request: {
    structureSize: u16,
    reserved: u16,
    code: u32,
    filePersistent: u64,
    fileVolatile: u64,
    inputOffset: u32,
    inputCount: u32,
    inputMax: u32,
    outputOffset: u32,
    outputCount: u32,
    outputMax: u32,
    flags: u32,
    reserved2: u32,
  },
  payload: ({ inputCount, outputMax, outputCount }) =>
    Math.max(inputCount + outputCount, outputMax),
  async handle(call, request) {
    const { connection, message } = call;
    const { code, filePersistent, fileVolatile } = request;
    if (request.flags !== IS_FSCTL) throw new SmbError("STATUS_NOT_SUPPORTED");
    const sizeMax = connection.negotiated?.sizeMax ?? 0;
    if (request.outputMax > sizeMax || request.inputCount > sizeMax) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
    const input = partOf(message, request.inputOffset, request.inputCount);
    const control: Control = { call, input, room: request.outputMax };
    const { status = "STATUS_SUCCESS", output } = await controlled(code, control, request);
    const isCut = output.length > request.outputMax;
    if (isCut) throw new SmbError("STATUS_BUFFER_TOO_SMALL");
    const at = 64 + answerLayout.size;
    const head = answerLayout.bytes({
      structureSize: 49,
      code,
      filePersistent,
      fileVolatile,
      inputOffset: at,
      outputOffset: at,
      outputCount: output.length,
    });
    return { status, body: [head, output] };
  },
});

async function controlled(
  code: number,
  control: Control,
  ids: { readonly filePersistent: bigint; readonly fileVolatile: bigint },
): Promise<Output> {
  const { call, input, room } = control;
  switch (code) {
    case VALIDATE_NEGOTIATE:
      return validateNegotiate(call, input, room);
    case DFS_REFERRALS:
    case DFS_REFERRALS_EX:
      throw new SmbError("STATUS_NOT_FOUND");
    case NETWORK_INTERFACES:
      throw new SmbError("STATUS_NOT_SUPPORTED");
    case PIPE_WAIT:
      return none;
    default:
  }
  const open = openOf(call, ids);
  if (open.kind === "pipe") {
    if (code !== PIPE_TRANSCEIVE) throw new SmbError("STATUS_NOT_SUPPORTED");
    await open.rpc.write(input);
    const { bytes, isMore } = open.rpc.read(room);
    return { status: isMore ? "STATUS_BUFFER_OVERFLOW" : "STATUS_SUCCESS", output: bytes };
  }
  const row = fileControls.get(code);
  if (row === undefined) throw new SmbError("STATUS_INVALID_DEVICE_REQUEST");
  return row(control, open);
}

/** The open a control is about; some name none, so the dispatcher does not look. */
function openOf(
  {
    session,
    tree,
    relatedFile,
    failed,
  }: Call & { session: { opens: Map<bigint, Open> } | undefined },
  { filePersistent, fileVolatile }: { filePersistent: bigint; fileVolatile: bigint },
): Open {
  if (filePersistent !== fileVolatile) throw new SmbError("STATUS_FILE_CLOSED");
  const isRelated = fileVolatile === NO_ID;
  if (isRelated && failed !== undefined) throw new SmbError(failed);
  const handle = isRelated && relatedFile !== undefined ? relatedFile : fileVolatile;
  const open = session?.opens.get(handle);
  if (open === undefined || open.tree !== tree) throw new SmbError("STATUS_FILE_CLOSED");
  return open;
}

const validateLayout = layout({ capabilities: u32, guid: raw(16), securityMode: u16, count: u16 });
const validAnswer = layout({ capabilities: u32, guid: raw(16), securityMode: u16, dialect: u16 });

/** Proves that nobody changed the negotiation on its way; if somebody did, no answer is safe. */
function validateNegotiate({ connection, around }: Call, input: Buffer, room: number): Output {
  const { negotiated } = connection;
  if (negotiated === undefined || negotiated.dialect === SMB_311) {
    throw new ProtocolViolation("it validates a negotiation that needs no proof");
  }
  const { capabilities, guid, securityMode, count } = validateLayout.read(input);
  const list = partOf(input, validateLayout.size, count * 2);
  const dialects = Array.from({ length: count }, (_, i) => list.readUInt16LE(i * 2));
  const isSame =
    capabilities === negotiated.clientCapabilities &&
    guid.equals(negotiated.clientGuid) &&
    securityMode === negotiated.clientSecurityMode &&
    dialects.length === negotiated.dialects.length &&
    dialects.every((dialect, i) => dialect === negotiated.dialects[i]);
  if (!isSame || room < validAnswer.size)
    throw new ProtocolViolation("its negotiation was changed on the way");
  return {
    output: validAnswer.bytes({
      capabilities: negotiated.capabilities,
      guid: around.serverGuid,
      securityMode: negotiated.securityMode,
      dialect: negotiated.dialect,
    }),
  };
}

const keyLayout = layout({
  handle: u64,
  reserved: u64,
  reserved2: u64,
  contextLength: u32,
  context: u32,
});

async function resumeKey(_control: Control, open: FileOpen): Promise<Output> {
  return {
    output: keyLayout.bytes({ handle: open.handle, reserved: open.share, reserved2: open.file }),
  };
}

const copyLayout = layout({
  handle: u64,
  reserved: u64,
  reserved2: u64,
  count: u32,
  reserved3: u32,
});
const chunkLayout = layout({ source: u64, target: u64, length: u32, reserved: u32 });
const copiedLayout = layout({ chunks: u32, chunkBytes: u32, total: u32 });
const CHUNKS_MAX = 256;
const CHUNK_MAX = 1024 * 1024;
const COPY_MAX = 16 * 1024 * 1024;

/** Copies ranges between files, here and without the client (MS-SMB2 3.3.5.15.6). */
async function copyChunks(control: Control, open: FileOpen, reads: boolean): Promise<Output> {
  const { call, input, room } = control;
  if (room < copiedLayout.size) throw new SmbError("STATUS_INVALID_PARAMETER");
  const { handle, count } = copyLayout.read(input);
  const source = call.session.opens.get(handle);
  if (source === undefined || source.kind !== "file" || source.isClosed) {
    throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
  }
  const limits = {
    status: "STATUS_INVALID_PARAMETER" as const,
    output: copiedLayout.bytes({ chunks: CHUNKS_MAX, chunkBytes: CHUNK_MAX, total: COPY_MAX }),
  };
  if (count > CHUNKS_MAX) return limits;
  const chunks = Array.from({ length: count }, (_, i) =>
    chunkLayout.read(input, copyLayout.size + i * chunkLayout.size),
  );
  const total = chunks.reduce((sum, { length }) => sum + length, 0);
  if (chunks.some(({ length }) => length === 0 || length > CHUNK_MAX) || total > COPY_MAX)
    return limits;
  source.need(access.readData | access.execute);
  open.need(access.writeData | access.appendData);
  if (reads) open.need(access.readData);
  if (open.isDirectory || source.isDirectory) throw new SmbError("STATUS_INVALID_DEVICE_REQUEST");
  let done = 0;
  let bytes = 0;
  const told = () => copiedLayout.bytes({ chunks: done, chunkBytes: 0, total: bytes });
  try {
    for (const chunk of chunks) {
      await copied(call, { source, target: open, chunk });
      done++;
      bytes += chunk.length;
    }
  } catch (error) {
    // What was copied before stays, and is told.
    if (error instanceof SmbError) return { status: error.status, output: told() };
    if (error instanceof StorageError) return { status: statusOf(error.code), output: told() };
    throw error;
  }
  return { output: told() };
}

async function copied(
  { around }: Call,
  {
    source,
    target,
    chunk,
  }: {
    source: FileOpen;
    target: FileOpen;
    chunk: { readonly source: bigint; readonly target: bigint; readonly length: number };
  },
): Promise<void> {
  const end = BigInt(chunk.length);
  const isFar = (start: bigint) => start + end > BigInt(FILE_SIZE_MAX);
  if (isFar(chunk.source)) throw new SmbError("STATUS_INVALID_VIEW_SIZE");
  if (isFar(chunk.target)) throw new SmbError("STATUS_DISK_FULL");
  const read = await bytesOf(around, source, Number(chunk.source), chunk.length);
  if (read.size < chunk.length) throw new SmbError("STATUS_INVALID_VIEW_SIZE");
  const data = Buffer.concat(read.parts, read.size);
  await written(around, target, { start: Number(chunk.target), data, given: "soon" });
}

const objectLayout = layout({ file: u64, share: u64, birth: raw(48) });

/** A name for the file that stays wherever it goes. */
async function objectId(_control: Control, open: FileOpen): Promise<Output> {
  return { output: objectLayout.bytes({ file: open.file, share: open.share }) };
}

const resiliencyLayout = layout({ timeoutMs: u32, reserved: u32 });
const RESILIENCY_MAX_MS = 300_000;

/** The open is to outlive its connection for a while, whatever its client holds (MS-SMB2 3.3.5.15.9). */
async function requestResiliency({ call, input }: Control, open: FileOpen): Promise<Output> {
  const { connection, around, session } = call;
  if ((connection.negotiated?.dialect ?? 0) < SMB_210)
    throw new SmbError("STATUS_INVALID_DEVICE_REQUEST");
  const { timeoutMs } = resiliencyLayout.read(input);
  if (timeoutMs > RESILIENCY_MAX_MS) throw new SmbError("STATUS_INVALID_PARAMETER");
  if (around.durables.size >= DURABLES_MAX) throw new SmbError("STATUS_INSUFFICIENT_RESOURCES");
  open.durable = {
    version: 1,
    timeoutMs: timeoutMs === 0 ? RESILIENCY_MAX_MS : timeoutMs,
    createGuid: undefined,
    clientGuid: connection.negotiated?.clientGuid ?? Buffer.alloc(16),
    account: session.account?.name ?? "",
    isResilient: true,
    timer: undefined,
  };
  around.durables.set(open.handle, open);
  return none;
}

/** Nothing is compressed, and that is all that can be asked for. */
async function setCompression({ input }: Control, open: FileOpen): Promise<Output> {
  open.need(access.writeData);
  if (input.length < 2) throw new SmbError("STATUS_INVALID_PARAMETER");
  if (input.readUInt16LE() !== 0) throw new SmbError("STATUS_NOT_SUPPORTED");
  return none;
}

/** Every file here is sparse already. */
async function setSparse(_control: Control, open: FileOpen): Promise<Output> {
  if (open.isDirectory) throw new SmbError("STATUS_INVALID_PARAMETER");
  open.need(access.writeData | access.appendData | access.writeAttributes);
  return none;
}

const zeroLayout = layout({ start: u64, beyond: u64 });

async function setZeroData({ call, input }: Control, open: FileOpen): Promise<Output> {
  const { start, beyond } = zeroLayout.read(input);
  open.need(access.writeData);
  if (beyond < start || beyond > 0x7fff_ffff_ffff_ffffn)
    throw new SmbError("STATUS_INVALID_PARAMETER");
  const { around } = call;
  await open.change(async (change) => {
    const node = await open.fileRecord(change.tx);
    const range = { start, count: beyond - start };
    if (!mayTouch(around.opens, open, range, true)) throw new SmbError("STATUS_FILE_LOCK_CONFLICT");
    const first = Math.min(Number(start), node.size);
    const count = Math.min(Number(beyond), node.size) - first;
    if (count <= 0) return;
    const after = touched(open, await prepare(change, node), stamped(change.tx));
    await cleared(change, after.content, { start: first, count });
    await save(change, node, after);
  });
  breakReaders(around, open);
  return none;
}

const rangeLayout = layout({ start: u64, count: u64 });

async function allocatedRanges({ call, input, room }: Control, open: FileOpen): Promise<Output> {
  const { start, count } = rangeLayout.read(input);
  open.need(access.readData);
  if (start + count > 0x7fff_ffff_ffff_ffffn) throw new SmbError("STATUS_INVALID_PARAMETER");
  const limit = Math.floor(room / rangeLayout.size);
  const { ranges, next } = await open.read(async (tx) => {
    const { size, content } = await open.fileRecord(tx);
    const first = Math.min(Number(start), size);
    const end = Math.min(Number(start + count), size);
    if (end <= first) return { ranges: [], next: undefined };
    const found = await call.around.contents.sparse.ranges(
      tx,
      content,
      { start: first, count: end - first },
      Math.max(limit, 1),
    );
    const inside = found.ranges.flatMap((range) => {
      const from = Math.max(range.start, first);
      const to = Math.min(range.start + range.count, end);
      return to > from ? [{ start: from, count: to - from }] : [];
    });
    return { ranges: inside, next: found.next };
  });
  if (ranges.length > limit) throw new SmbError("STATUS_BUFFER_TOO_SMALL");
  const output = Buffer.concat(
    ranges.map((range) =>
      rangeLayout.bytes({ start: BigInt(range.start), count: BigInt(range.count) }),
    ),
  );
  return { status: next === undefined ? "STATUS_SUCCESS" : "STATUS_BUFFER_OVERFLOW", output };
}

const snapshotsLayout = layout({ count: u32, returned: u32, size: u32 });

/** The share's snapshots as previous versions, newest first. */
async function enumerateSnapshots({ room }: Control, open: FileOpen): Promise<Output> {
  if (room < 16) throw new SmbError("STATUS_INVALID_PARAMETER");
  const rows = await open.read((tx) =>
    shareSnapshots.walk(tx, [open.share], { limit: 1000, reverse: true }),
  );
  const names = rows.map(({ key }) => `${snapshotName(fileTimeOf(key[1]))}\0`);
  const list = Buffer.from(`${names.join("")}\0`, "utf16le");
  const size = list.length;
  if (snapshotsLayout.size + size > room) {
    const head = snapshotsLayout.bytes({ count: names.length, returned: 0, size });
    return { output: Buffer.concat([head, Buffer.alloc(4)]) };
  }
  const head = snapshotsLayout.bytes({ count: names.length, returned: names.length, size });
  return { output: Buffer.concat([head, list]) };
}

const UNIX_EPOCH = 11_644_473_600n;

function snapshotName(time: bigint): string {
  const seconds = Number(time / 10_000_000n - UNIX_EPOCH);
  const [date = "", clock = ""] = new Date(seconds * 1000).toISOString().slice(0, 19).split("T");
  return `@GMT-${date.replaceAll("-", ".")}-${clock.replaceAll(":", ".")}`;
}
