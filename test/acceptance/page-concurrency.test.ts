import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import * as b from "./blobs.ts";
import * as p from "./pages.ts";
import { startServer, type TestServer } from "./server.ts";
import { open } from "./wire.ts";

let server: TestServer;
before(async () => {
  server = await startServer();
  await b.createContainer(server, "race");
});
after(() => server.stop());

const { PAGE } = p;
const KIB = 1024;
const WRITERS = 8;
const ROUNDS = 12;
const writers = Array.from({ length: WRITERS }, (_, index) => index);

test("If-Match on Put Page (update): 8 writers count as far as they were acknowledged", async () => {
  const path = "/race/counter";
  await p.putPageBlob(server, path, PAGE);
  const tags = new Set<unknown>();
  await Promise.all(
    writers.map(async () => {
      for (let done = 0; done < ROUNDS; ) {
        const found = b.assertReply(await b.getBlob(server, path), 200);
        const next = Buffer.alloc(PAGE);
        next.writeUInt32LE(found.body.readUInt32LE(0) + 1);
        const headers = { "if-match": String(found.headers.etag) };
        const reply = await p.tryPutPage(server, path, 0, next, headers);
        if (reply.status === 412) continue;
        b.assertReply(reply, 201);
        tags.add(reply.headers.etag);
        done++;
      }
    }),
  );
  const last = await b.getBlob(server, path);
  assert.equal(last.body.readUInt32LE(0), WRITERS * ROUNDS, "every acknowledged update counts");
  assert.equal(tags.size, WRITERS * ROUNDS, "no ETag was given twice");
});

test("Set Blob Properties: 8 that increment the sequence number get numbers of their own", async () => {
  const path = "/race/numbers";
  await p.putPageBlob(server, path, PAGE);
  const numbers = await Promise.all(
    writers.map(async () => {
      const headers = { "x-ms-sequence-number-action": "increment" };
      const reply = await b.putComp(server, path, "properties", { headers });
      return Number(b.assertReply(reply, 200).headers["x-ms-blob-sequence-number"]);
    }),
  );
  assert.deepEqual(
    numbers.sort((one, other) => one - other),
    writers.map((index) => index + 1),
  );
});

test("Get Blob: body and ETag of a page blob are one version, and never an old one", async () => {
  for (const size of [8 * KIB, 256 * KIB]) {
    const path = `/race/stamped-${size}`;
    await p.putPageBlob(server, path, size);
    const stamps = new Map<string, number>();
    let sent = 0;
    let acknowledged = 0;
    let isOver = false;
    const write = async () => {
      while (sent < 40) {
        const stamp = ++sent;
        const body = Buffer.alloc(size, stamp & 0xff);
        for (let at = 0; at < size; at += PAGE) body.writeUInt32LE(stamp, at);
        const reply = await p.putPage(server, path, 0, body);
        stamps.set(String(reply.headers.etag), stamp);
        acknowledged = stamp;
      }
      isOver = true;
    };
    const seen: [etag: string, stamp: number][] = [];
    const read = async () => {
      while (!isOver) {
        const owed = acknowledged;
        const { body, headers } = b.assertReply(await b.getBlob(server, path), 200);
        const stamp = body.readUInt32LE(0);
        for (let at = 0; at < size; at += PAGE) assert.equal(body.readUInt32LE(at), stamp, "torn");
        assert.ok(stamp >= owed, `read ${stamp} after ${owed} was acknowledged`);
        if (stamp > 0) seen.push([String(headers.etag), stamp]);
      }
    };
    await Promise.all([write(), read(), read(), read()]);
    assert.ok(seen.length > 5, `${seen.length} reads`);
    for (const [etag, stamp] of seen) assert.equal(stamps.get(etag), stamp, "ETag and body differ");
  }
});

test("Put Page (update): writers of pages that do not overlap lose nothing of each other's", async () => {
  const path = "/race/side-by-side";
  await p.putPageBlob(server, path, 400 * PAGE);
  await Promise.all(
    writers.map(async (writer) => {
      for (let at = writer; at < 400; at += WRITERS) {
        await p.putPage(server, path, at * PAGE, Buffer.alloc(PAGE, (at % 255) + 1));
      }
    }),
  );
  const { body } = await b.getBlob(server, path);
  for (let at = 0; at < 400; at++) assert.equal(body[at * PAGE + 7], (at % 255) + 1, `page ${at}`);
});

for (const what of ["page writes", "a delete", "a resize and a new Put Blob"] as const) {
  test(`Get Blob: a slow download of a page blob is not touched by ${what}`, async () => {
    const path = `/race/slow-${what.replaceAll(" ", "-")}`;
    const part = 256 * KIB;
    const count = 96;
    await p.putPageBlob(server, path, part * count);
    const tasks = Array.from(
      { length: count },
      (_, i) => () => p.putPage(server, path, i * part, b.bytes(part, i + 1)),
    );
    await b.atOnce(8, tasks);
    // Many small ones as well, so that it takes more than one look to see them all.
    const small = Array.from(
      { length: 300 },
      (_, i) => () => p.putPage(server, path, i * 32 * KIB, Buffer.alloc(PAGE, i)),
    );
    await b.atOnce(8, small);
    const whole = b.assertReply(await b.getBlob(server, path), 200);
    const reply = await open(server, { method: "GET", path });
    const [first] = (await once(reply, "data")) as [Buffer];
    reply.pause();
    if (what === "page writes") {
      const over = Array.from(
        { length: count },
        (_, i) => () => p.putPage(server, path, (count - 1 - i) * part, Buffer.alloc(part, 255)),
      );
      await b.atOnce(8, over);
      await p.clearPage(server, path, 0, part * count);
    } else if (what === "a delete") {
      b.assertReply(await b.deleteBlob(server, path), 202);
    } else {
      const headers = { "x-ms-blob-content-length": "512" };
      b.assertReply(await b.putComp(server, path, "properties", { headers }), 200);
      await p.putPageBlob(server, path, PAGE);
    }
    const other = Array.from(
      { length: count },
      (_, i) => () => b.putBlob(server, `/race/other-${i}`, Buffer.alloc(part, 254)),
    );
    await b.atOnce(8, other);
    assert.ok(!reply.complete, "the download was over before the blob changed");
    const parts = [first];
    reply.on("data", (bytes: Buffer) => void parts.push(bytes));
    const ended = once(reply, "end");
    reply.resume();
    await ended;
    assert.ok(Buffer.concat(parts).equals(whole.body), "it is what it was when it began");
    assert.equal(reply.headers.etag, whole.headers.etag);
  });
}
