import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReadTx } from "../engine/engine.ts";
import type { ErrorCode } from "../rules/errors.ts";
import { containerRecord } from "../store/records.ts";
import type { Caller, Grant, Sas, Service } from "./caller.ts";
import {
  type Allow,
  type Asked,
  isInRange,
  judge,
  mayDo,
  mayOverwrite,
  withPolicy,
} from "./may-do.ts";

const now = Date.UTC(2026, 0, 2);

const sasOf = (sas: Partial<Sas>): Sas => ({
  kind: "service",
  scope: "c",
  permissions: "",
  services: "",
  resourceTypes: "",
  policy: undefined,
  start: undefined,
  expiry: "2030-01-01",
  version: "2026-04-06",
  keys: undefined,
  overrides: undefined,
  encryptionScope: undefined,
  grants: undefined,
  ...sas,
});
const bySas = (sas: Partial<Sas>): Caller => ({ kind: "sas", account: "abc", sas: sasOf(sas) });
const byAccount = (services: string, resourceTypes: string, permissions: string): Caller =>
  bySas({ kind: "account", services, resourceTypes, permissions });
const byService = (permissions: string, scope = "c"): Caller => bySas({ permissions, scope });
const byUser = (...grants: Grant[]): Caller => ({
  kind: "user",
  account: "abc",
  user: { id: "me", tenant: "t", grants },
});
const grant = (letters: string, container?: string, service: Service = "blob"): Grant => ({
  service,
  letters,
  container,
});
const owner: Caller = { kind: "owner", account: "abc" };
const nobody: Caller = {
  kind: "anonymous",
  account: "abc",
  refusal: "NoAuthenticationInformation",
  challenge: "Bearer",
};
const shutOut: Caller = { ...nobody, refusal: "PublicAccessNotPermitted" };

const asked = (more: Partial<Asked> & { headers?: Record<string, string> } = {}): Asked => ({
  service: "blob",
  account: "abc",
  names: ["c", "b"],
  query: new Map(),
  header: (name) => more.headers?.[name],
  ...more,
});

// Rows as the services have them; SEMANTICS d.9.
const rows = {
  list: { sas: "l", resource: "s" },
  settings: { sas: "r", resource: "s" },
  create: { sas: "cw", resource: "c" },
  acl: { sas: "", resource: "c" },
  listBlobs: { sas: "l", resource: "c", service: "l", public: "container" },
  breakContainer: { sas: "wd", resource: "c", service: "d" },
  get: { sas: "r", resource: "o", public: "blob" },
  put: { sas: "cw", resource: "o", overwrite: "w" },
  append: { sas: "aw", resource: "o" },
  tags: { sas: "t", resource: "o" },
  upsert: { sas: "au", resource: "o", every: true },
  remove: { sas: "d", resource: "o", letters: ({ query }) => (query.has("versionid") ? "x" : "d") },
  delegate: { sas: "", resource: "s", user: "g" },
} as const satisfies Record<string, Allow>;

const SERVICE = "AuthorizationServiceMismatch";
const TYPE = "AuthorizationResourceTypeMismatch";
const LETTER = "AuthorizationPermissionMismatch";
const NEVER = "AuthorizationFailure";
const version = asked({ query: new Map([["versionid", "v"]]) });

const cells: [
  what: string,
  caller: Caller,
  row: keyof typeof rows,
  want?: ErrorCode | undefined,
  asked?: Asked,
][] = [
  ["the owner reads", owner, "get"],
  ["the owner sets policies", owner, "acl"],
  // Account SAS: service, then resource type, then permission.
  ["an account SAS lists containers", byAccount("b", "s", "l"), "list"],
  ["an account SAS without the service", byAccount("qtf", "sco", "rwdl"), "list", SERVICE],
  ["an account SAS without the type", byAccount("b", "co", "rwdl"), "list", TYPE],
  ["an account SAS without the letter", byAccount("b", "sco", "rwd"), "list", LETTER],
  ["an account SAS of all that is wrong", byAccount("q", "s", "r"), "put", SERVICE],
  [
    "an account SAS of queues on a queue",
    byAccount("q", "o", "r"),
    "get",
    undefined,
    asked({ service: "queue" }),
  ],
  [
    "an account SAS of tables on a table",
    byAccount("t", "o", "r"),
    "get",
    undefined,
    asked({ service: "table" }),
  ],
  [
    "an account SAS of files on a file",
    byAccount("f", "o", "r"),
    "get",
    undefined,
    asked({ service: "file" }),
  ],
  ["an account SAS makes a container with c", byAccount("b", "c", "c"), "create"],
  ["an account SAS makes a container with w", byAccount("b", "c", "w"), "create"],
  ["an account SAS makes a container with r", byAccount("b", "c", "r"), "create", LETTER],
  ["an account SAS reads a blob", byAccount("b", "o", "r"), "get"],
  ["an account SAS of containers reads a blob", byAccount("b", "c", "r"), "get", TYPE],
  ["an account SAS sets policies", byAccount("bqtf", "sco", "rwdlacup"), "acl", NEVER],
  [
    "an account SAS asks for a delegation key",
    byAccount("bqtf", "sco", "rwdlacup"),
    "delegate",
    NEVER,
  ],
  ["an account SAS breaks a container's lease with d", byAccount("b", "c", "d"), "breakContainer"],
  // Service SAS: nothing above objects, but for what the row names.
  ["a container's SAS reads a blob", byService("r"), "get"],
  ["a container's SAS without r reads a blob", byService("wdl"), "get", LETTER],
  ["a container's SAS lists blobs", byService("l"), "listBlobs"],
  ["a container's SAS without l lists blobs", byService("r"), "listBlobs", LETTER],
  ["a container's SAS makes its container", byService("rcw"), "create", NEVER],
  ["a container's SAS lists containers", byService("l"), "list", NEVER],
  ["a container's SAS sets policies", byService("rwdl"), "acl", NEVER],
  ["a container's SAS breaks its lease with d", byService("d"), "breakContainer"],
  ["a container's SAS breaks its lease with w", byService("w"), "breakContainer", LETTER],
  ["a directory's SAS lists it", byService("l", "d"), "listBlobs"],
  ["a directory's SAS breaks the container's lease", byService("d", "d"), "breakContainer", NEVER],
  ["a directory's SAS reads a blob", byService("r", "d"), "get"],
  ["a blob's SAS is written to with c", byService("c", "b"), "put"],
  ["a blob's SAS is written to with w", byService("w", "b"), "put"],
  ["a blob's SAS is written to with a", byService("a", "b"), "put", LETTER],
  ["a blob's SAS is appended to with a", byService("a", "b"), "append"],
  ["a blob's SAS is appended to with c", byService("c", "b"), "append", LETTER],
  ["a blob's SAS deletes it with d", byService("d", "b"), "remove"],
  ["a blob's SAS deletes it with x", byService("x", "b"), "remove", LETTER],
  ["a blob's SAS deletes a version with x", byService("x", "b"), "remove", undefined, version],
  ["a blob's SAS deletes a version with d", byService("d", "b"), "remove", LETTER, version],
  ["an account SAS deletes a version with d", byAccount("b", "o", "d"), "remove", LETTER, version],
  ["a SAS upserts with a and u", byService("au"), "upsert"],
  ["a SAS upserts with a alone", byService("a"), "upsert", LETTER],
  ["a SAS upserts with u alone", byService("u"), "upsert", LETTER],
  // What headers and parameters ask for beside.
  [
    "a SAS sets tags on the way with t",
    byService("wt"),
    "put",
    undefined,
    asked({ headers: { "x-ms-tags": "a=b" } }),
  ],
  [
    "a SAS sets tags on the way without t",
    byService("w"),
    "put",
    LETTER,
    asked({ headers: { "x-ms-tags": "a=b" } }),
  ],
  [
    "a SAS copies tags with t",
    byService("wt"),
    "put",
    undefined,
    asked({ headers: { "x-ms-copy-source-tag-option": "COPY" } }),
  ],
  [
    "a SAS copies tags without t",
    byService("w"),
    "put",
    LETTER,
    asked({ headers: { "x-ms-copy-source-tag-option": "copy" } }),
  ],
  [
    "a SAS copies without the source's tags",
    byService("w"),
    "put",
    undefined,
    asked({ headers: { "x-ms-copy-source-tag-option": "REPLACE" } }),
  ],
  [
    "a SAS asks by tags without t",
    byService("r"),
    "get",
    LETTER,
    asked({ headers: { "x-ms-if-tags": "a='b'" } }),
  ],
  [
    "a SAS lists tags without t",
    byService("l"),
    "listBlobs",
    LETTER,
    asked({ query: new Map([["include", "metadata,Tags"]]) }),
  ],
  [
    "a SAS lists tags with t",
    byService("lt"),
    "listBlobs",
    undefined,
    asked({ query: new Map([["include", "tags"]]) }),
  ],
  [
    "a SAS makes immutable without i",
    byService("w"),
    "put",
    LETTER,
    asked({ headers: { "x-ms-legal-hold": "true" } }),
  ],
  [
    "a SAS makes immutable with i",
    byService("wi"),
    "put",
    undefined,
    asked({ headers: { "x-ms-legal-hold": "true" } }),
  ],
  // A table's keys.
  [
    "a SAS of some keys reads within them",
    bySas({
      permissions: "r",
      keys: { startPartition: "a", startRow: undefined, endPartition: "b", endRow: undefined },
    }),
    "get",
    undefined,
    asked({ service: "table", names: ["t", "a", "1"] }),
  ],
  [
    "a SAS of some keys reads beyond them",
    bySas({
      permissions: "r",
      keys: { startPartition: "a", startRow: undefined, endPartition: "b", endRow: undefined },
    }),
    "get",
    NEVER,
    asked({ service: "table", names: ["t", "c", "1"] }),
  ],
  [
    "a SAS of some keys queries, and is given those",
    bySas({
      permissions: "r",
      keys: { startPartition: "a", startRow: undefined, endPartition: "b", endRow: undefined },
    }),
    "get",
    undefined,
    asked({ service: "table", names: ["t"] }),
  ],
  // A user's SAS: the signature and the user's roles, both.
  [
    "a user's SAS with the role",
    bySas({ kind: "delegation", permissions: "r", grants: [grant("rl")] }),
    "get",
  ],
  [
    "a user's SAS without the role",
    bySas({ kind: "delegation", permissions: "w", grants: [grant("rl")] }),
    "put",
    LETTER,
  ],
  [
    "a user's SAS without the letter",
    bySas({ kind: "delegation", permissions: "r", grants: [grant("*")] }),
    "put",
    LETTER,
  ],
  [
    "a user's SAS without any role",
    bySas({ kind: "delegation", permissions: "r", grants: [] }),
    "get",
    LETTER,
  ],
  // A stored policy has yet to say.
  ["a SAS with a policy, as far as can be told", bySas({ policy: "p" }), "put"],
  ["a SAS with a policy sets policies", bySas({ policy: "p" }), "acl", NEVER],
  // Users.
  ["a reader reads", byUser(grant("rlg")), "get"],
  ["a reader lists containers", byUser(grant("rlg")), "list"],
  ["a reader reads the settings", byUser(grant("rlg")), "settings", LETTER],
  ["a reader writes", byUser(grant("rlg")), "put", LETTER],
  ["a reader asks for a delegation key", byUser(grant("rlg")), "delegate"],
  ["a sender asks for a delegation key", byUser(grant("a")), "delegate", LETTER],
  ["a contributor writes", byUser(grant("rlgacwdupme")), "put"],
  ["a contributor upserts", byUser(grant("rlgacwdupme")), "upsert"],
  ["a contributor sets policies", byUser(grant("rlgacwdupme")), "acl", LETTER],
  ["a contributor reads tags", byUser(grant("rlgacwdupme")), "tags", LETTER],
  ["an owner by role sets policies", byUser(grant("*")), "acl"],
  ["an owner by role reads the settings", byUser(grant("*")), "settings"],
  ["a reader of another service", byUser(grant("*", undefined, "queue")), "get", LETTER],
  ["a reader of the container", byUser(grant("rl", "c")), "get"],
  ["a reader of another container", byUser(grant("rl", "d")), "get", LETTER],
  [
    "an owner of a container lists all containers",
    byUser(grant("*", "c")),
    "list",
    LETTER,
    asked({ names: [] }),
  ],
  [
    "a reader here and writer there writes here",
    byUser(grant("rl", "c"), grant("w", "d")),
    "put",
    LETTER,
  ],
  ["nobody special", byUser(), "get", LETTER],
  // Nobody in particular.
  ["anybody reads, as far as can be told", nobody, "get"],
  ["anybody writes", nobody, "put", "NoAuthenticationInformation"],
  ["anybody lists containers", nobody, "list", "NoAuthenticationInformation"],
  ["anybody reads where nothing is public", shutOut, "get", "PublicAccessNotPermitted"],
];
for (const [what, caller, row, want, request = asked()] of cells) {
  test(`mayDo(): ${what}: ${want ?? "yes"}`, () =>
    assert.equal(mayDo(caller, rows[row], request), want));
}

const overwrites: [what: string, caller: Caller, service: Service, want?: ErrorCode][] = [
  ["the owner", owner, "blob"],
  ["a user", byUser(grant("rlgacwdupme")), "blob"],
  ["a SAS with w", byService("w"), "blob"],
  ["a SAS with c", byService("c"), "blob", "UnauthorizedBlobOverwrite"],
  ["a SAS with c, on a file", byService("c"), "file", "AuthorizationPermissionMismatch"],
];
for (const [what, caller, service, want] of overwrites) {
  test(`mayOverwrite(): ${what}: ${want ?? "yes"}`, () =>
    assert.equal(mayOverwrite(caller, "w", asked({ service })), want));
}

type Policy = { start?: string; expiry?: string; permission?: string };
const FULL: Policy = { start: "2026-01-01", expiry: "2026-01-03", permission: "r" };
// Each field comes from one of the two, and expiry and permissions from somewhere.
const policies: [what: string, sas: Partial<Sas>, policy: Policy | undefined, want: string][] = [
  ["all from the policy", { expiry: undefined }, FULL, "r"],
  ["all from the signature", { permissions: "w", expiry: "2026-01-03" }, {}, "w"],
  ["times from the policy", { permissions: "w", expiry: undefined }, { expiry: "2026-01-03" }, "w"],
  ["permissions from the policy", { expiry: "2026-01-03" }, { permission: "rw" }, "rw"],
  ["no such policy", { permissions: "r" }, undefined, "AuthenticationFailed"],
  ["permissions in both", { permissions: "r", expiry: undefined }, FULL, "AuthenticationFailed"],
  ["expiry in both", { expiry: "2026-01-03" }, FULL, "AuthenticationFailed"],
  ["start in both", { start: "2026-01-01", expiry: undefined }, FULL, "AuthenticationFailed"],
  ["no expiry anywhere", { permissions: "r", expiry: undefined }, {}, "AuthenticationFailed"],
  ["no permissions anywhere", { expiry: "2026-01-03" }, {}, "AuthenticationFailed"],
  [
    "a policy that has expired",
    { expiry: undefined },
    { ...FULL, expiry: "2026-01-02" },
    "AuthenticationFailed",
  ],
  [
    "a policy not valid yet",
    { expiry: undefined },
    { ...FULL, start: "2026-01-02T01:00Z" },
    "AuthenticationFailed",
  ],
  [
    "letters that the version does not know",
    { expiry: undefined, version: "2014-02-14" },
    { ...FULL, permission: "rc" },
    "FeatureVersionMismatch",
  ],
];
for (const [what, sas, policy, want] of policies) {
  test(`withPolicy(): ${what}: ${want}`, () => {
    const access = { policies: policy === undefined ? [] : [{ id: "p", ...policy }] };
    const given = sasOf({ policy: "p", ...sas });
    if (/^[a-z]+$/.test(want)) assert.equal(withPolicy(given, access, now).permissions, want);
    else assert.throws(() => withPolicy(given, access, now), { code: want });
  });
}

// SEMANTICS d.7: both ends included.
const range = { startPartition: "b", startRow: "2", endPartition: "d", endRow: "4" };
const keys: [partition: string, row: string, want: boolean][] = [
  ["a", "9", false],
  ["b", "1", false],
  ["b", "2", true],
  ["b", "9", true],
  ["c", "0", true],
  ["d", "4", true],
  ["d", "5", false],
  ["e", "0", false],
];
for (const [partition, row, want] of keys) {
  test(`isInRange(): ${partition}, ${row}: ${want}`, () =>
    assert.equal(isInRange(range, partition, row), want));
}

/** A transaction in which every container is this one. */
const txWith = (record: object | undefined): ReadTx => ({
  now,
  get: async () => (record === undefined ? undefined : containerRecord.encode(record as never)),
  range: async () => [],
  getHeap: async () => undefined,
  heapIds: async () => [],
});

const levels: [level: string | undefined, row: keyof typeof rows, want: boolean][] = [
  [undefined, "get", false],
  [undefined, "listBlobs", false],
  ["blob", "get", true],
  ["blob", "listBlobs", false],
  ["container", "get", true],
  ["container", "listBlobs", true],
];
for (const [publicAccess, row, want] of levels) {
  test(`judge(): public access "${publicAccess}", ${row}: ${want}`, async () => {
    const judged = judge(txWith({ policies: [], publicAccess }), nobody, rows[row], asked());
    if (want) await judged;
    else await assert.rejects(judged, { code: "NoAuthenticationInformation" });
  });
}

test("judge(): a container that is not there is refused like one that is closed", async () => {
  const judged = judge(txWith(undefined), nobody, rows.get, asked());
  await assert.rejects(judged, {
    code: "NoAuthenticationInformation",
    details: { "WWW-Authenticate": "Bearer" },
  });
});

test("judge(): a policy's letters decide", async () => {
  const tx = txWith({ policies: [{ id: "p", ...FULL }] });
  const caller = bySas({ policy: "p", expiry: undefined });
  await judge(tx, caller, rows.get, asked());
  await assert.rejects(judge(tx, caller, rows.put, asked()), { code: LETTER });
});

const scopes: [what: string, record: object, want?: ErrorCode][] = [
  ["another scope is the container's choice", { encryptionScope: "two" }],
  [
    "the container's scope is a must, and it is that",
    { encryptionScope: "one", denyScopeOverride: true },
  ],
  [
    "the container's scope is a must, and it is another",
    { encryptionScope: "two", denyScopeOverride: true },
    "RequestForbiddenByContainerEncryptionPolicy",
  ],
];
for (const [what, record, want] of scopes) {
  test(`judge(): ${what}: ${want ?? "yes"}`, async () => {
    const caller = bySas({ permissions: "w", encryptionScope: "one" });
    const judged = judge(txWith({ policies: [], ...record }), caller, rows.put, asked());
    if (want === undefined) await judged;
    else await assert.rejects(judged, { code: want });
  });
}
