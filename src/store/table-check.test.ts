import assert from "node:assert/strict";
import { test } from "node:test";
import { randomIds } from "../base/ids.ts";
import { silentLog } from "../base/log.ts";
import { memoryEngine } from "../engine/memory.ts";
import { memoryFiles } from "../engine/memory-files.ts";
import { Contents } from "./content.ts";
import { entities, garbage, tableIds, tables } from "./keys.ts";
import { sweepGarbage } from "./sweep.ts";
import { checkTables } from "./table-check.ts";
import { type EntityRecord, entityOf } from "./table-records.ts";

const open = () => memoryEngine({ clock: { now: () => Date.UTC(2026, 0, 1) } });

const entity = (partitionKey: string, rowKey: string): EntityRecord =>
  entityOf({
    keysJson: `"PartitionKey":${JSON.stringify(partitionKey)},"RowKey":${JSON.stringify(rowKey)}`,
    tick: 638_000_000_000_000_000n,
    propertiesJson: ',"n":1',
  });

async function problemsIn(engine: ReturnType<typeof open>): Promise<string[]> {
  const problems: string[] = [];
  const checking = { engine, problem: (line: string) => problems.push(line), counted: () => {} };
  await checkTables(checking, new Set([6n]));
  return problems;
}

test("checkTables(): finds nothing wrong with what is right, and each thing that is not", async () => {
  const engine = open();
  await engine.write(async (tx) => {
    tables.put(tx, ["a", "tab"], { id: "5", name: "Tab", policies: [] });
    tableIds.put(tx, ["a", "tab"], 5n);
    for (const [p, r] of [
      ["", ""],
      ["p", "ä😀"],
      ['q"', "\ud800"],
    ] as const) {
      entities.put(tx, [5n, p, r], entity(p, r));
    }
    entities.put(tx, [6n, "p", "r"], entity("p", "r"));
  });
  assert.deepEqual(await problemsIn(engine), []);
  await engine.write(async (tx) => {
    entities.put(tx, [7n, "p", "r"], entity("p", "r"));
    entities.put(tx, [5n, "p", "other"], entity("p", "r"));
    const broken = { ...entity("p", "broken"), json: entity("p", "broken").json.subarray(0, -1) };
    entities.put(tx, [5n, "p", "broken"], broken);
    tableIds.put(tx, ["a", "lost"], 8n);
    tables.put(tx, ["a", "two"], { id: "b", name: "Two", policies: [] });
    tableIds.put(tx, ["a", "two"], 12n);
  });
  const found = (await problemsIn(engine)).join("\n");
  for (const problem of [
    /p, r: its table is not there/,
    /p, other: its record says other keys/,
    /p, broken: the text is no object/,
    /lost: its number is there/,
    /Two: its two records differ/,
  ]) {
    assert.match(found, problem);
  }
});

test("sweepGarbage(): takes a deleted table apart, and no other", async () => {
  const engine = open();
  const files = memoryFiles(randomIds);
  await engine.write(async (tx) => {
    for (let i = 0; i < 300; i++) {
      for (const table of [4n, 5n, 6n])
        entities.put(tx, [table, "p", String(i)], entity("p", String(i)));
    }
    garbage.put(tx, [9n], { table: "5" });
  });
  await sweepGarbage({ engine, files, contents: new Contents(engine, files), log: silentLog });
  const counts = await engine.read((tx) =>
    Promise.all(
      [4n, 5n, 6n].map(async (table) => (await entities.walk(tx, [table], { limit: 999 })).length),
    ),
  );
  assert.deepEqual(counts, [300, 0, 300]);
  assert.equal((await engine.read((tx) => garbage.walk(tx, [], { limit: 9 }))).length, 0);
});
