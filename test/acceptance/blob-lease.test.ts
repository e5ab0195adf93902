import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as b from "./blobs.ts";
import type { RawReply } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
before(async () => {
  server = await startServer();
  await b.createContainer(server, "leases");
});
after(() => server.stop());

type Headers = Readonly<Record<string, string>>;
const A = "aaaaaaaa-4f89-11d3-9a0c-0305e82c3301";
const B = "bbbbbbbb-4f89-11d3-9a0c-0305e82c3302";
const C = "cccccccc-4f89-11d3-9a0c-0305e82c3303";

const leaseCall = (path: string, action: string, headers: Headers = {}) =>
  b.putComp(server, path, "lease", { headers: { "x-ms-lease-action": action, ...headers } });
const acquire = (path: string, id?: string, duration = "-1") =>
  leaseCall(path, "acquire", {
    "x-ms-lease-duration": duration,
    ...(id === undefined ? {} : { "x-ms-proposed-lease-id": id }),
  });
const breakLease = (path: string, period?: string) =>
  leaseCall(path, "break", period === undefined ? {} : { "x-ms-lease-break-period": period });
const change = (path: string, from: string, to: string) =>
  leaseCall(path, "change", { "x-ms-lease-id": from, "x-ms-proposed-lease-id": to });
const withId = (action: string, id: string) => (path: string) =>
  leaseCall(path, action, { "x-ms-lease-id": id });

async function leaseOf(path: string) {
  const { headers } = b.assertReply(await b.headBlob(server, path), 200);
  const [state, status] = [headers["x-ms-lease-state"], headers["x-ms-lease-status"]];
  return { state, status, duration: headers["x-ms-lease-duration"] };
}

let count = 0;
const states = ["available", "fixed", "infinite", "breaking", "broken"] as const;
type State = (typeof states)[number];

/** A new blob whose lease, of id A, is in this state. */
async function blobIn(state: State): Promise<string> {
  const path = `/leases/blob-${count++}`;
  await b.putBlob(server, path, "data");
  if (state === "available") return path;
  b.assertReply(await acquire(path, A, state === "fixed" ? "60" : "-1"), 201);
  if (state === "breaking") b.assertReply(await breakLease(path, "60"), 202);
  if (state === "broken") b.assertReply(await breakLease(path, "0"), 202);
  return path;
}

const PRESENT = "409 LeaseAlreadyPresent";
const NONE = "409 LeaseNotPresentWithLeaseOperation";
const MISMATCH = "409 LeaseIdMismatchWithLeaseOperation";
const BREAKING = "409 LeaseIsBreakingAndCannotBe";
const UNRENEWED = "409 LeaseIsBrokenAndCannotBeRenewed";

// One row for each row of SEMANTICS b.2. A cell is the state it ends in, or the error; a bare 409 leaves the code open.
type LeaseRow = [
  what: string,
  run: (path: string) => Promise<RawReply>,
  success: number,
  available: string,
  leased: string,
  breaking: string,
  broken: string,
];
const leaseRows: LeaseRow[] = [
  ["acquire", (p) => acquire(p), 201, "leased", PRESENT, PRESENT, "leased"],
  ["acquire A", (p) => acquire(p, A), 201, "leased", "leased", `${BREAKING}Acquired`, "leased"],
  ["acquire B", (p) => acquire(p, B), 201, "leased", PRESENT, PRESENT, "leased"],
  ["break at once", (p) => breakLease(p, "0"), 202, NONE, "broken", "broken", "broken"],
  ["break in 10 s", (p) => breakLease(p, "10"), 202, NONE, "breaking", "breaking", "broken"],
  ["change A to B", (p) => change(p, A, B), 200, NONE, "leased", `${BREAKING}Changed`, NONE],
  ["change B to A", (p) => change(p, B, A), 200, "409", "leased", "409", "409"],
  ["change B to C", (p) => change(p, B, C), 200, "409", MISMATCH, MISMATCH, "409"],
  ["renew A", withId("renew", A), 200, MISMATCH, "leased", UNRENEWED, UNRENEWED],
  ["renew B", withId("renew", B), 200, MISMATCH, MISMATCH, MISMATCH, MISMATCH],
  ["release A", withId("release", A), 200, MISMATCH, "available", "available", "available"],
  ["release B", withId("release", B), 200, MISMATCH, MISMATCH, MISMATCH, MISMATCH],
];
for (const [what, run, success, available, leased, breaking, broken] of leaseRows) {
  const cells: Record<State, string> = {
    available,
    fixed: leased,
    infinite: leased,
    breaking,
    broken,
  };
  for (const state of states) {
    const want = cells[state];
    test(`Lease Blob: ${what} when ${state} gives ${want}`, async () => {
      const path = await blobIn(state);
      const before = await b.headBlob(server, path);
      const reply = await run(path);
      const after = await leaseOf(path);
      if (want.startsWith("409")) {
        b.assertReply(reply, 409, want.split(" ")[1]);
        assert.equal(after.state, before.headers["x-ms-lease-state"]);
        return;
      }
      b.assertReply(reply, success);
      assert.equal(after.state, want);
      const locked = want === "leased" || want === "breaking";
      assert.equal(after.status, locked ? "locked" : "unlocked");
      if (want !== "leased") assert.equal(after.duration, undefined);
      for (const name of ["etag", "last-modified"]) {
        assert.equal(reply.headers[name], before.headers[name], name);
      }
    });
  }
}

const MISSING = "412 LeaseIdMissing";
const ABSENT = "412 LeaseNotPresentWithBlobOperation";
const WRONG = "412 LeaseIdMismatchWithBlobOperation";
const LOST = "412 LeaseLost";

type Use = [
  what: string,
  success: number,
  run: (path: string, headers: Headers) => Promise<RawReply>,
];
const comp =
  (name: string, more: Headers = {}): Use[2] =>
  (path, headers) =>
    b.putComp(server, path, name, { headers: { ...more, ...headers } });
const writes: Use[] = [
  ["Put Blob", 201, (path, headers) => b.tryPutBlob(server, path, "new", headers)],
  [
    "Put Block",
    201,
    (path, headers) => b.tryPutBlock(server, path, b.blockId(1), { body: "x", headers }),
  ],
  ["Put Block List", 201, (path, headers) => b.tryPutBlockList(server, path, [], headers)],
  ["Set Blob Metadata", 200, comp("metadata", { "x-ms-meta-a": "1" })],
  ["Set Blob Properties", 200, comp("properties", { "x-ms-blob-content-type": "a/b" })],
  [
    "Set Blob Tags",
    204,
    (path, headers) =>
      b.putComp(server, path, "tags", { headers, body: "<Tags><TagSet></TagSet></Tags>" }),
  ],
  ["Delete Blob", 202, (path, headers) => b.deleteBlob(server, path, { headers })],
];
const read =
  (query: Headers): Use[2] =>
  (path, headers) =>
    b.getBlob(server, path, { headers, query });
// Snapshot Blob and Set Blob Tier need no id, but judge one that is given (SEMANTICS b.3).
const reads: Use[] = [
  ["Get Blob", 200, read({})],
  ["Get Blob Properties", 200, (path, headers) => b.headBlob(server, path, { headers })],
  ["Get Blob Metadata", 200, read({ comp: "metadata" })],
  ["Get Block List", 200, read({ comp: "blocklist" })],
  ["Snapshot Blob", 201, comp("snapshot")],
  ["Set Blob Tier", 200, comp("tier", { "x-ms-access-tier": "Cool" })],
];

// SEMANTICS b.3, with the decisions of DESIGN 6: the columns are available, leased, breaking, broken.
type UseRow = [id: string | undefined, cells: readonly [string, string, string, string]];
const withIds: UseRow[] = [
  [A, [ABSENT, "ok", "ok", LOST]],
  [B, [ABSENT, WRONG, WRONG, LOST]],
];
const writeRows: UseRow[] = [...withIds, [undefined, ["ok", MISSING, MISSING, "ok"]]];
const readRows: UseRow[] = [...withIds, [undefined, ["ok", "ok", "ok", "ok"]]];
const names: Record<string, string> = { [A]: "the id A", [B]: "another id" };

for (const [uses, rows] of [
  [writes, writeRows],
  [reads, readRows],
] as const) {
  for (const [what, success, run] of uses) {
    for (const [id, [available, leased, breaking, broken]] of rows) {
      const cells = { available, fixed: leased, infinite: leased, breaking, broken };
      test(`${what}: ${names[id ?? ""] ?? "no id"} against a lease in each state`, async () => {
        for (const state of states) {
          const want = cells[state];
          const path = await blobIn(state);
          const before = await leaseOf(path);
          const reply = await run(path, id === undefined ? {} : { "x-ms-lease-id": id });
          if (want === "ok") b.assertReply(reply, success, undefined, state);
          else b.assertReply(reply, 412, want.split(" ")[1], state);
          if (what === "Delete Blob" && want === "ok") continue;
          const after = await leaseOf(path);
          // A write ends a broken lease; Put Block and Set Blob Tags do not write the blob itself.
          const ends = state === "broken" && want === "ok" && uses === writes;
          if (ends && (what === "Put Block" || what === "Set Blob Tags")) continue;
          assert.equal(after.state, ends ? "available" : before.state, state);
          assert.equal(after.duration, before.duration, state);
        }
      });
    }
  }
}

test("a lease id for a blob that is not there: Put Blob and Put Block List give 412, Put Block waits for them", async () => {
  const headers = { "x-ms-lease-id": A };
  const code = "LeaseNotPresentWithBlobOperation";
  b.assertReply(await b.tryPutBlob(server, "/leases/unmade", "x", headers), 412, code);
  b.assertReply(await b.tryPutBlockList(server, "/leases/unmade", [], headers), 412, code);
  const block = { headers, body: "x" };
  b.assertReply(await b.tryPutBlock(server, "/leases/unmade", b.blockId(1), block), 201);
  b.assertReply(await b.getBlob(server, "/leases/unmade", { headers }), 404, "BlobNotFound");
});

test("Lease Blob: a missing blob or container gives 404", async () => {
  b.assertReply(await acquire("/leases/none"), 404, "BlobNotFound");
  b.assertReply(await breakLease("/leases/none"), 404, "BlobNotFound");
  b.assertReply(await acquire("/no-such/none"), 404, "ContainerNotFound");
});

const digits = A.replaceAll("-", "");
const hex = `{0x${digits.slice(0, 8)},0x${digits.slice(8, 12)},0x${digits.slice(12, 16)},{${digits
  .slice(16)
  .replace(/../g, "0x$&,")
  .slice(0, -1)}}}`;
const forms: [name: string, text: string][] = [
  ["D", A],
  ["D in upper case", A.toUpperCase()],
  ["N", digits],
  ["B", `{${A}}`],
  ["P", `(${A})`],
  ["X", hex],
];
for (const [name, text] of forms) {
  test(`Lease Blob: an id in the form ${name} is the same id in every other`, async () => {
    const path = await blobIn("available");
    b.assertReply(await acquire(path, text), 201);
    for (const [, other] of forms) b.assertReply(await withId("renew", other)(path), 200);
    const meta = { headers: { "x-ms-lease-id": text } };
    b.assertReply(await b.putComp(server, path, "metadata", meta), 200);
    b.assertReply(await change(path, text, B), 200);
    b.assertReply(await change(path, B, text), 200);
    b.assertReply(await withId("release", A)(path), 200);
  });
}

const id = { "x-ms-lease-id": A };
const duration = (text: string) => ({ "x-ms-lease-duration": text });
const period = (text: string) => ({ "x-ms-lease-break-period": text });
const VALUE = "InvalidHeaderValue";
const REQUIRED = "MissingRequiredHeader";
const badRows: [action: string, headers: Headers, code: string][] = [
  ["acquire", {}, REQUIRED],
  ["renew", {}, REQUIRED],
  ["release", {}, REQUIRED],
  ["change", { "x-ms-proposed-lease-id": B }, REQUIRED],
  ["change", id, REQUIRED],
  ...["0", "14", "61", "-2", "soon"].map((text): [string, Headers, string] => [
    "acquire",
    duration(text),
    VALUE,
  ]),
  ["acquire", { ...duration("-1"), "x-ms-proposed-lease-id": "no-guid" }, VALUE],
  ["renew", { "x-ms-lease-id": "no-guid" }, VALUE],
  ["change", { ...id, "x-ms-proposed-lease-id": "no-guid" }, VALUE],
  ["break", period("61"), VALUE],
  ["break", period("-1"), VALUE],
  ["break", period("soon"), VALUE],
  ["borrow", id, VALUE],
];
for (const [action, headers, code] of badRows) {
  test(`Lease Blob: ${action} with ${JSON.stringify(headers)} gives 400 ${code}`, async () => {
    const path = await blobIn(action === "acquire" ? "available" : "infinite");
    const before = await leaseOf(path);
    b.assertReply(await leaseCall(path, action, headers), 400, code);
    assert.deepEqual(await leaseOf(path), before);
  });
}

test("Lease Blob: no action gives 400, and a data operation refuses an id that is none", async () => {
  const path = await blobIn("infinite");
  b.assertReply(await b.putComp(server, path, "lease"), 400, REQUIRED);
  const bad = { "x-ms-lease-id": "no-guid" };
  b.assertReply(await b.tryPutBlob(server, path, "x", bad), 400, VALUE);
});

for (const [text, kind] of [
  ["15", "fixed"],
  ["60", "fixed"],
  ["-1", "infinite"],
] as const) {
  test(`Lease Blob: acquire for ${text} shows a lease that is ${kind}, and a second acquire renews it`, async () => {
    const path = await blobIn("available");
    const reply = b.assertReply(await acquire(path, A, text), 201);
    assert.equal(reply.headers["x-ms-lease-id"], A);
    assert.deepEqual(await leaseOf(path), { state: "leased", status: "locked", duration: kind });
    const other = text === "-1" ? "30" : "-1";
    b.assertReply(await acquire(path, A, other), 201);
    assert.equal((await leaseOf(path)).duration, other === "-1" ? "infinite" : "fixed");
  });
}

// Least and most seconds left; the test may take one or two of them.
const breaks: [length: string, periods: (string | undefined)[], least: number, most: number][] = [
  ["60", [undefined], 57, 60],
  ["15", ["60"], 12, 15],
  ["60", ["10"], 8, 10],
  ["60", ["0"], 0, 0],
  ["-1", [undefined], 0, 0],
  ["-1", ["30"], 28, 30],
  ["-1", ["0"], 0, 0],
  ["-1", ["20", "60"], 17, 20],
  ["-1", ["60", "5"], 3, 5],
  ["-1", ["60", "0"], 0, 0],
  ["-1", ["0", "30"], 0, 0],
  ["60", ["0", undefined], 0, 0],
];
for (const [length, periods, least, most] of breaks) {
  const said = periods.map((text) => text ?? "none").join(", then ");
  test(`Lease Blob: break of ${length} s with a period of ${said} leaves ${most} s`, async () => {
    const path = await blobIn("available");
    b.assertReply(await acquire(path, A, length), 201);
    let left = Number.NaN;
    for (const text of periods) {
      const reply = b.assertReply(await breakLease(path, text), 202);
      left = Number(reply.headers["x-ms-lease-time"]);
    }
    assert.ok(left >= least && left <= most, `${left} s`);
    assert.equal((await leaseOf(path)).state, most === 0 ? "broken" : "breaking");
  });
}

test("Lease Blob: of many that acquire at once, one does", async () => {
  const path = await blobIn("available");
  const replies = await b.atOnce(
    16,
    Array.from({ length: 16 }, () => () => acquire(path)),
  );
  assert.equal(replies.filter((reply) => reply.status === 201).length, 1);
  assert.equal(replies.filter((reply) => reply.code === "LeaseAlreadyPresent").length, 15);
});

test("Put Blob, Put Block List, Delete Blob: the lease outlives an overwrite, not the blob", async () => {
  const path = await blobIn("infinite");
  for (const [, success, run] of writes.slice(0, 5)) b.assertReply(await run(path, id), success);
  assert.equal((await leaseOf(path)).state, "leased");
  b.assertReply(await b.tryPutBlob(server, path, "x"), 412, "LeaseIdMissing");
  b.assertReply(await b.deleteBlob(server, path, { headers: id }), 202);
  await b.putBlob(server, path, "anew");
  assert.equal((await leaseOf(path)).state, "available");
});

test("BlobLeaseClient: acquires, renews, changes, breaks and releases", async () => {
  const client = b.containerClient(server, "leases").getBlockBlobClient("sdk");
  await client.upload("x", 1);
  const lease = client.getBlobLeaseClient(A);
  assert.equal((await lease.acquireLease(15)).leaseId, A);
  assert.equal((await lease.renewLease()).leaseId, A);
  assert.equal((await lease.changeLease(B)).leaseId, B);
  const conditions = { leaseId: B };
  await client.upload("yy", 2, { conditions });
  await assert.rejects(client.upload("z", 1), { statusCode: 412, code: "LeaseIdMissing" });
  assert.equal((await client.getProperties({ conditions })).contentLength, 2);
  await lease.releaseLease();
  await client.upload("zzz", 3);
  await client.getBlobLeaseClient(C).acquireLease(-1);
  assert.equal((await client.getBlobLeaseClient().breakLease(0)).leaseTime, 0);
  assert.equal((await client.getProperties()).leaseState, "broken");
  await client.delete();
});
