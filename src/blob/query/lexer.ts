/** One word of a query; `at` is where it begins, for messages. */
export type Token =
  | { readonly kind: "word"; readonly text: string; readonly at: number }
  /** A name between double quotes: its case counts, and it is never a keyword. */
  | { readonly kind: "quoted"; readonly text: string; readonly at: number }
  | { readonly kind: "string"; readonly text: string; readonly at: number }
  | { readonly kind: "number"; readonly text: string; readonly at: number }
  | { readonly kind: "sign"; readonly text: string; readonly at: number }
  | { readonly kind: "end"; readonly text: ""; readonly at: number };

/** Why a text is no query of the dialect, as a sentence. */
export class QuerySyntaxError extends Error {}

const SPACE = /\s*/y;
const WORD = /[\p{L}_][\p{L}\p{N}_]*/uy;
const NUMBER = /(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?/y;
const SIGN = /<>|!=|<=|>=|[=<>+\-*/%(),.;[\]]/y;

/** Takes a query apart into words ("Query acceleration SQL language reference"). */
export function tokens(text: string): Token[] {
  const list: Token[] = [];
  let at = 0;
  const taken = (form: RegExp): string | undefined => {
    form.lastIndex = at;
    return form.exec(text)?.[0];
  };
  for (;;) {
    at += taken(SPACE)?.length ?? 0;
    if (at >= text.length) break;
    const first = text[at];
    if (first === "'" || first === '"') {
      const { value, end } = between(text, at, first);
      list.push({ kind: first === "'" ? "string" : "quoted", text: value, at });
      at = end;
      continue;
    }
    const word = taken(WORD);
    // A digit may also begin what only looks like a number: 1a is neither.
    const number = word === undefined ? taken(NUMBER) : undefined;
    const sign = word === undefined && number === undefined ? taken(SIGN) : undefined;
    const found = word ?? number ?? sign;
    if (found === undefined) throw new QuerySyntaxError(`Unexpected '${first}' at ${at}.`);
    const kind = word !== undefined ? "word" : number !== undefined ? "number" : "sign";
    list.push({ kind, text: found, at });
    at += found.length;
    if (number !== undefined && taken(WORD) !== undefined) {
      throw new QuerySyntaxError(`Unexpected '${text[at]}' at ${at}.`);
    }
  }
  list.push({ kind: "end", text: "", at: text.length });
  return list;
}

/** What stands between two quotes; a quote in it is written twice. */
function between(text: string, start: number, quote: string): { value: string; end: number } {
  let value = "";
  for (let from = start + 1; ; ) {
    const end = text.indexOf(quote, from);
    if (end === -1) throw new QuerySyntaxError(`The quote at ${start} is not closed.`);
    value += text.slice(from, end);
    if (text[end + 1] !== quote) return { value, end: end + 1 };
    value += quote;
    from = end + 2;
  }
}
