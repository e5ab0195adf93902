import type { ErrorCode } from "../rules/errors.ts";
import { StorageError } from "../rules/errors.ts";

export type Service = "blob" | "queue" | "table" | "file";

/** Who calls, and what they may; every way to authorize ends in one of these. */
export type Caller =
  /** Holds a key of the account. */
  | { readonly kind: "owner"; readonly account: string }
  | { readonly kind: "sas"; readonly account: string; readonly sas: Sas }
  | { readonly kind: "user"; readonly account: string; readonly user: User }
  | Anonymous;

export type Anonymous = {
  readonly kind: "anonymous";
  readonly account: string;
  /** What they are answered where they may not see: older versions hide that there is anything. */
  readonly refusal: ErrorCode;
  /** Where to get a token, for the answer that asks for one. */
  readonly challenge: string;
};

/** A shared access signature that is genuine, and in its time, place and protocol. */
export type Sas = {
  /** Signed by the account for all it has, for one resource, or by a user's delegation key for one. */
  readonly kind: "account" | "service" | "delegation";
  /** What kind of thing a SAS of one resource is for (`sr`); queues and tables have but one kind. */
  readonly scope: string;
  /** Letters; none yet where a stored policy gives them. */
  readonly permissions: string;
  /** `ss` and `srt` of an account SAS. */
  readonly services: string;
  readonly resourceTypes: string;
  /** The stored access policy that it leans on, and what it says itself of start and expiry. */
  readonly policy: string | undefined;
  readonly start: string | undefined;
  readonly expiry: string | undefined;
  readonly version: string;
  /** The keys of a table that it reaches. */
  readonly keys: KeyRange | undefined;
  /** Headers of the reply that it replaces. */
  readonly overrides: Readonly<Record<string, string>> | undefined;
  readonly encryptionScope: string | undefined;
  /** What the user may who delegated: the signature gives no more. */
  readonly grants: readonly Grant[] | undefined;
};

/** The entities from one key to another, both included; what is undefined has no end on that side. */
export type KeyRange = {
  readonly startPartition: string | undefined;
  readonly startRow: string | undefined;
  readonly endPartition: string | undefined;
  readonly endRow: string | undefined;
};

/** Somebody with a token. */
export type User = {
  readonly id: string;
  readonly tenant: string;
  readonly grants: readonly Grant[];
};

/** SAS letters that a role gives in a service, in all of the account or in one container; "*" is everything. */
export type Grant = {
  readonly service: Service;
  readonly letters: string;
  readonly container: string | undefined;
};

/** The holder of the key; for what the server does by itself, and for tests. */
export const ownerOf = (account: string): Caller => ({ kind: "owner", account });

/** The error for a caller who may not, with what their kind of caller needs to know. */
export function refusalOf(caller: Caller, code: ErrorCode): StorageError {
  if (caller.kind === "anonymous" && code === "NoAuthenticationInformation") {
    return new StorageError(code, { "WWW-Authenticate": caller.challenge });
  }
  return new StorageError(code);
}

/** A refusal of who somebody claims to be, with a sentence that helps and shows no secret. */
export const failed = (detail: string): StorageError =>
  new StorageError("AuthenticationFailed", { AuthenticationErrorDetail: detail });
