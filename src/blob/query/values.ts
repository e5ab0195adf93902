import type { Instant } from "../../base/time.ts";
import type { ExtractPart, TypeName } from "./syntax.ts";

/** A point in time as it was written: with its offset from UTC. */
export class Timestamp {
  readonly at: Instant;
  readonly offsetMinutes: number;

  constructor(at: Instant, offsetMinutes: number) {
    this.at = at;
    this.offsetMinutes = offsetMinutes;
  }
}

/** What a field is that its record does not have; as good as null but for IS MISSING. */
export const missing: unique symbol = Symbol("missing");

/** INT is a bigint, FLOAT a number; objects and arrays come from JSON. */
export type Value =
  | null
  | typeof missing
  | boolean
  | bigint
  | number
  | string
  | Timestamp
  | readonly unknown[]
  | { readonly [name: string]: unknown };

/** What is wrong with one row; the query goes on with the next one, unless it is fatal. */
export class QueryFault extends Error {
  readonly isFatal: boolean;

  constructor(name: string, description: string, isFatal = false) {
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = 0; // there may be one for each row
    super(description);
    Error.stackTraceLimit = limit;
    this.name = name;
    this.isFatal = isFatal;
  }
}

export const badConversion = () =>
  new QueryFault("InvalidTypeConversion", "Invalid type conversion.");
const overflow = () => new QueryFault("ArithmeticOverflow", "The number exceeds 64 bits.");

const INTEGER_MAX = 2n ** 63n - 1n;
const INTEGER_MIN = -(2n ** 63n);

/** A 64-bit integer, or the fault that it is none. */
export function checkedInteger(value: bigint): bigint {
  if (value > INTEGER_MAX || value < INTEGER_MIN) throw overflow();
  return value;
}

const INTEGER = /^\s*[+-]?\d{1,40}\s*$/;
const FLOAT = /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*$/;
const NUMBER_SIZE_MAX = 400;

/** A text as a number: INT where it is written as one. */
export function parseNumber(text: string): bigint | number {
  if (INTEGER.test(text)) {
    const trimmed = text.trim();
    return checkedInteger(BigInt(trimmed.startsWith("+") ? trimmed.slice(1) : trimmed));
  }
  if (text.length > NUMBER_SIZE_MAX || !FLOAT.test(text)) throw badConversion();
  return Number(text);
}

/** The value as a number, where arithmetic or a comparison needs one. */
export function numeric(value: Value): bigint | number {
  if (typeof value === "bigint" || typeof value === "number") return value;
  if (typeof value === "string") return parseNumber(value);
  if (typeof value === "boolean") return value ? 1n : 0n;
  throw badConversion();
}

export function integer(value: Value): bigint {
  const number = numeric(value);
  if (typeof number === "bigint") return number;
  if (!Number.isFinite(number)) throw overflow();
  return checkedInteger(BigInt(Math.trunc(number)));
}

export function truth(value: Value): boolean {
  if (typeof value === "boolean") return value;
  if (typeof value === "bigint" || typeof value === "number") return value !== 0n && value !== 0;
  if (typeof value === "string") {
    const text = value.trim().toLowerCase();
    if (text === "true" || text === "1") return true;
    if (text === "false" || text === "0") return false;
  }
  throw badConversion();
}

export function timestamp(value: Value): Timestamp {
  if (value instanceof Timestamp) return value;
  if (typeof value === "string") return parseTimestamp(value);
  throw badConversion();
}

/** CAST; null and missing stay what they are. */
export function cast(value: Value, to: TypeName): Value {
  if (value === null || value === missing) return value;
  if (to === "STRING") return textOf(value);
  if (to === "BOOLEAN") return truth(value);
  if (to === "TIMESTAMP") return timestamp(value);
  if (to === "FLOAT") return Number(numeric(value));
  // A text must be written as an integer; a fraction that is a number is cut off.
  if (typeof value === "string" && !INTEGER.test(value)) throw badConversion();
  return integer(value);
}

/** A value as a text: what a column of delimited output holds. */
export function textOf(value: Value): string {
  if (typeof value === "string") return value;
  if (value === null || value === missing) return "";
  if (value instanceof Timestamp) return timestampText(value);
  return typeof value === "object" ? jsonOf(value) : String(value);
}

/** A value as JSON; integers beyond what JavaScript's numbers hold stay exact. */
export function jsonOf(value: unknown): string {
  if (value === null || value === undefined || value === missing) return "null";
  if (typeof value === "bigint") return String(value);
  if (value instanceof Timestamp) return JSON.stringify(timestampText(value));
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(",")}]`;
  if (typeof value === "object") {
    const members = Object.entries(value).map(
      ([key, of]) => `${JSON.stringify(key)}:${jsonOf(of)}`,
    );
    return `{${members.join(",")}}`;
  }
  return JSON.stringify(value);
}

/**
 * Less than, equal to or more than zero, as `left` stands to `right`. Where their types differ, the one that
 * comes later in Transact-SQL's precedence is converted: text to boolean to number to timestamp.
 */
export function compare(left: Value, right: Value): number {
  if (typeof left === "string" && typeof right === "string") return order(left, right);
  if (left instanceof Timestamp || right instanceof Timestamp) {
    return order(timestamp(left).at, timestamp(right).at);
  }
  if (typeof left === "boolean" && typeof right === "string") return compare(left, truth(right));
  if (typeof left === "string" && typeof right === "boolean") return compare(truth(left), right);
  return order(numeric(left), numeric(right));
}

const order = <T extends string | bigint | number>(left: T, right: T): number =>
  left < right ? -1 : left > right ? 1 : left === right ? 0 : Number(left) - Number(right);

const ISO =
  /^(\d{4})(?:-(\d\d)(?:-(\d\d))?)?(?:[T ](?:(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:?\d\d)?)?)?$/i;
const MINUTE_MS = 60_000;

/** A date of ISO 8601, from the year alone to fractions of a second; UTC where it names no offset. */
export function parseTimestamp(text: string): Timestamp {
  const match = ISO.exec(text.trim());
  if (match === null) throw badConversion();
  const [, year = "", month = "01", day = "01", hour = "00", minute = "00", second = "00"] = match;
  const milliseconds = (match[7] ?? "").padEnd(3, "0").slice(0, 3);
  const at = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}.${milliseconds}Z`);
  // JavaScript takes a 30th of February for the 1st of March.
  if (Number.isNaN(at) || new Date(at).getUTCDate() !== Number(day)) throw badConversion();
  const offset = offsetOf(match[8]);
  return new Timestamp(at - offset * MINUTE_MS, offset);
}

function offsetOf(text: string | undefined): number {
  if (text === undefined || text.toUpperCase() === "Z") return 0;
  const minutes = Number(text.slice(1, 3)) * 60 + Number(text.slice(-2));
  return text.startsWith("-") ? -minutes : minutes;
}

const two = (value: number) => String(value).padStart(2, "0");

/** The offset as +hh:mm, with the colon if one is wanted. */
export function offsetText(minutes: number, colon: string): string {
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}${colon}${two(size % 60)}`;
}

/** ISO 8601, with the offset that the timestamp came with. */
export function timestampText({ at, offsetMinutes }: Timestamp): string {
  const text = new Date(at + offsetMinutes * MINUTE_MS).toISOString();
  return offsetMinutes === 0 ? text : `${text.slice(0, -1)}${offsetText(offsetMinutes, ":")}`;
}

/** A timestamp for an instant, or the fault that no calendar reaches so far. */
export function timestampAt(at: Instant, offsetMinutes: number): Timestamp {
  const year = new Date(at).getUTCFullYear(); // NaN beyond what a Date can hold
  if (!(year >= 1 && year <= 9999)) {
    throw new QueryFault("DateOutOfRange", "The date is not between the years 1 and 9999.");
  }
  return new Timestamp(at, offsetMinutes);
}

/** EXTRACT: one part of a date, as it is at the date's own offset. */
export function datePart({ at, offsetMinutes }: Timestamp, part: ExtractPart): bigint {
  const local = new Date(at + offsetMinutes * MINUTE_MS);
  const value = {
    year: local.getUTCFullYear(),
    month: local.getUTCMonth() + 1,
    day: local.getUTCDate(),
    hour: local.getUTCHours(),
    minute: local.getUTCMinutes(),
    second: local.getUTCSeconds(),
    timezone_hour: Math.trunc(offsetMinutes / 60),
    timezone_minute: offsetMinutes % 60,
  }[part];
  return BigInt(value);
}
