import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { RestError, TableTransaction } from "@azure/data-tables";
import { startServer, type TestServer } from "./server.ts";
import {
  assertReply,
  at,
  type BatchPart,
  changeSet,
  createTable,
  get,
  insert,
  NO_METADATA,
  partsIn,
  partText,
  sendBatch,
  tableClient,
  urlOf,
} from "./tables.ts";

const TABLE = "Batched";
let server: TestServer;

before(async () => {
  server = await startServer();
  await createTable(server, TABLE);
});

after(() => server.stop());

const post = (
  PartitionKey: string,
  RowKey: string,
  more: Record<string, unknown> = {},
): BatchPart => ({
  ...{ method: "POST", path: `/${TABLE}`, body: { PartitionKey, RowKey, ...more } },
});
const on = (
  method: string,
  partitionKey: string,
  rowKey: string,
  body?: Record<string, unknown>,
  headers = {},
): BatchPart => ({
  ...{ method, path: at(TABLE, partitionKey, rowKey), headers },
  ...(body === undefined ? {} : { body }),
});
const ANY = { "If-Match": "*" };

const rowsOf = async (partitionKey: string) => {
  const query = { $filter: `PartitionKey eq '${partitionKey}'` };
  const { json } = await get(server, `/${TABLE}()`, NO_METADATA, query);
  return json.value.map(({ RowKey, n }: { RowKey: string; n?: number }) => `${RowKey}:${n}`);
};

/** Sends a change set that must fail as a whole, and checks that nothing of it was done. */
async function fails(parts: readonly BatchPart[], status: number, code: string, index: number) {
  const before = await rowsOf("f");
  const reply = assertReply(await sendBatch(server, changeSet(server, parts)), 202);
  const found = partsIn(reply);
  assert.equal(found.length, 1, reply.text);
  const [part] = found;
  const error = JSON.parse(part?.body ?? "{}")["odata.error"];
  assert.deepEqual([part?.status, error.code], [status, code], reply.text);
  assert.match(error.message.value, new RegExp(`^${index}:.*\nRequestId:\\S+\nTime:\\S+Z$`));
  assert.deepEqual(await rowsOf("f"), before);
  return part;
}

suite("Entity Group Transaction", () => {
  test("does all kinds of changes in order, and answers each", async () => {
    for (const RowKey of ["update", "merge", "delete", "replaced"]) {
      await insert(server, TABLE, { PartitionKey: "k", RowKey, n: 1, m: 1 });
    }
    const reply = await sendBatch(
      server,
      changeSet(server, [
        {
          ...post("k", "inserted", { n: 2 }),
          headers: { "Content-ID": "1", Prefer: "return-no-content" },
        },
        { ...post("k", "echoed", { n: 2 }), headers: { "Content-ID": "2" } },
        on("PUT", "k", "update", { n: 2 }, { ...ANY, "Content-ID": "three" }),
        on("MERGE", "k", "merge", { n: 2 }, ANY),
        on("DELETE", "k", "delete", undefined, ANY),
        on("PUT", "k", "replaced", { n: 2 }),
        on("PATCH", "k", "upserted", { n: 2 }),
        on("POST", "k", "tunnelled", { n: 2 }, { "X-HTTP-Method": "MERGE" }),
      ]),
    );
    assertReply(reply, 202);
    assert.match(
      String(reply.headers["content-type"]),
      /^multipart\/mixed; boundary=batchresponse_\S+$/,
    );
    const parts = partsIn(reply);
    assert.deepEqual(
      parts.map(({ status }) => status),
      [204, 201, 204, 204, 204, 204, 204, 204],
    );
    assert.deepEqual(
      parts.map(({ headers }) => headers["content-id"]),
      ["1", "2", "three", undefined, undefined, undefined, undefined, undefined],
    );
    assert.equal(parts[0]?.headers["preference-applied"], "return-no-content");
    assert.equal(parts[0]?.headers.location, `${urlOf(server)}${at(TABLE, "k", "inserted")}`);
    assert.equal(JSON.parse(parts[1]?.body ?? "").n, 2);
    assert.equal(parts[4]?.headers.etag, undefined);
    const etags = parts.map(({ headers }) => headers.etag).filter((etag) => etag !== undefined);
    assert.equal(new Set(etags).size, 7);
    assert.deepEqual(await rowsOf("k"), [
      ...[
        "echoed:2",
        "inserted:2",
        "merge:2",
        "replaced:2",
        "tunnelled:2",
        "update:2",
        "upserted:2",
      ],
    ]);
    const merged = await get(server, at(TABLE, "k", "merge"));
    assert.equal(merged.json.m, 1);
    assert.equal(merged.headers.etag, parts[3]?.headers.etag);
  });

  test("through the SDK", async () => {
    const table = tableClient(server, TABLE);
    const transaction = new TableTransaction();
    transaction.createEntity({ partitionKey: "sdk", rowKey: "1", n: 1 });
    transaction.createEntity({ partitionKey: "sdk", rowKey: "it's", n: 1 });
    transaction.upsertEntity({ partitionKey: "sdk", rowKey: "2", n: 1 }, "Merge");
    const done = await table.submitTransaction(transaction.actions);
    assert.equal(done.status, 202);
    assert.deepEqual(
      done.subResponses.map(({ status }) => status),
      [204, 204, 204],
    );
    assert.match(done.getResponseForEntity("1")?.etag ?? "", /^W\/"datetime'/);
    const etag = done.subResponses[2]?.etag ?? "";
    const second = new TableTransaction();
    second.updateEntity({ partitionKey: "sdk", rowKey: "2", n: 2 }, "Replace", { etag });
    second.deleteEntity("sdk", "1");
    await table.submitTransaction(second.actions);
    assert.deepEqual(await rowsOf("sdk"), ["2:2", "it's:1"]);
    // The ETag is stale now: neither change is done.
    const third = new TableTransaction();
    third.deleteEntity("sdk", "it's");
    third.updateEntity({ partitionKey: "sdk", rowKey: "2", n: 3 }, "Replace", { etag });
    await assert.rejects(table.submitTransaction(third.actions), (error) => {
      assert.ok(error instanceof RestError);
      assert.deepEqual([error.statusCode, error.code], [412, "UpdateConditionNotSatisfied"]);
      assert.match(error.message, /^1:/);
      return true;
    });
    assert.deepEqual(await rowsOf("sdk"), ["2:2", "it's:1"]);
  });

  test("100 changes are taken, 101 are not", async () => {
    const many = (count: number, partition: string) =>
      Array.from({ length: count }, (_, i) =>
        post(partition, String(i).padStart(3, "0"), { n: i }),
      );
    const reply = await sendBatch(server, changeSet(server, many(100, "hundred")));
    assert.equal(partsIn(reply).length, 100);
    assert.equal((await rowsOf("hundred")).length, 100);
    await fails(many(101, "f"), 400, "InvalidInput", 100);
  });

  test("takes URLs that are only a path, bare line ends, and keys with quotes", async () => {
    const body = changeSet(server, [post("o", "1", { n: 1 }), on("PUT", "o", "it's", { n: 2 })])
      .replaceAll(new URL(urlOf(server)).origin, "")
      .replaceAll("\r\n", "\n");
    assertReply(await sendBatch(server, body), 202);
    assert.deepEqual(await rowsOf("o"), ["1:1", "it's:2"]);
  });

  test("a batch may hold one query", async () => {
    const query = (part: BatchPart) =>
      sendBatch(server, `--batch_1\r\n${partText(server, part)}--batch_1--\r\n`);
    const point = partsIn(
      assertReply(await query({ method: "GET", path: at(TABLE, "o", "1") }), 202),
    );
    assert.equal(point[0]?.status, 200);
    assert.equal(JSON.parse(point[0]?.body ?? "").n, 1);
    const path = `/${TABLE}()?$filter=PartitionKey%20eq%20'o'&$top=1`;
    const [page] = partsIn(assertReply(await query({ method: "GET", path }), 202));
    assert.equal(JSON.parse(page?.body ?? "").value.length, 1);
    assert.match(page?.headers["x-ms-continuation-nextrowkey"] ?? "", /^1!/);
    const [none] = partsIn(await query({ method: "GET", path: at(TABLE, "o", "none") }));
    assert.equal(none?.status, 404);
    assertReply(await query(post("o", "alone")), 400, "InvalidInput");
  });

  test("in a table that is not there is TableNotFound", async () => {
    const part = { method: "POST", path: "/nothere", body: { PartitionKey: "p", RowKey: "r" } };
    const [found] = partsIn(await sendBatch(server, changeSet(server, [part])));
    assert.equal(found?.status, 404);
    assert.match(found?.body ?? "", /"code":"TableNotFound".*"0:/);
  });
});

suite("A change set that fails", () => {
  before(async () => {
    await insert(server, TABLE, { PartitionKey: "f", RowKey: "there", n: 1 });
  });
  const first = () => post("f", "first", { n: 1 });
  const stale = { "If-Match": `W/"datetime'2020-01-01T00%3A00%3A00.0000000Z'"` };

  const rows: [
    what: string,
    parts: () => BatchPart[],
    status: number,
    code: string,
    index: number,
  ][] = [
    ["inserts what is there", () => [first(), post("f", "there")], 409, "EntityAlreadyExists", 1],
    [
      "updates what is not there",
      () => [first(), on("PUT", "f", "none", {}, ANY)],
      404,
      "ResourceNotFound",
      1,
    ],
    [
      "merges by a stale ETag",
      () => [first(), on("MERGE", "f", "there", { n: 9 }, stale)],
      412,
      "UpdateConditionNotSatisfied",
      1,
    ],
    [
      "deletes by a stale ETag, last of three",
      () => [first(), on("PUT", "f", "there", { n: 9 }), on("DELETE", "f", "x", undefined, ANY)],
      404,
      "ResourceNotFound",
      2,
    ],
    [
      "deletes without If-Match",
      () => [on("DELETE", "f", "there")],
      400,
      "MissingRequiredHeader",
      0,
    ],
    [
      "names two partitions",
      () => [first(), post("g", "second")],
      400,
      "CommandsInBatchActOnDifferentPartitions",
      1,
    ],
    [
      "names an entity twice",
      () => [first(), post("f", "second"), on("PUT", "f", "first", {})],
      400,
      "InvalidDuplicateRow",
      2,
    ],
    [
      "names two tables",
      () => [first(), { ...post("f", "second"), path: "/Another" }],
      400,
      "InvalidInput",
      1,
    ],
    [
      "holds a query",
      () => [first(), { method: "GET", path: at(TABLE, "f", "there") }],
      400,
      "InvalidInput",
      1,
    ],
    [
      "holds no JSON",
      () => [first(), { ...post("f", "second"), body: "{" }],
      400,
      "InvalidInput",
      1,
    ],
    ["holds a bad key", () => [first(), post("f", "a/b")], 400, "OutOfRangeInput", 1],
    [
      "holds a bad property",
      () => [first(), post("f", "second", { "a-b": 1 })],
      400,
      "PropertyNameInvalid",
      1,
    ],
    [
      "holds no keys",
      () => [first(), { ...post("f", ""), body: {} }],
      400,
      "PropertiesNeedValue",
      1,
    ],
    [
      "is about tables",
      () => [{ method: "POST", path: "/Tables", body: { TableName: "abc" } }],
      400,
      "InvalidInput",
      0,
    ],
    ["has an unknown verb", () => [{ ...first(), method: "NOTHING" }], 405, "MethodNotAllowed", 0],
    ["puts to a table", () => [{ ...first(), method: "PUT" }], 405, "MethodNotAllowed", 0],
  ];
  for (const [what, parts, status, code, index] of rows) {
    test(`because it ${what}: ${status} ${code}, and nothing is done`, async () => {
      await fails(parts(), status, code, index);
    });
  }

  test("echoes the Content-ID of the one that failed", async () => {
    const bad = { ...post("f", "there"), headers: { "Content-ID": "bad" } };
    const part = await fails([first(), bad], 409, "EntityAlreadyExists", 1);
    assert.equal(part?.headers["content-id"], "bad");
  });

  test("through the SDK, two partitions and one entity twice are refused by the server too", async () => {
    const table = tableClient(server, TABLE);
    const twice = { partitionKey: "f", rowKey: "twice" };
    await assert.rejects(
      table.submitTransaction([
        ["create", twice],
        ["upsert", twice],
      ]),
      (error) =>
        error instanceof RestError &&
        error.statusCode === 400 &&
        error.code === "InvalidDuplicateRow",
    );
    assert.ok(!(await rowsOf("f")).includes("twice:undefined"));
  });
});

suite("A body that is no batch", () => {
  const good = () => changeSet(server, [post("n", "1")]);
  const rows: [
    what: string,
    body: () => string | Buffer,
    status: number,
    code: string,
    type?: string,
  ][] = [
    ["empty", () => "", 400, "InvalidInput"],
    ["without its end", () => good().replace("--batch_1--", ""), 400, "InvalidInput"],
    [
      "without its change set's end",
      () => good().replace("--changeset_1--", ""),
      400,
      "InvalidInput",
    ],
    ["of another boundary", () => good().replaceAll("batch_1", "batch_2"), 400, "InvalidInput"],
    [
      "with two change sets",
      () => `${good().replace("--batch_1--\r\n", "")}${good()}`,
      400,
      "InvalidInput",
    ],
    ["with an empty change set", () => changeSet(server, []), 400, "InvalidInput"],
    ["not UTF-8", () => Buffer.from(`${good()}\xff`, "latin1"), 400, "InvalidInput"],
    [
      "with a part that is no request",
      () => good().replace("application/http", "text/plain"),
      400,
      "InvalidInput",
    ],
    ["with a bad request line", () => good().replace(" HTTP/1.1", ""), 400, "InvalidInput"],
    [
      "with a bad header",
      () => good().replace("DataServiceVersion:", "DataServiceVersion"),
      400,
      "InvalidInput",
    ],
    [
      "with a condition on its query",
      () =>
        `--batch_1\r\n${partText(server, { method: "GET", path: "/Batched()", headers: { "If-None-Match": "*" } })}--batch_1--\r\n`,
      400,
      "ConditionHeadersNotSupported",
    ],
    ["of JSON", () => "{}", 400, "InvalidHeaderValue", "application/json"],
    ["without a boundary", good, 400, "InvalidHeaderValue", "multipart/mixed"],
    ["over 4 MiB", () => `${good()}${" ".repeat(4 * 1024 * 1024)}`, 413, "RequestBodyTooLarge"],
  ];
  for (const [what, body, status, code, type] of rows) {
    test(`${what}: ${status} ${code}`, async () => {
      const headers = type === undefined ? {} : { "content-type": type };
      assertReply(await sendBatch(server, body(), headers), status, code);
      assert.deepEqual(await rowsOf("n"), []);
    });
  }
});

test("Entity Group Transaction: a reader beside the writers sees all of a change set or nothing", async () => {
  const SIZE = 20;
  const table = tableClient(server, TABLE);
  const write = (n: number) =>
    table.submitTransaction(
      Array.from({ length: SIZE }, (_, i) => [
        "upsert",
        { partitionKey: "r", rowKey: String(i), n },
        "Replace",
      ]),
    );
  await write(0);
  let isWriting = true;
  const writers = Promise.all(
    [1, 2, 3].map(async (writer) => {
      for (let round = 0; round < 15; round++) await write(writer * 1_000 + round);
    }),
  ).finally(() => {
    isWriting = false;
  });
  let reads = 0;
  const reader = async () => {
    while (isWriting) {
      const values = (await rowsOf("r")).map((row: string) => row.split(":")[1]);
      assert.equal(values.length, SIZE);
      assert.equal(new Set(values).size, 1, `a mixture: ${values}`);
      reads++;
    }
  };
  await Promise.all([writers, reader(), reader()]);
  assert.ok(reads > 5, `${reads} reads`);
});
