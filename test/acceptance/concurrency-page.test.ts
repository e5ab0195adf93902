import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import {
  type Attempt,
  type Attempts,
  blobAttempts,
  containerAttempts,
  fileAttempts,
  LEASE,
  OTHER_LEASE,
  shareAttempts,
} from "./attempts.ts";
import * as b from "./blobs.ts";
import { createFile } from "./files.ts";
import { firstCells, pageTable } from "./page.ts";
import { type RawReply, type RawRequest, send } from "./raw.ts";
import { at, startServer, type TestServer } from "./server.ts";
import * as t from "./tables.ts";

// docs/concurrency.md, tried: every row of its tables is sent to a server and must do what the table says.

let server: TestServer;
before(async () => {
  server = await startServer({ args: ["--immutableStorage", "--containerRetention", "1"] });
  await makeSources();
});
after(() => server.stop());

const STALE = '"0x123456789ABCDEF"';
let count = 0;

type Headers = Readonly<Record<string, string>>;

/** A kind of thing that operations are tried on. */
type Thing = {
  readonly service: "blob" | "file";
  readonly attempts: () => Attempts;
  /** Makes one and gives its path. */
  make(attempt: Attempt): Promise<string>;
  readonly restype?: string;
};

const put = async (service: string, request: RawRequest): Promise<RawReply> => {
  const reply = await send(at(server, service), request);
  assert.ok(reply.status < 300, `${request.path}: ${reply.status} ${reply.text}`);
  return reply;
};

const container: Thing = {
  service: "blob",
  restype: "container",
  attempts: () => containerAttempts,
  async make() {
    const path = `/box-${++count}`;
    await put("blob", { method: "PUT", path, query: { restype: "container" } });
    return path;
  },
};

let sources = { source: "", snapshot: "", earlier: "" };

const blob: Thing = {
  service: "blob",
  attempts: () => blobAttempts(sources),
  async make({ first }) {
    const path = `/blobs/blob-${++count}`;
    const headers = { "x-ms-blob-type": "BlockBlob", "content-type": "text/plain" };
    const sized = { "x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512" };
    const copy = { "x-ms-copy-source": sources.earlier };
    if (first === "incremental copy") {
      await put("blob", { method: "PUT", path, query: { comp: "incrementalcopy" }, headers: copy });
    } else if (first === "append blob") {
      await put("blob", { method: "PUT", path, headers: { "x-ms-blob-type": "AppendBlob" } });
    } else if (first === "page blob") {
      await put("blob", { method: "PUT", path, headers: sized });
    } else {
      await put("blob", { method: "PUT", path, headers, body: "a,b\n" });
    }
    if (first === "blocks") {
      const query = { comp: "block", blockid: "AAAAAAAA" };
      await put("blob", { method: "PUT", path, query, body: "block" });
    }
    return path;
  },
};

const share: Thing = {
  service: "file",
  restype: "share",
  attempts: () => shareAttempts,
  async make() {
    const path = `/share-${++count}`;
    await put("file", { method: "PUT", path, query: { restype: "share" } });
    return path;
  },
};

let fileSource = "";

const file: Thing = {
  service: "file",
  attempts: () => fileAttempts(fileSource),
  async make() {
    const path = `/files/file-${++count}`;
    await put("file", createFile(path, 4));
    return path;
  },
};

async function makeSources(): Promise<void> {
  await b.createContainer(server, "blobs");
  await b.putBlob(server, "/blobs/source", Buffer.alloc(512, "s"));
  const sized = { "x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512" };
  await put("blob", { method: "PUT", path: "/blobs/pages", headers: sized });
  const taken = () => b.takeSnapshot(server, "/blobs/pages");
  const url = (time: string) => `${server.url}/blobs/pages?snapshot=${encodeURIComponent(time)}`;
  const earlier = url(await taken());
  sources = { source: `${server.url}/blobs/source`, earlier, snapshot: url(await taken()) };
  await put("file", { method: "PUT", path: "/files", query: { restype: "share" } });
  await put("file", createFile("/files/source", 4));
  fileSource = `${server.urls.file}/files/source`;
}

const leaseOf = (thing: Thing, path: string, headers: Headers) =>
  put(thing.service, {
    method: "PUT",
    path,
    query: { comp: "lease", ...(thing.restype === undefined ? {} : { restype: thing.restype }) },
    headers,
  });

const acquire = (thing: Thing, path: string) =>
  leaseOf(thing, path, {
    "x-ms-lease-action": "acquire",
    "x-ms-lease-duration": "-1",
    "x-ms-proposed-lease-id": LEASE,
  });

/** Sends an attempt to a thing, with more headers than it has. */
const attempted = (thing: Thing, attempt: Attempt, path: string, more: Headers = {}) => {
  const { first: _, passes: __, ...request } = attempt;
  const headers = { ...request.headers, ...more };
  return send(at(server, thing.service), { ...request, path, headers });
};

/** What a reply comes to, in the words of the page. */
function outcome({ status, code }: RawReply, { passes }: Attempt): string {
  if (status < 300 || (code !== undefined && code === passes)) return "done";
  return `${status} ${code ?? ""}`;
}

/** The ETag of a thing as it is; Get Blob Properties tells it of every kind of blob. */
async function etagOf(thing: Thing, path: string): Promise<string> {
  const query = thing.restype === undefined ? {} : { restype: thing.restype };
  const { headers } = await put(thing.service, { method: "HEAD", path, query });
  return String(headers.etag);
}

/** One fresh thing, leased if the attempt asks for that. */
async function made(thing: Thing, attempt: Attempt): Promise<string> {
  const path = await thing.make(attempt);
  if (attempt.first === "leased") await acquire(thing, path);
  return path;
}

function attemptOf(thing: Thing, name: string): Attempt {
  const attempt = thing.attempts()[name];
  assert.ok(attempt, `nobody tries ${name}`);
  return attempt;
}

/** Operations that succeed only where there is nothing yet. */
const onNone: Readonly<Record<string, () => Promise<RawReply>>> = {
  "Create Container": () => {
    const query = { restype: "container" };
    return put("blob", { method: "PUT", path: `/box-${++count}`, query });
  },
  async "Restore Container"() {
    const path = await container.make({ method: "PUT" });
    const query = { restype: "container" };
    await put("blob", { method: "DELETE", path, query });
    const list = { comp: "list", include: "deleted", prefix: path.slice(1) };
    const { text } = await put("blob", { method: "GET", path: "/", query: list });
    const headers = {
      "x-ms-deleted-container-name": path.slice(1),
      "x-ms-deleted-container-version": b.texts(text, "Version").join(),
    };
    return put("blob", { method: "PUT", path, query: { ...query, comp: "undelete" }, headers });
  },
};

for (const [table, thing] of [
  ["conditions of containers", container],
  ["conditions of blobs", blob],
] as const) {
  suite(`The ${table}`, () => {
    for (const [name, etag, headers = "", match, noneMatch] of pageTable(table)) {
      test(`${name}: If-Match ${match}, If-None-Match ${noneMatch}, ETag ${etag}`, async () => {
        const attempt = attemptOf(thing, name);
        const path = await made(thing, attempt);
        const now = await etagOf(thing, path);
        const prefix = headers === "–" ? "" : headers.slice(1, headers.indexOf("if-"));
        const stale = await attempted(thing, attempt, path, { [`${prefix}if-match`]: STALE });
        assert.equal(String(stale.status), match, stale.text);
        const same = await attempted(thing, attempt, path, { [`${prefix}if-none-match`]: now });
        assert.equal(String(same.status), noneMatch, same.text);
        const met = headers === "–" ? {} : { [`${prefix}if-match`]: now };
        const done = await attempted(thing, attempt, path, met);
        assert.equal(outcome(done, attempt), "done", done.text);
        const reply = (await onNone[name]?.()) ?? done;
        assert.equal(reply.headers.etag === undefined ? "–" : "yes", etag, "the ETag");
      });
    }
  });
}

/** What leaves the ETag as it is, as the page says; a read does so, too. */
const KEEPING =
  /^(Get|Query|Lease|Put Block$|Put Block From|Abort|Snapshot|Undelete)|Tags|Tier|Immutability|Hold/;

test("Every write changes the ETag, but for those that the page names", async () => {
  for (const [name, attempt] of Object.entries(blob.attempts())) {
    if (name === "Delete Blob") continue;
    const path = await made(blob, attempt);
    const before = await etagOf(blob, path);
    const reply = await attempted(blob, attempt, path);
    assert.equal(outcome(reply, attempt), "done", name);
    const after = await etagOf(blob, path);
    assert.equal(after === before, KEEPING.test(name), `${name}: the ETag stays`);
  }
});

for (const [table, kind, thing] of [
  ["leases of containers", "container", container],
  ["leases of blobs", "blob", blob],
  ["leases of shares", "share", share],
  ["leases of files", "file", file],
] as const) {
  suite(`The ${table}`, () => {
    const ids = pageTable("lease ids").find(([first]) => first === kind);
    assert.ok(ids, `no lease ids of a ${kind}`);
    const [, own, other, ended, never] = ids;
    for (const [name, without] of pageTable(table)) {
      test(`${name}: without the id ${without}, with another ${other}`, async () => {
        const attempt = attemptOf(thing, name);
        /** What becomes of it on a fresh thing whose lease is in this state. */
        const tried = async (state: "available" | "leased" | "broken", id?: string) => {
          const path = await thing.make(attempt);
          if (state !== "available") await acquire(thing, path);
          if (state === "broken") await leaseOf(thing, path, { "x-ms-lease-action": "break" });
          const headers = id === undefined ? {} : { "x-ms-lease-id": id };
          return outcome(await attempted(thing, attempt, path, headers), attempt);
        };
        assert.equal(await tried("leased"), without, "no id");
        assert.equal(await tried("leased", LEASE), own, "its id");
        assert.equal(await tried("leased", OTHER_LEASE), other, "another id");
        assert.equal(await tried("broken", LEASE), ended, "its id, after its end");
        assert.equal(await tried("available", LEASE), never, "an id, never leased");
        assert.equal(await tried("available"), "done", "no lease");
      });
    }
  });
}

test("Shares and files take no conditional header", async () => {
  for (const thing of [share, file]) {
    for (const [name, attempt] of Object.entries(thing.attempts())) {
      const path = await made(thing, attempt);
      const reply = await attempted(thing, attempt, path, { "if-match": STALE });
      assert.equal(reply.code, "ConditionHeadersNotSupported", name);
    }
  }
});

suite("The table of entities", () => {
  const body = { PartitionKey: "p", RowKey: "r" };
  /** The row's own request, but for its headers. */
  const requests: Readonly<Record<string, { method: string; of: "entity" | "entities" }>> = {
    "Query Entities": { method: "GET", of: "entities" },
    "Query Entities (one by its keys)": { method: "GET", of: "entity" },
    "Insert Entity": { method: "POST", of: "entities" },
    "Update Entity": { method: "PUT", of: "entity" },
    "Insert Or Replace Entity": { method: "PUT", of: "entity" },
    "Merge Entity (MERGE)": { method: "MERGE", of: "entity" },
    "Insert Or Merge Entity (MERGE)": { method: "MERGE", of: "entity" },
    "Merge Entity (PATCH)": { method: "PATCH", of: "entity" },
    "Insert Or Merge Entity (PATCH)": { method: "PATCH", of: "entity" },
    "Delete Entity": { method: "DELETE", of: "entity" },
  };

  for (const [name, etag, without = "", stale = "", forced = ""] of pageTable("entities")) {
    test(`${name}: without If-Match ${without}, stale ${stale}, * ${forced}`, async () => {
      const request = requests[name];
      assert.ok(request, `nobody tries ${name}`);
      const { method, of } = request;
      /** On an entity that was changed since its ETag was read, or on none. */
      const tried = async (ifMatch: "none" | "stale" | "*" | "now", isThere = true) => {
        const table = `T${++count}`;
        await t.createTable(server, table);
        const inserted = isThere ? await t.insert(server, table, { ...body, a: 1 }) : undefined;
        const before = String(inserted?.headers.etag ?? 'W/"x"');
        const path = t.at(table, "p", "r");
        const now = isThere
          ? await t.ask(server, { method: "PUT", path, body: JSON.stringify({ a: 2 }) })
          : undefined;
        const tags = { stale: before, "*": "*", now: String(now?.headers.etag) };
        return t.ask(server, {
          method,
          path: of === "entity" ? path : `/${table}`,
          headers: { ...t.FULL, ...(ifMatch === "none" ? {} : { "if-match": tags[ifMatch] }) },
          ...(method === "GET" || method === "DELETE" ? {} : { body: JSON.stringify(body) }),
        });
      };
      const shown = ({ status, code }: t.TableReply) =>
        status < 300 ? "done" : `${status} ${code}`;
      const isInsert = name === "Insert Entity";
      for (const [cell, ifMatch] of [
        [without, "none"],
        [stale, "stale"],
        [forced, "*"],
      ] as const) {
        const twin = pageTable("entities").find(([first]) => cell === `is ${first}`);
        // Where a row becomes another one by its header, it does what that one's cell says.
        const want = twin?.[{ none: 2, stale: 3, "*": 4 }[ifMatch]] ?? cell;
        assert.equal(shown(await tried(ifMatch, !isInsert)), want, `If-Match ${ifMatch}`);
      }
      // A check of what is there also asks that it is there; an upsert asks for nothing.
      if (stale.startsWith("412")) {
        assert.equal(shown(await tried("now")), "done");
        assert.equal((await tried("*", false)).status, 404);
      }
      if (name.startsWith("Insert Or")) assert.equal(shown(await tried("none", false)), "done");
      const reply = await tried(forced === "done" ? "*" : "none", !isInsert);
      const each = reply.json?.value?.[0]?.["odata.etag"];
      const given =
        reply.headers.etag !== undefined ? "yes" : each !== undefined ? "with each entity" : "–";
      assert.equal(given, etag, "the ETag");
    });
  }
});

suite("The table of queues", () => {
  const policies = (id: string) =>
    `<SignedIdentifiers><SignedIdentifier><Id>${id}</Id><AccessPolicy><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>`;
  const settings = (days: string) =>
    `<StorageServiceProperties><HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>${days}</Days></RetentionPolicy></HourMetrics></StorageServiceProperties>`;
  const message = (text: string) =>
    `<QueueMessage><MessageText>${text}</MessageText></QueueMessage>`;

  type Try = {
    readonly method: string;
    /** Behind the queue; "service" is the account itself. */
    readonly on: "" | "/messages" | "/messages/id" | "service";
    readonly query?: Headers;
    /** A state that is written, and where it is read. */
    readonly write?: (state: string) => { headers?: Headers; body?: string };
    readonly read?: { on: Try["on"]; query: Headers };
  };
  const service = { restype: "service", comp: "properties" };
  const tries: Readonly<Record<string, Try>> = {
    "Set Queue Service Properties": {
      ...{ method: "PUT", on: "service", query: service },
      write: (state) => ({ body: settings(state) }),
      read: { on: "service", query: service },
    },
    "Create Queue": { method: "PUT", on: "" },
    "Delete Queue": { method: "DELETE", on: "" },
    "Set Queue Metadata": {
      ...{ method: "PUT", on: "", query: { comp: "metadata" } },
      write: (state) => ({ headers: { "x-ms-meta-state": state } }),
      read: { on: "", query: { comp: "metadata" } },
    },
    "Set Queue ACL": {
      ...{ method: "PUT", on: "", query: { comp: "acl" } },
      write: (state) => ({ body: policies(state) }),
      read: { on: "", query: { comp: "acl" } },
    },
    "Put Message": {
      ...{ method: "POST", on: "/messages" },
      write: (state) => ({ body: message(state) }),
    },
    "Get Messages": { method: "GET", on: "/messages" },
    "Clear Messages": { method: "DELETE", on: "/messages" },
    "Update Message": {
      ...{ method: "PUT", on: "/messages/id", query: { visibilitytimeout: "0" } },
      write: (state) => ({ body: message(state) }),
      read: { on: "/messages", query: { peekonly: "true" } },
    },
    "Delete Message": { method: "DELETE", on: "/messages/id" },
  };

  for (const [name, conditional, receipt, old, together] of pageTable("queues")) {
    test(`${name}: pop receipt ${receipt}, two at once: ${together}`, async () => {
      const attempt = tries[name];
      assert.ok(attempt, `nobody tries ${name}`);
      const queues = at(server, "queue");
      const queue = `/queue-${++count}`;
      await put("queue", { method: "PUT", path: queue });
      const sent = { method: "POST", path: `${queue}/messages`, body: message("1") };
      const { text } = await put("queue", sent);
      const [id = "", first = ""] = [...b.texts(text, "MessageId"), ...b.texts(text, "PopReceipt")];
      const pathOf = (on: Try["on"]) =>
        on === "service" ? "/" : `${queue}${on === "/messages/id" ? `/messages/${id}` : on}`;
      const tried = (state: string, headers: Headers = {}, query: Headers = {}) => {
        const written = attempt.write?.(state);
        return send(queues, {
          ...{ method: attempt.method, path: pathOf(attempt.on) },
          query: { ...attempt.query, ...query },
          headers: { ...written?.headers, ...headers },
          ...(written?.body === undefined ? {} : { body: written.body }),
        });
      };
      const refused = await tried("2", { "if-match": "*" }, { popreceipt: first });
      assert.equal(`${refused.status} ${refused.code}`, conditional);
      let newest = first;
      if (receipt === "required") {
        assert.equal((await tried("2")).status, 400, "without a pop receipt");
        const update = { visibilitytimeout: "0", popreceipt: first };
        const path = pathOf("/messages/id");
        const { headers } = await put("queue", { method: "PUT", path, query: update });
        newest = String(headers["x-ms-popreceipt"]);
        const late = await tried("2", {}, { popreceipt: first });
        assert.equal(`${late.status} ${late.code}`, old);
      }
      const given = () => (receipt === "required" ? { popreceipt: newest } : {});
      if (together === "the first creates, the second finds it") {
        const path = `/queue-${++count}`;
        const replies = [0, 0].map(() => send(queues, { method: "PUT", path }));
        const statuses = (await Promise.all(replies)).map(({ status }) => status);
        assert.deepEqual(statuses.sort(), [201, 204]);
        return;
      }
      const done = await tried("3", {}, given());
      assert.ok(done.status < 300, done.text);
      if (together !== "the last writer wins") return;
      newest = String(done.headers["x-ms-popreceipt"]);
      assert.ok((await tried("4", {}, given())).status < 300);
      const { on = "", query = {} } = attempt.read ?? {};
      const seen = await send(queues, { method: "GET", path: pathOf(on), query });
      const state = seen.headers["x-ms-meta-state"] ?? />([34])</.exec(seen.text)?.[1];
      assert.equal(state, "4", seen.text);
    });
  }
});

test("Nothing is tried that no table has", () => {
  const shown = [
    ...["conditions of containers", "leases of containers", "conditions of blobs"],
    ...["leases of blobs", "leases of shares", "leases of files"],
  ].flatMap(firstCells);
  const used = pageTable("uses of files").map(([, , cell = ""]) => cell);
  for (const thing of [container, blob, share, file]) {
    for (const name of Object.keys(thing.attempts())) {
      const [operation = ""] = name.split(": ");
      const isThere = shown.includes(name) || used.some((cell) => cell.includes(operation));
      assert.ok(isThere, `${name} is in no table`);
    }
  }
});
