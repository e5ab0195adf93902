import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Log } from "../../base/log.ts";

export type CheckpointMode = "PASSIVE" | "RESTART" | "TRUNCATE";

/**
 * Copies the log of writes into the database on a thread of its own, with a connection of its own, because
 * that waits for the disk. The thread starts with the first checkpoint.
 */
export class Checkpointer {
  readonly #path: string;
  readonly #log: Log;
  #worker: Worker | undefined;
  #running: Promise<void> | undefined;

  constructor(path: string, log: Log) {
    this.#path = path;
    this.#log = log;
  }

  get busy(): boolean {
    return this.#running !== undefined;
  }

  /** Runs one checkpoint, whose steps tell how many pages are left; a failure is logged, and the next one tries again. */
  run(plan: (step: (mode: CheckpointMode) => Promise<number>) => Promise<void>): Promise<void> {
    this.#running = plan((mode) => this.#step(mode)).finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Resolves when none is under way. */
  async finished(): Promise<void> {
    await this.#running;
  }

  async close(): Promise<void> {
    await this.finished();
    await this.#worker?.terminate();
  }

  async #step(mode: CheckpointMode): Promise<number> {
    try {
      const worker = await this.#started();
      worker.postMessage(mode);
      const [told] = (await once(worker, "message")) as [string | number];
      if (typeof told === "number") return told;
      this.#log.warn("checkpoint failed", { mode, failure: told });
    } catch (error) {
      this.#log.error("checkpoint thread ended", { error: String(error) });
      this.#worker = undefined;
    }
    return 0;
  }

  async #started(): Promise<Worker> {
    if (this.#worker === undefined) {
      // The name of this very file tells whether we run from source or from a build.
      const ending = import.meta.url.endsWith(".ts") ? "ts" : "js";
      const script = new URL(`./checkpoint-thread.${ending}`, import.meta.url);
      this.#worker = new Worker(script, { workerData: this.#path });
      this.#worker.unref();
    }
    return this.#worker;
  }
}
