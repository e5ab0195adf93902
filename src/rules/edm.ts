import { type Tick, tickAt, tickText } from "../base/time.ts";
import { parseGuid } from "./names.ts";

/** The property types of tables ("Understanding the Table Service Data Model"). */
export type EdmType =
  | "Binary"
  | "Boolean"
  | "DateTime"
  | "Double"
  | "Guid"
  | "Int32"
  | "Int64"
  | "String";

/**
 * A typed value in the form that compares with JavaScript's own operators as Azure compares it: Binary as one
 * character a byte, DateTime as a tick, Guid in lower case.
 */
export type EdmValue = {
  readonly type: EdmType;
  readonly value: string | number | bigint | boolean;
};

const types: ReadonlyMap<string, EdmType> = new Map(
  (["Binary", "Boolean", "DateTime", "Double", "Guid", "Int32", "Int64", "String"] as const).map(
    (type) => [`Edm.${type}`, type],
  ),
);

/** The type that an annotation names; undefined if there is none of that name. */
export const edmTypeOf = (name: string): EdmType | undefined => types.get(name);

/** Whether JSON alone does not tell the type of a value that is written as `json`. */
export const needsAnnotation = (type: EdmType, json: string): boolean =>
  type === "Double"
    ? json.startsWith('"')
    : type === "Binary" || type === "DateTime" || type === "Guid" || type === "Int64";

const INT32_MAX = 2_147_483_647;
const INT32_MIN = -2_147_483_648;
const INT64_MAX = 9_223_372_036_854_775_807n;
const INT64_MIN = -9_223_372_036_854_775_808n;
const WHOLE = /^[+-]?\d{1,40}$/;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

export function parseInt32(text: string): number | undefined {
  if (!WHOLE.test(text)) return undefined;
  const number = Number(text);
  return number >= INT32_MIN && number <= INT32_MAX ? number + 0 : undefined;
}

export function parseInt64(text: string): bigint | undefined {
  if (!WHOLE.test(text)) return undefined;
  const number = BigInt(text.startsWith("+") ? text.slice(1) : text);
  return number >= INT64_MIN && number <= INT64_MAX ? number : undefined;
}

const SPECIAL_DOUBLES: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  INF: Number.POSITIVE_INFINITY,
  "-Infinity": Number.NEGATIVE_INFINITY,
  "-INF": Number.NEGATIVE_INFINITY,
};

/** A double; a number too large for one is none. */
export function parseDouble(text: string): number | undefined {
  const special = SPECIAL_DOUBLES[text];
  if (special !== undefined) return special;
  if (!NUMBER.test(text)) return undefined;
  const number = Number(text);
  return Number.isFinite(number) ? number : undefined;
}

/** A double as JSON writes it: with a point or an exponent, so that it is not taken for an integer. */
export function doubleJson(number: number): string {
  if (!Number.isFinite(number)) return `"${number}"`;
  if (Object.is(number, -0)) return "-0.0";
  const text = String(number);
  return Number.isInteger(number) && !text.includes("e") ? `${text}.0` : text;
}

const DATE =
  /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(?:Z|([+-])(\d\d):(\d\d))?$/;
const YEAR_1601 = tickAt(Date.UTC(1601, 0, 1));
const YEAR_10000 = tickAt(Date.UTC(10_000, 0, 1));
const TICKS_PER_MINUTE = 600_000_000n;

/** A time to 100 ns; one without a zone is taken as UTC. Undefined if it is none, or before 1601. */
export function parseDateTime(text: string): Tick | undefined {
  const match = DATE.exec(text);
  if (match === null) return undefined;
  const [, day = "", minutes = "00:00", seconds = "00", fraction = "", sign, hour, minute] = match;
  const at = Date.parse(`${day}T${minutes}:${seconds}Z`);
  // There is no 30th of February, and no 24th hour but of the next day.
  if (Number.isNaN(at) || !new Date(at).toISOString().startsWith(`${day}T${minutes}`)) {
    return undefined;
  }
  let tick = tickAt(at) + BigInt(fraction.slice(0, 7).padEnd(7, "0"));
  if (sign !== undefined) {
    const offset = BigInt(Number(hour) * 60 + Number(minute)) * TICKS_PER_MINUTE;
    tick += sign === "+" ? -offset : offset;
  }
  return tick >= YEAR_1601 && tick < YEAR_10000 ? tick : undefined;
}

/** A time as properties show it: in UTC, with as many digits of a second as it needs. */
export const dateTimeText = (tick: Tick): string => tickText(tick).replace(/\.?0*Z$/, "Z");

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The bytes of a base64 text, with its padding. */
export const parseBinary = (text: string): Buffer | undefined =>
  BASE64.test(text) ? Buffer.from(text, "base64") : undefined;

export const parseBoolean = (text: string): boolean | undefined =>
  /^(?:true|false)$/i.test(text) ? text.length === 4 : undefined;

/**
 * A value of this type as JSON writes it in a reply, made from the text that a request has for it (what stands
 * between the quotes, or the number itself); undefined if it is no such value.
 */
export function canonicalJson(type: EdmType, text: string): string | undefined {
  switch (type) {
    case "String":
      return JSON.stringify(text);
    case "Int32": {
      const number = parseInt32(text);
      return number === undefined ? undefined : String(number);
    }
    case "Int64": {
      const number = parseInt64(text);
      return number === undefined ? undefined : `"${number}"`;
    }
    case "Double": {
      const number = parseDouble(text);
      return number === undefined ? undefined : doubleJson(number);
    }
    case "Boolean": {
      const flag = parseBoolean(text);
      return flag === undefined ? undefined : String(flag);
    }
    case "DateTime": {
      const tick = parseDateTime(text);
      return tick === undefined ? undefined : `"${dateTimeText(tick)}"`;
    }
    case "Guid": {
      const guid = parseGuid(text);
      return guid === undefined ? undefined : `"${guid}"`;
    }
    case "Binary": {
      const bytes = parseBinary(text);
      return bytes === undefined ? undefined : `"${bytes.toString("base64")}"`;
    }
  }
}

/** The value behind what `canonicalJson` wrote. */
export function valueOfJson(type: EdmType, json: string): EdmValue["value"] {
  const text = json.startsWith('"') ? json.slice(1, -1) : json;
  switch (type) {
    case "String":
      return text.includes("\\") ? (JSON.parse(json) as string) : text;
    case "Int32":
      return Number(text);
    case "Int64":
      return BigInt(text);
    case "Double":
      return SPECIAL_DOUBLES[text] ?? Number(text);
    case "Boolean":
      return text === "true";
    case "DateTime":
      return parseDateTime(text) ?? 0n;
    case "Guid":
      return text;
    case "Binary":
      return Buffer.from(text, "base64").toString("latin1");
  }
}
