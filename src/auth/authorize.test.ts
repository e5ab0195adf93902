import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { httpDate, type Instant } from "../base/time.ts";
import { type ErrorCode, errors, StorageError } from "../rules/errors.ts";
import { parseAccounts } from "./accounts.ts";
import { type Authority, authorize, type Presented } from "./authorize.ts";
import { delegationKey } from "./delegation.ts";
import { parseRoles } from "./roles.ts";
import { type Delegation, readSas } from "./sas.ts";
import { type Scheme, textsToSign } from "./shared-key.ts";
import type { Tokens } from "./tokens.ts";

// SEMANTICS d.4, and d.11 for callers who say nothing of themselves.
const keys = ["first key", "second key"].map((key) => Buffer.from(key).toString("base64"));
const account = parseAccounts(`abc:${keys.join(":")}`).get("abc");
assert.ok(account);
const now: Instant = Date.UTC(2026, 0, 2, 3, 4, 5);
const MINUTE = 60_000;
const authority: Authority = {
  accounts: () => new Map(),
  tokens: undefined,
  roles: () => undefined,
};

type Sent = {
  headers?: Record<string, string>;
  parameters?: [string, string][];
  version?: string;
  authorization?: string | undefined;
};

function request({
  headers = {},
  parameters = [],
  version = "2026-04-06",
  authorization,
}: Sent): Presented {
  const all: Record<string, string> =
    authorization === undefined ? headers : { ...headers, authorization };
  return {
    method: "GET",
    account: "abc",
    rawPath: "/c",
    parameters,
    rawHeaders: Object.entries(all).flat(),
    version,
    hasVersion: true,
    service: "blob",
    names: ["c"],
    query: new Map(parameters),
    client: "127.0.0.1",
    secure: false,
    header: (name) => all[name],
  };
}

function signatureOf(
  sent: Sent,
  { scheme = "SharedKey" as Scheme, key = "first key" } = {},
): string {
  const [text = ""] = textsToSign(request(sent), scheme);
  return createHmac("sha256", key).update(text, "utf8").digest("base64");
}

const signed = (sent: Sent, options: { scheme?: Scheme; key?: string } = {}): Presented =>
  request({
    ...sent,
    authorization: `${options.scheme ?? "SharedKey"} abc:${signatureOf(sent, options)}`,
  });

const at = (offset: number) => ({ "x-ms-date": httpDate(now + offset) });
const owner = { kind: "owner", account: "abc" };

const taken: [what: string, request: Presented][] = [
  ["a request of now", signed({ headers: at(0) })],
  ["a request of 15 minutes ago", signed({ headers: at(-15 * MINUTE) })],
  ["a request of 15 minutes ahead", signed({ headers: at(15 * MINUTE) })],
  ["the second key", signed({ headers: at(0) }, { key: "second key" })],
  ["SharedKeyLite", signed({ headers: at(0) }, { scheme: "SharedKeyLite" })],
  ["Date in place of x-ms-date", signed({ headers: { date: httpDate(now) } })],
  ["x-ms-date before Date", signed({ headers: { ...at(0), date: httpDate(now - 60 * MINUTE) } })],
  ["a date as of RFC 850", signed({ headers: { "x-ms-date": "Friday, 02-Jan-26 03:04:05 GMT" } })],
];
for (const [what, sent] of taken) {
  test(`authorize(): ${what} is taken`, () =>
    assert.deepEqual(authorize(sent, account, authority, now), owner));
}

const dateless = signed({ headers: {} });
const signature = signatureOf({ headers: at(0) });
const form = (authorization: string) => request({ headers: at(0), authorization });
const refused: [what: string, request: Presented, want: ErrorCode][] = [
  [
    "a date of more than 15 minutes ago",
    signed({ headers: at(-15 * MINUTE - 1000) }),
    "AuthenticationFailed",
  ],
  [
    "a date of more than 15 minutes ahead",
    signed({ headers: at(15 * MINUTE + 1000) }),
    "AuthenticationFailed",
  ],
  ["a date of yesterday", signed({ headers: at(-24 * 60 * MINUTE) }), "AuthenticationFailed"],
  [
    "an old x-ms-date beside a good Date",
    signed({ headers: { ...at(-16 * MINUTE), date: httpDate(now) } }),
    "AuthenticationFailed",
  ],
  ["no date", dateless, "AuthenticationFailed"],
  ["a date that is none", signed({ headers: { "x-ms-date": "now" } }), "AuthenticationFailed"],
  [
    "a date as of ISO 8601",
    signed({ headers: { "x-ms-date": "2026-01-02T03:04:05Z" } }),
    "AuthenticationFailed",
  ],
  ["a wrong key", signed({ headers: at(0) }, { key: "third key" }), "AuthenticationFailed"],
  ["another account's name", form(`SharedKey def:${signature}`), "AuthenticationFailed"],
  ["another scheme's signature", form(`SharedKeyLite abc:${signature}`), "AuthenticationFailed"],
  ["an empty header", form(""), "InvalidAuthenticationInfo"],
  ["a scheme alone", form("SharedKey"), "InvalidAuthenticationInfo"],
  ["no account", form(`SharedKey :${signature}`), "InvalidAuthenticationInfo"],
  ["no signature", form("SharedKey abc:"), "InvalidAuthenticationInfo"],
  ["no colon", form(`SharedKey abc${signature}`), "InvalidAuthenticationInfo"],
  ["a scheme nobody knows", form(`Basic ${signature}`), "InvalidAuthenticationInfo"],
  ["a signature that is not base64", form("SharedKey abc:!!!"), "InvalidAuthenticationInfo"],
  [
    "a signed URL that nobody signed",
    request({
      parameters: [
        ["sv", "2026-04-06"],
        ["sig", "AAAA"],
      ],
    }),
    "AuthenticationFailed",
  ],
];
const statuses: Partial<Record<ErrorCode, number>> = {
  AuthenticationFailed: 403,
  InvalidAuthenticationInfo: 400,
};
for (const [what, sent, want] of refused) {
  test(`authorize(): ${what} is refused with ${want}`, () => {
    assert.throws(() => authorize(sent, account, authority, now), { code: want });
    assert.equal(errors[want][0], statuses[want]);
  });
}

// SEMANTICS d.11: what those are told who say nothing of themselves.
const nobody: [what: string, sent: Partial<Presented>, publicAccess: boolean, want: ErrorCode][] = [
  ["a new version", {}, true, "NoAuthenticationInformation"],
  ["2019-12-12", { version: "2019-12-12" }, true, "NoAuthenticationInformation"],
  ["2019-07-07", { version: "2019-07-07" }, true, "ResourceNotFound"],
  ["no version", { hasVersion: false }, true, "ResourceNotFound"],
  ["an account without public access", {}, false, "PublicAccessNotPermitted"],
];
for (const [what, sent, publicAccess, want] of nobody) {
  test(`authorize(): nobody, in ${what}, would be told ${want}`, () => {
    const asked = { ...request({ headers: at(0) }), ...sent };
    const caller = authorize(asked, { ...account, publicAccess }, authority, now);
    assert.ok(!(caller instanceof Promise));
    assert.deepEqual([caller.kind, "refusal" in caller && caller.refusal], ["anonymous", want]);
  });
}

test("authorize(): no key is taken where the account takes none, but a user's own SAS is", () => {
  const closed = { ...account, sharedKey: false };
  const refusal = { code: "KeyBasedAuthenticationNotPermitted" };
  assert.throws(() => authorize(signed({ headers: at(0) }), closed, authority, now), refusal);
  const service = urlOf({ sv: "2020-12-06", sp: "r", se: "2030-01-01", sr: "c" });
  assert.throws(() => authorize(service, closed, authority, now), refusal);
  assert.equal(kindOf(authorize(service, account, authority, now)), "service");
  assert.equal(kindOf(authorize(delegated(), closed, authority, now)), "delegation");
});

const kindOf = (caller: ReturnType<typeof authorize>) =>
  !(caller instanceof Promise) && caller.kind === "sas" && caller.sas.kind;

/** A URL signed with the account's second key, or the delegation key derived from it. */
function urlOf(fields: Record<string, string>, delegation?: Delegation): Presented {
  const unsigned = request({ parameters: Object.entries(fields) });
  const { text } = readSas(unsigned, now);
  const [, second] = account?.keys ?? [];
  assert.ok(second);
  const key = delegation === undefined ? second : delegationKey(second, "abc", delegation);
  const sig = createHmac("sha256", key).update(text).digest("base64");
  return request({ parameters: Object.entries({ ...fields, sig }) });
}

function delegated(more: Record<string, string> = {}): Presented {
  const delegation: Delegation = {
    ...{ user: "me", tenant: "t", start: "2026-01-01", expiry: "2026-01-03", service: "b" },
    ...{ version: "2026-04-06", boundTenant: more.skdutid },
  };
  const fields = {
    ...{ skoid: "me", sktid: "t", skt: "2026-01-01", ske: "2026-01-03", sks: "b" },
    ...{ skv: "2026-04-06", sv: "2026-04-06", sp: "r", se: "2026-01-03", sr: "c" },
  };
  return urlOf({ ...fields, ...more }, delegation);
}

test("authorize(): a user's SAS gives no more than the user's roles", () => {
  const roles = parseRoles(
    JSON.stringify({
      assignments: [
        { principal: "me", role: "Storage Blob Data Reader", container: "c" },
        { principal: "you", role: "Storage Blob Data Owner" },
      ],
    }),
  );
  const caller = authorize(delegated(), account, { ...authority, roles: () => roles }, now);
  assert.ok(!(caller instanceof Promise) && caller.kind === "sas");
  assert.deepEqual(caller.sas.grants, [{ service: "blob", letters: "rlg", container: "c" }]);
});

const tokens: Tokens = {
  challenge: "Bearer",
  verify: async (token) => ({ id: token, tenant: "t", principals: [token] }),
};
const withTokens = { ...authority, tokens };
const holding = (token: string, sent: Presented): Presented => ({
  ...sent,
  secure: true,
  header: (name) => (name === "authorization" ? `Bearer ${token}` : sent.header(name)),
});

const bound = delegated({ sduoid: "you", skdutid: "t" });
const byToken: [what: string, sent: Presented, want: string][] = [
  ["a token", holding("me", request({})), "user me"],
  ["a token without TLS", { ...holding("me", request({})), secure: false }, "AuthenticationFailed"],
  [
    "a token in a version before there were any",
    holding("me", request({ version: "2017-07-29" })),
    "AuthenticationFailed",
  ],
  [
    "a token for a file without the intent",
    { ...holding("me", request({})), service: "file" },
    "MissingRequiredHeader",
  ],
  [
    "a token for a file with the intent",
    {
      ...holding("me", request({ headers: { "x-ms-file-request-intent": "backup" } })),
      service: "file",
    },
    "user me",
  ],
  ["a SAS bound to a user, with the user's token", holding("you", bound), "sas"],
  ["a SAS bound to a user, with another's token", holding("me", bound), "AuthenticationFailed"],
  ["a SAS bound to a user, alone", bound, "AuthenticationFailed"],
  [
    "a SAS bound to a user of another tenant",
    holding("you", delegated({ sduoid: "you", skdutid: "other" })),
    "AuthenticationFailed",
  ],
];
for (const [what, sent, want] of byToken) {
  test(`authorize(): ${what}: ${want}`, async () => {
    let got: string;
    try {
      const caller = await authorize(sent, account, withTokens, now);
      got = caller.kind === "user" ? `user ${caller.user.id}` : caller.kind;
    } catch (error) {
      got = (error as { code: string }).code;
    }
    assert.equal(got, want);
  });
}

test("authorize(): a token is refused where none is taken", async () => {
  const asked = holding("me", request({}));
  await assert.rejects(async () => authorize(asked, account, authority, now), {
    code: "AuthenticationFailed",
  });
});

test("authorize(): a refusal shows the text that was signed, but neither key nor signature", () => {
  const good = urlOf({ sv: "2020-12-06", sp: "r", se: "2030-01-01", sr: "c" });
  const right = good.query.get("sig") ?? "";
  const parameters: [string, string][] = [...good.query].map(([name, value]) =>
    name === "sig" ? [name, "AAAA"] : [name, value],
  );
  assert.throws(
    () => authorize(request({ parameters }), account, authority, now),
    (error) => {
      assert.ok(error instanceof StorageError);
      const detail = error.details.AuthenticationErrorDetail ?? "";
      assert.ok(detail.includes("/blob/abc/c"));
      for (const secret of [right, ...keys]) assert.ok(!detail.includes(secret));
      return true;
    },
  );
});
