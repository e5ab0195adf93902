import { tickOf } from "../../file/namespace.ts";
import { access } from "../access.ts";
import { type CallWith, command } from "../command.ts";
import type { FileOpen } from "../file-open.ts";
import { allocationOf, attributesOf, numberOf, timesOf } from "../node-facts.ts";
import { type Found, Search } from "../search.ts";
import { SmbError } from "../status.ts";
import { layout, partOf, u8, u16, u32, u64 } from "../wire/layout.ts";

const RESTART = 0x1;
const SINGLE = 0x2;
const REOPEN = 0x10;
const PATTERN_MAX = 1024;

const answerLayout = layout({ structureSize: u16, offset: u16, length: u32 });

// Directory entries (MS-FSCC 2.4); the name follows at once.
const headFields = {
  next: u32,
  index: u32,
  creationTime: u64,
  lastAccessTime: u64,
  lastWriteTime: u64,
  changeTime: u64,
  endOfFile: u64,
  allocationSize: u64,
  attributes: u32,
  nameLength: u32,
};
const shortFields = {
  shortNameLength: u8,
  reserved1: u8,
  shortName1: u64,
  shortName2: u64,
  shortName3: u64,
};
const longIdFields = { eaSize: u32, reparseTag: u32, fileId: u64, fileIdHigh: u64 };
const entryLayouts = new Map([
  [0x01, layout(headFields)],
  [0x02, layout({ ...headFields, eaSize: u32 })],
  [0x03, layout({ ...headFields, eaSize: u32, ...shortFields })],
  [0x0c, layout({ next: u32, index: u32, nameLength: u32 })],
  [0x25, layout({ ...headFields, eaSize: u32, ...shortFields, reserved2: u16, fileId: u64 })],
  [0x26, layout({ ...headFields, eaSize: u32, reserved1: u32, fileId: u64 })],
  [0x3c, layout({ ...headFields, ...longIdFields })],
  [0x3f, layout({ ...headFields, ...longIdFields, ...shortFields })],
]);

export const queryDirectory = command({
  code: 0x000e,
  name: "QUERY_DIRECTORY",
  needs: "open",
  structureSize: 33,
  request: {
    structureSize: u16,
    infoClass: u8,
    flags: u8,
    fileIndex: u32,
    filePersistent: u64,
    fileVolatile: u64,
    nameOffset: u16,
    nameLength: u16,
    outputLength: u32,
  },
  payload: ({ outputLength }) => outputLength,
  async handle(call, request) {
    const { open, message, connection } = call;
    const { infoClass, flags, outputLength } = request;
    if (open.kind !== "file" || !open.isDirectory) throw new SmbError("STATUS_INVALID_PARAMETER");
    if (outputLength > (connection.negotiated?.sizeMax ?? 0)) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
    const entry = entryLayouts.get(infoClass);
    if (entry === undefined) throw new SmbError("STATUS_INVALID_INFO_CLASS");
    open.need(access.readData);
    if (outputLength < entry.size) throw new SmbError("STATUS_INFO_LENGTH_MISMATCH");
    const search = searchOf(open, flags, partOf(message, request.nameOffset, request.nameLength));
    const { entries, isTooLong } = await filled(call, search, {
      entry,
      room: outputLength,
      isSingle: (flags & SINGLE) !== 0,
    });
    if (entries.length === 0) {
      if (isTooLong) throw new SmbError("STATUS_BUFFER_OVERFLOW");
      const { isFresh } = search;
      search.isFresh = false;
      throw new SmbError(isFresh ? "STATUS_NO_SUCH_FILE" : "STATUS_NO_MORE_FILES");
    }
    search.isFresh = false;
    const body = Buffer.concat(entries);
    const head = answerLayout.bytes({
      structureSize: 9,
      offset: 64 + answerLayout.size,
      length: body.length,
    });
    return { body: [head, body] };
  },
});

/** The search that goes on, or a new one; the pattern of the first request stays until a client reopens. */
function searchOf(open: FileOpen, flags: number, bytes: Buffer): Search {
  const pattern = bytes.toString("utf16le");
  if (pattern.length > PATTERN_MAX || /[\\/]/.test(pattern))
    throw new SmbError("STATUS_OBJECT_NAME_INVALID");
  if (open.search === undefined || (flags & REOPEN) !== 0) {
    if (pattern === "") throw new SmbError("STATUS_OBJECT_NAME_INVALID");
    open.search = new Search(pattern);
  } else if ((flags & RESTART) !== 0) {
    open.search = new Search(pattern === "" ? open.search.pattern : pattern);
  }
  return open.search;
}

type Room = {
  readonly entry: NonNullable<ReturnType<typeof entryLayouts.get>>;
  readonly room: number;
  readonly isSingle: boolean;
};

async function filled(
  { open }: CallWith<"open">,
  search: Search,
  { entry, room, isSingle }: Room,
): Promise<{ entries: Buffer[]; isTooLong: boolean }> {
  const entries: Buffer[] = [];
  let size = 0;
  let isTooLong = false;
  const take = ({ name, node }: Found): boolean => {
    if (isSingle && entries.length > 0) return false;
    const bytes = Buffer.from(name, "utf16le");
    const start = Math.ceil(size / 8) * 8;
    if (start + entry.size + bytes.length > room) {
      isTooLong = entries.length === 0;
      return false;
    }
    const last = entries.at(-1);
    if (last !== undefined) {
      last.writeUInt32LE(last.length + start - size, 0);
      if (start > size) entries.push(Buffer.alloc(start - size));
    }
    const fixed = entry.bytes({
      ...timesOf(node),
      endOfFile: BigInt(node.kind === "file" ? node.size : 0),
      allocationSize: BigInt(allocationOf(node)),
      attributes: attributesOf(node),
      nameLength: bytes.length,
      fileId: numberOf(tickOf(node.id)),
    } as Parameters<typeof entry.bytes>[0]);
    entries.push(Buffer.concat([fixed, bytes]));
    size = start + entry.size + bytes.length;
    return true;
  };
  if (open.kind === "file") await open.read((tx) => search.run(tx, open, take));
  return { entries, isTooLong };
}
