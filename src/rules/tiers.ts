import type { Instant } from "../base/time.ts";
import type { ErrorCode } from "./errors.ts";

/** The tiers a block blob of a general purpose account can have. */
const tiers = ["Hot", "Cool", "Cold", "Archive"] as const;
export type Tier = (typeof tiers)[number];

/** What a blob has when nobody chose. */
export const INFERRED_TIER: Tier = "Hot";

export type RehydratePriority = "High" | "Standard";

/** A blob on its way out of the archive; it arrives at `endsAt`, by time alone: see `tierAt`. */
export type Rehydration = {
  readonly to: Exclude<Tier, "Archive">;
  readonly priority: RehydratePriority;
  readonly endsAt: Instant;
};

/** Tier names are taken in any case, as the service does. */
export const parseTier = (text: string): Tier | undefined =>
  tiers.find((tier) => tier.toLowerCase() === text.toLowerCase());

const PREMIUM = /^P(4|6|10|15|20|30|40|50|60|70|80)$/i;

/** A tier of premium page blobs: a real name, but for another kind of account. */
export const isPremiumTier = (text: string): boolean => PREMIUM.test(text);

/** No tier means the inferred one. */
export type TierState = {
  readonly tier?: Tier | undefined;
  readonly rehydration?: Rehydration | undefined;
};

/** The tier as it stands at `now`: time alone ends a rehydration. */
export function tierAt(state: TierState, now: Instant): TierState {
  if (state.rehydration === undefined || now < state.rehydration.endsAt) return state;
  return { tier: state.rehydration.to };
}

/**
 * Set Blob Tier: what the blob's tier becomes, and whether that has only begun (202), by the page's table
 * of transitions. A rehydration's priority can be raised but not lowered, nor its target changed.
 */
export function tierChanged(
  from: TierState,
  to: Tier,
  { priority, endsAt }: { priority: RehydratePriority; endsAt: Instant },
): { state: TierState; begun: boolean } | ErrorCode {
  if (from.tier !== "Archive") return { state: { tier: to }, begun: false };
  const { rehydration } = from;
  if (rehydration !== undefined) {
    if (to !== rehydration.to) return "BlobBeingRehydrated";
    const raised = priority === "High" ? priority : rehydration.priority;
    const state: TierState = { tier: "Archive", rehydration: { ...rehydration, priority: raised } };
    return { state, begun: true };
  }
  if (to === "Archive") return { state: { tier: to }, begun: false };
  return { state: { tier: "Archive", rehydration: { to, priority, endsAt } }, begun: true };
}
