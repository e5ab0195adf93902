import type { RangeLock } from "../../rules/sharing.ts";
import { access } from "../access.ts";
import { type CallWith, command } from "../command.ts";
import type { FileOpen } from "../file-open.ts";
import { mayLock } from "../lock-waiters.ts";
import { breakReaders } from "../oplocks.ts";
import { type NtStatus, SmbError } from "../status.ts";
import { EMPTY_BODY } from "../wire/bodies.ts";
import { layout, u16, u32, u64 } from "../wire/layout.ts";

const SHARED = 0x1;
const EXCLUSIVE = 0x2;
const UNLOCK = 0x4;
const AT_ONCE = 0x10;
const LOCKS_MAX = 1024;
const OPEN_LOCKS_MAX = 16_384;
const END = 1n << 64n;

const elementLayout = layout({ offset: u64, length: u64, flags: u32, reserved: u32 });
const ELEMENTS_AT = 64 + 24;

type Element = { readonly start: bigint; readonly count: bigint; readonly flags: number };

export const lock = command({
  code: 0x000a,
  name: "LOCK",
  needs: "open",
  structureSize: 48,
  request: {
    structureSize: u16,
    lockCount: u16,
    lockSequence: u32,
    filePersistent: u64,
    fileVolatile: u64,
  },
  async handle(call, { lockCount, lockSequence }) {
    const { open, message } = call;
    if (lockCount === 0 || lockCount > LOCKS_MAX) throw new SmbError("STATUS_INVALID_PARAMETER");
    if (open.kind !== "file") throw new SmbError("STATUS_FILE_CLOSED");
    if (open.isDirectory) throw new SmbError("STATUS_INVALID_PARAMETER");
    const elements = Array.from({ length: lockCount }, (_, i): Element => {
      const { offset, length, flags } = elementLayout.read(
        message,
        ELEMENTS_AT + i * elementLayout.size,
      );
      return { start: offset, count: length, flags };
    });
    open.need(access.readData | access.writeData | access.appendData | access.execute);
    const done = { body: [EMPTY_BODY] };
    if (isRepeated(call, open, lockSequence)) return done;
    if (((elements[0]?.flags ?? 0) & UNLOCK) !== 0) unlock(call, open, elements);
    else await locked(call, open, elements);
    remember(open, lockSequence);
    return done;
  },
});

/** Whether the client sends again what was done already (MS-SMB2 3.3.5.14). */
function isRepeated({ connection }: CallWith<"open">, open: FileOpen, sequence: number): boolean {
  const bucket = sequence >>> 4;
  const isKept = open.durable !== undefined && (connection.negotiated?.dialect ?? 0) >= 0x0210;
  if (!isKept || bucket < 1 || bucket > 64) return false;
  if (open.lockSequences.get(bucket) === (sequence & 15)) return true;
  open.lockSequences.delete(bucket);
  return false;
}

function remember(open: FileOpen, sequence: number): void {
  const bucket = sequence >>> 4;
  if (bucket >= 1 && bucket <= 64) open.lockSequences.set(bucket, sequence & 15);
}

function checkRange({ start, count }: Element): void {
  if (count > 0n && start + count > END) throw new SmbError("STATUS_INVALID_LOCK_RANGE");
}

function unlock({ around }: CallWith<"open">, open: FileOpen, elements: readonly Element[]): void {
  try {
    for (const element of elements) {
      if (element.flags !== UNLOCK) throw new SmbError("STATUS_INVALID_PARAMETER");
      const at = open.locks.findIndex(
        ({ start, count }) => start === element.start && count === element.count,
      );
      if (at < 0) throw new SmbError("STATUS_RANGE_NOT_LOCKED");
      open.locks = open.locks.toSpliced(at, 1);
    }
  } finally {
    around.waiters.released(open);
  }
}

async function locked(
  call: CallWith<"open">,
  open: FileOpen,
  elements: readonly Element[],
): Promise<void> {
  const { around } = call;
  for (const { flags } of elements) {
    const kind = flags & ~AT_ONCE;
    if (kind !== SHARED && kind !== EXCLUSIVE) throw new SmbError("STATUS_INVALID_PARAMETER");
    // Several locks are taken at once or not at all; only one may be waited for.
    if ((flags & AT_ONCE) === 0 && elements.length > 1)
      throw new SmbError("STATUS_INVALID_PARAMETER");
  }
  if (open.locks.length + elements.length > OPEN_LOCKS_MAX) {
    throw new SmbError("STATUS_INSUFFICIENT_RESOURCES");
  }
  const before = open.locks;
  for (const element of elements) {
    try {
      checkRange(element);
      const { start, count, flags } = element;
      const wanted: RangeLock = { start, count, exclusive: (flags & EXCLUSIVE) !== 0 };
      if (mayLock(around.opens, open, wanted)) open.locks = [...open.locks, wanted];
      else if ((flags & AT_ONCE) !== 0) throw new SmbError("STATUS_LOCK_NOT_GRANTED");
      else await waited(call, open, wanted);
    } catch (error) {
      if (elements.length > 1) {
        open.locks = before;
        around.waiters.released(open);
      }
      throw error;
    }
  }
  breakReaders(around, open);
}

/** Waits for a lock, until it is given, or the client or the end of the open puts an end to that. */
async function waited(call: CallWith<"open">, open: FileOpen, wanted: RangeLock): Promise<void> {
  const { around } = call;
  const given = Promise.withResolvers<void>();
  const stop = around.waiters.wait({ open, lock: wanted, granted: () => given.resolve() });
  // Who is told that it has no lock gets none: it stops waiting at once, not when its request goes on.
  const end = (status: NtStatus) => {
    stop();
    given.reject(new SmbError(status));
  };
  const onEnd = () => end("STATUS_RANGE_NOT_LOCKED");
  open.onEnd.add(onEnd);
  try {
    call.pend(end);
    await given.promise;
  } finally {
    stop();
    open.onEnd.delete(onEnd);
  }
}
