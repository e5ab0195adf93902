import { sidAt } from "./sids.ts";

// Which parts of a security descriptor are meant (MS-DTYP 2.4.7).
export const OWNER = 1;
export const GROUP = 2;
export const DACL = 4;
export const SACL = 8;

const HEAD_SIZE = 20;
const SELF_RELATIVE = 0x8000;
/** Each part by its bit: where its offset stands in the head, and the control bits that are its own. */
const PARTS: readonly (readonly [part: number, place: number, control: number])[] = [
  [OWNER, 4, 0x1],
  [GROUP, 8, 0x2],
  [SACL, 12, 0x2a30],
  [DACL, 16, 0x150c],
];
const PRESENT = { [SACL]: 0x10, [DACL]: 0x4 } as Readonly<Record<number, number>>;

/** A part of a descriptor as it stands there; `bytes` is missing where there is no list at all. */
type Part = { readonly bytes: Buffer | undefined; readonly control: number };

/** Takes a descriptor's bytes apart; undefined if they are none. */
function apart(descriptor: Buffer): ReadonlyMap<number, Part> | undefined {
  if (descriptor.length < HEAD_SIZE || descriptor[0] !== 1) return undefined;
  const control = descriptor.readUInt16LE(2);
  const parts = new Map<number, Part>();
  for (const [part, place, own] of PARTS) {
    const at = descriptor.readUInt32LE(place);
    const present = PRESENT[part];
    if (present === undefined ? at === 0 : (control & present) === 0) continue;
    const end = at === 0 ? 0 : endOf(descriptor, part, at);
    if (end === undefined) return undefined;
    const bytes = at === 0 ? undefined : descriptor.subarray(at, end);
    parts.set(part, { bytes, control: control & own });
  }
  return parts;
}

/** Where a part ends that begins at `at`; undefined if it is beyond the descriptor. */
function endOf(descriptor: Buffer, part: number, at: number): number | undefined {
  if (part === OWNER || part === GROUP) {
    const sid = sidAt(descriptor, at);
    return sid === undefined ? undefined : at + sid.size;
  }
  if (at + 8 > descriptor.length) return undefined;
  const end = at + descriptor.readUInt16LE(at + 2);
  return end >= at + 8 && end <= descriptor.length ? end : undefined;
}

function together(parts: ReadonlyMap<number, Part>): Buffer {
  const head = Buffer.alloc(HEAD_SIZE);
  head[0] = 1;
  let control = SELF_RELATIVE;
  let at = HEAD_SIZE;
  const bodies: Buffer[] = [];
  for (const [part, place] of PARTS) {
    const found = parts.get(part);
    if (found === undefined) continue;
    control |= found.control | (PRESENT[part] ?? 0);
    if (found.bytes === undefined) continue;
    head.writeUInt32LE(at, place);
    bodies.push(found.bytes);
    at += found.bytes.length;
  }
  head.writeUInt16LE(control, 2);
  return Buffer.concat([head, ...bodies]);
}

/** Which parts a descriptor has; none if its bytes are none. */
export const partsIn = (descriptor: Buffer): number =>
  [...(apart(descriptor)?.keys() ?? [])].reduce((all, part) => all | part, 0);

/** Some parts of a descriptor, as a descriptor of their own; undefined if the bytes are none. */
export function chosenParts(descriptor: Buffer, wanted: number): Buffer | undefined {
  const parts = apart(descriptor);
  if (parts === undefined) return undefined;
  return together(new Map([...parts].filter(([part]) => (part & wanted) !== 0)));
}

/** A descriptor some parts of which come from another one; undefined if either is none. */
export function replacedParts(
  descriptor: Buffer,
  given: Buffer,
  wanted: number,
): Buffer | undefined {
  const [before, after] = [apart(descriptor), apart(given)];
  if (before === undefined || after === undefined) return undefined;
  const parts = new Map(before);
  for (const [part] of PARTS) {
    if ((part & wanted) === 0) continue;
    const found = after.get(part);
    if (found !== undefined) parts.set(part, found);
    else if (part === DACL) parts.set(part, { bytes: undefined, control: 0 });
    else if (part === SACL) parts.delete(part);
  }
  return together(parts);
}
