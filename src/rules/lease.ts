import type { Instant } from "../base/time.ts";
import type { ErrorCode } from "./errors.ts";

/** As stored; `seconds` is -1 for a lease without end. No timer runs: see `leaseAt`. */
export type Lease =
  | { readonly state: "available" }
  | {
      readonly state: "leased" | "expired";
      readonly id: string;
      readonly seconds: number;
      readonly endsAt: Instant;
    }
  | { readonly state: "breaking" | "broken"; readonly id: string; readonly endsAt: Instant };

export const available: Lease = { state: "available" };

/** The last instant JavaScript can tell; stands for "never" so that ends compare as numbers. */
const forever: Instant = 8_640_000_000_000_000;

const endOf = (seconds: number, now: Instant): Instant =>
  seconds === -1 ? forever : now + seconds * 1000;

/** The lease as it stands at `now`: time alone turns leased to expired, and breaking to broken. */
export function leaseAt(lease: Lease, now: Instant): Lease {
  if (lease.state === "leased" && now >= lease.endsAt) return { ...lease, state: "expired" };
  if (lease.state === "breaking" && now >= lease.endsAt) return { ...lease, state: "broken" };
  return lease;
}

export const isHeld = (lease: Lease): boolean =>
  lease.state === "leased" || lease.state === "breaking";

/** The lease after its resource was written: one that had run out is forgotten, so it cannot be renewed. */
export const leaseAfterWrite = (lease: Lease): Lease => (isHeld(lease) ? lease : available);

const sameId = (a: string, b: string) => a.toLowerCase() === b.toLowerCase();

/** The codes of a refused use differ by what is leased. */
export type LeaseCodes = {
  readonly mismatch: ErrorCode;
  readonly notPresent: ErrorCode;
};
export const blobLeaseCodes: LeaseCodes = {
  mismatch: "LeaseIdMismatchWithBlobOperation",
  notPresent: "LeaseNotPresentWithBlobOperation",
};
export const containerLeaseCodes: LeaseCodes = {
  mismatch: "LeaseIdMismatchWithContainerOperation",
  notPresent: "LeaseNotPresentWithContainerOperation",
};
export const shareLeaseCodes: LeaseCodes = {
  mismatch: "LeaseIdMismatchWithShareOperation",
  notPresent: "LeaseNotPresentWithShareOperation",
};
export const fileLeaseCodes: LeaseCodes = {
  mismatch: "LeaseIdMismatchWithFileOperation",
  notPresent: "LeaseNotPresentWithFileOperation",
};

/**
 * Why a request that names `id`, or no lease at all, may not use the resource; or undefined. `lease` is
 * as `leaseAt` gives it. A "guarded" use needs the id of a lease that is held; a "free" one needs none,
 * but an id that is given must be right (Lease Blob and Lease Container, "outcomes of use attempts").
 */
export function failedLease(
  lease: Lease,
  id: string | undefined,
  use: "guarded" | "free",
  codes: LeaseCodes,
): ErrorCode | undefined {
  if (id === undefined) return use === "guarded" && isHeld(lease) ? "LeaseIdMissing" : undefined;
  if (lease.state === "available") return codes.notPresent;
  if (!isHeld(lease)) return "LeaseLost";
  return sameId(lease.id, id) ? undefined : codes.mismatch;
}

/** Acquire Lease: `id` is the proposed one, or a new one where none was proposed. */
export function acquired(
  lease: Lease,
  { id, proposed, seconds }: { id: string; proposed: boolean; seconds: number },
  now: Instant,
): Lease | ErrorCode {
  if (isHeld(lease) && lease.state !== "available") {
    if (!proposed || !sameId(lease.id, id)) return "LeaseAlreadyPresent";
    if (lease.state === "breaking") return "LeaseIsBreakingAndCannotBeAcquired";
  }
  return { state: "leased", id, seconds, endsAt: endOf(seconds, now) };
}

/** Renew Lease. An expired lease can still be renewed by its id; a broken one cannot. */
export function renewed(lease: Lease, id: string, now: Instant): Lease | ErrorCode {
  if (lease.state === "available" || !sameId(lease.id, id)) {
    return "LeaseIdMismatchWithLeaseOperation";
  }
  if (lease.state === "leased" || lease.state === "expired") {
    return { ...lease, state: "leased", endsAt: endOf(lease.seconds, now) };
  }
  return "LeaseIsBrokenAndCannotBeRenewed";
}

/** Change Lease. To change to the id that is already there succeeds, whatever id is given. */
export function changed(
  lease: Lease,
  { id, proposed }: { id: string; proposed: string },
): Lease | ErrorCode {
  if (lease.state !== "leased" && lease.state !== "breaking") {
    return "LeaseNotPresentWithLeaseOperation";
  }
  if (!sameId(lease.id, id) && !sameId(lease.id, proposed)) {
    return "LeaseIdMismatchWithLeaseOperation";
  }
  if (lease.state === "breaking") return "LeaseIsBreakingAndCannotBeChanged";
  return { ...lease, id: proposed };
}

/** Release Lease: the resource is free at once, also from a lease that had ended or is being broken. */
export function released(lease: Lease, id: string): Lease | ErrorCode {
  if (lease.state === "available" || !sameId(lease.id, id)) {
    return "LeaseIdMismatchWithLeaseOperation";
  }
  return available;
}

/**
 * Break Lease. A fixed lease breaks when it would have ended, or sooner; a lease without end breaks after
 * the period, at once if none is given; breaking again may only make it sooner.
 */
export function broken(
  lease: Lease,
  periodSeconds: number | undefined,
  now: Instant,
): Lease | ErrorCode {
  if (lease.state === "available") return "LeaseNotPresentWithLeaseOperation";
  if (lease.state === "expired" || lease.state === "broken") {
    return { state: "broken", id: lease.id, endsAt: now };
  }
  const remainingEnd = lease.endsAt === forever ? now : lease.endsAt;
  const wantedEnd = periodSeconds === undefined ? remainingEnd : now + periodSeconds * 1000;
  const endsAt = Math.min(wantedEnd, lease.endsAt);
  return { state: endsAt > now ? "breaking" : "broken", id: lease.id, endsAt };
}

/** Whole seconds until a breaking lease is broken; 0 when it is. */
export const secondsLeft = (lease: Lease, now: Instant): number =>
  lease.state === "breaking" ? Math.max(0, Math.ceil((lease.endsAt - now) / 1000)) : 0;

/** The three lease properties of headers and lists; the duration shows only while leased. */
export function leaseProperties(lease: Lease): {
  status: "locked" | "unlocked";
  state: Lease["state"];
  duration?: "infinite" | "fixed";
} {
  const status = isHeld(lease) ? "locked" : "unlocked";
  if (lease.state !== "leased") return { status, state: lease.state };
  return { status, state: "leased", duration: lease.seconds === -1 ? "infinite" : "fixed" };
}
