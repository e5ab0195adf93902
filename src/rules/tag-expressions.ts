import type { Tags } from "./tags.ts";

/** One comparison of a tag with a text, or several joined; Azure compares texts by their characters' codes. */
export type TagExpression =
  | { readonly key: string; readonly operator: Operator; readonly value: string }
  | { readonly all: readonly TagExpression[] }
  | { readonly any: readonly TagExpression[] };

export type Operator = "=" | "<>" | ">" | ">=" | "<" | "<=";
export type Comparison = Extract<TagExpression, { readonly key: string }>;

const LOGICAL_MAX = 10;
const TEXT_MAX = 8 * 1024;
const CONTAINER = "@container";
const TOKEN =
  /\s*(?:(<>|>=|<=|=|>|<|\(|\))|'((?:[^']|'')*)'|"((?:[^"]|"")*)"|(@container|[A-Za-z_]\w*))/y;
const VALUE = /^[a-zA-Z0-9 +\-./:=_]*$/;

type Token =
  | { readonly kind: "sign"; readonly text: string }
  | { readonly kind: "value"; readonly text: string }
  | { readonly kind: "name"; readonly text: string; readonly quoted: boolean };

function tokensOf(text: string): Token[] | undefined {
  if (text.length > TEXT_MAX) return undefined;
  const tokens: Token[] = [];
  const end = text.trimEnd().length;
  for (TOKEN.lastIndex = 0; TOKEN.lastIndex < end; ) {
    const match = TOKEN.exec(text);
    if (match === null) return undefined;
    const [, sign, value, quoted, bare] = match;
    if (sign !== undefined) tokens.push({ kind: "sign", text: sign });
    else if (value !== undefined) tokens.push({ kind: "value", text: value.replaceAll("''", "'") });
    else if (quoted !== undefined)
      tokens.push({ kind: "name", text: quoted.replaceAll('""', '"'), quoted: true });
    else tokens.push({ kind: "name", text: bare ?? "", quoted: false });
  }
  return tokens;
}

/** Reads tokens one after another; every method gives undefined where the text is none. */
class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #logical = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  whole(): TagExpression | undefined {
    const expression = this.#any();
    return this.#at === this.#tokens.length ? expression : undefined;
  }

  #any(): TagExpression | undefined {
    return this.#joined(
      "OR",
      () => this.#all(),
      (any) => ({ any }),
    );
  }

  #all(): TagExpression | undefined {
    return this.#joined(
      "AND",
      () => this.#one(),
      (all) => ({ all }),
    );
  }

  #joined(
    word: string,
    part: () => TagExpression | undefined,
    join: (parts: readonly TagExpression[]) => TagExpression,
  ): TagExpression | undefined {
    const parts: TagExpression[] = [];
    do {
      const next = part();
      if (next === undefined) return undefined;
      parts.push(next);
    } while (this.#takes(word));
    this.#logical += parts.length - 1;
    if (this.#logical > LOGICAL_MAX) return undefined;
    return parts.length === 1 ? parts[0] : join(parts);
  }

  #one(): TagExpression | undefined {
    const token = this.#tokens[this.#at++];
    if (token?.kind === "sign" && token.text === "(") {
      const inner = this.#at < this.#tokens.length ? this.#any() : undefined;
      const close = this.#tokens[this.#at++];
      return close?.kind === "sign" && close.text === ")" ? inner : undefined;
    }
    const sign = this.#tokens[this.#at++];
    const value = this.#tokens[this.#at++];
    if (token?.kind !== "name" || sign?.kind !== "sign" || value?.kind !== "value")
      return undefined;
    if ("()".includes(sign.text) || !VALUE.test(value.text)) return undefined;
    if (token.text === "" || (token.quoted && !VALUE.test(token.text))) return undefined;
    return { key: token.text, operator: sign.text as Operator, value: value.text };
  }

  #takes(word: string): boolean {
    const token = this.#tokens[this.#at];
    if (token?.kind !== "name" || token.quoted || token.text.toUpperCase() !== word) return false;
    this.#at++;
    return true;
  }
}

/** Reads an `x-ms-if-tags` condition; undefined if it is none ("Specifying conditional headers", tags). */
export const parseTagCondition = (text: string): TagExpression | undefined => parsed(text, false);

function parsed(text: string, mayNameContainer: boolean): TagExpression | undefined {
  const tokens = tokensOf(text);
  if (tokens === undefined || depthOf(tokens) > LOGICAL_MAX) return undefined;
  const namesContainer = tokens.some((token) => token.kind === "name" && token.text === CONTAINER);
  return namesContainer && !mayNameContainer ? undefined : new Parser(tokens).whole();
}

/** How deep parentheses stand in each other. */
function depthOf(tokens: readonly Token[]): number {
  let depth = 0;
  let deepest = 0;
  for (const { kind, text } of tokens) {
    if (kind !== "sign") continue;
    if (text === "(") deepest = Math.max(deepest, ++depth);
    else if (text === ")") depth--;
  }
  return deepest;
}

/** What Find Blobs by Tags looks for. */
export type TagSearch = {
  readonly comparisons: readonly Comparison[];
  readonly container: string | undefined;
};

/**
 * Reads a `where`: comparisons joined by AND, none of them `<>`; `@container = 'name'` where one may be named
 * ("Find Blobs by Tags"). Undefined if it is none.
 */
export function parseTagSearch(text: string, mayNameContainer: boolean): TagSearch | undefined {
  const expression = parsed(text, mayNameContainer);
  if (expression === undefined) return undefined;
  const parts = "all" in expression ? expression.all.flatMap(flat) : [expression];
  const comparisons: Comparison[] = [];
  let container: string | undefined;
  for (const part of parts) {
    if (!("key" in part) || part.operator === "<>") return undefined;
    if (part.key === CONTAINER) {
      if (part.operator !== "=" || container !== undefined) return undefined;
      container = part.value;
    } else {
      comparisons.push(part);
    }
  }
  return comparisons.length === 0 ? undefined : { comparisons, container };
}

const flat = (part: TagExpression): readonly TagExpression[] =>
  "all" in part ? part.all.flatMap(flat) : [part];

/** Whether tags meet an expression; a tag that is not there meets no comparison. */
export function meetsTags(expression: TagExpression, tags: Tags | undefined): boolean {
  if ("all" in expression) return expression.all.every((part) => meetsTags(part, tags));
  if ("any" in expression) return expression.any.some((part) => meetsTags(part, tags));
  const { key, operator, value } = expression;
  const tag = tags !== undefined && Object.hasOwn(tags, key) ? tags[key] : undefined;
  return tag !== undefined && compares(tag, operator, value);
}

function compares(tag: string, operator: Operator, value: string): boolean {
  switch (operator) {
    case "=":
      return tag === value;
    case "<>":
      return tag !== value;
    case ">":
      return tag > value;
    case ">=":
      return tag >= value;
    case "<":
      return tag < value;
    case "<=":
      return tag <= value;
  }
}
