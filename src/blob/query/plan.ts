import type { Instant } from "../../base/time.ts";
import { type BinaryText, decoded, encoded } from "./binary.ts";
import { CsvReader, type CsvRow, writtenColumn } from "./csv.ts";
import { compiled, type Evaluate, NO_COLUMN, type Work } from "./evaluate.ts";
import { type Format, ordinalOf, type QueryRequest } from "./format.ts";
import { fieldValue, JsonReader, type JsonRow, jsonValue, membersOf, rowsBelow } from "./json.ts";
import type { Aggregate, Expression, FieldName, TableStep } from "./syntax.ts";
import {
  compare,
  jsonOf,
  missing,
  numeric,
  QueryFault,
  textOf,
  truth,
  type Value,
} from "./values.ts";

/** A query on its way through a blob: takes parts of it, gives what is to be sent. */
export type Scan = {
  feed(text: BinaryText, isLast: boolean): void;
  /** Deals with the next record; false if there is no whole one yet. Throws a QueryFault. */
  step(): boolean;
  /** Where the record begins that was dealt with last. */
  readonly position: number;
  /** Whether enough rows have been found. */
  readonly isDone: boolean;
  /** What is known only at the end: aggregates. */
  finish(): void;
};

export type ScanOptions = {
  readonly request: QueryRequest;
  readonly now: Instant;
  readonly work: Work;
  /** Takes a row of the result, as it goes out. */
  send(row: BinaryText): void;
};

/** Prepares a query, for the format of its blob. */
export function scanOf(options: ScanOptions): Scan {
  const { input, query } = options.request;
  if (query.select.kind === "split") return splitScan(options, query.select.size);
  return input.kind === "json" ? jsonScan(options) : csvScan(options);
}

/** The columns of a row, named, where a query selects all of them. */
type Named = [name: string, value: Value];

/** How the rows of a source are read. */
type Source<Row> = {
  field(path: (Expression & { kind: "field" })["path"]): Evaluate<Row>;
  all(row: Row): Named[];
  /** The row as it stands in the blob, if it can go out so. */
  raw(row: Row): BinaryText | undefined;
};

/** What becomes of each row: whether it counts, and what is sent or gathered of it. */
class Selection<Row> {
  readonly #options: ScanOptions;
  readonly #source: Source<Row>;
  readonly #where: Evaluate<Row> | undefined;
  readonly #columns: readonly { readonly name: string; readonly evaluate: Evaluate<Row> }[];
  readonly #totals: readonly { readonly name: string; readonly total: Total<Row> }[];
  readonly #limit: number;
  #count = 0;
  #hasHeader: boolean;

  constructor(options: ScanOptions, source: Source<Row>) {
    const { select, where, limit } = options.request.query;
    const { work, now } = options;
    const around = {
      field: (path: (Expression & { kind: "field" })["path"]) => source.field(path),
      now,
      work,
    };
    this.#options = options;
    this.#source = source;
    this.#where = where === undefined ? undefined : compiled(where, around);
    this.#limit = limit ?? Number.POSITIVE_INFINITY;
    this.#columns =
      select.kind !== "columns"
        ? []
        : select.columns.map(({ value, name }, i) => ({
            name: name ?? `_${i + 1}`,
            evaluate: compiled(value, around),
          }));
    this.#totals =
      select.kind !== "aggregates"
        ? []
        : select.columns.map(({ value, name }, i) => ({
            name: name ?? `_${i + 1}`,
            total: new Total(value.name, value.of && compiled(value.of, around)),
          }));
    const { output } = options.request;
    this.#hasHeader = output.kind === "delimited" && output.hasHeaders;
  }

  get isDone(): boolean {
    return this.#count >= this.#limit;
  }

  take(row: Row): void {
    if (this.isDone) return;
    if (this.#where !== undefined) {
      const value = this.#where(row);
      if (value === null || value === missing || !truth(value)) return;
    }
    if (this.#totals.length > 0) {
      // All are evaluated before any is changed: a row that fails counts nowhere.
      const values = this.#totals.map(({ total }) => total.read(row));
      this.#totals.forEach(({ total }, i) => void total.add(values[i] ?? null));
      return;
    }
    const raw = this.#columns.length === 0 && !this.#hasHeader ? this.#source.raw(row) : undefined;
    this.#send(raw ?? this.#named(row));
  }

  finish(): void {
    if (this.#totals.length === 0 || this.isDone) return;
    this.#send(this.#totals.map(({ name, total }): Named => [name, total.value()]));
  }

  #named(row: Row): Named[] {
    if (this.#columns.length === 0) return this.#source.all(row);
    return this.#columns.map(({ name, evaluate }) => [name, evaluate(row)]);
  }

  #send(row: Named[] | BinaryText): void {
    const { send, work } = this.#options;
    const { output } = this.#options.request;
    if (this.#hasHeader && typeof row !== "string") {
      this.#hasHeader = false;
      send(
        writtenRow(
          row.map(([name]): Named => [name, name]),
          output,
        ),
      );
    }
    const text = typeof row === "string" ? row : writtenRow(row, output);
    work.spend(text.length);
    send(text);
    this.#count++;
  }
}

function writtenRow(row: readonly Named[], output: Format): BinaryText {
  if (output.kind === "delimited") {
    const { dialect } = output;
    const columns = row.map(([, value]) => writtenColumn(encoded(textOf(value)), dialect));
    return columns.join(dialect.column) + dialect.record;
  }
  const members = row
    .filter(([, value]) => value !== missing)
    .map(([name, value]) => `${JSON.stringify(name)}:${jsonOf(value)}`);
  return `${encoded(`{${members.join(",")}}`)}${output.separator}`;
}

/** One aggregate, as far as it has come. */
class Total<Row> {
  readonly #name: Aggregate["name"];
  readonly #of: Evaluate<Row> | undefined;
  #count = 0n;
  #sum: bigint | number = 0n;
  #extreme: Value = null;

  constructor(name: Aggregate["name"], of: Evaluate<Row> | undefined) {
    this.#name = name;
    this.#of = of;
  }

  read(row: Row): Value {
    if (this.#of === undefined) return true; // COUNT(*)
    const value = this.#of(row);
    if (value === null || value === missing) return null;
    if (this.#name === "SUM" || this.#name === "AVG") return numeric(value);
    // Proves that the two can be compared, before anything is counted.
    if (this.#name !== "COUNT" && this.#extreme !== null) compare(value, this.#extreme);
    return value;
  }

  add(value: Value): void {
    if (value === null) return;
    this.#count++;
    if (this.#name === "SUM" || this.#name === "AVG") {
      const number = value as bigint | number;
      const both = typeof number === "bigint" && typeof this.#sum === "bigint";
      this.#sum = both ? (this.#sum as bigint) + number : Number(this.#sum) + Number(number);
    } else if (this.#name !== "COUNT") {
      const order = this.#extreme === null ? 0 : compare(value, this.#extreme);
      const isFurther = this.#name === "MIN" ? order < 0 : order > 0;
      if (this.#extreme === null || isFurther) this.#extreme = value;
    }
  }

  value(): Value {
    if (this.#name === "COUNT") return this.#count;
    if (this.#count === 0n) return null;
    if (this.#name === "SUM") return this.#sum;
    if (this.#name === "AVG") return Number(this.#sum) / Number(this.#count);
    return this.#extreme;
  }
}

const sameText = (one: Format, other: Format): boolean =>
  one.kind === "delimited" &&
  other.kind === "delimited" &&
  one.dialect.column === other.dialect.column &&
  one.dialect.quote === other.dialect.quote &&
  one.dialect.escapeMark === other.dialect.escapeMark &&
  one.dialect.record === other.dialect.record;

function csvScan(options: ScanOptions): Scan {
  const { input, output } = options.request;
  if (input.kind !== "delimited") throw new Error("the input is not delimited");
  const reader = new CsvReader(input.dialect);
  const isSame = sameText(input, output);
  const begin = (headers: readonly string[]) =>
    new Selection<CsvRow>(options, {
      field: ([name]) => columnOf(name, headers),
      all: ({ columns }) =>
        columns.map((column, i): Named => [headers[i] ?? `_${i + 1}`, decoded(column)]),
      raw: ({ raw }) => (isSame ? raw + input.dialect.record : undefined),
    });
  let selection = input.hasHeaders ? undefined : begin([]);
  let position = 0;
  return {
    feed: (text, isLast) => reader.feed(text, isLast),
    step() {
      position = reader.position;
      const row = reader.next();
      if (row === undefined) return false;
      position = row.at;
      options.work.spend(row.raw.length);
      if (selection === undefined) selection = begin(row.columns.map(decoded));
      else selection.take(row);
      return true;
    },
    get position() {
      return position;
    },
    get isDone() {
      return selection?.isDone ?? false;
    },
    finish: () => (selection ?? begin([])).finish(),
  };
}

/** Finds a column by its number or by the header row. */
function columnOf(name: FieldName, headers: readonly string[]): Evaluate<CsvRow> {
  const index = ordinalOf(name) ?? headerIndex(name, headers);
  return ({ columns }) => {
    const column = columns[index];
    if (column === undefined) throw new QueryFault(NO_COLUMN, "Invalid column ordinal.");
    return decoded(column);
  };
}

function headerIndex({ text, exact }: FieldName, headers: readonly string[]): number {
  const wanted = text.toLowerCase();
  const index = headers.findIndex((header) =>
    exact ? header === text : header.trim().toLowerCase() === wanted,
  );
  // An empty blob has no header row, and no row that could miss it.
  if (index === -1 && headers.length > 0) {
    throw new QueryFault("InvalidColumnName", `There is no column ${text}.`, true);
  }
  return index;
}

/** A row of JSON: a record, or a part of one that FROM names. */
type Part = { readonly value: unknown; readonly raw: BinaryText | undefined };

function jsonScan(options: ScanOptions): Scan {
  const { input, output, query } = options.request;
  if (input.kind !== "json") throw new Error("the input is not JSON");
  const reader = new JsonReader(input.separator);
  const selection = new Selection<Part>(options, {
    field:
      (path) =>
      ({ value }) =>
        fieldValue(value, path),
    all: ({ value }) => membersOf(value).map(([name, each]): Named => [name, jsonValue(each)]),
    raw: ({ value, raw }) => rawJson(value, raw, output),
  });
  let pending: Generator<Part, undefined> | undefined;
  return {
    feed: (text, isLast) => reader.feed(text, isLast),
    step() {
      if (pending === undefined) {
        const record = reader.next();
        if (record === undefined) return false;
        options.work.spend(record.raw.length);
        pending = partsOf(record, query.from);
      }
      // One row at a time, so that one that fails does not take the others of its record along.
      const { value: part, done } = pending.next();
      if (done) pending = undefined;
      else selection.take(part);
      return true;
    },
    get position() {
      return reader.position;
    },
    get isDone() {
      return selection.isDone;
    },
    finish: () => selection.finish(),
  };
}

function* partsOf(record: JsonRow, path: readonly TableStep[]): Generator<Part, undefined> {
  if (path.length === 0) yield record;
  else for (const value of rowsBelow(record.value, path)) yield { value, raw: undefined };
}

/** A record as it stands in the blob, where it fits on a line of the reply. A scalar has no columns. */
function rawJson(
  value: unknown,
  raw: BinaryText | undefined,
  output: Format,
): BinaryText | undefined {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject) return output.kind === "json" ? output.separator : output.dialect.record;
  if (output.kind !== "json" || raw === undefined) return undefined;
  const isLine = !raw.includes("\n") && !raw.includes(output.separator);
  return isLine ? raw + output.separator : undefined;
}

/** sys.split: how many bytes each part has that holds whole rows and is no smaller than was asked for. */
function splitScan(options: ScanOptions, size: number): Scan {
  const { input, output } = options.request;
  if (input.kind !== "delimited") throw new Error("the input is not delimited");
  const reader = new CsvReader(input.dialect);
  let start = 0;
  let end = 0;
  const send = () => {
    if (end > start) options.send(writtenRow([["_1", BigInt(end - start)]], output));
    start = end;
  };
  return {
    feed(text, isLast) {
      reader.feed(text, isLast);
    },
    step() {
      const row = reader.next();
      end = reader.position;
      if (row === undefined) return false;
      options.work.spend(row.raw.length);
      if (end - start >= size) send();
      return true;
    },
    get position() {
      return end;
    },
    isDone: false,
    finish: send,
  };
}
