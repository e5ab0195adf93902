import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
const at = { path: "/tags/blob", query: { comp: "tags" } };
const xml = (pairs: readonly (readonly [string, string])[]) =>
  `<Tags><TagSet>${pairs.map(([key, value]) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`).join("")}</TagSet></Tags>`;

before(async () => {
  server = await startServer();
  await send(server, { method: "PUT", path: "/tags", query: { restype: "container" } });
});
after(() => server.stop());

suite("Get Blob Tags and Set Blob Tags", () => {
  test("tags come back through the SDK, and change neither ETag nor time", async () => {
    const service = BlobServiceClient.fromConnectionString(server.connectionString);
    const blob = service.getContainerClient("tags").getBlockBlobClient("blob");
    const { etag } = await blob.upload("text", 4, { tags: { a: "1" } });
    assert.deepEqual((await blob.getTags()).tags, { a: "1" });
    await blob.setTags({ "kind of": "b/c", empty: "" });
    assert.deepEqual((await blob.getTags()).tags, { "kind of": "b/c", empty: "" });
    const properties = await blob.getProperties();
    assert.equal(properties.etag, etag);
    assert.equal(properties.tagCount, 2);
    await blob.setTags({});
    assert.deepEqual((await blob.getTags()).tags, {});
  });

  // SEMANTICS c.14: at most ten, keys of 1 to 128 and values of 0 to 256 allowed characters, each once.
  const bad: readonly (readonly [what: string, body: string, code: string])[] = [
    ["eleven tags", xml(Array.from({ length: 11 }, (_, i) => [`k${i}`, "v"])), "TagsTooLarge"],
    ["an empty key", xml([["", "v"]]), "EmptyTagName"],
    ["a key of 129 characters", xml([["k".repeat(129), "v"]]), "TagsTooLarge"],
    ["a value of 257 characters", xml([["k", "v".repeat(257)]]), "TagsTooLarge"],
    ["a character that is not allowed", xml([["k", "ä"]]), "InvalidTag"],
    [
      "a key twice",
      xml([
        ["k", "1"],
        ["k", "2"],
      ]),
      "DuplicateTagNames",
    ],
    ["another document", "<Nothing/>", "InvalidXmlDocument"],
    ["no XML", "tags", "InvalidXmlDocument"],
  ];
  for (const [what, body, code] of bad) {
    test(`Set Blob Tags refuses ${what}`, async () => {
      const reply = await send(server, { method: "PUT", ...at, body });
      assert.deepEqual([reply.status, reply.code], [400, code]);
    });
  }

  const foreign = [
    ...["x-ms-legal-hold", "x-ms-copy-source", "x-ms-source-if-tags", "x-ms-source-if-match"],
    ...["x-ms-source-range", "x-ms-source-content-md5", "x-ms-source-content-crc64"],
    ...["x-ms-blob-condition-appendpos", "x-ms-blob-condition-maxsize", "x-ms-expiry-option"],
  ];
  for (const name of foreign) {
    test(`Get Blob Tags refuses ${name}, which it does not heed`, async () => {
      const reply = await send(server, { method: "GET", ...at, headers: { [name]: '"0x1"' } });
      assert.deepEqual([reply.status, reply.code], [400, "UnsupportedHeader"]);
    });
  }

  test("Get Blob Tags of a missing blob is 404", async () => {
    const reply = await send(server, { method: "GET", path: "/tags/none", query: at.query });
    assert.deepEqual([reply.status, reply.code], [404, "BlobNotFound"]);
  });
});
