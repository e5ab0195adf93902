import { httpDate, type Instant, parseHttpDate } from "../base/time.ts";
import { StorageError } from "../rules/errors.ts";
import type { Account } from "./accounts.ts";
import { isSigned, type Scheme, type SignedRequest } from "./shared-key.ts";

/** Who calls, and what they may; every way to authorize ends in one of these. */
export type Caller = { readonly kind: "owner"; readonly account: string };

/** Signatures are taken for this long before and after the date they were made for. */
const WINDOW_MS = 15 * 60 * 1000;

/** Where clients that use tokens are sent to get one. */
const CHALLENGE =
  "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize resource_id=https://storage.azure.com";

const FORM = /^(SharedKey|SharedKeyLite) ([^:\s]+):([A-Za-z0-9+/=]+)$/;

/** Finds out who sent the request, or throws Azure's refusal; nothing of it may have been done before. */
export function authorize(request: SignedRequest, account: Account, now: Instant): Caller {
  const authorization = request.header("authorization");
  if (authorization === undefined) {
    if (request.parameters.some(([name]) => name === "sig"))
      throw failed("Signed URLs are not accepted here.");
    // Older versions hide what anonymous callers may not see.
    if (request.version < "2019-12-12") throw new StorageError("ResourceNotFound");
    throw new StorageError("NoAuthenticationInformation", { "WWW-Authenticate": CHALLENGE });
  }
  const match = FORM.exec(authorization);
  if (match === null) throw new StorageError("InvalidAuthenticationInfo");
  const [, scheme, name, signature] = match as unknown as [string, Scheme, string, string];
  if (name !== account.name)
    throw failed("The account of the signature is not the one of the URL.");
  checkDate(request, now);
  if (!account.keys.some((key) => isSigned(request, scheme, signature, key))) {
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

const failed = (detail: string) =>
  new StorageError("AuthenticationFailed", { AuthenticationErrorDetail: detail });
