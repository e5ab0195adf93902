import assert from "node:assert/strict";
import { test } from "node:test";
import type { Caller, Grant, Sas } from "../../src/auth/caller.ts";
import type { Asked } from "../../src/auth/may-do.ts";
import { randomIds } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { memoryEngine } from "../../src/engine/memory.ts";
import { memoryFiles } from "../../src/engine/memory-files.ts";
import { noRequestBody } from "../../src/http/body.ts";
import type {
  Operation,
  Request,
  ServiceDefinition,
  Surroundings,
} from "../../src/http/operation.ts";
import { parseAddress, parseRequest } from "../../src/http/parse.ts";
import { run } from "../../src/http/run.ts";
import { copySources } from "../../src/http/source.ts";
import { StorageError } from "../../src/rules/errors.ts";
import { services } from "../../src/services.ts";
import { Contents } from "../../src/store/content.ts";
import { Opens } from "../../src/store/opens.ts";

// Every row of every service × every kind of credential, with too little, just enough and too much (issue 4).

const ACCOUNT = "account";
const ALL = "rwdxylacuptmefig";
const clock = { now: () => Date.UTC(2030, 0, 1) };
const engine = memoryEngine({ clock });
const doors: Surroundings["doors"] = new Map();
const around: Surroundings = {
  contents: new Contents(engine, memoryFiles(randomIds)),
  opens: new Opens(),
  ids: randomIds,
  log: silentLog,
  settings: {
    rehydrateMs: 0,
    versioning: false,
    immutableStorage: false,
    containerRetentionDays: 0,
  },
  authority: { accounts: () => new Map(), tokens: undefined, roles: () => undefined },
  doors,
  sources: copySources({ doors, ports: new Map(), hosts: [] }),
  copies: { wake: () => {} },
};

/** Where each level is, by service; nothing of it is there. */
const PATHS: Readonly<Record<string, string>> = {
  "blob service": "/",
  "blob container": "/container",
  "blob blob": "/container/blob",
  "queue service": "/",
  "queue queue": "/queue",
  "queue messages": "/queue/messages",
  "queue message": "/queue/messages/id",
  "table service": "/",
  "table tables": "/Tables",
  "table table": "/Tables('Table')",
  "table entities": "/Table",
  "table entity": "/Table(PartitionKey='p',RowKey='r')",
  "table batch": "/$batch",
  "table metadata": "/$metadata",
  "file service": "/",
  "file share": "/share",
  "file directory": "/share/directory",
  "file file": "/share/file",
};

/** A request that the row is for, but for what it would need to succeed. */
function requestFor(service: ServiceDefinition, { match }: Operation, caller: Caller): Request {
  const path = PATHS[`${service.name} ${match.on}`];
  assert.ok(path !== undefined, `no path for ${service.name} ${match.on}`);
  const parameters = new URLSearchParams();
  if (match.restype !== undefined) parameters.set("restype", match.restype);
  if (match.comp !== undefined) parameters.set("comp", match.comp);
  if (match.query !== undefined) parameters.set(match.query.name, match.query.value);
  const headers: Record<string, string> = { host: "localhost", "content-length": "0" };
  for (const each of [match.header, match.also]) {
    if (each !== undefined) headers[each.name] = each.value ?? "true";
  }
  const message = {
    method: match.method,
    url: `/${ACCOUNT}${path}?${parameters}`,
    headers,
    rawHeaders: Object.entries(headers).flat(),
  };
  const address = parseAddress(message, true);
  const ids = { id: randomIds.guid(), clientId: undefined };
  const parsed = parseRequest(message, service, address, ids, "2026-02-06", noRequestBody);
  return { ...parsed, caller, client: undefined };
}

const REFUSALS = [
  "AuthorizationServiceMismatch",
  "AuthorizationResourceTypeMismatch",
  "AuthorizationPermissionMismatch",
  "AuthorizationFailure",
  "NoAuthenticationInformation",
  "PublicAccessNotPermitted",
];

/** Whether the request gets past its rights; what becomes of it then is another matter. */
async function passes(service: ServiceDefinition, operation: Operation, caller: Caller) {
  try {
    await run(operation, requestFor(service, operation, caller), engine, around);
    return true;
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return !REFUSALS.includes(error.code);
  }
}

const sasOf = (sas: Partial<Sas>): Caller => ({
  kind: "sas",
  account: ACCOUNT,
  sas: {
    kind: "service",
    scope: "c",
    permissions: "",
    services: "",
    resourceTypes: "",
    policy: undefined,
    start: undefined,
    expiry: "2040-01-01",
    version: "2026-02-06",
    keys: undefined,
    overrides: undefined,
    encryptionScope: undefined,
    grants: undefined,
    ...sas,
  },
});

const userWith = (...grants: Grant[]): Caller => ({
  kind: "user",
  account: ACCOUNT,
  user: { id: "me", tenant: "t", grants },
});

const without = (letters: string) => [...ALL].filter((each) => !letters.includes(each)).join("");

/** Sets of letters of which each is just enough, and some that are not though they have all but one. */
function setsOf(wanted: string, every: boolean | undefined) {
  if (wanted === "") return { enough: [], little: [ALL, ""] };
  const letters = [...wanted];
  return every
    ? { enough: [wanted], little: letters.map((letter) => without(letter)) }
    : { enough: letters, little: [without(wanted), ""] };
}

const SERVICES = { blob: "b", queue: "q", table: "t", file: "f" } as const;

for (const service of services) {
  for (const operation of service.operations) {
    const { allow, name } = operation;
    test(`${service.name}: ${name}: who may and who may not`, async () => {
      const asked: Asked = requestFor(service, operation, { kind: "owner", account: ACCOUNT });
      const tried = async (what: string, caller: Caller, want: boolean) =>
        assert.equal(await passes(service, operation, caller), want, what);

      await tried("the owner", { kind: "owner", account: ACCOUNT }, true);

      const own = SERVICES[service.name];
      const byAccount = (permissions: string, ofServices: string = own, types = "sco") =>
        sasOf({ kind: "account", permissions, services: ofServices, resourceTypes: types });
      const decided = allow.letters?.(asked);
      const account = allow.sas === "" ? "" : (decided ?? allow.sas);
      const ofAccount = setsOf(account, allow.every);
      for (const letters of ofAccount.enough) {
        await tried(`account SAS with ${letters}`, byAccount(letters), true);
        const types = `${allow.resource}${allow.orResource ?? ""}`;
        for (const type of types) {
          const alone = byAccount(letters, own, type);
          await tried(`account SAS with ${letters} for ${type} alone`, alone, true);
        }
        const otherTypes = [..."sco"].filter((type) => !types.includes(type)).join("");
        await tried("account SAS, other types", byAccount(letters, own, otherTypes), false);
        const others = [..."bqtf"].filter((letter) => letter !== own).join("");
        await tried("account SAS, other services", byAccount(letters, others), false);
      }
      for (const letters of ofAccount.little) {
        await tried(`account SAS with ${letters}`, byAccount(letters), false);
      }
      await tried("account SAS with everything", byAccount(ALL), account !== "");

      const usual = allow.service ?? (allow.resource === "o" ? allow.sas : "");
      const single = usual === "" ? "" : (decided ?? usual);
      const ofService = setsOf(single, allow.every);
      for (const permissions of ofService.enough) {
        await tried(`service SAS with ${permissions}`, sasOf({ permissions }), true);
      }
      for (const permissions of ofService.little) {
        await tried(`service SAS with ${permissions}`, sasOf({ permissions }), false);
      }
      await tried("service SAS with everything", sasOf({ permissions: ALL }), single !== "");

      const isSetting = allow.resource === "s" && allow.user === undefined && allow.sas !== "l";
      const role = isSetting ? "" : (allow.user ?? decided ?? allow.sas);
      const ofUser = setsOf(role, allow.every);
      const grant = (letters: string, container?: string): Grant => ({
        service: service.name,
        letters,
        container,
      });
      for (const letters of ofUser.enough) {
        await tried(`a user with ${letters}`, userWith(grant(letters)), true);
        const elsewhere = userWith(grant(letters, "elsewhere"));
        await tried(`a user with ${letters} elsewhere`, elsewhere, false);
      }
      for (const letters of ofUser.little) {
        await tried(`a user with ${letters}`, userWith(grant(letters)), false);
      }
      await tried("a user who owns all", userWith(grant("*")), true);
      const other = service.name === "blob" ? "queue" : "blob";
      const foreign = userWith({ service: other, letters: "*", container: undefined });
      await tried("an owner of another service", foreign, false);
      await tried("a user without a role", userWith(), false);

      const nobody: Caller = {
        kind: "anonymous",
        account: ACCOUNT,
        refusal: "NoAuthenticationInformation",
        challenge: "Bearer",
      };
      await tried("nobody in particular, where nothing is open", nobody, false);
    });
  }
}
