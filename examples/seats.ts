import { RestError, TableClient } from "@azure/data-tables";

const connection = process.env.AZURE_STORAGE_CONNECTION_STRING ?? "UseDevelopmentStorage=true";
const seats = TableClient.fromConnectionString(connection, "Seats", {
  allowInsecureConnection: true, // plain HTTP, as on this machine
});
await seats.createTable();

/** Takes a seat and books it in one transaction: both happen, or neither. */
async function book(seat: string, guest: string): Promise<boolean> {
  try {
    await seats.submitTransaction([
      ["create", { partitionKey: "tonight", rowKey: `seat ${seat}`, guest }],
      ["upsert", { partitionKey: "tonight", rowKey: `guest ${guest}`, seat }, "Replace"],
    ]);
    return true;
  } catch (error) {
    if (error instanceof RestError && error.statusCode === 409) return false; // it is taken
    throw error;
  }
}

const guests = ["Ada", "Grace", "Edsger", "Barbara"];
const booked = await Promise.all(guests.map((guest) => book("A1", guest)));
const filter = "PartitionKey eq 'tonight' and RowKey ge 'guest ' and RowKey lt 'guest!'";
let count = 0;
for await (const { seat } of seats.listEntities({ queryOptions: { filter } })) {
  if (seat === "A1") count++;
}
process.stdout.write(`${booked.filter(Boolean).length} ${count}\n`); // 1 1
