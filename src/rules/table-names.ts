import type { ErrorCode } from "./errors.ts";

const FORM = /^[A-Za-z][A-Za-z0-9]*$/;
const LENGTH_MIN = 3;
const LENGTH_MAX = 63;

/** What is wrong with a table's name ("Understanding the Table Service Data Model"); `tables` is not free. */
export function badTableName(name: string): ErrorCode | undefined {
  if (name.length < LENGTH_MIN || name.length > LENGTH_MAX) return "OutOfRangeInput";
  if (!FORM.test(name)) return "InvalidResourceName";
  return name.toLowerCase() === "tables" ? "InvalidInput" : undefined;
}
