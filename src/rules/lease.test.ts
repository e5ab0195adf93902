import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, errors } from "./errors.ts";
import {
  acquired,
  available,
  blobLeaseCodes,
  broken,
  changed,
  containerLeaseCodes,
  failedLease,
  isHeld,
  type Lease,
  type LeaseCodes,
  leaseAfterWrite,
  leaseAt,
  leaseProperties,
  released,
  renewed,
  secondsLeft,
} from "./lease.ts";

// SEMANTICS b.1 to b.4. A fixed lease of 30 s has 20 left; a breaking one has 10.
const now = 1_700_000_000_000;
const after = (seconds: number) => now + seconds * 1000;
const leased: Lease = { state: "leased", id: "a", seconds: 30, endsAt: after(20) };
const breaking: Lease = { state: "breaking", id: "a", endsAt: after(10) };
const isBroken: Lease = { state: "broken", id: "a", endsAt: after(-5) };
const expired: Lease = { state: "expired", id: "a", seconds: 30, endsAt: after(-5) };
const states = [available, leased, breaking, isBroken, expired] as const;
const infinite = lease(acquired(available, { id: "a", proposed: true, seconds: -1 }, now));

function lease(result: Lease | ErrorCode): Lease {
  assert.ok(typeof result === "object", `refused with ${String(result)}`);
  return result;
}

const shown = (result: Lease | ErrorCode): string => {
  if (typeof result === "string") return result;
  return result.state === "available" ? "available" : `${result.state}(${result.id})`;
};

// b.2: one row for each action, one column for each state; a failure is Azure's code, always 409.
const acquire = (id: string, proposed: boolean) => (from: Lease) =>
  acquired(from, { id, proposed, seconds: 15 }, now);
const NOT_PRESENT = "LeaseNotPresentWithLeaseOperation";
const MISMATCH = "LeaseIdMismatchWithLeaseOperation";
const PRESENT = "LeaseAlreadyPresent";
const UNCHANGEABLE = "LeaseIsBreakingAndCannotBeChanged";
const UNRENEWABLE = "LeaseIsBrokenAndCannotBeRenewed";
const UNACQUIRABLE = "LeaseIsBreakingAndCannotBeAcquired";
type Columns = [
  available: string,
  leased: string,
  breaking: string,
  broken: string,
  expired: string,
];
const operations: [action: string, (from: Lease) => Lease | ErrorCode, want: Columns][] = [
  [
    "Acquire, no proposed id",
    acquire("x", false),
    ["leased(x)", PRESENT, PRESENT, "leased(x)", "leased(x)"],
  ],
  [
    "Acquire(A)",
    acquire("a", true),
    ["leased(a)", "leased(a)", UNACQUIRABLE, "leased(a)", "leased(a)"],
  ],
  ["Acquire(B)", acquire("b", true), ["leased(b)", PRESENT, PRESENT, "leased(b)", "leased(b)"]],
  [
    "Break, period 0",
    (from) => broken(from, 0, now),
    [NOT_PRESENT, "broken(a)", "broken(a)", "broken(a)", "broken(a)"],
  ],
  [
    "Break, period >0",
    (from) => broken(from, 5, now),
    [NOT_PRESENT, "breaking(a)", "breaking(a)", "broken(a)", "broken(a)"],
  ],
  [
    "Change A to B",
    (from) => changed(from, { id: "a", proposed: "b" }),
    [NOT_PRESENT, "leased(b)", UNCHANGEABLE, NOT_PRESENT, NOT_PRESENT],
  ],
  [
    "Change B to A",
    (from) => changed(from, { id: "b", proposed: "a" }),
    [NOT_PRESENT, "leased(a)", UNCHANGEABLE, NOT_PRESENT, NOT_PRESENT],
  ],
  [
    "Change B to C",
    (from) => changed(from, { id: "b", proposed: "c" }),
    [NOT_PRESENT, MISMATCH, MISMATCH, NOT_PRESENT, NOT_PRESENT],
  ],
  [
    "Renew(A)",
    (from) => renewed(from, "a", now),
    [MISMATCH, "leased(a)", UNRENEWABLE, UNRENEWABLE, "leased(a)"],
  ],
  [
    "Renew(B)",
    (from) => renewed(from, "b", now),
    [MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH],
  ],
  [
    "Release(A)",
    (from) => released(from, "a"),
    [MISMATCH, "available", "available", "available", "available"],
  ],
  ["Release(B)", (from) => released(from, "b"), [MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH]],
  [
    "Time passes",
    (from) => leaseAt(from, after(60)),
    ["available", "expired(a)", "broken(a)", "broken(a)", "expired(a)"],
  ],
];
for (const [action, act, wants] of operations) {
  for (const [i, from] of states.entries()) {
    const want = wants[i] ?? "";
    test(`lease operations: ${action} on ${from.state} gives ${want}`, () => {
      const result = act(from);
      assert.equal(shown(result), want);
      if (typeof result === "string") assert.equal(errors[result][0], 409);
    });
  }
}

// What the cells of b.2 say in words.
const wholes: [what: string, result: Lease | ErrorCode, want: Lease][] = [
  [
    "acquired(): a new lease runs from now",
    acquire("x", false)(available),
    { state: "leased", id: "x", seconds: 15, endsAt: after(15) },
  ],
  [
    "acquired(): its holder gives a lease a new duration",
    acquire("a", true)(leased),
    { state: "leased", id: "a", seconds: 15, endsAt: after(15) },
  ],
  [
    "renewed(): the clock is reset to the lease's own duration",
    renewed(leased, "a", now),
    { state: "leased", id: "a", seconds: 30, endsAt: after(30) },
  ],
  [
    "renewed(): an expired lease runs again",
    renewed(expired, "a", now),
    { state: "leased", id: "a", seconds: 30, endsAt: after(30) },
  ],
  [
    "changed(): duration and end stay",
    changed(leased, { id: "a", proposed: "b" }),
    { state: "leased", id: "b", seconds: 30, endsAt: after(20) },
  ],
];
for (const [what, result, want] of wholes) test(what, () => assert.deepEqual(result, want));

test("renewed(): an infinite lease stays infinite", () => {
  const again = lease(renewed(infinite, "a", after(1000)));
  assert.equal(leaseAt(again, after(1e9)).state, "leased");
  assert.equal(leaseProperties(again).duration, "infinite");
});

// b.2 "Time passes", to the millisecond.
const passing: [what: string, from: Lease, at: number, want: Lease["state"]][] = [
  ["a lease holds until its end", leased, after(20) - 1, "leased"],
  ["a lease expires at its end", leased, after(20), "expired"],
  ["a lease without end never expires", infinite, after(1e10), "leased"],
  ["a breaking lease is not broken before its end", breaking, after(10) - 1, "breaking"],
  ["a breaking lease is broken at its end", breaking, after(10), "broken"],
];
for (const [what, from, at, want] of passing) {
  test(`leaseAt(): ${what}`, () => assert.equal(leaseAt(from, at).state, want));
}

// b.3 and b.4: uses by state; a failure is always 412. DESIGN 6 settles the wrong id and the lost lease.
const BLOB_NONE = "LeaseNotPresentWithBlobOperation";
const BLOB_OTHER = "LeaseIdMismatchWithBlobOperation";
const CONTAINER_NONE = "LeaseNotPresentWithContainerOperation";
const CONTAINER_OTHER = "LeaseIdMismatchWithContainerOperation";
const LOST = "LeaseLost";
const MISSING = "LeaseIdMissing";
type Use = [
  what: string,
  codes: LeaseCodes,
  use: "guarded" | "free",
  id: string | undefined,
  want: Columns,
];
const blob = blobLeaseCodes;
const container = containerLeaseCodes;
const uses: Use[] = [
  ["Write with (A)", blob, "guarded", "a", [BLOB_NONE, "ok", "ok", LOST, LOST]],
  ["Write with (B)", blob, "guarded", "b", [BLOB_NONE, BLOB_OTHER, BLOB_OTHER, LOST, LOST]],
  ["Write, no id", blob, "guarded", undefined, ["ok", MISSING, MISSING, "ok", "ok"]],
  ["Read with (A)", blob, "free", "a", [BLOB_NONE, "ok", "ok", LOST, LOST]],
  ["Read with (B)", blob, "free", "b", [BLOB_NONE, BLOB_OTHER, BLOB_OTHER, LOST, LOST]],
  ["Read, no id", blob, "free", undefined, ["ok", "ok", "ok", "ok", "ok"]],
  [
    "Delete container with (A)",
    container,
    "guarded",
    "a",
    [CONTAINER_NONE, "ok", "ok", LOST, LOST],
  ],
  [
    "Delete container with (B)",
    container,
    "guarded",
    "b",
    [CONTAINER_NONE, CONTAINER_OTHER, CONTAINER_OTHER, LOST, LOST],
  ],
  [
    "Delete container, no id",
    container,
    "guarded",
    undefined,
    ["ok", MISSING, MISSING, "ok", "ok"],
  ],
  [
    "Other container ops with (A)",
    container,
    "free",
    "a",
    [CONTAINER_NONE, "ok", "ok", LOST, LOST],
  ],
  [
    "Other container ops with (B)",
    container,
    "free",
    "b",
    [CONTAINER_NONE, CONTAINER_OTHER, CONTAINER_OTHER, LOST, LOST],
  ],
  ["Other container ops, no id", container, "free", undefined, ["ok", "ok", "ok", "ok", "ok"]],
];
for (const [what, codes, use, id, wants] of uses) {
  for (const [i, from] of states.entries()) {
    const want = wants[i] ?? "";
    test(`failedLease(): ${what} on ${from.state} gives ${want}`, () => {
      const code = failedLease(from, id, use, codes);
      assert.equal(code ?? "ok", want);
      if (code !== undefined) assert.equal(errors[code][0], 412);
    });
  }
}

// b.1 and b.3: a write frees what had run out, and keeps what is held.
const written: [from: Lease, want: Lease][] = [
  [available, available],
  [leased, leased],
  [infinite, infinite],
  [breaking, breaking],
  [isBroken, available],
  [expired, available],
];
for (const [from, want] of written) {
  test(`leaseAfterWrite(): ${from.state} becomes ${want.state}`, () =>
    assert.deepEqual(leaseAfterWrite(from), want));
}

test("leaseAfterWrite(): an expired lease is neither renewed nor released after a write", () => {
  assert.equal(renewed(leaseAfterWrite(expired), "a", now), MISMATCH);
  assert.equal(released(leaseAfterWrite(expired), "a"), MISMATCH);
});

// b.1 Break: min(p, remaining) of a fixed lease, p or at once of one without end; again only sooner.
const breaks: [what: string, from: Lease, period: number | undefined, left: number][] = [
  ["a fixed lease, a period shorter than what is left", leased, 5, 5],
  ["a fixed lease, a period as long as what is left", leased, 20, 20],
  ["a fixed lease, a period longer than what is left", leased, 60, 20],
  ["a fixed lease, no period", leased, undefined, 20],
  ["a fixed lease, period 0", leased, 0, 0],
  ["a lease without end, no period", infinite, undefined, 0],
  ["a lease without end, period 0", infinite, 0, 0],
  ["a lease without end, a period", infinite, 10, 10],
  ["a lease without end, the longest period", infinite, 60, 60],
  ["a breaking lease, a shorter period", breaking, 5, 5],
  ["a breaking lease, a longer period", breaking, 60, 10],
  ["a breaking lease, no period", breaking, undefined, 10],
  ["a breaking lease, period 0", breaking, 0, 0],
  ["a broken lease, a period", isBroken, 30, 0],
  ["a broken lease, no period", isBroken, undefined, 0],
  ["an expired lease, a period", expired, 30, 0],
  ["an expired lease, no period", expired, undefined, 0],
];
for (const [what, from, period, left] of breaks) {
  test(`broken(): ${what}, leaves ${left} s`, () => {
    const result = lease(broken(from, period, now));
    assert.equal(result.state, left === 0 ? "broken" : "breaking");
    assert.equal(secondsLeft(result, now), left);
    if (left > 0) {
      assert.equal(leaseAt(result, after(left) - 1).state, "breaking");
      assert.equal(leaseAt(result, after(left)).state, "broken");
    }
  });
}

test("broken(): breaking what a break left over may again only shorten it", () => {
  const first = lease(broken(infinite, 30, now));
  assert.equal(secondsLeft(lease(broken(first, 60, after(10))), after(10)), 20);
  assert.equal(secondsLeft(lease(broken(first, 5, after(10))), after(10)), 5);
});

// b.1 x-ms-lease-time: seconds left of a breaking lease, 0 of any other.
const left: [from: Lease, at: number, want: number][] = [
  [breaking, now, 10],
  [breaking, after(3), 7],
  [breaking, after(10), 0],
  [breaking, after(99), 0],
  [isBroken, now, 0],
  [leased, now, 0],
  [expired, now, 0],
  [available, now, 0],
];
for (const [from, at, want] of left) {
  test(`secondsLeft(): ${from.state}, ${(at - now) / 1000} s later, is ${want}`, () =>
    assert.equal(secondsLeft(from, at), want));
}

// b.1 LeaseStatus: locked for leased and breaking; the duration shows only when leased.
const properties: [from: Lease, want: ReturnType<typeof leaseProperties>][] = [
  [available, { status: "unlocked", state: "available" }],
  [leased, { status: "locked", state: "leased", duration: "fixed" }],
  [infinite, { status: "locked", state: "leased", duration: "infinite" }],
  [breaking, { status: "locked", state: "breaking" }],
  [isBroken, { status: "unlocked", state: "broken" }],
  [expired, { status: "unlocked", state: "expired" }],
];
for (const [from, want] of properties) {
  test(`leaseProperties(): ${want.state} ${want.duration ?? ""} is ${want.status}`, () => {
    assert.deepEqual(leaseProperties(from), want);
    assert.equal(isHeld(from), want.status === "locked");
  });
}

// b.1: lease ids compare case-insensitively.
const sameIds: [what: string, result: Lease | ErrorCode, want: string][] = [
  ["acquired()", acquire("A", true)(leased), "leased"],
  ["renewed()", renewed(leased, "A", now), "leased"],
  ["changed()", changed(leased, { id: "A", proposed: "b" }), "leased"],
  ["changed() to the id that is there", changed(leased, { id: "b", proposed: "A" }), "leased"],
  ["released()", released(leased, "A"), "available"],
];
for (const [what, result, want] of sameIds) {
  test(`${what}: an id in the other case is the same id`, () =>
    assert.equal(lease(result).state, want));
}
for (const codes of [blobLeaseCodes, containerLeaseCodes]) {
  test(`failedLease(): an id in the other case is the same id (${codes.mismatch})`, () =>
    assert.equal(failedLease(leased, "A", "guarded", codes), undefined));
}
