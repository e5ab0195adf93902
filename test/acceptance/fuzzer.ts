import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type net from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { send } from "./raw.ts";
import type { TestServer } from "./server.ts";
import { connect, headOf } from "./wire.ts";

/** What a run of the fuzzer saw. */
export type Fuzzed = {
  readonly cases: number;
  readonly replies: number;
  /** How often each status came. */
  readonly statuses: Readonly<Record<string, number>>;
  readonly residentMax: number;
};

const CONNECTIONS = 24;
const RESIDENT_MAX = 300 * 1024 * 1024;
/** A whole request has its reply by then, or the connection is closed. */
const REPLY_LIMIT_MS = 10_000;
/** What HTTP itself refuses (an unknown expectation, too long a head) has no code of Azure's. */
const HTTP_ERRORS = [417, 431];
const CONTAINER = "fuzz";
const BLOCK_BLOB = { "x-ms-blob-type": "BlockBlob" };

/**
 * Throws seeded nonsense at the port for a while: no reply may be a 500, whole requests are answered, errors have a code,
 * the process lives on and stays small. A failure names the seed and the case; the same seed makes the same bytes but for dates.
 */
export async function fuzz(
  server: TestServer,
  options: { readonly seed: number; readonly durationMs: number },
): Promise<Fuzzed> {
  const until = Date.now() + options.durationMs;
  const statuses: Record<string, number> = {};
  let next = 0;
  let replies = 0;
  let residentMax = 0;
  const connection = async () => {
    while (Date.now() < until) {
      const index = next++;
      if (index % 200 === 0) await prepare(server);
      if (index % 50 === 0) residentMax = Math.max(residentMax, residentSize(server));
      const random = new Random(options.seed * 1_000_003 + index);
      const attempt = attemptOf(server, random);
      const told = () =>
        `seed ${options.seed}, case ${index} (${attempt.kind}):\n${printable(attempt.bytes)}\n`;
      const reply = await play(server, attempt, random).catch((error: Error) => {
        throw new Error(`${error.message}\n${told()}${server.output().slice(-4000)}`);
      });
      const seen = statusesIn(reply.text);
      for (const status of seen) {
        statuses[status] = (statuses[status] ?? 0) + 1;
        replies++;
        assert.notEqual(
          status,
          500,
          `a 500\n${told()}${reply.text}\n${server.output().slice(-4000)}`,
        );
      }
      if (attempt.kind === "whole") {
        const answered = seen.length > 0 || reply.closed;
        assert.ok(answered, `no reply in ${REPLY_LIMIT_MS} ms\n${told()}`);
        if ((seen[0] ?? 0) >= 400 && !HTTP_ERRORS.includes(seen[0] ?? 0)) {
          const hasCode = /^x-ms-error-code: *\w+/im.test(reply.text);
          assert.ok(hasCode, `an error without its code\n${told()}${reply.text}`);
        }
      }
    }
  };
  await prepare(server);
  await Promise.all(Array.from({ length: CONNECTIONS }, connection));

  const health = await fetch(`${server.origin}/healthz`);
  assert.equal(health.status, 200, "the server is well afterwards");
  await prepare(server);
  residentMax = Math.max(residentMax, residentSize(server));
  const good = Object.entries(statuses).reduce(
    (sum, [status, count]) => sum + (/^2/.test(status) ? count : 0),
    0,
  );
  assert.ok(
    good > replies / 100,
    `only ${good} of ${replies} requests were done: the fuzz is shallow`,
  );
  const mib = Math.round(residentMax / 1024 / 1024);
  assert.ok(residentMax < RESIDENT_MAX, `${mib} MiB resident; seed ${options.seed}`);
  return { cases: next, replies, statuses, residentMax };
}

/** Numbers from a seed (mulberry32), and choices made with them. */
class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to, not including, the limit. */
  below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit);
  }

  chance(percent: number): boolean {
    return this.below(100) < percent;
  }

  of<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error("nothing to choose from");
    return item;
  }

  bytes(size: number): Buffer {
    return Buffer.from(Array.from({ length: size }, () => this.below(256)));
  }

  text(size: number): string {
    return Array.from({ length: size }, () => String.fromCharCode(33 + this.below(94))).join("");
  }
}

type Attempt = {
  /** Only after "whole" ones must a reply come. */
  readonly kind: "whole" | "broken" | "truncated" | "drip" | "pipelined";
  readonly bytes: Buffer;
};

function attemptOf(server: TestServer, random: Random): Attempt {
  const dice = random.below(100);
  if (dice < 60) return { kind: "whole", bytes: wholeRequest(server, random) };
  if (dice < 72) return { kind: "broken", bytes: mutated(wholeRequest(server, random), random) };
  if (dice < 80) return { kind: "broken", bytes: garbage(random) };
  if (dice < 86)
    return { kind: "truncated", bytes: truncated(wholeRequest(server, random), random) };
  if (dice < 90) return { kind: "drip", bytes: wholeRequest(server, random).subarray(0, 1500) };
  const count = 2 + random.below(6);
  const parts = Array.from({ length: count }, () =>
    random.chance(90) ? wholeRequest(server, random, "keep-alive") : garbage(random),
  );
  return { kind: "pipelined", bytes: Buffer.concat(parts) };
}

const METHODS = ["GET", "PUT", "HEAD", "DELETE", "POST", "OPTIONS", "PATCH", "MERGE", "TRACE"];
const COMPS = [
  ...["list", "block", "blocklist", "metadata", "properties", "lease", "snapshot", "tags", "tier"],
  ...[
    "acl",
    "page",
    "pagelist",
    "appendblock",
    "copy",
    "undelete",
    "batch",
    "query",
    "stats",
    "seal",
  ],
  ...[
    "expiry",
    "blobs",
    "userdelegationkey",
    "incrementalcopy",
    "immutabilityPolicies",
    "legalhold",
  ],
  ...["rename", "", "LIST", "nonsense"],
];
const PATHS = [
  ...["", "/", `/${CONTAINER}`, `/${CONTAINER}/`, `/${CONTAINER}/a`, `/${CONTAINER}/b/c`],
  ...[`/${CONTAINER}/page`, `/${CONTAINER}/append`, `/${CONTAINER}/%C3%A4%20%E2%82%AC`],
  ...["/$root", "/$root/x", "/x", "/$logs/a", "/no-such/blob", "/UPPER/a", "/a--b", "/a/b"],
  ...[`/${CONTAINER}//`, `/${CONTAINER}/.`, `/${CONTAINER}/..`, `/${CONTAINER}/../..`],
  ...[`/${CONTAINER}/%00`, `/${CONTAINER}/%zz`, `/${CONTAINER}/%`, `/${CONTAINER}/%ff%fe`],
  ...[`/${CONTAINER}/%2F%2e%2e%2f`, `/${CONTAINER}/${"n".repeat(1025)}`, `/${"c".repeat(64)}/a`],
  ...[`/${CONTAINER}/${"s/".repeat(255)}`, `/${CONTAINER}/a?`, `/${CONTAINER}/%ED%A0%80`],
];
const BLOCK_IDS = ["MDAw", "MDAx", "MDAwMDAw", "", "!", "A", "=", "M".repeat(100)];
const NUMBERS = [
  "0",
  "1",
  "-1",
  "512",
  "5000",
  "5001",
  "99999999999999999999",
  "1e3",
  "abc",
  "",
  "٣",
];
const RANGES = [
  ...[
    "bytes=0-0",
    "bytes=0-511",
    "bytes=512-1023",
    "bytes=5-",
    "bytes=-5",
    "bytes=9-1",
    "bytes=",
    "x",
  ],
  ...["bytes=0-99999999999999999999", "bytes=0-1,4-5", "bytes=a-b", "items=0-1", "bytes=0-0xff"],
];
const TIMES = [
  ...["Mon, 16 Nov 2020 00:00:00 GMT", "Mon, 16 Nov 2099 00:00:00 GMT", "yesterday", "0", ""],
  ...["2020-11-16T00:00:00Z", "2020-11-16T00:00:00.1234567Z", "2020-99-99T00:00:00.0000000Z"],
];
const ETAGS = ["*", '"0x8D"', "0x8D", '"', '"a","b"', 'W/"x"', "", "*,*", '"a'];
const GUIDS = ["11111111-1111-1111-1111-111111111111", "{x}", "", "1", "1".repeat(32)];
const DIGESTS = ["", "AAAA", "!!!!", "1B2M2Y8AsgTpgAmY7PhCfg==", "AAAAAAAAAAA=", "=".repeat(50)];

const QUERIES: Record<string, readonly string[]> = {
  restype: ["container", "service", "account", "directory", "", "nonsense"],
  include: ["metadata", "snapshots,uncommittedblobs,copy,deleted,tags,versions", ",", "nonsense"],
  maxresults: NUMBERS,
  marker: ["", "a", "%", "\u0000", "AAAA", "x".repeat(3000)],
  prefix: ["", "a", "ä", "\u0000", "/"],
  delimiter: ["/", "", "//", "ä"],
  startFrom: ["a", ""],
  blockid: BLOCK_IDS,
  blocklisttype: ["all", "committed", "uncommitted", "", "x"],
  snapshot: TIMES,
  prevsnapshot: TIMES,
  versionid: TIMES,
  timeout: NUMBERS,
  where: ["", "a='b'", "\"a\"='b' AND c>'d'", "((((", "@container='fuzz'", "'".repeat(100)],
  sv: ["2025-11-05", "x", ""],
  sig: ["AAAA", "", "%"],
  se: TIMES,
  sp: ["rwdlac", "", "q"],
  sr: ["b", "c", "z"],
  ss: ["b", "bqtf", ""],
  srt: ["sco", ""],
};

const HEADERS: Record<string, readonly string[]> = {
  "x-ms-blob-type": ["BlockBlob", "BlockBlob", "BlockBlob", "PageBlob", "AppendBlob", "x", ""],
  "x-ms-version": ["2025-11-05", "2009-09-19", "2013-08-15", "2099-01-01", "x", "", "2020-13-45"],
  "x-ms-date": [...TIMES, new Date(0).toUTCString()],
  "x-ms-range": RANGES,
  range: RANGES,
  "x-ms-range-get-content-md5": ["true", "false", "x"],
  "x-ms-range-get-content-crc64": ["true", "x"],
  "if-match": ETAGS,
  "if-none-match": ETAGS,
  "if-modified-since": TIMES,
  "if-unmodified-since": TIMES,
  "x-ms-if-tags": ["a='b'", "(((", "", "a <> 'b' OR NOT"],
  "x-ms-lease-action": ["acquire", "renew", "change", "release", "break", "", "x"],
  "x-ms-lease-duration": ["-1", "15", "60", "14", "61", ...NUMBERS],
  "x-ms-lease-break-period": NUMBERS,
  "x-ms-lease-id": GUIDS,
  "x-ms-proposed-lease-id": GUIDS,
  "content-md5": DIGESTS,
  "x-ms-blob-content-md5": DIGESTS,
  "x-ms-content-crc64": DIGESTS,
  "content-type": [
    "text/plain",
    "",
    "application/xml",
    "multipart/mixed; boundary=b",
    "x".repeat(500),
  ],
  "x-ms-blob-content-type": ["text/html", "", "x".repeat(2000)],
  "x-ms-blob-content-length": NUMBERS,
  "x-ms-blob-sequence-number": NUMBERS,
  "x-ms-sequence-number-action": ["max", "update", "increment", "x"],
  "x-ms-blob-condition-appendpos": NUMBERS,
  "x-ms-blob-condition-maxsize": NUMBERS,
  "x-ms-if-sequence-number-le": NUMBERS,
  "x-ms-page-write": ["update", "clear", "x"],
  "x-ms-previous-snapshot-url": [
    ...["x", "", "http://127.0.0.1/%E0%A4%A?snapshot=2020-11-16T00:00:00.1234567Z"],
    `http://127.0.0.1/devstoreaccount1/${CONTAINER}/page?snapshot=2020-11-16T00:00:00.1234567Z`,
  ],
  "x-ms-access-tier": ["Hot", "Cool", "Archive", "P10", "x", ""],
  "x-ms-rehydrate-priority": ["High", "x"],
  "x-ms-delete-snapshots": ["include", "only", "x", ""],
  "x-ms-blob-public-access": ["blob", "container", "x"],
  "x-ms-tags": ["a=b", "a=b&a=c", "%", "=", "&&&", `a=${"x".repeat(300)}`],
  "x-ms-meta-a": ["1", "", "ä", "x".repeat(9000)],
  "x-ms-meta-1bad": ["1"],
  "x-ms-meta-": ["1"],
  "x-ms-copy-source": [
    ...["http://127.0.0.1:1/devstoreaccount1/fuzz/a", "x", "", "/devstoreaccount1/fuzz/a"],
    ...["file:///etc/passwd", "http://[::1", "http://127.0.0.1:1/x?sig=%"],
  ],
  "x-ms-source-range": RANGES,
  "x-ms-source-if-match": ETAGS,
  "x-ms-requires-sync": ["true", "x"],
  "x-ms-copy-action": ["abort", "x"],
  "x-ms-client-request-id": ["a", "x".repeat(1025), "ä"],
  "x-ms-encryption-key": ["AAAA"],
  "x-ms-encryption-scope": ["scope"],
  "x-ms-expiry-option": ["NeverExpire", "x"],
  "x-ms-immutability-policy-until-date": TIMES,
  "x-ms-legal-hold": ["true", "x"],
  "x-ms-structured-body": ["XSM/1.0; properties=crc64", "x"],
  "x-ms-structured-content-length": NUMBERS,
  "accept-encoding": ["gzip", "*"],
  expect: ["100-continue"],
  origin: ["http://example.org", "*", ""],
  "access-control-request-method": ["GET", "x"],
  "content-encoding": ["gzip", ""],
  date: TIMES,
};

const XML = '<?xml version="1.0" encoding="utf-8"?>';
const BODIES: readonly ((random: Random) => Buffer | string)[] = [
  () => "",
  (random) => random.bytes(random.below(64)),
  (random) => random.bytes(512),
  (random) => Buffer.alloc(random.below(200_000), "fuzz"),
  (random) => blockList(random),
  (random) => mutated(Buffer.from(blockList(random)), random),
  () => `${XML}<Tags><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tags>`,
  () => `${XML}<Tags><TagSet><Tag><Key>a</Key></Tag><Tag/></TagSet></Tags>`,
  () =>
    `${XML}<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>x</Start></AccessPolicy></SignedIdentifier></SignedIdentifiers>`,
  () =>
    `${XML}<StorageServiceProperties><Cors><CorsRule><MaxAgeInSeconds>-1</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>`,
  () =>
    `${XML}<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled></DeleteRetentionPolicy></StorageServiceProperties>`,
  () => `${XML}<KeyInfo><Start>x</Start><Expiry>2099-01-01T00:00:00Z</Expiry></KeyInfo>`,
  () =>
    `${XML}<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><BlockList>&b;</BlockList>`,
  () => `${XML}${"<BlockList>".repeat(20_000)}`,
  () => `${XML}<BlockList><Latest>${"A".repeat(70_000)}</Latest></BlockList>`,
  () => `${XML}<BlockList><Latest>&#0;&#xD800;&bogus;</Latest></BlockList>`,
  () => '{"BlockList":[]}',
  () => "--b\r\nContent-Type: application/http\r\n\r\nDELETE /fuzz/a HTTP/1.1\r\n\r\n\r\n--b--\r\n",
];

function blockList(random: Random): string {
  const elements = Array.from({ length: random.below(5) }, () => {
    const kind = random.of(["Latest", "Committed", "Uncommitted", "Nonsense"]);
    return `<${kind}>${random.of(BLOCK_IDS)}</${kind}>`;
  });
  return `${XML}<BlockList>${elements.join("")}</BlockList>`;
}

type Template = {
  readonly method: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: (random: Random) => Buffer | string;
};

const BLOBS = ["a", "b/c", "new", "page", "append"];
const blobIn = (random: Random) => `/${CONTAINER}/${random.of(BLOBS)}`;
const LEASE_ID = "11111111-1111-1111-1111-111111111111";
const lease = (action: string) => ({ "x-ms-lease-action": action, "x-ms-lease-id": LEASE_ID });
const leaseAcquire = {
  "x-ms-lease-action": "acquire",
  "x-ms-lease-duration": "15",
  "x-ms-proposed-lease-id": LEASE_ID,
};
const bytes512 = (random: Random) => random.bytes(512);
const ofContainer = { restype: "container" };

/** Requests that would be right as they stand, so that what is odd about them is met deep inside. */
const TEMPLATES: readonly ((random: Random) => Template)[] = [
  () => ({ method: "GET", path: "/", query: { comp: "list" } }),
  () => ({ method: "GET", path: "/", query: { restype: "service", comp: "properties" } }),
  () => ({ method: "PUT", path: `/${CONTAINER}`, query: ofContainer }),
  () => ({ method: "GET", path: `/${CONTAINER}`, query: ofContainer }),
  () => ({ method: "GET", path: `/${CONTAINER}`, query: { ...ofContainer, comp: "list" } }),
  () => ({ method: "GET", path: `/${CONTAINER}`, query: { ...ofContainer, comp: "acl" } }),
  () => ({ method: "PUT", path: `/${CONTAINER}`, query: { ...ofContainer, comp: "metadata" } }),
  () => ({
    method: "PUT",
    path: `/${CONTAINER}`,
    query: { ...ofContainer, comp: "lease" },
    headers: lease("break"),
  }),
  (random) => ({ method: "GET", path: blobIn(random) }),
  (random) => ({ method: "GET", path: blobIn(random), headers: { range: random.of(RANGES) } }),
  (random) => ({ method: "HEAD", path: blobIn(random) }),
  (random) => ({ method: "DELETE", path: blobIn(random) }),
  (random) => ({
    method: "PUT",
    path: blobIn(random),
    headers: BLOCK_BLOB,
    body: random.of(BODIES),
  }),
  (random) => ({
    method: "PUT",
    path: blobIn(random),
    headers: { "x-ms-blob-type": "AppendBlob" },
  }),
  (random) => ({
    method: "PUT",
    path: blobIn(random),
    headers: { "x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "1024" },
  }),
  (random) => ({
    method: "PUT",
    path: blobIn(random),
    query: { comp: "appendblock" },
    body: bytes512,
  }),
  (random) => ({
    method: "PUT",
    path: blobIn(random),
    query: { comp: "page" },
    headers: { "x-ms-range": "bytes=0-511", "x-ms-page-write": "update" },
    body: bytes512,
  }),
  (random) => ({
    method: "PUT",
    path: blobIn(random),
    query: { comp: "block", blockid: random.of(BLOCK_IDS.slice(0, 2)) },
    body: bytes512,
  }),
  (random) => ({
    method: "PUT",
    path: blobIn(random),
    query: { comp: "blocklist" },
    body: blockList,
  }),
  (random) => ({ method: "GET", path: blobIn(random), query: { comp: "blocklist" } }),
  () => ({ method: "GET", path: `/${CONTAINER}/page`, query: { comp: "pagelist" } }),
  (random) => ({ method: "PUT", path: blobIn(random), query: { comp: "metadata" } }),
  (random) => ({ method: "PUT", path: blobIn(random), query: { comp: "properties" } }),
  (random) => ({ method: "PUT", path: blobIn(random), query: { comp: "snapshot" } }),
  (random) => ({ method: "GET", path: blobIn(random), query: { comp: "tags" } }),
  (random) => ({
    method: "PUT",
    path: blobIn(random),
    query: { comp: "tier" },
    headers: { "x-ms-access-tier": "Cool" },
  }),
  (random) => ({
    method: "PUT",
    path: blobIn(random),
    query: { comp: "lease" },
    headers: leaseAcquire,
  }),
  (random) => ({
    method: "PUT",
    path: blobIn(random),
    query: { comp: "lease" },
    headers: lease("release"),
  }),
];

/** A request that HTTP has nothing to say against, most often rightly signed: about anything, or nearly right. */
function wholeRequest(
  server: TestServer,
  random: Random,
  connection: "close" | "keep-alive" = "close",
): Buffer {
  const template = random.chance(55) ? random.of(TEMPLATES)(random) : wildTemplate(random);
  const body = Buffer.from(template.body?.(random) ?? "");
  const query = Object.entries(template.query ?? {});
  const headers: Record<string, string> = {
    connection,
    "content-length": String(body.length),
    ...template.headers,
  };
  if (random.chance(40)) query.push(oddity(QUERIES, random));
  for (let count = random.below(3); count > 0; count--) {
    const [name, value] = oddity(HEADERS, random);
    headers[name] = Buffer.from(value).toString("latin1");
  }
  const { method, path } = template;
  let head = headOf(server, { method, path, query, headers });
  if (random.chance(2)) head = head.replace(/^authorization: .*\r\n/m, "");
  if (random.chance(2)) {
    const nonsense = random.text(30);
    head = head.replace(/^authorization: .*$/m, () => `authorization: ${nonsense}`);
  }
  if (random.chance(2)) head = head.replace("devstoreaccount1/", "nobody/");
  return Buffer.concat([Buffer.from(head, "latin1"), body]);
}

function wildTemplate(random: Random): Template {
  const query: Record<string, string> = {};
  if (random.chance(60)) query.comp = random.of(COMPS);
  if (random.chance(35)) query.restype = random.of(QUERIES.restype ?? []);
  return {
    method: random.chance(50) ? random.of(["GET", "PUT"]) : random.of(METHODS),
    path: random.of(PATHS),
    query,
    headers: random.chance(50) ? BLOCK_BLOB : {},
    body: random.of(BODIES),
  };
}

function oddity(known: Record<string, readonly string[]>, random: Random): [string, string] {
  const name = random.of(Object.keys(known));
  return [name, random.chance(90) ? random.of(known[name] ?? []) : random.text(20)];
}

function mutated(bytes: Buffer, random: Random): Buffer {
  let result = Buffer.from(bytes);
  for (let count = 1 + random.below(8); count > 0 && result.length > 0; count--) {
    // Most changes fall into the head, where they are read.
    const at = random.below(random.chance(80) ? Math.min(result.length, 600) : result.length);
    const [before, behind] = [result.subarray(0, at), result.subarray(at)];
    const kind = random.below(5);
    if (kind === 0) result[at] = random.below(256);
    else if (kind === 1) result = Buffer.concat([before, random.bytes(random.below(20)), behind]);
    else if (kind === 2) result = Buffer.concat([before, behind.subarray(1 + random.below(20))]);
    else if (kind === 3) result = Buffer.concat([before, before.subarray(-40), behind]);
    else result = Buffer.concat([before, Buffer.from(random.of(TRICKS)), behind]);
  }
  return result;
}

const TRICKS = [
  ...["\r\n", "\n", "\r", "\0", " ", ":", "\r\n\r\n", "?", "%", "\r\nHost: b", "\r\n x"],
  ...[
    "\r\ntransfer-encoding: chunked\r\n",
    "\r\ncontent-length: 5\r\n",
    "\r\ncontent-length: -1\r\n",
  ],
  ...["\r\nupgrade: websocket\r\nconnection: upgrade\r\n", "\r\nexpect: x\r\n", " HTTP/9.9", "ÿ"],
];

function garbage(random: Random): Buffer {
  const kind = random.below(4);
  if (kind === 0) return random.bytes(1 + random.below(500));
  if (kind === 1) return Buffer.from(`${random.text(1 + random.below(200))}\r\n\r\n`);
  if (kind === 2) {
    const lines = Array.from({ length: random.below(300) }, () => `${random.text(8)}: x\r\n`);
    return Buffer.from(`GET / HTTP/1.1\r\n${lines.join("")}\r\n`);
  }
  return Buffer.from(`GET /${"a".repeat(random.below(70_000))} HTTP/1.1\r\nHost: a\r\n\r\n`);
}

const truncated = (bytes: Buffer, random: Random) =>
  bytes.subarray(0, random.below(Math.min(bytes.length, 3000)));

type Heard = { readonly text: string; readonly closed: boolean };

/** Sends the bytes in the manner of their kind, and listens until the server closes or enough time has gone. */
async function play(server: TestServer, attempt: Attempt, random: Random): Promise<Heard> {
  const socket = await connect(server);
  const heard: Buffer[] = [];
  let closed = false;
  const gone = new Promise<void>((resolve) => {
    socket.on("data", (data: Buffer) => heard.push(data));
    socket.on("error", () => {});
    socket.on("end", () => socket.end());
    socket.on("close", () => {
      closed = true;
      resolve();
    });
  });
  await transmit(socket, attempt, random);
  const patience = attempt.kind === "whole" ? REPLY_LIMIT_MS : 150;
  if (attempt.kind === "truncated" && random.chance(50)) {
    socket.destroy();
  } else {
    if (attempt.kind !== "whole" && random.chance(50)) socket.end();
    const limit = new AbortController();
    await Promise.race([gone, wait(patience, undefined, { signal: limit.signal })]);
    limit.abort();
    socket.destroy();
  }
  return { text: Buffer.concat(heard).toString("latin1"), closed };
}

async function transmit(socket: net.Socket, attempt: Attempt, random: Random): Promise<void> {
  if (attempt.kind !== "drip") {
    socket.write(attempt.bytes);
    return;
  }
  const step = 20 + random.below(100);
  for (let at = 0; at < attempt.bytes.length && !socket.destroyed; at += step) {
    socket.write(attempt.bytes.subarray(at, at + step));
    await wait(random.below(15));
  }
}

/** The final ones: a 100 promises a reply, and is none. */
const statusesIn = (text: string) =>
  [...text.matchAll(/HTTP\/1\.[01] (\d{3}) /g)]
    .map((match) => Number(match[1]))
    .filter((status) => status >= 200);

/** Puts the blobs that the requests are about back in order, since other requests lease, archive or delete them. */
async function prepare(server: TestServer): Promise<void> {
  const path = `/${CONTAINER}`;
  const broken = { "x-ms-lease-action": "break", "x-ms-lease-break-period": "0" };
  await send(server, { method: "PUT", path, query: ofContainer });
  await Promise.all(
    BLOBS.map(async (name) => {
      const blob = `${path}/${name}`;
      const query = { comp: "lease" };
      await send(server, { method: "PUT", path: blob, query, headers: broken });
      const all = { "x-ms-delete-snapshots": "include" };
      await send(server, { method: "DELETE", path: blob, headers: all });
      if (name === "new") return;
      const body = "x".repeat(700);
      await send(server, { method: "PUT", path: blob, headers: BLOCK_BLOB, body });
    }),
  );
  const alive = await send(server, { method: "GET", query: { comp: "list" } });
  assert.equal(alive.status, 200, `List Containers: ${alive.status} ${alive.text}`);
}

/** Bytes of memory the process holds; 0 where it is not ours. */
function residentSize(server: TestServer): number {
  if (server.pid === 0) return 0;
  const status = readFileSync(`/proc/${server.pid}/status`, "utf8");
  return Number(/^VmRSS:\s*(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) * 1024;
}

/** Enough of the bytes to send them again by hand. */
const printable = (bytes: Buffer) =>
  JSON.stringify(bytes.subarray(0, 3000).toString("latin1")) +
  (bytes.length > 3000 ? ` and ${bytes.length - 3000} more bytes` : "");
