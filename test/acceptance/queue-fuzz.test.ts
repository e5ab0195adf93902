import assert from "node:assert/strict";
import { test } from "node:test";
import { type RawReply, type RawRequest, send } from "./raw.ts";
import { at, startServer } from "./server.ts";

const seed = Number(process.env.LAZULI_FUZZ_SEED ?? 1);
const REQUESTS = 1500;
const CLIENTS = 16;

/** Numbers from a seed (mulberry32). */
function randomOf(from: number): (limit: number) => number {
  let state = from >>> 0;
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

const NUMBERS = [
  "0",
  "1",
  "-1",
  "32",
  "33",
  "604800",
  "604801",
  "9".repeat(20),
  "1e3",
  "",
  "٣",
  "x",
];
const RECEIPTS = [
  "AQAAAAAAAAAAAAAAAAAA",
  "____________________",
  "AQ__________________",
  "",
  "%",
  "ä",
];
const IDS = ["01234567-89ab-4def-a123-456789abcdef", "x", " ", "..", "%", "\0", "i".repeat(3000)];
const QUEUES = [
  "fuzz",
  "fuzz",
  "fuzz",
  "other",
  "no-such",
  "UPPER",
  "a",
  "a--b",
  "\0\0\0",
  "$root",
];
const QUERIES: Readonly<Record<string, readonly string[]>> = {
  numofmessages: NUMBERS,
  visibilitytimeout: NUMBERS,
  messagettl: NUMBERS,
  peekonly: ["true", "false", "", "x"],
  popreceipt: RECEIPTS,
  comp: ["metadata", "acl", "list", "properties", "stats", "userdelegationkey", "lease", ""],
  restype: ["service", "queue", ""],
  maxresults: NUMBERS,
  marker: ["1!!", "1!____!", "x", "\0", "1!AAAA!ffffffffffffffff"],
  prefix: ["f", "", "\0", "\ufffe", "ä", "p".repeat(2000)],
  include: ["metadata", "METADATA", "x", ","],
  timeout: NUMBERS,
  snapshot: ["2030-01-01T00:00:00.0000000Z", "x"],
};
const BODIES = [
  "",
  "<QueueMessage><MessageText>text</MessageText></QueueMessage>",
  "<QueueMessage><MessageText>&#xD;&#1;&bogus;</MessageText></QueueMessage>",
  "<QueueMessage><MessageText>a<b>c</b></MessageText></QueueMessage>",
  `<QueueMessage><MessageText>${"x".repeat(70_000)}</MessageText></QueueMessage>`,
  `<QueueMessage><MessageText>${"&amp;".repeat(60_000)}</MessageText></QueueMessage>`,
  `<QueueMessage>${"<MessageText>".repeat(5000)}`,
  "<QueueMessage><MessageText>half",
  "<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier></SignedIdentifiers>",
  "<SignedIdentifiers><SignedIdentifier><AccessPolicy/></SignedIdentifier></SignedIdentifiers>",
  "<StorageServiceProperties><Cors><CorsRule/></Cors></StorageServiceProperties>",
  "\0\0\0",
];
const HEADERS: Readonly<Record<string, readonly string[]>> = {
  "x-ms-meta-a": ["1", "x".repeat(9000)],
  "x-ms-meta-": ["1"],
  "if-match": ["*"],
  "x-ms-lease-id": ["x", "01234567-89ab-4def-a123-456789abcdef"],
  "content-md5": ["AAAA", "1B2M2Y8AsgTpgAmY7PhCfg=="],
  "x-ms-version": ["2025-11-05", "2009-09-19", "x"],
};

const [, TEXT = ""] = BODIES;
const RIGHT: readonly RawRequest[] = [
  { method: "GET", path: "/", query: { comp: "list" } },
  { method: "GET", path: "/", query: { restype: "service", comp: "properties" } },
  { method: "PUT", path: "/fuzz" },
  { method: "GET", path: "/fuzz", query: { comp: "metadata" } },
  { method: "PUT", path: "/fuzz", query: { comp: "acl" } },
  { method: "POST", path: "/fuzz/messages", body: TEXT },
  { method: "POST", path: "/fuzz/messages", body: TEXT, query: { messagettl: "1" } },
  { method: "GET", path: "/fuzz/messages" },
  { method: "GET", path: "/fuzz/messages", query: { peekonly: "true" } },
  { method: "DELETE", path: `/fuzz/messages/${IDS[0]}`, query: { popreceipt: RECEIPTS[0] ?? "" } },
];

function requestOf(random: (limit: number) => number): RawRequest {
  const of = <T>(items: readonly T[]) => items[random(items.length)] as T;
  const some = (fields: Readonly<Record<string, readonly string[]>>, count: number) =>
    Object.fromEntries(
      Array.from({ length: count }, () => {
        const name = of(Object.keys(fields));
        return [name, of(fields[name] ?? [])];
      }),
    );
  if (random(10) < 5) {
    // Right as it stands, but for what is added; so that what is odd is met deep inside.
    const right = of(RIGHT);
    const query = { ...right.query, ...some(QUERIES, random(2)) };
    return { ...right, query, headers: random(5) > 0 ? {} : some(HEADERS, 1) };
  }
  const queue = of(QUEUES);
  const message = `/${queue}/messages/${of(IDS)}`;
  return {
    method: of(["GET", "PUT", "POST", "DELETE", "HEAD", "MERGE", "OPTIONS"]),
    path: of(["/", `/${queue}`, `/${queue}/messages`, message, `/${queue}/x`]),
    query: some(QUERIES, random(4)),
    headers: random(3) > 0 ? {} : some(HEADERS, 1 + random(2)),
    body: of(BODIES),
  };
}

test(`the queue's port: nonsense of seed ${seed} gets the documented errors, and no 500`, async (t) => {
  const server = await startServer();
  const queue = at(server, "queue");
  const statuses: Record<string, number> = {};
  let next = 0;
  const client = async () => {
    while (next < REQUESTS) {
      const index = next++;
      if (index % 100 === 0) await send(queue, { method: "PUT", path: "/fuzz" });
      const request = requestOf(randomOf(seed * 1_000_003 + index));
      const told = `seed ${seed}, case ${index}: ${JSON.stringify(request).slice(0, 2000)}`;
      const reply: RawReply = await send(queue, request).catch((error: Error) => {
        throw new Error(`${error.message}\n${told}`);
      });
      statuses[reply.status] = (statuses[reply.status] ?? 0) + 1;
      assert.ok(reply.status < 500, `${told}\n${reply.text}\n${server.output().slice(-3000)}`);
      if (reply.status >= 400) assert.notEqual(reply.code, undefined, told);
    }
  };
  try {
    await Promise.all(Array.from({ length: CLIENTS }, client));
    t.diagnostic(JSON.stringify(statuses));
    const done = (statuses[200] ?? 0) + (statuses[201] ?? 0) + (statuses[204] ?? 0);
    assert.ok(done > REQUESTS / 20, "the fuzz is shallow");
    assert.equal((await fetch(`${queue.origin}/healthz`)).status, 200);
  } finally {
    await server.stop();
  }
});
