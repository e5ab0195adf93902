import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { QueueServiceClient, RestError, StorageSharedKeyCredential } from "@azure/storage-queue";
import { type RawReply, type RawRequest, send } from "./raw.ts";
import { at, startServer, type TestServer } from "./server.ts";

let server: TestServer;
let service: QueueServiceClient;
let count = 0;

before(async () => {
  server = at(await startServer(), "queue");
  service = QueueServiceClient.fromConnectionString(server.connectionString);
});

after(() => server.stop());

const freshName = () => `q-${process.pid}-${++count}`;

const on = (name: string, method: string, comp = "", more: Partial<RawRequest> = {}) =>
  send(server, { method, path: `/${name}`, query: comp === "" ? {} : { comp }, ...more });

const ofService = (method: string, query: Record<string, string>, body?: string) =>
  send(server, { method, query, ...(body === undefined ? {} : { body }) });

function isAnswer(reply: RawReply, status: number, code?: string): void {
  assert.deepEqual([reply.status, reply.code], [status, code], reply.text);
}

async function made(headers: Record<string, string> = {}): Promise<string> {
  const name = freshName();
  isAnswer(await on(name, "PUT", "", { headers }), 201);
  return name;
}

suite("Create Queue", () => {
  test("answers 201, then 204 as long as the metadata is the same", async () => {
    const queue = service.getQueueClient(freshName());
    const metadata = { one: "1", Two: "zwei drei" };
    const created = await queue.create({ metadata });
    assert.equal(created._response.status, 201);
    assert.match(String(created.requestId), /^[0-9a-f-]{36}$/);
    assert.equal((await queue.create({ metadata }))._response.status, 204);
    const { metadata: kept, approximateMessagesCount } = await queue.getProperties();
    assert.deepEqual([kept, approximateMessagesCount], [{ one: "1", two: "zwei drei" }, 0]);
    assert.equal((await queue.createIfNotExists({ metadata: { other: "1" } })).succeeded, false);
  });

  test("the same metadata may come in another order", async () => {
    const name = await made({ "x-ms-meta-a": "1", "x-ms-meta-b": "2" });
    const headers = { "x-ms-meta-b": "2", "x-ms-meta-a": "1" };
    isAnswer(await on(name, "PUT", "", { headers }), 204);
  });

  test("other metadata is 409 QueueAlreadyExists and changes nothing", async () => {
    const name = await made({ "x-ms-meta-a": "1" });
    for (const headers of [{ "x-ms-meta-a": "2" }, {}, { "x-ms-meta-b": "1" }]) {
      isAnswer(await on(name, "PUT", "", { headers }), 409, "QueueAlreadyExists");
    }
    assert.equal((await on(name, "GET", "metadata")).headers["x-ms-meta-a"], "1");
  });

  test("one of many that create at once wins; all the others find it", async () => {
    const name = freshName();
    const replies = await Promise.all(Array.from({ length: 16 }, () => on(name, "PUT")));
    const statuses = replies.map(({ status }) => status).sort();
    assert.deepEqual(statuses, [201, ...Array.from({ length: 15 }, () => 204)]);
  });
});

suite("Delete Queue", () => {
  test("answers 204; the queue is gone, and one of its name begins empty", async () => {
    const queue = service.getQueueClient(freshName());
    await queue.create({ metadata: { a: "1" } });
    await queue.sendMessage("left behind");
    assert.equal((await queue.delete())._response.status, 204);
    assert.equal(await queue.exists(), false);
    assert.equal((await queue.deleteIfExists()).succeeded, false);
    await queue.create();
    const { metadata, approximateMessagesCount } = await queue.getProperties();
    assert.deepEqual([metadata ?? {}, approximateMessagesCount], [{}, 0]);
    assert.deepEqual((await queue.peekMessages()).peekedMessageItems, []);
  });
});

suite("Get Queue Metadata, Set Queue Metadata", () => {
  test("the last writer's metadata replaces all that was there", async () => {
    const queue = service.getQueueClient(await made({ "x-ms-meta-old": "1" }));
    assert.equal((await queue.setMetadata({ New: "a", other: "b" }))._response.status, 204);
    assert.deepEqual((await queue.getProperties()).metadata, { new: "a", other: "b" });
    await queue.setMetadata();
    assert.deepEqual((await queue.getProperties()).metadata ?? {}, {});
  });

  test("HEAD answers as GET does, and names keep their case", async () => {
    const name = await made({ "x-ms-meta-a": "1" });
    for (const method of ["GET", "HEAD"]) {
      const reply = await on(name, method, "metadata");
      isAnswer(reply, 200);
      assert.equal(reply.headers["x-ms-meta-a"], "1");
      assert.equal(reply.headers["x-ms-approximate-messages-count"], "0");
      assert.equal(reply.text, "");
    }
  });
});

suite("Get Queue ACL, Set Queue ACL", () => {
  test("keep up to five policies, with the permissions that queues have", async () => {
    const queue = service.getQueueClient(await made());
    assert.deepEqual((await queue.getAccessPolicy()).signedIdentifiers, []);
    const policies = Array.from({ length: 5 }, (_, index) => ({
      id: `policy-${index}`,
      accessPolicy: {
        startsOn: new Date("2030-01-01T00:00:00.0000000Z"),
        expiresOn: new Date("2030-02-01T00:00:00.0000000Z"),
        permissions: "raup",
      },
    }));
    assert.equal((await queue.setAccessPolicy(policies))._response.status, 204);
    const { signedIdentifiers } = await queue.getAccessPolicy();
    assert.deepEqual(
      signedIdentifiers.map(({ id, accessPolicy }) => [id, accessPolicy.permissions]),
      policies.map(({ id }) => [id, "raup"]),
    );
    await queue.setAccessPolicy();
    assert.deepEqual((await queue.getAccessPolicy()).signedIdentifiers, []);
  });

  test("a policy needs no start, and HEAD answers too", async () => {
    const name = await made();
    const body =
      "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Expiry>2030-01-01T00:00:00.0000000Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    isAnswer(await on(name, "PUT", "acl", { body }), 204);
    const reply = await on(name, "GET", "acl");
    assert.ok(reply.text.endsWith(body), reply.text);
    isAnswer(await on(name, "HEAD", "acl"), 200);
  });

  const times: [sent: string, given: string][] = [
    ["2030-01-01", "2030-01-01T00:00:00.0000000Z"],
    ["2030-01-01T12:30Z", "2030-01-01T12:30:00.0000000Z"],
    ["2030-01-01T12:30:15Z", "2030-01-01T12:30:15.0000000Z"],
    ["2030-01-01T12:30:15.1234567Z", "2030-01-01T12:30:15.1234567Z"],
    ["2030-01-01T00:30:00+01:00", "2029-12-31T23:30:00.0000000Z"],
  ];
  for (const [sent, given] of times) {
    test(`a time that was sent as ${sent} comes back as ${given}`, async () => {
      const name = await made();
      const body = `<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>${sent}</Start></AccessPolicy></SignedIdentifier></SignedIdentifiers>`;
      isAnswer(await on(name, "PUT", "acl", { body }), 204);
      assert.match((await on(name, "GET", "acl")).text, new RegExp(`<Start>${given}</Start>`));
    });
  }
});

suite("List Queues", () => {
  const names = ["list-a", "list-b1", "list-b2", "list-b3", "list-c"];
  before(async () => {
    for (const name of ["list-c", "list-b2", "list-a", "list-b3", "list-b1"]) {
      await service.createQueue(name, { metadata: { owner: name } });
    }
  });

  const namesIn = (text: string) => [...text.matchAll(/<Name>([^<]*)</g)].map(([, name]) => name);
  const list = (query: Record<string, string>) => ofService("GET", { comp: "list", ...query });

  test("gives names in order below a prefix, with the endpoint, and metadata if asked", async () => {
    const found: [string, unknown][] = [];
    for await (const { name, metadata } of service.listQueues({
      prefix: "list-",
      includeMetadata: true,
    })) {
      found.push([name, metadata]);
    }
    assert.deepEqual(
      found,
      names.map((name) => [name, { owner: name }]),
    );
    const reply = await list({ prefix: "list-b" });
    assert.match(reply.text, new RegExp(`<EnumerationResults ServiceEndpoint="${server.url}/">`));
    assert.match(reply.text, /<Prefix>list-b<\/Prefix><Queues><Queue><Name>/);
    assert.doesNotMatch(reply.text, /<Metadata>|<Marker>|<MaxResults>/);
    assert.deepEqual(namesIn(reply.text), ["list-b1", "list-b2", "list-b3"]);
    assert.match(reply.text, /<NextMarker><\/NextMarker>|<NextMarker ?\/>/);
    assert.deepEqual(namesIn((await list({ prefix: "none-" })).text), []);
  });

  test("pages by maxresults and marker", async () => {
    const pages = service.listQueues({ prefix: "list-" }).byPage({ maxPageSize: 2 });
    const sizes: (string[] | undefined)[] = [];
    for await (const page of pages) sizes.push(page.queueItems?.map(({ name }) => name));
    assert.deepEqual(sizes, [names.slice(0, 2), names.slice(2, 4), names.slice(4)]);
    const first = await list({ prefix: "list-", maxresults: "3" });
    assert.match(first.text, /<MaxResults>3<\/MaxResults>/);
    const marker = /<NextMarker>([^<]+)</.exec(first.text)?.[1] ?? "";
    await service.getQueueClient("list-b3").delete();
    const rest = await list({ prefix: "list-", marker });
    assert.deepEqual(namesIn(rest.text), ["list-c"]);
    assert.ok(rest.text.includes(`<Marker>${marker}</Marker>`));
  });
});

suite("Get Queue Service Properties, Set Queue Service Properties", () => {
  test("keep what was set, and leave what is not named", async () => {
    const before = await service.getProperties();
    assert.equal(before.queueAnalyticsLogging?.read, false);
    assert.deepEqual(before.cors ?? [], []);
    const retentionPolicy = { enabled: true, days: 3 };
    const logging = { version: "1.0", read: true, write: false, deleteProperty: true };
    await service.setProperties({
      queueAnalyticsLogging: { ...logging, retentionPolicy },
      hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy },
    });
    const cors = {
      allowedOrigins: "https://example.com",
      allowedMethods: "GET,PUT",
      allowedHeaders: "x-ms-*",
      exposedHeaders: "x-ms-*",
      maxAgeInSeconds: 60,
    };
    const reply = await service.setProperties({ cors: [cors] });
    assert.equal(reply._response.status, 202);
    const set = await service.getProperties();
    assert.equal(set.queueAnalyticsLogging?.deleteProperty, true);
    assert.deepEqual(set.hourMetrics?.retentionPolicy, retentionPolicy);
    assert.equal(set.minuteMetrics?.enabled, false);
    assert.deepEqual(set.cors, [cors]);
  });

  test("metrics need neither a version nor a retention", async () => {
    await service.setProperties({ minuteMetrics: { enabled: true, includeAPIs: false } });
    const { minuteMetrics } = await service.getProperties();
    assert.deepEqual(minuteMetrics, {
      version: "1.0",
      enabled: true,
      includeAPIs: false,
      retentionPolicy: { enabled: false },
    });
    await service.setProperties({ minuteMetrics: { enabled: false } });
    assert.equal((await service.getProperties()).minuteMetrics?.enabled, false);
  });

  test("are not those of the Blob service, and have none of its own", async () => {
    const query = { restype: "service", comp: "properties" };
    const reply = await ofService("GET", query);
    assert.doesNotMatch(reply.text, /StaticWebsite|DeleteRetentionPolicy|DefaultServiceVersion/);
    const body =
      "<StorageServiceProperties><StaticWebsite><Enabled>true</Enabled></StaticWebsite></StorageServiceProperties>";
    isAnswer(await ofService("PUT", query, body), 400, "UnsupportedXmlNode");
    isAnswer(await ofService("PUT", query, "<x"), 400, "InvalidXmlDocument");
    isAnswer(await ofService("PUT", query, ""), 400, "InvalidXmlDocument");
  });
});

suite("Get Queue Service Stats", () => {
  const secondary = () =>
    new QueueServiceClient(
      `${server.url}-secondary`,
      new StorageSharedKeyCredential(server.account, server.key),
    );

  test("the secondary says that it is live", async () => {
    // This SDK looks for another root than the documents have, so its reading of the answer is not used.
    const { status, bodyAsText = "" } = (await secondary().getStatistics())._response;
    assert.equal(status, 200);
    const form =
      /<StorageServiceStats><GeoReplication><Status>live<\/Status><LastSyncTime>([^<]*)<\/LastSyncTime><\/GeoReplication><\/StorageServiceStats>$/;
    const at = Date.parse(form.exec(bodyAsText)?.[1] ?? "");
    assert.ok(Math.abs(at - Date.now()) < 60_000, bodyAsText);
  });

  test("the primary has none", async () => {
    const reply = await ofService("GET", { restype: "service", comp: "stats" });
    isAnswer(reply, 400, "InvalidQueryParameterValue");
  });

  test("the secondary can be read, and not written", async () => {
    const name = await made();
    await service.getQueueClient(name).sendMessage("seen from there");
    const queue = secondary().getQueueClient(name);
    const { peekedMessageItems } = await queue.peekMessages();
    assert.equal(peekedMessageItems[0]?.messageText, "seen from there");
    for (const write of [
      () => queue.sendMessage("no"),
      () => queue.receiveMessages(),
      () => queue.delete(),
      () => queue.setMetadata({}),
    ]) {
      await assert.rejects(write(), (error: unknown) => {
        assert.ok(error instanceof RestError);
        assert.deepEqual([error.statusCode, error.code], [403, "InsufficientAccountPermissions"]);
        return true;
      });
    }
  });
});
