import { type Instant, type Tick, tickAt } from "../base/time.ts";

/** SMB counts the same steps as our ticks, from the year 1601 on. */
const YEAR_1601 = 504_911_232_000_000_000n;

export const fileTimeOf = (tick: Tick): bigint => (tick > YEAR_1601 ? tick - YEAR_1601 : 0n);
export const tickOfFileTime = (time: bigint): Tick => time + YEAR_1601;
export const fileTimeAt = (now: Instant): bigint => fileTimeOf(tickAt(now));
