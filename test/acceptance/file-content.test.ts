import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, suite, test } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import {
  answered,
  clearRange,
  createFile,
  type Fields,
  type FileServer,
  lease,
  onShare,
  putRange,
  rangesIn,
  rename,
  startFiles,
} from "./files.ts";
import { type RawReply, send } from "./raw.ts";
import { at as serverAt } from "./server.ts";

let files: FileServer;

before(async () => {
  files = await startFiles();
});

after(() => files.stop());

const KIB = 1024;
const MIB = 1024 * KIB;
const TIB = 1024 * 1024 * MIB;

const get = (path: string, headers: Fields = {}, query: Fields = {}) =>
  files.ask({ method: "GET", path, query, headers });
const ranges = (path: string, headers: Fields = {}, query: Fields = {}) =>
  get(path, headers, { comp: "rangelist", ...query });

async function file(size: number, content = ""): Promise<string> {
  const path = `/${await files.share()}/file`;
  answered(await files.ask(createFile(path, size)), 201);
  if (content !== "") answered(await files.ask(putRange(path, 0, content)), 201);
  return path;
}

const md5 = (bytes: Buffer | string) => createHash("md5").update(bytes).digest("base64");

suite("Put Range", () => {
  test("writes in place; what was never written is zero", async () => {
    const path = await file(2000);
    const reply = answered(await files.ask(putRange(path, 100, "hello")), 201);
    assert.match(String(reply.headers["x-ms-file-last-write-time"]), /^\d{4}-.*\.\d{7}Z$/);
    answered(await files.ask(putRange(path, 103, "LO there")), 201);
    const { body } = await get(path);
    assert.equal(body.length, 2000);
    assert.equal(body.subarray(100, 111).toString(), "helLO there");
    assert.ok(body.subarray(0, 100).every((byte) => byte === 0));
  });

  test("changes the ETag, and the time of the last write unless that is kept", async () => {
    const path = await file(10);
    const before = (await files.ask({ method: "HEAD", path })).headers;
    const kept = answered(
      await files.ask(putRange(path, 0, "a", { "x-ms-file-last-write-time": "preserve" })),
      201,
    );
    assert.equal(kept.headers["x-ms-file-last-write-time"], before["x-ms-file-last-write-time"]);
    assert.notEqual(kept.headers.etag, before.etag);
    const now = answered(await files.ask(putRange(path, 0, "b")), 201);
    assert.notEqual(now.headers["x-ms-file-last-write-time"], before["x-ms-file-last-write-time"]);
  });

  test("checks sums", async () => {
    const path = await file(10);
    const right = answered(
      await files.ask(putRange(path, 0, "abc", { "content-md5": md5("abc") })),
      201,
    );
    assert.equal(right.headers["content-md5"], md5("abc"));
    const wrong = putRange(path, 0, "abd", { "content-md5": md5("abc") });
    answered(await files.ask(wrong), 400, "Md5Mismatch");
    assert.equal((await get(path)).text.slice(0, 3), "abc");
  });

  test("tells the sum of what was written, though none was sent", async () => {
    const path = await file(MIB);
    for (const body of [Buffer.from("abc"), randomBytes(MIB)]) {
      const { headers } = answered(await files.ask(putRange(path, 0, body)), 201);
      assert.equal(headers["content-md5"], md5(body));
    }
    assert.equal((await files.ask(clearRange(path, 0, 511))).headers["content-md5"], undefined);
    const whole = await files.ask({ ...createFile(path, 10), body: "abc" });
    assert.equal(answered(whole, 201).headers["content-md5"], md5("abc"));
    const empty = await files.ask(createFile(path, 10));
    assert.equal(answered(empty, 201).headers["content-md5"], undefined);
  });

  test("takes 4 MiB through the SDK, and reads them back", async () => {
    const share = files.service.getShareClient(await files.share());
    const client = share.rootDirectoryClient.getFileClient("big");
    const content = randomBytes(9 * MIB + 123);
    await client.uploadData(content, { rangeSize: 4 * MIB });
    assert.equal((await client.downloadToBuffer()).compare(content), 0);
    const part = await client.downloadToBuffer(5 * MIB - 1, 1000);
    assert.equal(part.compare(content.subarray(5 * MIB - 1, 5 * MIB + 999)), 0);
  });

  test("takes and gives structured messages, which carry sums of their own", async () => {
    const share = files.service.getShareClient(await files.share());
    const client = share.rootDirectoryClient.getFileClient("summed");
    const content = randomBytes(100_000);
    await client.create(content.length);
    const contentChecksumAlgorithm = "StorageCrc64";
    await client.uploadRange(content, 0, content.length, { contentChecksumAlgorithm });
    const got = await client.downloadToBuffer(0, content.length, { contentChecksumAlgorithm });
    assert.equal(got.compare(content), 0);
  });

  test("what does not fit is refused", async () => {
    const path = await file(10);
    answered(await files.ask(putRange(path, 8, "abc")), 416, "InvalidRange");
    const put = (headers: Fields, body = "abc") =>
      files.ask({ method: "PUT", path, query: { comp: "range" }, headers, body });
    const update = { "x-ms-write": "update" };
    answered(await put(update), 400, "MissingRequiredHeader");
    answered(await put({ ...update, "x-ms-range": "bytes=0-" }), 400, "InvalidHeaderValue");
    answered(await put({ ...update, "x-ms-range": "bytes=0-3" }), 400, "InvalidHeaderValue");
    answered(await put({ "x-ms-range": "bytes=0-2" }), 400, "MissingRequiredHeader");
    answered(
      await put({ "x-ms-write": "append", "x-ms-range": "bytes=0-2" }),
      400,
      "InvalidHeaderValue",
    );
    const huge = await files.ask({
      ...putRange(path, 0, Buffer.alloc(4 * MIB + 1)),
    });
    answered(huge, 413, "RequestBodyTooLarge");
    assert.match(huge.text, /<MaxLimit>4194304<\/MaxLimit>/);
    answered(await files.ask(putRange(`${path}-no`, 0, "a")), 404, "ResourceNotFound");
  });

  test("clears: whole pages become holes, the rest zeros", async () => {
    const path = await file(4096, "x".repeat(4096));
    answered(await files.ask(clearRange(path, 500, 2600)), 201);
    const { text } = await get(path);
    assert.equal(text, "x".repeat(500) + "\0".repeat(2101) + "x".repeat(1495));
    assert.deepEqual(rangesIn((await ranges(path)).text), [
      [0, 511],
      [2560, 4095],
    ]);
    const withSum = clearRange(path, 0, 511);
    const headers = { ...withSum.headers, "content-md5": md5("") };
    answered(await files.ask({ ...withSum, headers }), 400, "InvalidHeaderValue");
    answered(await files.ask({ ...withSum, body: "abc" }), 400, "InvalidHeaderValue");
    answered(await files.ask(clearRange(path, 4000, 4096)), 416, "InvalidRange");
  });

  test("a file of 4 TiB costs what is written", async () => {
    const path = await file(4 * TIB);
    answered(await files.ask(putRange(path, 4 * TIB - 3, "end")), 201);
    answered(await files.ask(putRange(path, TIB, "middle")), 201);
    const tail = await get(path, { "x-ms-range": `bytes=${4 * TIB - 5}-` });
    answered(tail, 206);
    assert.equal(tail.text, "\0\0end");
    assert.deepEqual(rangesIn((await ranges(path)).text), [
      [TIB, TIB + 5],
      [4 * TIB - 3, 4 * TIB - 1],
    ]);
    answered(await files.ask(createFile(`${path}2`, 4 * TIB + 1)), 400, "InvalidHeaderValue");
  });
});

suite("Get File", () => {
  test("whole, by range, and with the sum of a range", async () => {
    const path = await file(10, "0123456789");
    const whole = answered(await get(path), 200);
    assert.equal(whole.text, "0123456789");
    assert.equal(whole.headers["accept-ranges"], "bytes");
    const part = answered(await get(path, { range: "bytes=2-4" }), 206);
    assert.equal(part.text, "234");
    assert.equal(part.headers["content-range"], "bytes 2-4/10");
    const both = answered(await get(path, { range: "bytes=0-0", "x-ms-range": "bytes=8-20" }), 206);
    assert.equal(both.text, "89");
    const sum = { "x-ms-range": "bytes=2-4", "x-ms-range-get-content-md5": "true" };
    assert.equal((await get(path, sum)).headers["content-md5"], md5("234"));
    answered(await get(path, { "x-ms-range-get-content-md5": "true" }), 400, "InvalidHeaderValue");
    answered(await get(path, { "x-ms-range": "bytes=10-" }), 416, "InvalidRange");
    const empty = answered(await get(await file(0, ""), { range: "bytes=0-0" }), 200);
    assert.equal(empty.headers["content-range"], undefined);
  });

  test("a stored sum is given with the whole, and apart from a range", async () => {
    const path = `/${await files.share()}/file`;
    const stored = md5("whatever");
    await files.ask(createFile(path, 3, { "x-ms-content-md5": stored }));
    assert.equal((await get(path)).headers["content-md5"], stored);
    const part = await get(path, { "x-ms-range": "bytes=0-1" });
    assert.equal(part.headers["content-md5"], undefined);
    assert.equal(part.headers["x-ms-content-md5"], stored);
  });

  test("a download that is overtaken ends with the bytes it began with", async () => {
    const path = await file(8 * MIB);
    const old = randomBytes(4 * MIB);
    await files.ask(putRange(path, 0, old));
    await files.ask(putRange(path, 4 * MIB, old));
    const reading = get(path);
    const later = Buffer.alloc(4 * MIB, 1);
    const writing = files.ask(putRange(path, 4 * MIB, later));
    const { body, headers } = await reading;
    answered(await writing, 201);
    const isOld = body.subarray(4 * MIB).compare(old) === 0;
    assert.ok(isOld || body.subarray(4 * MIB).compare(later) === 0, "one of the two, whole");
    const now = await files.ask({ method: "HEAD", path });
    assert.equal(headers.etag === now.headers.etag, !isOld, "the ETag is that of the bytes");
  });
});

suite("List Ranges", () => {
  test("joined, within a range, and none of an empty file", async () => {
    const path = await file(10_000);
    await files.ask(putRange(path, 0, "a".repeat(512)));
    await files.ask(putRange(path, 512, "b".repeat(512)));
    await files.ask(putRange(path, 5120, "c".repeat(512)));
    const all = answered(await ranges(path), 200);
    assert.equal(all.headers["x-ms-content-length"], "10000");
    assert.deepEqual(rangesIn(all.text), [
      [0, 1023],
      [5120, 5631],
    ]);
    const some = await ranges(path, { "x-ms-range": "bytes=1000-5200" });
    assert.deepEqual(rangesIn(some.text), [
      [1000, 1023],
      [5120, 5200],
    ]);
    assert.deepEqual(rangesIn((await ranges(await file(0))).text), []);
  });

  test("what differs since a snapshot, by write or clear, between snapshots too", async () => {
    const path = await file(4096, "x".repeat(2048));
    const [, share = ""] = path.split("/");
    const take = async () => {
      const query = onShare("snapshot");
      const reply = answered(await files.ask({ method: "PUT", path: `/${share}`, query }), 201);
      return String(reply.headers["x-ms-snapshot"]);
    };
    const first = await take();
    await files.ask(putRange(path, 512, "y".repeat(512)));
    await files.ask(clearRange(path, 1024, 1535));
    const second = await take();
    await files.ask(putRange(path, 3072, "z".repeat(10)));

    const since = async (prevsharesnapshot: string, query: Fields = {}, headers: Fields = {}) =>
      ranges(path, headers, { prevsharesnapshot, ...query });
    const all = answered(await since(first), 200);
    assert.deepEqual(rangesIn(all.text), [
      [512, 1023],
      [3072, 3081],
    ]);
    assert.deepEqual(rangesIn(all.text, "ClearRange"), [[1024, 1535]]);
    assert.deepEqual(rangesIn((await since(second)).text), [[3072, 3081]]);
    const between = await since(first, { sharesnapshot: second });
    assert.deepEqual(rangesIn(between.text), [[512, 1023]]);
    const client = files.service.getShareClient(share).rootDirectoryClient.getFileClient("file");
    const diff = await client.getRangeListDiff(first);
    assert.deepEqual(diff.ranges, [
      { start: 512, end: 1023 },
      { start: 3072, end: 3081 },
    ]);

    const never = "2020-01-01T00:00:00.0000000Z";
    answered(await since(never), 409, "PreviousSnapshotNotFound");
    answered(await since(second, { sharesnapshot: first }), 400, "InvalidQueryParameterValue");
    answered(await files.ask(rename(files.server, { from: path, to: `${path}2` })), 200);
    const moved = (headers: Fields) => ranges(`${path}2`, headers, { prevsharesnapshot: second });
    answered(await moved({}), 404, "ResourceNotFound");
    const followed = answered(await moved({ "x-ms-file-support-rename": "true" }), 200);
    assert.deepEqual(rangesIn(followed.text), [[3072, 3081]]);
    await files.ask(rename(files.server, { from: `${path}2`, to: path }));
    answered(await files.ask(createFile(path, 4096)), 201);
    answered(await since(second), 409, "FileGenerationMismatch");
  });
});

suite("Lease File", () => {
  const id = "aaaaaaaa-1111-2222-3333-444444444444";
  const other = "bbbbbbbb-1111-2222-3333-444444444444";
  const mine = { "x-ms-lease-id": id };
  const acquire = (path: string, headers: Fields = {}) =>
    files.ask(lease("acquire", path, { "x-ms-lease-duration": "-1", ...headers }));

  test("through the SDK: acquire, change, release, break", async () => {
    const share = files.service.getShareClient(await files.share());
    const client = share.rootDirectoryClient.getFileClient("file");
    await client.create(3);
    const { etag } = await client.getProperties();
    const held = client.getShareLeaseClient(id);
    assert.equal((await held.acquireLease()).leaseId, id);
    assert.equal((await held.changeLease(other)).leaseId, other);
    const properties = await client.getProperties();
    assert.deepEqual(
      [properties.leaseState, properties.leaseStatus, properties.leaseDuration],
      ["leased", "locked", "infinite"],
    );
    assert.equal(properties.etag, etag, "a lease changes nothing else");
    await held.releaseLease();
    await held.acquireLease();
    await held.breakLease();
    assert.equal((await client.getProperties()).leaseState, "broken");
    await client.uploadRange("abc", 0, 3);
    assert.equal((await client.getProperties()).leaseState, "available");
  });

  const uses: [name: string, use: (path: string, headers: Fields) => Promise<RawReply>][] = [
    ["Create File", (path, headers) => files.ask(createFile(path, 5, headers))],
    ["Put Range", (path, headers) => files.ask(putRange(path, 0, "a", headers))],
    [
      "Set File Metadata",
      (path, headers) => files.ask({ method: "PUT", path, query: { comp: "metadata" }, headers }),
    ],
    [
      "Set File Properties",
      (path, headers) => files.ask({ method: "PUT", path, query: { comp: "properties" }, headers }),
    ],
    [
      "Copy File",
      (path, headers) => {
        const source = { "x-ms-copy-source": `${files.server.url}${path}` };
        return files.ask({ method: "PUT", path, headers: { ...source, ...headers } });
      },
    ],
    ["Delete File", (path, headers) => files.ask({ method: "DELETE", path, headers })],
  ];
  for (const [name, use] of uses) {
    test(`${name} needs the id of a lease, and the right one`, async () => {
      const path = await file(5);
      answered(await use(path, mine), 412, "LeaseNotPresentWithFileOperation");
      answered(await acquire(path, { "x-ms-proposed-lease-id": id }), 201);
      answered(await use(path, {}), 412, "LeaseIdMissing");
      answered(
        await use(path, { "x-ms-lease-id": other }),
        412,
        "LeaseIdMismatchWithFileOperation",
      );
      assert.ok((await use(path, mine)).status < 300);
      if (name === "Delete File") return;
      const { headers } = await files.ask({ method: "HEAD", path });
      assert.equal(headers["x-ms-lease-state"], "leased", "the lease is kept");
      answered(await files.ask(lease("break", path)), 202);
      answered(await use(path, mine), 412, "LeaseLost");
      assert.ok((await use(path, {})).status < 300);
    });
  }

  test("reads need none, but a wrong one is refused", async () => {
    const path = await file(5);
    answered(await acquire(path, { "x-ms-proposed-lease-id": id }), 201);
    answered(await get(path), 200);
    answered(await get(path, mine), 200);
    const wrong = { "x-ms-lease-id": other };
    answered(await get(path, wrong), 412, "LeaseIdMismatchWithFileOperation");
    answered(await ranges(path, wrong), 412, "LeaseIdMismatchWithFileOperation");
  });

  test("has no end, is not renewed, and is broken at once", async () => {
    const path = await file(5);
    const timed = lease("acquire", path, { "x-ms-lease-duration": "15" });
    answered(await files.ask(timed), 400, "InvalidHeaderValue");
    answered(await files.ask(lease("acquire", path)), 400, "MissingRequiredHeader");
    answered(await acquire(path, { "x-ms-proposed-lease-id": id }), 201);
    answered(await acquire(path, { "x-ms-proposed-lease-id": other }), 409, "LeaseAlreadyPresent");
    answered(await files.ask(lease("renew", path, mine)), 400, "InvalidHeaderValue");
    const slowly = lease("break", path, { "x-ms-lease-break-period": "5" });
    answered(await files.ask(slowly), 400, "UnsupportedHeader");
    const theirs = lease("break", path, { "x-ms-lease-id": other });
    answered(await files.ask(theirs), 409, "LeaseIdMismatchWithLeaseOperation");
    const broken = answered(await files.ask(lease("break", path)), 202);
    assert.equal(broken.headers["x-ms-lease-time"], "0");
    answered(await files.ask(lease("release", path, mine)), 200);
    const none = [409, "LeaseNotPresentWithLeaseOperation"] as const;
    answered(await files.ask(lease("break", path)), ...none);
    const change = { ...mine, "x-ms-proposed-lease-id": other };
    answered(await files.ask(lease("change", path, change)), ...none);
  });

  test("a file in a snapshot has none", async () => {
    const path = await file(5);
    answered(await acquire(path), 201);
    const [, share = ""] = path.split("/");
    const query = onShare("snapshot");
    const taken = await files.ask({ method: "PUT", path: `/${share}`, query });
    const sharesnapshot = String(taken.headers["x-ms-snapshot"]);
    const then = await get(path, {}, { sharesnapshot });
    assert.equal(then.headers["x-ms-lease-state"], undefined);
    const request = lease("acquire", path, { "x-ms-lease-duration": "-1" });
    const onSnapshot = { ...request, query: { comp: "lease", sharesnapshot } };
    answered(await files.ask(onSnapshot), 400, "InvalidQueryParameterValue");
  });
});

suite("Copy File, Abort Copy File", () => {
  const urlOf = (path: string) => `${files.server.url}${path}`;
  const copy = (path: string, source: string, headers: Fields = {}) =>
    files.ask({ method: "PUT", path, headers: { "x-ms-copy-source": source, ...headers } });

  /** Waits until a copy has ended, and gives what the file then tells. */
  async function ended(path: string) {
    for (;;) {
      const { headers } = await files.ask({ method: "HEAD", path });
      if (headers["x-ms-copy-status"] !== "pending") return headers;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  test("within the account: content, properties and metadata, and neither changes the other", async () => {
    const share = files.service.getShareClient(await files.share());
    const from = share.rootDirectoryClient.getFileClient("from");
    await from.create(5, {
      metadata: { a: "1" },
      fileHttpHeaders: { fileContentType: "text/css" },
    });
    await from.uploadRange("hello", 0, 5);
    const to = files.service
      .getShareClient(await files.share())
      .rootDirectoryClient.getFileClient("to");
    const started = await to.startCopyFromURL(from.url);
    assert.equal(started.copyStatus, "success");
    await from.uploadRange("HELLO", 0, 5);
    await to.uploadRange("J", 0, 1);
    assert.equal(String(await to.downloadToBuffer()), "Jello");
    assert.equal(String(await from.downloadToBuffer()), "HELLO");
    const got = await to.getProperties();
    assert.deepEqual([got.contentType, got.metadata?.a], ["text/css", "1"]);
    assert.deepEqual([got.copyId, got.copyProgress], [started.copyId, "5/5"]);
    assert.equal(got.copySource, from.url);
    await assert.rejects(to.abortCopyFromURL(started.copyId ?? ""), {
      code: "NoPendingCopyOperation",
    });
  });

  test("properties are the source's where that is asked for", async () => {
    const path = await file(1);
    const created = "2001-02-03T04:05:06.0000007Z";
    const sddl = "O:SYG:SYD:(A;;FA;;;SY)";
    const from = createFile(path, 1, {
      "x-ms-file-attributes": "Hidden",
      "x-ms-file-creation-time": created,
      "x-ms-file-permission": sddl,
    });
    const made = await files.ask(from);
    const taken = {
      "x-ms-file-attributes": "source",
      "x-ms-file-creation-time": "source",
      "x-ms-file-permission-copy-mode": "source",
      "x-ms-file-copy-set-archive": "true",
      "x-ms-meta-own": "1",
    };
    answered(await copy(`${path}2`, urlOf(path), taken), 202);
    const { headers } = await files.ask({ method: "HEAD", path: `${path}2` });
    assert.equal(headers["x-ms-file-attributes"], "Hidden | Archive");
    assert.equal(headers["x-ms-file-creation-time"], created);
    const key = "x-ms-file-permission-key";
    assert.equal(headers[key], made.headers[key]);
    assert.equal(headers["x-ms-meta-own"], "1");
    answered(await copy(`${path}3`, urlOf(path)), 202);
    const plain = (await files.ask({ method: "HEAD", path: `${path}3` })).headers;
    assert.equal(plain["x-ms-file-attributes"], "Archive");
    assert.notEqual(plain["x-ms-file-creation-time"], created);
  });

  test("from a snapshot, and over a read-only file if that is ignored", async () => {
    const path = await file(3, "old");
    const [, share = ""] = path.split("/");
    const query = onShare("snapshot");
    const taken = await files.ask({ method: "PUT", path: `/${share}`, query });
    const readOnly = { "x-ms-file-attributes": "ReadOnly" };
    answered(await files.ask(createFile(path, 3, readOnly)), 201);
    const source = `${urlOf(path)}?sharesnapshot=${String(taken.headers["x-ms-snapshot"])}`;
    answered(await copy(path, source), 409, "ReadOnlyAttribute");
    answered(await copy(path, source, { "x-ms-file-copy-ignore-readonly": "true" }), 202);
    assert.equal((await get(path)).text, "old");
  });

  test("from a blob, in the background", async () => {
    const blobs = BlobServiceClient.fromConnectionString(files.server.connectionString);
    const container = blobs.getContainerClient("copies");
    await container.createIfNotExists();
    const blob = container.getBlockBlobClient("source");
    const content = randomBytes(3 * MIB + 17);
    await blob.upload(content, content.length, { metadata: { from: "blob" } });
    const path = `/${await files.share()}/copied`;
    const started = answered(await copy(path, blob.url), 202);
    assert.equal(started.headers["x-ms-copy-status"], "pending");
    const headers = await ended(path);
    assert.equal(headers["x-ms-copy-status"], "success", JSON.stringify(headers));
    assert.equal(headers["x-ms-meta-from"], "blob");
    assert.equal((await get(path)).body.compare(content), 0);
    assert.equal(
      (await send(serverAt(files.server, "blob"), { method: "GET", path: "/copies/source" }))
        .status,
      200,
    );
  });

  test("from a source that hangs: pending, then aborted, and it can be copied again", async () => {
    const slow = createServer((request, reply) => {
      reply.writeHead(200, { "Content-Length": "1000", ETag: '"1"' });
      if (request.method === "HEAD") reply.end();
      else reply.write("begun");
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => slow.once("listening", resolve));
    try {
      const source = `http://127.0.0.1:${(slow.address() as AddressInfo).port}/file`;
      const path = `/${await files.share()}/slow`;
      const started = answered(await copy(path, source), 202);
      const id = String(started.headers["x-ms-copy-id"]);
      const { headers } = await files.ask({ method: "HEAD", path });
      assert.equal(headers["x-ms-copy-status"], "pending");
      const pending = [409, "PendingCopyOperation"] as const;
      answered(await files.ask(putRange(path, 0, "a")), ...pending);
      answered(await files.ask({ method: "DELETE", path }), ...pending);
      answered(await copy(path, source), ...pending);
      const abort = (copyid: string) =>
        files.ask({
          method: "PUT",
          path,
          query: { comp: "copy", copyid },
          headers: { "x-ms-copy-action": "abort" },
        });
      answered(await abort("other"), 409, "CopyIdMismatch");
      answered(await abort(id), 204);
      answered(await abort(id), 409, "NoPendingCopyOperation");
      const aborted = await files.ask({ method: "HEAD", path });
      assert.equal(aborted.headers["x-ms-copy-status"], "aborted");
      assert.equal(aborted.headers["content-length"], "0");
      answered(await files.ask({ method: "DELETE", path }), 202);
    } finally {
      slow.closeAllConnections();
      slow.close();
    }
  });

  test("what cannot be read is not copied", async () => {
    const path = await file(1);
    const to = `${path}2`;
    answered(await copy(to, `${urlOf(path)}-no`), 404, "ResourceNotFound");
    answered(await copy(to, "nowhere"), 400, "InvalidHeaderValue");
    const elsewhere = await copy(to, "http://192.0.2.1/file");
    assert.deepEqual([elsewhere.status, elsewhere.code], [403, "CannotVerifyCopySource"]);
    answered(await files.ask({ method: "HEAD", path: to }), 404, "ResourceNotFound");
  });
});

suite("Put Range From URL", () => {
  test("copies a range of a file, and checks its sum", async () => {
    const path = await file(100, "0123456789");
    const url = `${files.server.url}${path}`;
    const to = `${path}2`;
    await files.ask(createFile(to, 20));
    const put = (headers: Fields) =>
      files.ask({
        method: "PUT",
        path: to,
        query: { comp: "range" },
        headers: { "x-ms-write": "update", "x-ms-copy-source": url, ...headers },
      });
    const range = { "x-ms-range": "bytes=5-7", "x-ms-source-range": "bytes=2-4" };
    const done = answered(await put(range), 201);
    assert.equal((await get(to)).text.slice(5, 8), "234");
    const sum = String(done.headers["x-ms-content-crc64"]);
    answered(await put({ ...range, "x-ms-source-content-crc64": sum }), 201);
    answered(await put({ ...range, "x-ms-source-if-match-crc64": sum }), 201);
    const other = "AAAAAAAAAAA=";
    const not = [412, "SourceConditionNotMet"] as const;
    answered(await put({ ...range, "x-ms-source-if-match-crc64": other }), ...not);
    answered(await put({ ...range, "x-ms-source-if-none-match-crc64": sum }), ...not);
    answered(await put({ ...range, "x-ms-source-content-crc64": other }), 400, "Crc64Mismatch");
    answered(await put({ ...range, "x-ms-source-range": "bytes=2-5" }), 400, "InvalidHeaderValue");
    answered(await put({ ...range, "x-ms-range": "bytes=18-20" }), 416, "InvalidRange");
    const share = files.service.getShareClient(path.split("/")[1] ?? "");
    const client = share.rootDirectoryClient.getFileClient("file2");
    await client.uploadRangeFromURL(url, 0, 0, 5);
    assert.equal((await get(to)).text.slice(0, 8), "01234234");
  });
});
