import type { Instant } from "../base/time.ts";
import type { ErrorCode } from "./errors.ts";

/** The conditional headers of one request, parsed once in http/conditions.ts; "*" is a tag too. */
export type Conditions = {
  readonly ifMatch?: readonly string[];
  readonly ifNoneMatch?: readonly string[];
  readonly ifModifiedSince?: Instant;
  readonly ifUnmodifiedSince?: Instant;
};

export const noConditions: Conditions = {};

/** What conditions are judged by. */
export type Versioned = { readonly etag: string; readonly modifiedAt: Instant };

/**
 * How an operation uses its target. "read" may combine the headers freely and answers 304; so does
 * "snapshot", but it answers 412; "write" and "create" take only the documented pairs and answer 412;
 * "create" may find nothing.
 */
export type ConditionUse = "read" | "snapshot" | "write" | "create";

const secondOf = (at: Instant) => Math.floor(at / 1000);

/**
 * Why these headers cannot stand together, whatever the target is. Azure's page "Specifying conditional
 * headers for Blob service operations": a write takes one header, or If-Match with If-Unmodified-Since,
 * or If-None-Match with If-Modified-Since, and one ETag in each.
 */
export function unusableConditions(when: Conditions, use: ConditionUse): ErrorCode | undefined {
  if (when === noConditions) return undefined;
  if (use === "read" || use === "snapshot") {
    return when.ifNoneMatch?.includes("*") ? "UnsatisfiableCondition" : undefined;
  }
  const positive = when.ifMatch !== undefined || when.ifUnmodifiedSince !== undefined;
  const negative = when.ifNoneMatch !== undefined || when.ifModifiedSince !== undefined;
  if (positive && negative) return "MultipleConditionHeadersNotSupported";
  if ((when.ifMatch?.length ?? 0) > 1 || (when.ifNoneMatch?.length ?? 0) > 1) {
    return "InvalidHeaderValue";
  }
  return undefined;
}

/**
 * Why `target` may not be used, or undefined if it may. A read follows the page's formula
 * If-Match && If-Unmodified-Since && (If-None-Match || If-Modified-Since); in a write an ETag decides
 * alone where both headers of a pair are sent. Times compare as whole seconds, as the headers carry them.
 */
export function failedCondition(
  when: Conditions,
  target: Versioned | undefined,
  use: ConditionUse,
): ErrorCode | undefined {
  if (when === noConditions) return undefined;
  if (use === "write" || use === "create") return failedWrite(when, target, use);
  const failed = failedRead(when, target);
  return use === "snapshot" && failed === "NotModified" ? "ConditionNotMet" : failed;
}

const hasTag = (target: Versioned | undefined, tags: readonly string[]) =>
  target !== undefined && (tags.includes("*") || tags.includes(target.etag));

const changedAfter = (target: Versioned, time: Instant) =>
  secondOf(target.modifiedAt) > secondOf(time);

function failedRead(when: Conditions, target: Versioned | undefined): ErrorCode | undefined {
  if (target === undefined) return undefined; // the answer is 404, whatever was asked
  const { ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince } = when;
  if (ifMatch !== undefined && !hasTag(target, ifMatch)) return "ConditionNotMet";
  if (ifUnmodifiedSince !== undefined && changedAfter(target, ifUnmodifiedSince)) {
    return "ConditionNotMet";
  }
  if (ifNoneMatch === undefined && ifModifiedSince === undefined) return undefined;
  if (ifNoneMatch !== undefined && !hasTag(target, ifNoneMatch)) return undefined;
  if (ifModifiedSince !== undefined && changedAfter(target, ifModifiedSince)) return undefined;
  return "NotModified";
}

function failedWrite(
  when: Conditions,
  target: Versioned | undefined,
  use: "write" | "create",
): ErrorCode | undefined {
  const { ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince } = when;
  if (target === undefined) {
    // Nothing is there to have a tag; times of nothing are not judged.
    return use === "create" && ifMatch !== undefined ? "ConditionNotMet" : undefined;
  }
  if (ifMatch !== undefined) return hasTag(target, ifMatch) ? undefined : "ConditionNotMet";
  if (ifNoneMatch !== undefined) {
    if (!hasTag(target, ifNoneMatch)) return undefined;
    return use === "create" && ifNoneMatch.includes("*") ? "BlobAlreadyExists" : "ConditionNotMet";
  }
  if (ifUnmodifiedSince !== undefined && changedAfter(target, ifUnmodifiedSince)) {
    return "ConditionNotMet";
  }
  if (ifModifiedSince !== undefined && !changedAfter(target, ifModifiedSince)) {
    return "ConditionNotMet";
  }
  return undefined;
}
