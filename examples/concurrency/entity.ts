import type { TableClient } from "@azure/data-tables";
import { newTable, refusalOf, refused, type Scene } from "./scene.ts";

const key = { partitionKey: "customers", rowKey: "ada" };

/** Adds points on top of whatever others add at the same time. */
export async function addPoints(table: TableClient, points: number): Promise<void> {
  for (;;) {
    const found = await table.getEntity<{ points: number }>(key.partitionKey, key.rowKey);
    try {
      const changed = { ...key, points: found.points + points };
      await table.updateEntity(changed, "Merge", { etag: found.etag });
      return;
    } catch (error) {
      if (refusalOf(error) !== "412 UpdateConditionNotSatisfied") throw error;
    }
  }
}

/** Entities are optimistic by default: an update names the ETag that it is based on, or `*`. */
export const entity: Scene = {
  title: "An entity, replaced by two",
  async play(tell) {
    const table = await newTable("Customers");
    await table.createEntity({ ...key, city: "London", points: 0 });
    tell(`To insert it again: ${await refused(table.createEntity(key))}.`);
    const read = await table.getEntity(key.partitionKey, key.rowKey);
    const etag = read.etag;
    await table.updateEntity({ ...key, city: "Paris", points: 0 }, "Replace", { etag });
    tell("One replaces it with the ETag that both have read.");
    const other = { ...key, city: "Rome", points: 0 };
    tell(
      `The other does so, too: ${await refused(table.updateEntity(other, "Replace", { etag }))}.`,
    );
    tell(
      `And deletes it: ${await refused(table.deleteEntity(key.partitionKey, key.rowKey, { etag }))}.`,
    );
    await table.updateEntity(other, "Replace", { etag: "*" });
    const { city } = await table.getEntity(key.partitionKey, key.rowKey);
    tell(`The other forces it with *, and the last writer wins: ${city}.`);
    await table.upsertEntity({ ...other, city: "Oslo" }, "Replace");
    tell("An upsert asks for nothing: it replaces whatever is there, or inserts.");
    await Promise.all(Array.from({ length: 8 }, () => addPoints(table, 5)));
    const { points } = await table.getEntity(key.partitionKey, key.rowKey);
    tell(`Eight clients add 5 points each, reading again when they are refused: ${points}.`);
  },
};
