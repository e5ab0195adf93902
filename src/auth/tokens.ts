import {
  createLocalJWKSet,
  decodeJwt,
  decodeProtectedHeader,
  errors,
  type JSONWebKeySet,
  type JWTPayload,
  jwtVerify,
} from "jose";
import type { Log } from "../base/log.ts";
import type { Clock, Instant } from "../base/time.ts";
import { StorageError } from "../rules/errors.ts";
import { jsonObject } from "./accounts.ts";
import type { Service } from "./caller.ts";

/** Whom a token names: the ids that roles may be given to, the user's own first. */
export type Identity = {
  readonly id: string;
  readonly tenant: string;
  readonly principals: readonly string[];
};

/** What a token must be meant for. */
export type Audience = { readonly account: string; readonly service: Service };

/** Judges bearer tokens. */
export type Tokens = {
  /** What a client that has no token, or a bad one, is told in WWW-Authenticate. */
  readonly challenge: string;
  /** Throws a refusal with a challenge if the token is not good. */
  verify(token: string, audience: Audience): Promise<Identity>;
};

const RESOURCE = "https://storage.azure.com";
const NO_TENANT = "00000000-0000-0000-0000-000000000000";

/** The text of the challenge that the SDKs' policy reads: the first part of the path is the tenant. */
export const challengeOf = (authority: string): string =>
  `Bearer authorization_uri=${authority} resource_id=${RESOURCE}`;

/** Where clients are sent that no server of ours could take a token from. */
export const MICROSOFT_CHALLENGE = challengeOf(
  "https://login.microsoftonline.com/common/oauth2/authorize",
);

class TokenError extends Error {}

const SKEW_MS = 5 * 60 * 1000;
const GROUPS_MAX = 500;

/** Times, audience and names of a token's claims; throws a sentence about what is wrong. */
function identityOf(claims: JWTPayload, audience: Audience, now: Instant): Identity {
  const { exp, nbf, iat } = claims;
  if (typeof exp !== "number" || exp * 1000 <= now) throw new TokenError("The token has expired.");
  for (const [name, time] of Object.entries({ nbf, iat })) {
    if (time !== undefined && !(typeof time === "number" && time * 1000 <= now + SKEW_MS)) {
      throw new TokenError(`The token is not valid yet (${name}).`);
    }
  }
  const audiences = [claims.aud ?? []].flat();
  if (!audiences.some((each) => isAudience(each, audience))) {
    throw new TokenError(`The token is not for ${RESOURCE} (aud).`);
  }
  const text = (name: string) => {
    const value = claims[name];
    return typeof value === "string" && value !== "" ? value : undefined;
  };
  const id = text("oid") ?? text("sub");
  if (id === undefined) throw new TokenError("The token names nobody (oid, sub).");
  const groups = Array.isArray(claims.groups) ? claims.groups.slice(0, GROUPS_MAX) : [];
  const others = [text("sub"), text("appid"), text("azp"), ...groups];
  const principals = [id, ...others.filter((each) => typeof each === "string")];
  return { id, tenant: text("tid") ?? NO_TENANT, principals };
}

const STORAGE_APPLICATION = "e406a681-f3d4-42a8-90b6-c2b029497af1";
const SUFFIXES = "core\\.(?:windows\\.net|chinacloudapi\\.cn|usgovcloudapi\\.net|cloudapi\\.de)";

function isAudience(text: string, { account, service }: Audience): boolean {
  if (text === STORAGE_APPLICATION || text.replace(/\/$/, "") === RESOURCE) return true;
  return new RegExp(`^https://${account}\\.${service}\\.${SUFFIXES}/?$`).test(text);
}

const refused = (challenge: string, detail: string): StorageError =>
  new StorageError("InvalidToken", {
    "WWW-Authenticate": challenge,
    AuthenticationErrorDetail: detail,
  });

const MICROSOFT_ISSUERS = [
  "https://sts.windows.net/",
  "https://sts.windows-ppe.net/",
  "https://sts.microsoftonline.de/",
  "https://sts.chinacloudapi.cn/",
  "https://login.microsoftonline.com/",
  "https://login.microsoftonline.us/",
  "https://login.partner.microsoftonline.cn/",
];

/** `--oauth basic`: form, times, issuer and audience are judged, the signature is not; for development. */
export function basicTokens(clock: Clock): Tokens {
  const challenge = challengeOf(`https://login.microsoftonline.com/${NO_TENANT}/oauth2/authorize`);
  return {
    challenge,
    async verify(token, audience) {
      try {
        const { alg } = decodeProtectedHeader(token);
        if (alg === undefined) throw new TokenError("The token names no algorithm.");
        const claims = decodeJwt(token);
        const issuer = claims.iss ?? "";
        if (!MICROSOFT_ISSUERS.some((known) => issuer.startsWith(known))) {
          throw new TokenError("The token's issuer (iss) is none of Microsoft's.");
        }
        return identityOf(claims, audience, clock.now());
      } catch (error) {
        throw refused(challenge, sentenceOf(error));
      }
    },
  };
}

/** A sentence about a bad token that shows nothing of it. */
function sentenceOf(error: unknown): string {
  if (error instanceof TokenError) return error.message;
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    return "The token's signature is not the issuer's.";
  }
  if (error instanceof errors.JWKSNoMatchingKey) return "The token's key is none of the issuer's.";
  if (error instanceof errors.JOSEAlgNotAllowed) return "The token's algorithm is not taken.";
  if (error instanceof errors.JWTClaimValidationFailed) {
    return `The token's ${error.claim} is not what it should be.`;
  }
  return "The token is not a signed JSON Web Token.";
}

/** Only signatures by a private key: with the others whoever can check a token can make one. */
const ALGORITHMS = [
  ...["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  ...["ES256", "ES384", "ES512", "EdDSA", "Ed25519"],
];
const KEYS_AGE_MAX_MS = 10 * 60 * 1000;
const KEYS_STALE_MAX_MS = 24 * 60 * 60 * 1000;
const SEARCH_PAUSE_MS = 30 * 1000;
const RETRY_PAUSE_MS = 5 * 1000;
const FETCH_LIMIT_MS = 5000;
const DOCUMENT_SIZE_MAX = 512 * 1024;

export type IssuerOptions = {
  /** As tokens have it in `iss`; its documents are found below it. */
  readonly issuer: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly fetch?: typeof fetch;
};

/** `--oauth <issuer>`: signatures are verified by the keys that the issuer publishes. */
export function issuerTokens({ issuer, clock, log, fetch: get = fetch }: IssuerOptions): Tokens {
  const challenge = challengeOf(`${issuer.replace(/\/v2\.0\/?$|\/$/, "")}/oauth2/authorize`);
  const keys = new IssuerKeys(issuer, clock, log, get);
  return {
    challenge,
    async verify(token, audience) {
      const verified = async (set: KeySet) => {
        const options = { issuer, algorithms: ALGORITHMS, clockTolerance: SKEW_MS / 1000 };
        const currentDate = new Date(clock.now());
        const { payload } = await jwtVerify(token, set, { ...options, currentDate });
        return identityOf(payload, audience, clock.now());
      };
      const set = await keys.current();
      try {
        return await verified(set);
      } catch (error) {
        if (!(error instanceof errors.JWKSNoMatchingKey))
          throw refused(challenge, sentenceOf(error));
      }
      // The issuer may have a new key since.
      try {
        return await verified(await keys.searched());
      } catch (error) {
        if (error instanceof StorageError) throw error;
        throw refused(challenge, sentenceOf(error));
      }
    },
  };
}

type KeySet = ReturnType<typeof createLocalJWKSet>;

/** The keys that an issuer publishes, fetched when they are needed and kept for a while. */
class IssuerKeys {
  readonly #issuer: string;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #get: typeof fetch;
  #set: KeySet | undefined;
  #fetchedAt: Instant = Number.NEGATIVE_INFINITY;
  #searchedAt: Instant = Number.NEGATIVE_INFINITY;
  #failedAt: Instant = Number.NEGATIVE_INFINITY;
  #fetching: Promise<void> | undefined;

  constructor(issuer: string, clock: Clock, log: Log, get: typeof fetch) {
    this.#issuer = issuer;
    this.#clock = clock;
    this.#log = log;
    this.#get = get;
  }

  /** Keys not older than ten minutes; old ones for a day if the issuer does not answer. */
  async current(): Promise<KeySet> {
    const age = this.#clock.now() - this.#fetchedAt;
    if (this.#set === undefined || age > KEYS_AGE_MAX_MS) await this.#fetch();
    const isUsable = this.#clock.now() - this.#fetchedAt <= KEYS_STALE_MAX_MS;
    if (this.#set === undefined || !isUsable) throw new StorageError("ServerBusy");
    return this.#set;
  }

  /** The keys after a new look, for one that is missing; strangers cannot cause more than two a minute. */
  async searched(): Promise<KeySet> {
    const now = this.#clock.now();
    if (now - this.#searchedAt >= SEARCH_PAUSE_MS) {
      this.#searchedAt = now;
      await this.#fetch();
    }
    return this.current();
  }

  /** One fetch at a time, whoever waits for it; after one that failed there is a pause. */
  #fetch(): Promise<void> {
    if (this.#clock.now() - this.#failedAt < RETRY_PAUSE_MS) return Promise.resolve();
    this.#fetching ??= this.#fetchKeys().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async #fetchKeys(): Promise<void> {
    try {
      const base = this.#issuer.replace(/\/$/, "");
      const about = await this.#document(`${base}/.well-known/openid-configuration`);
      if (about.issuer !== this.#issuer) throw new Error("it calls itself by another name");
      const address = about.jwks_uri;
      if (typeof address !== "string" || !isTrusted(address)) {
        throw new Error("its keys are not at an address of https");
      }
      this.#set = createLocalJWKSet((await this.#document(address)) as unknown as JSONWebKeySet);
      this.#fetchedAt = this.#clock.now();
    } catch (error) {
      this.#failedAt = this.#clock.now();
      this.#log.warn("the keys of the issuer could not be fetched", {
        issuer: this.#issuer,
        error: (error as Error).message,
      });
    }
  }

  async #document(url: string): Promise<Record<string, unknown>> {
    const signal = AbortSignal.timeout(FETCH_LIMIT_MS);
    const reply = await this.#get(url, { redirect: "error", signal });
    if (!reply.ok || reply.body === null) throw new Error(`${url} answers ${reply.status}`);
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const part of reply.body) {
      size += part.length;
      if (size > DOCUMENT_SIZE_MAX) throw new Error(`${url} answers with too much`);
      parts.push(part);
    }
    return jsonObject(Buffer.concat(parts).toString("utf8"));
  }
}

/** Whether keys from there can be believed: over TLS, or from this machine. */
export function isTrusted(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const { protocol, hostname } = new URL(address);
  const isLocal = ["127.0.0.1", "[::1]", "localhost"].includes(hostname);
  return protocol === "https:" || (protocol === "http:" && isLocal);
}
