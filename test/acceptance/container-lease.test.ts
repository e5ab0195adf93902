import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { type RawReply, send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
let service: BlobServiceClient;
let count = 0;

before(async () => {
  server = await startServer();
  service = BlobServiceClient.fromConnectionString(server.connectionString);
});

after(() => server.stop());

const A = "aaaaaaaa-0000-4000-8000-000000000001";
const B = "bbbbbbbb-0000-4000-8000-000000000002";
const C = "cccccccc-0000-4000-8000-000000000003";

type Headers = Record<string, string>;

const on = (name: string, method: string, comp = "", headers: Headers = {}) => {
  const query = { restype: "container", ...(comp === "" ? {} : { comp }) };
  return send(server, { method, path: `/${name}`, query, headers });
};

const lease = (name: string, action: string, headers: Headers = {}) =>
  on(name, "PUT", "lease", { "x-ms-lease-action": action, ...headers });

const acquire = (id?: string): Headers => ({
  "x-ms-lease-duration": "-1",
  ...(id === undefined ? {} : { "x-ms-proposed-lease-id": id }),
});
const withId = (id: string): Headers => ({ "x-ms-lease-id": id });
const breakIn = (seconds: number): Headers => ({ "x-ms-lease-break-period": String(seconds) });
const change = (from: string, to: string): Headers => ({
  ...withId(from),
  "x-ms-proposed-lease-id": to,
});

/** The states of Azure's tables that are reached without waiting; all but the first hold lease A. */
type State = "available" | "leased" | "breaking" | "broken";
const STATES: readonly State[] = ["available", "leased", "breaking", "broken"];

async function madeIn(state: State): Promise<string> {
  const name = `lease-${process.pid}-${++count}`;
  assert.equal((await on(name, "PUT")).status, 201);
  if (state === "available") return name;
  assert.equal((await lease(name, "acquire", acquire(A))).status, 201);
  if (state === "leased") return name;
  const reply = await lease(name, "break", breakIn(state === "breaking" ? 60 : 0));
  assert.equal(reply.status, 202);
  return name;
}

const answer = (reply: RawReply) => [reply.status, reply.code].join(" ").trim();

suite("Lease Container", () => {
  test("through the SDK: acquire, renew, change, release, break", async () => {
    const container = service.getContainerClient(await madeIn("available"));
    const client = container.getBlobLeaseClient(A);
    assert.equal((await client.acquireLease(15)).leaseId, A);
    const leased = await container.getProperties();
    assert.deepEqual(
      [leased.leaseState, leased.leaseStatus, leased.leaseDuration],
      ["leased", "locked", "fixed"],
    );
    assert.equal((await client.renewLease()).leaseId, A);
    assert.equal((await client.changeLease(B)).leaseId, B);
    await client.releaseLease();
    const free = await container.getProperties();
    assert.deepEqual(
      [free.leaseState, free.leaseStatus, free.leaseDuration],
      ["available", "unlocked", undefined],
    );
    await container.getBlobLeaseClient(C).acquireLease(-1);
    assert.equal((await container.getProperties()).leaseDuration, "infinite");
    assert.equal((await container.getBlobLeaseClient().breakLease(20)).leaseTime, 20);
    const breaking = await container.getProperties();
    assert.deepEqual(
      [breaking.leaseState, breaking.leaseStatus, breaking.leaseDuration],
      ["breaking", "locked", undefined],
    );
  });

  test("gives ETag, Last-Modified and the id it made", async () => {
    const name = await madeIn("available");
    const reply = await lease(name, "acquire", { "x-ms-lease-duration": "60" });
    assert.equal(answer(reply), "201");
    assert.match(
      String(reply.headers["x-ms-lease-id"]),
      /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
    );
    const got = await on(name, "GET");
    assert.equal(reply.headers.etag, got.headers.etag);
    assert.equal(reply.headers["last-modified"], got.headers["last-modified"]);
  });

  test("compares ids without regard to case", async () => {
    const name = await madeIn("leased");
    assert.equal(answer(await lease(name, "renew", withId(A.toUpperCase()))), "200");
  });

  for (const id of [A.replaceAll("-", ""), `{${A}}`, `(${A})`]) {
    test(`takes the id in the form ${id}`, async () => {
      const name = await madeIn("available");
      assert.equal(answer(await lease(name, "acquire", acquire(id))), "201");
      assert.equal(answer(await lease(name, "release", withId(A))), "200");
    });
  }

  test("shows its state in List Containers", async () => {
    const name = await madeIn("leased");
    const reply = await send(server, { method: "GET", query: { comp: "list", prefix: name } });
    assert.match(reply.text, /<LeaseStatus>locked<\/LeaseStatus>/);
    assert.match(reply.text, /<LeaseState>leased<\/LeaseState>/);
    assert.match(reply.text, /<LeaseDuration>infinite<\/LeaseDuration>/);
  });

  test("answers 404 for a container that is not there", async () => {
    assert.equal(answer(await lease("missing", "acquire", acquire(A))), "404 ContainerNotFound");
  });

  const breaks: [what: string, duration: string, period: number | undefined, left: RegExp][] = [
    ["an infinite lease without a period ends now", "-1", undefined, /^0$/],
    ["an infinite lease ends after the period", "-1", 30, /^(29|30)$/],
    ["a fixed lease without a period runs to its end", "15", undefined, /^1[345]$/],
    ["a fixed lease ends no later than it would", "15", 60, /^1[345]$/],
    ["a fixed lease ends after the shorter period", "60", 5, /^[45]$/],
    ["a period of 0 ends it now", "60", 0, /^0$/],
  ];
  for (const [what, duration, period, left] of breaks) {
    test(`break: ${what}`, async () => {
      const name = await madeIn("available");
      const headers = { "x-ms-lease-duration": duration };
      assert.equal((await lease(name, "acquire", headers)).status, 201);
      const reply = await lease(name, "break", period === undefined ? {} : breakIn(period));
      assert.equal(answer(reply), "202");
      assert.match(String(reply.headers["x-ms-lease-time"]), left);
    });
  }

  test("break: a second one may only shorten", async () => {
    const name = await madeIn("leased");
    await lease(name, "break", breakIn(20));
    const longer = await lease(name, "break", breakIn(50));
    assert.match(String(longer.headers["x-ms-lease-time"]), /^(19|20)$/);
    const shorter = await lease(name, "break", breakIn(5));
    assert.match(String(shorter.headers["x-ms-lease-time"]), /^[45]$/);
  });
});

// Azure's table "Lease Container: outcomes of lease operations", SEMANTICS b.2, without Expired. A cell
// is the answer; "or" where the sources leave it open.
const MISMATCH = "409 LeaseIdMismatchWithLeaseOperation";
const NOT_PRESENT = "409 LeaseNotPresentWithLeaseOperation";
const PRESENT = "409 LeaseAlreadyPresent";
const BREAKING = "409 LeaseIsBreakingAndCannotBeChanged";
const BROKEN = "409 LeaseIsBrokenAndCannotBeRenewed";
const ABSENT = `${NOT_PRESENT} or ${MISMATCH}`;
const actions: [what: string, action: string, headers: Headers, cells: string[]][] = [
  ["acquire", "acquire", acquire(), ["201", PRESENT, PRESENT, "201"]],
  [
    "acquire(A)",
    "acquire",
    acquire(A),
    ["201", "201", "409 LeaseIsBreakingAndCannotBeAcquired", "201"],
  ],
  ["acquire(B)", "acquire", acquire(B), ["201", PRESENT, PRESENT, "201"]],
  ["break in 0", "break", breakIn(0), [NOT_PRESENT, "202", "202", "202"]],
  ["break in 9", "break", breakIn(9), [NOT_PRESENT, "202", "202", "202"]],
  ["change A to B", "change", change(A, B), [NOT_PRESENT, "200", BREAKING, NOT_PRESENT]],
  ["change B to A", "change", change(B, A), [ABSENT, "200", `${BREAKING} or ${MISMATCH}`, ABSENT]],
  ["change B to C", "change", change(B, C), [ABSENT, MISMATCH, MISMATCH, ABSENT]],
  ["renew(A)", "renew", withId(A), [MISMATCH, "200", BROKEN, BROKEN]],
  ["renew(B)", "renew", withId(B), [MISMATCH, MISMATCH, MISMATCH, MISMATCH]],
  ["release(A)", "release", withId(A), [MISMATCH, "200", "200", "200"]],
  ["release(B)", "release", withId(B), [MISMATCH, MISMATCH, MISMATCH, MISMATCH]],
];

/** What a success leaves behind. */
const after202 = (what: string, state: State): State => {
  if (what === "break in 0" || state === "broken") return "broken";
  return "breaking";
};
const next = (what: string, action: string, state: State): State => {
  if (action === "break") return after202(what, state);
  return action === "release" ? "available" : "leased";
};

suite("Lease Container by state", () => {
  for (const [what, action, headers, cells] of actions) {
    for (const [index, state] of STATES.entries()) {
      const wanted = (cells[index] ?? "").split(" or ");
      test(`${what} when ${state}: ${wanted.join(" or ")}`, async () => {
        const name = await madeIn(state);
        const reply = await lease(name, action, headers);
        assert.ok(wanted.includes(answer(reply)), answer(reply));
        const now = (await on(name, "GET")).headers["x-ms-lease-state"];
        assert.equal(now, reply.status < 300 ? next(what, action, state) : state);
      });
    }
  }
});

// SEMANTICS b.4, "use of a container", with the choices of DESIGN section 6.
const NO_LEASE = "412 LeaseNotPresentWithContainerOperation";
const OTHER_LEASE = "412 LeaseIdMismatchWithContainerOperation";
const LOST = "412 LeaseLost";
const LOST_OR_OTHER = `${LOST} or ${NO_LEASE} or ${OTHER_LEASE}`;
const MISSING = "412 LeaseIdMissing";
const uses: [what: string, method: string, comp: string, ok: string][] = [
  ["Get Container Properties", "GET", "", "200"],
  ["Get Container Metadata", "GET", "metadata", "200"],
  ["Set Container Metadata", "PUT", "metadata", "200"],
  ["Get Container ACL", "GET", "acl", "200"],
  ["Set Container ACL", "PUT", "acl", "200"],
  ["Delete Container", "DELETE", "", "202"],
];

suite("Lease id of a container", () => {
  for (const [what, method, comp, ok] of uses) {
    const bare = method === "DELETE" ? [ok, MISSING, MISSING, ok] : [ok, ok, ok, ok];
    const rows: [given: string, headers: Headers, cells: string[]][] = [
      ["id A", withId(A), [NO_LEASE, ok, ok, LOST]],
      ["id B", withId(B), [NO_LEASE, OTHER_LEASE, OTHER_LEASE, LOST_OR_OTHER]],
      ["no id", {}, bare],
    ];
    for (const [given, headers, cells] of rows) {
      for (const [index, state] of STATES.entries()) {
        const wanted = (cells[index] ?? "").split(" or ");
        test(`${what} with ${given} when ${state}: ${wanted.join(" or ")}`, async () => {
          const name = await madeIn(state);
          const reply = await on(name, method, comp, headers);
          assert.ok(wanted.includes(answer(reply)), answer(reply));
          const later = await on(name, "GET");
          if (method === "DELETE" && reply.status === 202) assert.equal(later.status, 404);
          else assert.equal(later.headers["x-ms-lease-state"], state);
        });
      }
    }
  }

  test("is no part of writes to its blobs", async () => {
    const name = await madeIn("leased");
    await service.getContainerClient(name).getBlockBlobClient("b").upload("text", 4);
  });
});
