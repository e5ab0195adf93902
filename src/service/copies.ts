import type { Log } from "../base/log.ts";
import type { Engine, ReadTx } from "../engine/engine.ts";

/** Copies that wait in the store, and how one of them is made. */
export type CopiesOptions<K extends readonly unknown[], V> = {
  readonly engine: Engine;
  readonly log: Log;
  isWanted(tx: ReadTx, key: K): Promise<boolean>;
  waiting(tx: ReadTx, limit: number): Promise<readonly { readonly key: K; readonly value: V }[]>;
  make(key: K, value: V, isAborted: AbortSignal): Promise<void>;
};

type Running<K> = {
  readonly key: K;
  readonly isAborted: AbortController;
  readonly ended: Promise<void>;
};

const AT_ONCE = 2;
/** A copy that failed for no fault of its source, on a full disk for example, is tried again so much later. */
const RETRY_MS = 1_000;

/** Makes copies beside the requests that began them, few at once, and ends those that nobody wants any more. */
export class BackgroundCopies<K extends readonly unknown[], V> {
  readonly #options: CopiesOptions<K, V>;
  readonly #running = new Map<string, Running<K>>();
  /** Copies that failed by themselves, until they are tried again: those behind them have their turn meanwhile. */
  readonly #resting = new Set<string>();
  #isStopped = false;

  constructor(options: CopiesOptions<K, V>) {
    this.#options = options;
  }

  /** Takes up copies that wait, as many as may run at once, and ends those that were aborted. */
  async wake(): Promise<void> {
    if (this.#isStopped) return;
    const { engine, log, isWanted, waiting, make } = this.#options;
    for (const { key, isAborted } of this.#running.values()) {
      if (!(await engine.read((tx) => isWanted(tx, key)))) isAborted.abort();
    }
    const limit = AT_ONCE + this.#running.size + this.#resting.size;
    for (const { key, value } of await engine.read((tx) => waiting(tx, limit))) {
      const id = key.join(" ");
      if (this.#running.size >= AT_ONCE || this.#isStopped) break;
      if (this.#running.has(id) || this.#resting.has(id)) continue;
      const isAborted = new AbortController();
      const ended = make(key, value, isAborted.signal).then(
        () => this.#end(id),
        (error) => {
          log.error("a copy failed", { error: String(error) });
          this.#rest(id);
          this.#end(id);
        },
      );
      this.#running.set(id, { key, isAborted, ended });
    }
  }

  #rest(id: string): void {
    this.#resting.add(id);
    setTimeout(() => {
      this.#resting.delete(id);
      this.#wakeUp();
    }, RETRY_MS).unref();
  }

  #end(id: string): void {
    this.#running.delete(id);
    this.#wakeUp();
  }

  #wakeUp(): void {
    void this.wake().catch((error) => {
      this.#options.log.error("copies wait", { error: String(error) });
    });
  }

  /** Ends what is under way; the next start takes it up again. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const { isAborted } of this.#running.values()) isAborted.abort();
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }
}
