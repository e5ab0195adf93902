import { StorageError } from "../rules/errors.ts";
import type { Operation, Request } from "./operation.ts";

/** Conditions on the source of a copy, and what its bytes must sum up to. */
export const SOURCE_CONDITION_HEADERS: readonly string[] = [
  "x-ms-source-if-match",
  "x-ms-source-if-none-match",
  "x-ms-source-if-modified-since",
  "x-ms-source-if-unmodified-since",
];
export const SOURCE_SUM_HEADERS: readonly string[] = [
  "x-ms-source-content-md5",
  "x-ms-source-content-crc64",
];

export const APPEND_CONDITION_HEADERS: readonly string[] = [
  "x-ms-blob-condition-appendpos",
  "x-ms-blob-condition-maxsize",
];

/** Headers that change what an operation means: where a row does not heed one, it is refused, never ignored. */
const MEANINGFUL = [
  "x-ms-if-tags",
  "x-ms-source-if-tags",
  "x-ms-encryption-key",
  "x-ms-encryption-key-sha256",
  "x-ms-source-encryption-key",
  "x-ms-immutability-policy-until-date",
  "x-ms-immutability-policy-mode",
  "x-ms-legal-hold",
  "x-ms-blob-if-match",
  "x-ms-blob-if-none-match",
  "x-ms-blob-if-modified-since",
  "x-ms-blob-if-unmodified-since",
  "x-ms-access-tier-if-modified-since",
  "x-ms-access-tier-if-unmodified-since",
  "x-ms-copy-source",
  "x-ms-if-sequence-number-le",
  "x-ms-if-sequence-number-lt",
  "x-ms-if-sequence-number-eq",
  "x-ms-source-range",
  "x-ms-expiry-option",
  ...SOURCE_CONDITION_HEADERS,
  ...SOURCE_SUM_HEADERS,
  ...APPEND_CONDITION_HEADERS,
];

/** What every row heeds that takes headers of these kinds. */
export const IMMUTABILITY_HEADERS: readonly string[] = [
  "x-ms-immutability-policy-until-date",
  "x-ms-immutability-policy-mode",
  "x-ms-legal-hold",
];

export const CUSTOMER_KEY_HEADERS: readonly string[] = [
  "x-ms-encryption-key",
  "x-ms-encryption-key-sha256",
];

/** Refuses a request that asks for something its operation does not do. */
export function refuseUnheeded({ guard, heeds, match }: Operation, request: Request): void {
  for (const name of MEANINGFUL) {
    if (request.header(name) === undefined || heeds?.includes(name)) continue;
    if (match.header?.name === name || match.also?.name === name) continue;
    if (guard.prefix !== undefined && name.startsWith(`${guard.prefix}if-`)) continue;
    if (name === "x-ms-if-tags" && guard.on.hasTags) {
      if (guard.conditions !== "none") continue;
      throw new StorageError("ConditionHeadersNotSupported");
    }
    throw new StorageError("UnsupportedHeader", { HeaderName: name });
  }
}
