import { type Tick, tickAt, tickText } from "../base/time.ts";

/** Bits of a file's attributes, as SMB has them (MS-FSCC 2.6). */
export const READ_ONLY = 0x1;
export const DIRECTORY = 0x10;
export const ARCHIVE = 0x20;
export const TEMPORARY = 0x100;

const NAMES: readonly (readonly [name: string, bit: number])[] = [
  ["ReadOnly", READ_ONLY],
  ["Hidden", 0x2],
  ["System", 0x4],
  ["Directory", DIRECTORY],
  ["Archive", ARCHIVE],
  ["Temporary", TEMPORARY],
  ["Offline", 0x1000],
  ["NotContentIndexed", 0x2000],
  ["NoScrubData", 0x20000],
];

export type NodeKind = "file" | "directory";

/** Attributes as headers write them: names between bars, `None` where there is none. */
export function attributesText(bits: number): string {
  const names = NAMES.filter(([, bit]) => (bits & bit) !== 0).map(([name]) => name);
  return names.length === 0 ? "None" : names.join(" | ");
}

/**
 * The bits of such a text, in any case; undefined if it is none. `None` stands alone, only a directory has
 * Directory, and has it always, only a file is Temporary.
 */
export function parseAttributes(text: string, kind: NodeKind): number | undefined {
  const own = kind === "directory" ? DIRECTORY : 0;
  const names = text.split("|").map((name) => name.trim().toLowerCase());
  if (names.length === 1 && names[0] === "none") return own;
  let bits = own;
  for (const wanted of names) {
    const bit = NAMES.find(([name]) => name.toLowerCase() === wanted)?.[1];
    if (bit === undefined) return undefined;
    bits |= bit;
  }
  const foreign = kind === "directory" ? TEMPORARY : DIRECTORY;
  return (bits & foreign) !== 0 ? undefined : bits;
}

const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,7}))?Z$/;

/** SMB counts time from here on, so nothing of a share is older. */
const EARLIEST = "1601-01-01T00:00:00";

/** An ISO 8601 time in UTC with up to seven digits of a second, since 1601; undefined if it is none. */
export function parseFileTime(text: string): Tick | undefined {
  const match = TIME.exec(text);
  if (match === null) return undefined;
  const [, seconds = "", fraction = ""] = match;
  const at = Date.parse(`${seconds}Z`);
  if (Number.isNaN(at) || seconds < EARLIEST) return undefined;
  const tick = tickAt(at) + BigInt(fraction.padEnd(7, "0"));
  return tickText(tick).startsWith(seconds) ? tick : undefined; // there is no 30th of February
}

const QUOTA_MAX = 102_400;

/** A share's size limit in GiB, from 1 to 100 TiB; undefined if the text is none. */
export function parseQuota(text: string): number | undefined {
  const quota = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  return quota >= 1 && quota <= QUOTA_MAX ? quota : undefined;
}

const shareTiers = ["TransactionOptimized", "Hot", "Cool"] as const;
export type ShareTier = (typeof shareTiers)[number];

/** A tier of a share in a general purpose account, in any case; Premium belongs to another kind of account. */
export const parseShareTier = (text: string): ShareTier | undefined =>
  shareTiers.find((tier) => tier.toLowerCase() === text.toLowerCase());
