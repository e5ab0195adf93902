import type { Random } from "../simulation/power-cut.ts";
import type { Span } from "./linearizable.ts";
import { guidOf } from "./traffic.ts";

/**
 * A lease as the model knows it. When a fixed lease ends is known as well as the time of the request that
 * began it: `endsFrom` at the earliest, `endsTo` at the latest.
 */
export type Lease =
  | { readonly mode: "none" }
  | {
      readonly mode: "leased" | "expired";
      readonly id: string;
      readonly seconds: number;
      readonly endsFrom: number;
      readonly endsTo: number;
    }
  | { readonly mode: "broken"; readonly id: string };

export const noLease: Lease = { mode: "none" };
const ENDLESS = Number.POSITIVE_INFINITY;

export type LeaseInput =
  | { readonly act: "acquire"; readonly id: string; readonly seconds: number }
  | { readonly act: "renew" | "release"; readonly id: string }
  | { readonly act: "change"; readonly id: string; readonly to: string }
  | { readonly act: "break" };

const begun = (id: string, seconds: number, clock: Span): Lease => ({
  mode: "leased",
  id,
  seconds,
  endsFrom: seconds === -1 ? ENDLESS : clock.least + seconds * 1000,
  endsTo: seconds === -1 ? ENDLESS : clock.most + seconds * 1000,
});

/** What a lease may be while a request runs. Once it is seen to have ended it has. */
export function leasesAt(lease: Lease, clock: Span): Lease[] {
  if (lease.mode !== "leased" || lease.seconds === -1) return [lease];
  const views: Lease[] = [];
  if (clock.least < lease.endsTo) {
    const endsFrom = Math.max(lease.endsFrom, Math.min(clock.least + 1, lease.endsTo));
    views.push({ ...lease, endsFrom });
  }
  if (clock.most >= lease.endsFrom) views.push({ ...lease, mode: "expired" });
  return views;
}

/** A write forgets a lease that has ended. */
export const afterWrite = (lease: Lease): Lease => (lease.mode === "leased" ? lease : noLease);

/** Why a write that names this lease id, or none, is refused ("Lease Blob", outcomes of use attempts). */
export function refusedByLease(
  lease: Lease,
  id: string | undefined,
  of: "Blob" | "File",
): string | undefined {
  if (id === undefined) return lease.mode === "leased" ? "412 LeaseIdMissing" : undefined;
  if (lease.mode === "none") return `412 LeaseNotPresentWith${of}Operation`;
  if (lease.mode !== "leased") return "412 LeaseLost";
  return lease.id === id ? undefined : `412 LeaseIdMismatchWith${of}Operation`;
}

/** What a lease operation answers, and the lease after it. */
export function leased(lease: Lease, input: LeaseInput, clock: Span): [told: string, after: Lease] {
  const no = (code: string): [string, Lease] => [`409 ${code}`, lease];
  switch (input.act) {
    case "acquire":
      if (lease.mode === "leased" && lease.id !== input.id) return no("LeaseAlreadyPresent");
      return ["201", begun(input.id, input.seconds, clock)];
    case "renew":
      if (lease.mode === "none" || lease.id !== input.id) {
        return no("LeaseIdMismatchWithLeaseOperation");
      }
      if (lease.mode === "broken") return no("LeaseIsBrokenAndCannotBeRenewed");
      return ["200", begun(lease.id, lease.seconds, clock)];
    case "release":
      if (lease.mode === "none" || lease.id !== input.id) {
        return no("LeaseIdMismatchWithLeaseOperation");
      }
      return ["200", noLease];
    case "change":
      if (lease.mode !== "leased") return no("LeaseNotPresentWithLeaseOperation");
      if (lease.id !== input.id && lease.id !== input.to) {
        return no("LeaseIdMismatchWithLeaseOperation");
      }
      return ["200", { ...lease, id: input.to }];
    case "break":
      if (lease.mode === "none") return no("LeaseNotPresentWithLeaseOperation");
      return ["202", { mode: "broken", id: lease.id }];
  }
}

/** The headers of a lease operation; files have leases without end only, which break at once. */
export function leaseHeaders(input: LeaseInput, of: "Blob" | "File"): Record<string, string> {
  const headers: Record<string, string> = { "x-ms-lease-action": input.act };
  if (input.act === "acquire") {
    headers["x-ms-proposed-lease-id"] = input.id;
    headers["x-ms-lease-duration"] = String(input.seconds);
  } else if (input.act === "break") {
    if (of === "Blob") headers["x-ms-lease-break-period"] = "0";
  } else headers["x-ms-lease-id"] = input.id;
  if (input.act === "change") headers["x-ms-proposed-lease-id"] = input.to;
  return headers;
}

/** A lease operation of a client, mostly with an id of its own. */
export function chosenLease(
  random: Random,
  client: number,
  held: string | undefined,
  seconds: readonly number[],
): LeaseInput {
  const id = held ?? guidOf(client, random.below(2));
  const act = held === undefined ? random.below(10) : random.below(16);
  if (act < 7) return { act: "acquire", id, seconds: random.pick(seconds) };
  if (act < 8) return { act: "break" };
  // Files know no renewal, as their leases have no end.
  if (act < 10) return { act: seconds.length > 1 ? "renew" : "release", id };
  if (act < 14) return { act: "release", id };
  return { act: "change", id, to: guidOf(client, random.below(2)) };
}
