import { QuerySyntaxError, type Token, tokens } from "./lexer.ts";
import {
  type Aggregate,
  type Column,
  type Comparison,
  type DatePart,
  dateParts,
  type Expression,
  type ExtractPart,
  type FieldStep,
  type FunctionName,
  functions,
  type Query,
  type Select,
  type TableStep,
  type TypeName,
} from "./syntax.ts";

/** The dialect's own limits: "Query acceleration SQL language reference", and the REST page for the size. */
const COLUMNS_MAX = 49;
const SPLIT_SIZE_MIN = 10 * 1024 * 1024;
const EXPRESSION_SIZE_MAX = 256 * 1024;
/** How deep and how large an expression may be, so that no query can exhaust the stack or the processor. */
const DEPTH_MAX = 200;
const NODES_MAX = 10_000;
const INTEGER_MAX = 2n ** 63n - 1n;

/** Words that cannot be a field's name without quotes. */
const RESERVED = new Set(
  "SELECT FROM WHERE LIMIT AND OR NOT AS IS NULL MISSING LIKE IN BETWEEN ESCAPE TRUE FALSE CAST".split(
    " ",
  ),
);

const TYPES: Readonly<Record<string, TypeName>> = {
  INT: "INT",
  INTEGER: "INT",
  BIGINT: "INT",
  FLOAT: "FLOAT",
  DOUBLE: "FLOAT",
  DECIMAL: "FLOAT",
  NUMERIC: "FLOAT",
  STRING: "STRING",
  CHAR: "STRING",
  VARCHAR: "STRING",
  TIMESTAMP: "TIMESTAMP",
  BOOL: "BOOLEAN",
  BOOLEAN: "BOOLEAN",
};

const AGGREGATES: Readonly<Record<string, Aggregate["name"]>> = {
  COUNT: "COUNT",
  SUM: "SUM",
  AVG: "AVG",
  AVERAGE: "AVG",
  MIN: "MIN",
  MAX: "MAX",
};

const COMPARISONS: Readonly<Record<string, Comparison>> = {
  "=": "=",
  "!=": "<>",
  "<>": "<>",
  "<": "<",
  "<=": "<=",
  ">": ">",
  ">=": ">=",
};

/** Reads a query, or throws a QuerySyntaxError. */
export function parseQuery(text: string): Query {
  if (Buffer.byteLength(text, "utf8") > EXPRESSION_SIZE_MAX) {
    throw new QuerySyntaxError("The query is longer than 256 KiB.");
  }
  return new Parser(tokens(text)).query();
}

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;
  #nodes = 0;
  readonly #heights = new WeakMap<object, number>();

  constructor(list: readonly Token[]) {
    this.#tokens = list;
  }

  query(): Query {
    this.#expect("SELECT");
    const select = this.#select();
    this.#expect("FROM");
    const from = this.#table();
    const where = this.#takes("WHERE") ? this.#expression() : undefined;
    const limit = this.#takes("LIMIT") ? this.#wholeNumber() : undefined;
    this.#takes(";");
    if (this.#peek().kind !== "end") throw this.#unexpected();
    if (
      select.kind === "split" &&
      (where !== undefined || limit !== undefined || from.length > 0)
    ) {
      throw new QuerySyntaxError("sys.split stands alone: it takes neither WHERE nor LIMIT.");
    }
    return { select, from, where, limit };
  }

  #select(): Select {
    if (this.#takes("*")) return { kind: "all" };
    if (this.#isWord("SYS") && this.#ahead(1).text === ".") return this.#split();
    const plain: Column<Expression>[] = [];
    const aggregates: Column<Aggregate>[] = [];
    do {
      const aggregate = this.#aggregate();
      if (aggregate !== undefined) {
        aggregates.push({ value: aggregate, name: this.#alias() });
        continue;
      }
      const value = this.#expression();
      const last = value.kind === "field" ? value.path.at(-1) : undefined;
      const own = typeof last === "object" ? last.text : undefined;
      plain.push({ value, name: this.#alias() ?? own });
    } while (this.#takes(","));
    if (plain.length + aggregates.length > COLUMNS_MAX) {
      throw new QuerySyntaxError(`A query selects at most ${COLUMNS_MAX} columns, or *.`);
    }
    if (aggregates.length === 0) return { kind: "columns", columns: plain };
    if (plain.length > 0) {
      throw new QuerySyntaxError("A query selects columns or aggregates, not both.");
    }
    return { kind: "aggregates", columns: aggregates };
  }

  #split(): Select {
    this.#expect("SYS");
    this.#expect(".");
    this.#expect("SPLIT");
    this.#expect("(");
    const size = this.#wholeNumber();
    this.#expect(")");
    if (size < SPLIT_SIZE_MIN) {
      throw new QuerySyntaxError(`The size of a split is at least ${SPLIT_SIZE_MIN}.`);
    }
    return { kind: "split", size };
  }

  #aggregate(): Aggregate | undefined {
    const token = this.#peek();
    const name = token.kind === "word" ? AGGREGATES[token.text.toUpperCase()] : undefined;
    if (name === undefined || this.#ahead(1).text !== "(") return undefined;
    this.#at += 2;
    const of = name === "COUNT" && this.#takes("*") ? undefined : this.#expression();
    this.#expect(")");
    return { name, of };
  }

  #alias(): string | undefined {
    const given = this.#takes("AS");
    const token = this.#peek();
    const isName = token.kind === "quoted" || (token.kind === "word" && !isReserved(token.text));
    if (!given && !isName) return undefined;
    if (!isName) throw this.#unexpected();
    this.#at++;
    return token.text;
  }

  #table(): TableStep[] {
    this.#expect("BLOBSTORAGE");
    const steps: TableStep[] = [];
    while (this.#peek().text === "[" || this.#peek().text === ".") {
      if (this.#takes(".")) {
        steps.push({ member: this.#name() });
      } else {
        this.#expect("[");
        steps.push({ index: this.#takes("*") ? "*" : this.#wholeNumber() });
        this.#expect("]");
      }
      this.#count();
    }
    const [first] = steps;
    if (first === undefined) return [];
    // BlobStorage and BlobStorage[*] are the same; a path stands behind the latter.
    if (!("index" in first) || first.index !== "*") {
      throw new QuerySyntaxError("A path in FROM begins with BlobStorage[*].");
    }
    return steps.slice(1);
  }

  #expression(): Expression {
    if (++this.#depth > DEPTH_MAX) throw tooDeep();
    const expression = this.#or();
    this.#depth--;
    return expression;
  }

  #or(): Expression {
    const all = [this.#and()];
    while (this.#takes("OR")) all.push(this.#and());
    return all.length === 1 && all[0] !== undefined ? all[0] : this.#made({ kind: "or", all });
  }

  #and(): Expression {
    const all = [this.#not()];
    while (this.#takes("AND")) all.push(this.#not());
    return all.length === 1 && all[0] !== undefined ? all[0] : this.#made({ kind: "and", all });
  }

  #not(): Expression {
    let isNegated = false;
    while (this.#takes("NOT")) isNegated = !isNegated;
    const of = this.#predicate();
    return isNegated ? this.#made({ kind: "not", of }) : of;
  }

  #predicate(): Expression {
    let left = this.#sum();
    for (;;) {
      const token = this.#peek();
      const sign = token.kind === "sign" ? COMPARISONS[token.text] : undefined;
      if (sign !== undefined) {
        this.#at++;
        left = this.#made({ kind: "comparison", sign, left, right: this.#sum() });
      } else if (this.#takes("IS")) {
        left = this.#is(left);
      } else {
        const isNegated = this.#isWord("NOT");
        if (isNegated) this.#at++;
        const test = this.#test(left);
        if (test === undefined && isNegated) throw this.#unexpected();
        if (test === undefined) return left;
        left = isNegated ? this.#made({ kind: "not", of: test }) : test;
      }
    }
  }

  #is(of: Expression): Expression {
    const isNegated = this.#takes("NOT");
    const kind = this.#takes("MISSING") ? "missing" : "null";
    if (kind === "null") this.#expect("NULL");
    const test = this.#made({ kind, of });
    return isNegated ? this.#made({ kind: "not", of: test }) : test;
  }

  /** LIKE, IN or BETWEEN, if one of them comes. */
  #test(of: Expression): Expression | undefined {
    if (this.#takes("LIKE")) {
      const pattern = this.#sum();
      const escapeMark = this.#takes("ESCAPE") ? this.#sum() : undefined;
      return this.#made({ kind: "like", of, pattern, escapeMark });
    }
    if (this.#takes("IN")) {
      this.#expect("(");
      return this.#made({ kind: "in", of, list: this.#list() });
    }
    if (this.#takes("BETWEEN")) {
      const low = this.#sum();
      this.#expect("AND");
      return this.#made({ kind: "between", of, low, high: this.#sum() });
    }
    return undefined;
  }

  #sum(): Expression {
    let left = this.#product();
    for (;;) {
      const sign = this.#takes("+") ? "+" : this.#takes("-") ? "-" : undefined;
      if (sign === undefined) return left;
      left = this.#made({ kind: "arithmetic", sign, left, right: this.#product() });
    }
  }

  #product(): Expression {
    let left = this.#factor();
    for (;;) {
      const sign = (["*", "/", "%"] as const).find((text) => this.#takes(text));
      if (sign === undefined) return left;
      left = this.#made({ kind: "arithmetic", sign, left, right: this.#factor() });
    }
  }

  #factor(): Expression {
    let isNegative = false;
    for (;;) {
      if (this.#takes("-")) isNegative = !isNegative;
      else if (!this.#takes("+")) break;
    }
    const of = this.#primary();
    if (!isNegative) return of;
    if (of.kind === "literal" && typeof of.value === "bigint") return { ...of, value: -of.value };
    if (of.kind === "literal" && typeof of.value === "number") return { ...of, value: -of.value };
    return this.#made({ kind: "negative", of });
  }

  #primary(): Expression {
    const token = this.#peek();
    if (token.kind === "string") {
      this.#at++;
      return this.#made({ kind: "literal", value: token.text });
    }
    if (token.kind === "number") {
      this.#at++;
      return this.#made({ kind: "literal", value: numberOf(token) });
    }
    if (this.#takes("(")) {
      const inner = this.#expression();
      this.#expect(")");
      return inner;
    }
    if (this.#takes("NULL")) return this.#made({ kind: "literal", value: null });
    if (this.#takes("TRUE")) return this.#made({ kind: "literal", value: true });
    if (this.#takes("FALSE")) return this.#made({ kind: "literal", value: false });
    if (token.kind === "word" && this.#ahead(1).text === "(") return this.#call(token);
    return this.#field();
  }

  #field(): Expression {
    const path: FieldStep[] = [];
    const first = this.#name();
    for (;;) {
      if (this.#takes(".")) {
        path.push(this.#name());
      } else if (this.#takes("[")) {
        path.push(this.#wholeNumber());
        this.#expect("]");
      } else {
        return this.#made({ kind: "field", path: [first, ...path] });
      }
      this.#count();
    }
  }

  #call(token: Token): Expression {
    const name = token.text.toUpperCase();
    this.#at += 2;
    if (++this.#depth > DEPTH_MAX) throw tooDeep();
    const expression = this.#arguments(name, token);
    this.#depth--;
    return expression;
  }

  #arguments(name: string, token: Token): Expression {
    if (name === "CAST") return this.#cast();
    if (name === "TRIM") return this.#trim();
    if (name === "EXTRACT") return this.#extract();
    if (name === "DATE_ADD" || name === "DATE_DIFF") return this.#dates(name);
    if (AGGREGATES[name] !== undefined) {
      throw new QuerySyntaxError(`${name} stands alone in the list of SELECT.`);
    }
    if (!Object.hasOwn(functions, name)) {
      throw new QuerySyntaxError(`There is no function ${token.text}, named at ${token.at}.`);
    }
    const known = name as FunctionName;
    const [least, most] = functions[known];
    const of = this.#list();
    if (of.length < least || of.length > most) {
      throw new QuerySyntaxError(`${name} does not take ${of.length} arguments.`);
    }
    return this.#made({ kind: "call", name: known, of });
  }

  #cast(): Expression {
    const of = this.#expression();
    this.#expect("AS");
    const token = this.#peek();
    const to = token.kind === "word" ? TYPES[token.text.toUpperCase()] : undefined;
    if (to === undefined) throw new QuerySyntaxError(`There is no type ${token.text}.`);
    this.#at++;
    this.#expect(")");
    return this.#made({ kind: "cast", of, to });
  }

  #trim(): Expression {
    const side = (["BOTH", "LEADING", "TRAILING"] as const).find((word) => this.#takes(word));
    const first = this.#isWord("FROM") ? undefined : this.#expression();
    const hasFrom = this.#takes("FROM");
    if (!hasFrom && (side !== undefined || first === undefined)) throw this.#unexpected();
    const of = hasFrom ? this.#expression() : first;
    if (of === undefined) throw this.#unexpected();
    this.#expect(")");
    const characters = hasFrom ? first : undefined;
    return this.#made({ kind: "trim", side: side ?? "BOTH", characters, of });
  }

  #extract(): Expression {
    const part = this.#part(["timezone_hour", "timezone_minute"]);
    this.#expect("FROM");
    const of = this.#expression();
    this.#expect(")");
    return this.#made({ kind: "extract", part, of });
  }

  #dates(name: "DATE_ADD" | "DATE_DIFF"): Expression {
    const part = this.#part([]) as DatePart;
    this.#expect(",");
    const left = this.#expression();
    this.#expect(",");
    const right = this.#expression();
    this.#expect(")");
    return this.#made({ kind: name === "DATE_ADD" ? "dateAdd" : "dateDiff", part, left, right });
  }

  /** A part of a date, as a word or between quotes. */
  #part(more: readonly ExtractPart[]): ExtractPart {
    const token = this.#peek();
    const isText = token.kind === "word" || token.kind === "string";
    const part = [...dateParts, ...more].find((name) => name === token.text.toLowerCase());
    if (!isText || part === undefined) {
      throw new QuerySyntaxError(`'${token.text}' at ${token.at} is no part of a date.`);
    }
    this.#at++;
    return part;
  }

  /** Expressions up to the closing parenthesis. */
  #list(): Expression[] {
    const list: Expression[] = [];
    if (this.#takes(")")) return list;
    do list.push(this.#expression());
    while (this.#takes(","));
    this.#expect(")");
    return list;
  }

  #name() {
    const token = this.#peek();
    const isQuoted = token.kind === "quoted";
    if (!isQuoted && (token.kind !== "word" || isReserved(token.text))) throw this.#unexpected();
    this.#at++;
    return { text: token.text, exact: isQuoted };
  }

  #wholeNumber(): number {
    const token = this.#peek();
    const value = token.kind === "number" && /^\d{1,15}$/.test(token.text) ? token.text : undefined;
    if (value === undefined) throw this.#unexpected();
    this.#at++;
    return Number(value);
  }

  #peek(): Token {
    return this.#ahead(0);
  }

  #ahead(count: number): Token {
    const last = this.#tokens.length - 1;
    return this.#tokens[Math.min(this.#at + count, last)] as Token;
  }

  #isWord(word: string): boolean {
    const token = this.#peek();
    return token.kind === "word" && token.text.toUpperCase() === word;
  }

  /** Passes over a sign or a keyword, if it is the next token. */
  #takes(text: string): boolean {
    const token = this.#peek();
    const is = token.kind === "sign" ? token.text === text : this.#isWord(text);
    if (is) this.#at++;
    return is;
  }

  #expect(text: string): void {
    if (!this.#takes(text)) throw this.#unexpected(text);
  }

  /** A node of the tree, counted; a chain such as 1+1+1 is as deep as it is long. */
  #made<T extends Expression>(node: T): T {
    this.#count();
    let height = 0;
    for (const part of Object.values(node).flat()) {
      if (typeof part === "object" && part !== null) {
        height = Math.max(height, this.#heights.get(part) ?? 0);
      }
    }
    if (height >= DEPTH_MAX) throw tooDeep();
    this.#heights.set(node, height + 1);
    return node;
  }

  #count(): void {
    if (++this.#nodes > NODES_MAX) throw new QuerySyntaxError("The query is too large.");
  }

  #unexpected(wanted?: string): QuerySyntaxError {
    const { kind, text, at } = this.#peek();
    const found = kind === "end" ? "the end" : `'${text}' at ${at}`;
    return new QuerySyntaxError(
      wanted === undefined ? `Unexpected ${found}.` : `${wanted} is wanted, not ${found}.`,
    );
  }
}

const tooDeep = () => new QuerySyntaxError("The query is nested too deep.");

const isReserved = (word: string): boolean => RESERVED.has(word.toUpperCase());

function numberOf({ text, at }: Token): bigint | number {
  if (!/^\d+$/.test(text)) return Number(text);
  const value = text.length > 20 ? INTEGER_MAX + 1n : BigInt(text);
  if (value > INTEGER_MAX) throw new QuerySyntaxError(`The number at ${at} exceeds 64 bits.`);
  return value;
}
