import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { type RawReply, type RawRequest, send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";
import { exchange } from "./signed.ts";

let server: TestServer;
let service: BlobServiceClient;
let count = 0;

before(async () => {
  server = await startServer();
  service = BlobServiceClient.fromConnectionString(server.connectionString);
});

after(() => server.stop());

const freshName = () => `c-${process.pid}-${++count}`;

/** One request on a container; `comp` is empty for its properties. */
const on = (name: string, method: string, comp = "", more: Partial<RawRequest> = {}) => {
  const query = { restype: "container", ...(comp === "" ? {} : { comp }) };
  return send(server, { method, path: `/${name}`, query, ...more });
};

async function made(headers: Record<string, string> = {}): Promise<string> {
  const name = freshName();
  assert.equal((await on(name, "PUT", "", { headers })).status, 201);
  return name;
}

function assertAnswer(reply: RawReply, status: number, code?: string): void {
  assert.deepEqual([reply.status, reply.code], [status, code], reply.text);
}

suite("Create Container", () => {
  test("answers with ETag and Last-Modified and no body", async () => {
    const reply = await on(freshName(), "PUT");
    assertAnswer(reply, 201);
    assert.match(String(reply.headers.etag), /^"0x[0-9A-F]+"$/);
    assert.ok(!Number.isNaN(Date.parse(String(reply.headers["last-modified"]))));
    assert.equal(reply.text, "");
  });

  for (const access of ["container", "blob"] as const) {
    test(`keeps metadata and public access "${access}"`, async () => {
      const container = service.getContainerClient(freshName());
      await container.create({ access, metadata: { one: "1", two: "zwei drei" } });
      const got = await container.getProperties();
      assert.equal(got.blobPublicAccess, access);
      assert.deepEqual(got.metadata, { one: "1", two: "zwei drei" });
    });
  }

  test("a container with a scope of its own lets a request name no other, if it says so", async () => {
    const scope = "x-ms-default-encryption-scope";
    const deny = "x-ms-deny-encryption-scope-override";
    const refused = (headers: Record<string, string>) => on(freshName(), "PUT", "", { headers });
    assertAnswer(await refused({ [scope]: "one", [deny]: "maybe" }), 400, "InvalidHeaderValue");
    assertAnswer(await refused({ [deny]: "true" }), 400, "MissingRequiredHeader");
    const strict = await made({ [scope]: "one", [deny]: "true" });
    const open = await made({ [scope]: "one", [deny]: "false" });
    const put = (container: string, name: string, query: Record<string, string> = {}) =>
      send(server, {
        method: "PUT",
        path: `/${container}/b`,
        query,
        headers: { "x-ms-blob-type": "BlockBlob", "x-ms-encryption-scope": name },
        body: "x",
      });
    const code = "RequestForbiddenByContainerEncryptionPolicy";
    assertAnswer(await put(strict, "two"), 403, code);
    assertAnswer(await put(strict, "two", { comp: "block", blockid: "AAAA" }), 403, code);
    assertAnswer(await put(strict, "one"), 201);
    assertAnswer(await put(open, "two"), 201);
    for (const comp of ["metadata", "snapshot", "properties"]) {
      const change = (container: string) =>
        send(server, {
          method: "PUT",
          path: `/${container}/b`,
          query: { comp },
          headers: { "x-ms-encryption-scope": "two" },
        });
      assertAnswer(await change(strict), 403, code);
      assert.ok((await change(open)).status < 300, comp);
    }
  });

  test("refuses a name that is taken", async () => {
    const name = await made({ "x-ms-meta-a": "1" });
    const reply = await on(name, "PUT", "", { headers: { "x-ms-meta-a": "2" } });
    assertAnswer(reply, 409, "ContainerAlreadyExists");
    assert.equal((await on(name, "GET")).headers["x-ms-meta-a"], "1");
  });

  test("refuses a public access that it does not know", async () => {
    const name = freshName();
    const reply = await on(name, "PUT", "", { headers: { "x-ms-blob-public-access": "all" } });
    assertAnswer(reply, 400, "InvalidHeaderValue");
    assertAnswer(await on(name, "GET"), 404, "ContainerNotFound");
  });

  for (const name of ["abc", "0-1", "a-b-c", "$root", "$web", "x".repeat(63)]) {
    test(`takes the name ${name}`, async () => {
      assertAnswer(await on(name, "PUT"), 201);
      assertAnswer(await on(name, "DELETE"), 202);
    });
  }

  for (const name of ["ab", "Abc", "a--b", "-ab", "ab-", "a_b", "a.b", "$other", "x".repeat(64)]) {
    test(`refuses the name ${name}`, async () => {
      const reply = await on(name, "PUT");
      assert.equal(reply.status, 400);
      assert.match(String(reply.code), /^(InvalidResourceName|OutOfRangeInput)$/);
    });
  }
});

suite("Get Container Properties", () => {
  for (const method of ["GET", "HEAD"]) {
    test(`gives everything to a ${method}`, async () => {
      const name = freshName();
      const { headers: created } = await on(name, "PUT", "", { headers: { "x-ms-meta-a": "1" } });
      const reply = await on(name, method);
      assertAnswer(reply, 200);
      assert.equal(reply.headers.etag, created.etag);
      assert.equal(reply.headers["last-modified"], created["last-modified"]);
      assert.equal(reply.headers["x-ms-meta-a"], "1");
      assert.equal(reply.headers["x-ms-lease-status"], "unlocked");
      assert.equal(reply.headers["x-ms-lease-state"], "available");
      assert.equal(reply.headers["x-ms-lease-duration"], undefined);
      assert.equal(reply.headers["x-ms-blob-public-access"], undefined);
      assert.equal(reply.headers["x-ms-has-immutability-policy"], "false");
      assert.equal(reply.headers["x-ms-has-legal-hold"], "false");
      assert.equal(reply.text, "");
    });
  }

  for (const comp of ["", "metadata", "acl"]) {
    test(`of "${comp}" answers 404 for a container that is not there`, async () => {
      assertAnswer(await on("missing", "GET", comp), 404, "ContainerNotFound");
      const head = await on("missing", "HEAD", comp);
      assertAnswer(head, 404, "ContainerNotFound");
      assert.equal(head.text, "");
    });
  }
});

suite("Set Container Metadata", () => {
  test("replaces the whole, and Get Container Metadata gives it to GET and HEAD", async () => {
    const name = await made({ "x-ms-meta-old": "1" });
    const set = await on(name, "PUT", "metadata", { headers: { "x-ms-meta-new": "2" } });
    assertAnswer(set, 200);
    for (const method of ["GET", "HEAD"]) {
      const reply = await on(name, method, "metadata");
      assertAnswer(reply, 200);
      assert.equal(reply.headers["x-ms-meta-old"], undefined);
      assert.equal(reply.headers["x-ms-meta-new"], "2");
      assert.equal(reply.headers.etag, set.headers.etag);
      assert.equal(reply.text, "");
    }
    assertAnswer(await on(name, "PUT", "metadata"), 200);
    assert.equal((await on(name, "GET", "metadata")).headers["x-ms-meta-new"], undefined);
  });

  test("keeps the case of names", async () => {
    const container = service.getContainerClient(freshName());
    await container.create();
    await container.setMetadata({ CamelCase: "Some Value" });
    const target = `/${server.account}/${container.containerName}?restype=container`;
    const headers = { "x-ms-date": new Date().toUTCString(), "x-ms-version": "2025-11-05" };
    const reply = await exchange(server, { method: "GET", target, headers });
    assert.ok(reply.rawHeaders.includes("x-ms-meta-CamelCase"), reply.rawHeaders.join(" "));
    assert.equal(reply.headers["x-ms-meta-camelcase"], "Some Value");
  });

  test("takes 8000 bytes", async () => {
    const name = await made();
    const headers = { "x-ms-meta-a": "v".repeat(7_999) };
    assertAnswer(await on(name, "PUT", "metadata", { headers }), 200);
    const reply = await on(name, "GET", "metadata");
    assert.equal(reply.headers["x-ms-meta-a"], headers["x-ms-meta-a"]);
  });

  const refused: [what: string, header: string, value: string, code: string][] = [
    ["more than 8 KiB", "x-ms-meta-a", "v".repeat(8_200), "MetadataTooLarge"],
    ["a name with a dash", "x-ms-meta-a-b", "1", "InvalidMetadata"],
    ["a name that begins with a digit", "x-ms-meta-1a", "1", "InvalidMetadata"],
    ["a name with a dot", "x-ms-meta-a.b", "1", "InvalidMetadata"],
    ["an empty name", "x-ms-meta-", "1", "EmptyMetadataKey"],
  ];
  for (const [what, header, value, code] of refused) {
    test(`refuses ${what}`, async () => {
      const name = await made({ "x-ms-meta-old": "1" });
      const reply = await on(name, "PUT", "metadata", { headers: { [header]: value } });
      assertAnswer(reply, 400, code);
      assert.equal((await on(name, "GET")).headers["x-ms-meta-old"], "1");
    });
  }

  test("answers 404 for a container that is not there", async () => {
    assertAnswer(await on("missing", "PUT", "metadata"), 404, "ContainerNotFound");
  });
});

const identifier = (id: string, policy = "<Permission>r</Permission>") =>
  `<SignedIdentifier><Id>${id}</Id><AccessPolicy>${policy}</AccessPolicy></SignedIdentifier>`;
const identifiers = (...each: string[]) =>
  `<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers>${each.join("")}</SignedIdentifiers>`;

suite("Set Container ACL", () => {
  test("keeps what the SDK sets, and Get Container ACL gives it back", async () => {
    const container = service.getContainerClient(await made());
    const startsOn = new Date("2026-01-01T00:00:00Z");
    const expiresOn = new Date("2027-01-01T00:00:00Z");
    await container.setAccessPolicy("container", [
      { id: "first", accessPolicy: { startsOn, expiresOn, permissions: "racwdl" } },
      { id: "second & <last>", accessPolicy: { permissions: "r" } },
    ]);
    const got = await container.getAccessPolicy();
    assert.equal(got.blobPublicAccess, "container");
    assert.deepEqual(got.signedIdentifiers[0], {
      id: "first",
      accessPolicy: { startsOn, expiresOn, permissions: "racwdl" },
    });
    assert.equal(got.signedIdentifiers[1]?.id, "second & <last>");
    assert.equal(got.signedIdentifiers.length, 2);
    assert.equal((await container.getProperties()).blobPublicAccess, "container");
  });

  test("without the header makes private, and without a body drops all policies", async () => {
    const name = await made({ "x-ms-blob-public-access": "blob" });
    const body = identifiers(identifier("one"));
    const kept = { "x-ms-blob-public-access": "blob" };
    assertAnswer(await on(name, "PUT", "acl", { body, headers: kept }), 200);
    assertAnswer(await on(name, "PUT", "acl", { body }), 200);
    const closed = await on(name, "GET", "acl");
    assert.equal(closed.headers["x-ms-blob-public-access"], undefined);
    assert.match(closed.text, /<Id>one<\/Id>/);
    assertAnswer(await on(name, "PUT", "acl"), 200);
    const empty = await on(name, "GET", "acl");
    assertAnswer(empty, 200);
    assert.match(empty.text, /<SignedIdentifiers ?\/>|<SignedIdentifiers><\/SignedIdentifiers>/);
    assert.doesNotMatch(empty.text, /<Id>/);
  });

  test("Get Container ACL answers HEAD without a body", async () => {
    const name = await made({ "x-ms-blob-public-access": "blob" });
    const reply = await on(name, "HEAD", "acl");
    assertAnswer(reply, 200);
    assert.equal(reply.headers["x-ms-blob-public-access"], "blob");
    assert.equal(reply.text, "");
  });

  const start = (text: string) => identifiers(identifier("a", `<Start>${text}</Start>`));
  const taken: [what: string, body: string][] = [
    ["five policies", identifiers(..."abcde".split("").map((id) => identifier(id)))],
    ["an id of 64 characters", identifiers(identifier("i".repeat(64)))],
    ["a policy with nothing in it", identifiers(identifier("a", ""))],
    ["a start that is a day", start("2026-01-01")],
    ["a start to the minute", start("2026-01-01T10:20Z")],
    ["a start to the second", start("2026-01-01T10:20:30Z")],
    ["a start to 100 ns", start("2026-01-01T10:20:30.1234567Z")],
  ];
  for (const [what, body] of taken) {
    test(`takes ${what}`, async () => {
      const name = await made();
      assertAnswer(await on(name, "PUT", "acl", { body }), 200);
      const id = /<Id>.*?<\/Id>/.exec(body)?.[0] ?? "";
      assert.ok((await on(name, "GET", "acl")).text.includes(id));
    });
  }

  const refused: [what: string, body: string][] = [
    ["six policies", identifiers(..."abcdef".split("").map((id) => identifier(id)))],
    ["an id of 65 characters", identifiers(identifier("i".repeat(65)))],
    ["an id twice", identifiers(identifier("a"), identifier("a"))],
    ["a start that is no time", start("yesterday")],
    ["XML that ends early", "<SignedIdentifiers><SignedIdentifier>"],
    ["another root", "<Identifiers/>"],
  ];
  for (const [what, body] of refused) {
    test(`refuses ${what} and changes nothing`, async () => {
      const name = await made({ "x-ms-blob-public-access": "blob" });
      const reply = await on(name, "PUT", "acl", { body });
      assert.equal(reply.status, 400);
      assert.match(String(reply.code), /^Invalid(XmlDocument|XmlNodeValue|Input)$/);
      const got = await on(name, "GET", "acl");
      assert.equal(got.headers["x-ms-blob-public-access"], "blob");
      assert.doesNotMatch(got.text, /<Id>/);
    });
  }

  test("refuses a public access that it does not know", async () => {
    const headers = { "x-ms-blob-public-access": "all" };
    const reply = await on(await made(), "PUT", "acl", { headers });
    assertAnswer(reply, 400, "InvalidHeaderValue");
  });
});

suite("Delete Container", () => {
  test("takes the blobs along, and then there is nothing", async () => {
    const name = await made();
    const container = service.getContainerClient(name);
    await container.getBlockBlobClient("b").upload("text", 4);
    const reply = await on(name, "DELETE");
    assertAnswer(reply, 202);
    assert.equal(reply.text, "");
    assertAnswer(await on(name, "GET"), 404, "ContainerNotFound");
    assertAnswer(await on(name, "GET", "list"), 404, "ContainerNotFound");
    assertAnswer(await on(name, "DELETE"), 404, "ContainerNotFound");
    const blob: RawRequest = { method: "GET", path: `/${name}/b` };
    assertAnswer(await send(server, blob), 404, "ContainerNotFound");
  });

  // Azure keeps the name back for 30 seconds or more; we give it free at once.
  test("frees the name at once, and what is made anew is empty", async () => {
    const name = await made({ "x-ms-meta-a": "1", "x-ms-blob-public-access": "blob" });
    const container = service.getContainerClient(name);
    await container.getBlockBlobClient("b").upload("text", 4);
    const body = identifiers(identifier("one"));
    assertAnswer(await on(name, "PUT", "acl", { body }), 200);
    const earlier = await on(name, "GET");
    assertAnswer(await on(name, "DELETE"), 202);
    assertAnswer(await on(name, "PUT"), 201);
    const later = await on(name, "GET");
    assert.notEqual(later.headers.etag, earlier.headers.etag);
    assert.equal(later.headers["x-ms-meta-a"], undefined);
    assert.equal(later.headers["x-ms-blob-public-access"], undefined);
    assert.doesNotMatch((await on(name, "GET", "acl")).text, /<Id>/);
    assert.doesNotMatch((await on(name, "GET", "list")).text, /<Blob>/);
  });
});

suite("Container ETag", () => {
  test("changes with metadata and ACL, not with leases and blobs", async () => {
    const name = await made();
    const now = async () => String((await on(name, "GET")).headers.etag);
    const first = await now();
    const container = service.getContainerClient(name);
    const lease = container.getBlobLeaseClient();
    const { etag } = await lease.acquireLease(-1);
    assert.equal(etag, first);
    await lease.renewLease();
    await lease.breakLease(0);
    await container.getBlockBlobClient("b").upload("text", 4);
    await container.getBlockBlobClient("b").delete();
    assert.equal(await now(), first);
    const metadata = await on(name, "PUT", "metadata", { headers: { "x-ms-meta-a": "1" } });
    assert.notEqual(metadata.headers.etag, first);
    assert.equal(await now(), metadata.headers.etag);
    const acl = await on(name, "PUT", "acl");
    assert.notEqual(acl.headers.etag, metadata.headers.etag);
    assert.equal(await now(), acl.headers.etag);
  });
});
