import { parseFlatJson, unquoted } from "../base/flat-json.ts";
import { parseTickText } from "../base/time.ts";
import { type Checking, each } from "./checking.ts";
import { entities, tableIds, tables } from "./keys.ts";
import { stampOf } from "./table-records.ts";

/**
 * Compares the two records of each table, and looks at every entity: it is whole, says the keys it is stored
 * under, and belongs to a table that is there or being removed.
 */
export async function checkTables(checking: Checking, dropped: ReadonlySet<bigint>): Promise<void> {
  const { engine, problem } = checking;
  const known = new Set<bigint>(dropped);
  await each(checking, "table", tables, async ([account, name], table) => {
    const id = await engine.read((tx) => tableIds.get(tx, account, name));
    known.add(BigInt(`0x${table.id}`));
    if (id?.toString(16) !== table.id) problem(`table ${table.name}: its two records differ`);
  });
  await each(checking, "table number", tableIds, async ([, name], id) => {
    if (!known.has(id)) problem(`table ${name}: its number is there, its record is not`);
  });
  await each(checking, "entity", entities, async ([table, partitionKey, rowKey], entity) => {
    const what = `entity ${partitionKey}, ${rowKey}`;
    if (!known.has(table)) problem(`${what}: its table is not there`);
    if (parseTickText(stampOf(entity)) === undefined) problem(`${what}: it has no Timestamp`);
    try {
      const [first, second] = parseFlatJson(entity.json.toString("utf8"));
      const keys = [first, second].map((member) => unquoted(member?.json ?? '""'));
      const isSame = keys[0] === partitionKey && keys[1] === rowKey;
      if (!isSame) problem(`${what}: its record says other keys`);
    } catch (error) {
      problem(`${what}: ${(error as Error).message}`);
    }
  });
}
