import { type AccessList, type Ace, type Descriptor, descriptorOf, sddlText } from "./sddl.ts";
import { sidAt, sidBytes } from "./sids.ts";

// A security descriptor in one piece (MS-DTYP 2.4.6): a head of 20 bytes, then what its offsets point to.
const HEAD_SIZE = 20;
const SELF_RELATIVE = 0x8000;
const DACL_PRESENT = 0x4;
const SACL_PRESENT = 0x10;

/** What the letters before a list mean in the head: those of the access list, and those of the audit list. */
const LIST_FLAGS = [
  ["P", 0x1000, 0x2000],
  ["AR", 0x100, 0x200],
  ["AI", 0x400, 0x800],
] as const;

const ACE_TYPES: readonly (readonly [letters: string, code: number])[] = [
  ["A", 0],
  ["D", 1],
  ["AU", 2],
  ["AL", 3],
  ["ML", 0x11],
  ["SP", 0x13],
];
const ACE_FLAGS: readonly (readonly [letters: string, bit: number])[] = [
  ["OI", 0x1],
  ["CI", 0x2],
  ["NP", 0x4],
  ["IO", 0x8],
  ["ID", 0x10],
  ["SA", 0x40],
  ["FA", 0x80],
];

const RIGHTS: Readonly<Record<string, number>> = {
  ...{ GA: 0x10000000, GX: 0x20000000, GW: 0x40000000, GR: 0x80000000 },
  ...{ SD: 0x10000, RC: 0x20000, WD: 0x40000, WO: 0x80000 },
  ...{ CC: 0x1, DC: 0x2, LC: 0x4, SW: 0x8, RP: 0x10, WP: 0x20, DT: 0x40, LO: 0x80, CR: 0x100 },
  ...{ FA: 0x1f01ff, FR: 0x120089, FW: 0x120116, FX: 0x1200a0 },
  ...{ KA: 0xf003f, KR: 0x20019, KW: 0x20006, KX: 0x20019 },
  ...{ NW: 0x1, NR: 0x2, NX: 0x4 },
};
/** Rights that are written as letters; any others as a number. */
const WRITTEN = ["FA", "FR", "FW", "FX", "GA", "GR", "GW", "GX"];

const pairs = (text: string): string[] => text.match(/../g) ?? [];

function maskOf(text: string): number {
  if (/^\d/.test(text)) return Number(text) >>> 0;
  return pairs(text).reduce((mask, letters) => (mask | (RIGHTS[letters] ?? 0)) >>> 0, 0);
}

const rightsText = (mask: number): string =>
  WRITTEN.find((letters) => (RIGHTS[letters] ?? 0) === mask) ?? `0x${mask.toString(16)}`;

/** The descriptor that an SDDL text means, as bytes; undefined if it is none, or has entries files have not. */
export function binaryOf(sddl: string): Buffer | undefined {
  const descriptor = descriptorOf(sddl);
  if (descriptor === undefined) return undefined;
  const { owner, group, access, audit } = descriptor;
  const parts = {
    owner: sidBytes(owner),
    group: sidBytes(group),
    audit: audit === undefined ? Buffer.alloc(0) : listBytes(audit),
    access: access.isNull ? Buffer.alloc(0) : listBytes(access),
  };
  const { owner: first, group: second, audit: third, access: fourth } = parts;
  if (!first || !second || !third || !fourth) return undefined;
  const head = Buffer.alloc(HEAD_SIZE);
  head[0] = 1;
  const control =
    SELF_RELATIVE |
    DACL_PRESENT |
    flagsOf(access, 1) |
    (audit === undefined ? 0 : SACL_PRESENT | flagsOf(audit, 2));
  head.writeUInt16LE(control, 2);
  let at = HEAD_SIZE;
  for (const [index, part] of [first, second, third, fourth].entries()) {
    head.writeUInt32LE(part.length === 0 ? 0 : at, 4 + 4 * index);
    at += part.length;
  }
  return Buffer.concat([head, first, second, third, fourth]);
}

const flagsOf = ({ flags }: AccessList, column: 1 | 2): number =>
  LIST_FLAGS.reduce((bits, row) => (flags.includes(row[0]) ? bits | row[column] : bits), 0);

function listBytes({ aces }: AccessList): Buffer | undefined {
  const parts: Buffer[] = [];
  for (const ace of aces) {
    const bytes = aceBytes(ace);
    if (bytes === undefined) return undefined;
    parts.push(bytes);
  }
  const size = parts.reduce((sum, part) => sum + part.length, 8);
  if (size > 0xffff) return undefined;
  const head = Buffer.alloc(8);
  head[0] = 2;
  head.writeUInt16LE(size, 2);
  head.writeUInt16LE(parts.length, 4);
  return Buffer.concat([head, ...parts]);
}

function aceBytes([type = "", flags = "", rights = "", object, inherited, who = ""]: Ace):
  | Buffer
  | undefined {
  const code = ACE_TYPES.find(([letters]) => letters === type)?.[1];
  const sid = sidBytes(who);
  if (code === undefined || sid === undefined || object || inherited) return undefined;
  const bits = ACE_FLAGS.filter(([letters]) => pairs(flags).includes(letters));
  const head = Buffer.alloc(8);
  head[0] = code;
  head[1] = bits.reduce((all, [, bit]) => all | bit, 0);
  head.writeUInt16LE(8 + sid.length, 2);
  head.writeUInt32LE(maskOf(rights), 4);
  return Buffer.concat([head, sid]);
}

/** A descriptor of bytes as SDDL; undefined if it is none, or has entries that SDDL cannot say of a file. */
export function sddlOf(bytes: Buffer): string | undefined {
  if (bytes.length < HEAD_SIZE || bytes[0] !== 1) return undefined;
  const control = bytes.readUInt16LE(2);
  const isWhole = (control & SELF_RELATIVE) !== 0 && (control & DACL_PRESENT) !== 0;
  const offset = (index: number) => bytes.readUInt32LE(4 + 4 * index);
  const owner = sidAt(bytes, offset(0));
  const group = sidAt(bytes, offset(1));
  if (!isWhole || owner === undefined || group === undefined) return undefined;
  const access = listAt(bytes, offset(3), control, 1);
  const hasAudit = (control & SACL_PRESENT) !== 0 && offset(2) !== 0;
  const audit = hasAudit ? listAt(bytes, offset(2), control, 2) : undefined;
  if (access === undefined || (hasAudit && audit === undefined)) return undefined;
  const descriptor: Descriptor = {
    owner: owner.text,
    group: group.text,
    access,
    ...(audit === undefined ? {} : { audit }),
  };
  return sddlText(descriptor);
}

function listAt(bytes: Buffer, at: number, control: number, column: 1 | 2): AccessList | undefined {
  const flags = LIST_FLAGS.filter((row) => (control & row[column]) !== 0).map(([name]) => name);
  if (at === 0) return { flags, isNull: true, aces: [] };
  if (at + 8 > bytes.length) return undefined;
  const end = at + bytes.readUInt16LE(at + 2);
  const count = bytes.readUInt16LE(at + 4);
  const aces: Ace[] = [];
  let next = at + 8;
  for (let index = 0; index < count; index++) {
    const found = next + 8 <= Math.min(end, bytes.length) ? aceAt(bytes, next) : undefined;
    if (found === undefined) return undefined;
    aces.push(found.ace);
    next += found.size;
  }
  return next <= end ? { flags, isNull: false, aces } : undefined;
}

function aceAt(bytes: Buffer, at: number): { ace: Ace; size: number } | undefined {
  const type = ACE_TYPES.find(([, code]) => code === bytes[at])?.[0];
  const size = bytes.readUInt16LE(at + 2);
  const sid = sidAt(bytes, at + 8);
  if (type === undefined || sid === undefined || size < 8 + sid.size) return undefined;
  const flags = ACE_FLAGS.filter(([, bit]) => ((bytes[at + 1] ?? 0) & bit) !== 0);
  const letters = flags.map(([name]) => name).join("");
  const rights = rightsText(bytes.readUInt32LE(at + 4));
  return { ace: [type, letters, rights, "", "", sid.text], size };
}
