import { ownerOf } from "../auth/caller.ts";
import type { Log } from "../base/log.ts";
import type { Engine, WriteTx } from "../engine/engine.ts";
import type { Surroundings } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import { BackgroundCopies } from "../service/copies.ts";
import { sizeOf } from "../service/from-url.ts";
import { changedNow } from "../service/resource.ts";
import type { Staged } from "../store/content.ts";
import { blobs, copies } from "../store/keys.ts";
import type { BlobRecord, CopyRecord, CopyState } from "../store/records.ts";

export type CopierOptions = {
  readonly engine: Engine;
  readonly around: Surroundings;
  readonly log: Log;
};

const TOLD_MS = 1000;
const TIME_LIMIT_MS = 14 * 24 * 3600 * 1000;

type Key = readonly [container: bigint, name: string];

/** Thrown where a copy is not wanted any more. */
class Aborted extends Error {}

/**
 * Fills the blobs whose copies go on after their request. What is under way is in the store, so a restart takes
 * it up again; a copy that is aborted or overtaken lets go of what it has fetched.
 */
export class Copier {
  readonly #options: CopierOptions;
  readonly #copies: BackgroundCopies<Key, CopyRecord>;

  constructor(options: CopierOptions) {
    this.#options = options;
    const { engine, log } = options;
    this.#copies = new BackgroundCopies({
      engine,
      log,
      isWanted: async (tx, key) => (await copies.get(tx, ...key)) !== undefined,
      waiting: (tx, limit) => copies.walk(tx, [], { limit }),
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

  async #copy(key: Key, copy: CopyRecord, isAborted: AbortSignal): Promise<void> {
    const { engine, around } = this.#options;
    const { contents } = around;
    try {
      const staged = await this.#fetched(key, copy, isAborted);
      const made = engine.write(async (tx) => {
        const found = pendingCopy(await blobs.get(tx, ...key), copy.id);
        if (found === undefined) {
          await forget(tx, key, copy);
          return false;
        }
        const content = await contents.filled(tx, found.content, staged);
        const state: CopyState = { ...found.copy, status: "success", done: staged.size };
        const record: BlobRecord = {
          ...found,
          ...changedNow(tx),
          size: staged.size,
          content,
          copy: { ...state, completedAt: tx.now },
        };
        blobs.put(tx, key, record);
        copies.delete(tx, ...key);
        const place = { ...copy, container: key[0], name: key[1] };
        around.changes?.copied(tx, place, record);
        return true;
      });
      const isMade = await made.catch((error: unknown) => {
        contents.discard(staged);
        throw error;
      });
      if (!isMade) contents.discard(staged);
    } catch (error) {
      if (isAborted.aborted) return;
      if (error instanceof Aborted) await engine.write((tx) => forget(tx, key, copy));
      else await this.#fail(key, copy, error);
    }
  }

  /** The source's bytes; how far they have come is told about once in a second. */
  async #fetched(key: Key, copy: CopyRecord, isAborted: AbortSignal): Promise<Staged> {
    const { around } = this.#options;
    const url = new URL(copy.url);
    const source = await around.sources.open(
      { url, method: "GET", headers: {} },
      // Whoever began it was judged then.
      { ...copy, caller: ownerOf(copy.account) },
    );
    // Compared here, because not every server that gives ETags takes conditions on them.
    if (source.header("etag") !== copy.etag) {
      source.close();
      throw new StorageError("SourceConditionNotMet");
    }
    let count = 0;
    let told = performance.now();
    isAborted.addEventListener("abort", () => source.close(), { once: true });
    const tell = (bytes: number) => this.#tell(key, copy, bytes);
    async function* counted() {
      for await (const part of source.stream()) {
        count += part.length;
        if (performance.now() - told > TOLD_MS) {
          told = performance.now();
          await tell(count);
        }
        if (isAborted.aborted) throw new Aborted();
        yield part;
      }
    }
    try {
      return await around.contents.stage(counted(), sizeOf(source));
    } finally {
      source.close();
    }
  }

  async #tell(key: Key, { id, startedAt }: CopyRecord, done: number): Promise<void> {
    await this.#options.engine.write(async (tx) => {
      const found = pendingCopy(await blobs.get(tx, ...key), id);
      if (found === undefined) throw new Aborted();
      if (tx.now - startedAt > TIME_LIMIT_MS) throw new TooLate();
      blobs.put(tx, key, { ...found, copy: { ...found.copy, done } });
    });
  }

  async #fail(key: Key, copyRecord: CopyRecord, error: unknown): Promise<void> {
    const description = describe(error);
    await this.#options.engine.write(async (tx) => {
      await forget(tx, key, copyRecord);
      const found = pendingCopy(await blobs.get(tx, ...key), copyRecord.id);
      if (found === undefined) return;
      const copy: CopyState = { ...found.copy, status: "failed", completedAt: tx.now, description };
      blobs.put(tx, key, { ...found, ...changedNow(tx), copy });
    });
  }
}

/** Takes a copy off those that wait: its blob may be gone, and another copy to the same name may have begun. */
async function forget(tx: WriteTx, key: Key, { id }: CopyRecord): Promise<void> {
  if ((await copies.get(tx, ...key))?.id === id) copies.delete(tx, ...key);
}

/** Thrown where a copy takes longer than Azure lets one take. */
class TooLate extends Error {}

/** How a failed copy tells why, in the form of "Copy Blob", x-ms-copy-status-description. */
function describe(error: unknown): string {
  if (error instanceof TooLate) {
    return '500 OperationCancelled "The copy exceeded the maximum allowed time."';
  }
  if (error instanceof StorageError) {
    return `${error.status} ${error.code} "${error.details.Reason ?? error.message}"`;
  }
  return '500 InternalError "The copy failed when reading the source."';
}

type Pending = BlobRecord & { readonly copy: CopyState };

const pendingCopy = (record: BlobRecord | undefined, id: string): Pending | undefined =>
  record?.copy?.status === "pending" && record.copy.id === id ? (record as Pending) : undefined;
