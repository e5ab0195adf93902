/** A member of a JSON object: its name, and its value as it stands in the text. */
export type Member = { readonly name: string; readonly json: string };

/** What is wrong with a text that should be an object of plain values. */
export class FlatJsonError extends Error {}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN = 0x7b;
const CLOSE = 0x7d;
const VALUE = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?=[\s,}]|$)/y;
const CONTROL = /[\u0000-\u001f]/;
const MEMBERS_MAX = 2_000;

/**
 * Reads a JSON object whose values are texts, numbers, true, false or null, and keeps each value as it was
 * written: 1.0 and 1 are different things to OData, and a text without escapes needs no copy. Nothing nests, so
 * nothing can be too deep.
 */
export function parseFlatJson(text: string): Member[] {
  return new Parser(text).members();
}

class Parser {
  readonly #text: string;
  readonly #mayHoldControl: boolean;
  #at = 0;
  #backslash = -2;

  constructor(text: string) {
    this.#text = text;
    this.#mayHoldControl = CONTROL.test(text);
    if (text.charCodeAt(0) === 0xfeff) this.#at = 1;
  }

  members(): Member[] {
    const list: Member[] = [];
    this.#expect(OPEN);
    if (this.#next() === CLOSE) this.#at++;
    else {
      for (;;) {
        if (this.#next() !== QUOTE) throw this.#fault();
        const name = unquoted(this.#quoted());
        this.#expect(COLON);
        list.push({ name, json: this.#value() });
        if (list.length > MEMBERS_MAX) throw new FlatJsonError("an object has too many members");
        if (this.#next() === CLOSE) break;
        this.#expect(COMMA);
      }
      this.#at++;
    }
    if (!Number.isNaN(this.#next())) throw this.#fault();
    return list;
  }

  #value(): string {
    if (this.#next() === QUOTE) return this.#quoted();
    VALUE.lastIndex = this.#at;
    const [json] = VALUE.exec(this.#text) ?? [];
    if (json === undefined) throw this.#fault();
    this.#at += json.length;
    return json;
  }

  /** A text with its quotes; escapes that mean nothing are a fault. */
  #quoted(): string {
    const from = this.#at;
    let end = this.#text.indexOf('"', from + 1);
    if (this.#backslash !== -1 && this.#backslash < from) {
      this.#backslash = this.#text.indexOf("\\", from);
    }
    const escaped = this.#backslash !== -1 && this.#backslash < end;
    if (escaped) end = this.#endOfEscaped(from);
    if (end === -1) throw this.#fault();
    const json = this.#text.slice(from, end + 1);
    if (this.#mayHoldControl && CONTROL.test(json)) throw this.#fault();
    this.#at = end + 1;
    if (!escaped) return json;
    try {
      return JSON.stringify(JSON.parse(json));
    } catch {
      throw this.#fault();
    }
  }

  #endOfEscaped(from: number): number {
    for (let at = from + 1; at < this.#text.length; at++) {
      const code = this.#text.charCodeAt(at);
      if (code === 0x5c) at++;
      else if (code === QUOTE) return at;
    }
    return -1;
  }

  /** Steps over white space; the character that follows, NaN at the end. */
  #next(): number {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return code;
      this.#at++;
    }
  }

  #expect(code: number): void {
    if (this.#next() !== code) throw this.#fault();
    this.#at++;
  }

  #fault(): FlatJsonError {
    return new FlatJsonError(`the text is no object of plain values, at character ${this.#at}`);
  }
}

/** The text behind what `parseFlatJson` gives for one. */
export const unquoted = (json: string): string =>
  json.includes("\\") ? (JSON.parse(json) as string) : json.slice(1, -1);
