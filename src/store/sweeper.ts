import type { Clock } from "../base/time.ts";
import { expireShares } from "./share-sweep.ts";
import { mergeWorn } from "./sparse-upkeep.ts";
import { expireBlocks, purge, type SweepOptions, sweepFiles, sweepGarbage } from "./sweep.ts";
import { expireMessages } from "./sweep-messages.ts";

const GARBAGE_MS = 1_000;
const HOUR_MS = 3_600_000;

/** Runs the sweeps in the background: garbage soon after it arises, the rest at start and every hour. */
export class Sweeper {
  readonly #options: SweepOptions;
  readonly #clock: Clock;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void>;
  #isStopped = false;
  #nextFull = 0;
  /** How far small parts have been merged. */
  #merged: Uint8Array | undefined;

  constructor(options: SweepOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
    this.#running = this.#sweep();
  }

  /** Lets the step that is under way finish; what is left waits for the next start. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #sweep(): Promise<void> {
    const now = this.#clock.now();
    const isStopped = () => this.#isStopped;
    if (now >= this.#nextFull) {
      this.#nextFull = now + HOUR_MS;
      await this.#try(() => sweepFiles(this.#options));
      await this.#try(() => expireBlocks(this.#options, now, isStopped));
      await this.#try(() => expireShares(this.#options, now, isStopped));
    }
    await this.#try(() => purge(this.#options, now, isStopped));
    await this.#try(() => expireMessages(this.#options.engine, now, isStopped));
    await this.#try(() => sweepGarbage(this.#options, isStopped));
    await this.#try(async () => {
      this.#merged = await mergeWorn(this.#options, { now, after: this.#merged, isStopped });
    });
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#running = this.#sweep();
    }, GARBAGE_MS);
    this.#timer.unref();
  }

  /** One that fails, as on damaged data, does not keep the others from their work. */
  async #try(sweep: () => Promise<unknown>): Promise<void> {
    if (this.#isStopped) return;
    try {
      await sweep();
    } catch (error) {
      this.#options.log.error("a sweep failed", { error: String(error) });
    }
  }
}
