import type { WriteTx } from "../engine/engine.ts";
import { type ErrorCode, StorageError } from "../rules/errors.ts";
import {
  DELETE,
  inConflict,
  noOplock,
  type Oplock,
  oplockAfter,
  type RangeLock,
  type RestUse,
  restOpens,
  type Sharing,
  WRITE,
} from "../rules/sharing.ts";
import type { NodeKind } from "../rules/smb-properties.ts";

/** How long a REST operation waits at most for a client to give up what it keeps to itself ("Manage file locks"). */
const BREAK_LIMIT_MS = 30_000;

/** A file or directory, by the numbers of its share and of itself: locks follow it wherever it is moved. */
export type Identity = { readonly share: bigint; readonly file: bigint };

/** Who has a file open, as List Handles tells it. */
export type Holder = {
  readonly session: bigint;
  readonly address: string;
  readonly name: string;
  readonly openedAt: number;
  /** When its client took it up again last, after it had lost its connection. */
  readonly resumedAt?: number;
};

/** One open of a file or directory that outlives a request. */
export type OpenFile = Identity &
  Sharing & {
    readonly handle: bigint;
    readonly holder: Holder;
    locks: readonly RangeLock[];
    oplock: Oplock;
    /** Asks the client to keep no more than this; it answers with `Opens.acknowledge`. */
    breakOplock(left: Oplock): void;
    /** Takes the handle from its client; it is out of the table by then. */
    closed(): void;
  };

/** A change of a share that clients may watch for: in which directory, what became of which name. */
export type Notice = {
  readonly share: bigint;
  readonly directory: bigint;
  readonly name: string;
  readonly what: "added" | "removed" | "modified" | "renamed";
  /** The name it had in the same directory, where it was renamed. */
  readonly from?: string;
  readonly kind: NodeKind;
  /** Which of its properties were modified: bits of SMB's completion filter. */
  readonly bits: number;
  /** The directories from this one up to below the root, where anybody wants to know. */
  readonly above?: readonly { readonly id: bigint; readonly name: string }[];
};

type Break = { readonly left: Oplock; readonly done: PromiseWithResolvers<void> };

/**
 * What is open now, in the memory of this process alone: opens with their share modes, byte-range locks,
 * oplocks and deletes that wait for the last close. It is looked at and changed only inside bodies of the
 * engine, which run one after another, so that nothing comes between a check and what follows from it.
 */
export class Opens {
  readonly #files = new Map<bigint, Map<bigint, Set<OpenFile>>>();
  readonly #doomed = new Map<bigint, Set<bigint>>();
  readonly #breaks = new Map<OpenFile, Break>();
  readonly #watchers = new Set<(notice: Notice, number: number) => void>();
  readonly #deep = new Set<bigint>();
  /** Changes are numbered as they are made; they are told when they are durable. */
  #lastChange = 0;

  /** Calls `watcher` for every change that is committed, until the function it gives is called. */
  watch(watcher: (notice: Notice, number: number) => void): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /** The number of the last change so far: who begins to watch now wants those after it. */
  get lastChange(): number {
    return this.#lastChange;
  }

  /** Whether anybody wants to know at all, and whether of all that is below a directory. */
  isWatched(share: bigint): "deep" | "flat" | undefined {
    if (this.#watchers.size === 0) return undefined;
    return this.#deep.has(share) ? "deep" : "flat";
  }

  watchDeep(share: bigint, wanted: boolean): void {
    if (wanted) this.#deep.add(share);
    else this.#deep.delete(share);
  }

  /** Tells the watchers of a change, when its transaction is durable. */
  tell(tx: WriteTx, notice: Notice): void {
    if (this.#watchers.size === 0) return;
    const number = ++this.#lastChange;
    tx.afterCommit(() => {
      for (const watcher of this.#watchers) watcher(notice, number);
    });
  }

  /** Enters an open; the caller has seen with `conflicts` that it may stand beside the others. */
  enter(open: OpenFile): void {
    const files = this.#files.get(open.share) ?? new Map<bigint, Set<OpenFile>>();
    const opens = files.get(open.file) ?? new Set();
    opens.add(open);
    files.set(open.file, opens);
    this.#files.set(open.share, files);
  }

  /** Takes an open out, with its locks and its oplock. */
  leave(open: OpenFile): void {
    const files = this.#files.get(open.share);
    const opens = files?.get(open.file);
    opens?.delete(open);
    this.acknowledge(open, noOplock);
    if (opens === undefined || opens.size > 0) return;
    files?.delete(open.file);
    if (files?.size === 0) this.#files.delete(open.share);
  }

  /** Takes an open from its client, who finds it closed. */
  evict(open: OpenFile): void {
    this.leave(open);
    open.closed();
  }

  /** The opens that cannot stand beside such a one. */
  conflicts({ share, file }: Identity, wanted: Sharing): OpenFile[] {
    return this.of({ share, file }).filter((open) => inConflict(open, wanted));
  }

  /** Marks a file to be deleted when its last open is closed, or takes the mark off. */
  setDeletePending({ share, file }: Identity, pending: boolean): void {
    const doomed = this.#doomed.get(share) ?? new Set();
    if (pending) doomed.add(file);
    else doomed.delete(file);
    if (doomed.size > 0) this.#doomed.set(share, doomed);
    else this.#doomed.delete(share);
  }

  isDeletePending({ share, file }: Identity): boolean {
    return this.#doomed.get(share)?.has(file) ?? false;
  }

  of({ share, file }: Identity): OpenFile[] {
    return [...(this.#files.get(share)?.get(file) ?? [])];
  }

  countOf({ share, file }: Identity): number {
    return this.#files.get(share)?.get(file)?.size ?? 0;
  }

  /** All opens of a share, of older handles first. */
  inShare(share: bigint): OpenFile[] {
    const all = [...(this.#files.get(share)?.values() ?? [])].flatMap((opens) => [...opens]);
    return all.sort((a, b) => (a.handle < b.handle ? -1 : 1));
  }

  /** Why a REST operation may not use a file now; undefined if it may. */
  failedUse(identity: Identity, use: RestUse): ErrorCode | undefined {
    if (this.#files.size === 0 && this.#doomed.size === 0) return undefined;
    if (this.isDeletePending(identity)) return "SMBDeletePending";
    if (this.#inTheWay(identity, use).length > 0) return "SharingViolation";
    const locks = this.of(identity).flatMap((open) => open.locks);
    if (use === "read")
      return locks.some((lock) => lock.exclusive) ? "FileLockConflict" : undefined;
    const writes = use === "write" || use === "replace";
    return writes && locks.length > 0 ? "FileLockConflict" : undefined;
  }

  /**
   * What a REST operation must wait for before it is judged: clients that keep writes to themselves, or a
   * handle that stands in its way though its user may have closed it. Undefined if there is none; the wait
   * rejects with ClientCacheFlushDelay if one does not answer in time.
   */
  breakOplocks(
    identity: Identity,
    use: RestUse,
  ): ((limitMs?: number) => Promise<void>) | undefined {
    if (this.#files.size === 0) return undefined;
    const inTheWay = new Set(this.#inTheWay(identity, use));
    const waits: Promise<void>[] = [];
    for (const open of this.of(identity)) {
      const after = oplockAfter(open.oplock, use);
      const keepsHandle = inTheWay.has(open) && open.oplock.handle;
      const left = keepsHandle ? { ...after.left, handle: false } : after.left;
      if (left.read === open.oplock.read && left.write === open.oplock.write) {
        if (left.handle === open.oplock.handle) continue;
      }
      const done = this.#broken(open, left);
      if (after.waits || keepsHandle) waits.push(done);
    }
    if (waits.length === 0) return undefined;
    return (limitMs = BREAK_LIMIT_MS) => limited(waits, Math.min(limitMs, BREAK_LIMIT_MS));
  }

  /** The client of an open has given up what it was asked to; whoever waits for that goes on. */
  acknowledge(open: OpenFile, left: Oplock): void {
    open.oplock = left;
    this.#breaks.get(open)?.done.resolve();
    this.#breaks.delete(open);
  }

  #inTheWay(identity: Identity, use: RestUse): OpenFile[] {
    if (use === "look" || use === "list") return [];
    const opens = this.of(identity);
    if (use === "delete") return opens;
    const changes = (open: OpenFile) => (open.access & (WRITE | DELETE)) !== 0;
    return opens.filter(
      (open) => inConflict(open, restOpens[use]) || (use === "lease" && changes(open)),
    );
  }

  #broken(open: OpenFile, left: Oplock): Promise<void> {
    const before = this.#breaks.get(open);
    if (before !== undefined) return before.done.promise;
    const done = Promise.withResolvers<void>();
    this.#breaks.set(open, { left, done });
    open.breakOplock(left);
    // Nobody waits for a client that only read what it kept: it is told, and keeps nothing from then on.
    if (!open.oplock.write && !open.oplock.handle) this.acknowledge(open, left);
    return done.promise;
  }
}

async function limited(waits: readonly Promise<void>[], limitMs: number): Promise<void> {
  const late = Promise.withResolvers<never>();
  const refuse = () => late.reject(new StorageError("ClientCacheFlushDelay"));
  const timer = setTimeout(refuse, limitMs);
  try {
    await Promise.race([Promise.all(waits), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
