import type { Rights } from "../../rules/sharing.ts";
import type { Identity } from "../../store/opens.ts";
import { isLeaseStatOpen, isStatOpen } from "../access.ts";
import type { FileOpen } from "../file-open.ts";
import { HOLD_HANDLE, HOLD_READ, HOLD_WRITE, LEVEL_LEASE, stateOfLevel } from "../holdings.ts";
import { SmbError } from "../status.ts";
import type { Asked } from "./asked.ts";

/** A lease's key stands for one file. */
export function checkLease({ call, contexts, level }: Asked, identity: Identity | undefined): void {
  const clientGuid = call.connection.negotiated?.clientGuid;
  if (contexts.lease === undefined || level !== LEVEL_LEASE || clientGuid === undefined) return;
  const known = call.around.holdings.leaseOf({ clientGuid, key: contexts.lease.key });
  for (const open of known?.opens ?? []) {
    if (open.share !== identity?.share || open.file !== identity.file) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
  }
}

/** What other clients must give up first; throws if the open cannot stand beside theirs. */
export function inTheWay(
  asked: Asked,
  identity: Identity,
  { granted, rights, overwrites }: { granted: number; rights: Rights; overwrites: boolean },
): Promise<unknown> | undefined {
  const { opens, holdings } = asked.call.around;
  const sharing = { access: rights, shares: asked.shares };
  const conflicts = () => opens.conflicts(identity, sharing) as FileOpen[];
  for (const open of conflicts()) if (open.session === undefined) open.abandon();
  const isViolated = conflicts().length > 0;
  const mask = isViolated ? HOLD_HANDLE : HOLD_WRITE;
  const waits: Promise<unknown>[] = [];
  if (overwrites || isViolated || !isStatOpen(granted)) {
    const own = ownLease(asked);
    const seen = new Set<unknown>();
    for (const { holding } of opens.of(identity) as FileOpen[]) {
      if (holding === undefined || holding === own || seen.has(holding)) continue;
      seen.add(holding);
      if (holding.lease !== undefined && isLeaseStatOpen(granted) && !overwrites) continue;
      const { state } = holding;
      if (isViolated && (state & HOLD_HANDLE) === 0) continue;
      const to = overwrites && !isViolated ? 0 : state & ~mask;
      const done = holdings.break(holding, to);
      if (done !== undefined && (state & mask) !== 0) waits.push(done);
    }
  }
  if (waits.length > 0) return Promise.all(waits);
  // What waited for a client that is gone may have been given up by now.
  if (isViolated && conflicts().length > 0) throw new SmbError("STATUS_SHARING_VIOLATION");
  return undefined;
}

function ownLease({ call, contexts, level }: Asked) {
  const clientGuid = call.connection.negotiated?.clientGuid;
  if (contexts.lease === undefined || level !== LEVEL_LEASE || clientGuid === undefined)
    return undefined;
  return call.around.holdings.leaseOf({ clientGuid, key: contexts.lease.key });
}

/** What an open may keep to itself beside the others (digest section 16.2). */
export function mayHold({ call, contexts, level }: Asked, open: FileOpen): number {
  const isLease = level === LEVEL_LEASE;
  let state = isLease ? (contexts.lease?.state ?? 0) : stateOfLevel(level);
  if ((state & HOLD_READ) === 0) return 0;
  const own = isLease ? ownLease({ call, contexts, level } as Asked) : undefined;
  for (const other of call.around.opens.of(open) as FileOpen[]) {
    if (other.locks.length > 0) return 0;
    if (own !== undefined && other.holding === own) continue;
    const held = other.holding?.state ?? 0;
    // What was not broken for this open, because it only looks, stays with its holder.
    if ((held & HOLD_WRITE) !== 0) return 0;
    if (held !== 0 || !isStatOpen(other.granted)) state &= ~HOLD_WRITE;
    if (held === 0) continue;
    if (isLease && other.holding?.lease === undefined) state &= ~HOLD_HANDLE;
    if (!isLease && other.holding?.lease !== undefined && (held & HOLD_HANDLE) !== 0) return 0;
  }
  if (isLease) return state;
  return (state & HOLD_WRITE) !== 0 ? state : state & HOLD_READ;
}
