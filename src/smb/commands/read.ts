import { access } from "../access.ts";
import type { Around } from "../around.ts";
import { command } from "../command.ts";
import type { FileOpen } from "../file-open.ts";
import { mayTouch } from "../lock-waiters.ts";
import { SmbError } from "../status.ts";
import { layout, u8, u16, u32, u64 } from "../wire/layout.ts";

const OFFSET_MAX = 0x7fff_ffff_ffff_ffffn;

const answerLayout = layout({
  structureSize: u16,
  dataOffset: u8,
  reserved: u8,
  dataLength: u32,
  dataRemaining: u32,
  reserved2: u32,
});

const bodyOf = (parts: readonly Uint8Array[], size: number): Buffer[] => [
  answerLayout.bytes({ structureSize: 17, dataOffset: 64 + answerLayout.size, dataLength: size }),
  ...(parts as Buffer[]),
];

export const read = command({
  code: 0x0008,
  name: "READ",
  needs: "open",
  structureSize: 49,
  request: {
    structureSize: u16,
    padding: u8,
    flags: u8,
    length: u32,
    offset: u64,
    filePersistent: u64,
    fileVolatile: u64,
    minimumCount: u32,
  },
  payload: ({ length }) => length,
  async handle({ around, open, connection }, { length, offset, minimumCount }) {
    if (length > (connection.negotiated?.sizeMax ?? 0))
      throw new SmbError("STATUS_INVALID_PARAMETER");
    if (open.kind === "pipe") {
      const { bytes, isMore } = open.rpc.read(length);
      if (bytes.length === 0 && length > 0) throw new SmbError("STATUS_PIPE_EMPTY");
      const status = isMore ? "STATUS_BUFFER_OVERFLOW" : "STATUS_SUCCESS";
      return { status, body: bodyOf([bytes], bytes.length) };
    }
    if (open.isDirectory) throw new SmbError("STATUS_INVALID_DEVICE_REQUEST");
    open.need(access.readData | access.execute);
    if (offset > OFFSET_MAX || offset + BigInt(length) > OFFSET_MAX) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
    const { parts, size } = await bytesOf(around, open, Number(offset), length);
    open.position = offset + BigInt(size);
    if (size < minimumCount || (size === 0 && length > 0)) throw new SmbError("STATUS_END_OF_FILE");
    return { body: bodyOf(parts, size) };
  },
});

type Bytes = { readonly parts: readonly Uint8Array[]; readonly size: number };

/** Reads as much of a range as the file has. */
export async function bytesOf(
  around: Around,
  open: FileOpen,
  start: number,
  length: number,
): Promise<Bytes> {
  const range = { start: BigInt(start), count: BigInt(length) };
  const opened = await open.read(async (tx) => {
    const { size, content } = await open.fileRecord(tx);
    if (!mayTouch(around.opens, open, range, false)) {
      throw new SmbError("STATUS_FILE_LOCK_CONFLICT");
    }
    const count = Math.max(0, Math.min(length, size - start));
    if (count === 0) return undefined;
    return { count, bytes: await around.contents.sparse.open(tx, content, { start, count }) };
  });
  if (opened === undefined) return { parts: [], size: 0 };
  const { count, bytes } = opened;
  try {
    if (bytes.bytes !== undefined) return { parts: bytes.bytes, size: count };
    const parts: Uint8Array[] = [];
    for await (const part of bytes.stream()) parts.push(part);
    return { parts, size: count };
  } finally {
    bytes.close();
  }
}
