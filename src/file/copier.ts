import { ownerOf } from "../auth/caller.ts";
import type { Log } from "../base/log.ts";
import type { Engine, ReadTx, WriteTx } from "../engine/engine.ts";
import type { Surroundings } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import { BackgroundCopies } from "../service/copies.ts";
import { sizeOf } from "../service/from-url.ts";
import type { CopyState, FileCopyRecord, FileRecord } from "../store/file-records.ts";
import { deletedShares, fileCopies } from "../store/keys.ts";
import { hexOf, nodeOf, rowsOf, tickOf } from "./namespace.ts";
import { stamped } from "./node.ts";
import { findShare, isFile, prepare, type Share, type ShareTx, save, viewOf } from "./tree.ts";

export type CopierOptions = {
  readonly engine: Engine;
  readonly around: Surroundings;
  readonly log: Log;
};

/** So many bytes are fetched before they are put into the file and told of. */
const BATCH_SIZE = 32 * 1024 * 1024;
/** Deleted shares of one name that are looked at together. */
const BATCH = 64;

type Key = readonly [share: bigint, file: bigint];
/** Thrown where a copy is not wanted any more. */
class Aborted extends Error {}

/**
 * Fills the files whose copies go on after their request, a batch at a time. What is under way is in the store,
 * so that a restart takes it up again, from its begin.
 */
export class FileCopier {
  readonly #options: CopierOptions;
  readonly #copies: BackgroundCopies<Key, FileCopyRecord>;

  constructor(options: CopierOptions) {
    this.#options = options;
    const { engine, log } = options;
    this.#copies = new BackgroundCopies({
      engine,
      log,
      isWanted: async (tx, key) => (await fileCopies.get(tx, ...key)) !== undefined,
      waiting: (tx, limit) => fileCopies.walk(tx, [], { limit }),
      make: (key, value, isAborted) => this.#copy(key, value, isAborted),
    });
  }

  /** Takes up copies that wait, and ends those that were aborted. */
  wake(): Promise<void> {
    return this.#copies.wake();
  }

  /** Ends what is under way; the next start takes it up again. */
  stop(): Promise<void> {
    return this.#copies.stop();
  }

  async #copy(key: Key, copy: FileCopyRecord, aborted: AbortSignal): Promise<void> {
    try {
      await this.#options.engine.read((tx) => pendingFile(tx, key, copy)); // or nothing is fetched
      await this.#fill(key, copy, aborted);
      await this.#change(key, copy, async (change, file) => {
        fileCopies.delete(change.tx, ...key);
        return { ...file.copy, status: "success", done: file.size, endedAt: change.tx.now };
      });
    } catch (error) {
      if (aborted.aborted) return;
      if (error instanceof Aborted) await this.#forget(key, copy);
      else await this.#fail(key, copy, error);
    }
  }

  async #fill(key: Key, copy: FileCopyRecord, aborted: AbortSignal): Promise<void> {
    const { around } = this.#options;
    const headers: Record<string, string> =
      copy.etag === undefined ? {} : { "if-match": copy.etag };
    const url = new URL(copy.url);
    const source = await around.sources.open(
      { url, method: "GET", headers },
      { ...copy, caller: ownerOf(copy.account) }, // whoever began it was judged then
    );
    aborted.addEventListener("abort", () => source.close(), { once: true });
    try {
      const size = sizeOf(source);
      const rest = new Rest(source.stream());
      for (let at = 0; at < size; ) {
        const count = Math.min(BATCH_SIZE, size - at);
        await this.#put(key, copy, { at, rest: rest.take(count), count });
        if (aborted.aborted) throw new Aborted();
        at += count;
      }
    } finally {
      source.close();
    }
  }

  /** Stages a batch and puts it into the file, unless the copy is not wanted any more. */
  async #put(
    key: Key,
    copy: FileCopyRecord,
    { at, rest, count }: { at: number; rest: AsyncIterable<Uint8Array>; count: number },
  ): Promise<void> {
    const { contents } = this.#options.around;
    const staged = await contents.stage(rest, count);
    try {
      await this.#change(key, copy, async ({ tx, sparse }, file) => {
        await sparse.write(tx, file.content, at, staged);
        return { ...file.copy, done: at + count };
      });
    } catch (error) {
      contents.discard(staged);
      throw error;
    }
  }

  async #fail(key: Key, copy: FileCopyRecord, error: unknown): Promise<void> {
    const description = describe(error);
    try {
      await this.#change(key, copy, (change, file) => {
        fileCopies.delete(change.tx, ...key);
        return failed(change, file, description);
      });
    } catch (gone) {
      if (!(gone instanceof Aborted)) throw gone;
      await this.#forget(key, copy);
    }
  }

  /** The file is gone, or another one is there: nobody is to take this copy up again. */
  async #forget(key: Key, record: FileCopyRecord): Promise<void> {
    await this.#options.engine.write(async (tx) => {
      if ((await fileCopies.get(tx, ...key))?.id !== record.id) return;
      fileCopies.delete(tx, ...key);
      // A deleted share may be restored, and its file must not wait for a copy that is made no more.
      const share = await deletedShare(tx, key, record);
      const found = share === undefined ? undefined : await pendingIn(tx, share, key, record);
      if (share === undefined || found === undefined) return;
      const description = '404 ShareNotFound "The share was deleted while the copy went on."';
      await put(this.#changing(tx, share), found, (change, file) =>
        failed(change, file, description),
      );
    });
  }

  /** Changes a file that this copy still goes on into; Aborted if it does not. */
  async #change(key: Key, copied: FileCopyRecord, body: Body): Promise<void> {
    await this.#options.engine.write(async (tx: WriteTx) => {
      const { share, file } = await pendingFile(tx, key, copied);
      await put(this.#changing(tx, share), file, body);
    });
  }

  #changing(tx: WriteTx, share: Share): ShareTx {
    const { contents, opens } = this.#options.around;
    return { tx, share, sparse: contents.sparse, opens };
  }
}

/** What becomes of a copy and of the bytes of its file. */
type Body = (change: ShareTx, file: Pending) => Promise<CopyState>;

/** Of a copy that has failed nothing is kept. */
async function failed({ tx, sparse }: ShareTx, file: Pending, why: string): Promise<CopyState> {
  await sparse.cut(tx, file.content, 0);
  return { ...file.copy, status: "failed", endedAt: tx.now, description: why };
}

async function put(change: ShareTx, found: Pending, body: Body): Promise<void> {
  const { tick, ...changed } = stamped(change.tx);
  const file = await prepare(change, found);
  const copy = await body(change, file);
  const size = copy.status === "failed" ? 0 : file.size;
  const isEnded = copy.status !== "pending";
  const ended = { ...file, ...(isEnded ? { ...changed, changedAt: hexOf(tick) } : {}) };
  await save(change, found, { ...ended, size, copy });
}

/** A stream of which parts are taken one after another. */
class Rest {
  readonly #source: AsyncIterator<Uint8Array>;
  #left: Uint8Array = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Uint8Array>) {
    this.#source = stream[Symbol.asyncIterator]();
  }

  async *take(count: number): AsyncGenerator<Uint8Array> {
    for (let wanted = count; wanted > 0; ) {
      if (this.#left.length === 0) {
        const { value, done } = await this.#source.next();
        if (done) return;
        this.#left = value;
      }
      const part = this.#left.subarray(0, wanted);
      this.#left = this.#left.subarray(part.length);
      wanted -= part.length;
      yield part;
    }
  }
}

/** How a failed copy tells why, in the form of "Copy File", x-ms-copy-status-description. */
function describe(error: unknown): string {
  if (error instanceof StorageError) {
    return `${error.status} ${error.code} "${error.details.Reason ?? error.message}"`;
  }
  return '500 InternalError "The copy failed when reading the source."';
}

/** The file that a copy goes on into; Aborted if it does so no more. */
async function pendingFile(tx: ReadTx, key: Key, copy: FileCopyRecord) {
  const share = await findShare(tx, copy.account, copy.shareName, undefined);
  if (share?.id !== key[0]) throw new Aborted();
  const file = await pendingIn(tx, share, key, copy);
  if (file === undefined) throw new Aborted();
  return { share, file };
}

async function pendingIn(
  tx: ReadTx,
  share: Share,
  key: Key,
  { id }: FileCopyRecord,
): Promise<Pending | undefined> {
  const node = await nodeOf(tx, viewOf(share), key[1]);
  return node !== undefined && isFile(node) ? pendingCopy(node, id) : undefined;
}

/** The share of a copy, if it was deleted and can be restored. */
async function deletedShare(
  tx: ReadTx,
  [id]: Key,
  { account, shareName: name }: FileCopyRecord,
): Promise<Share | undefined> {
  const rows = rowsOf((page) => deletedShares.walk(tx, [account, name], page), {
    start: deletedShares.packed([account, name]),
    batch: BATCH,
    packed: deletedShares.packed,
  });
  for await (const { value } of rows) {
    const record = value.share;
    if (tickOf(record.id) === id) return { account, name, id, record, snapshot: undefined };
  }
  return undefined;
}

type Pending = FileRecord & { readonly copy: CopyState };

const pendingCopy = (file: FileRecord, id: string): Pending | undefined =>
  file.copy?.status === "pending" && file.copy.id === id ? (file as Pending) : undefined;
