import type { Given, ReadTx } from "../engine/engine.ts";
import { tickOf, type View } from "../file/namespace.ts";
import { findShare, nodeIn, remove, type Share, type ShareTx } from "../file/tree.ts";
import { StorageError } from "../rules/errors.ts";
import { DELETE, type Oplock, type RangeLock, READ, type Rights, WRITE } from "../rules/sharing.ts";
import type { FileRecord, NodeRecord } from "../store/file-records.ts";
import { entries } from "../store/keys.ts";
import type { Holder, OpenFile } from "../store/opens.ts";
import { access } from "./access.ts";
import type { Around } from "./around.ts";
import type { ChannelSequence } from "./channel-sequence.ts";
import { type Holding, oplockOf, stateOf } from "./holdings.ts";
import type { Search } from "./search.ts";
import type { Session, SharePlace, Tree } from "./session.ts";
import { SmbError } from "./status.ts";
import type { Watch } from "./watches.ts";

/** Why an open that was waiting for something does not any more. */
export type Ended = "closed" | "cleanup" | "deleted";

/** How an open outlives its connection. */
export type Durable = {
  readonly version: 1 | 2;
  readonly timeoutMs: number;
  readonly createGuid: Buffer | undefined;
  readonly clientGuid: Buffer;
  readonly account: string;
  /** Whether it waits even if its client holds nothing. */
  readonly isResilient: boolean;
  timer: NodeJS.Timeout | undefined;
};

type Made = {
  readonly handle: bigint;
  readonly place: SharePlace;
  readonly session: Session;
  readonly tree: Tree;
  readonly node: NodeRecord;
  readonly view: View;
  readonly granted: number;
  readonly shares: Rights;
  readonly deletesOnClose: boolean;
  readonly isWriteThrough: boolean;
  readonly isNew: boolean;
  readonly sequence: ChannelSequence;
};

/** The bits of sharing that an access mask stands for (MS-FSA 2.1.5.1.2.2). */
export const rightsOf = (granted: number): Rights =>
  ((granted & (access.readData | access.execute)) !== 0 ? READ : 0) |
  ((granted & (access.writeData | access.appendData)) !== 0 ? WRITE : 0) |
  ((granted & access.delete) !== 0 ? DELETE : 0);

const holderOf = ({ id, connection, account }: Session) => ({
  session: id,
  address: connection.address,
  name: account?.name ?? "",
});

/** A file or directory that a client has open. */
export class FileOpen implements OpenFile {
  readonly kind = "file";
  readonly handle: bigint;
  readonly place: SharePlace;
  readonly share: bigint;
  readonly file: bigint;
  readonly view: View;
  readonly isDirectory: boolean;
  /** What the client may do, and of that what others must share. */
  readonly granted: number;
  readonly access: Rights;
  readonly shares: Rights;
  holder: Holder;
  readonly isWriteThrough: boolean;
  locks: readonly RangeLock[] = [];
  holding: Holding | undefined;
  deletesOnClose: boolean;
  /** Whether it was made so. */
  readonly wasToDelete: boolean;
  /** The mark that its file is to be deleted, while it is being set: what ends it, a close too, comes after it. */
  marking: Promise<void> | undefined;
  /** Undefined while a durable open waits for its client to come back. */
  session: Session | undefined;
  tree: Tree | undefined;
  durable: Durable | undefined;
  /** Its client's name for the request that made it, which may come again. */
  createName: string | undefined;
  /** Whether its client has used it, and so has had the answer to that request. */
  isUsed = false;
  readonly sequence: ChannelSequence;
  search: Search | undefined;
  watch: Watch | undefined;
  position = 0n;
  mode = 0;
  /** Room that was asked for beyond the file's end; it is told, not kept. */
  allocation = 0;
  /** Times that this open no longer changes by what it does: see SET_INFO. */
  readonly keptTimes = new Set<"writtenAt" | "changedAt" | "accessedAt">();
  /** Whether there is anything to make durable when it is closed. */
  isDirty = false;
  /** Whether it made the file, or emptied it. */
  readonly isNew: boolean;
  isClosed = false;
  /** Resume key, while one was handed out. */
  readonly onEnd = new Set<(why: Ended) => void>();
  /** The last lock request by each number that clients may repeat. */
  readonly lockSequences = new Map<number, number>();
  readonly #around: Around;
  /** Changes that have been answered and are not on the disk yet. */
  #owed = 0;
  /** How many changes were made in all. */
  #made = 0;
  #isEarly = false;

  constructor(around: Around, made: Made) {
    this.#around = around;
    this.handle = made.handle;
    this.place = made.place;
    this.share = made.place.id;
    this.file = tickOf(made.node.id);
    this.view = made.view;
    this.isDirectory = made.node.kind === "directory";
    this.granted = made.granted;
    this.access = rightsOf(made.granted);
    this.shares = made.shares;
    this.deletesOnClose = made.deletesOnClose;
    this.wasToDelete = made.deletesOnClose;
    this.isWriteThrough = made.isWriteThrough;
    this.isNew = made.isNew;
    this.sequence = made.sequence;
    this.isDirty = made.isNew;
    this.session = made.session;
    this.tree = made.tree;
    this.holder = { ...holderOf(made.session), openedAt: around.clock.now() };
  }

  get isSnapshot(): boolean {
    return this.view.at !== undefined;
  }

  get oplock(): Oplock {
    return oplockOf(this.holding?.state ?? 0);
  }

  /** What is held is the business of `Holdings`: it may be shared with other opens. */
  set oplock(_left: Oplock) {}

  breakOplock(left: Oplock): void {
    if (this.holding !== undefined) void this.#around.holdings.break(this.holding, stateOf(left));
  }

  /** Someone else has taken the open out of the table: its client finds it closed. */
  closed(): void {
    if (this.isClosed) return;
    this.#end("closed");
    const { opens, holdings, waiters } = this.#around;
    holdings.letGo(this);
    waiters.released(this);
    if (opens.of(this).length === 0 && opens.isDeletePending(this)) this.#later(this.#remove());
  }

  /** Refuses what the client did not ask for when it opened the file. */
  need(bits: number): void {
    if ((this.granted & bits) === 0) throw new SmbError("STATUS_ACCESS_DENIED");
  }

  /** Closes it, and removes the file if this was the last open of one that is to be deleted. */
  async close(why: Ended): Promise<void> {
    if (this.isClosed) return;
    this.#end(why);
    const { opens, holdings, waiters } = this.#around;
    if (this.deletesOnClose && !this.isSnapshot) {
      if (!this.isDirectory) opens.setDeletePending(this, true);
      else if (await this.#markEmpty()) endWatches(this.#around, this);
    }
    opens.leave(this);
    holdings.letGo(this);
    waiters.released(this);
    const isLast = !this.isSnapshot && opens.of(this).length === 0;
    if (isLast && opens.isDeletePending(this)) await this.#remove();
    await this.settled();
  }

  /** Waits until what was changed through this open is on the disk; says so if it never will be. */
  async settled(): Promise<void> {
    if (!this.isDirty) return;
    for (;;) {
      const made = this.#made;
      await this.#around.engine.settled();
      if (this.#owed <= 0) return;
      // What is owed by now may have been made meanwhile; if nothing was, it is lost.
      if (this.#made === made) throw new SmbError("STATUS_UNEXPECTED_IO_ERROR");
    }
  }

  /**
   * A small file that was made and written is closed next, most of the time, and that waits for the disk: lets
   * the disk begin while the client still reads its answer. Once for each open, so that it costs little.
   */
  settleEarly(): void {
    if (!this.isNew || this.#isEarly) return;
    this.#isEarly = true;
    // What fails is told when the open is flushed or closed, by what is owed then.
    setImmediate(() => this.#around.engine.settled().catch(() => {}));
  }

  /** The connection is gone. */
  lost(): void {
    const { durable } = this;
    if (durable !== undefined && this.#mayWait()) {
      this.session = undefined;
      this.tree = undefined;
      for (const end of [...this.onEnd]) end("cleanup");
      durable.timer = setTimeout(() => this.abandon(), durable.timeoutMs).unref();
      return;
    }
    this.abandon();
  }

  /** Closes it with nobody there to be told. */
  abandon(): void {
    this.#later(this.close("cleanup"));
  }

  #later(closing: Promise<void>): void {
    const { log, closing: all } = this.#around;
    const done = closing.catch((error: unknown) =>
      log.error("an SMB open could not be closed", { error: String(error) }),
    );
    all.add(done);
    void done.then(() => all.delete(done));
  }

  /** A client that keeps the handle has come back for it. */
  resume(session: Session, tree: Tree, channelSequence: number): void {
    clearTimeout(this.durable?.timer);
    this.sequence.restart(channelSequence);
    this.session = session;
    this.tree = tree;
    const resumedAt = this.#around.clock.now();
    this.holder = { ...this.holder, ...holderOf(session), resumedAt };
    session.opens.set(this.handle, this);
  }

  #mayWait(): boolean {
    // A client that was asked to give something up and is gone will not answer.
    if (this.holding?.breaking !== undefined) return false;
    const isKept = this.oplock.handle || this.durable?.isResilient === true;
    return !this.deletesOnClose && isKept && !this.#around.opens.isDeletePending(this);
  }

  #end(why: Ended): void {
    this.isClosed = true;
    clearTimeout(this.durable?.timer);
    this.#around.durables.delete(this.handle);
    const { creates } = this.#around;
    const name = this.createName ?? "";
    if (creates.get(name)?.open === this) creates.delete(name);
    this.session?.opens.delete(this.handle);
    if (this.watch !== undefined) this.#around.watches.remove(this.watch);
    for (const end of [...this.onEnd]) end(why);
  }

  /** Marks a directory to be deleted if nothing is in it; who comes later finds the mark. */
  #markEmpty(): Promise<boolean> {
    const { engine, opens } = this.#around;
    return engine.read(async (tx) => {
      const [child] = await entries.walk(tx, [this.share, this.file], { limit: 1 });
      if (child === undefined) opens.setDeletePending(this, true);
      return child === undefined;
    }, "soon");
  }

  async #remove(): Promise<void> {
    const { opens } = this.#around;
    this.isDirty = true;
    try {
      await this.change(async (change) => {
        if (opens.of(this).length > 0) return; // somebody came first, and removes it in the end
        const node = await nodeIn(change.tx, this.view, this.file);
        if (node !== undefined) await remove(change, node);
        opens.setDeletePending(this, false);
      }, "durable"); // whoever closes it waits for that anyway
    } catch (error) {
      opens.setDeletePending(this, false);
      const isKept = error instanceof StorageError && error.code === "DirectoryNotEmpty";
      const isGone = error instanceof SmbError;
      if (!isKept && !isGone) throw error;
    }
  }

  /** The file or directory as it is now. */
  async node(tx: ReadTx): Promise<NodeRecord> {
    const node = await nodeIn(tx, this.view, this.file);
    if (node === undefined) throw new SmbError("STATUS_FILE_CLOSED");
    return node;
  }

  async fileRecord(tx: ReadTx): Promise<FileRecord> {
    const node = await this.node(tx);
    if (node.kind !== "file") throw new SmbError("STATUS_INVALID_DEVICE_REQUEST");
    return node;
  }

  read<T>(body: (tx: ReadTx) => Promise<T>): Promise<T> {
    return this.#around.engine.read(async (tx) => {
      // Who deletes a share or a snapshot of it closes what is open in the share, but not in a snapshot.
      if (this.isSnapshot) await shareAt(tx, this.place, this.view.at);
      return body(tx);
    }, "soon");
  }

  /** Changes something in the share; what was written is durable when the open is flushed or closed. */
  async change<T>(body: (change: ShareTx) => Promise<T>, given: Given = "soon"): Promise<T> {
    if (this.isSnapshot) throw new SmbError("STATUS_MEDIA_WRITE_PROTECTED");
    this.isDirty = true;
    const noted = async (change: ShareTx): Promise<T> => {
      const result = await body(change);
      change.tx.afterCommit(() => this.#owed--);
      return result;
    };
    const result = await inShare(this.#around, this.place, noted, given);
    this.#owed++;
    this.#made++;
    return result;
  }
}

/** Those who watch a directory learn that it is about to go. */
export function endWatches({ opens }: Around, { share, file }: FileOpen): void {
  for (const open of opens.of({ share, file }) as FileOpen[]) {
    if (open.watch !== undefined) for (const end of [...open.onEnd]) end("deleted");
  }
}

/** Runs a body that changes a share. */
export function inShare<T>(
  { engine, contents, opens }: Around,
  place: SharePlace,
  body: (change: ShareTx) => Promise<T>,
  given: Given = "soon",
): Promise<T> {
  return engine.write(async (tx) => {
    const share = await shareAt(tx, place);
    return body({ tx, share, sparse: contents.sparse, opens });
  }, given);
}

/** The share that a tree is connected to, if it is still there, or a snapshot of it. */
export async function shareAt(tx: ReadTx, place: SharePlace, at?: bigint): Promise<Share> {
  const share = await findShare(tx, place.account, place.name, at);
  if (share?.id !== place.id) throw new SmbError("STATUS_NETWORK_NAME_DELETED");
  return share;
}
