import type { Place } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";

const QUOTED = "'((?:[^']|'')*)'";
const ONE_TABLE = new RegExp(`^Tables\\(${QUOTED}\\)$`, "i");
const KEYS = new RegExp(
  `^([^(]*)\\((?:PartitionKey=${QUOTED},\\s*RowKey=${QUOTED}|RowKey=${QUOTED},\\s*PartitionKey=${QUOTED})\\)$`,
);

const unescaped = (text: string): string =>
  text.includes("''") ? text.replaceAll("''", "'") : text;

/**
 * What a path names: `/Tables` all tables, `/Tables('t')` one, `/t` or `/t()` the entities of a table,
 * `/t(PartitionKey='p',RowKey='r')` one entity. The names are the table's and the keys.
 */
export function tablePlace(
  segments: readonly string[],
  query: ReadonlyMap<string, string> = new Map(),
): Place {
  const [first = "", ...rest] = segments;
  if (rest.length > 0) {
    if (rest.length > 1 || rest[0] !== "") throw new StorageError("InvalidUri");
  }
  if (first === "") return { level: "service", names: [] };
  if (first.endsWith(")")) return named(first);
  if (first === "$batch") {
    // A signature for one table names it, since the path does not.
    const table = query.get("tn");
    return { level: "batch", names: table === undefined ? [] : [table] };
  }
  if (first === "$metadata") return { level: "metadata", names: [] };
  if (first.toLowerCase() === "tables") return { level: "tables", names: [] };
  return { level: "entities", names: [first] };
}

function named(text: string): Place {
  const keys = KEYS.exec(text);
  if (keys !== null) {
    const [, table = "", partition = keys[5] ?? "", row = keys[4] ?? ""] = keys;
    return { level: "entity", names: [table, unescaped(partition), unescaped(row)] };
  }
  const table = ONE_TABLE.exec(text)?.[1];
  if (table !== undefined) return { level: "table", names: [unescaped(table)] };
  if (!text.endsWith("()")) throw new StorageError("InvalidInput");
  const name = text.slice(0, -2);
  if (name.toLowerCase() === "tables") return { level: "tables", names: [] };
  return { level: "entities", names: [name] };
}

const TUNNELLED = ["DELETE", "MERGE", "PATCH", "PUT"];

/** X-HTTP-Method: a POST may stand for a verb that something between client and server does not let through. */
export function tableVerb(method: string, header: (name: string) => string | undefined): string {
  const meant = header("x-http-method");
  if (meant === undefined) return method;
  if (meant.includes(",")) throw new StorageError("XMethodIncorrectCount");
  if (method !== "POST") throw new StorageError("XMethodNotUsingPost");
  if (!TUNNELLED.includes(meant)) throw new StorageError("XMethodIncorrectValue");
  return meant;
}
