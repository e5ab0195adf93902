import type { Instant } from "../../base/time.ts";
import { dateAdded, dateDifference, dateText } from "./dates.ts";
import type { Arithmetic, Comparison, Expression } from "./syntax.ts";
import {
  badConversion,
  cast,
  checkedInteger,
  compare,
  datePart,
  integer,
  missing,
  numeric,
  QueryFault,
  Timestamp,
  textOf,
  timestamp,
  timestampAt,
  timestampText,
  truth,
  type Value,
} from "./values.ts";

/** An expression as a function of a row. */
export type Evaluate<Row> = (row: Row) => Value;

/** What expressions work with: how a field is found, what time it is, and how much work a row may cost. */
export type Environment<Row> = {
  field(path: (Expression & { kind: "field" })["path"]): Evaluate<Row>;
  readonly now: Instant;
  readonly work: Work;
};

const ROW_WORK_MAX = 32 * 1024 * 1024;

/** Counts the characters that functions look at, so that no row can keep the processor for itself. */
export class Work {
  #row = 0;
  /** All that was done since somebody last asked. */
  total = 0;

  beginRow(): void {
    this.#row = 0;
  }

  spend(count: number): void {
    this.total += count;
    this.#row += count;
    if (this.#row > ROW_WORK_MAX) {
      throw new QueryFault("ResourceLimit", "The query costs too much on this row.", true);
    }
  }
}

const isNone = (value: Value): value is null | typeof missing =>
  value === null || value === missing;

/** Turns an expression into a function; unknown is null, as SQL has it. */
export function compiled<Row>(expression: Expression, around: Environment<Row>): Evaluate<Row> {
  const { work } = around;
  const of = (part: Expression) => compiled(part, around);
  /** A function of values that are there; null where one of them is not. */
  const strict: Strict<Row> = (parts, apply) => {
    const evaluates = parts.map(of);
    return (row) => {
      const values: Value[] = [];
      for (const evaluate of evaluates) {
        const value = evaluate(row);
        if (isNone(value)) return null;
        values.push(value);
      }
      return apply(...(values as [Value, Value, Value]));
    };
  };
  switch (expression.kind) {
    case "literal": {
      const { value } = expression;
      return () => value;
    }
    case "field":
      return around.field(expression.path);
    case "and":
      return connected(expression.all.map(of), false);
    case "or":
      return connected(expression.all.map(of), true);
    case "not":
      return strict([expression.of], (value) => !truth(value));
    case "negative":
      return strict([expression.of], (value) => {
        const number = numeric(value);
        return typeof number === "bigint" ? checkedInteger(-number) : -number;
      });
    case "comparison": {
      const holds = COMPARISONS[expression.sign];
      const left = of(expression.left);
      const right = of(expression.right);
      return (row) => {
        const one = left(row);
        const other = right(row);
        work.spend(1);
        return isNone(one) || isNone(other) ? null : holds(compare(one, other));
      };
    }
    case "arithmetic": {
      const { sign } = expression;
      return strict([expression.left, expression.right], (left, right) => {
        work.spend(1);
        return calculated(sign, left, right);
      });
    }
    case "like": {
      const escapeMark =
        expression.escapeMark === undefined ? undefined : of(expression.escapeMark);
      const matches = likeMatcher(work);
      const value = of(expression.of);
      const pattern = of(expression.pattern);
      return (row) => {
        const text = value(row);
        const form = pattern(row);
        const mark = escapeMark === undefined ? "" : escapeMark(row);
        if (isNone(text) || isNone(form) || isNone(mark)) return null;
        return matches(textOf(text), textOf(form), textOf(mark));
      };
    }
    case "in": {
      const value = of(expression.of);
      const list = expression.list.map(of);
      return (row) => {
        const one = value(row);
        if (isNone(one)) return null;
        let hasNull = false;
        for (const evaluate of list) {
          const other = evaluate(row);
          work.spend(1);
          if (isNone(other)) hasNull = true;
          else if (compare(one, other) === 0) return true;
        }
        return hasNull ? null : false;
      };
    }
    case "between":
      return strict(
        [expression.of, expression.low, expression.high],
        (value, low, high) => compare(value, low) >= 0 && compare(value, high) <= 0,
      );
    case "null": {
      const value = of(expression.of);
      return (row) => isNone(value(row));
    }
    case "missing": {
      const value = of(expression.of);
      return (row) => {
        try {
          return value(row) === missing;
        } catch (error) {
          // A column that this row does not reach is missing too.
          if (error instanceof QueryFault && error.name === NO_COLUMN) return true;
          throw error;
        }
      };
    }
    case "cast": {
      const value = of(expression.of);
      return (row) => cast(value(row), expression.to);
    }
    case "trim": {
      const { side, characters } = expression;
      const parts = characters === undefined ? [expression.of] : [expression.of, characters];
      return strict(parts, (value, set) => {
        const text = textOf(value);
        work.spend(text.length);
        return trimmed(text, characters === undefined ? " " : textOf(set), side);
      });
    }
    case "extract":
      return strict([expression.of], (value) => datePart(timestamp(value), expression.part));
    case "dateAdd":
      return strict([expression.left, expression.right], (quantity, date) =>
        dateAdded(timestamp(date), expression.part, integer(quantity)),
      );
    case "dateDiff":
      return strict([expression.left, expression.right], (from, to) =>
        dateDifference(timestamp(from), timestamp(to), expression.part),
      );
    case "call":
      return called(expression, around, strict, of);
  }
}

/** The name of the fault that a row has no such column. */
export const NO_COLUMN = "InvalidColumnOrdinal";

/** Makes a function of as many values as there are parts. */
type Strict<Row> = (
  parts: readonly Expression[],
  apply: (one: Value, two: Value, three: Value) => Value,
) => Evaluate<Row>;

function called<Row>(
  { name, of: parts }: Expression & { kind: "call" },
  { now, work }: Environment<Row>,
  strict: Strict<Row>,
  of: (part: Expression) => Evaluate<Row>,
): Evaluate<Row> {
  const text = (value: Value): string => {
    const string = textOf(value);
    work.spend(string.length);
    return string;
  };
  switch (name) {
    case "LOWER":
      return strict(parts, (value) => text(value).toLowerCase());
    case "UPPER":
      return strict(parts, (value) => text(value).toUpperCase());
    case "CHAR_LENGTH":
    case "CHARACTER_LENGTH":
      return strict(parts, (value) => BigInt([...text(value)].length));
    case "SUBSTRING":
      return strict(parts, (value, start, size) =>
        substring(text(value), integer(start), parts.length < 3 ? undefined : integer(size)),
      );
    case "TO_STRING":
      return strict(parts, (value, format) => {
        const date = timestamp(value);
        return parts.length < 2 ? timestampText(date) : dateText(date, text(format));
      });
    case "TO_TIMESTAMP":
      return strict(parts, (value) => timestamp(value));
    case "UTCNOW": {
      const time = new Timestamp(now, 0);
      return () => time;
    }
    case "COALESCE": {
      const all = parts.map(of);
      return (row) => {
        for (const evaluate of all) {
          const value = evaluate(row);
          if (!isNone(value)) return value;
        }
        return null;
      };
    }
    case "NULLIF": {
      const [one, other] = parts.map(of) as [Evaluate<Row>, Evaluate<Row>];
      return (row) => {
        const value = one(row);
        const wanted = other(row);
        return !isNone(value) && !isNone(wanted) && compare(value, wanted) === 0 ? null : value;
      };
    }
  }
}

const COMPARISONS: Readonly<Record<Comparison, (order: number) => boolean>> = {
  "=": (order) => order === 0,
  "<>": (order) => order !== 0,
  "<": (order) => order < 0,
  "<=": (order) => order <= 0,
  ">": (order) => order > 0,
  ">=": (order) => order >= 0,
};

/** AND and OR of SQL's three values; of two integers, the bits, as the reference has it. */
function connected<Row>(all: readonly Evaluate<Row>[], decisive: boolean): Evaluate<Row> {
  return (row) => {
    let result: Value = !decisive;
    let bits: bigint | undefined;
    for (const evaluate of all) {
      const value = evaluate(row);
      if (isNone(value)) {
        result = null;
      } else if (typeof value === "bigint") {
        bits = bits === undefined ? value : decisive ? bits | value : bits & value;
      } else if (truth(value) === decisive) {
        return decisive;
      }
    }
    return bits !== undefined && result !== null ? bits : result;
  };
}

const DAY_MS = 86_400_000;

/** Arithmetic; a number that meets a date counts days. */
export function calculated(sign: Arithmetic, left: Value, right: Value): Value {
  if (left instanceof Timestamp && (sign === "+" || sign === "-")) {
    if (right instanceof Timestamp) throw badConversion();
    const days = Number(numeric(right)) * (sign === "+" ? 1 : -1);
    return timestampAt(left.at + days * DAY_MS, left.offsetMinutes);
  }
  if (right instanceof Timestamp && sign === "+") return calculated(sign, right, left);
  const one = numeric(left);
  const other = numeric(right);
  if ((sign === "/" || sign === "%") && Number(other) === 0) {
    throw new QueryFault("DivideByZero", "A number is divided by zero.");
  }
  if (typeof one === "bigint" && typeof other === "bigint") {
    return checkedInteger(ofIntegers[sign](one, other));
  }
  return ofFloats[sign](Number(one), Number(other));
}

const ofIntegers: Readonly<Record<Arithmetic, (left: bigint, right: bigint) => bigint>> = {
  "+": (left, right) => left + right,
  "-": (left, right) => left - right,
  "*": (left, right) => left * right,
  "/": (left, right) => left / right,
  "%": (left, right) => left % right,
};

const ofFloats: Readonly<Record<Arithmetic, (left: number, right: number) => number>> = {
  "+": (left, right) => left + right,
  "-": (left, right) => left - right,
  "*": (left, right) => left * right,
  "/": (left, right) => left / right,
  "%": (left, right) => left % right,
};

/** The reference counts from zero: SUBSTRING('123456789', 1, 5) is 23456. */
function substring(text: string, start: bigint, size: bigint | undefined): string {
  if (size !== undefined && size < 0n) {
    throw new QueryFault("InvalidArgument", "The size of a substring is negative.");
  }
  const limit = BigInt(text.length);
  const end = size === undefined || start + size > limit ? limit : start + size;
  const from = start < 0n ? 0n : start;
  if (from >= end) return "";
  // Characters beyond 16 bits count once, as CHAR_LENGTH counts them.
  if (!/[\ud800-\udfff]/.test(text)) return text.slice(Number(from), Number(end));
  return [...text].slice(Number(from), Number(end)).join("");
}

function trimmed(text: string, set: string, side: "BOTH" | "LEADING" | "TRAILING"): string {
  const characters = new Set(set);
  const all = [...text];
  let start = 0;
  let end = all.length;
  if (side !== "TRAILING") while (start < end && characters.has(all[start] ?? "")) start++;
  if (side !== "LEADING") while (end > start && characters.has(all[end - 1] ?? "")) end--;
  return all.slice(start, end).join("");
}

/** One element of a pattern: a character, any one, or any number of any. */
type Mark = string | typeof ANY_ONE | typeof ANY;
const ANY_ONE = 1;
const ANY = 2;

/** LIKE, which keeps the last pattern it has taken apart: most often there is but one. */
function likeMatcher(work: Work): (text: string, pattern: string, escapeMark: string) => boolean {
  let last: { pattern: string; escapeMark: string; marks: readonly Mark[] } | undefined;
  return (text, pattern, escapeMark) => {
    if (last?.pattern !== pattern || last.escapeMark !== escapeMark) {
      work.spend(pattern.length);
      last = { pattern, escapeMark, marks: marksOf(pattern, escapeMark) };
    }
    return isLike([...text], last.marks, work);
  };
}

function marksOf(pattern: string, escapeMark: string): Mark[] {
  if ([...escapeMark].length > 1) {
    throw new QueryFault("InvalidArgument", "ESCAPE takes one character.", true);
  }
  const marks: Mark[] = [];
  let isEscaped = false;
  for (const character of pattern) {
    const begins: boolean = !isEscaped && character === escapeMark;
    if (isEscaped) marks.push(character);
    else if (!begins) marks.push(character === "%" ? ANY : character === "_" ? ANY_ONE : character);
    isEscaped = begins;
  }
  if (isEscaped) {
    throw new QueryFault("InvalidArgument", "A pattern ends with its escape character.", true);
  }
  return marks;
}

/** Goes back only to the last "any number": the time is at most the product of both lengths, and is counted. */
function isLike(text: readonly string[], marks: readonly Mark[], work: Work): boolean {
  let at = 0;
  let mark = 0;
  let anyAt = -1;
  let anyText = 0;
  while (at < text.length) {
    work.spend(1);
    const wanted = marks[mark];
    if (wanted === ANY) {
      anyAt = mark++;
      anyText = at;
    } else if (wanted === ANY_ONE || (wanted !== undefined && wanted === text[at])) {
      at++;
      mark++;
    } else if (anyAt >= 0) {
      mark = anyAt + 1;
      at = ++anyText;
    } else {
      return false;
    }
  }
  while (marks[mark] === ANY) mark++;
  return mark === marks.length;
}
