import { type Recurring, recurring } from "../base/recurring.ts";
import type { Clock } from "../base/time.ts";
import { expireShares } from "./share-sweep.ts";
import { mergeWorn } from "./sparse-upkeep.ts";
import { expireBlocks, purge, type SweepOptions, sweepFiles, sweepGarbage } from "./sweep.ts";
import { expireMessages } from "./sweep-messages.ts";

const GARBAGE_MS = 1_000;
const HOUR_MS = 3_600_000;

/** Runs the sweeps in the background: garbage soon after it arises, the rest at start and every hour. */
export function startSweeper(options: SweepOptions, clock: Clock): Recurring {
  let nextFull = 0;
  /** How far small parts have been merged. */
  let merged: Uint8Array | undefined;
  return recurring(async (isStopped) => {
    /** One that fails, as on damaged data, does not keep the others from their work. */
    const attempt = async (sweep: () => Promise<unknown>) => {
      if (isStopped()) return;
      try {
        await sweep();
      } catch (error) {
        options.log.error("a sweep failed", { error: String(error) });
      }
    };
    const now = clock.now();
    if (now >= nextFull) {
      nextFull = now + HOUR_MS;
      await attempt(() => sweepFiles(options));
      await attempt(() => expireBlocks(options, now, isStopped));
      await attempt(() => expireShares(options, now, isStopped));
    }
    await attempt(() => purge(options, now, isStopped));
    await attempt(() => expireMessages(options.engine, now, isStopped));
    await attempt(() => sweepGarbage(options, isStopped));
    await attempt(async () => {
      merged = await mergeWorn(options, { now, after: merged, isStopped });
    });
  }, GARBAGE_MS);
}
