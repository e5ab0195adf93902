import type { KeyObject } from "node:crypto";
import { isSigned, type Scheme, type SignedRequest } from "./shared-key.ts";

const FORM = /^(SharedKey|SharedKeyLite) ([^:\s]+):([A-Za-z0-9+/=]+)$/;

/** What an Authorization header says that holds a signature by an account's key. */
export type Signature = {
  readonly scheme: Scheme;
  readonly account: string;
  readonly signature: string;
};

export function parseSignature(authorization: string): Signature | undefined {
  const match = FORM.exec(authorization);
  if (match === null) return undefined;
  const [, scheme, account, signature] = match as unknown as [string, Scheme, string, string];
  return { scheme, account, signature };
}

/** The account of the URL, if one of its keys has signed the request; whether that is enough is for authorize.ts. */
export function signerOf(
  request: SignedRequest,
  keys: ReadonlyMap<string, readonly KeyObject[]>,
): string | undefined {
  const { account, header } = request;
  const signed = parseSignature(header("authorization") ?? "");
  if (signed?.account !== account) return undefined;
  const { scheme, signature } = signed;
  const isOwn = keys.get(account)?.some((key) => isSigned(request, scheme, signature, key));
  return isOwn ? account : undefined;
}
