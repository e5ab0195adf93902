import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { type Edm, odata, RestError, type TableClient } from "@azure/data-tables";
import { startServer, type TestServer } from "./server.ts";
import {
  ANY,
  ask,
  assertReply,
  at,
  createTable,
  FULL,
  get,
  insert,
  MINIMAL,
  NO_METADATA,
  type TableReply,
  tableClient,
  urlOf,
} from "./tables.ts";

const TABLE = "Entities";
let server: TestServer;
let table: TableClient;

before(async () => {
  server = await startServer();
  table = tableClient(server, TABLE);
  await createTable(server, TABLE);
});

after(() => server.stop());

const STALE = `W/"datetime'2020-01-01T00%3A00%3A00.0000000Z'"`;
const ETAG = /^W\/"datetime'(\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d\.\d{7}Z)'"$/;

let made = 0;
/** An entity of its own for each test; gives its path, key and ETag. */
async function fresh(more: Record<string, unknown> = {}) {
  const RowKey = `row-${made++}`;
  const reply = assertReply(
    await insert(server, TABLE, { PartitionKey: "p", RowKey, ...more }),
    201,
  );
  return { RowKey, path: at(TABLE, "p", RowKey), etag: String(reply.headers.etag) };
}

const change = (
  method: string,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
) =>
  ask(server, {
    ...{ method, path, headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });

/** The properties of an entity that are its own. */
const own = ({ json }: TableReply) => {
  const { PartitionKey: _partition, RowKey: _row, Timestamp: _time, ...rest } = json;
  return rest;
};

suite("Insert Entity", () => {
  test("answers with the entity and an ETag that is its Timestamp", async () => {
    const entity = { PartitionKey: "p", RowKey: "echo", a: 1, b: "x" };
    const reply = assertReply(await insert(server, TABLE, entity, NO_METADATA), 201);
    const { Timestamp, ...rest } = reply.json;
    assert.deepEqual(rest, entity);
    const [, stamp = ""] = ETAG.exec(String(reply.headers.etag)) ?? [];
    assert.equal(decodeURIComponent(stamp), Timestamp);
    assert.equal(reply.headers.location, `${urlOf(server)}${at(TABLE, "p", "echo")}`);
    assert.equal(reply.headers.dataserviceversion, "3.0;");
    assert.equal(reply.headers["cache-control"], "no-cache");
    assert.equal(reply.headers["x-content-type-options"], "nosniff");
    const found = await get(server, at(TABLE, "p", "echo"));
    assert.deepEqual(found.json, reply.json);
    assert.equal(found.headers.etag, reply.headers.etag);
  });

  test("Prefer says whether the entity comes back", async () => {
    const without = await insert(
      server,
      TABLE,
      { PartitionKey: "p", RowKey: "prefer1" },
      { prefer: "return-no-content" },
    );
    assertReply(without, 204);
    assert.equal(without.headers["preference-applied"], "return-no-content");
    assert.match(String(without.headers.etag), ETAG);
    assert.equal(without.headers.dataserviceid, `${urlOf(server)}${at(TABLE, "p", "prefer1")}`);
    const content = await insert(
      server,
      TABLE,
      { PartitionKey: "p", RowKey: "prefer2" },
      { prefer: "return-content" },
    );
    assertReply(content, 201);
    assert.equal(content.headers["preference-applied"], "return-content");
  });

  test("of one that is there is EntityAlreadyExists, and changes nothing", async () => {
    const { RowKey, path, etag } = await fresh({ a: 1 });
    const again = await insert(server, TABLE, { PartitionKey: "p", RowKey, a: 2 });
    assertReply(again, 409, "EntityAlreadyExists");
    const found = await get(server, path);
    assert.deepEqual([found.json.a, found.headers.etag], [1, etag]);
  });

  test("takes /Table() as well", async () => {
    const body = '{"PartitionKey":"p","RowKey":"brackets"}';
    assertReply(await ask(server, { method: "POST", path: `/${TABLE}()`, body }), 201);
  });

  test("ignores a Timestamp and annotations that are sent", async () => {
    const reply = await insert(
      server,
      TABLE,
      {
        ...{ PartitionKey: "p", RowKey: "ignored", Timestamp: "2001-01-01T00:00:00Z" },
        ...{ "odata.etag": 'W/"x"', "Timestamp@odata.type": "Edm.DateTime", none: null },
      },
      NO_METADATA,
    );
    assert.match(reply.json.Timestamp, /^20[2-9]/);
    assert.deepEqual(own(reply), {});
  });

  const odd = [
    "",
    " ",
    "it's",
    "''",
    'a"b',
    "ä€😀",
    "a b%20c+d&e=f;g",
    "(),'",
    "\u2028",
    "x".repeat(512),
  ];
  for (const partitionKey of odd) {
    test(`the key ${JSON.stringify(partitionKey.slice(0, 20))} is found again, raw and by the SDK`, async () => {
      const rowKey = `${partitionKey}`;
      assertReply(
        await insert(server, TABLE, { PartitionKey: partitionKey, RowKey: rowKey, a: 1 }),
        201,
      );
      const found = assertReply(await get(server, at(TABLE, partitionKey, rowKey)), 200);
      assert.deepEqual([found.json.PartitionKey, found.json.RowKey], [partitionKey, rowKey]);
      assert.equal((await table.getEntity(partitionKey, rowKey)).a, 1);
      const $filter = `PartitionKey eq '${partitionKey.replaceAll("'", "''")}'`;
      const listed = await get(server, `/${TABLE}()`, NO_METADATA, { $filter });
      assert.equal(listed.json.value.length, 1);
      await table.updateEntity({ partitionKey, rowKey, a: 2 }, "Replace");
      await table.deleteEntity(partitionKey, rowKey);
      assertReply(await get(server, at(TABLE, partitionKey, rowKey)), 404, "ResourceNotFound");
    });
  }

  test("into a table that is not there is TableNotFound", async () => {
    const entity = { PartitionKey: "p", RowKey: "r" };
    assertReply(await insert(server, "nothere", entity), 404, "TableNotFound");
  });
});

suite("Query Entities by keys", () => {
  const entity = {
    PartitionKey: "meta'data",
    RowKey: "r",
    int: 1,
    double: 1.5,
    "long@odata.type": "Edm.Int64",
    long: "9007199254740993",
    "date@odata.type": "Edm.DateTime",
    date: "2023-01-17T19:07:37.4472913Z",
    text: "x",
  };
  const path = at(TABLE, entity.PartitionKey, "r");
  before(async () => assertReply(await insert(server, TABLE, entity), 201));

  test("nometadata gives values alone", async () => {
    const reply = await get(server, path, NO_METADATA);
    assert.match(String(reply.headers["content-type"]), /^application\/json;odata=nometadata;/);
    assert.deepEqual(own(reply), {
      ...{ int: 1, double: 1.5, long: entity.long, date: entity.date, text: "x" },
    });
  });

  test("minimalmetadata adds the types that JSON does not tell, and the ETag", async () => {
    const reply = await get(server, path, MINIMAL);
    const { PartitionKey: _partition, RowKey: _row, ...properties } = entity;
    assert.deepEqual(own(reply), {
      "odata.metadata": `${urlOf(server)}/$metadata#${TABLE}/@Element`,
      "odata.etag": reply.headers.etag,
      ...properties,
    });
    for (const headers of [{}, { accept: "application/json" }, { accept: "*/*" }]) {
      assert.deepEqual((await get(server, path, headers)).json, reply.json);
    }
  });

  test("fullmetadata adds the links and the type of the Timestamp", async () => {
    const reply = await get(server, path, FULL);
    const where = at(TABLE, entity.PartitionKey, "r").slice(1);
    assert.equal(reply.json["odata.type"], `devstoreaccount1.${TABLE}`);
    assert.equal(reply.json["odata.id"], `${urlOf(server)}/${where}`);
    assert.equal(reply.json["odata.editLink"], where);
    assert.equal(reply.json["odata.etag"], reply.headers.etag);
    assert.equal(reply.json["Timestamp@odata.type"], "Edm.DateTime");
    assert.equal(reply.json["long@odata.type"], "Edm.Int64");
    assert.equal(reply.json.text, "x");
  });

  test("$format comes before Accept", async () => {
    const query = { $format: "application/json;odata=nometadata" };
    assert.equal((await get(server, path, FULL, query)).json["odata.metadata"], undefined);
  });

  test("$select gives what is named, and null for what is not there", async () => {
    const query = { $select: "text,long,absent,PartitionKey" };
    assert.deepEqual((await get(server, path, NO_METADATA, query)).json, {
      ...{ text: "x", long: entity.long, absent: null, PartitionKey: entity.PartitionKey },
    });
    const minimal = (await get(server, path, MINIMAL, query)).json;
    assert.equal(minimal["long@odata.type"], "Edm.Int64");
    assert.match(minimal["odata.etag"], ETAG);
    const all = await get(server, path, NO_METADATA, { $select: "*" });
    assert.equal(all.json.int, 1);
    const sdk = await table.getEntity(entity.PartitionKey, "r", {
      queryOptions: { select: ["int"] },
    });
    assert.equal(sdk.int, 1);
    assert.equal(sdk.text, undefined);
  });

  test("of one that is not there is ResourceNotFound", async () => {
    assertReply(await get(server, at(TABLE, "p", "nothere")), 404, "ResourceNotFound");
    await assert.rejects(
      table.getEntity("p", "nothere"),
      (error) => error instanceof RestError && error.statusCode === 404,
    );
  });

  const conditions: [
    what: string,
    header: (etag: string) => Record<string, string>,
    want: number,
  ][] = [
    ["If-None-Match with its ETag", (etag) => ({ "if-none-match": etag }), 304],
    ["If-None-Match with another ETag", () => ({ "if-none-match": 'W/"x"' }), 200],
    ["If-None-Match with several", (etag) => ({ "if-none-match": `W/"x", ${etag}` }), 304],
    ["If-None-Match: *", () => ({ "if-none-match": "*" }), 304],
    ["If-Match", (etag) => ({ "if-match": etag }), 400],
    ["If-Modified-Since", () => ({ "if-modified-since": new Date(0).toUTCString() }), 400],
  ];
  for (const [what, header, want] of conditions) {
    test(`${what}: ${want}`, async () => {
      const keys = { PartitionKey: "conditional", RowKey: what.replaceAll("*", "any") };
      const etag = String((await insert(server, TABLE, keys)).headers.etag);
      const path = at(TABLE, keys.PartitionKey, keys.RowKey);
      const reply = await get(server, path, { ...NO_METADATA, ...header(etag) });
      assert.equal(reply.status, want, reply.text);
      assert.equal(reply.text === "", want === 304);
    });
  }

  test("If-None-Match on one that is not there is ResourceNotFound", async () => {
    const path = at(TABLE, "conditional", "none");
    assertReply(await get(server, path, { "if-none-match": "*" }), 404, "ResourceNotFound");
  });

  test("the order of the keys in the URL does not matter", async () => {
    const turned = `/${TABLE}(RowKey='r',PartitionKey='meta%27%27data')`;
    assertReply(await get(server, turned), 200);
  });
});

suite("Property types", () => {
  // What is sent, and what comes back at nometadata and at minimalmetadata.
  const rows: [type: string | undefined, sent: string, bare: string, annotated: boolean][] = [
    [undefined, "1", "1", false],
    [undefined, "-2147483648", "-2147483648", false],
    [undefined, "2147483648", "2147483648.0", false],
    [undefined, "1.0", "1.0", false],
    [undefined, "0.1", "0.1", false],
    [undefined, "1e100", "1e+100", false],
    [undefined, "true", "true", false],
    [undefined, '"text"', '"text"', false],
    [undefined, '"\\u00e4\\n\\"\\\\\\ud83d\\ude00"', '"ä\\n\\"\\\\😀"', false],
    [undefined, '""', '""', false],
    ["Int32", '"7"', "7", false],
    ["Int64", '"9223372036854775807"', '"9223372036854775807"', true],
    ["Int64", '"-9223372036854775808"', '"-9223372036854775808"', true],
    ["Double", "3", "3.0", false],
    ["Double", '"NaN"', '"NaN"', true],
    ["Double", '"Infinity"', '"Infinity"', true],
    ["Double", '"-Infinity"', '"-Infinity"', true],
    ["Double", "1.7976931348623157e308", "1.7976931348623157e+308", false],
    ["Double", "5e-324", "5e-324", false],
    ["DateTime", '"2023-01-17T19:07:37.4472913Z"', '"2023-01-17T19:07:37.4472913Z"', true],
    ["DateTime", '"1601-01-01T00:00:00Z"', '"1601-01-01T00:00:00Z"', true],
    ["DateTime", '"9999-12-31T23:59:59.9999999Z"', '"9999-12-31T23:59:59.9999999Z"', true],
    ["DateTime", '"2023-01-17T21:07:37+02:00"', '"2023-01-17T19:07:37Z"', true],
    [
      "Guid",
      '"C9DA6455-213D-42C9-9A79-3E9149A57833"',
      '"c9da6455-213d-42c9-9a79-3e9149a57833"',
      true,
    ],
    ["Binary", '"AP8Q"', '"AP8Q"', true],
    ["Binary", '""', '""', true],
    ["Boolean", "false", "false", false],
    ["String", '"5"', '"5"', false],
  ];
  for (const [index, [type, sent, bare, annotated]] of rows.entries()) {
    test(`${type ?? "no type"}, ${sent} comes back as ${bare}`, async () => {
      const RowKey = `type-${index}`;
      const annotation = type === undefined ? "" : `"v@odata.type":"Edm.${type}",`;
      const body = `{"PartitionKey":"t","RowKey":"${RowKey}",${annotation}"v":${sent}}`;
      assertReply(await insert(server, TABLE, body), 201);
      const path = at(TABLE, "t", RowKey);
      const text = (reply: TableReply) => /,("v(?:@odata\.type)?":.*)}$/.exec(reply.text)?.[1];
      assert.equal(text(await get(server, path, NO_METADATA)), `"v":${bare}`);
      const minimal = annotated ? `"v@odata.type":"Edm.${type}","v":${bare}` : `"v":${bare}`;
      assert.equal(text(await get(server, path, MINIMAL)), minimal);
      // It stays so through a merge that is about something else.
      assertReply(await change("MERGE", path, { w: 1 }), 204);
      assert.equal(text(await get(server, path, MINIMAL)), `${minimal},"w":1`);
      const $filter = `PartitionKey eq 't' and RowKey eq '${RowKey}' and w eq 1`;
      const listed = await get(server, `/${TABLE}()`, NO_METADATA, { $filter });
      assert.equal(listed.json.value.length, 1);
    });
  }

  test("all types through the SDK, as JavaScript's and as typed ones", async () => {
    const date = new Date("2020-01-01T00:00:00.123Z");
    const guid: Edm<"Guid"> = { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" };
    const precise: Edm<"DateTime"> = { type: "DateTime", value: "2023-01-17T19:07:37.4472913Z" };
    const entity = {
      ...{ partitionKey: "sdk", rowKey: "types", int: 5, double: 5.5, text: "ä", yes: true, date },
      ...{ long: 9007199254740993n, bytes: Buffer.from([0, 255]), guid, precise },
      whole: { type: "Double", value: 5 } as Edm<"Double">,
    };
    await table.createEntity(entity);
    const found = await table.getEntity("sdk", "types");
    assert.equal(found.int, 5);
    assert.equal(found.double, 5.5);
    assert.equal(found.whole, 5);
    assert.equal(found.text, "ä");
    assert.equal(found.yes, true);
    assert.deepEqual(found.date, date);
    assert.equal(found.long, entity.long);
    assert.deepEqual(Buffer.from(found.bytes as Uint8Array), entity.bytes);
    assert.deepEqual(found.guid, guid);
    const typed = await table.getEntity("sdk", "types", { disableTypeConversion: true });
    assert.deepEqual(typed.precise, precise);
  });
});

/** What an operation does to an entity: how it is sent, and the answer to each If-Match. */
type WriteRow = {
  readonly name: string;
  readonly method: string;
  readonly tunnel?: string;
  readonly body: unknown;
  /** The properties afterwards, of an entity that had a: 1 and b: 2. */
  readonly after: Record<string, number> | undefined;
  /** The answer without If-Match, where the entity is and where it is not. */
  readonly without: readonly [number, string?];
  readonly missing: readonly [number, string?];
};

const rows: readonly WriteRow[] = [
  ...["PUT", "POST PUT"].map((method) => ({
    ...{ name: "Update Entity and Insert Or Replace Entity", method, body: { b: 3 } },
    ...({ after: { b: 3 }, without: [204], missing: [204] } as const),
  })),
  ...["MERGE", "PATCH", "POST MERGE", "POST PATCH"].map((method) => ({
    ...{ name: "Merge Entity and Insert Or Merge Entity", method, body: { b: 3 } },
    ...({ after: { a: 1, b: 3 }, without: [204], missing: [204] } as const),
  })),
  ...["DELETE", "POST DELETE"].map((method) => ({
    ...{ name: "Delete Entity", method, body: undefined, after: undefined },
    ...({
      without: [400, "MissingRequiredHeader"],
      missing: [400, "MissingRequiredHeader"],
    } as const),
  })),
];

for (const { name, method: verb, body, after: want, without, missing } of rows) {
  suite(`${name} by ${verb}`, () => {
    const [method = "", meant] = verb.split(" ");
    const tunnel: Record<string, string> = meant === undefined ? {} : { "x-http-method": meant };
    const act = (path: string, headers: Record<string, string> = {}) =>
      change(method, path, body, { ...tunnel, ...headers });

    async function isDone(path: string, before: string, reply: TableReply): Promise<void> {
      assertReply(reply, 204);
      assert.equal(reply.text, "");
      const found = await get(server, path);
      if (want === undefined) {
        assertReply(found, 404, "ResourceNotFound");
        assert.equal(reply.headers.etag, undefined);
        return;
      }
      assert.deepEqual(own(found), want);
      assert.equal(found.headers.etag, reply.headers.etag);
      assert.notEqual(reply.headers.etag, before);
    }

    test("If-Match with its ETag does it, and gives a new one", async () => {
      const { path, etag } = await fresh({ a: 1, b: 2 });
      await isDone(path, etag, await act(path, { "if-match": etag }));
    });

    test("If-Match * does it, whatever the ETag", async () => {
      const { path, etag } = await fresh({ a: 1, b: 2 });
      await isDone(path, etag, await act(path, ANY));
    });

    test("If-Match with a stale ETag is UpdateConditionNotSatisfied, and changes nothing", async () => {
      const { path, etag } = await fresh({ a: 1, b: 2 });
      for (const stale of [STALE, 'W/"0x1234"']) {
        assertReply(await act(path, { "if-match": stale }), 412, "UpdateConditionNotSatisfied");
      }
      const found = await get(server, path);
      assert.deepEqual([own(found), found.headers.etag], [{ a: 1, b: 2 }, etag]);
    });

    test("If-Match on one that is not there is ResourceNotFound", async () => {
      const path = at(TABLE, "p", `missing-${verb}`);
      assertReply(await act(path, ANY), 404, "ResourceNotFound");
      assertReply(await act(path, { "if-match": STALE }), 404, "ResourceNotFound");
      assertReply(await get(server, path), 404);
    });

    test(`without If-Match the answer is ${without[0]}`, async () => {
      const { path, etag } = await fresh({ a: 1, b: 2 });
      const reply = assertReply(await act(path), ...without);
      if (reply.status === 204) await isDone(path, etag, reply);
      else assert.equal((await get(server, path)).headers.etag, etag);
    });

    test(`without If-Match, where there is none, the answer is ${missing[0]}`, async () => {
      const path = at(TABLE, "p", `upsert-${verb}`);
      assertReply(await act(path), ...missing);
      if (missing[0] === 204) assert.deepEqual(own(await get(server, path)), { b: 3 });
      else assertReply(await get(server, path), 404);
    });

    const refused: [headers: Record<string, string>, code: string][] = [
      [{ "if-match": "nonsense" }, "InvalidInput"],
      [{ "if-match": '"strong"' }, "InvalidInput"],
      [{ "if-match": `${STALE}, ${STALE}` }, "InvalidInput"],
      [{ "if-none-match": "*" }, "InvalidInput"],
      [{ "if-match": "*", "if-none-match": STALE }, "InvalidInput"],
      [
        { "if-match": "*", "if-modified-since": new Date(0).toUTCString() },
        "ConditionHeadersNotSupported",
      ],
    ];
    for (const [headers, code] of refused) {
      test(`refuses ${JSON.stringify(headers)}`, async () => {
        const { path, etag } = await fresh({ a: 1, b: 2 });
        assertReply(await act(path, headers), 400, code);
        assert.equal((await get(server, path)).headers.etag, etag);
      });
    }

    test("in a table that is not there is TableNotFound", async () => {
      assertReply(await act(at("nothere", "p", "r"), ANY), 404, "TableNotFound");
    });
  });
}

suite("Update Entity and Merge Entity", () => {
  test("null takes nothing away in a merge, and stores nothing in an update", async () => {
    const { path } = await fresh({ a: 1, b: 2 });
    assertReply(await change("PATCH", path, { a: null, c: 3 }, ANY), 204);
    assert.deepEqual(own(await get(server, path)), { a: 1, b: 2, c: 3 });
    assertReply(await change("PUT", path, { a: null, c: 4 }, ANY), 204);
    assert.deepEqual(own(await get(server, path)), { c: 4 });
  });

  test("a merge may change a property's type", async () => {
    const { path } = await fresh({ a: 1 });
    const body = { "a@odata.type": "Edm.Int64", a: "5" };
    assertReply(await change("MERGE", path, body, ANY), 204);
    assert.equal((await get(server, path, MINIMAL)).json["a@odata.type"], "Edm.Int64");
    assertReply(await change("MERGE", path, { a: "text" }, ANY), 204);
    assert.deepEqual(own(await get(server, path, NO_METADATA)), { a: "text" });
  });

  test("keys in the body are those of the URL, or refused", async () => {
    const { path, RowKey } = await fresh({ a: 1 });
    assertReply(await change("PUT", path, { PartitionKey: "p", RowKey, a: 2 }, ANY), 204);
    for (const keys of [{ PartitionKey: "q" }, { RowKey: "other" }]) {
      assertReply(await change("PUT", path, { ...keys, a: 3 }, ANY), 400, "InvalidInput");
    }
    assert.equal((await get(server, path)).json.a, 2);
  });

  test("a merge that makes an entity too large is refused, and changes nothing", async () => {
    const text = "x".repeat(32_000);
    const { path, etag } = await fresh(
      Object.fromEntries(Array.from({ length: 15 }, (_, i) => [`a${i}`, text])),
    );
    const more = { b: text, c: text };
    assertReply(await change("MERGE", path, more, ANY), 400, "EntityTooLarge");
    const many = Object.fromEntries(Array.from({ length: 250 }, (_, i) => [`p${i}`, 1]));
    assertReply(await change("MERGE", path, many, ANY), 400, "TooManyProperties");
    assert.equal((await get(server, path)).headers.etag, etag);
  });

  test("through the SDK: a stale ETag is refused, the new one goes through, * always", async () => {
    const entity = { partitionKey: "sdk", rowKey: "etag", n: 1 };
    const { etag = "" } = await table.createEntity(entity);
    const second = await table.updateEntity({ ...entity, n: 2 }, "Replace", { etag });
    await assert.rejects(
      table.updateEntity({ ...entity, n: 3 }, "Merge", { etag }),
      (error) => error instanceof RestError && error.statusCode === 412,
    );
    await table.updateEntity({ ...entity, n: 4 }, "Merge", { etag: second.etag ?? "" });
    await table.updateEntity({ ...entity, n: 5 }, "Merge", { etag: "*" });
    assert.equal((await table.getEntity("sdk", "etag")).n, 5);
    await table.upsertEntity({ ...entity, m: 1 }, "Merge");
    await table.upsertEntity({ partitionKey: "sdk", rowKey: "upserted", n: 1 }, "Replace");
    assert.equal((await table.getEntity("sdk", "upserted")).n, 1);
  });

  test("every writer of a counter with If-Match is counted", async () => {
    await table.createEntity({ partitionKey: "sdk", rowKey: "counter", n: 0 });
    let acknowledged = 0;
    const etags = new Set<string>();
    const writer = async () => {
      for (let tries = 0; tries < 40; tries++) {
        const found = await table.getEntity("sdk", "counter");
        const next = { partitionKey: "sdk", rowKey: "counter", n: Number(found.n) + 1 };
        try {
          const { etag = "" } = await table.updateEntity(next, "Replace", { etag: found.etag });
          etags.add(etag);
          acknowledged++;
        } catch (error) {
          if (!(error instanceof RestError) || error.statusCode !== 412) throw error;
        }
      }
    };
    await Promise.all(Array.from({ length: 8 }, writer));
    assert.equal((await table.getEntity("sdk", "counter")).n, acknowledged);
    assert.equal(etags.size, acknowledged);
    assert.ok(acknowledged >= 40);
  });
});

suite("Query Entities", () => {
  const list = (options: Record<string, string>, headers: Record<string, string> = NO_METADATA) =>
    get(server, "/Listed()", headers, options);
  const keys = ({ json }: TableReply) =>
    json.value.map(
      (each: { PartitionKey: string; RowKey: string }) => each.PartitionKey + each.RowKey,
    );
  before(async () => {
    await createTable(server, "Listed");
    for (const [PartitionKey, RowKey, n] of [
      ["b", "2", 4],
      ["a", "1", 1],
      ["a", "10", 2],
      ["a", "2", 3],
      ["B", "1", 5],
    ]) {
      const more =
        n === 3
          ? { flag: true }
          : { "date@odata.type": "Edm.DateTime", date: `2020-01-0${n}T00:00:00Z` };
      assertReply(
        await insert(server, "Listed", { PartitionKey, RowKey, n, ...more } as Record<
          string,
          unknown
        >),
        201,
      );
    }
  });

  test("gives all in the order of their keys", async () => {
    const reply = assertReply(await list({}), 200);
    assert.deepEqual(keys(reply), ["B1", "a1", "a10", "a2", "b2"]);
    assert.deepEqual(Object.keys(reply.json), ["value"]);
    assert.equal(reply.headers["x-ms-continuation-nextpartitionkey"], undefined);
    assert.deepEqual(keys(await get(server, "/Listed", NO_METADATA)), keys(reply));
  });

  test("minimalmetadata and fullmetadata say more", async () => {
    const { json } = await list({ $filter: "PartitionKey eq 'b'" }, MINIMAL);
    assert.equal(json["odata.metadata"], `${urlOf(server)}/$metadata#Listed`);
    assert.match(json.value[0]["odata.etag"], ETAG);
    assert.equal(json.value[0]["date@odata.type"], "Edm.DateTime");
    const full = (await list({ $filter: "PartitionKey eq 'b'" }, FULL)).json;
    assert.equal(full.value[0]["odata.editLink"], "Listed(PartitionKey='b',RowKey='2')");
  });

  const filters: [filter: string, want: string[]][] = [
    ["PartitionKey eq 'a'", ["a1", "a10", "a2"]],
    ["PartitionKey eq 'a' and RowKey gt '1' and RowKey lt '2'", ["a10"]],
    ["PartitionKey ge 'a'", ["a1", "a10", "a2", "b2"]],
    ["RowKey eq '1'", ["B1", "a1"]],
    ["n gt 2", ["B1", "a2", "b2"]],
    ["2 lt n", ["B1", "a2", "b2"]],
    ["flag", ["a2"]],
    ["not flag", ["B1", "a1", "a10", "b2"]],
    ["flag ne false", ["a2"]],
    ["date ge datetime'2020-01-02T00:00:00Z'", ["B1", "a10", "b2"]],
    ["n eq 1 or (PartitionKey eq 'b' and n eq 4)", ["a1", "b2"]],
    ["n eq '1'", []],
    ["Timestamp gt datetime'2020-01-01T00:00:00Z'", ["B1", "a1", "a10", "a2", "b2"]],
    ["Timestamp lt datetime'2020-01-01T00:00:00Z'", []],
  ];
  for (const [$filter, want] of filters) {
    test(`by ${$filter}`, async () => {
      assert.deepEqual(keys(assertReply(await list({ $filter }), 200)), want);
    });
  }

  test("$select and $top", async () => {
    const reply = await list({ $select: "n,flag", $top: "4" });
    assert.deepEqual(reply.json.value[3], { n: 3, flag: true });
    assert.deepEqual(reply.json.value[0], { n: 5, flag: null });
    const next = {
      NextPartitionKey: String(reply.headers["x-ms-continuation-nextpartitionkey"]),
      NextRowKey: String(reply.headers["x-ms-continuation-nextrowkey"]),
    };
    assert.deepEqual(keys(await list({ $top: "4", ...next })), ["b2"]);
    const { NextPartitionKey } = next;
    assert.deepEqual(keys(await list({ NextPartitionKey })), ["b2"]);
    assert.deepEqual(keys(await list({ $top: "0" })), []);
  });

  test("a number of JavaScript's finds all types of numbers through the SDK", async () => {
    await createTable(server, "Priced");
    const priced = tableClient(server, "Priced");
    const row = { partitionKey: "p", rowKey: "r", price: 7.99, count: 7, views: 7n, at: 2n ** 40n };
    await priced.createEntity(row);
    const found = async (filter: string) => {
      let count = 0;
      for await (const _ of priced.listEntities({ queryOptions: { filter } })) count++;
      return count;
    };
    for (const name of ["price", "count", "views"]) {
      assert.equal(await found(`${name} lt 8 and ${name} ge 7`), 1, name);
      assert.equal(await found(`${name} gt 8`), 0, name);
    }
    assert.equal(await found(odata`at eq ${2n ** 40n}`), 1);
    assert.equal(await found("count eq 7L"), 0);
  });

  test("pages through the SDK", async () => {
    const listed = tableClient(server, "Listed");
    const pages: string[][] = [];
    for await (const page of listed.listEntities().byPage({ maxPageSize: 2 })) {
      pages.push(page.map(({ partitionKey = "", rowKey = "" }) => partitionKey + rowKey));
    }
    assert.deepEqual(pages, [["B1", "a1"], ["a10", "a2"], ["b2"]]);
  });

  test("1,000 entities are a page; the SDK gets all 1,050", async () => {
    await createTable(server, "Paged");
    const paged = tableClient(server, "Paged");
    for (let from = 0; from < 1_050; from += 50) {
      const rows = Array.from({ length: 50 }, (_, i) => String(from + i).padStart(5, "0"));
      await paged.submitTransaction(
        rows.map(
          (rowKey) =>
            ["create", { partitionKey: "ä", rowKey }] as [
              "create",
              { partitionKey: string; rowKey: string },
            ],
        ),
      );
    }
    const first = await get(server, "/Paged()");
    assert.equal(first.json.value.length, 1_000);
    const found: string[] = [];
    for await (const { rowKey = "" } of paged.listEntities()) found.push(rowKey);
    assert.equal(found.length, 1_050);
    assert.deepEqual(found, [...found].sort());
  });

  test("of a table that is not there is TableNotFound", async () => {
    assertReply(await get(server, "/nothere()"), 404, "TableNotFound");
  });
});
