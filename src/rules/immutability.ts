import type { Instant } from "../base/time.ts";
import type { ErrorCode } from "./errors.ts";

/** Until when a state of a blob may not be changed or deleted; "Locked" can only be extended. */
export type Policy = { readonly until: Instant; readonly mode: "Unlocked" | "Locked" };

/** What keeps a state of a blob as it is. */
export type Held = { readonly immutability?: Policy; readonly legalHold?: true };

/** Why a state may not be changed or deleted at `now`, if it may not. */
export function isImmutable(
  { immutability, legalHold }: Held,
  now: Instant,
): ErrorCode | undefined {
  if (legalHold) return "BlobImmutableDueToLegalHold";
  if (immutability !== undefined && immutability.until > now) return "BlobImmutableDueToPolicy";
  return undefined;
}

/** Set Blob Immutability Policy: the policy after it, or why not ("Set Blob Immutability Policy"). */
export function policyChanged(
  before: Policy | undefined,
  next: Policy,
  now: Instant,
): Policy | ErrorCode {
  if (next.until <= now) return "InvalidHeaderValue";
  if (before?.mode === "Locked") {
    if (next.mode !== "Locked" || next.until < before.until) return "BlobImmutableDueToPolicy";
  }
  return next;
}

/** Delete Blob Immutability Policy: only one that is not locked, or has run out, can go. */
export const policyRemoved = (before: Policy | undefined, now: Instant): ErrorCode | undefined =>
  before?.mode === "Locked" && before.until > now ? "BlobImmutableDueToPolicy" : undefined;
