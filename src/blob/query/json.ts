import { type BinaryText, BYTE_ORDER_MARK, decoded, ROW_SIZE_MAX } from "./binary.ts";
import type { FieldName, FieldStep, TableStep } from "./syntax.ts";
import { missing, QueryFault, type Value } from "./values.ts";

/** A record as it stands in the blob, and what it says. */
export type JsonRow = { readonly at: number; readonly raw: BinaryText; readonly value: unknown };

const DEPTH_MAX = 200;
const SPACE = /[ \t\r\n]*/y;
const SCALAR = /[^\s,[\]{}:"]+/y;
const LONG_NUMBER = /\d{16}/;

/**
 * Cuts a text into JSON values, however the text is cut into parts. Values follow one another, with the
 * record separator or white space between them; where the text is one array, its elements are the values.
 */
export class JsonReader {
  readonly #separator: BinaryText;
  #text: BinaryText = "";
  #base = 0;
  #at = 0;
  #isLast = false;
  #hasBegun = false;
  /** Inside the array that holds the records: what may come next. */
  #array: "none" | "value" | "comma" = "none";
  #position = 0;

  constructor(separator: BinaryText) {
    this.#separator = separator;
  }

  /** Where the record begins that was read last. */
  get position(): number {
    return this.#position;
  }

  feed(text: BinaryText, isLast: boolean): void {
    this.#base += this.#at;
    this.#text = this.#text.slice(this.#at) + text;
    this.#at = 0;
    this.#isLast = isLast;
  }

  next(): JsonRow | undefined {
    const start = this.#begins() ? this.#begin() : undefined;
    if (start === undefined) return undefined;
    const end = this.#end(start);
    if ((end ?? this.#text.length) - start > ROW_SIZE_MAX) {
      throw new QueryFault(
        "RecordTooLarge",
        `A record is longer than ${ROW_SIZE_MAX} bytes.`,
        true,
      );
    }
    if (end === undefined) {
      if (this.#isLast)
        throw parseError(`Unexpected end in the record at [byte: ${this.#base + start}].`);
      return undefined;
    }
    const raw = this.#text.slice(start, end);
    this.#position = this.#base + start;
    const value = this.#parsed(raw, start);
    this.#at = end;
    if (this.#array !== "none") this.#array = "comma";
    return { at: this.#position, raw, value };
  }

  /** Passes over a byte order mark; whether the text is long enough to tell. */
  #begins(): boolean {
    if (this.#hasBegun) return true;
    if (this.#text.length < BYTE_ORDER_MARK.length && !this.#isLast) return false;
    this.#hasBegun = true;
    if (this.#text.startsWith(BYTE_ORDER_MARK)) this.#at = BYTE_ORDER_MARK.length;
    return true;
  }

  /** Where the next value begins; undefined if there is none, or none yet. */
  #begin(): number | undefined {
    for (;;) {
      this.#skip();
      const character = this.#text[this.#at];
      if (character === undefined) {
        if (this.#isLast && this.#array !== "none") throw parseError("The array is not closed.");
        return undefined;
      }
      const isOpening = character === "[" && this.#array === "none";
      const isComma = character === "," && this.#array === "comma";
      if (character === "]" && this.#array !== "none") this.#array = "none";
      else if (isOpening || isComma) this.#array = "value";
      else if (this.#array === "comma" || ",:]}".includes(character)) throw this.#unexpected();
      else return this.#at;
      this.#at++;
    }
  }

  #skip(): void {
    for (;;) {
      SPACE.lastIndex = this.#at;
      this.#at += SPACE.exec(this.#text)?.[0].length ?? 0;
      const isBetween = this.#array === "none" && this.#separator !== "";
      if (!isBetween || !this.#text.startsWith(this.#separator, this.#at)) return;
      this.#at += this.#separator.length;
    }
  }

  /** Where the value that begins at `start` ends; undefined if it does not yet. */
  #end(start: number): number | undefined {
    const first = this.#text[start];
    if (first === "{" || first === "[") return balancedEnd(this.#text, start);
    if (first === '"') return stringEnd(this.#text, start);
    SCALAR.lastIndex = start;
    const end = start + (SCALAR.exec(this.#text)?.[0].length ?? 0);
    return end < this.#text.length || this.#isLast ? end : undefined;
  }

  #parsed(raw: BinaryText, start: number): unknown {
    const text = decoded(raw);
    try {
      return LONG_NUMBER.test(text) ? JSON.parse(text, exactInteger) : JSON.parse(text);
    } catch {
      if (!/^[{["]/.test(raw)) throw this.#unexpected();
      throw parseError(`The record at [byte: ${this.#base + start}] is no JSON.`);
    }
  }

  #unexpected(): QueryFault {
    const token = this.#text[this.#at] ?? "";
    const at = this.#base + this.#at;
    return parseError(
      `Unexpected token '${token}' at [byte: ${at}]. Expecting tokens '{', or '['. `,
    );
  }
}

const parseError = (description: string) => new QueryFault("ParseError", description, true);

/** Keeps an integer that JavaScript's numbers would round; given to JSON.parse as its reviver. */
function exactInteger(
  _key: string,
  value: unknown,
  context?: { readonly source?: string },
): unknown {
  const isRounded = typeof value === "number" && !Number.isSafeInteger(value);
  return isRounded && /^-?\d{16,19}$/.test(context?.source ?? "")
    ? BigInt(context?.source ?? "0")
    : value;
}

function stringEnd(text: BinaryText, start: number): number | undefined {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 92) at++;
    else if (code === 34) return at + 1;
  }
  return undefined;
}

function balancedEnd(text: BinaryText, start: number): number | undefined {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 34) {
      const end = stringEnd(text, at);
      if (end === undefined) return undefined;
      at = end - 1;
    } else if (code === 123 || code === 91) {
      if (++depth > DEPTH_MAX) throw parseError("A record is nested too deep.");
    } else if (code === 125 || code === 93) {
      if (--depth === 0) return at + 1;
    }
  }
  return undefined;
}

type Members = { readonly [name: string]: unknown };

const isMembers = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The member of that name; without quotes, of that name in any case. */
function member(value: unknown, { text, exact }: FieldName): unknown {
  if (!isMembers(value)) return undefined;
  if (Object.hasOwn(value, text)) return value[text];
  if (exact) return undefined;
  const wanted = text.toLowerCase();
  for (const name in value) if (name.toLowerCase() === wanted) return value[name];
  return undefined;
}

const element = (value: unknown, index: number): unknown =>
  Array.isArray(value) ? value[index] : undefined;

/** What a path leads to in a record; missing if it leads nowhere. */
export function fieldValue(value: unknown, path: readonly FieldStep[]): Value {
  let at = value;
  for (const step of path) {
    at = typeof step === "number" ? element(at, step) : member(at, step);
    if (at === undefined) return missing;
  }
  return jsonValue(at);
}

/** A part of a JSON record as a value of the dialect: whole numbers are INT. */
export function jsonValue(value: unknown): Value {
  if (value === undefined) return missing;
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
  return value as Value;
}

/** The rows that the path of FROM finds in a record. */
export function* rowsBelow(
  value: unknown,
  path: readonly TableStep[],
  from = 0,
): Generator<unknown> {
  const step = path[from];
  if (value === undefined) return;
  if (step === undefined) {
    yield value;
  } else if ("member" in step) {
    yield* rowsBelow(member(value, step.member), path, from + 1);
  } else if (step.index !== "*") {
    yield* rowsBelow(element(value, step.index), path, from + 1);
  } else if (Array.isArray(value)) {
    for (const each of value) yield* rowsBelow(each, path, from + 1);
  }
}

/** The members of a record, in order; a record that is no object has none. */
export const membersOf = (value: unknown): [string, unknown][] =>
  isMembers(value) ? Object.entries(value) : [];
