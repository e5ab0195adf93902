import assert from "node:assert/strict";
import http from "node:http";
import { test } from "node:test";
import { startServer, type TestServer } from "./server.ts";
import { ask, at, changeSet, createTable, insert, type TableCall } from "./tables.ts";

const COUNT = 1_200;
const SEED = 20_261_116;

function randomOf(seed: number) {
  let state = seed;
  const below = (bound: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
  return { below, of: <T>(list: readonly T[]): T => list[below(list.length)] as T };
}
type Random = ReturnType<typeof randomOf>;

const TRICKS = [
  ...[
    "'",
    "''",
    '"',
    "\\",
    "(",
    ")",
    "{",
    "}",
    "[",
    ",",
    ":",
    "\r\n",
    "\n",
    "--",
    "--batch_1",
    "\0",
  ],
  ...["eq", " and ", " not ", "NaN", "1e999", "99999999999999999999", "L", "datetime'", "guid'x'"],
  ...[
    "é",
    "😀",
    "\ud83d",
    "%",
    "%zz",
    "$",
    "odata.",
    "@odata.type",
    "Edm.Int64",
    "null",
    " HTTP/1.1",
  ],
  ...["Content-Type: multipart/mixed; boundary=x", "Content-ID: ", "If-Match: *", "PartitionKey"],
];

/** The text with some of it cut out, doubled, or replaced. */
function mutated(text: string, random: Random): string {
  let result = text;
  for (let count = random.below(4); count > 0; count--) {
    const from = random.below(result.length + 1);
    const [before, behind] = [result.slice(0, from), result.slice(from)];
    const kind = random.below(4);
    if (kind === 0) result = before + behind.slice(1 + random.below(8));
    else if (kind === 1) result = before + before.slice(-10) + behind;
    else if (kind === 2) result = before + random.of(TRICKS) + behind;
    else result = before + String.fromCharCode(random.below(300)) + behind;
  }
  return result;
}

const FILTERS = [
  "PartitionKey eq 'p' and RowKey ge 'a'",
  "n gt 1 or not (text eq 'it''s') and flag",
  "date ge datetime'2020-01-01T00:00:00Z' and guid eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'",
  "long eq 5L and double lt 1.5e3 and bytes eq X'00ff'",
];
const BODIES = [
  '{"PartitionKey":"p","RowKey":"r","n":1,"text":"it\'s \\u00e4"}',
  '{"PartitionKey":"p","RowKey":"x","long@odata.type":"Edm.Int64","long":"5","d@odata.type":"Edm.Double","d":"NaN"}',
  '{"PartitionKey":"","RowKey":"","t@odata.type":"Edm.DateTime","t":"2020-01-01T00:00:00Z","b@odata.type":"Edm.Binary","b":"AP8="}',
];
const METHODS = ["GET", "POST", "PUT", "PATCH", "MERGE", "DELETE", "HEAD", "OPTIONS"];
const HEADERS: readonly Record<string, string>[] = [
  {},
  { "if-match": "*" },
  { "if-match": 'W/"x"' },
  { "if-match": "x" },
  { prefer: "return-no-content" },
  { accept: "application/json;odata=fullmetadata" },
  { accept: "application/atom+xml" },
  { "x-http-method": "MERGE" },
  { "content-type": "text/plain" },
];

function wild(server: TestServer, random: Random): TableCall {
  const headers = { ...random.of(HEADERS), ...random.of(HEADERS) };
  const kind = random.below(5);
  if (kind === 0) {
    const query: Record<string, string> = {
      $filter: mutated(random.of(FILTERS), random).toWellFormed(),
    };
    if (random.below(3) === 0)
      query.$select = mutated("n,text,PartitionKey", random).toWellFormed();
    if (random.below(3) === 0) query.$top = mutated("10", random).toWellFormed();
    if (random.below(4) === 0) query.NextPartitionKey = mutated("1!2!cA", random).toWellFormed();
    return { method: "GET", path: random.of(["/Fuzz()", "/Fuzz", "/Tables"]), query, headers };
  }
  if (kind === 1) {
    return {
      method: "POST",
      path: random.of(["/Fuzz", "/Tables"]),
      body: mutated(random.of(BODIES), random),
      headers,
    };
  }
  if (kind === 2) {
    const parts = Array.from({ length: 1 + random.below(4) }, (_, i) => ({
      method: random.of(["POST", "PUT", "MERGE", "DELETE"]),
      path: random.of(["/Fuzz", at("Fuzz", "p", String(i))]),
      headers: random.of([{}, { "If-Match": "*" }, { "Content-ID": "1" }]),
      body: mutated(random.of(BODIES), random),
    }));
    const type = random.below(10) === 0 ? "multipart/mixed" : "multipart/mixed; boundary=batch_1";
    const body = mutated(changeSet(server, parts), random);
    return { method: "POST", path: "/$batch", headers: { "content-type": type }, body };
  }
  const text = mutated(
    random.of(["/Fuzz(PartitionKey='p',RowKey='r')", "/Tables('Fuzz')", "/$batch", "/$metadata"]),
    random,
  );
  const path = `/${text.replace(/[^\x21-\x7e]|[#?]/g, "")}`.replace(/^\/+/, "/");
  const method = random.of(METHODS);
  const hasBody = method !== "GET" && method !== "HEAD";
  return {
    method,
    path,
    headers,
    ...(hasBody ? { body: mutated(random.of(BODIES), random) } : {}),
  };
}

test(`${COUNT} odd requests to tables, seed ${SEED}: each has an answer, none is a 500`, async () => {
  const server = await startServer();
  const agent = new http.Agent({ keepAlive: true });
  try {
    const random = randomOf(SEED);
    const seen = new Map<number, number>();
    const client = async () => {
      for (let i = 0; i < COUNT / 8; i++) {
        if (i % 20 === 0) {
          await createTable(server, "Fuzz").catch(() => {});
          await insert(server, "Fuzz", BODIES[0] ?? "");
        }
        const call = wild(server, random);
        const reply = await ask(server, { ...call, agent });
        const what = `${JSON.stringify(call)}: ${reply.status} ${reply.text}`;
        assert.ok(reply.status < 500 || reply.code === "NotImplemented", what);
        seen.set(reply.status, (seen.get(reply.status) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: 8 }, client));
    for (const status of [200, 202, 400]) assert.ok((seen.get(status) ?? 0) > 5, `${status}`);
    assert.equal(await server.stop(), 0, server.output());
    assert.doesNotMatch(server.output(), /a request failed/);
  } finally {
    agent.destroy();
    await server.kill().catch(() => {});
  }
});
