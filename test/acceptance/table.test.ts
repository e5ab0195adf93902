import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { RestError } from "@azure/data-tables";
import { startServer, type TestServer } from "./server.ts";
import {
  ask,
  assertReply,
  createTable,
  FULL,
  get,
  insert,
  MINIMAL,
  NO_METADATA,
  tableClient,
  tableServiceClient,
  urlOf,
} from "./tables.ts";

let server: TestServer;

before(async () => {
  server = await startServer();
});

after(() => server.stop());

const create = (name: unknown, headers: Record<string, string> = {}) =>
  ask(server, {
    method: "POST",
    path: "/Tables",
    headers,
    body: JSON.stringify({ TableName: name }),
  });
const remove = (name: string) => ask(server, { method: "DELETE", path: `/Tables('${name}')` });

suite("Create Table", () => {
  test("answers with the table, at each level of metadata", async () => {
    const none = assertReply(await create("Levels1", NO_METADATA), 201);
    assert.deepEqual(none.json, { TableName: "Levels1" });
    assert.equal(
      none.headers["content-type"],
      "application/json;odata=nometadata;streaming=true;charset=utf-8",
    );
    assert.equal(none.headers.location, `${urlOf(server)}/Tables('Levels1')`);
    assert.equal(none.headers["preference-applied"], undefined);
    const minimal = assertReply(await create("Levels2"), 201);
    assert.deepEqual(minimal.json, {
      "odata.metadata": `${urlOf(server)}/$metadata#Tables/@Element`,
      TableName: "Levels2",
    });
    const full = assertReply(await create("Levels3", FULL), 201);
    assert.deepEqual(full.json, {
      "odata.metadata": `${urlOf(server)}/$metadata#Tables/@Element`,
      "odata.type": "devstoreaccount1.Tables",
      "odata.id": `${urlOf(server)}/Tables('Levels3')`,
      "odata.editLink": "Tables('Levels3')",
      TableName: "Levels3",
    });
  });

  test("Prefer says whether the table comes back", async () => {
    const without = assertReply(await create("prefer1", { prefer: "return-no-content" }), 204);
    assert.equal(without.headers["preference-applied"], "return-no-content");
    assert.equal(without.headers.dataserviceid, `${urlOf(server)}/Tables('prefer1')`);
    assert.equal(without.text, "");
    const content = assertReply(await create("prefer2", { prefer: "return-content" }), 201);
    assert.equal(content.headers["preference-applied"], "return-content");
  });

  test("a name is taken whatever its case, and keeps it", async () => {
    assertReply(await create("CamelCase"), 201);
    assertReply(await create("camelcase"), 409, "TableAlreadyExists");
    assert.equal((await get(server, "/Tables('CAMELCASE')")).json.TableName, "CamelCase");
    assertReply(await insert(server, "camelCASE", { PartitionKey: "p", RowKey: "r" }), 201);
    assertReply(await get(server, "/CAMELcase(PartitionKey='p',RowKey='r')"), 200);
  });

  const refused: [name: unknown, code: string][] = [
    ["ab", "OutOfRangeInput"],
    ["a".repeat(64), "OutOfRangeInput"],
    ["1abc", "InvalidResourceName"],
    ["ab-c", "InvalidResourceName"],
    ["tables", "InvalidInput"],
    [5, "InvalidInput"],
    [null, "InvalidInput"],
  ];
  for (const [name, code] of refused) {
    test(`refuses the name ${JSON.stringify(name)}`, async () => {
      assertReply(await create(name), 400, code);
    });
  }

  for (const body of ["", "{", "[]", '{"Name":"abc"}', '{"TableName":"abc","Other":1}', "\xff"]) {
    test(`refuses the body ${JSON.stringify(body)}`, async () => {
      const bytes = Buffer.from(body, "latin1");
      assertReply(await ask(server, { method: "POST", path: "/Tables", body: bytes }), 400);
    });
  }

  test("through the SDK; one that is there already is no error to it", async () => {
    const service = tableServiceClient(server);
    await service.createTable("ThroughSdk");
    await service.createTable("ThroughSdk");
    await tableClient(server, "ThroughSdk2").createTable();
    const names: string[] = [];
    for await (const { name } of service.listTables()) names.push(name ?? "");
    assert.ok(names.includes("ThroughSdk") && names.includes("ThroughSdk2"));
  });
});

suite("Delete Table", () => {
  test("removes the table and all in it; one of the same name begins empty", async () => {
    await createTable(server, "removed");
    for (const RowKey of ["1", "2"]) await insert(server, "removed", { PartitionKey: "p", RowKey });
    const gone = assertReply(await remove("REMOVED"), 204);
    assert.equal(gone.text, "");
    assertReply(await get(server, "/removed()"), 404, "TableNotFound");
    assertReply(await get(server, "/Tables('removed')"), 404, "ResourceNotFound");
    await createTable(server, "removed");
    assert.deepEqual((await get(server, "/removed()")).json.value, []);
  });

  test("of a table that is not there is ResourceNotFound", async () => {
    const reply = assertReply(await remove("nothere"), 404, "ResourceNotFound");
    assert.equal(reply.json["odata.error"].code, "ResourceNotFound");
    assert.equal(reply.json["odata.error"].message.lang, "en-US");
    assert.match(
      reply.json["odata.error"].message.value,
      /^The specified resource does not exist\.\nRequestId:[0-9a-f-]{36}\nTime:\d{4}-\S+Z$/,
    );
  });

  test("through the SDK; one that is gone already is no error to it", async () => {
    const table = tableClient(server, "SdkRemoved");
    await table.createTable();
    await table.deleteTable();
    await table.deleteTable();
  });
});

suite("Query Tables", () => {
  const NAMES = ["query1", "Query2", "query3"];
  before(async () => {
    for (const name of NAMES) await createTable(server, name);
  });
  const query = async (options: Record<string, string>, headers = NO_METADATA) =>
    get(server, "/Tables", headers, options);
  const names = (json: { value: { TableName: string }[] }) =>
    json.value.map((each) => each.TableName);

  test("gives all, in order, at each level of metadata", async () => {
    const none = assertReply(await query({}), 200).json;
    assert.ok(NAMES.every((name) => names(none).includes(name)));
    assert.deepEqual(Object.keys(none), ["value"]);
    const sorted = names(none).map((name) => name.toLowerCase());
    assert.deepEqual(sorted, [...sorted].sort());
    const minimal = (await query({}, MINIMAL)).json;
    assert.equal(minimal["odata.metadata"], `${urlOf(server)}/$metadata#Tables`);
    const full = (await query({ $filter: "TableName eq 'Query2'" }, FULL)).json;
    assert.equal(full.value[0]["odata.id"], `${urlOf(server)}/Tables('Query2')`);
  });

  const filters: [filter: string, want: string[]][] = [
    ["TableName eq 'Query2'", ["Query2"]],
    ["TableName eq 'nothere'", []],
    ["TableName ge 'query' and TableName lt 'queryz'", ["query1", "query3"]],
    ["'Query2' eq TableName or TableName eq 'query1'", ["query1", "Query2"]],
    ["TableName eq 5", []],
    ["Other eq 'x'", []],
  ];
  for (const [$filter, want] of filters) {
    test(`by ${$filter}`, async () => {
      assert.deepEqual(names(assertReply(await query({ $filter }), 200).json), want);
    });
  }

  test("pages by $top and NextTableName", async () => {
    const all = names((await query({})).json);
    const paged: string[] = [];
    let next: string | undefined = "";
    while (next !== undefined) {
      const more: Record<string, string> = next === "" ? {} : { NextTableName: next };
      const reply = await query({ $top: "2", ...more });
      assert.ok(names(reply.json).length <= 2);
      paged.push(...names(reply.json));
      next = reply.headers["x-ms-continuation-nexttablename"] as string | undefined;
    }
    assert.deepEqual(paged, all);
    const pages: number[] = [];
    for await (const page of tableServiceClient(server).listTables().byPage({ maxPageSize: 3 })) {
      pages.push(page.length);
    }
    assert.equal(
      pages.reduce((sum, size) => sum + size, 0),
      all.length,
    );
  });

  test("one by its name", async () => {
    assert.deepEqual((await get(server, "/Tables('query1')")).json, { TableName: "query1" });
  });

  for (const options of [
    { $filter: "TableName eq" },
    { $top: "1001" },
    { $top: "many" },
    { $select: "Other" },
    { NextTableName: "x" },
  ]) {
    test(`refuses ${JSON.stringify(options)}`, async () => {
      assertReply(await query(options as unknown as Record<string, string>), 400, "InvalidInput");
    });
  }
});

suite("Set Table ACL and Get Table ACL", () => {
  const acl = (method: string, body?: string, path = "/policies") =>
    ask(server, {
      ...{ method, path, query: { comp: "acl" } },
      ...(body === undefined ? {} : { body, headers: { "content-type": "application/xml" } }),
    });
  before(() => createTable(server, "policies"));

  test("through the SDK", async () => {
    const table = tableClient(server, "policies");
    assert.deepEqual(await table.getAccessPolicy(), []);
    const start = new Date("2026-01-01T00:00:00Z");
    const expiry = new Date("2030-01-01T00:00:00Z");
    const policy = { id: "readers", accessPolicy: { start, expiry, permission: "r" } };
    await table.setAccessPolicy([policy, { id: "empty" }]);
    const found = await table.getAccessPolicy();
    assert.deepEqual(found[0], policy);
    assert.equal(found[1]?.id, "empty");
  });

  test("an empty body takes all policies away", async () => {
    assertReply(await acl("PUT", ""), 204);
    const reply = assertReply(await acl("GET"), 200);
    assert.equal(reply.headers["content-type"], "application/xml");
    assert.match(reply.text, /<SignedIdentifiers><\/SignedIdentifiers>|<SignedIdentifiers ?\/>/);
  });

  test("the policies of a table do not touch its entities", async () => {
    const entity = { PartitionKey: "p", RowKey: "r" };
    assertReply(await insert(server, "policies", entity), 201);
    assertReply(await acl("PUT", "<SignedIdentifiers/>"), 204);
    assertReply(await get(server, "/policies(PartitionKey='p',RowKey='r')"), 200);
  });

  const policy = (permission: string) =>
    `<SignedIdentifier><Id>${permission}</Id><AccessPolicy><Permission>${permission}</Permission></AccessPolicy></SignedIdentifier>`;
  const refused: [what: string, body: string, code: string][] = [
    ["no XML", "{}", "InvalidXmlDocument"],
    ["letters of other services", policy("w"), "InvalidXmlNodeValue"],
    ["six policies", ["r", "a", "u", "d", "ra", "rau"].map(policy).join(""), "InvalidXmlDocument"],
  ];
  for (const [what, body, code] of refused) {
    test(`refuses ${what}, in XML`, async () => {
      const reply = await acl("PUT", `<SignedIdentifiers>${body}</SignedIdentifiers>`);
      const found = what === "no XML" ? await acl("PUT", body) : reply;
      assertReply(found, 400, code);
      assert.match(found.text, new RegExp(`<Error><Code>${code}</Code>`));
    });
  }

  test("of a table that is not there is TableNotFound", async () => {
    assertReply(await acl("GET", undefined, "/nothere"), 404, "TableNotFound");
    assertReply(await acl("PUT", "", "/nothere"), 404, "TableNotFound");
  });
});

suite("Set Table Service Properties", () => {
  test("Get Table Service Properties gives back what was set through the SDK", async () => {
    const service = tableServiceClient(server);
    const logging = {
      ...{ version: "1.0", delete: true, read: false, write: true },
      retentionPolicy: { enabled: true, days: 5 },
    };
    await service.setProperties({ logging });
    const found = await service.getProperties();
    assert.deepEqual(found.logging, logging);
    assert.equal(found.hourMetrics?.enabled, false);
    assert.deepEqual(found.cors, []);
  });

  test("refuses what only blobs have, in XML", async () => {
    const body =
      "<StorageServiceProperties><StaticWebsite><Enabled>true</Enabled></StaticWebsite></StorageServiceProperties>";
    const query = { restype: "service", comp: "properties" };
    const headers = { "content-type": "application/xml" };
    const reply = await ask(server, { method: "PUT", path: "/", query, headers, body });
    assertReply(reply, 400, "UnsupportedXmlNode");
    assert.match(reply.text, /<Code>UnsupportedXmlNode</);
  });
});

suite("The secondary", () => {
  const secondary = () => ({
    ...server,
    urls: { ...server.urls, table: `${urlOf(server)}-secondary` },
  });
  const query = { restype: "service", comp: "stats" };

  test("Get Table Service Stats is told there alone", async () => {
    const reply = assertReply(await ask(secondary(), { method: "GET", path: "/", query }), 200);
    assert.match(reply.text, /<GeoReplication><Status>live<\/Status><LastSyncTime>\w{3}, /);
    assertReply(
      await ask(server, { method: "GET", path: "/", query }),
      400,
      "InvalidQueryParameterValue",
    );
  });

  test("reads what the primary has, and takes no writes", async () => {
    await createTable(server, "seenTwice");
    assertReply(await get(secondary(), "/Tables('seenTwice')"), 200);
    const body = '{"TableName":"another"}';
    const refused = await ask(secondary(), { method: "POST", path: "/Tables", body });
    assertReply(refused, 403, "InsufficientAccountPermissions");
    assertReply(await get(server, "/Tables('another')"), 404);
  });
});

suite("Authorization of tables", () => {
  const list = { method: "GET", path: "/Tables" } as const;
  const wrong = Buffer.alloc(64, 1).toString("base64");

  test("Shared Key and Shared Key Lite in the form that tables have", async () => {
    for (const sign of ["SharedKey", "SharedKeyLite"] as const) {
      assertReply(await ask(server, { ...list, sign }), 200);
      assertReply(await ask(server, { ...list, sign, query: { $top: "1" } }), 200);
      const acl = { method: "GET", path: "/policies", query: { comp: "acl" }, sign } as const;
      assertReply(await ask(server, acl), 200);
      assertReply(await ask(server, { ...list, sign, key: wrong }), 403, "AuthenticationFailed");
    }
  });

  test("refusals are JSON", async () => {
    const reply = assertReply(await ask(server, { ...list, key: wrong }), 403);
    assert.equal(reply.json["odata.error"].code, "AuthenticationFailed");
    const none = await ask(server, {
      ...list,
      sign: "none",
      headers: { "x-ms-version": "2021-12-02" },
    });
    assertReply(none, 401, "NoAuthenticationInformation");
  });

  test("the SDK sees the refusal of a wrong key", async () => {
    const connectionString = server.connectionString.replace(server.key, wrong);
    const table = tableClient({ ...server, connectionString }, "policies");
    await assert.rejects(
      table.getEntity("p", "r"),
      (error) => error instanceof RestError && error.statusCode === 403,
    );
  });
});

suite("Get Metadata", () => {
  test("tells the properties that every entity has", async () => {
    const reply = assertReply(await ask(server, { method: "GET", path: "/$metadata" }), 200);
    for (const name of ["PartitionKey", "RowKey", "Timestamp"]) {
      assert.match(reply.text, new RegExp(`<Property Name="${name}"`));
    }
  });
});
