/** Two letters for a SID that is the same everywhere (MS-DTYP 2.4.2.4, 2.5.1.1). */
const ALIASES: Readonly<Record<string, string>> = {
  WD: "S-1-1-0",
  CO: "S-1-3-0",
  CG: "S-1-3-1",
  OW: "S-1-3-4",
  NU: "S-1-5-2",
  IU: "S-1-5-4",
  SU: "S-1-5-6",
  AN: "S-1-5-7",
  ED: "S-1-5-9",
  PS: "S-1-5-10",
  AU: "S-1-5-11",
  RC: "S-1-5-12",
  SY: "S-1-5-18",
  LS: "S-1-5-19",
  NS: "S-1-5-20",
  BA: "S-1-5-32-544",
  BU: "S-1-5-32-545",
  BG: "S-1-5-32-546",
  PU: "S-1-5-32-547",
  AO: "S-1-5-32-548",
  SO: "S-1-5-32-549",
  PO: "S-1-5-32-550",
  BO: "S-1-5-32-551",
  RE: "S-1-5-32-552",
  RU: "S-1-5-32-554",
  RD: "S-1-5-32-555",
  NO: "S-1-5-32-556",
  MU: "S-1-5-32-558",
  LU: "S-1-5-32-559",
  IS: "S-1-5-32-568",
  CY: "S-1-5-32-569",
  ER: "S-1-5-32-573",
  CD: "S-1-5-32-574",
  RA: "S-1-5-32-575",
  ES: "S-1-5-32-576",
  MS: "S-1-5-32-577",
  HA: "S-1-5-32-578",
  AA: "S-1-5-32-579",
  RM: "S-1-5-32-580",
  AC: "S-1-15-2-1",
  LW: "S-1-16-4096",
  ME: "S-1-16-8192",
  MP: "S-1-16-8448",
  HI: "S-1-16-12288",
  SI: "S-1-16-16384",
};

const LETTERS: ReadonlyMap<string, string> = new Map(
  Object.entries(ALIASES).map(([letters, sid]) => [sid, letters]),
);

const FORM = /^S-1-(0x[0-9A-Fa-f]{1,12}|\d{1,15})((?:-\d{1,10}){1,15})$/;
const AUTHORITY_MAX = 2 ** 48 - 1;
const PART_MAX = 2 ** 32 - 1;

/** The bytes of a SID, or of two letters for one; undefined if it is neither, or means one domain's only. */
export function sidBytes(text: string): Buffer | undefined {
  const match = FORM.exec(ALIASES[text] ?? text);
  if (match === null) return undefined;
  const authority = Number(match[1]);
  const parts = (match[2] ?? "").slice(1).split("-").map(Number);
  if (authority > AUTHORITY_MAX || parts.some((part) => part > PART_MAX)) return undefined;
  const bytes = Buffer.alloc(8 + 4 * parts.length);
  bytes[0] = 1;
  bytes[1] = parts.length;
  bytes.writeUIntBE(authority, 2, 6);
  for (const [index, part] of parts.entries()) bytes.writeUInt32LE(part, 8 + 4 * index);
  return bytes;
}

/** The SID that begins at `at`, as text or two letters, and its size; undefined if there is none. */
export function sidAt(bytes: Buffer, at: number): { text: string; size: number } | undefined {
  const count = bytes[at + 1] ?? 0;
  const size = 8 + 4 * count;
  if (bytes[at] !== 1 || count < 1 || count > 15 || at + size > bytes.length) return undefined;
  const parts = Array.from({ length: count }, (_, index) => bytes.readUInt32LE(at + 8 + 4 * index));
  const text = `S-1-${bytes.readUIntBE(at + 2, 6)}-${parts.join("-")}`;
  return { text: LETTERS.get(text) ?? text, size };
}
