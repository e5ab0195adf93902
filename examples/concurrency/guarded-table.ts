import type { TableClient } from "@azure/data-tables";
import type { BlockBlobClient } from "@azure/storage-blob";
import { newContainer, newTable, pause, refusalOf, refused, type Scene } from "./scene.ts";

/** Runs `work` while no other client that plays by the same rule runs: the blob stands for the table. */
export async function withLock<T>(blob: BlockBlobClient, work: () => Promise<T>): Promise<T> {
  const lease = blob.getBlobLeaseClient();
  while (!(await isAcquired(lease.acquireLease(15)))) await pause(20 + Math.random() * 80);
  try {
    return await work(); // longer work than 15 seconds renews the lease in between
  } finally {
    await lease.releaseLease();
  }
}

async function isAcquired(attempt: Promise<unknown>): Promise<boolean> {
  try {
    await attempt;
    return true;
  } catch (error) {
    if (refusalOf(error) !== "409 LeaseAlreadyPresent") throw error;
    return false;
  }
}

const stock = async (table: TableClient, place: string) =>
  (await table.getEntity<{ crates: number }>(place, "stock")).crates;

/** Moves a crate between two partitions, which no one transaction of the table can do. */
async function move(table: TableClient): Promise<void> {
  const [harbour, shop] = await Promise.all([stock(table, "harbour"), stock(table, "shop")]);
  const set = (place: string, crates: number) =>
    table.updateEntity({ partitionKey: place, rowKey: "stock", crates }, "Replace");
  await set("harbour", harbour - 1);
  await set("shop", shop + 1);
}

/** Tables have no leases: a blob that all agree upon is leased in their place. */
export const guardedTable: Scene = {
  title: "A table behind a leased blob",
  async play(tell) {
    const [container, table] = await Promise.all([newContainer("locks"), newTable("Stock")]);
    const lock = container.getBlockBlobClient("Stock");
    await lock.upload("", 0);
    await table.createEntity({ partitionKey: "harbour", rowKey: "stock", crates: 10 });
    await table.createEntity({ partitionKey: "shop", rowKey: "stock", crates: 0 });
    tell(
      "The blob locks/Stock is the lock of the table Stock: who uses the table leases it first.",
    );
    await withLock(lock, async () => {
      tell(
        `While one has it, another asks: ${await refused(lock.getBlobLeaseClient().acquireLease(15))}.`,
      );
      await move(table);
    });
    await Promise.all(Array.from({ length: 5 }, () => withLock(lock, () => move(table))));
    const [harbour, shop] = await Promise.all([stock(table, "harbour"), stock(table, "shop")]);
    tell(`Six clients have moved a crate each: harbour ${harbour}, shop ${shop}.`);
    tell("The table itself knows nothing of the lock: who goes round it is not kept out.");
  },
};
