import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startServer, type TestServer } from "./server.ts";
import { ANY, ask, at, createTable, get, insert, type TableCall } from "./tables.ts";

let server: TestServer;
let etag = "";

before(async () => {
  server = await startServer();
  await createTable(server, "Bad");
  const reply = await insert(server, "Bad", { PartitionKey: "p", RowKey: "r", n: 1 });
  etag = String(reply.headers.etag);
});

after(() => server.stop());

const entity = at("Bad", "p", "r");
const body = '{"n":2}';
const post = (text: string | Buffer, headers: Record<string, string> = {}): TableCall => ({
  ...{ method: "POST", path: "/Bad", body: text, headers },
});
const keyed = (more: string) => post(`{"PartitionKey":"p","RowKey":"x"${more}}`);
const list = (query: Record<string, string>, headers: Record<string, string> = {}): TableCall => ({
  ...{ method: "GET", path: "/Bad()", query, headers },
});
const numbered = (count: number) => Array.from({ length: count }, (_, i) => `,"p${i}":1`).join("");
const texts = (count: number) =>
  Array.from({ length: count }, (_, i) => `,"t${i}":"${"x".repeat(32_768)}"`).join("");

const rows: [what: string, call: TableCall, want: string][] = [
  ["an unknown verb", { method: "TRACE", path: "/Bad" }, "400 InvalidHttpVerb"],
  ["PUT on a table", { method: "PUT", path: "/Bad", body }, "405 UnsupportedHttpVerb"],
  ["POST on an entity", { method: "POST", path: entity, body }, "405 UnsupportedHttpVerb"],
  ["DELETE of all tables", { method: "DELETE", path: "/Tables" }, "405 UnsupportedHttpVerb"],
  ["a path below a table", { method: "GET", path: "/Bad/more" }, "400 InvalidUri"],
  ["one key alone", { method: "GET", path: "/Bad(PartitionKey='p')" }, "400 InvalidInput"],
  [
    "a key that is not quoted",
    { method: "GET", path: "/Bad(PartitionKey=1,RowKey='r')" },
    "400 InvalidInput",
  ],
  [
    "a path that cannot be decoded",
    { method: "GET", path: "/Bad(PartitionKey='%zz',RowKey='r')" },
    "400 InvalidUri",
  ],
  ["a bad table name", { method: "GET", path: "/a-b()" }, "400 InvalidResourceName"],
  [
    "a key with a slash in the URL",
    { method: "GET", path: "/Bad(PartitionKey='a%2Fb',RowKey='r')" },
    "400 OutOfRangeInput",
  ],
  [
    "a key with a control character",
    { method: "PUT", path: "/Bad(PartitionKey='a%01b',RowKey='r')", body },
    "400 OutOfRangeInput",
  ],
  [
    "a key that is too long",
    { method: "GET", path: at("Bad", "x".repeat(513), "r") },
    "400 KeyValueTooLarge",
  ],
  [
    "X-HTTP-Method without POST",
    { method: "PUT", path: entity, body, headers: { "x-http-method": "MERGE" } },
    "400 XMethodNotUsingPost",
  ],
  [
    "X-HTTP-Method that is none",
    { method: "POST", path: entity, body, headers: { "x-http-method": "GET" } },
    "400 XMethodIncorrectValue",
  ],
  [
    "two X-HTTP-Methods",
    { method: "POST", path: entity, body, headers: { "x-http-method": "PUT,MERGE" } },
    "400 XMethodIncorrectCount",
  ],
  [
    "Atom as the answer",
    list({}, { accept: "application/atom+xml" }),
    "415 AtomFormatNotSupported",
  ],
  ["Atom by $format", list({ $format: "atom" }), "415 AtomFormatNotSupported"],
  [
    "verbose JSON",
    list({}, { accept: "application/json;odata=verbose" }),
    "415 MediaTypeNotSupported",
  ],
  ["an image as the answer", list({}, { accept: "image/png" }), "415 MediaTypeNotSupported"],
  [
    "Atom as the body",
    post("<entry/>", { "content-type": "application/atom+xml" }),
    "415 AtomFormatNotSupported",
  ],
  [
    "a form as the body",
    post("a=b", { "content-type": "application/x-www-form-urlencoded" }),
    "415 MediaTypeNotSupported",
  ],
  [
    "a version of OData that is none",
    list({}, { dataserviceversion: "four" }),
    "400 InvalidHeaderValue",
  ],
  ["no body", post(""), "400 InvalidInput"],
  ["broken JSON", post('{"PartitionKey":'), "400 InvalidInput"],
  ["a list", post("[]"), "400 InvalidInput"],
  ["nested JSON", keyed(',"a":{"b":1}'), "400 InvalidInput"],
  ["deeply nested JSON", keyed(`,"a":${"[".repeat(100_000)}`), "400 InvalidInput"],
  [
    "bytes that are not UTF-8",
    post(Buffer.from('{"PartitionKey":"\xff","RowKey":"x"}', "latin1")),
    "400 InvalidInput",
  ],
  ["no RowKey", post('{"PartitionKey":"p"}'), "400 PropertiesNeedValue"],
  ["no PartitionKey", post('{"RowKey":"p"}'), "400 PropertiesNeedValue"],
  ["a key that is null", post('{"PartitionKey":null,"RowKey":"x"}'), "400 PropertiesNeedValue"],
  ["a key that is a number", post('{"PartitionKey":1,"RowKey":"x"}'), "400 InvalidInput"],
  ["a key with a hash", post('{"PartitionKey":"a#b","RowKey":"x"}'), "400 OutOfRangeInput"],
  ["a key with a question mark", post('{"PartitionKey":"p","RowKey":"?"}'), "400 OutOfRangeInput"],
  ["a key with a backslash", post('{"PartitionKey":"p","RowKey":"\\\\"}'), "400 OutOfRangeInput"],
  ["a key with a tab", post('{"PartitionKey":"p","RowKey":"\\t"}'), "400 OutOfRangeInput"],
  [
    "a key of 513 characters",
    post(`{"PartitionKey":"p","RowKey":"${"x".repeat(513)}"}`),
    "400 KeyValueTooLarge",
  ],
  ["a property twice", keyed(',"a":1,"a":2'), "400 DuplicatePropertiesSpecified"],
  ["a name with a dash", keyed(',"a-b":1'), "400 PropertyNameInvalid"],
  ["a name that is too long", keyed(`,"${"a".repeat(256)}":1`), "400 PropertyNameTooLong"],
  ["253 properties", keyed(numbered(253)), "400 TooManyProperties"],
  ["a text over 64 KiB", keyed(`,"a":"${"x".repeat(32_769)}"`), "400 PropertyValueTooLarge"],
  [
    "bytes over 64 KiB",
    keyed(`,"a@odata.type":"Edm.Binary","a":"${Buffer.alloc(65_537).toString("base64")}"`),
    "400 PropertyValueTooLarge",
  ],
  ["an entity over 1 MiB", keyed(texts(16)), "400 EntityTooLarge"],
  ["a body over 4 MiB", keyed(`,"a":"${"x".repeat(4 * 1024 * 1024)}"`), "413 RequestBodyTooLarge"],
  ["an unknown type", keyed(',"a@odata.type":"Edm.Duration","a":"x"'), "400 InvalidInput"],
  ["a Guid that is none", keyed(',"a@odata.type":"Edm.Guid","a":"x"'), "400 InvalidInput"],
  [
    "a time before 1601",
    keyed(',"a@odata.type":"Edm.DateTime","a":"1600-12-31T00:00:00Z"'),
    "400 OutOfRangeInput",
  ],
  [
    "an Int64 that is too large",
    keyed(',"a@odata.type":"Edm.Int64","a":"9223372036854775808"'),
    "400 InvalidInput",
  ],
  ["a Double that is too large", keyed(',"a":1e400'), "400 InvalidInput"],
  ["If-Match on an insert", post('{"PartitionKey":"p","RowKey":"x"}', ANY), "400 InvalidInput"],
  [
    "an option on a write",
    {
      method: "POST",
      path: "/Bad",
      body: '{"PartitionKey":"p","RowKey":"x"}',
      query: { $filter: "a eq 1" },
    },
    "400 InvalidInput",
  ],
  ["$orderby", list({ $orderby: "n" }), "501 NotImplemented"],
  ["$skip", list({ $skip: "1" }), "501 NotImplemented"],
  ["$top over 1000", list({ $top: "1001" }), "400 InvalidInput"],
  ["$top below 0", list({ $top: "-1" }), "400 InvalidInput"],
  ["a filter that is none", list({ $filter: "n eq" }), "400 InvalidInput"],
  [
    "a function in a filter",
    list({ $filter: "startswith(PartitionKey,'p')" }),
    "501 NotImplemented",
  ],
  ["two properties in a comparison", list({ $filter: "n eq m" }), "400 InvalidInput"],
  [
    "a filter that nests too deep",
    list({ $filter: `${"(".repeat(2_000)}n eq 1${")".repeat(2_000)}` }),
    "400 InvalidInput",
  ],
  ["a filter of nots", list({ $filter: `${"not ".repeat(2_000)}flag` }), "400 InvalidInput"],
  [
    "a filter that is too long",
    list({ $filter: Array.from({ length: 400 }, () => "n eq 1").join(" or ") }),
    "400 InvalidInput",
  ],
  ["a bad $select", list({ $select: "a b" }), "400 InvalidInput"],
  ["a bad continuation", list({ NextPartitionKey: "nonsense" }), "400 InvalidInput"],
  [
    "a condition on a query",
    list({}, { "if-none-match": "*" }),
    "400 ConditionHeadersNotSupported",
  ],
  [
    "a condition of time on an insert",
    post('{"PartitionKey":"p","RowKey":"x"}', { "if-unmodified-since": new Date(0).toUTCString() }),
    "400 ConditionHeadersNotSupported",
  ],
  [
    "a condition on a table",
    { method: "DELETE", path: "/Tables('Bad')", headers: ANY },
    "400 ConditionHeadersNotSupported",
  ],
  [
    "an unknown comp",
    { method: "GET", path: "/Bad", query: { comp: "nothing" } },
    "400 InvalidQueryParameterValue",
  ],
  ["nothing at all", { method: "GET", path: "/" }, "400 MissingRequiredQueryParameter"],
];
for (const [what, call, want] of rows) {
  test(`${what}: ${want}`, async () => {
    const reply = await ask(server, call);
    assert.equal(`${reply.status} ${reply.code}`, want, reply.text.slice(0, 300));
    if (call.query?.comp !== undefined) return;
    const error = reply.json["odata.error"];
    assert.equal(error.code, reply.code);
    assert.match(error.message.value, /\nRequestId:\S+\nTime:\S+Z$/);
  });
}

test("what was refused left everything as it was", async () => {
  const { json } = await get(server, "/Bad()");
  assert.equal(json.value.length, 1);
  const found = await get(server, entity);
  assert.deepEqual([found.json.n, found.headers.etag], [1, etag]);
  assert.deepEqual((await get(server, "/Tables")).json.value, [{ TableName: "Bad" }]);
});
