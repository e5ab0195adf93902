import {
  type EdmType,
  type EdmValue,
  parseDateTime,
  parseDouble,
  parseInt32,
  parseInt64,
} from "./edm.ts";
import { parseGuid } from "./names.ts";

export type Operator = "eq" | "ne" | "gt" | "ge" | "lt" | "le";

/** A condition on one entity, as `$filter` says it ("Querying Tables and Entities"). */
export type Filter =
  | { readonly kind: "and" | "or"; readonly terms: readonly Filter[] }
  | { readonly kind: "not"; readonly term: Filter }
  | { readonly kind: "constant"; readonly value: boolean }
  | {
      readonly kind: "compare";
      readonly property: string;
      readonly operator: Operator;
      readonly literal: Literal;
    };

/** A constant of a filter; `isBare` says that it is a whole number without a suffix. */
type Literal = EdmValue & { readonly isBare?: true };

/** What is wrong with a filter's text, as a sentence. */
export class FilterError extends Error {}

/** Thrown for a filter that OData knows and tables do not: it calls a function. */
export class UnsupportedFilter extends Error {}

const DEPTH_MAX = 64;
const COMPARISONS_MAX = 300;

/** Reads a filter; throws a `FilterError` for anything that is none, an `UnsupportedFilter` for a function. */
export function parseFilter(text: string): Filter {
  const parser = new Parser(tokensOf(text));
  const filter = parser.or(0);
  parser.end();
  return filter;
}

/** How many comparisons it takes to judge an entity, at most. */
export function comparisonsIn(filter: Filter): number {
  if (filter.kind === "compare") return 1;
  if (filter.kind === "constant") return 0;
  if (filter.kind === "not") return comparisonsIn(filter.term);
  let count = 0;
  for (const term of filter.terms) count += comparisonsIn(term);
  return count;
}

/**
 * Whether an entity meets a filter. A comparison with a property that is not there, or is of another type than
 * the literal, is false, whatever the operator; `not` turns it. Only a
 * whole number fits more than one type: see `valueAs`.
 */
export function matches(filter: Filter, property: (name: string) => EdmValue | undefined): boolean {
  switch (filter.kind) {
    case "and":
      for (const term of filter.terms) if (!matches(term, property)) return false;
      return true;
    case "or":
      for (const term of filter.terms) if (matches(term, property)) return true;
      return false;
    case "not":
      return !matches(filter.term, property);
    case "constant":
      return filter.value;
    case "compare": {
      const found = property(filter.property);
      if (found === undefined) return false;
      const value = valueAs(filter.literal, found.type);
      return value !== undefined && holds(found.value, filter.operator, value);
    }
  }
}

/**
 * A literal as a value of a property's type, undefined if it is none. The service holds a whole number without a
 * suffix against all types of numbers; 5L and 5.0 are compared with nothing but their own (reports:
 * microsoft/AzureStorageExplorer#5346 and #6866).
 */
function valueAs(literal: Literal, wanted: EdmType): EdmValue["value"] | undefined {
  const { type, value, isBare } = literal;
  if (type === wanted) return value;
  if (!isBare) return undefined;
  if (wanted === "Int64") return BigInt(value);
  return wanted === "Double" || wanted === "Int32" ? Number(value) : undefined;
}

/** Whether a comparison of two values of one type is true. */
export function holds(
  left: EdmValue["value"],
  operator: Operator,
  right: EdmValue["value"],
): boolean {
  switch (operator) {
    case "eq":
      return left === right;
    case "ne":
      return left !== right;
    case "gt":
      return left > right;
    case "ge":
      return left >= right;
    case "lt":
      return left < right;
    case "le":
      return left <= right;
  }
}

type Token =
  | { readonly kind: "(" | ")" | "," }
  | { readonly kind: "word"; readonly text: string }
  | { readonly kind: "literal"; readonly value: Literal };

const SPACE = /\s+/y;
const WORD = /[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Nd}\p{Pc}\p{Mn}\p{Mc}\p{Cf}]*/uy;
const QUOTED = /'((?:[^']|'')*)'/y;
const NUMBER =
  /[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[LlDdFfMm]?(?![\p{L}\p{Nd}_.'])|-(?:INF|Infinity)(?!\w)/uy;

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  const taken = (form: RegExp): RegExpExecArray | null => {
    form.lastIndex = at;
    const match = form.exec(text);
    if (match !== null) at += match[0].length;
    return match;
  };
  while (at < text.length) {
    if (taken(SPACE) !== null) continue;
    const start = at;
    const first = text[at];
    if (first === "(" || first === ")" || first === ",") {
      tokens.push({ kind: first });
      at++;
      continue;
    }
    const word = taken(WORD)?.[0];
    if (word !== undefined && text[at] !== "'") {
      tokens.push(wordToken(word));
      continue;
    }
    const quoted = taken(QUOTED)?.[1];
    if (quoted !== undefined) {
      tokens.push({ kind: "literal", value: quotedLiteral(word ?? "", quoted, start) });
      continue;
    }
    const number = taken(NUMBER)?.[0];
    if (number === undefined) throw new FilterError(`character ${start} begins nothing known`);
    tokens.push({ kind: "literal", value: numberLiteral(number, start) });
  }
  return tokens;
}

/** A name, or a literal that looks like one. Booleans are taken in any case. */
function wordToken(word: string): Token {
  const lower = word.length <= 5 ? word.toLowerCase() : "";
  if (lower === "true" || lower === "false") {
    return { kind: "literal", value: { type: "Boolean", value: lower === "true" } };
  }
  if (word === "NaN" || word === "INF" || word === "Infinity") {
    return { kind: "literal", value: { type: "Double", value: parseDouble(word) ?? Number.NaN } };
  }
  return { kind: "word", text: word };
}

const HEX = /^(?:[0-9A-Fa-f]{2})*$/;

/** A text between quotes, with the name of its type before it if it is not a String. */
function quotedLiteral(prefix: string, quoted: string, at: number): EdmValue {
  const text = quoted.includes("'") ? quoted.replaceAll("''", "'") : quoted;
  if (prefix === "") return { type: "String", value: text };
  if (prefix === "datetime") {
    const value = parseDateTime(text);
    if (value !== undefined) return { type: "DateTime", value };
  } else if (prefix === "guid") {
    const value = parseGuid(text);
    if (value !== undefined) return { type: "Guid", value };
  } else if ((prefix === "X" || prefix === "binary") && HEX.test(text)) {
    return { type: "Binary", value: Buffer.from(text, "hex").toString("latin1") };
  }
  throw new FilterError(`the literal at character ${at} is none`);
}

// Differs from Azure: a number too large for an Int32 needs no L in a filter; the service refuses it, and yet
// the SDK for JavaScript writes none.
/** L marks an Int64, D a Double; a point or an exponent makes a Double, anything else is an Int32 if it fits. */
function numberLiteral(text: string, at: number): Literal {
  const [, digits = text, suffix = ""] = /^([^I]*?)([LlDdFfMm]?)$/.exec(text) ?? [];
  const isBare = suffix === "" && /^[+-]?\d+$/.test(digits);
  if (isBare) {
    const int32 = parseInt32(digits);
    if (int32 !== undefined) return { type: "Int32", value: int32, isBare };
  }
  if (isBare || /l/i.test(suffix)) {
    const int64 = parseInt64(digits);
    if (int64 !== undefined) return { type: "Int64", value: int64, ...(isBare ? { isBare } : {}) };
  } else {
    const double = parseDouble(digits);
    if (double !== undefined) return { type: "Double", value: double };
  }
  throw new FilterError(`the number at character ${at} is out of range`);
}

/** What an operator becomes when its sides change places. */
const turned: Readonly<Record<Operator, Operator>> = {
  eq: "eq",
  ne: "ne",
  gt: "lt",
  ge: "le",
  lt: "gt",
  le: "ge",
};

const isOperator = (text: string): text is Operator => Object.hasOwn(turned, text);

/** Precedence: comparison, not, and, or. Depth and count are bounded, since the text is anybody's. */
class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #comparisons = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  or(depth: number): Filter {
    return this.#chain("or", () => this.#chain("and", () => this.#not(depth)));
  }

  end(): void {
    if (this.#at < this.#tokens.length) throw new FilterError("the filter goes on behind its end");
  }

  #chain(kind: "and" | "or", term: () => Filter): Filter {
    const first = term();
    const terms = [first];
    while (this.#word() === kind) {
      this.#at++;
      terms.push(term());
    }
    return terms.length === 1 ? first : { kind, terms };
  }

  #not(depth: number): Filter {
    if (depth > DEPTH_MAX) throw new FilterError("the filter nests too deep");
    const next = this.#tokens[this.#at];
    if (next?.kind === "(") {
      this.#at++;
      const inner = this.or(depth + 1);
      if (this.#tokens[this.#at]?.kind !== ")")
        throw new FilterError("a parenthesis is not closed");
      this.#at++;
      return inner;
    }
    if (this.#word() === "not" && !this.#isCompared()) {
      this.#at++;
      return { kind: "not", term: this.#not(depth + 1) };
    }
    return this.#comparison();
  }

  /** Whether an operator follows: then even the word before it is a property's name. */
  #isCompared(): boolean {
    const after = this.#tokens[this.#at + 1];
    return after?.kind === "word" && isOperator(after.text) && this.#hasOperand(this.#at + 2);
  }

  #hasOperand(at: number): boolean {
    return this.#tokens[at]?.kind === "literal";
  }

  #comparison(): Filter {
    if (++this.#comparisons > COMPARISONS_MAX) throw new FilterError("the filter is too long");
    const left = this.#operand();
    const word = this.#word();
    if (word === undefined || !isOperator(word)) {
      if (left.kind === "word") {
        if (isOperator(left.text)) throw new FilterError(`"${left.text}" compares nothing`);
        const literal = { type: "Boolean", value: true } as const;
        return { kind: "compare", property: left.text, operator: "eq", literal };
      }
      if (left.value.type !== "Boolean") throw new FilterError("a literal stands alone");
      return { kind: "constant", value: left.value.value === true };
    }
    this.#at++;
    const right = this.#operand();
    if (left.kind === "word" && right.kind === "literal") {
      return { kind: "compare", property: left.text, operator: word, literal: right.value };
    }
    if (left.kind === "literal" && right.kind === "word") {
      const operator = turned[word];
      return { kind: "compare", property: right.text, operator, literal: left.value };
    }
    throw new FilterError("a comparison takes one property and one literal");
  }

  #operand(): Extract<Token, { kind: "word" | "literal" }> {
    const token = this.#tokens[this.#at++];
    if (token?.kind !== "word" && token?.kind !== "literal") {
      throw new FilterError("a property or a literal is missing");
    }
    if (token.kind === "word" && (token.text === "and" || token.text === "or")) {
      throw new FilterError(`"${token.text}" stands where a comparison should`);
    }
    if (token.kind === "word" && this.#tokens[this.#at]?.kind === "(") {
      throw new UnsupportedFilter(`"${token.text}" is a function, and tables have none`);
    }
    return token;
  }

  #word(): string | undefined {
    const token = this.#tokens[this.#at];
    return token?.kind === "word" ? token.text : undefined;
  }
}
