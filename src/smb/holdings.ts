import type { Oplock } from "../rules/sharing.ts";
import type { Opens } from "../store/opens.ts";
import type { FileOpen } from "./file-open.ts";
import type { Session } from "./session.ts";
import { newsHeader } from "./wire/header.ts";
import { layout, raw, u8, u16, u32, u64 } from "./wire/layout.ts";

// What a client may keep to itself, as leases write it (MS-SMB2 2.2.13.2.8).
export const HOLD_READ = 1;
export const HOLD_HANDLE = 2;
export const HOLD_WRITE = 4;

// Levels of oplocks (MS-SMB2 2.2.13).
export const LEVEL_NONE = 0x00;
export const LEVEL_II = 0x01;
export const LEVEL_EXCLUSIVE = 0x08;
export const LEVEL_BATCH = 0x09;
export const LEVEL_LEASE = 0xff;

const OPLOCK_BREAK = 0x12;
const ACK_REQUIRED = 1;
/** A client that does not answer has lost what it kept. */
const BREAK_LIMIT_MS = 35_000;

/** The client's name for a lease: its own number and a key. */
export type LeaseName = { readonly clientGuid: Buffer; readonly key: Buffer };

/** A lease as a client asks for it. */
export type LeaseAsked = {
  readonly version: 1 | 2;
  readonly key: Buffer;
  readonly state: number;
  readonly flags: number;
  readonly parentKey: Buffer;
  readonly epoch: number;
};

type Breaking = {
  to: number;
  /** What the client has been told to go down to. */
  told: number;
  readonly done: PromiseWithResolvers<void>;
  timer: NodeJS.Timeout;
};

/** What one client keeps to itself of a file: an oplock of one open, or a lease that its opens share. */
export type Holding = {
  readonly lease: { readonly asked: LeaseAsked; readonly name: string; epoch: number } | undefined;
  readonly opens: Set<FileOpen>;
  state: number;
  breaking: Breaking | undefined;
};

export const oplockOf = (state: number): Oplock => ({
  read: (state & HOLD_READ) !== 0,
  write: (state & HOLD_WRITE) !== 0,
  handle: (state & HOLD_HANDLE) !== 0,
});

export const stateOf = ({ read, write, handle }: Oplock): number =>
  (read ? HOLD_READ : 0) | (write ? HOLD_WRITE : 0) | (handle ? HOLD_HANDLE : 0);

export function levelOf(state: number): number {
  if ((state & HOLD_WRITE) !== 0) {
    return (state & HOLD_HANDLE) !== 0 ? LEVEL_BATCH : LEVEL_EXCLUSIVE;
  }
  return (state & HOLD_READ) !== 0 ? LEVEL_II : LEVEL_NONE;
}

export function stateOfLevel(level: number): number {
  if (level === LEVEL_BATCH) return HOLD_READ | HOLD_WRITE | HOLD_HANDLE;
  if (level === LEVEL_EXCLUSIVE) return HOLD_READ | HOLD_WRITE;
  return level === LEVEL_II ? HOLD_READ : 0;
}

const oplockNews = layout({
  structureSize: u16,
  level: u8,
  reserved: u8,
  reserved2: u32,
  filePersistent: u64,
  fileVolatile: u64,
});
const leaseNews = layout({
  structureSize: u16,
  newEpoch: u16,
  flags: u32,
  key: raw(16),
  current: u32,
  next: u32,
  reason: u32,
  accessHint: u32,
  shareHint: u32,
});

const leaseName = ({ clientGuid, key }: LeaseName): string =>
  clientGuid.toString("hex") + key.toString("hex");

/** All oplocks and leases that are held, and the breaks that wait for their clients. */
export class Holdings {
  readonly #opens: Opens;
  readonly #leases = new Map<string, Holding>();

  constructor(opens: Opens) {
    this.#opens = opens;
  }

  leaseOf(name: LeaseName): Holding | undefined {
    return this.#leases.get(leaseName(name));
  }

  /** Gives a new open what it may hold. */
  hold(
    open: FileOpen,
    state: number,
    lease: { readonly asked: LeaseAsked; readonly clientGuid: Buffer } | undefined,
  ): Holding {
    if (lease === undefined) {
      const holding = { lease: undefined, opens: new Set([open]), state, breaking: undefined };
      open.holding = holding;
      return holding;
    }
    const name = leaseName({ clientGuid: lease.clientGuid, key: lease.asked.key });
    const known = this.#leases.get(name);
    if (known?.lease !== undefined) {
      known.opens.add(open);
      open.holding = known;
      // It grows only to what was asked for, all of it, and never shrinks this way.
      const isMore = (known.state & ~state) === 0 && known.state !== state;
      if (known.breaking === undefined && isMore && state === lease.asked.state) {
        known.state = state;
        known.lease.epoch++;
      }
      return known;
    }
    const holding: Holding = {
      lease: { asked: lease.asked, name, epoch: lease.asked.epoch + 1 },
      opens: new Set([open]),
      state,
      breaking: undefined,
    };
    this.#leases.set(name, holding);
    open.holding = holding;
    return holding;
  }

  /** An open is gone; with the last one of a holding, that is too. */
  letGo(open: FileOpen): void {
    const { holding } = open;
    if (holding === undefined) return;
    open.holding = undefined;
    holding.opens.delete(open);
    if (holding.opens.size > 0) return;
    if (holding.lease !== undefined) this.#leases.delete(holding.lease.name);
    this.#settle(holding, 0);
  }

  /**
   * Asks a client to keep no more than `to`. Gives what to wait for until it has answered, or undefined where
   * nobody has to: one that only kept what it read is told, and keeps nothing from then on.
   */
  break(holding: Holding, to: number): Promise<void> | undefined {
    const wanted = holding.lease === undefined && to !== 0 ? to & HOLD_READ : to;
    if ((holding.state & ~to) === 0) return holding.breaking?.done.promise;
    const { breaking } = holding;
    if (breaking !== undefined) {
      breaking.to &= wanted;
      return breaking.done.promise;
    }
    const left = holding.state & wanted;
    const isAwaited = (holding.state & (HOLD_WRITE | HOLD_HANDLE)) !== 0;
    if (!isAwaited) {
      if (holding.lease !== undefined) holding.lease.epoch++;
      this.#tell(holding, left, false);
      holding.state = left;
      return undefined;
    }
    const done = Promise.withResolvers<void>();
    const timer = setTimeout(() => this.#settle(holding, 0), BREAK_LIMIT_MS).unref();
    holding.breaking = { to: left, told: left, done, timer };
    if (holding.lease !== undefined) holding.lease.epoch++;
    if (!this.#tell(holding, left, true)) {
      // Nobody is there to answer: what waits to be taken up again is given up instead.
      for (const open of [...holding.opens]) open.abandon();
      return undefined;
    }
    return done.promise;
  }

  /** The client has answered with what it keeps; what must go beyond that is asked for anew. */
  acknowledge(holding: Holding, kept: number): void {
    const { breaking } = holding;
    if (breaking === undefined) return;
    holding.state = kept;
    if ((kept & ~breaking.to) === 0) {
      this.#settle(holding, kept);
      return;
    }
    // What a client has read goes last, and of that it is only told.
    const isAwaited = (kept & (HOLD_WRITE | HOLD_HANDLE)) !== 0;
    const left = (kept & breaking.to) | (isAwaited ? kept & HOLD_READ : 0);
    if (!isAwaited) {
      this.#tell(holding, left, false);
      this.#settle(holding, left);
      return;
    }
    breaking.told = left;
    this.#tell(holding, left, true);
  }

  #settle(holding: Holding, state: number): void {
    holding.state = state;
    const { breaking } = holding;
    holding.breaking = undefined;
    if (breaking === undefined) return;
    clearTimeout(breaking.timer);
    breaking.done.resolve();
    // REST operations wait for the opens one by one.
    for (const open of holding.opens) this.#opens.acknowledge(open, oplockOf(state));
  }

  /** News of leases go to a client, not to an open: they take its oldest connection. */
  #sessionFor(session: Session): Session {
    const { around, negotiated } = session.connection;
    for (const connection of around.connections) {
      const isSame = negotiated && connection.negotiated?.clientGuid.equals(negotiated.clientGuid);
      if (!isSame || connection.isClosed) continue;
      for (const each of connection.sessions.values()) {
        if (each.account?.name === session.account?.name) return each;
      }
    }
    return session;
  }

  /** Sends the news to the client; false if it is not there. */
  #tell(holding: Holding, left: number, isAwaited: boolean): boolean {
    const open = [...holding.opens].find(({ session }) => session?.connection.isClosed === false);
    if (open?.session === undefined) return false;
    const session = holding.lease === undefined ? open.session : this.#sessionFor(open.session);
    let body: Buffer;
    if (holding.lease === undefined) {
      body = oplockNews.bytes({
        structureSize: 24,
        level: levelOf(left),
        filePersistent: open.handle,
        fileVolatile: open.handle,
      });
    } else {
      const { asked } = holding.lease;
      body = leaseNews.bytes({
        structureSize: 44,
        newEpoch: asked.version === 2 ? holding.lease.epoch : 0,
        flags: isAwaited ? ACK_REQUIRED : 0,
        key: asked.key,
        current: holding.state,
        next: left,
      });
    }
    const parts = [newsHeader(OPLOCK_BREAK), body];
    session.connection.send(
      session.isEncrypted && session.sealer ? session.sealer.seal(parts) : parts,
    );
    return true;
  }
}
