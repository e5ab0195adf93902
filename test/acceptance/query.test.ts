import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import type { BlobQueryError, BlockBlobQueryOptions } from "@azure/storage-blob";
import { BlobServiceClient, RestError } from "@azure/storage-blob";
import { assertReply, containerClient, createContainer, putBlob, takeSnapshot } from "./blobs.ts";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
before(async () => {
  server = await startServer();
  await createContainer(server, "query");
});
after(() => server.stop());

type Outcome = { text: string; errors: BlobQueryError[]; progress: number[] };

/** Uploads a text, asks the query of it, and gathers all that comes back. */
async function ask(
  content: string | undefined,
  query: string,
  options: BlockBlobQueryOptions = {},
): Promise<Outcome> {
  const blob = containerClient(server, "query").getBlockBlobClient("data");
  if (content !== undefined) await blob.upload(content, Buffer.byteLength(content));
  const errors: BlobQueryError[] = [];
  const progress: number[] = [];
  const reply = await blob.query(query, {
    onError: (error) => void errors.push(error),
    onProgress: ({ loadedBytes }) => void progress.push(loadedBytes),
    ...options,
  });
  const parts: Buffer[] = [];
  for await (const part of reply.readableStreamBody ?? []) parts.push(Buffer.from(part));
  return { text: Buffer.concat(parts).toString("utf8"), errors, progress };
}

const csv = (more = {}): BlockBlobQueryOptions => ({
  inputTextConfiguration: {
    kind: "csv",
    recordSeparator: "\n",
    columnSeparator: ",",
    fieldQuote: '"',
    hasHeaders: true,
    ...more,
  },
  outputTextConfiguration: {
    kind: "csv",
    recordSeparator: "\n",
    columnSeparator: ",",
    fieldQuote: '"',
  },
});
const json: BlockBlobQueryOptions = {
  inputTextConfiguration: { kind: "json", recordSeparator: "\n" },
};
const asJson: BlockBlobQueryOptions = {
  outputTextConfiguration: { kind: "json", recordSeparator: "\n" },
};

const numbers = "100,200,300,400\n150,250,350,450\n";
const people = 'name,age,town\n"Doe, Jane",42,Oslo\nBob,7,Rome\nZoë,,"a ""b"""\n';
const mouse = JSON.stringify({
  id: 1,
  name: "mouse",
  price: 12.5,
  tags: ["wireless", "accessory"],
  dimensions: { length: 3, width: 2 },
  weight: 0.2,
  warehouses: [
    { latitude: 41.8, longitude: -87.6 },
    { latitude: 1, longitude: 2 },
  ],
});

const rows: [query: string, content: string, options: BlockBlobQueryOptions, want: string][] = [
  // The SDK's own tests of the service.
  ["select * from BlobStorage", numbers, {}, numbers],
  ["select _2 from BlobStorage where _1 > 100", numbers, {}, "250\n"],
  ["select _2 from BlobStorage where _1 > 200", numbers, {}, ""],
  [
    "select * from BlobStorage",
    '{"_1":"100","_2":"200"}\n{"_1":"1"}\n',
    { ...json, ...asJson },
    '{"_1":"100","_2":"200"}\n{"_1":"1"}\n',
  ],
  // Columns by name and number, expressions, quotes
  ["SELECT name, AGE FROM BlobStorage WHERE town = 'Oslo'", people, csv(), '"Doe, Jane",42\n'],
  ["SELECT _1 FROM BlobStorage WHERE _2 = ''", people, csv(), "Zoë\n"],
  ['SELECT "town" FROM BlobStorage LIMIT 2', people, csv(), "Oslo\nRome\n"],
  ["SELECT * FROM BlobStorage WHERE name LIKE '%,%'", people, csv(), '"Doe, Jane",42,Oslo\n'],
  ["SELECT town, UPPER(name) FROM BlobStorage WHERE name > 'Z'", people, csv(), '"a ""b""",ZOË\n'],
  [
    "SELECT CAST(age AS INT) + 1 AS next FROM BlobStorage WHERE age <> ''",
    people,
    { ...csv(), ...asJson },
    '{"next":43}\n{"next":8}\n',
  ],
  [
    "SELECT * FROM BlobStorage LIMIT 1",
    people,
    { ...csv(), ...asJson },
    '{"name":"Doe, Jane","age":"42","town":"Oslo"}\n',
  ],
  [
    "SELECT * FROM BlobStorage LIMIT 1",
    numbers,
    asJson,
    '{"_1":"100","_2":"200","_3":"300","_4":"400"}\n',
  ],
  ["SELECT * FROM BlobStorage LIMIT 0", numbers, {}, ""],
  ["SELECT name FROM BlobStorage", "", csv(), ""],
  // Aggregates
  ["SELECT COUNT(*) FROM BlobStorage", numbers, {}, "2\n"],
  [
    "SELECT COUNT(*), SUM(_1), AVG(_2), MIN(CAST(_3 AS INT)), MAX(_4) FROM BlobStorage",
    numbers,
    {},
    "2,250,225,300,450\n",
  ],
  ["SELECT COUNT(*), SUM(_1) FROM BlobStorage WHERE _1 > 1000", numbers, {}, "0,\n"],
  [
    "SELECT SUM(price) AS total FROM BlobStorage",
    `${mouse}\n${mouse}`,
    { ...json, ...asJson },
    '{"total":25}\n',
  ],
  // JSON
  [
    "SELECT latitude FROM BlobStorage[*].warehouses[*]",
    mouse,
    { ...json, ...asJson },
    '{"latitude":41.8}\n{"latitude":1}\n',
  ],
  ["SELECT length FROM BlobStorage[*].dimensions", mouse, { ...json, ...asJson }, '{"length":3}\n'],
  [
    "SELECT weight,warehouses[0].longitude,id,tags[1] FROM BlobStorage[*]",
    mouse,
    {
      ...json,
      ...csv({ kind: "json" }),
      inputTextConfiguration: { kind: "json", recordSeparator: "\n" },
    },
    "0.2,-87.6,1,accessory\n",
  ],
  [
    "SELECT id, nothing FROM BlobStorage WHERE nothing IS MISSING",
    mouse,
    { ...json, ...asJson },
    '{"id":1}\n',
  ],
  [
    "SELECT * FROM BlobStorage[*].warehouses[1]",
    mouse,
    { ...json, ...asJson },
    '{"latitude":1,"longitude":2}\n',
  ],
  ["SELECT id FROM BlobStorage WHERE id > 1", '[{"id":1},{"id":2}]', json, '{"id":2}\n'],
];
for (const [query, content, options, want] of rows) {
  test(`Query Blob Contents: ${query} of ${JSON.stringify(content.slice(0, 12))}`, async () => {
    const { text, errors, progress } = await ask(content, query, options);
    assert.deepEqual({ text, errors }, { text: want, errors: [] });
    assert.equal(progress.at(-1), Buffer.byteLength(content));
  });
}

test("Query Blob Contents: other separators, in and out", async () => {
  const { text } = await ask("100.200!150.250!180.280!", "select _1, _2 from BlobStorage", {
    inputTextConfiguration: {
      kind: "csv",
      recordSeparator: "!",
      columnSeparator: ".",
      hasHeaders: true,
    },
    outputTextConfiguration: {
      kind: "csv",
      recordSeparator: ";",
      columnSeparator: "|",
      hasHeaders: true,
    },
  });
  assert.equal(text, "_1|_2;150|250;180|280;");
});

test("Query Blob Contents: a row that does not fit is told and left out", async () => {
  const content = "100,hello,300,400\n150,250,350,450\n1\n";
  const { text, errors } = await ask(content, "select _2 from BlobStorage where _2 > 100");
  assert.equal(text, "250\n");
  assert.deepEqual(errors, [
    {
      isFatal: false,
      name: "InvalidTypeConversion",
      position: 0,
      description: "Invalid type conversion.",
    },
    {
      isFatal: false,
      name: "InvalidColumnOrdinal",
      position: 34,
      description: "Invalid column ordinal.",
    },
  ]);
});

test("Query Blob Contents: a fatal error ends the query, after what was found", async () => {
  const { text, errors } = await ask(numbers, "select * from BlobStorage", json);
  assert.equal(text, "\n");
  assert.deepEqual(errors, [
    {
      isFatal: true,
      name: "ParseError",
      position: 0,
      description: "Unexpected token ',' at [byte: 3]. Expecting tokens '{', or '['. ",
    },
  ]);
  const long = await ask(`1\n${"x".repeat(1024 * 1024 + 1)}`, "select * from BlobStorage");
  assert.equal(long.text, "1\n");
  assert.deepEqual(
    long.errors.map(({ isFatal, name, position }) => ({ isFatal, name, position })),
    [{ isFatal: true, name: "RecordTooLarge", position: 2 }],
  );
  const named = await ask(people, "select height from BlobStorage", csv());
  assert.deepEqual(
    named.errors.map(({ name }) => name),
    ["InvalidColumnName"],
  );
});

const refused: [what: string, query: string, options: BlockBlobQueryOptions][] = [
  ["a query that is none", "select", {}],
  ["names without a header row", "select name from BlobStorage", {}],
  ["a path in delimited text", "select _1.b from BlobStorage", {}],
  ["a table path in delimited text", "select * from BlobStorage[*].a", {}],
  ["column _0", "select _0 from BlobStorage", {}],
  ["sys.split of JSON", "select sys.split(10485760) from BlobStorage", json],
];
for (const [what, query, options] of refused) {
  test(`Query Blob Contents: refuses ${what}`, async () => {
    await assert.rejects(
      ask(numbers, query, options),
      (error) =>
        error instanceof RestError &&
        error.statusCode === 400 &&
        error.code === "ErrorProcessingQueryExpression",
    );
  });
}

test("Query Blob Contents: refuses formats it cannot read or write", async () => {
  const formats: BlockBlobQueryOptions[] = [
    { inputTextConfiguration: { kind: "parquet" } },
    { outputTextConfiguration: { kind: "arrow", schema: [{ type: "int64", name: "a" }] } },
  ];
  for (const options of formats) {
    await assert.rejects(
      ask(numbers, "select * from BlobStorage", options),
      (error) => error instanceof RestError && error.code === "InvalidXmlNodeValue",
    );
  }
});

const body = (expression = "select * from BlobStorage") =>
  `<QueryRequest><QueryType>SQL</QueryType><Expression>${expression}</Expression></QueryRequest>`;
const post = (
  path: string,
  call: { body?: string; query?: Record<string, string>; headers?: Record<string, string> } = {},
) =>
  send(server, {
    method: "POST",
    path,
    body: call.body ?? body(),
    query: { comp: "query", ...call.query },
    headers: call.headers ?? {},
  });

test("Query Blob Contents: refuses bodies that are no request", async () => {
  await putBlob(server, "/query/bodies", numbers);
  const bodies: [body: string, code: string][] = [
    ["", "InvalidXmlDocument"],
    ["<Other/>", "InvalidXmlDocument"],
    ["<QueryRequest><QueryType>SQL</QueryType></QueryRequest>", "MissingRequiredXmlNode"],
    [
      "<QueryRequest><Expression>select * from BlobStorage</Expression></QueryRequest>",
      "MissingRequiredXmlNode",
    ],
    [body().replace("SQL", "KQL"), "InvalidXmlNodeValue"],
    [
      body().replace(
        "</QueryRequest>",
        "<InputSerialization><Format/></InputSerialization></QueryRequest>",
      ),
      "MissingRequiredXmlNode",
    ],
    [
      body().replace(
        "</QueryRequest>",
        "<InputSerialization><Format><Type>delimited</Type><DelimitedTextConfiguration><ColumnSeparator>,</ColumnSeparator><RecordSeparator>,</RecordSeparator></DelimitedTextConfiguration></Format></InputSerialization></QueryRequest>",
      ),
      "InvalidXmlNodeValue",
    ],
    [body("x".repeat(1024 * 1024)), "RequestBodyTooLarge"],
  ];
  for (const [text, code] of bodies) {
    assertReply(
      await post("/query/bodies", { body: text }),
      code === "RequestBodyTooLarge" ? 413 : 400,
      code,
    );
  }
});

test("Query Blob Contents: existence, conditions, lease, snapshot and archive", async () => {
  assertReply(await post("/query/none"), 404, "BlobNotFound");
  const put = await putBlob(server, "/query/guarded", numbers, { "x-ms-meta-a": "b" });
  const etag = String(put.headers.etag);
  const snapshot = await takeSnapshot(server, "/query/guarded");
  const reply = assertReply(await post("/query/guarded", { headers: { "if-match": etag } }), 200);
  assert.equal(reply.headers["content-type"], "avro/binary");
  assert.equal(reply.headers.etag, etag);
  assert.equal(reply.headers["x-ms-meta-a"], "b");
  assert.equal(reply.headers["x-ms-blob-type"], "BlockBlob");
  assertReply(
    await post("/query/guarded", { headers: { "if-match": '"0x1"' } }),
    412,
    "ConditionNotMet",
  );
  assertReply(await post("/query/guarded", { headers: { "if-none-match": etag } }), 304);
  const lease = { "x-ms-lease-id": "00000000-0000-0000-0000-000000000001" };
  assertReply(
    await post("/query/guarded", { headers: lease }),
    412,
    "LeaseNotPresentWithBlobOperation",
  );
  await putBlob(server, "/query/guarded", "9,9\n");
  const old = assertReply(await post("/query/guarded", { query: { snapshot } }), 200);
  assert.ok(old.text.includes(numbers));
  const tier = {
    method: "PUT",
    path: "/query/guarded",
    query: { comp: "tier" },
    headers: { "x-ms-access-tier": "Archive" },
  };
  assertReply(await send(server, tier), 200);
  assertReply(await post("/query/guarded"), 409, "BlobArchived");
});

const residentMiB = (pid: number) =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;

test("Query Blob Contents: 64 MiB go through with flat memory, split or whole", async () => {
  const blob = containerClient(server, "query").getBlockBlobClient("large");
  const line = "100,200,300,some longer text\n150,250,350,other longer text\n";
  const block = Buffer.from(line.repeat(Math.floor((4 * 1024 * 1024) / line.length)));
  const ids = Array.from({ length: 16 }, (_, i) =>
    Buffer.from(String(i).padStart(4, "0")).toString("base64"),
  );
  for (const id of ids) await blob.stageBlock(id, block, block.length);
  await blob.commitBlockList(ids);
  const size = block.length * ids.length;
  const before = residentMiB(server.pid);
  let peak = before;
  let progress = 0;
  let received = 0;
  const reply = await blob.query("select * from BlobStorage where _1 > 100", {
    onProgress: () => void progress++,
  });
  for await (const part of reply.readableStreamBody ?? []) {
    received += (part as Buffer).length;
    peak = Math.max(peak, residentMiB(server.pid));
  }
  assert.equal(received, (size / line.length) * (line.length - line.indexOf("150")));
  assert.ok(progress >= 10, `${progress} progress records`);
  assert.ok(peak - before < 120, `${before} MiB grew to ${peak} MiB`);

  const parts = await blob.query("select sys.split(10485760) from BlobStorage");
  let text = "";
  for await (const part of parts.readableStreamBody ?? []) text += String(part);
  const sizes = text.trim().split("\n").map(Number);
  assert.equal(
    sizes.reduce((sum, each) => sum + each, 0),
    size,
  );
  assert.equal(sizes.length, 7);
  assert.ok(sizes.slice(0, -1).every((each) => each >= 10_485_760 && each < 10_485_760 + 40));
});

test("Query Blob Contents: reads the version it began with", async () => {
  const client = BlobServiceClient.fromConnectionString(server.connectionString);
  const blob = client.getContainerClient("query").getBlockBlobClient("replaced");
  const content = "1,first\n".repeat(1024 * 1024);
  await blob.upload(content, content.length);
  const reply = await blob.query("select _2 from BlobStorage");
  await blob.upload("1,second\n", 9);
  await blob.delete();
  let size = 0;
  for await (const part of reply.readableStreamBody ?? []) size += (part as Buffer).length;
  assert.equal(size, 6 * 1024 * 1024);
});

test("Query Blob Contents: of a blob under a customer's key only with that key", async () => {
  const key = Buffer.alloc(32, 1);
  const keyed = {
    "x-ms-encryption-key": key.toString("base64"),
    "x-ms-encryption-key-sha256": createHash("sha256").update(key).digest("base64"),
    "x-ms-encryption-algorithm": "AES256",
  };
  await putBlob(server, "/query/keyed", numbers, keyed);
  const reply = assertReply(await post("/query/keyed", { headers: keyed }), 200);
  assert.ok(reply.text.includes(numbers));
  assert.equal((await post("/query/keyed")).status, 409);
});
