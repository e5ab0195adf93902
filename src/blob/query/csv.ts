import { type BinaryText, BYTE_ORDER_MARK, ROW_SIZE_MAX } from "./binary.ts";
import { QueryFault } from "./values.ts";

/** How delimited text is written; `quote` and `escapeMark` are one character, or empty for none. */
export type Dialect = {
  readonly column: BinaryText;
  readonly record: BinaryText;
  readonly quote: BinaryText;
  readonly escapeMark: BinaryText;
};

/** A row as it stands in the blob, and its columns without quotes. */
export type CsvRow = {
  readonly at: number;
  readonly raw: BinaryText;
  readonly columns: readonly BinaryText[];
};

const RETURN = 13;

/** Cuts delimited text into rows, however the text is cut into parts; lines without a character are no rows. */
export class CsvReader {
  readonly #dialect: Dialect;
  readonly #quote: number;
  readonly #escapeMark: number;
  #text: BinaryText = "";
  /** Where the text begins in the blob, and where the next row begins in the text. */
  #base = 0;
  #at = 0;
  #isLast = false;
  #hasBegun = false;

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
    this.#quote = dialect.quote === "" ? -1 : dialect.quote.charCodeAt(0);
    this.#escapeMark = dialect.escapeMark === "" ? -1 : dialect.escapeMark.charCodeAt(0);
  }

  /** Where the row begins that is read next, or that could not be read. */
  get position(): number {
    return this.#base + this.#at;
  }

  /** Adds the next part of the text; no more comes after the last one. */
  feed(text: BinaryText, isLast: boolean): void {
    this.#base += this.#at;
    this.#text = this.#text.slice(this.#at) + text;
    this.#at = 0;
    this.#isLast = isLast;
  }

  /** The next row; undefined if the text so far has no whole one. */
  next(): CsvRow | undefined {
    if (!this.#begins()) return undefined;
    while (this.#at < this.#text.length) {
      const row = this.#row();
      const size = (row === undefined ? this.#text.length : this.#at) - (row?.start ?? this.#at);
      if (size > ROW_SIZE_MAX) {
        throw new QueryFault("RecordTooLarge", `A row is longer than ${ROW_SIZE_MAX} bytes.`, true);
      }
      if (row === undefined) return undefined;
      if (row.raw !== "") {
        return { at: this.#base + row.start, raw: row.raw, columns: row.columns };
      }
    }
    return undefined;
  }

  /** Passes over a byte order mark; whether the text is long enough to tell. */
  #begins(): boolean {
    if (this.#hasBegun) return true;
    if (this.#text.length < BYTE_ORDER_MARK.length && !this.#isLast) return false;
    this.#hasBegun = true;
    if (this.#text.startsWith(BYTE_ORDER_MARK)) this.#at = BYTE_ORDER_MARK.length;
    return true;
  }

  #row(): { start: number; raw: BinaryText; columns: readonly BinaryText[] } | undefined {
    const { column, record } = this.#dialect;
    const start = this.#at;
    const found = this.#text.indexOf(record, start);
    if (found === -1 && !this.#isLast) return undefined;
    const end = found === -1 ? this.#text.length : found;
    const raw = this.#withoutReturn(this.#text.slice(start, end));
    if (this.#isSpecial(raw)) return this.#careful(start);
    this.#at = found === -1 ? end : end + record.length;
    return { start, raw, columns: raw.split(column) };
  }

  #isSpecial(raw: BinaryText): boolean {
    const { quote, escapeMark } = this.#dialect;
    return (quote !== "" && raw.includes(quote)) || (escapeMark !== "" && raw.includes(escapeMark));
  }

  /** Where lines end with \n, a \r before it belongs to the end. */
  #withoutReturn(text: BinaryText): BinaryText {
    const isEnd = this.#dialect.record === "\n" && text.charCodeAt(text.length - 1) === RETURN;
    return isEnd ? text.slice(0, -1) : text;
  }

  /** Reads a row that has quotes or escapes, character by character. */
  #careful(start: number) {
    const text = this.#text;
    const { column, record } = this.#dialect;
    const columns: BinaryText[] = [];
    let value = "";
    let at = start;
    let from = start;
    let isQuoted = false;
    let isFresh = true; // at the beginning of a column
    const ended = (end: number, next: number) => {
      const raw = this.#withoutReturn(text.slice(start, end));
      // The line's end may have been cut off before: then the column has it still.
      const last = value + text.slice(from, end);
      columns.push(raw.length < end - start ? this.#withoutReturn(last) : last);
      this.#at = next;
      return { start, raw, columns };
    };
    for (;;) {
      if (at >= text.length) {
        if (!this.#isLast) return undefined;
        if (isQuoted) throw new QueryFault("ParseError", "A quoted column is not closed.", true);
        return ended(text.length, text.length);
      }
      const code = text.charCodeAt(at);
      const isEscape = code === this.#escapeMark && code !== this.#quote;
      if ((isEscape || code === this.#quote) && at + 1 >= text.length && !this.#isLast) {
        return undefined; // what it means depends on what follows
      }
      if (isEscape) {
        value += text.slice(from, at);
        from = at + 1;
        at += 2;
      } else if (isQuoted) {
        if (code !== this.#quote) {
          at++;
          continue;
        }
        const isDoubled = text.charCodeAt(at + 1) === this.#quote;
        value += text.slice(from, isDoubled ? at + 1 : at);
        at += isDoubled ? 2 : 1;
        from = at;
        isQuoted = isDoubled;
      } else if (code === this.#quote && isFresh) {
        isQuoted = true;
        from = ++at;
      } else if (text.startsWith(column, at)) {
        columns.push(value + text.slice(from, at));
        value = "";
        at += column.length;
        from = at;
        isFresh = true;
        continue;
      } else if (text.startsWith(record, at)) {
        return ended(at, at + record.length);
      } else {
        at++;
      }
      isFresh = false;
    }
  }
}

/** One column as delimited text, in quotes if it must be. */
export function writtenColumn(text: BinaryText, dialect: Dialect): BinaryText {
  const { column, record, quote, escapeMark } = dialect;
  const isPlain =
    !text.includes(column) &&
    !text.includes(record) &&
    !(quote !== "" && text.includes(quote)) &&
    !(escapeMark !== "" && text.includes(escapeMark)) &&
    !/[\r\n]/.test(text);
  if (isPlain || (quote === "" && escapeMark === "")) return text;
  if (quote !== "") {
    const doubled = escapeMark === "" ? text : text.replaceAll(escapeMark, escapeMark + escapeMark);
    const mark = escapeMark === "" ? quote : escapeMark;
    const inner = escapeMark === quote ? doubled : doubled.replaceAll(quote, mark + quote);
    return `${quote}${inner}${quote}`;
  }
  let inner = text.replaceAll(escapeMark, escapeMark + escapeMark);
  for (const separator of [column, record]) {
    inner = inner.replaceAll(separator, escapeMark + separator);
  }
  return inner;
}
