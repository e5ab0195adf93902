import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { after, before, test } from "node:test";
import { type RawReply, type RawRequest, send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";
import { open } from "./wire.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const WRITERS = 16;
const RACERS = 32;
const ROUNDS_PER_WRITER = 10;

let server: TestServer;
let container: string;

before(async () => {
  server = await startServer();
  container = `concurrency-${process.pid}-${randomBytes(4).toString("hex")}`;
  const query = { restype: "container" };
  await expect(201, { method: "PUT", path: `/${container}`, query });
});

after(async () => {
  await server.stop();
});

test("If-Match on Put Blob: 16 writers count as far as they were acknowledged", async () => {
  const path = blobPath("counter-put-blob");
  await countTogether(path, (value, etag) => putBlob(path, value, { "if-match": etag }));
});

test("If-Match on Put Block List: 16 writers count as far as they were acknowledged", async () => {
  const path = blobPath("counter-put-block-list");
  await countTogether(path, async (value, etag, writer) => {
    const id = blockId(writer);
    await putBlock(path, id, Buffer.from(value));
    return putBlockList(path, [id], { "if-match": etag });
  });
});

test("If-None-Match: * on Put Blob: of 32 creators of a name exactly one wins", async () => {
  for (let round = 0; round < 20; round++) {
    const path = blobPath(`create-only-${round}`);
    // Every second round is too large for a row beside the record.
    const size = round % 2 === 0 ? 16 : 100 * KIB;
    const bodies = range(RACERS).map((racer) => Buffer.alloc(size, `racer ${racer};`));
    const replies = await Promise.all(
      bodies.map((body) => putBlob(path, body, { "if-none-match": "*" })),
    );
    const winner = onlyWinner(replies, "BlobAlreadyExists");
    const found = await expect(200, { method: "GET", path });
    assert.deepEqual(found.body, bodies[winner], "the content is the winner's");
    assert.equal(found.headers.etag, replies[winner]?.headers.etag);
  }
});

test("Lease Blob: of 32 that acquire exactly one gets the lease", async () => {
  for (let round = 0; round < 10; round++) {
    const path = blobPath(`lease-${round}`);
    assert.equal((await putBlob(path, "leased")).status, 201);
    await raceForLease(path, { comp: "lease" });
  }
});

test("Lease Container: of 32 that acquire exactly one gets the lease", async () => {
  const path = `/${container}-leased`;
  await expect(201, { method: "PUT", path, query: { restype: "container" } });
  await raceForLease(path, { comp: "lease", restype: "container" });
});

const shapes: [what: string, blockSize: number, blockCount: number][] = [
  ["64 MiB in 8 blocks", 8 * MIB, 8],
  ["1,000 blocks of 8 KiB", 8 * KIB, 1000],
];
for (const [what, blockSize, blockCount] of shapes) {
  test(`Get Blob: a slow download of ${what} is not touched by an overwrite`, async () => {
    const path = blobPath(`overwritten-${blockCount}`);
    const before = await uploadBlocks(path, blockSize, blockCount);
    const slow = await startSlowly(path);
    const overwrite = await putBlob(path, "the next version");
    assert.equal(overwrite.status, 201);
    // What the old version leaves free must not be written over while it is read.
    await uploadBlocks(`${path}-other`, blockSize, blockCount);
    await finishWhole(slow, before);
    const next = await expect(200, { method: "GET", path });
    assert.equal(next.text, "the next version");
    assert.equal(next.headers.etag, overwrite.headers.etag);
  });

  test(`Get Blob: a slow download of ${what} is not touched by a delete`, async () => {
    const path = blobPath(`deleted-${blockCount}`);
    const before = await uploadBlocks(path, blockSize, blockCount);
    const slow = await startSlowly(path);
    await expect(202, { method: "DELETE", path });
    await uploadBlocks(`${path}-other`, blockSize, blockCount);
    await finishWhole(slow, before);
    assert.equal((await request({ method: "GET", path })).code, "BlobNotFound");
  });
}

test("List Blobs: no item is torn, none is missed and none comes twice while writers write", async () => {
  const prefix = "listed/";
  const name = (index: number) => `${prefix}${String(index).padStart(3, "0")}`;
  // Even names are always there; odd ones come and go, so that pages begin and end elsewhere.
  const names = range(60).map(name);
  const lasting = names.filter((_, index) => index % 2 === 0);
  const sizeOf = new Map<string, number>();
  const write = async (blob: string, size: number) => {
    const headers = { "x-ms-meta-n": String(size) };
    const reply = await putBlob(blobPath(blob), listedContent(size), headers);
    assert.equal(reply.status, 201, reply.text);
    sizeOf.set(`${blob} ${bare(reply.headers.etag)}`, size);
  };
  await Promise.all(lasting.map((blob, index) => write(blob, index)));

  const listed: ListedBlob[] = [];
  let listings = 0;
  const until = Date.now() + 3000;
  const running = () => Date.now() < until;
  const writer = async (share: number) => {
    for (let turn = 0; running(); turn++) {
      const index = (turn * 4 + share) % names.length;
      const blob = names[index] ?? "";
      await write(blob, 1 + ((turn * 37 + share) % 2000));
      if (index % 2 === 1) {
        await expect(202, { method: "DELETE", path: blobPath(blob) });
      }
    }
  };
  const lister = async (pageSize: number) => {
    while (running()) {
      const items = await listAll(prefix, pageSize);
      const found = items.map((item) => item.name);
      assert.deepEqual(found, [...found].sort(), "pages are in order");
      assert.equal(new Set(found).size, found.length, "no name comes twice");
      assert.deepEqual(
        found.filter((blob) => lasting.includes(blob)),
        lasting,
        "what is there throughout is listed",
      );
      listed.push(...items);
      listings++;
    }
  };
  await Promise.all([...range(4).map(writer), lister(7), lister(1000)]);

  assert.ok(listings >= 4, `only ${listings} listings in 3 s`);
  for (const item of listed) {
    const told = `${item.name} ${item.etag}: length ${item.length}, metadata n ${item.n}`;
    assert.equal(item.n, item.length, told);
    assert.equal(item.md5, base64Md5(listedContent(item.length)), told);
    // A write may be listed before its writer hears of it, but here all have been answered.
    assert.equal(sizeOf.get(`${item.name} ${item.etag}`), item.length, told);
  }
});

test("Get Blob: body, headers and metadata are one version, and never an old one", async () => {
  const until = Date.now() + 3000;
  const blobs = [
    new StampedBlob(blobPath("stamped-row"), 1 * KIB, "blob"),
    new StampedBlob(blobPath("stamped-file"), 200 * KIB, "blob"),
    new StampedBlob(blobPath("stamped-blocks"), 150 * KIB, "blocks"),
  ];
  await Promise.all(blobs.map((blob) => blob.write()));
  const work = blobs.flatMap((blob) => {
    const loop = async (step: () => Promise<void>) => {
      while (Date.now() < until) await step();
    };
    return [
      loop(() => blob.write()),
      loop(() => blob.readWhole()),
      loop(() => blob.readWhole()),
      loop(() => blob.readRange()),
    ];
  });
  await Promise.all(work);
  for (const blob of blobs) {
    assert.ok(blob.acknowledged > 5, `${blob.path} was written ${blob.acknowledged} times only`);
  }
});

test("Put Blob: many writers of one name leave one of their versions, whole", async () => {
  const path = blobPath("last-writer-wins");
  const tags = new Map<string, string>();
  await Promise.all(
    range(WRITERS).map(async (writer) => {
      for (let turn = 0; turn < 8; turn++) {
        const body = Buffer.alloc(100 + 12_000 * ((writer + turn) % 8), `${writer}/${turn};`);
        const md5 = base64Md5(body);
        const reply = await putBlob(path, body, { "x-ms-meta-md5": md5 });
        assert.equal(reply.status, 201, reply.text);
        const etag = String(reply.headers.etag);
        assert.ok(!tags.has(etag), `the ETag ${etag} came twice`);
        tags.set(etag, md5);
        const found = await expect(200, { method: "GET", path });
        assert.equal(base64Md5(found.body), found.headers["content-md5"]);
        assert.equal(base64Md5(found.body), found.headers["x-ms-meta-md5"]);
        assert.equal(found.body.length, Number(found.headers["content-length"]));
      }
    }),
  );
  const last = await expect(200, { method: "GET", path });
  assert.equal(tags.get(String(last.headers.etag)), base64Md5(last.body));
});

test("Put Block: blocks sent at the same time are all there for Put Block List", async () => {
  const path = blobPath("blocks-together");
  const blocks = range(64).map((index) => ({
    id: blockId(index),
    data: randomBytes(index % 4 === 0 ? 90 * KIB : 3 * KIB + index),
  }));
  const order = [...blocks].sort((one, other) => one.data.compare(other.data));
  await Promise.all(order.map(({ id, data }) => putBlock(path, id, data)));

  const query = { comp: "blocklist", blocklisttype: "uncommitted" };
  const staged = await expect(200, { method: "GET", path, query });
  const names = [...staged.text.matchAll(/<Name>([^<]*)<\/Name>/g)].map((match) => match[1]);
  assert.deepEqual(new Set(names), new Set(blocks.map((block) => block.id)));
  assert.equal(
    (await request({ method: "GET", path })).status,
    404,
    "not a blob before the commit",
  );

  const ids = blocks.map((block) => block.id);
  assert.equal((await putBlockList(path, ids)).status, 201);
  const found = await expect(200, { method: "GET", path });
  assert.equal(found.body.compare(Buffer.concat(blocks.map((block) => block.data))), 0);
});

// The parts the tests above are made of.

const range = (count: number) => Array.from({ length: count }, (_, index) => index);
const blobPath = (name: string) => `/${container}/${name}`;
const blockId = (index: number) => Buffer.from(String(index).padStart(6, "0")).toString("base64");
const base64Md5 = (data: Uint8Array) => createHash("md5").update(data).digest("base64");
const bare = (etag: string | undefined) => String(etag).replaceAll(/"|&quot;/g, "");

const request = (raw: RawRequest) => send(server, raw);

async function expect(status: number, raw: RawRequest): Promise<RawReply> {
  const reply = await request(raw);
  assert.equal(reply.status, status, `${raw.method} ${raw.path}: ${reply.status} ${reply.text}`);
  return reply;
}

function putBlob(path: string, body: Buffer | string, headers: Record<string, string> = {}) {
  const type = { "x-ms-blob-type": "BlockBlob" };
  return request({ method: "PUT", path, headers: { ...type, ...headers }, body });
}

const putBlock = (path: string, blockid: string, body: Buffer) =>
  expect(201, { method: "PUT", path, query: { comp: "block", blockid }, body });

function putBlockList(path: string, ids: string[], headers: Record<string, string> = {}) {
  const list = ids.map((id) => `<Latest>${id}</Latest>`).join("");
  const body = `<?xml version="1.0" encoding="utf-8"?><BlockList>${list}</BlockList>`;
  return request({ method: "PUT", path, query: { comp: "blocklist" }, headers, body });
}

/** Writers read the number with its ETag and write the next one if nobody was faster. */
async function countTogether(
  path: string,
  write: (value: string, etag: string, writer: number) => Promise<RawReply>,
): Promise<void> {
  assert.equal((await putBlob(path, "0")).status, 201);
  const acknowledged: number[] = [];
  const tags = new Set<string>();
  await Promise.all(
    range(WRITERS).map(async (writer) => {
      for (let done = 0; done < ROUNDS_PER_WRITER; ) {
        const found = await expect(200, { method: "GET", path });
        const next = Number(found.text) + 1;
        const reply = await write(String(next), String(found.headers.etag), writer);
        if (reply.status === 412) {
          assert.equal(reply.code, "ConditionNotMet");
          continue;
        }
        assert.equal(reply.status, 201, reply.text);
        acknowledged.push(next);
        tags.add(String(reply.headers.etag));
        done++;
      }
    }),
  );
  const total = WRITERS * ROUNDS_PER_WRITER;
  const last = await expect(200, { method: "GET", path });
  assert.equal(Number(last.text), total, "every acknowledged update counts");
  assert.equal(new Set(acknowledged).size, total, "no number was acknowledged twice");
  assert.equal(tags.size, total, "no ETag was given twice");
}

/** The index of the one that got 201; all others must have 409 with the code. */
function onlyWinner(replies: readonly RawReply[], code: string): number {
  const winners = replies.flatMap((reply, index) => (reply.status === 201 ? [index] : []));
  assert.equal(winners.length, 1, `${winners.length} of ${replies.length} won`);
  for (const reply of replies) {
    if (reply.status !== 201) assert.deepEqual([reply.status, reply.code], [409, code]);
  }
  return winners[0] ?? -1;
}

async function raceForLease(path: string, query: Record<string, string>): Promise<void> {
  const acquire = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
  const replies = await Promise.all(
    range(RACERS).map(() => request({ method: "PUT", path, query, headers: acquire })),
  );
  const id = String(replies[onlyWinner(replies, "LeaseAlreadyPresent")]?.headers["x-ms-lease-id"]);
  const release = { "x-ms-lease-action": "release", "x-ms-lease-id": id };
  await expect(200, { method: "PUT", path, query, headers: release });
}

type Version = { readonly etag: string; readonly size: number; readonly md5: string };

async function uploadBlocks(path: string, blockSize: number, count: number): Promise<Version> {
  const md5 = createHash("md5");
  const ids = range(count).map(blockId);
  const atOnce = blockSize > MIB ? 2 : 16;
  for (let first = 0; first < count; first += atOnce) {
    const batch = ids
      .slice(first, first + atOnce)
      .map((id) => ({ id, data: randomBytes(blockSize) }));
    for (const { data } of batch) md5.update(data);
    await Promise.all(batch.map(({ id, data }) => putBlock(path, id, data)));
  }
  const digest = md5.digest("base64");
  const reply = await putBlockList(path, ids, { "x-ms-blob-content-md5": digest });
  assert.equal(reply.status, 201, reply.text);
  return { etag: String(reply.headers.etag), size: blockSize * count, md5: digest };
}

type SlowDownload = { readonly reply: IncomingMessage; readonly first: Buffer };

/** Begins a download, takes the first bytes, and leaves the rest to wait in the server. */
async function startSlowly(path: string): Promise<SlowDownload> {
  const reply = await open(server, { method: "GET", path });
  const [first] = (await once(reply, "data")) as [Buffer];
  reply.pause();
  return { reply, first };
}

async function finishWhole({ reply, first }: SlowDownload, version: Version): Promise<void> {
  assert.ok(!reply.complete, "the download was over before the blob changed");
  const md5 = createHash("md5").update(first);
  let size = first.length;
  reply.on("data", (part: Buffer) => {
    md5.update(part);
    size += part.length;
  });
  const ended = once(reply, "end");
  reply.resume();
  await ended;
  assert.equal(reply.statusCode, 200);
  assert.equal(size, version.size);
  assert.equal(md5.digest("base64"), version.md5);
  assert.equal(reply.headers.etag, version.etag);
  assert.equal(Number(reply.headers["content-length"]), version.size);
  assert.equal(reply.headers["content-md5"], version.md5);
}

type ListedBlob = {
  readonly name: string;
  readonly etag: string;
  readonly length: number;
  readonly md5: string;
  readonly n: number;
};

const listedContent = (size: number) => Buffer.alloc(size, `${size};`);

async function listAll(prefix: string, pageSize: number): Promise<ListedBlob[]> {
  const items: ListedBlob[] = [];
  let marker = "";
  do {
    const query = {
      restype: "container",
      comp: "list",
      include: "metadata",
      prefix,
      maxresults: String(pageSize),
      ...(marker === "" ? {} : { marker }),
    };
    const page = await expect(200, { method: "GET", path: `/${container}`, query });
    for (const [, item = ""] of page.text.matchAll(/<Blob>(.*?)<\/Blob>/gs)) {
      const inside = (name: string) =>
        new RegExp(`<${name}>([^<]*)</${name}>`).exec(item)?.[1] ?? `no ${name}`;
      items.push({
        name: inside("Name"),
        etag: bare(inside("Etag")),
        length: Number(inside("Content-Length")),
        md5: inside("Content-MD5"),
        n: Number(inside("n")),
      });
    }
    marker = /<NextMarker>([^<]*)<\/NextMarker>/.exec(page.text)?.[1] ?? "";
  } while (marker !== "");
  return items;
}

const STAMP_SIZE = 16;

/** A blob of one writer whose every 16 bytes, metadata and MD5 tell which write they come from. */
class StampedBlob {
  readonly path: string;
  readonly #size: number;
  readonly #by: "blob" | "blocks";
  readonly #tags = new Map<string, number>();
  #sent = 0;
  acknowledged = 0;

  constructor(path: string, size: number, by: "blob" | "blocks") {
    this.path = path;
    this.#size = size;
    this.#by = by;
  }

  async write(): Promise<void> {
    const stamp = ++this.#sent;
    const body = this.#content(stamp);
    const headers = { "x-ms-meta-stamp": String(stamp), "x-ms-blob-content-md5": base64Md5(body) };
    let reply: RawReply;
    if (this.#by === "blob") {
      reply = await putBlob(this.path, body, headers);
    } else {
      const half = body.length / 2;
      const ids = [blockId(0), blockId(1)];
      await putBlock(this.path, ids[0] ?? "", body.subarray(0, half));
      await putBlock(this.path, ids[1] ?? "", body.subarray(half));
      reply = await putBlockList(this.path, ids, headers);
    }
    assert.equal(reply.status, 201, reply.text);
    this.acknowledged = stamp;
  }

  async readWhole(): Promise<void> {
    const oldest = this.acknowledged;
    const reply = await expect(200, { method: "GET", path: this.path });
    const stamp = this.#stampOf(reply, oldest);
    assert.equal(reply.body.compare(this.#content(stamp)), 0, `the body is not all of ${stamp}`);
    assert.equal(reply.headers["content-md5"], base64Md5(reply.body));
  }

  async readRange(): Promise<void> {
    const oldest = this.acknowledged;
    const first = Math.floor(this.#size / 4);
    const last = first + Math.floor(this.#size / 2);
    const headers = { "x-ms-range": `bytes=${first}-${last}` };
    const reply = await expect(206, { method: "GET", path: this.path, headers });
    const stamp = this.#stampOf(reply, oldest);
    const want = this.#content(stamp).subarray(first, last + 1);
    assert.equal(reply.body.compare(want), 0, `the range is not all of ${stamp}`);
    assert.equal(reply.headers["x-ms-blob-content-md5"], base64Md5(this.#content(stamp)));
  }

  /** The stamp in the metadata; it must not be older than what was acknowledged before the read. */
  #stampOf(reply: RawReply, oldest: number): number {
    const stamp = Number(reply.headers["x-ms-meta-stamp"]);
    assert.ok(stamp >= oldest, `${this.path}: read ${stamp} after ${oldest} was acknowledged`);
    assert.ok(stamp <= this.#sent, `${this.path}: read ${stamp}, only ${this.#sent} were sent`);
    const etag = String(reply.headers.etag);
    assert.equal(this.#tags.get(etag) ?? stamp, stamp, `${etag} belongs to another write`);
    this.#tags.set(etag, stamp);
    return stamp;
  }

  #content(stamp: number): Buffer {
    return Buffer.alloc(this.#size, String(stamp).padStart(STAMP_SIZE, "0"));
  }
}
