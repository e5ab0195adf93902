import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { BlobServiceClient, type ContainerClient } from "@azure/storage-blob";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
let container: ContainerClient;
before(async () => {
  server = await startServer();
  const service = BlobServiceClient.fromConnectionString(server.connectionString, {
    retryOptions: { maxTries: 1 },
  });
  container = service.getContainerClient("keys");
  await container.create();
});
after(() => server.stop());

const keyOf = (fill: number) => {
  const key = Buffer.alloc(32, fill);
  return {
    encryptionKey: key.toString("base64"),
    encryptionKeySha256: createHash("sha256").update(key).digest("base64"),
    encryptionAlgorithm: "AES256" as const,
  };
};
const key = keyOf(1);
const other = keyOf(2);
// The SDK sends a customer's key only over HTTPS, so these requests are made by hand.
const headersOf = ({ encryptionKey, encryptionKeySha256 }: typeof key) => ({
  "x-ms-encryption-key": encryptionKey,
  "x-ms-encryption-key-sha256": encryptionKeySha256,
  "x-ms-encryption-algorithm": "AES256",
});
const mine = headersOf(key);
const put = (path: string, body: Buffer | string, headers: Record<string, string>) =>
  send(server, {
    method: "PUT",
    path,
    body,
    headers: { "x-ms-blob-type": "BlockBlob", ...headers },
  });
const get = (path: string, headers: Record<string, string>) =>
  send(server, { method: "GET", path, headers });

for (const size of [5, 64 * 1024, 64 * 1024 + 1, 3_000_000]) {
  test(`a blob of ${size} bytes is read with its key, whole and in part`, async () => {
    const bytes = randomBytes(size);
    const path = `/keys/b${size}`;
    const reply = await put(path, bytes, mine);
    assert.equal(reply.status, 201);
    assert.equal(reply.headers["x-ms-encryption-key-sha256"], key.encryptionKeySha256);
    const whole = await get(path, mine);
    assert.deepEqual(whole.body, bytes);
    assert.equal(whole.headers["x-ms-encryption-key-sha256"], key.encryptionKeySha256);
    for (const [start, end] of [
      [0, 0],
      [1, 3],
      [size >> 1, size - 1],
    ] as const) {
      const part = await get(path, { ...mine, "x-ms-range": `bytes=${start}-${end}` });
      assert.deepEqual(part.body, bytes.subarray(start, end + 1));
    }
  });
}

test("without the key, with another, and with one where none was used: 409", async () => {
  await put("/keys/secret", "text", mine);
  await put("/keys/plain", "text", {});
  const refused: [path: string, headers: Record<string, string>, code: string][] = [
    ["/keys/secret", {}, "BlobUsesCustomerSpecifiedEncryption"],
    ["/keys/secret", headersOf(other), "BlobCustomerSpecifiedEncryptionMismatch"],
    ["/keys/plain", mine, "BlobDoesNotUseCustomerSpecifiedEncryption"],
  ];
  for (const [path, headers, code] of refused) {
    for (const [method, query] of [
      ["GET", {}],
      ["HEAD", {}],
      ["PUT", { comp: "metadata" }],
      ["PUT", { comp: "snapshot" }],
    ] as [string, Record<string, string>][]) {
      const reply = await send(server, { method, path, query, headers });
      assert.deepEqual([reply.status, reply.headers["x-ms-error-code"]], [409, code], method);
    }
  }
});

test("Put Block and Put Block List need one key for all", async () => {
  const path = "/keys/blocks";
  const block = (id: string, headers: Record<string, string>) =>
    send(server, {
      method: "PUT",
      path,
      query: { comp: "block", blockid: btoa(id) },
      body: id.repeat(40_000),
      headers,
    });
  await block("a", mine);
  await block("b", mine);
  const list = (headers: Record<string, string>) =>
    send(server, {
      method: "PUT",
      path,
      query: { comp: "blocklist" },
      body: `<BlockList><Latest>${btoa("a")}</Latest><Latest>${btoa("b")}</Latest></BlockList>`,
      headers,
    });
  assert.equal((await list({})).code, "BlobUsesCustomerSpecifiedEncryption");
  assert.equal((await list(headersOf(other))).code, "BlobCustomerSpecifiedEncryptionMismatch");
  assert.equal((await list(mine)).status, 201);
  assert.equal((await get(path, mine)).text, "a".repeat(40_000) + "b".repeat(40_000));
});

test("an append blob takes only blocks of its key", async () => {
  const path = "/keys/append";
  const created = { "x-ms-blob-type": "AppendBlob", ...mine };
  assert.equal((await send(server, { method: "PUT", path, headers: created })).status, 201);
  const append = (body: string, headers: Record<string, string>) =>
    send(server, { method: "PUT", path, query: { comp: "appendblock" }, body, headers });
  assert.equal((await append("x", {})).code, "BlobUsesCustomerSpecifiedEncryption");
  for (const text of ["one ", "two ", "three"])
    assert.equal((await append(text, mine)).status, 201);
  assert.equal((await get(path, mine)).text, "one two three");
  assert.equal((await get(path, { ...mine, "x-ms-range": "bytes=2-6" })).text, "e two");
});

test("the bytes at rest are not the blob's", async () => {
  const secret = "a secret that must not lie about ".repeat(8000);
  await put("/keys/rest", secret, mine);
  await put("/keys/rest-small", secret.slice(0, 3000), mine);
  const files = readdirSync(server.directory, { recursive: true, withFileTypes: true });
  const texts = files
    .filter((file) => file.isFile())
    .map((file) => readFileSync(join(file.parentPath, file.name)));
  assert.ok(texts.length > 1);
  for (const text of texts) assert.equal(text.includes("must not lie about"), false);
});

const broken: [what: string, headers: Record<string, string>, code: string][] = [
  ["no key", { ...mine, "x-ms-encryption-key": "" }, "InvalidHeaderValue"],
  ["a short key", { ...mine, "x-ms-encryption-key": btoa("short") }, "InvalidHeaderValue"],
  [
    "another's sum",
    { ...mine, "x-ms-encryption-key-sha256": other.encryptionKeySha256 },
    "InvalidHeaderValue",
  ],
  ["another algorithm", { ...mine, "x-ms-encryption-algorithm": "DES" }, "InvalidHeaderValue"],
  ["no sum", { "x-ms-encryption-key": key.encryptionKey }, "MissingRequiredHeader"],
  ["nothing but its algorithm", { "x-ms-encryption-algorithm": "AES256" }, "MissingRequiredHeader"],
];
for (const [what, headers, code] of broken) {
  test(`a customer's key with ${what} is refused`, async () => {
    const reply = await put("/keys/refused", "x", headers);
    assert.deepEqual([reply.status, reply.code], [400, code]);
    assert.equal(reply.text.includes(key.encryptionKey), false);
  });
}

test("List Blobs tells of the key, and keeps the metadata to itself", async () => {
  await put("/keys/listed", "x", { ...mine, "x-ms-meta-a": "hidden" });
  for await (const blob of container.listBlobsFlat({ prefix: "listed", includeMetadata: true })) {
    assert.equal(blob.properties.customerProvidedKeySha256, key.encryptionKeySha256);
    assert.equal(JSON.stringify(blob).includes("hidden"), false);
  }
});
