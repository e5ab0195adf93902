import type { KeyObject } from "node:crypto";
import { httpDate, type Instant, parseHttpDate } from "../base/time.ts";
import { invalidHeader, missingHeader, StorageError } from "../rules/errors.ts";
import type { Account, Accounts } from "./accounts.ts";
import { type Anonymous, type Caller, failed, type Grant } from "./caller.ts";
import { delegationKey } from "./delegation.ts";
import { everything, grantsOf, type Roles } from "./roles.ts";
import { checkUse, type Delegation, isGenuine, readSas, type SasRequest } from "./sas.ts";
import { isSigned, type SignedRequest } from "./shared-key.ts";
import { parseSignature } from "./signer.ts";
import { type Identity, MICROSOFT_CHALLENGE, type Tokens } from "./tokens.ts";

/** What is known of who may come; asked anew for each request, because its files can change. */
export type Authority = {
  readonly accounts: () => Accounts;
  /** Undefined if no token is taken. */
  readonly tokens: Tokens | undefined;
  /** Undefined if everybody with a token may do everything. */
  readonly roles: () => Roles | undefined;
};

/** All of a request that tells who sent it. */
export type Presented = SignedRequest &
  SasRequest & {
    /** Whether the request says which version it speaks. */
    readonly hasVersion: boolean;
    /** Whether it is known already that a key of the account has signed it. */
    readonly isSigned?: boolean;
  };

/** Signatures are taken for this long before and after the date they were made for. */
const WINDOW_MS = 15 * 60 * 1000;

const BEARER = /^Bearer +([A-Za-z0-9_.~+/=-]+)$/i;

/**
 * Finds out who sent the request, or throws Azure's refusal; nothing of it may have been done before. What is
 * signed is judged at once, only a token may have to wait for its issuer's keys.
 */
export function authorize(
  request: Presented,
  account: Account,
  authority: Authority,
  now: Instant,
): Caller | Promise<Caller> {
  const authorization = request.header("authorization");
  if (authorization === undefined) {
    if (request.query.has("sig")) return signedUrl(request, account, authority, now, undefined);
    return anonymous(request, account, authority);
  }
  const bearer = BEARER.exec(authorization)?.[1];
  if (bearer !== undefined) return tokenHolder(request, account, authority, now, bearer);
  const signed = parseSignature(authorization);
  if (signed === undefined) throw new StorageError("InvalidAuthenticationInfo");
  const { scheme, signature } = signed;
  if (signed.account !== account.name)
    throw failed("The account of the signature is not the one of the URL.");
  if (!account.sharedKey) throw new StorageError("KeyBasedAuthenticationNotPermitted");
  checkDate(request, now);
  const isOwn = (key: KeyObject) => isSigned(request, scheme, signature, key);
  if (!request.isSigned && !account.keys.some(isOwn)) {
    throw failed("The signature does not match the request.");
  }
  return { kind: "owner", account: account.name };
}

function checkDate(request: SignedRequest, now: Instant): void {
  const text = request.header("x-ms-date") ?? request.header("date");
  if (text === undefined) throw failed("Neither x-ms-date nor Date is there.");
  const date = parseHttpDate(text);
  if (date === undefined) throw failed(`The date '${text}' is not in the form of RFC 1123.`);
  if (Math.abs(now - date) > WINDOW_MS) {
    throw failed(
      `Request date header too old: '${text}'. The server's time is '${httpDate(now)}'.`,
    );
  }
}

function anonymous(request: Presented, account: Account, { tokens }: Authority): Anonymous {
  // Older versions hide what anonymous callers may not see; so does a request that says no version.
  const isNew = request.hasVersion && request.version >= "2019-12-12";
  const refusal = !account.publicAccess
    ? "PublicAccessNotPermitted"
    : isNew
      ? "NoAuthenticationInformation"
      : "ResourceNotFound";
  const challenge = tokens?.challenge ?? MICROSOFT_CHALLENGE;
  return { kind: "anonymous", account: account.name, refusal, challenge };
}

/** Judges a signed URL; `bound` is the holder of the token that came with it, if one did. */
function signedUrl(
  request: Presented,
  account: Account,
  authority: Authority,
  now: Instant,
  bound: Identity | undefined,
): Caller {
  const signed = readSas(request, now);
  const { sas, delegation, text } = signed;
  if (delegation === undefined && !account.sharedKey) {
    throw new StorageError("KeyBasedAuthenticationNotPermitted");
  }
  const keys =
    delegation === undefined
      ? account.keys
      : account.keys.map((key) => delegationKey(key, account.name, delegation));
  if (!isGenuine(signed, keys)) {
    throw failed(`Signature did not match. String to sign used was ${text}`);
  }
  checkUse(request, sas);
  if (delegation === undefined) return { kind: "sas", account: account.name, sas };
  checkBound(request, delegation, bound);
  const grants = grantsIn(authority, account, [delegation.user]);
  return { kind: "sas", account: account.name, sas: { ...sas, grants } };
}

/** A SAS that is bound to a user (sduoid) is good only beside a token of that user. */
function checkBound(
  { query }: Presented,
  { boundTenant }: Delegation,
  bound: Identity | undefined,
): void {
  const user = query.get("sduoid");
  if (!user) return;
  if (bound?.id !== user || (boundTenant !== undefined && bound.tenant !== boundTenant)) {
    throw failed("The signature is bound to a user, and no token of that user came with it.");
  }
}

const grantsIn = (
  { roles }: Authority,
  account: Account,
  principals: readonly string[],
): readonly Grant[] => {
  const all = roles();
  return all === undefined ? everything : grantsOf(all, principals, account.name);
};

async function tokenHolder(
  request: Presented,
  account: Account,
  authority: Authority,
  now: Instant,
  token: string,
): Promise<Caller> {
  const { tokens } = authority;
  if (tokens === undefined) throw failed("This server takes no tokens: --oauth is not set.");
  if (!request.secure) throw failed("Tokens are taken over HTTPS only.");
  if (request.version < "2017-11-09") throw failed("Tokens need version 2017-11-09 or newer.");
  const audience = { account: account.name, service: request.service };
  const identity = await tokens.verify(token, audience);
  if (request.query.has("sig") && request.query.has("sduoid")) {
    return signedUrl(request, account, authority, now, identity);
  }
  if (request.service === "file") checkIntent(request);
  const { id, tenant, principals } = identity;
  const grants = grantsIn(authority, account, principals);
  return { kind: "user", account: account.name, user: { id, tenant, grants } };
}

/** Users of the File service say that they mean to pass over what files say of permissions. */
function checkIntent({ header }: Presented): void {
  const intent = header("x-ms-file-request-intent");
  if (intent === undefined) throw missingHeader("x-ms-file-request-intent");
  if (intent.toLowerCase() !== "backup") throw invalidHeader("x-ms-file-request-intent", intent);
}
