import { child, childText, type XmlElement } from "../../base/xml.ts";
import { StorageError } from "../../rules/errors.ts";
import { encoded } from "./binary.ts";
import type { Dialect } from "./csv.ts";
import { QuerySyntaxError } from "./lexer.ts";
import { parseQuery } from "./parser.ts";
import type { Expression, Query } from "./syntax.ts";

export type Format =
  | { readonly kind: "delimited"; readonly dialect: Dialect; readonly hasHeaders: boolean }
  | { readonly kind: "json"; readonly separator: string };

/** What a request asks for, checked as far as it can be without the blob. */
export type QueryRequest = {
  readonly query: Query;
  readonly input: Format;
  readonly output: Format;
};

const SEPARATOR_MAX = 16;

/** Reads the body of Query Blob Contents. */
export function queryRequestOf(xml: XmlElement | undefined): QueryRequest {
  if (xml?.name !== "QueryRequest") throw new StorageError("InvalidXmlDocument");
  const type = required(xml, "QueryType");
  if (type.trim().toUpperCase() !== "SQL") throw badValue("QueryType", type);
  const query = readQuery(required(xml, "Expression"));
  const input = formatOf(child(xml, "InputSerialization")) ?? { ...DELIMITED, hasHeaders: false };
  // Without a format of its own the reply is written as the blob is, but for its header row.
  const output = formatOf(child(xml, "OutputSerialization")) ?? withoutHeaders(input);
  const problem = unfitting(query, input);
  if (problem !== undefined) throw badQuery(problem);
  return { query, input, output };
}

const withoutHeaders = (format: Format): Format =>
  format.kind === "delimited" ? { ...format, hasHeaders: false } : format;

const required = (xml: XmlElement, name: string): string => {
  const text = childText(xml, name);
  if (text === undefined) throw new StorageError("MissingRequiredXmlNode", { XmlNodeName: name });
  return text;
};

const badValue = (name: string, value: string, reason?: string) =>
  new StorageError("InvalidXmlNodeValue", {
    XmlNodeName: name,
    XmlNodeValue: value,
    ...(reason === undefined ? {} : { Reason: reason }),
  });

const badQuery = (reason: string) =>
  new StorageError("ErrorProcessingQueryExpression", { Reason: reason });

function readQuery(text: string): Query {
  try {
    return parseQuery(text);
  } catch (error) {
    if (error instanceof QuerySyntaxError) throw badQuery(error.message);
    throw error;
  }
}

const DELIMITED = {
  kind: "delimited" as const,
  dialect: { column: ",", record: "\n", quote: '"', escapeMark: "" },
};

function formatOf(xml: XmlElement | undefined): Format | undefined {
  const format = child(xml, "Format");
  if (format === undefined) return undefined;
  const type = required(format, "Type");
  switch (type.trim().toLowerCase()) {
    case "delimited":
    case "csv":
      return delimitedOf(child(format, "DelimitedTextConfiguration"));
    case "json": {
      const given = childText(child(format, "JsonTextConfiguration"), "RecordSeparator");
      return { kind: "json", separator: separatorOf("RecordSeparator", given ?? "", "\n") };
    }
    default:
      // Differs from Azure: queries neither read Parquet nor write Arrow; delimited text and JSON only.
      throw badValue("Type", type, "Queries read and write delimited text and JSON.");
  }
}

function delimitedOf(xml: XmlElement | undefined): Format {
  const text = (name: string) => childText(xml, name);
  const headers = text("HasHeaders") ?? text("HeadersPresent") ?? "false";
  if (!/^\s*(true|false)\s*$/i.test(headers)) throw badValue("HasHeaders", headers);
  const { column, record, quote } = DELIMITED.dialect;
  const dialect = {
    column: separatorOf("ColumnSeparator", text("ColumnSeparator") ?? "", column),
    record: separatorOf("RecordSeparator", text("RecordSeparator") ?? "", record),
    quote: characterOf("FieldQuote", text("FieldQuote") ?? quote),
    escapeMark: characterOf("EscapeChar", text("EscapeChar") ?? ""),
  };
  const all = [dialect.column, dialect.record];
  if (all[0] === all[1] || all.includes(dialect.quote) || all.includes(dialect.escapeMark)) {
    throw badValue("DelimitedTextConfiguration", "", "The separators must differ.");
  }
  return { kind: "delimited", dialect, hasHeaders: headers.trim().toLowerCase() === "true" };
}

/** One or a few characters, as the bytes they are in the blob; an empty one stands for the usual. */
function separatorOf(name: string, text: string, usual: string): string {
  if (text === "") return usual;
  const bytes = encoded(text);
  if (bytes.length > SEPARATOR_MAX) throw badValue(name, text);
  return bytes;
}

/** One character of ASCII, or none. */
function characterOf(name: string, text: string): string {
  if (text.length > 1 || text > "\x7f") throw badValue(name, text);
  return text;
}

const ORDINAL = /^_(\d{1,6})$/;

/** The column that a name such as _3 means, counted from zero. */
export function ordinalOf({ text, exact }: { text: string; exact: boolean }): number | undefined {
  const match = exact ? null : ORDINAL.exec(text);
  return match === null ? undefined : Number(match[1]) - 1;
}

/** Why a query does not fit what it is asked of, as a sentence. */
function unfitting(query: Query, input: Format): string | undefined {
  if (input.kind === "json") {
    return query.select.kind === "split" ? "sys.split is for delimited text only." : undefined;
  }
  if (query.from.length > 0) return "A path in FROM is for JSON only.";
  for (const { path } of fieldsOf(query)) {
    const [name] = path;
    if (path.length > 1) return "A path is for JSON only.";
    const ordinal = ordinalOf(name);
    if (ordinal === -1) return "Columns are counted from _1.";
    if (ordinal === undefined && !input.hasHeaders) {
      return "Column names can be used only if HasHeaders is set and there is a header row.";
    }
  }
  return undefined;
}

type Field = Expression & { readonly kind: "field" };

/** Every field that a query names. */
export function fieldsOf({ select, where }: Query): Field[] {
  const found: Field[] = [];
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    if ("kind" in node && node.kind === "field") found.push(node as Field);
    else for (const part of Object.values(node)) visit(part);
  };
  visit(select);
  visit(where);
  return found;
}
