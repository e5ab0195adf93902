import type { Ids } from "../base/ids.ts";
import type { Instant } from "../base/time.ts";
import type { WriteTx } from "../engine/engine.ts";
import {
  type Guarded,
  type HeaderValue,
  type Level,
  type Operation,
  type Request,
  type Target,
  writeOperation,
} from "../http/operation.ts";
import { guidOf } from "../http/parse.ts";
import { type ErrorCode, invalidHeader, missingHeader, StorageError } from "../rules/errors.ts";
import {
  acquired,
  broken,
  changed,
  type Lease,
  leaseAt,
  released,
  renewed,
  secondsLeft,
} from "../rules/lease.ts";
import { changedHeaders, parseInteger } from "./resource.ts";

/** One of the five actions: what it reads, what it does to a lease, what it answers. */
type Action<I> = {
  readonly name: string;
  readonly status: number;
  input(request: Request): I;
  change(lease: Lease, input: I, now: Instant, ids: Ids): Lease | ErrorCode;
  headers(lease: Lease, now: Instant): Record<string, HeaderValue>;
};

const action = <I>(definition: Action<I>) => definition as Action<unknown>;

const idHeader = (lease: Lease) => ({
  "x-ms-lease-id": lease.state === "available" ? undefined : lease.id,
});

const BREAK_PERIOD_MAX = 60;
const DURATION_MIN = 15;
const DURATION_MAX = 60;

/** The actions of every kind of lease; they differ in nothing but what they lease. */
const actions: readonly Action<unknown>[] = [
  action({
    name: "acquire",
    status: 201,
    input: (request) => ({
      seconds: durationOf(request),
      proposed: guidOf(request.header, "x-ms-proposed-lease-id"),
    }),
    change: (lease, { seconds, proposed }, now, ids) =>
      acquired(
        lease,
        { id: proposed ?? ids.guid(), proposed: proposed !== undefined, seconds },
        now,
      ),
    headers: idHeader,
  }),
  action({
    name: "renew",
    status: 200,
    input: requiredId,
    change: (lease, id, now) => renewed(lease, id, now),
    headers: idHeader,
  }),
  action({
    name: "change",
    status: 200,
    input(request) {
      const proposed = guidOf(request.header, "x-ms-proposed-lease-id");
      if (proposed === undefined) throw missingHeader("x-ms-proposed-lease-id");
      return { id: requiredId(request), proposed };
    },
    change: (lease, ids) => changed(lease, ids),
    headers: idHeader,
  }),
  action({
    name: "release",
    status: 200,
    input: requiredId,
    change: (lease, id) => released(lease, id),
    headers: () => ({}),
  }),
  action({
    name: "break",
    status: 202,
    // Anybody may break a lease; only the File service has a header by which one means this lease and no other.
    input: (request) => ({
      period: breakPeriodOf(request),
      id: request.service === "file" ? request.leaseId : undefined,
    }),
    change: (lease, { period, id }, now) =>
      lease.state !== "available" && id !== undefined && id !== lease.id
        ? "LeaseIdMismatchWithLeaseOperation"
        : broken(lease, period, now),
    headers: (lease, now) => ({ "x-ms-lease-time": secondsLeft(lease, now) }),
  }),
];

function requiredId(request: Request): string {
  if (request.leaseId === undefined) throw missingHeader("x-ms-lease-id");
  return request.leaseId;
}

function durationOf(request: Request): number {
  const text = request.header("x-ms-lease-duration");
  if (text === undefined) throw missingHeader("x-ms-lease-duration");
  const seconds = parseInteger(text);
  const valid =
    seconds === -1 || (seconds !== undefined && seconds >= DURATION_MIN && seconds <= DURATION_MAX);
  if (!valid) throw invalidHeader("x-ms-lease-duration", text);
  return seconds;
}

function breakPeriodOf(request: Request): number | undefined {
  const text = request.header("x-ms-lease-break-period");
  if (text === undefined) return undefined;
  const seconds = parseInteger(text);
  if (seconds === undefined || seconds < 0 || seconds > BREAK_PERIOD_MAX) {
    throw invalidHeader("x-ms-lease-break-period", text);
  }
  return seconds;
}

export type Leased<P, R extends Guarded> = {
  readonly name: string;
  readonly on: Level;
  readonly restype?: string;
  readonly resource: "c" | "o";
  /** Whether conditional headers are judged; they are unless this says "none". */
  readonly conditions?: "none";
  /** Whether a snapshot can be leased as well. */
  readonly snapshots?: boolean;
  /** Whether its leases have no end: they are not renewed, and broken at once. */
  readonly endless?: boolean;
  readonly target: Target<P, R>;
  /** How it is found to be acquired, where that asks for more. */
  readonly acquireTarget?: Target<P, R>;
  save(tx: WriteTx, place: P, record: R): void;
};

/** Whoever may delete may also break; that is all a SAS of one container can do to its lease. */
const allowOf = (action: string, resource: "c" | "o"): Operation["allow"] =>
  action !== "break"
    ? { sas: "w", resource }
    : { sas: "wd", resource, service: resource === "c" ? "d" : "wd" };

/** What a lease without end cannot be asked for. */
function refuseTimes(request: Request): void {
  const duration = request.header("x-ms-lease-duration");
  if (duration !== undefined && duration !== "-1") {
    throw invalidHeader("x-ms-lease-duration", duration);
  }
  if (request.header("x-ms-lease-break-period") !== undefined) {
    throw new StorageError("UnsupportedHeader", { HeaderName: "x-ms-lease-break-period" });
  }
}

/** The five rows of a thing that can be leased; its ETag and time of change stay as they are. */
export function leaseRows<P, R extends Guarded>(leased: Leased<P, R>): Operation[] {
  const { name, on, restype, resource, target, save, endless = false, snapshots = false } = leased;
  const own = endless ? actions.filter((action) => action.name !== "renew") : actions;
  return own.map((definition) =>
    writeOperation({
      name: `${name}: ${definition.name}`,
      match: {
        method: "PUT",
        on,
        ...(restype === undefined ? {} : { restype }),
        comp: "lease",
        header: { name: "x-ms-lease-action", value: definition.name },
      },
      allow: allowOf(definition.name, resource),
      snapshots,
      givesEtag: true,
      guard: {
        on: definition.name === "acquire" ? (leased.acquireTarget ?? target) : target,
        conditions: leased.conditions ?? "write",
        lease: "own",
      },
      input(request: Request) {
        if (endless) refuseTimes(request);
        return definition.input(request);
      },
      async apply({ tx, place, found, input, around }) {
        const now = tx.now;
        const lease = definition.change(leaseAt(found.lease, now), input, now, around.ids);
        if (typeof lease === "string") throw new StorageError(lease);
        save(tx, place, { ...found, lease });
        const headers = { ...changedHeaders(found), ...definition.headers(lease, now) };
        return { status: definition.status, headers };
      },
    }),
  );
}
