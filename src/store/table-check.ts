import { parseFlatJson, unquoted } from "../base/flat-json.ts";
import { parseTickText } from "../base/time.ts";
import type { Engine } from "../engine/engine.ts";
import { each } from "./each.ts";
import { entities, garbage, tableIds, tables } from "./keys.ts";
import { stampOf } from "./table-records.ts";

/**
 * Compares the two records of each table, and looks at every entity: it is whole, says the keys it is stored
 * under, and belongs to a table that is there or being removed. Gives how many records it looked at.
 */
export async function checkTables(
  engine: Engine,
  problem: (line: string) => void,
): Promise<number> {
  let records = 0;
  const known = new Set<bigint>();
  await each(
    engine,
    (tx, from) => tables.walk(tx, [], from),
    tables.packed,
    async ([account, name], table) => {
      records++;
      const id = await engine.read((tx) => tableIds.get(tx, account, name));
      known.add(BigInt(`0x${table.id}`));
      if (id?.toString(16) !== table.id) problem(`table ${table.name}: its two records differ`);
    },
  );
  await each(
    engine,
    (tx, from) => tableIds.walk(tx, [], from),
    tableIds.packed,
    async ([, name], id) => {
      if (!known.has(id)) problem(`table ${name}: its number is there, its record is not`);
    },
  );
  await each(
    engine,
    (tx, from) => garbage.walk(tx, [], from),
    garbage.packed,
    async (_key, value) => {
      if ("table" in value) known.add(BigInt(`0x${value.table}`));
    },
  );
  await each(
    engine,
    (tx, from) => entities.walk(tx, [], from),
    entities.packed,
    async ([table, partitionKey, rowKey], entity) => {
      records++;
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
    },
  );
  return records;
}
