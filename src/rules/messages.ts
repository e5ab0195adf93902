import type { Instant, Tick } from "../base/time.ts";
import { invalidQuery, StorageError } from "./errors.ts";
import type { ServiceVersion } from "./versions.ts";

/** What Azure gives as the expiry of a message without one: the last second of the year 9999. */
export const NEVER: Instant = 253_402_300_799_000;

/** Size of a message's text in UTF-8 ("Put Message": up to 64 KiB). */
export const TEXT_SIZE_MAX: number = 64 * 1024;

const SECOND_MS = 1000;
const WEEK_SECONDS = 7 * 24 * 3600;
/** A time to live of 68 years: the largest of Azure's 32-bit seconds. */
const TTL_MAX = 2_147_483_647;
const WITHOUT_END = -1;

type Query = ReadonlyMap<string, string>;
type Bounds = { readonly min: number; readonly max: number };

/** A whole number within bounds from a parameter; undefined if it is not there. */
function numberOf(query: Query, name: string, { min, max }: Bounds): number | undefined {
  const text = query.get(name);
  if (text === undefined) return undefined;
  if (!/^-?\d{1,15}$/.test(text)) throw invalidQuery(name, text);
  const value = Number(text);
  if (value >= min && value <= max) return value;
  throw new StorageError("OutOfRangeQueryParameterValue", {
    QueryParameterName: name,
    QueryParameterValue: text,
    MinimumAllowed: String(min),
    MaximumAllowed: String(max),
  });
}

function required(query: Query, name: string): string {
  const text = query.get(name);
  if (text !== undefined && text !== "") return text;
  throw new StorageError("MissingRequiredQueryParameter", { QueryParameterName: name });
}

/** `numofmessages` of Get Messages and Peek Messages: 1 to 32. */
export const messageCountOf = (query: Query): number =>
  numberOf(query, "numofmessages", { min: 1, max: 32 }) ?? 1;

/** `visibilitytimeout` of Get Messages, in milliseconds: 1 second to 7 days, 30 seconds if not said. */
export const retrievalMsOf = (query: Query): number =>
  (numberOf(query, "visibilitytimeout", { min: 1, max: WEEK_SECONDS }) ?? 30) * SECOND_MS;

/** How long a new message waits, and how long it lives; in milliseconds, NEVER if it has no end. */
export type Lifetime = { readonly delayMs: number; readonly ttlMs: number };

/**
 * `visibilitytimeout` and `messagettl` of Put Message: what is said must be longer than the wait. Before
 * 2017-07-29 no message lived longer than a week.
 */
export function lifetimeOf(query: Query, version: ServiceVersion): Lifetime {
  const delay = numberOf(query, "visibilitytimeout", { min: 0, max: WEEK_SECONDS }) ?? 0;
  const bounds =
    version < "2017-07-29" ? { min: 1, max: WEEK_SECONDS } : { min: -TTL_MAX - 1, max: TTL_MAX };
  const ttl = numberOf(query, "messagettl", bounds);
  if (ttl === undefined) return { delayMs: delay * SECOND_MS, ttlMs: WEEK_SECONDS * SECOND_MS };
  if (ttl === WITHOUT_END) return { delayMs: delay * SECOND_MS, ttlMs: NEVER };
  if (ttl < 1) {
    const reason = "The value must be at least 1, or -1 for a message that does not expire.";
    throw invalidQuery("messagettl", query.get("messagettl") ?? "", reason);
  }
  if (delay >= ttl) {
    const reason = "messagettl must be greater than visibilitytimeout.";
    throw invalidQuery("visibilitytimeout", String(delay), reason);
  }
  return { delayMs: delay * SECOND_MS, ttlMs: ttl * SECOND_MS };
}

/** When a message put at `now` expires. */
export const expiryOf = (now: Instant, { ttlMs }: Lifetime): Instant =>
  Math.min(now + ttlMs, NEVER);

/** A message is there until its expiry, and not in the instant of it. */
export const hasExpired = (expiresAt: Instant, now: Instant): boolean => expiresAt <= now;

/** `visibilitytimeout` of Update Message, in milliseconds: required, 0 to 7 days. */
export function updateMsOf(query: Query): number {
  required(query, "visibilitytimeout");
  return (numberOf(query, "visibilitytimeout", { min: 0, max: WEEK_SECONDS }) ?? 0) * SECOND_MS;
}

/** Refuses to hide a message for longer than it lives ("Update Message", visibilitytimeout). */
export function checkedVisibleAt(now: Instant, updateMs: number, expiresAt: Instant): Instant {
  const visibleAt = now + updateMs;
  if (visibleAt <= expiresAt) return visibleAt;
  throw new StorageError("OutOfRangeQueryParameterValue", {
    QueryParameterName: "visibilitytimeout",
    QueryParameterValue: String(updateMs / SECOND_MS),
    MinimumAllowed: "0",
    MaximumAllowed: String(Math.floor((expiresAt - now) / SECOND_MS)),
  });
}

/** What a pop receipt tells: where the change that gave it has put the message. */
export type Receipt = { readonly visibleAt: Instant; readonly tick: Tick };

const RECEIPT_SIZE = 15;
const RECEIPT_VERSION = 1;
const RECEIPT_FORM = /^[A-Za-z0-9_-]{20}$/;

/** A receipt as an opaque text, of letters that stand in a URL as they are. */
export function receiptText({ visibleAt, tick }: Receipt): string {
  const bytes = Buffer.allocUnsafe(RECEIPT_SIZE);
  bytes[0] = RECEIPT_VERSION;
  bytes.writeUIntBE(visibleAt, 1, 6);
  bytes.writeBigUInt64BE(tick, 7);
  return bytes.toString("base64url");
}

/** `popreceipt` of Update Message and Delete Message. */
export function receiptOf(query: Query): Receipt {
  const text = required(query, "popreceipt");
  const bytes = RECEIPT_FORM.test(text) ? Buffer.from(text, "base64url") : undefined;
  if (bytes?.[0] !== RECEIPT_VERSION) {
    throw invalidQuery("popreceipt", text, "Invalid pop receipt format");
  }
  return { visibleAt: bytes.readUIntBE(1, 6), tick: bytes.readBigUInt64BE(7) };
}
