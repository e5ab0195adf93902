import type { LeaseAsked } from "../holdings.ts";
import { SmbError } from "../status.ts";
import { layout, padded, partOf, raw, u16, u32, u64 } from "../wire/layout.ts";

const CONTEXTS_MAX = 64;

const contextLayout = layout({
  next: u32,
  nameOffset: u16,
  nameLength: u16,
  reserved: u16,
  dataOffset: u16,
  dataLength: u32,
});
const leaseLayout = layout({ key: raw(16), state: u32, flags: u32, duration: u64 });
const leaseMore = layout({ parentKey: raw(16), epoch: u16, reserved: u16 });
const fileIdLayout = layout({ persistent: u64, volatile: u64 });
const durableLayout = layout({ timeout: u32, flags: u32, reserved: u64, createGuid: raw(16) });

/** What a client asks for beside the open itself (MS-SMB2 2.2.13.2). */
export type CreateContexts = {
  readonly wantsMaximalAccess: boolean;
  readonly wantsFileId: boolean;
  readonly hasAttributes: boolean;
  readonly lease: LeaseAsked | undefined;
  readonly durable: boolean;
  readonly durable2: { readonly timeoutMs: number; readonly createGuid: Buffer } | undefined;
  readonly reconnect:
    | { readonly handle: bigint; readonly createGuid: Buffer | undefined }
    | undefined;
  readonly allocation: bigint | undefined;
  /** A snapshot's time, as Windows counts it. */
  readonly at: bigint | undefined;
  readonly security: Buffer | undefined;
};

function listOf(bytes: Buffer): ReadonlyMap<string, Buffer> {
  const list = new Map<string, Buffer>();
  for (let at = 0; at < bytes.length; ) {
    const { next, nameOffset, nameLength, dataOffset, dataLength } = contextLayout.read(bytes, at);
    const whole = bytes.subarray(at, next === 0 ? bytes.length : at + next);
    if (nameLength < 4 || nameOffset < contextLayout.size)
      throw new SmbError("STATUS_INVALID_PARAMETER");
    if (next !== 0 && (next % 8 !== 0 || next < contextLayout.size || at + next > bytes.length)) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
    const name = partOf(whole, nameOffset, nameLength).toString("latin1");
    list.set(name, partOf(whole, dataOffset, dataLength));
    if (next === 0) break;
    if (list.size > CONTEXTS_MAX) throw new SmbError("STATUS_INVALID_PARAMETER");
    at += next;
  }
  return list;
}

function leaseOf(data: Buffer | undefined): LeaseAsked | undefined {
  if (data === undefined) return undefined;
  const { key, state, flags } = leaseLayout.read(data);
  const isSecond = data.length >= leaseLayout.size + leaseMore.size;
  const more = isSecond ? leaseMore.read(data, leaseLayout.size) : undefined;
  return {
    version: isSecond ? 2 : 1,
    key: Buffer.from(key),
    state: state & 7,
    flags,
    parentKey: more === undefined ? Buffer.alloc(16) : Buffer.from(more.parentKey),
    epoch: more?.epoch ?? 0,
  };
}

export function createContextsOf(bytes: Buffer): CreateContexts {
  const list = listOf(bytes);
  const has = (name: string) => list.has(name);
  const [first, first2] = [has("DHnQ"), has("DH2Q")];
  const [back, back2] = [has("DHnC"), has("DH2C")];
  const isMixed = (first2 && (first || back || back2)) || (back2 && (first || back));
  const most = list.get("MxAc")?.length ?? 0;
  const isCut = (most !== 0 && most !== 8) || (list.get("DHnQ")?.length ?? 16) !== 16;
  if (isMixed || isCut) throw new SmbError("STATUS_INVALID_PARAMETER");
  const durable2 = first2 ? durableLayout.read(list.get("DH2Q") as Buffer) : undefined;
  return {
    wantsMaximalAccess: has("MxAc"),
    wantsFileId: has("QFid"),
    hasAttributes: has("ExtA"),
    lease: leaseOf(list.get("RqLs")),
    durable: first && !back,
    durable2:
      durable2 === undefined
        ? undefined
        : { timeoutMs: durable2.timeout, createGuid: Buffer.from(durable2.createGuid) },
    reconnect: reconnectOf(list),
    allocation: numberOf(list.get("AlSi")),
    at: numberOf(list.get("TWrp")),
    security: list.get("SecD"),
  };
}

function reconnectOf(list: ReadonlyMap<string, Buffer>): CreateContexts["reconnect"] {
  const second = list.get("DH2C");
  const data = second ?? list.get("DHnC");
  if (data === undefined) return undefined;
  const { persistent } = fileIdLayout.read(data);
  if (second === undefined) return { handle: persistent, createGuid: undefined };
  if (second.length < 36) throw new SmbError("STATUS_INVALID_PARAMETER");
  return { handle: persistent, createGuid: Buffer.from(second.subarray(16, 32)) };
}

function numberOf(data: Buffer | undefined): bigint | undefined {
  if (data === undefined) return undefined;
  if (data.length !== 8) throw new SmbError("STATUS_INVALID_PARAMETER");
  return data.readBigUInt64LE();
}

const BREAK_IN_PROGRESS = 2;
const PARENT_KEY_SET = 4;

/** A lease as the answer has it. */
export function leaseAnswer(
  asked: LeaseAsked,
  { state, epoch, isBreaking }: { state: number; epoch: number; isBreaking: boolean },
): Buffer {
  const kept = asked.version === 2 ? asked.flags & PARENT_KEY_SET : 0;
  const flags = kept | (isBreaking ? BREAK_IN_PROGRESS : 0);
  const head = leaseLayout.bytes({ key: asked.key, state, flags });
  if (asked.version === 1) return head;
  const parentKey = kept === 0 ? Buffer.alloc(16) : asked.parentKey;
  return Buffer.concat([head, leaseMore.bytes({ parentKey, epoch })]);
}

/** Contexts as an answer has them, one behind the other. */
export function contextsBytes(
  contexts: readonly (readonly [name: string, data: Buffer])[],
): Buffer {
  const last = contexts.length - 1;
  return Buffer.concat(
    contexts.map(([name, data], index) => {
      const dataOffset = contextLayout.size + 8; // the name has four bytes, and four more to fill up
      const size = dataOffset + data.length;
      const head = contextLayout.bytes({
        next: index === last ? 0 : Math.ceil(size / 8) * 8,
        nameOffset: contextLayout.size,
        nameLength: 4,
        dataOffset: data.length === 0 ? 0 : dataOffset,
        dataLength: data.length,
      });
      const whole = Buffer.concat([head, Buffer.from(`${name}\0\0\0\0`, "latin1"), data]);
      return index === last ? whole : padded(whole, 8);
    }),
  );
}
