import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { httpDate, type Instant } from "../base/time.ts";
import { type ErrorCode, errors } from "../rules/errors.ts";
import { parseAccounts } from "./accounts.ts";
import { authorize } from "./authorize.ts";
import { type Scheme, type SignedRequest, textsToSign } from "./shared-key.ts";

// SEMANTICS d.4, and d.11 for callers who say nothing of themselves.
const keys = ["first key", "second key"].map((key) => Buffer.from(key).toString("base64"));
const account = parseAccounts(`abc:${keys.join(":")}`).get("abc");
assert.ok(account);
const now: Instant = Date.UTC(2026, 0, 2, 3, 4, 5);
const MINUTE = 60_000;

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
}: Sent): SignedRequest {
  const all: Record<string, string> =
    authorization === undefined ? headers : { ...headers, authorization };
  return {
    method: "GET",
    account: "abc",
    rawPath: "/c",
    parameters,
    rawHeaders: Object.entries(all).flat(),
    version,
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

const signed = (sent: Sent, options: { scheme?: Scheme; key?: string } = {}): SignedRequest =>
  request({
    ...sent,
    authorization: `${options.scheme ?? "SharedKey"} abc:${signatureOf(sent, options)}`,
  });

const at = (offset: number) => ({ "x-ms-date": httpDate(now + offset) });
const owner = { kind: "owner", account: "abc" };

const taken: [what: string, request: SignedRequest][] = [
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
    assert.deepEqual(authorize(sent, account, now), owner));
}

const dateless = signed({ headers: {} });
const signature = signatureOf({ headers: at(0) });
const form = (authorization: string) => request({ headers: at(0), authorization });
const refused: [what: string, request: SignedRequest, want: ErrorCode][] = [
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
  ["nobody, in a new version", request({ headers: at(0) }), "NoAuthenticationInformation"],
  ["nobody, in 2019-12-12", request({ version: "2019-12-12" }), "NoAuthenticationInformation"],
  ["nobody, in 2019-07-07", request({ version: "2019-07-07" }), "ResourceNotFound"],
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
  NoAuthenticationInformation: 401,
  ResourceNotFound: 404,
};
for (const [what, sent, want] of refused) {
  test(`authorize(): ${what} is refused with ${want}`, () => {
    assert.throws(() => authorize(sent, account, now), { code: want });
    assert.equal(errors[want][0], statuses[want]);
  });
}
