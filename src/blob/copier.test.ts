import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { randomIds } from "../base/ids.ts";
import { silentLog } from "../base/log.ts";
import type { Engine } from "../engine/engine.ts";
import { memoryEngine } from "../engine/memory.ts";
import { memoryFiles } from "../engine/memory-files.ts";
import type { OpenSource, Surroundings } from "../http/operation.ts";
import { available } from "../rules/lease.ts";
import { Contents } from "../store/content.ts";
import { blobs, copies } from "../store/keys.ts";
import type { BlobRecord, CopyRecord } from "../store/records.ts";
import { Copier } from "./copier.ts";

const KEY = [1n, "blob"] as const;

const begun = (id: string): CopyRecord => ({
  id,
  url: "http://elsewhere/source",
  endpoint: "http://localhost/account/",
  account: "account",
  containerName: "box",
  startedAt: 0,
});

const pending = (id: string): BlobRecord => ({
  etag: "0x1",
  modifiedAt: 0,
  createdAt: 0,
  type: "BlockBlob",
  size: 0,
  headers: {},
  metadata: {},
  lease: available,
  content: { pieces: [] },
  copy: { id, source: "http://elsewhere/source", status: "pending", done: 0, total: 3 },
});

async function* bytes() {
  yield Buffer.from("abc");
}

/** A copier whose sources are what `open` says; `open` is told how often it was asked. */
function copierOf(open: (count: number) => Promise<OpenSource>): [Copier, Engine] {
  const engine = memoryEngine({ clock: { now: () => 1000 } });
  const contents = new Contents(engine, memoryFiles(randomIds));
  let count = 0;
  const sources = { local: () => undefined, open: () => open(++count) };
  const around = { contents, sources } as unknown as Surroundings;
  return [new Copier({ engine, around, log: silentLog }), engine];
}

const source: OpenSource = {
  status: 200,
  header: (name) => (name === "content-length" ? "3" : undefined),
  metadata: [],
  stream: bytes,
  close: () => {},
};

const waiting = (engine: Engine) => engine.read((tx) => copies.get(tx, ...KEY));

/** Gives others their turn until it is so; a copy that never ends fails the test. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let turn = 0; turn < 1000; turn++) {
    if (await isSo()) return;
    await setImmediate();
  }
  assert.fail("it has not come to that");
}

test("Copier: a copy whose blob is gone is fetched once, and then forgotten", async () => {
  let opened = 0;
  const [copier, engine] = copierOf(async (count) => {
    opened = count;
    return source;
  });
  await engine.write(async (tx) => copies.put(tx, KEY, begun("one")));
  await copier.wake();
  await until(async () => (await waiting(engine)) === undefined);
  await copier.wake();
  await copier.stop();
  assert.equal(opened, 1);
});

test("Copier: a copy that fails leaves another one alone that has begun under its name", async () => {
  const [copier, engine] = copierOf(async (count) => {
    if (count > 1) return source;
    await engine.write(async (tx) => {
      copies.put(tx, KEY, begun("two"));
      blobs.put(tx, KEY, pending("two"));
    });
    throw new Error("the first source is gone");
  });
  await engine.write(async (tx) => {
    copies.put(tx, KEY, begun("one"));
    blobs.put(tx, KEY, pending("one"));
  });
  await copier.wake();
  await until(async () => (await waiting(engine)) === undefined);
  await copier.stop();
  const made = await engine.read((tx) => blobs.get(tx, ...KEY));
  assert.deepEqual([made?.copy?.id, made?.copy?.status, made?.size], ["two", "success", 3]);
});

test("Copier: what was fetched for a copy that then fails is not kept", async () => {
  const inner = memoryEngine({ clock: { now: () => 1000 } });
  const files = memoryFiles(randomIds);
  let isFull = false;
  const engine: Engine = {
    ...{ read: inner.read.bind(inner), settled: inner.settled.bind(inner) },
    close: inner.close.bind(inner),
    write: (body, given) => {
      if (!isFull) return inner.write(body, given);
      isFull = false;
      return Promise.reject(new Error("the disk is full"));
    },
  };
  async function* many() {
    isFull = true;
    yield Buffer.alloc(300_000, 1);
  }
  const header = (name: string) => (name === "content-length" ? "300000" : undefined);
  const open = async (): Promise<OpenSource> => ({ ...source, header, stream: many });
  const contents = new Contents(engine, files);
  const around = { contents, sources: { local: () => undefined, open } };
  const copier = new Copier({ engine, around: around as unknown as Surroundings, log: silentLog });
  await engine.write(async (tx) => {
    copies.put(tx, KEY, begun("one"));
    blobs.put(tx, KEY, pending("one"));
  });
  await copier.wake();
  await until(async () => (await waiting(engine)) === undefined);
  await copier.stop();
  const made = await engine.read((tx) => blobs.get(tx, ...KEY));
  assert.equal(made?.copy?.status, "failed");
  for await (const name of files.list()) assert.fail(`${name} is left`);
});
