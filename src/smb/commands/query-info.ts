import type { ReadTx } from "../../engine/engine.ts";
import { tickOf } from "../../file/namespace.ts";
import { pathOf } from "../../file/tree.ts";
import { DACL, GROUP, OWNER, SACL } from "../../rules/descriptor-parts.ts";
import type { NodeRecord } from "../../store/file-records.ts";
import { usage } from "../../store/keys.ts";
import { access } from "../access.ts";
import type { Around } from "../around.ts";
import { command } from "../command.ts";
import { type FileOpen, shareAt } from "../file-open.ts";
import { allocationOf, attributesOf, numberOf, timesOf } from "../node-facts.ts";
import { SMB_311 } from "../protection.ts";
import { descriptorParts } from "../security.ts";
import { type NtStatus, SmbError } from "../status.ts";
import { layout, u8, u16, u32, u64 } from "../wire/layout.ts";

const FILE = 1;
const FILE_SYSTEM = 2;
const SECURITY = 3;

const answerLayout = layout({ structureSize: u16, offset: u16, length: u32 });

const basic = layout({
  creationTime: u64,
  lastAccessTime: u64,
  lastWriteTime: u64,
  changeTime: u64,
  attributes: u32,
  reserved: u32,
});
const standard = layout({
  allocationSize: u64,
  endOfFile: u64,
  links: u32,
  deletePending: u8,
  directory: u8,
  reserved: u16,
});
const networkOpen = layout({
  creationTime: u64,
  lastAccessTime: u64,
  lastWriteTime: u64,
  changeTime: u64,
  allocationSize: u64,
  endOfFile: u64,
  attributes: u32,
  reserved: u32,
});
const one32 = layout({ value: u32 });
const one64 = layout({ value: u64 });
const attributeTag = layout({ attributes: u32, tag: u32 });
const compression = layout({ size: u64, format: u16, shifts: u32, reserved: u16 });
const fileId = layout({ volume: u64, file: u64, fileHigh: u64 });
const stream = layout({ next: u32, nameLength: u32, size: u64, allocation: u64 });

type Seen = {
  readonly open: FileOpen;
  readonly around: Around;
  readonly node: NodeRecord;
  readonly tx: ReadTx;
  readonly isNewest: boolean;
};

const sizeOf = (node: NodeRecord) => BigInt(node.kind === "file" ? node.size : 0);

const basicBytes = ({ node }: Seen) =>
  basic.bytes({ ...timesOf(node), attributes: attributesOf(node) });

function standardBytes({ node, open, around }: Seen): Buffer {
  const isPending = around.opens.isDeletePending(open);
  return standard.bytes({
    allocationSize: BigInt(allocationOf(node, open.allocation)),
    endOfFile: sizeOf(node),
    links: isPending ? 0 : 1,
    deletePending: isPending ? 1 : 0,
    directory: node.kind === "directory" ? 1 : 0,
  });
}

async function nameBytes({ tx, open, node }: Seen, lead: string): Promise<Buffer> {
  const name = Buffer.from(lead + (await pathOf(tx, open.view, node)).join("\\"), "utf16le");
  return Buffer.concat([one32.bytes({ value: name.length }), name]);
}

/** A class of information: the least room it needs, what one must be allowed, and its bytes. */
type InfoRow = {
  readonly least: number;
  readonly needs?: number;
  bytes(seen: Seen): Buffer | Promise<Buffer>;
};

const READ_ATTRIBUTES = access.readAttributes;
const NOT_THERE = (status: NtStatus): InfoRow => ({
  least: 0,
  bytes: () => {
    throw new SmbError(status);
  },
});

const fileRows = new Map<number, InfoRow>([
  [4, { least: 40, needs: READ_ATTRIBUTES, bytes: basicBytes }],
  [5, { least: 24, bytes: standardBytes }],
  [6, { least: 8, bytes: ({ open }) => one64.bytes({ value: numberOf(open.file) }) }],
  [7, { least: 4, bytes: () => one32.bytes({}) }],
  [8, { least: 4, bytes: ({ open }) => one32.bytes({ value: open.granted }) }],
  [14, { least: 8, bytes: ({ open }) => one64.bytes({ value: open.position }) }],
  [15, NOT_THERE("STATUS_NO_EAS_ON_FILE")],
  [16, { least: 4, bytes: ({ open }) => one32.bytes({ value: open.mode }) }],
  [17, { least: 4, bytes: () => one32.bytes({}) }],
  [
    18,
    {
      least: 104,
      needs: READ_ATTRIBUTES,
      async bytes(seen) {
        const { open } = seen;
        return Buffer.concat([
          basicBytes(seen),
          standardBytes(seen),
          one64.bytes({ value: numberOf(open.file) }),
          one32.bytes({}),
          one32.bytes({ value: open.granted }),
          one64.bytes({ value: open.position }),
          one32.bytes({ value: open.mode }),
          one32.bytes({}),
          await nameBytes(seen, "\\"),
        ]);
      },
    },
  ],
  [21, NOT_THERE("STATUS_OBJECT_NAME_NOT_FOUND")],
  [
    22,
    {
      least: 32,
      bytes({ node }) {
        if (node.kind === "directory") return Buffer.alloc(0);
        const name = Buffer.from("::$DATA", "utf16le");
        const allocation = BigInt(allocationOf(node));
        const head = stream.bytes({ nameLength: name.length, size: sizeOf(node), allocation });
        return Buffer.concat([head, name]);
      },
    },
  ],
  [28, { least: 16, bytes: ({ node }) => compression.bytes({ size: sizeOf(node) }) }],
  [
    34,
    {
      least: 56,
      needs: READ_ATTRIBUTES,
      bytes: ({ node, open }) =>
        networkOpen.bytes({
          ...timesOf(node),
          allocationSize: BigInt(allocationOf(node, open.allocation)),
          endOfFile: sizeOf(node),
          attributes: attributesOf(node),
        }),
    },
  ],
  [
    35,
    {
      least: 8,
      needs: READ_ATTRIBUTES,
      bytes: ({ node }) => attributeTag.bytes({ attributes: attributesOf(node) }),
    },
  ],
  [
    48,
    {
      least: 8,
      bytes(seen) {
        if (!seen.isNewest) throw new SmbError("STATUS_NOT_SUPPORTED");
        return nameBytes(seen, "");
      },
    },
  ],
  [
    59,
    {
      least: 24,
      bytes: ({ open }) => fileId.bytes({ volume: open.share, file: numberOf(open.file) }),
    },
  ],
]);

const volume = layout({
  creationTime: u64,
  serial: u32,
  labelLength: u32,
  objects: u8,
  reserved: u8,
});
const fsSize = layout({ total: u64, available: u64, sectors: u32, sectorSize: u32 });
const fsFullSize = layout({
  total: u64,
  available: u64,
  actual: u64,
  sectors: u32,
  sectorSize: u32,
});
const device = layout({ type: u32, characteristics: u32 });
const fsAttribute = layout({ flags: u32, componentMax: u32, nameLength: u32 });
const sectors = layout({
  logical: u32,
  physical: u32,
  physicalPerformance: u32,
  effective: u32,
  flags: u32,
  alignment: u32,
  partition: u32,
});

const GIB = 1024 ** 3;
const SECTOR = 512;
const SECTORS_PER_UNIT = 8;
const UNIT = SECTOR * SECTORS_PER_UNIT;
/** Case is kept, names are Unicode, access lists are kept. */
const FS_FLAGS = 0x2 | 0x4 | 0x8;
const DISK = 7;
const MOUNTED = 0x20;

async function roomOf({ tx, open }: Seen): Promise<{ total: bigint; available: bigint }> {
  const { record } = await shareAt(tx, open.place);
  const quota = record.quota * GIB;
  const used = (await usage.get(tx, open.share)) ?? 0;
  const units = (size: number) => BigInt(Math.floor(Math.max(0, size) / UNIT));
  return { total: units(quota), available: units(quota - used) };
}

const fsRows = new Map<number, InfoRow>([
  [
    1,
    {
      least: 24,
      async bytes({ tx, open }) {
        const label = Buffer.from(open.place.name, "utf16le");
        const { record } = await shareAt(tx, open.place);
        const root = { creationTime: tickOf(record.id) - 504_911_232_000_000_000n };
        const serial = Number(BigInt.asUintN(32, open.share));
        return Buffer.concat([volume.bytes({ ...root, serial, labelLength: label.length }), label]);
      },
    },
  ],
  [
    3,
    {
      least: 24,
      bytes: async (seen) =>
        fsSize.bytes({ ...(await roomOf(seen)), sectors: SECTORS_PER_UNIT, sectorSize: SECTOR }),
    },
  ],
  [4, { least: 8, bytes: () => device.bytes({ type: DISK, characteristics: MOUNTED }) }],
  [
    5,
    {
      least: 16,
      bytes() {
        const name = Buffer.from("NTFS", "utf16le");
        const head = fsAttribute.bytes({
          flags: FS_FLAGS,
          componentMax: 255,
          nameLength: name.length,
        });
        return Buffer.concat([head, name]);
      },
    },
  ],
  [
    7,
    {
      least: 32,
      async bytes(seen) {
        const { total, available } = await roomOf(seen);
        const room = { total, available, actual: available };
        return fsFullSize.bytes({ ...room, sectors: SECTORS_PER_UNIT, sectorSize: SECTOR });
      },
    },
  ],
  [6, { least: 48, bytes: () => Buffer.alloc(48) }],
  [8, { least: 64, bytes: ({ open }) => Buffer.concat([volumeId(open.share), Buffer.alloc(48)]) }],
  [
    11,
    {
      least: 28,
      bytes: () =>
        sectors.bytes({
          logical: SECTOR,
          physical: UNIT,
          physicalPerformance: UNIT,
          effective: UNIT,
          flags: 3,
        }),
    },
  ],
]);

function volumeId(share: bigint): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeBigUInt64LE(share);
  return bytes;
}

export const queryInfo = command({
  code: 0x0010,
  name: "QUERY_INFO",
  needs: "open",
  structureSize: 41,
  request: {
    structureSize: u16,
    infoType: u8,
    infoClass: u8,
    outputLength: u32,
    inputOffset: u16,
    reserved: u16,
    inputLength: u32,
    additional: u32,
    flags: u32,
    filePersistent: u64,
    fileVolatile: u64,
  },
  payload: ({ outputLength, inputLength }) => Math.max(outputLength, inputLength),
  async handle({ around, open, connection }, { infoType, infoClass, outputLength, additional }) {
    if (outputLength > (connection.negotiated?.sizeMax ?? 0)) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
    if (open.kind === "pipe") return pipeInfo(infoType, infoClass, outputLength);
    if (infoType === SECURITY) return securityInfo(open, additional, outputLength);
    if (infoType !== FILE && infoType !== FILE_SYSTEM) throw new SmbError("STATUS_NOT_SUPPORTED");
    const row = (infoType === FILE ? fileRows : fsRows).get(infoClass);
    if (row === undefined) throw new SmbError("STATUS_INVALID_INFO_CLASS");
    if (outputLength < row.least) throw new SmbError("STATUS_INFO_LENGTH_MISMATCH");
    if (row.needs !== undefined) open.need(row.needs);
    const isNewest = connection.negotiated?.dialect === SMB_311;
    const bytes = await open.read(async (tx) =>
      row.bytes({ open, around, node: await open.node(tx), tx, isNewest }),
    );
    return infoReply(bytes, outputLength);
  },
});

function infoReply(bytes: Buffer, room: number) {
  const fits = bytes.length <= room;
  const told = fits ? bytes : bytes.subarray(0, room);
  const status: NtStatus = fits ? "STATUS_SUCCESS" : "STATUS_BUFFER_OVERFLOW";
  const head = answerLayout.bytes({
    structureSize: 9,
    offset: 64 + answerLayout.size,
    length: told.length,
  });
  return { status, body: [head, told] };
}

function pipeInfo(infoType: number, infoClass: number, room: number) {
  if (infoType !== FILE || infoClass !== 5) throw new SmbError("STATUS_NOT_SUPPORTED");
  if (room < standard.size) throw new SmbError("STATUS_INFO_LENGTH_MISMATCH");
  return infoReply(standard.bytes({ allocationSize: 4096n, links: 1, deletePending: 1 }), 24);
}

async function securityInfo(open: FileOpen, parts: number, room: number) {
  if ((parts & (OWNER | GROUP | DACL)) !== 0) open.need(access.readControl);
  if ((parts & SACL) !== 0) open.need(access.systemSecurity);
  const bytes = await open.read(async (tx) => {
    const { permission } = await open.node(tx);
    return descriptorParts(tx, open.share, permission, parts);
  });
  if (bytes.length > room) {
    throw new SmbError("STATUS_BUFFER_TOO_SMALL", one32.bytes({ value: bytes.length }));
  }
  return infoReply(bytes, room);
}
