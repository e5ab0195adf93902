import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, describe, test } from "node:test";
import { BlobSASPermissions, BlobServiceClient, type ContainerClient } from "@azure/storage-blob";
import { FileSASPermissions, ShareServiceClient } from "@azure/storage-file-share";
import { send } from "./raw.ts";
import { at, startServer, type TestServer } from "./server.ts";

let server: TestServer;
let container: ContainerClient;
before(async () => {
  server = await startServer();
  const service = BlobServiceClient.fromConnectionString(server.connectionString, {
    retryOptions: { maxTries: 1 },
  });
  container = service.getContainerClient("copies");
  await container.create();
});
after(() => server.stop());

const text = async (name: string) =>
  (await container.getBlobClient(name).downloadToBuffer()).toString();

/** Another server, whose answers the test decides. */
async function elsewhere(answer: Parameters<typeof createServer>[1]): Promise<[Server, string]> {
  const other = createServer(answer as never);
  other.listen(0, "127.0.0.1");
  await once(other, "listening");
  other.unref(); // a test that fails before it closes this must not keep the file from its end
  return [other, `http://127.0.0.1:${(other.address() as AddressInfo).port}/source`];
}

describe("copies within the server", () => {
  test("Put Block From URL: the reply names both sums of what was fetched", async () => {
    const source = container.getBlockBlobClient("summed-source");
    const { contentMD5 } = await source.upload("123456789", 9);
    const block = await container
      .getBlockBlobClient("summed")
      .stageBlockFromURL(btoa("1"), source.url);
    assert.deepEqual(block.contentMD5, contentMD5);
    assert.equal(Buffer.from(block.xMsContentCrc64 ?? []).toString("base64"), "iJh5CoYUi64=");
  });

  test("a copy of the whole source refuses to be asked for a part of it, or for a sum it does not check", async () => {
    const source = container.getBlockBlobClient("whole-source");
    await source.upload("0123456789", 10);
    const range = { "x-ms-source-range": "bytes=0-3" };
    const asked: [string, Record<string, string>][] = [
      ["Put Blob From URL", { "x-ms-blob-type": "BlockBlob", ...range }],
      ["Copy Blob From URL", { "x-ms-requires-sync": "true", ...range }],
      ["Copy Blob", range],
      ["Copy Blob", { "x-ms-source-content-md5": "AAAAAAAAAAAAAAAAAAAAAA==" }],
    ];
    for (const [what, headers] of asked) {
      const reply = await send(server, {
        method: "PUT",
        path: "/copies/part-of-it",
        headers: { "x-ms-copy-source": source.url, ...headers },
      });
      assert.deepEqual([reply.status, reply.code], [400, "UnsupportedHeader"], what);
    }
    const headers = { "x-ms-copy-source": source.url, "x-ms-requires-sync": "soon" };
    const unclear = await send(server, { method: "PUT", path: "/copies/unclear", headers });
    assert.deepEqual([unclear.status, unclear.code], [400, "InvalidHeaderValue"]);
  });

  test("Copy Blob: at once, with headers, metadata and blocks; tags are not copied", async () => {
    const source = container.getBlockBlobClient("source");
    await source.stageBlock(btoa("block-1"), "one ", 4);
    await source.stageBlock(btoa("block-2"), "two", 3);
    await source.commitBlockList([btoa("block-1"), btoa("block-2")], {
      metadata: { k: "v" },
      blobHTTPHeaders: { blobContentType: "text/plain" },
      tags: { t: "1" },
    });
    const copy = container.getBlockBlobClient("copy");
    const poller = await copy.beginCopyFromURL(source.url);
    const done = await poller.pollUntilDone();
    assert.equal(done.copyStatus, "success");
    assert.equal(await text("copy"), "one two");
    const properties = await copy.getProperties();
    assert.equal(properties.contentType, "text/plain");
    assert.deepEqual(properties.metadata, { k: "v" });
    assert.equal(properties.copyProgress, "7/7");
    assert.equal(properties.copySource, source.url);
    assert.equal(properties.tagCount, undefined);
    const { committedBlocks = [] } = await copy.getBlockList("committed");
    assert.deepEqual(
      committedBlocks.map(({ name }) => name),
      [btoa("block-1"), btoa("block-2")],
    );
    await source.delete();
    assert.equal(await text("copy"), "one two");
  });

  test("Copy Blob From URL, Put Blob From URL, Put Block From URL", async () => {
    const source = container.getBlockBlobClient("sync-source");
    await source.upload("0123456789", 10, { tags: { a: "b" } });
    const copy = container.getBlockBlobClient("sync-copy");
    const sync = await copy.syncCopyFromURL(source.url, { copySourceTags: "COPY" });
    assert.equal(sync.copyStatus, "success");
    assert.deepEqual((await copy.getTags()).tags, { a: "b" });
    const put = container.getBlockBlobClient("sync-put");
    await put.syncUploadFromURL(source.url, { copySourceTags: "COPY" });
    assert.equal(await text("sync-put"), "0123456789");
    assert.deepEqual((await put.getTags()).tags, { a: "b" });
    const block = container.getBlockBlobClient("sync-block");
    await block.stageBlockFromURL(btoa("1"), source.url, 3, 4);
    await block.commitBlockList([btoa("1")]);
    assert.equal(await text("sync-block"), "3456");
  });

  test("Copy Blob From URL: a source whose sum is checked keeps its blocks and tags, and is judged as any other", async () => {
    const source = container.getBlockBlobClient("checked-source");
    await source.stageBlock(btoa("block-1"), "0123456789", 10);
    await source.commitBlockList([btoa("block-1")], { tags: { a: "b" } });
    const sourceContentMD5 = createHash("md5").update("0123456789").digest();
    const copy = container.getBlockBlobClient("checked-copy");
    const sum = { sourceContentMD5, copySourceTags: "COPY" } as const;
    const done = await copy.syncCopyFromURL(source.url, sum);
    assert.deepEqual(Buffer.from(done.contentMD5 ?? []), sourceContentMD5);
    assert.equal(await text("checked-copy"), "0123456789");
    assert.deepEqual((await copy.getTags()).tags, { a: "b" });
    const { committedBlocks = [] } = await copy.getBlockList("committed");
    assert.deepEqual(committedBlocks, [{ name: btoa("block-1"), size: 10 }]);
    const page = container.getPageBlobClient("checked-pages");
    await page.create(512);
    const refused = async (url: string, md5: Uint8Array, more: Record<string, string> = {}) => {
      const headers = {
        "x-ms-copy-source": url,
        "x-ms-requires-sync": "true",
        "x-ms-source-content-md5": Buffer.from(md5).toString("base64"),
        ...more,
      };
      const { status, code } = await send(server, { method: "PUT", path: "/copies/no", headers });
      return `${status} ${code}`;
    };
    const tags = { "x-ms-source-if-tags": "a='c'" };
    assert.equal(await refused(source.url, sourceContentMD5, tags), "412 SourceConditionNotMet");
    const zeros = createHash("md5").update(Buffer.alloc(512)).digest();
    assert.equal(await refused(page.url, zeros), "409 InvalidSourceBlobType");
    assert.equal(await refused(source.url, zeros), "400 Md5Mismatch");
  });

  test("a tier is for block blobs: a copy of pages or appends refuses one", async () => {
    const page = container.getPageBlobClient("tierless-pages");
    await page.create(512);
    const append = container.getAppendBlobClient("tierless-appends");
    await append.create();
    for (const source of [page, append]) {
      const headers = { "x-ms-copy-source": source.url, "x-ms-access-tier": "Cool" };
      const reply = await send(server, { method: "PUT", path: "/copies/tierless", headers });
      assert.deepEqual([reply.status, reply.code], [400, "AccessTierNotSupportedForBlobType"]);
    }
  });

  test("an archived source is copied to a tier that is named, but not at once", async () => {
    const source = container.getBlockBlobClient("archived");
    await source.upload("x", 1, { tier: "Archive" });
    const copied = async (headers: Record<string, string>) => {
      const all = { "x-ms-copy-source": source.url, ...headers };
      const path = "/copies/from-archive";
      const { status, code } = await send(server, { method: "PUT", path, headers: all });
      return `${status} ${code}`;
    };
    const hot = { "x-ms-access-tier": "Hot" };
    assert.equal(await copied({}), "409 BlobArchived");
    assert.equal(await copied({ ...hot, "x-ms-requires-sync": "true" }), "409 BlobArchived");
    assert.equal(await copied(hot), "202 undefined");
  });

  test("an archived blob is no destination, unless the copy names the tier it gets", async () => {
    const source = container.getBlockBlobClient("onto-source");
    await source.upload("new", 3);
    const blob = container.getBlockBlobClient("onto-archived");
    await blob.upload("old", 3, { tier: "Archive" });
    const copied = async (headers: Record<string, string>) => {
      const all = { "x-ms-copy-source": source.url, ...headers };
      const path = "/copies/onto-archived";
      const { status, code } = await send(server, { method: "PUT", path, headers: all });
      return `${status} ${code}`;
    };
    assert.equal(await copied({}), "409 BlobArchived");
    assert.equal(await copied({ "x-ms-requires-sync": "true" }), "409 BlobArchived");
    assert.equal(await copied({ "x-ms-blob-type": "BlockBlob" }), "409 BlobArchived");
    assert.equal(await copied({ "x-ms-access-tier": "Cool" }), "202 undefined");
    assert.equal(await text("onto-archived"), "new");
  });

  test("Copy Blob From URL: the reply names the encryption scope", async () => {
    const source = container.getBlockBlobClient("scope-source");
    await source.upload("x", 1);
    const copy = container.getBlockBlobClient("scope-copy");
    const made = await copy.syncCopyFromURL(source.url, { encryptionScope: "one" });
    assert.equal(made.encryptionScope, "one");
  });

  test("Put Blob From URL: a condition on the source's tags is judged, where they can be known", async () => {
    const source = container.getBlockBlobClient("tagged-source");
    await source.upload("x", 1, { tags: { a: "1" } });
    const put = container.getBlockBlobClient("tagged-put");
    const when = (tagConditions: string) => ({ sourceConditions: { tagConditions } });
    await assert.rejects(put.syncUploadFromURL(source.url, when("a = '2'")), {
      statusCode: 412,
      code: "SourceConditionNotMet",
    });
    await assert.rejects(put.syncUploadFromURL(source.url, when("a like '2'")), {
      statusCode: 400,
      code: "InvalidHeaderValue",
    });
    await put.syncUploadFromURL(source.url, when("a = '1'"));
    assert.equal(await text("tagged-put"), "x");
    const [other, url] = await elsewhere((_request, reply) => reply.end("x"));
    await assert.rejects(put.syncUploadFromURL(url, when("a = '1'")), {
      statusCode: 400,
      code: "UnsupportedHeader",
    });
    other.close();
  });

  test("Put Blob From URL: conditions and a key are for the source's bytes, also where its tags are copied", async () => {
    const key = Buffer.alloc(32, 7);
    const keyHeaders = (prefix: string) => ({
      [`${prefix}encryption-key`]: key.toString("base64"),
      [`${prefix}encryption-key-sha256`]: createHash("sha256").update(key).digest("base64"),
      [`${prefix}encryption-algorithm`]: "AES256",
    });
    const block = { "x-ms-blob-type": "BlockBlob" };
    const made = await send(server, {
      method: "PUT",
      path: "/copies/sealed-source",
      headers: { ...block, ...keyHeaders("x-ms-"), "x-ms-tags": "a=b" },
      body: "x",
    });
    const copied = async (etag: string) => {
      const headers = {
        ...block,
        ...keyHeaders("x-ms-source-"),
        "x-ms-copy-source": `${server.url}/copies/sealed-source`,
        "x-ms-copy-source-tag-option": "COPY",
        "x-ms-source-if-match": etag,
      };
      const path = "/copies/sealed-put";
      const { status, code } = await send(server, { method: "PUT", path, headers });
      return `${status} ${code}`;
    };
    assert.equal(await copied('"0x1"'), "412 SourceConditionNotMet");
    assert.equal(await copied(made.headers.etag ?? ""), "201 undefined");
    assert.equal(await text("sealed-put"), "x");
    assert.deepEqual((await container.getBlobClient("sealed-put").getTags()).tags, { a: "b" });
  });

  test("a block from a URL has bytes, as every block", async () => {
    const source = container.getBlockBlobClient("empty-source");
    await source.upload("", 0);
    const refused = { statusCode: 409, code: "CannotVerifyCopySource" };
    const block = container.getBlockBlobClient("empty-block");
    await assert.rejects(block.stageBlockFromURL(btoa("1"), source.url), refused);
    const append = container.getAppendBlobClient("empty-append");
    await append.create();
    const headers = { "x-ms-copy-source": source.url };
    const query = { comp: "appendblock" };
    const path = "/copies/empty-append";
    const { status, code } = await send(server, { method: "PUT", path, query, headers });
    assert.deepEqual({ statusCode: status, code }, refused);
    await container.getBlockBlobClient("empty-put").syncUploadFromURL(source.url);
  });

  test("Put Blob From URL, Append Block From URL: a Content-MD5 is the sum of what is fetched", async () => {
    const source = container.getBlockBlobClient("md5-source");
    await source.upload("0123456789", 10);
    await container.getAppendBlobClient("md5-append").create();
    const rows = [
      { path: "/copies/md5-put", headers: { "x-ms-blob-type": "BlockBlob" } },
      { path: "/copies/md5-append", query: { comp: "appendblock" } },
    ];
    for (const { headers, ...row } of rows) {
      const sent = async (md5: string) => {
        const all = { "x-ms-copy-source": source.url, "content-md5": md5, ...headers };
        const { status, code } = await send(server, { method: "PUT", ...row, headers: all });
        return `${status} ${code}`;
      };
      const sum = (bytes: string) => createHash("md5").update(bytes).digest("base64");
      assert.equal(await sent(sum("another")), "400 Md5Mismatch", row.path);
      assert.equal(await sent("AAAA"), "400 InvalidMd5", row.path);
      assert.equal(await sent(sum("0123456789")), "201 undefined", row.path);
    }
  });

  test("who may read a source may not thereby learn its tags", async () => {
    const source = container.getBlockBlobClient("secret-source");
    await source.upload("x", 1, { tags: { a: "secret" } });
    const expiresOn = new Date(Date.now() + 3_600_000);
    const signed = (letters: string) =>
      source.generateSasUrl({ permissions: BlobSASPermissions.parse(letters), expiresOn });
    const copied = async (letters: string, headers: Record<string, string>) => {
      const all = { "x-ms-copy-source": await signed(letters), ...headers };
      const path = "/copies/secret-copy";
      const { status, code } = await send(server, { method: "PUT", path, headers: all });
      return `${status} ${code}`;
    };
    const sync = { "x-ms-requires-sync": "true" };
    const asking: Record<string, string>[] = [
      { ...sync, "x-ms-copy-source-tag-option": "COPY" },
      { ...sync, "x-ms-source-if-tags": "a = 'secret'" },
      { "x-ms-source-if-tags": "a = 'secret'" },
    ];
    for (const headers of asking) {
      assert.equal(await copied("r", headers), "403 CannotVerifyCopySource");
      assert.equal(await copied("rt", headers), "202 undefined");
    }
    assert.equal(await copied("r", sync), "202 undefined");
  });

  test("conditions on the source fail with 412 SourceConditionNotMet", async () => {
    const source = container.getBlockBlobClient("conditions");
    await source.upload("x", 1);
    for (const more of [{}, { "x-ms-requires-sync": "true" }, { "x-ms-blob-type": "BlockBlob" }]) {
      const headers = { "x-ms-copy-source": source.url, "x-ms-source-if-match": '"0x1"', ...more };
      const reply = await send(server, { method: "PUT", path: "/copies/refused", headers });
      assert.deepEqual([reply.status, reply.code], [412, "SourceConditionNotMet"]);
    }
  });

  const bad: [what: string, headers: Record<string, string>, status: number, code: string][] = [
    ["no URL", { "x-ms-copy-source": "nothing" }, 400, "InvalidHeaderValue"],
    ["a file", { "x-ms-copy-source": "file:///etc/passwd" }, 400, "InvalidHeaderValue"],
  ];
  for (const [what, headers, status, code] of bad) {
    test(`Copy Blob refuses ${what}`, async () => {
      const reply = await send(server, { method: "PUT", path: "/copies/refused", headers });
      assert.deepEqual([reply.status, reply.code], [status, code]);
    });
  }

  test("Copy Blob: who holds the destination must hold it without end", async () => {
    const source = container.getBlockBlobClient("lease-source");
    await source.upload("new", 3);
    const copy = container.getBlockBlobClient("leased");
    await copy.upload("old", 3);
    const lease = copy.getBlobLeaseClient();
    const { leaseId = "" } = await lease.acquireLease(30);
    const conditions = { leaseId };
    await assert.rejects(copy.beginCopyFromURL(source.url, { conditions }), {
      statusCode: 412,
      code: "InfiniteLeaseDurationRequired",
    });
    await lease.releaseLease();
    await lease.acquireLease(-1);
    await (await copy.beginCopyFromURL(source.url, { conditions })).pollUntilDone();
    assert.equal(await text("leased"), "new");
  });

  test("Copy Blob: a source that is not there is 404", async () => {
    const headers = { "x-ms-copy-source": `${server.url}/copies/none` };
    const reply = await send(server, { method: "PUT", path: "/copies/refused", headers });
    assert.deepEqual([reply.status, reply.code], [404, "CannotVerifyCopySource"]);
  });
});

describe("copies from elsewhere", () => {
  test("Copy Blob is pending until the source has sent all, and then has its bytes", async () => {
    let finish = () => {};
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const [other, url] = await elsewhere((request, reply) => {
      reply.writeHead(200, { "Content-Length": 10, ETag: '"e"', "Content-Type": "text/x" });
      if (request.method === "HEAD") return void reply.end();
      reply.write("01234");
      void held.then(() => reply.end("56789"));
    });
    const copy = container.getBlockBlobClient("remote");
    const poller = await copy.beginCopyFromURL(url, { intervalInMs: 20 });
    assert.equal((await copy.getProperties()).copyStatus, "pending");
    await assert.rejects(copy.upload("x", 1), { code: "PendingCopyOperation" });
    await assert.rejects(copy.delete(), { code: "PendingCopyOperation" });
    const lease = copy.getBlobLeaseClient();
    await assert.rejects(lease.acquireLease(-1), { code: "PendingCopyOperation" });
    finish();
    await poller.pollUntilDone();
    assert.equal(await text("remote"), "0123456789");
    assert.equal((await copy.getProperties()).contentType, "text/x");
    other.close();
  });

  test("a sealed append blob is copied sealed unless the request says otherwise, and tags come along when asked for", async () => {
    const [other, url] = await elsewhere((request, reply) => {
      if (request.url?.includes("comp=tags")) {
        const tag = "<Tag><Key>a</Key><Value>b</Value></Tag>";
        return void reply.end(`<Tags><TagSet>${tag}</TagSet></Tags>`);
      }
      const facts = { "x-ms-blob-type": "AppendBlob", "x-ms-blob-sealed": "true" };
      reply.writeHead(200, { "Content-Length": 3, ETag: '"e"', ...facts });
      reply.end(request.method === "HEAD" ? "" : "abc");
    });
    for (const [name, headers, isSealed] of [
      ["sealed", { "x-ms-copy-source-tag-option": "COPY" }, true],
      ["opened", { "x-ms-seal-blob": "false" }, undefined],
    ] as const) {
      const begun = await send(server, {
        method: "PUT",
        path: `/copies/${name}`,
        headers: { "x-ms-copy-source": url, ...headers },
      });
      assert.equal(begun.status, 202, begun.text);
      const copy = container.getAppendBlobClient(name);
      let properties = await copy.getProperties();
      while (properties.copyStatus === "pending") properties = await copy.getProperties();
      assert.deepEqual([properties.copyStatus, properties.isSealed], ["success", isSealed]);
      assert.equal(properties.tagCount, name === "sealed" ? 1 : undefined);
      assert.equal(await text(name), "abc");
    }
    const sync = { "x-ms-copy-source": url, "x-ms-requires-sync": "true" };
    const pages = await send(server, { method: "PUT", path: "/copies/no", headers: sync });
    assert.deepEqual([pages.status, pages.code], [409, "InvalidSourceBlobType"]);
    other.close();
  });

  test("a source that does not tell its tags cannot be copied with them", async () => {
    const [other, url] = await elsewhere((_request, reply) => void reply.end("no XML"));
    for (const more of [{}, { "x-ms-requires-sync": "true" }, { "x-ms-blob-type": "BlockBlob" }]) {
      const tags = { "x-ms-copy-source": url, "x-ms-copy-source-tag-option": "COPY" };
      const headers = { ...tags, ...more };
      const reply = await send(server, { method: "PUT", path: "/copies/untold", headers });
      assert.deepEqual([reply.status, reply.code], [409, "CannotVerifyCopySource"]);
    }
    other.close();
  });

  test("a source's metadata must be a blob's, and a sum that is none is not kept", async () => {
    let name = "x-ms-meta-1x";
    const [other, url] = await elsewhere((_request, reply) => {
      reply.writeHead(200, { "Content-Length": 1, "Content-MD5": "none", [name]: "1" }).end("x");
    });
    const kinds = [{}, { "x-ms-requires-sync": "true" }, { "x-ms-blob-type": "BlockBlob" }];
    const copied = async (more: object) => {
      const headers = { "x-ms-copy-source": url, ...more };
      return send(server, { method: "PUT", path: "/copies/described", headers });
    };
    for (const more of kinds) {
      const reply = await copied(more);
      assert.deepEqual([reply.status, reply.code], [409, "CannotVerifyCopySource"]);
    }
    name = "x-ms-meta-x1";
    const sync = { "x-ms-requires-sync": "true" };
    assert.equal((await copied(sync)).status, 202);
    const { contentMD5, metadata } = await container.getBlobClient("described").getProperties();
    assert.deepEqual([contentMD5, metadata], [undefined, { x1: "1" }]);
    other.close();
  });

  test("a copy into a deleted share is not made again and again: it has failed when that is restored", async () => {
    let finish = () => {};
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    let gets = 0;
    const [other, url] = await elsewhere((request, reply) => {
      reply.writeHead(200, { "Content-Length": 3, ETag: '"e"' });
      if (request.method === "HEAD") return void reply.end();
      gets++;
      void (gets === 1 ? held : Promise.resolve()).then(() => reply.end("abc"));
    });
    const service = ShareServiceClient.fromConnectionString(server.connectionString);
    const policy = "<Enabled>true</Enabled><Days>1</Days>";
    await send(at(server, "file"), {
      method: "PUT",
      path: "/",
      query: { restype: "service", comp: "properties" },
      body: `<StorageServiceProperties><ShareDeleteRetentionPolicy>${policy}</ShareDeleteRetentionPolicy></StorageServiceProperties>`,
    });
    const copied = async (share: string) => {
      await service.getShareClient(share).create();
      const file = service.getShareClient(share).rootDirectoryClient.getFileClient("f");
      await file.startCopyFromURL(url);
      return file;
    };
    const ended = async (file: Awaited<ReturnType<typeof copied>>) => {
      for (;;) {
        const { copyStatus } = await file.getProperties();
        if (copyStatus !== "pending") return copyStatus;
      }
    };
    const file = await copied("copied-to");
    while (gets === 0) await new Promise((resolve) => setImmediate(resolve));
    await service.getShareClient("copied-to").delete();
    finish();
    for (const share of ["other-a", "other-b"]) {
      assert.equal(await ended(await copied(share)), "success");
    }
    assert.equal(gets, 3);
    for await (const { name, version = "", deleted } of service.listShares({
      includeDeleted: true,
    })) {
      if (deleted) await service.undeleteShare(name, version);
    }
    assert.equal(await ended(file), "failed");
    assert.equal(gets, 3);
    other.close();
  });

  test("Abort Copy Blob leaves an empty blob", async () => {
    const [other, url] = await elsewhere((request, reply) => {
      reply.writeHead(200, { "Content-Length": 10 });
      if (request.method === "HEAD") reply.end();
      else reply.write("01234");
    });
    const copy = container.getBlockBlobClient("aborted");
    await copy.beginCopyFromURL(url);
    const { copyId = "" } = await copy.getProperties();
    await assert.rejects(copy.abortCopyFromURL("00000000-0000-0000-0000-000000000000"), {
      code: "CopyIdMismatch",
    });
    await copy.abortCopyFromURL(copyId);
    const properties = await copy.getProperties();
    assert.deepEqual([properties.copyStatus, properties.contentLength], ["aborted", 0]);
    await assert.rejects(copy.abortCopyFromURL(copyId), { code: "NoPendingCopyOperation" });
    other.closeAllConnections();
    other.close();
  });

  test("a redirect is not followed, a host that is not listed is not read", async () => {
    const [other, url] = await elsewhere((_request, reply) => {
      reply.writeHead(302, { Location: server.url }).end();
    });
    const refused = async (source: string) => {
      const headers = { "x-ms-copy-source": source, "x-ms-requires-sync": "true" };
      const reply = await send(server, { method: "PUT", path: "/copies/refused", headers });
      return [reply.status, reply.code];
    };
    assert.deepEqual(await refused(url), [409, "CannotVerifyCopySource"]);
    assert.deepEqual(await refused("http://169.254.169.254/latest"), [
      403,
      "CannotVerifyCopySource",
    ]);
    other.close();
  });
});

test("Copy Blob takes a file for its source, of the same account or by a SAS", async () => {
  const share = ShareServiceClient.fromConnectionString(server.connectionString).getShareClient(
    "src",
  );
  await share.create();
  const file = share.rootDirectoryClient.getFileClient("a.txt");
  await file.uploadData(Buffer.from("from a file"));
  const sas = await file.generateSasUrl({
    permissions: FileSASPermissions.parse("r"),
    expiresOn: new Date(Date.now() + 3_600_000),
  });
  for (const [name, url] of [
    ["of-file", file.url],
    ["of-signed-file", sas],
  ] as const) {
    const copy = container.getBlockBlobClient(name);
    const poller = await copy.beginCopyFromURL(url, { intervalInMs: 20 });
    assert.equal((await poller.pollUntilDone()).copyStatus, "success");
    assert.equal(await text(name), "from a file");
    assert.equal((await copy.getProperties()).copySource?.includes("sig="), false);
  }
});
