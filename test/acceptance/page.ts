import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

/**
 * The rows of a table in docs/concurrency.md, each by its first cell. A row for several actions of one
 * operation ("Lease Blob: acquire, renew") is given once for each.
 */
export function pageTable(name: string): readonly (readonly [first: string, ...cells: string[]])[] {
  const page = readFileSync("docs/concurrency.md", "utf8");
  const found = new RegExp(`<!-- table: ${name} -->\\n([\\s\\S]*?)\\n<!-- end -->`).exec(page)?.[1];
  assert.ok(found, `docs/concurrency.md has no table "${name}"`);
  const [, , ...lines] = found.split("\n");
  assert.ok(lines.length > 0, `the table "${name}" is empty`);
  return lines.flatMap((line) => {
    const [first = "", ...cells] = line.slice(2, -2).split(" | ");
    return eachAction(first).map((one) => [one, ...cells] as const);
  });
}

/** "Lease Blob: acquire, renew" as "Lease Blob: acquire" and "Lease Blob: renew". */
export function eachAction(name: string): string[] {
  const [operation = "", actions] = name.split(": ");
  if (actions === undefined) return [name];
  return actions.split(", ").map((action) => `${operation}: ${action}`);
}

/** The first cells of a table, to see that each of them is tried. */
export const firstCells = (name: string): string[] => pageTable(name).map(([first]) => first);
