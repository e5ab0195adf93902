import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import {
  AzureNamedKeyCredential,
  AzureSASCredential,
  generateAccountSas,
  generateTableSas,
  RestError,
  TableClient,
  type TableSasSignatureValues,
} from "@azure/data-tables";
import { startServer, type TestServer } from "./server.ts";
import { ask, assertReply, changeSet, createTable, tableClient, urlOf } from "./tables.ts";

const TABLE = "Shared";
let server: TestServer;
let credential: AzureNamedKeyCredential;

before(async () => {
  server = await startServer();
  credential = new AzureNamedKeyCredential(server.account, server.key);
  await createTable(server, TABLE);
  await createTable(server, "Other");
  const table = tableClient(server, TABLE);
  for (const partitionKey of ["a", "b", "c"]) {
    for (const rowKey of ["1", "2", "3"]) await table.createEntity({ partitionKey, rowKey, n: 0 });
  }
});

after(() => server.stop());

const HOUR_MS = 3_600_000;
const expiresOn = new Date(Date.now() + HOUR_MS);
const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
const withSas = (sas: string, table = TABLE) =>
  new TableClient(urlOf(server), table, new AzureSASCredential(sas), options);
const sasOf = (values: TableSasSignatureValues) =>
  generateTableSas(TABLE, credential, { expiresOn, ...values });

const isRefused = (error: unknown) =>
  error instanceof RestError && (error.statusCode === 403 || error.statusCode === 401);

async function keysIn(table: TableClient): Promise<string[]> {
  const keys: string[] = [];
  for await (const { partitionKey, rowKey } of table.listEntities({
    queryOptions: { filter: "n eq 0" },
  })) {
    keys.push(`${partitionKey}${rowKey}`);
  }
  return keys;
}

/** What can be done to an entity of its own, and the letters that it takes. */
const deeds: [
  what: string,
  letters: string,
  act: (table: TableClient, rowKey: string) => Promise<unknown>,
][] = [
  ["Query Entities", "r", (table) => keysIn(table)],
  ["Query Entities by keys", "r", (table) => table.getEntity("a", "1")],
  [
    "Insert Entity",
    "a",
    (table, rowKey) => table.createEntity({ partitionKey: "w", rowKey: `${rowKey}new` }),
  ],
  [
    "Update Entity",
    "u",
    (table, rowKey) => table.updateEntity({ partitionKey: "w", rowKey, n: 1 }, "Replace"),
  ],
  [
    "Merge Entity",
    "u",
    (table, rowKey) => table.updateEntity({ partitionKey: "w", rowKey, n: 1 }, "Merge"),
  ],
  [
    "Insert Or Replace Entity",
    "au",
    (table, rowKey) => table.upsertEntity({ partitionKey: "w", rowKey, n: 1 }, "Replace"),
  ],
  [
    "Insert Or Merge Entity",
    "au",
    (table, rowKey) => table.upsertEntity({ partitionKey: "w", rowKey, n: 1 }, "Merge"),
  ],
  ["Delete Entity", "d", (table, rowKey) => table.deleteEntity("w", rowKey)],
  [
    "Entity Group Transaction of an insert and a delete",
    "ad",
    (table, rowKey) =>
      table.submitTransaction([
        ["create", { partitionKey: "w", rowKey: `${rowKey}batch` }],
        ["delete", { partitionKey: "w", rowKey }],
      ]),
  ],
];

const permissionsOf = (letters: string) => ({
  query: letters.includes("r"),
  add: letters.includes("a"),
  update: letters.includes("u"),
  delete: letters.includes("d"),
});

let made = 0;
for (const kind of ["a table's", "an account's"]) {
  suite(`A signature of ${kind}`, () => {
    const signed = (letters: string) =>
      kind === "a table's"
        ? withSas(sasOf({ permissions: permissionsOf(letters) }))
        : withSas(
            generateAccountSas(credential, {
              expiresOn,
              permissions: permissionsOf(letters) as never,
            }),
          );
    const own = async () => {
      const rowKey = `row${made++}`;
      await tableClient(server, TABLE).createEntity({ partitionKey: "w", rowKey });
      return rowKey;
    };
    for (const [what, letters, act] of deeds) {
      test(`with ${letters} allows ${what}`, async () => {
        await act(signed(letters), await own());
      });
      test(`without one of ${letters} refuses ${what}`, async () => {
        for (const missing of letters) {
          const rest = "raud".replace(missing, "");
          await assert.rejects(act(signed(rest), await own()), isRefused, `with ${rest}`);
        }
      });
    }
  });
}

suite("A table's signature", () => {
  const everything = permissionsOf("raud");

  test("reaches no other table, also not in a batch", async () => {
    const other = withSas(sasOf({ permissions: everything }), "Other");
    await assert.rejects(other.createEntity({ partitionKey: "p", rowKey: "r" }), isRefused);
    await assert.rejects(
      other.submitTransaction([["create", { partitionKey: "p", rowKey: "r" }]]),
      isRefused,
    );
    assert.deepEqual(await keysIn(tableClient(server, "Other")), []);
  });

  test("does not make, list or delete tables", async () => {
    const table = withSas(sasOf({ permissions: everything }));
    await assert.rejects(table.deleteTable(), isRefused);
    await assert.rejects(table.getAccessPolicy(), isRefused);
  });

  const ranges: [what: string, range: TableSasSignatureValues, want: string[]][] = [
    ["from a partition", { startPartitionKey: "b" }, ["b1", "b2", "b3", "c1", "c2", "c3"]],
    ["to a partition", { endPartitionKey: "b" }, ["a1", "a2", "a3", "b1", "b2", "b3"]],
    ["one partition", { startPartitionKey: "b", endPartitionKey: "b" }, ["b1", "b2", "b3"]],
    [
      "from a row to a row",
      { startPartitionKey: "a", startRowKey: "3", endPartitionKey: "c", endRowKey: "1" },
      ["a3", "b1", "b2", "b3", "c1"],
    ],
    [
      "one entity",
      { startPartitionKey: "b", startRowKey: "2", endPartitionKey: "b", endRowKey: "2" },
      ["b2"],
    ],
  ];
  for (const [what, range, want] of ranges) {
    test(`kept to keys (${what}): queries give no others, the rest is refused`, async () => {
      const table = withSas(sasOf({ permissions: everything, ...range }));
      const found = (await keysIn(table)).filter((key) => !key.startsWith("w"));
      assert.deepEqual(found, want);
      for (const key of ["a1", "b2", "c3"]) {
        const [partitionKey = "", rowKey = ""] = key;
        const reading = table.getEntity(partitionKey, rowKey);
        if (want.includes(key)) await reading;
        else await assert.rejects(reading, isRefused);
      }
      const outside = { partitionKey: "A", rowKey: what };
      if (range.startPartitionKey !== undefined) {
        await assert.rejects(table.createEntity(outside), isRefused);
        await assert.rejects(table.submitTransaction([["create", outside]]), isRefused);
      }
    });
  }

  test("kept to keys: a batch with an insert elsewhere is refused as a whole", async () => {
    const sas = sasOf({ permissions: everything, startPartitionKey: "w" });
    const body = changeSet(server, [
      { method: "POST", path: `/${TABLE}`, body: { PartitionKey: "A", RowKey: "elsewhere" } },
    ]);
    const query = Object.fromEntries(new URLSearchParams(sas));
    const headers = { "content-type": "multipart/mixed; boundary=batch_1" };
    const call = { method: "POST", path: "/$batch", query, body, headers, sign: "none" } as const;
    assertReply(await ask(server, call), 403, "AuthorizationFailure");
  });

  test("by a stored policy: it gives the rights, and takes them away at once", async () => {
    const owner = tableClient(server, TABLE);
    const policy = { id: "readers", accessPolicy: { expiry: expiresOn, permission: "r" } };
    await owner.setAccessPolicy([policy]);
    const table = withSas(generateTableSas(TABLE, credential, { identifier: "readers" }));
    assert.equal((await table.getEntity("a", "1")).n, 0);
    await assert.rejects(table.deleteEntity("a", "1"), isRefused);
    await assert.rejects(
      table.submitTransaction([["delete", { partitionKey: "a", rowKey: "1" }]]),
      isRefused,
    );
    await owner.setAccessPolicy([]);
    await assert.rejects(table.getEntity("a", "1"), isRefused);
  });
});
