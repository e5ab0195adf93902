import assert from "node:assert/strict";
import { test } from "node:test";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import { silentLog } from "../base/log.ts";
import { StorageError } from "../rules/errors.ts";
import { basicTokens, issuerTokens, isTrusted, type Tokens } from "./tokens.ts";

const start = Date.UTC(2026, 0, 2);
const seconds = start / 1000;
const audience = { account: "abc", service: "blob" } as const;
const ISSUER = "https://issuer.test/tenant";

const claims = (more: Record<string, unknown> = {}): JWTPayload => ({
  iss: ISSUER,
  aud: "https://storage.azure.com",
  oid: "me",
  tid: "tenant",
  exp: seconds + 3600,
  nbf: seconds,
  iat: seconds,
  ...more,
});

async function outcome(tokens: Tokens, token: string): Promise<string> {
  try {
    const { id, tenant, principals } = await tokens.verify(token, audience);
    return `${id} ${tenant} ${principals}`;
  } catch (error) {
    assert.ok(error instanceof StorageError, String(error));
    if (error.code === "ServerBusy") return error.code;
    assert.equal(error.code, "InvalidToken");
    assert.equal(error.details["WWW-Authenticate"], tokens.challenge);
    return error.details.AuthenticationErrorDetail ?? "";
  }
}

// What both ways of judging ask of the claims.
const shared: [what: string, more: Record<string, unknown>, want: string | RegExp][] = [
  ["a good one", {}, "me tenant me"],
  ["of a user with groups", { groups: ["g1", 2, "g2"], appid: "app" }, "me tenant me,app,g1,g2"],
  ["of one known by sub", { oid: undefined, sub: "it" }, "it tenant it,it"],
  ["of one without a tenant", { tid: undefined }, "me 00000000-0000-0000-0000-000000000000 me"],
  ["of nobody", { oid: undefined }, /names nobody/],
  ["that has expired", { exp: seconds }, /expired/],
  ["that never expires", { exp: undefined }, /expired|exp/],
  ["not valid for a minute, as clocks differ", { nbf: seconds + 60 }, "me tenant me"],
  ["not valid for ten minutes", { nbf: seconds + 600 }, /nbf/],
  ["from the future", { iat: seconds + 600 }, /iat/],
  ["for the storage of Azure with a slash", { aud: "https://storage.azure.com/" }, "me tenant me"],
  ["for the account", { aud: "https://abc.blob.core.windows.net" }, "me tenant me"],
  ["for several", { aud: ["https://a.test", "https://storage.azure.com"] }, "me tenant me"],
  ["for another account", { aud: "https://def.blob.core.windows.net" }, /aud/],
  ["for another service", { aud: "https://abc.queue.core.windows.net" }, /aud/],
  ["for something else", { aud: "https://graph.microsoft.com" }, /aud/],
  ["for a name that only begins so", { aud: "https://storage.azure.com.evil.test" }, /aud/],
  ["for nothing", { aud: undefined }, /aud/],
];

const check = (got: string, want: string | RegExp) =>
  typeof want === "string" ? assert.equal(got, want) : assert.match(got, want);

const clock = { now: () => start };
const signed = (payload: JWTPayload, secret = "a secret that nobody asks for, of 32 bytes") =>
  new SignJWT(payload).setProtectedHeader({ alg: "HS256" }).sign(Buffer.from(secret));

const BASIC = "https://sts.windows.net/tenant/";
for (const [what, more, want] of shared) {
  test(`basicTokens(): a token ${what}: ${want}`, async () =>
    check(await outcome(basicTokens(clock), await signed(claims({ iss: BASIC, ...more }))), want));
}

test("basicTokens(): an issuer that is not Microsoft is refused", async () => {
  check(await outcome(basicTokens(clock), await signed(claims())), /issuer/);
  const near = claims({ iss: "https://sts.windows.net.evil.test/" });
  check(await outcome(basicTokens(clock), await signed(near)), /issuer/);
});

test("basicTokens(): what is no token is refused", async () => {
  for (const text of ["abc", "a.b.c", "..", "e30.e30.", "e30.e30.e30"]) {
    check(await outcome(basicTokens(clock), text), /token/i);
  }
});

/** An issuer whose documents the test makes, and who counts who asks. */
async function issuer() {
  const keys = new Map<string, CryptoKey>();
  const published: object[] = [];
  const state = { now: start, fetches: 0, isDown: false, name: ISSUER };
  const publish = async (kid: string) => {
    const { privateKey, publicKey } = await generateKeyPair("RS256");
    keys.set(kid, privateKey);
    published.push({ ...(await exportJWK(publicKey)), kid, alg: "RS256", use: "sig" });
  };
  await publish("one");
  const get: typeof fetch = async (url) => {
    if (state.isDown) throw new Error("nobody answers");
    if (String(url).endsWith("/.well-known/openid-configuration")) {
      return Response.json({ issuer: state.name, jwks_uri: "https://issuer.test/keys" });
    }
    state.fetches++;
    return Response.json({ keys: published });
  };
  const tokens = issuerTokens({
    issuer: ISSUER,
    clock: { now: () => state.now },
    log: silentLog,
    fetch: get,
  });
  const sign = (kid: string, payload: JWTPayload = claims()) => {
    const key = keys.get(kid);
    assert.ok(key);
    return new SignJWT(payload).setProtectedHeader({ alg: "RS256", kid }).sign(key);
  };
  return { state, publish, published, tokens, sign };
}

for (const [what, more, want] of shared) {
  test(`issuerTokens(): a token ${what}: ${want}`, async () => {
    const { tokens, sign } = await issuer();
    check(await outcome(tokens, await sign("one", claims(more))), want);
  });
}

test("issuerTokens(): another issuer's token is refused", async () => {
  const { tokens, sign } = await issuer();
  check(await outcome(tokens, await sign("one", claims({ iss: "https://other.test" }))), /iss/);
});

test("issuerTokens(): a token with a character changed is refused", async () => {
  const { tokens, sign } = await issuer();
  const token = await sign("one");
  const [head, body = "", signature] = token.split(".");
  const other = Buffer.from(JSON.stringify(claims({ oid: "you" }))).toString("base64url");
  check(await outcome(tokens, [head, other, signature].join(".")), /signature/);
  check(await outcome(tokens, [head, body.slice(0, -2), signature].join(".")), /token/i);
});

test("issuerTokens(): no signature, and one by a shared secret, are refused", async () => {
  const { tokens } = await issuer();
  check(await outcome(tokens, new UnsecuredJWT(claims()).encode()), /algorithm|token/);
  check(await outcome(tokens, await signed(claims())), /algorithm/);
});

test("issuerTokens(): keys are fetched once, and again after ten minutes", async () => {
  const { state, tokens, sign } = await issuer();
  const token = await sign("one");
  await Promise.all([outcome(tokens, token), outcome(tokens, token), outcome(tokens, token)]);
  assert.equal(state.fetches, 1);
  state.now += 10 * 60_000 + 1;
  check(await outcome(tokens, token), "me tenant me");
  assert.equal(state.fetches, 2);
});

test("issuerTokens(): a new key is found at once, and strangers cannot make us ask all the time", async () => {
  const { state, publish, published, tokens, sign } = await issuer();
  check(await outcome(tokens, await sign("one")), "me tenant me");
  await publish("two");
  check(await outcome(tokens, await sign("two")), "me tenant me");
  assert.equal(state.fetches, 2);
  await publish("stranger");
  published.pop();
  const strange = await sign("stranger");
  for (let i = 0; i < 5; i++) check(await outcome(tokens, strange), /key is none/);
  assert.equal(state.fetches, 2);
  state.now += 30_000;
  check(await outcome(tokens, strange), /key is none/);
  assert.equal(state.fetches, 3);
});

test("issuerTokens(): a key that is taken back counts no more after ten minutes", async () => {
  const { state, publish, published, tokens, sign } = await issuer();
  const token = await sign("one");
  check(await outcome(tokens, token), "me tenant me");
  await publish("two");
  published.shift();
  state.now += 10 * 60_000 + 1;
  check(await outcome(tokens, token), /key is none/);
});

test("issuerTokens(): an issuer that is down is no reason to refuse; known keys hold for a day", async () => {
  const { state, tokens, sign } = await issuer();
  const token = await sign("one", claims({ exp: seconds + 7 * 86_400 }));
  state.isDown = true;
  assert.equal(await outcome(tokens, token), "ServerBusy");
  state.isDown = false;
  assert.equal(await outcome(tokens, token), "ServerBusy", "there is a pause after a failure");
  state.now += 5000;
  check(await outcome(tokens, token), "me tenant me");
  state.isDown = true;
  state.now += 23 * 3_600_000;
  check(await outcome(tokens, token), "me tenant me");
  state.now += 3_600_001;
  assert.equal(await outcome(tokens, token), "ServerBusy");
});

test("issuerTokens(): documents of another name are not believed", async () => {
  const { state, tokens, sign } = await issuer();
  state.name = "https://other.test";
  assert.equal(await outcome(tokens, await sign("one")), "ServerBusy");
});

test("issuerTokens(): the challenge leads to the tenant", () => {
  const at = (issuer: string) => issuerTokens({ issuer, clock, log: silentLog }).challenge;
  const want =
    "Bearer authorization_uri=https://login.test/tenant/oauth2/authorize resource_id=https://storage.azure.com";
  for (const end of ["", "/", "/v2.0"]) assert.equal(at(`https://login.test/tenant${end}`), want);
});

const addresses: [address: string, want: boolean][] = [
  ["https://login.test/tenant", true],
  ["http://127.0.0.1:8080/t", true],
  ["http://localhost/t", true],
  ["http://[::1]:1/t", true],
  ["http://login.test/t", false],
  ["http://127.0.0.1.evil.test/", false],
  ["file:///etc/passwd", false],
  ["basics", false],
];
for (const [address, want] of addresses) {
  test(`isTrusted(): ${address}: ${want}`, () => assert.equal(isTrusted(address), want));
}
