import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { ownerOf } from "../../src/auth/caller.ts";
import { randomIds } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { parseTickText, tickText } from "../../src/base/time.ts";
import { deleteBlob, getBlob, snapshotBlob } from "../../src/blob/blob.ts";
import { putBlob, putBlock, putBlockList } from "../../src/blob/block-blob.ts";
import { createContainer } from "../../src/blob/container.ts";
import { clearPage, putPage, putPageBlob } from "../../src/blob/page-blob.ts";
import { type Disk, realDisk } from "../../src/engine/disk.ts";
import { diskFiles } from "../../src/engine/disk-files.ts";
import type { Engine, ReadTx } from "../../src/engine/engine.ts";
import { type ChunkFiles, CorruptFile } from "../../src/engine/files.ts";
import { sqliteEngine } from "../../src/engine/sqlite/engine.ts";
import type { Operation, Reply, Request } from "../../src/http/operation.ts";
import { run } from "../../src/http/run.ts";
import { copySources } from "../../src/http/source.ts";
import { noConditions } from "../../src/rules/conditions.ts";
import { StorageError } from "../../src/rules/errors.ts";
import { NEWEST_VERSION } from "../../src/rules/versions.ts";
import { check } from "../../src/store/check.ts";
import { Contents, type Opened } from "../../src/store/content.ts";
import { blobs, blocks, containers, snapshots, uncommitted } from "../../src/store/keys.ts";
import { Opens } from "../../src/store/opens.ts";
import type { Content } from "../../src/store/records.ts";
import { mergeWorn } from "../../src/store/sparse-upkeep.ts";
import { sweepFiles, sweepGarbage } from "../../src/store/sweep.ts";
import { type Lie, PowerCutDisk, Random } from "./power-cut.ts";

const SEEDS = Array.from({ length: 12 }, (_, i) => i + 1);
const CLIENTS = 5;
const NAMES_PER_CLIENT = 3;
const SHARED_NAMES = ["shared-0", "shared-1"];
/** More than a run needs between its first request and its cut; a run without enough ends at its last one. */
const STEPS_MAX = 700;
const REQUESTS_PER_CLIENT = 70;
const ACCOUNT = "devstoreaccount1";
const CONTAINER = "data";

type Store = { readonly engine: Engine; readonly files: ChunkFiles; readonly contents: Contents };

let opened = 0;

/** Each one's clock begins an hour before that of the one before it: a cut may well take the time with it. */
async function openStore(directory: string, disk: Disk): Promise<Store> {
  let at = Date.UTC(2030, 0, 1) - 3_600_000 * opened++;
  const clock = { now: () => ++at };
  const onFatal = (error: unknown) => {
    throw error;
  };
  const engine = await sqliteEngine({ directory, clock, disk, log: silentLog, onFatal });
  const files = await diskFiles({ directory, disk, ids: randomIds, log: silentLog });
  return { engine, files, contents: new Contents(engine, files) };
}

async function closeStore({ engine, files }: Store): Promise<void> {
  await engine.close();
  await files.close();
}

type Sent = {
  readonly blob?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly ifNoneMatch?: string;
  readonly body?: Buffer;
  /** How much of the body comes before the client goes away. */
  readonly brokenAt?: number;
};

class ClientGone extends Error {}

/** Runs one operation as the server would, once the request is parsed. */
function call({ engine, contents }: Store, operation: Operation, sent: Sent): Promise<Reply> {
  const { blob = "", body = Buffer.alloc(0), brokenAt = body.length } = sent;
  const query = new Map(Object.entries(sent.query ?? {}));
  const headers = new Map(Object.entries(sent.headers ?? {}));
  const request: Request = {
    id: "",
    clientId: undefined,
    method: operation.match.method,
    service: "blob",
    account: ACCOUNT,
    caller: ownerOf(ACCOUNT),
    client: undefined,
    secondary: false,
    level: operation.match.on,
    names: blob === "" ? [CONTAINER] : [CONTAINER, blob],
    endpoint: "",
    version: NEWEST_VERSION,
    query,
    conditions: sent.ifNoneMatch === undefined ? noConditions : { ifNoneMatch: [sent.ifNoneMatch] },
    leaseId: undefined,
    versionId: undefined,
    customerKey: undefined,
    snapshot: parseTickText(query.get("snapshot") ?? ""),
    header: (name) => headers.get(name),
    headersFrom: () => [],
    body: {
      size: body.length,
      async whole() {
        await turn();
        if (brokenAt < body.length) throw new ClientGone();
        return body;
      },
      async *stream() {
        for (let at = 0; at < brokenAt; at += 256 * 1024) {
          await turn();
          yield body.subarray(at, Math.min(at + 256 * 1024, brokenAt));
        }
        if (brokenAt < body.length) throw new ClientGone();
      },
    },
  };
  return run(operation, request, engine, {
    contents,
    opens: new Opens(),
    ids: randomIds,
    log: silentLog,
    doors: new Map(),
    copies: { wake: () => {} },
    sources: copySources({ doors: new Map(), ports: new Map(), hosts: [] }),
    settings: {
      rehydrateMs: 0,
      versioning: false,
      immutableStorage: false,
      containerRetentionDays: 0,
    },
    authority: { accounts: () => new Map(), tokens: undefined, roles: () => undefined },
  });
}

function randomBytes(random: Random, size: number): Buffer {
  const words = new Uint32Array(Math.ceil(size / 4));
  let state = random.below(2 ** 32) | 1;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
  return Buffer.from(words.buffer, 0, size);
}

const sumOf = (bytes: Uint8Array): string => hash("sha1", bytes, "hex");

async function bytesOf({ bytes, stream, close }: Opened): Promise<Buffer> {
  const parts = [...(bytes ?? [])];
  for await (const part of stream()) parts.push(part);
  close();
  return Buffer.concat(parts);
}

/** What is known of one blob; an `etag` that is undefined is one that nobody was told. */
type Version = { readonly sum: string; readonly etag: string | undefined };
type State = {
  /** A block blob with the blocks that it is made of, or a page blob with its bytes. */
  readonly blob:
    | (Version & { readonly made?: readonly Block[]; readonly pages?: Buffer })
    | undefined;
  readonly blocks: ReadonlyMap<string, Block>;
  readonly snapshots: ReadonlyMap<string, Version>;
};
type Block = { readonly id: string; readonly bytes: Buffer };

const nothing: State = { blob: undefined, blocks: new Map(), snapshots: new Map() };
/** Stands for the name of a snapshot that nobody was told. */
const UNTOLD = "untold";

const etagOf = (reply: Reply): string => String(reply.headers.ETag).replaceAll('"', "");

/** A request that is under way, and what will be true if it takes effect. */
type Pending = { readonly name: string; readonly after: State };

/**
 * Everything that was promised to anyone until the cut. A client asks one thing at a time and has blobs of
 * its own, of which everything is known; on those that all share there are only whole writes.
 */
class Model {
  readonly states = new Map<string, State>();
  readonly pending = new Map<number, Pending>();
  readonly told = new Set<string>();
  readonly shared = new Map<string, Version[]>(SHARED_NAMES.map((name) => [name, []]));
  /** The newest version of a shared blob that a read has shown. */
  readonly seen = new Map<string, string>();
  acknowledged = 0;
  isCut = false;

  stateOf(name: string): State {
    return this.states.get(name) ?? nothing;
  }
}

class Client {
  readonly #store: Store;
  readonly #model: Model;
  readonly #random: Random;
  readonly #index: number;
  readonly #names: readonly string[];

  constructor(store: Store, model: Model, random: Random, index: number) {
    this.#store = store;
    this.#model = model;
    this.#random = random;
    this.#index = index;
    this.#names = Array.from({ length: NAMES_PER_CLIENT }, (_, i) => `own-${index}-${i}`);
  }

  async work(requests: number): Promise<void> {
    for (let i = 0; i < requests && !this.#model.isCut; i++) await this.#request();
  }

  #request(): Promise<void> {
    const name = this.#random.pick(this.#names);
    const state = this.#model.stateOf(name);
    const kind = this.#random.below(118);
    if (kind < 20) return this.#put(name, state);
    if (kind < 38) return this.#putBlock(name, state);
    if (kind < 50) return this.#putBlockList(name, state);
    if (kind < 58) return this.#delete(name, state);
    if (kind < 66) return this.#snapshot(name, state);
    if (kind < 69) return this.#deleteSnapshot(name, state);
    if (kind < 74) return this.#break(name);
    if (kind < 79) return this.#refuse(name, state);
    if (kind < 85) return this.#get(name, state);
    if (kind < 93) return this.#putShared();
    if (kind < 98) return this.#getShared();
    if (kind < 100) return this.#sweep();
    return this.#putPage(name, state);
  }

  /** Mostly small bodies; some that become files, of many sizes. */
  #body(largePercent = 30): Buffer {
    const isLarge = this.#random.chance(largePercent);
    const bits = isLarge
      ? 16 + Math.min(this.#random.below(5), this.#random.below(5))
      : this.#random.below(16);
    return randomBytes(this.#random, 2 ** bits + this.#random.below(2 ** bits) + (isLarge ? 1 : 0));
  }

  /** Asks for a change; what it promises counts if the reply comes before the cut. */
  async #change(
    operation: Operation,
    { name, after }: Pending,
    sent: Sent,
    learn: (reply: Reply, after: State) => State = (_reply, state) => state,
  ): Promise<void> {
    this.#model.pending.set(this.#index, { name, after });
    const reply = await call(this.#store, operation, { blob: name, ...sent });
    if (this.#model.isCut) return;
    this.#model.pending.delete(this.#index);
    this.#model.states.set(name, learn(reply, after));
    this.#model.acknowledged++;
  }

  /** Takes in the ETag of a new version; nobody may ever be told the same again. */
  readonly #learnEtag = (reply: Reply, after: State): State => {
    const etag = etagOf(reply);
    assert.ok(!this.#model.told.has(etag), `ETag ${etag} was given out twice`);
    this.#model.told.add(etag);
    return after.blob === undefined ? after : { ...after, blob: { ...after.blob, etag } };
  };

  #put(name: string, state: State): Promise<void> {
    const body = this.#body();
    const after = { ...state, blob: { sum: sumOf(body), etag: undefined }, blocks: new Map() };
    const headers = { "x-ms-blob-type": "BlockBlob" };
    return this.#change(putBlob, { name, after }, { headers, body }, this.#learnEtag);
  }

  /** Writes or clears some pages; a blob of another type is replaced by a page blob first. */
  #putPage(name: string, state: State): Promise<void> {
    const pages = state.blob?.pages;
    const isClear = this.#random.chance(20);
    if (pages === undefined) {
      const bytes = Buffer.alloc(512 * (1 + this.#random.below(600)));
      const blob = { sum: sumOf(bytes), etag: undefined, pages: bytes };
      const headers = { "x-ms-blob-content-length": String(bytes.length) };
      const after = { ...state, blob, blocks: new Map() };
      return this.#change(putPageBlob, { name, after }, { headers }, this.#learnEtag);
    }
    const all = pages.length / 512;
    const many = Math.min(all, this.#random.chance(20) ? 300 : 8);
    const count = 512 * (1 + this.#random.below(many));
    const start = 512 * this.#random.below(all - count / 512 + 1);
    const body = isClear ? Buffer.alloc(0) : randomBytes(this.#random, count);
    const bytes = Buffer.from(pages);
    if (isClear) bytes.fill(0, start, start + count);
    else body.copy(bytes, start);
    const after = { ...state, blob: { sum: sumOf(bytes), etag: undefined, pages: bytes } };
    const sent = { headers: { "x-ms-range": `bytes=${start}-${start + count - 1}` }, body };
    const operation = isClear ? clearPage : putPage;
    return this.#change(operation, { name, after }, sent, this.#learnEtag);
  }

  #putBlock(name: string, state: State): Promise<void> {
    if (state.blob?.pages !== undefined) return this.#putPage(name, state);
    const body = this.#body(10);
    const id = Buffer.from(String(100 + this.#random.below(20))).toString("base64");
    const waiting = new Map(state.blocks).set(id, { id, bytes: body });
    const sent = { query: { comp: "block", blockid: id }, body };
    return this.#change(putBlock, { name, after: { ...state, blocks: waiting } }, sent);
  }

  async #putBlockList(name: string, state: State): Promise<void> {
    if (state.blob?.pages !== undefined) return this.#putPage(name, state);
    const known = [...(state.blob?.made ?? []), ...state.blocks.values()].map(({ id }) => id);
    if (known.length === 0) return;
    const ids = Array.from({ length: 1 + this.#random.below(14) }, () => this.#random.pick(known));
    const made = ids.map((id) => {
      const old = state.blob?.made?.findLast((block) => block.id === id);
      return state.blocks.get(id) ?? (old as Block);
    });
    const sum = sumOf(Buffer.concat(made.map(({ bytes }) => bytes)));
    const after = { ...state, blob: { sum, etag: undefined, made }, blocks: new Map() };
    const list = ids.map((id) => `<Latest>${id}</Latest>`).join("");
    const body = Buffer.from(`<?xml version="1.0"?><BlockList>${list}</BlockList>`);
    const sent = { query: { comp: "blocklist" }, body };
    await this.#change(putBlockList, { name, after }, sent, this.#learnEtag);
  }

  async #delete(name: string, state: State): Promise<void> {
    if (state.blob === undefined) return;
    const sent = { headers: { "x-ms-delete-snapshots": "include" } };
    await this.#change(deleteBlob, { name, after: nothing }, sent);
  }

  async #snapshot(name: string, state: State): Promise<void> {
    const { blob } = state;
    if (blob === undefined) return;
    const withOne = (at: string) => ({
      ...state,
      snapshots: new Map(state.snapshots).set(at, { sum: blob.sum, etag: blob.etag }),
    });
    const sent = { query: { comp: "snapshot" } };
    const learn = (reply: Reply) => withOne(String(reply.headers["x-ms-snapshot"]));
    await this.#change(snapshotBlob, { name, after: withOne(UNTOLD) }, sent, learn);
  }

  async #deleteSnapshot(name: string, state: State): Promise<void> {
    if (state.snapshots.size === 0) return;
    const at = this.#random.pick([...state.snapshots.keys()]);
    const fewer = new Map(state.snapshots);
    fewer.delete(at);
    const sent = { query: { snapshot: at } };
    await this.#change(deleteBlob, { name, after: { ...state, snapshots: fewer } }, sent);
  }

  /** A client that goes away in the middle of its body changes nothing. */
  async #break(name: string): Promise<void> {
    const body = randomBytes(this.#random, 70_000 + this.#random.below(1_000_000));
    const headers = { "x-ms-blob-type": "BlockBlob" };
    const brokenAt = this.#random.below(body.length);
    const putting = call(this.#store, putBlob, { blob: name, headers, body, brokenAt });
    await assert.rejects(putting, ClientGone);
  }

  /** Nor does a body that is received whole and then refused. */
  async #refuse(name: string, state: State): Promise<void> {
    if (state.blob === undefined) return;
    const headers = { "x-ms-blob-type": "BlockBlob" };
    const sent = { blob: name, headers, body: this.#body(), ifNoneMatch: "*" };
    await assert.rejects(call(this.#store, putBlob, sent), StorageError);
  }

  async #get(name: string, { blob }: State): Promise<void> {
    const getting = call(this.#store, getBlob, { blob: name });
    if (blob === undefined) return assert.rejects(getting, StorageError);
    const reply = await getting;
    assert.equal(etagOf(reply), blob.etag);
    assert.equal(sumOf(await bytesOf(reply.body as Opened)), blob.sum);
  }

  async #putShared(): Promise<void> {
    const name = this.#random.pick(SHARED_NAMES);
    const body = this.#body();
    const headers = { "x-ms-blob-type": "BlockBlob" };
    const sum = sumOf(body);
    this.#model.pending.set(this.#index, {
      name,
      after: { ...nothing, blob: { sum, etag: undefined } },
    });
    const reply = await call(this.#store, putBlob, { blob: name, headers, body });
    if (this.#model.isCut) return;
    this.#model.pending.delete(this.#index);
    this.#learnEtag(reply, nothing);
    this.#model.shared.get(name)?.push({ sum, etag: etagOf(reply) });
    this.#model.acknowledged++;
  }

  async #getShared(): Promise<void> {
    const name = this.#random.pick(SHARED_NAMES);
    if (this.#model.shared.get(name)?.length === 0) return;
    const reply = await call(this.#store, getBlob, { blob: name });
    if (this.#model.isCut) return (reply.body as Opened).close();
    const etag = etagOf(reply);
    if (etag > (this.#model.seen.get(name) ?? "")) this.#model.seen.set(name, etag);
    const sum = sumOf(await bytesOf(reply.body as Opened));
    const version = this.#model.shared.get(name)?.find((known) => known.etag === etag);
    if (version !== undefined) assert.equal(sum, version.sum, "bytes and ETag of one version");
  }

  async #sweep(): Promise<void> {
    const hurry = { now: Number.MAX_SAFE_INTEGER };
    if (this.#random.chance(30)) await mergeWorn(this.#store, hurry);
    else if (this.#random.chance(50)) await sweepFiles({ ...this.#store, log: silentLog });
    else await sweepGarbage({ ...this.#store, log: silentLog });
  }
}

type Round = { readonly random: Random; readonly directory: string; readonly image: string };

/**
 * Lets clients work until a random moment, and takes the image of what a power cut leaves then. A disk that
 * lies is left to it until the last request.
 */
async function work(round: Round, model: Model, lie?: Lie): Promise<void> {
  const { random, directory, image } = round;
  const disk = new PowerCutDisk(directory, random);
  const store = await openStore(directory, disk);
  const known = await store.engine.read((tx) => containers.get(tx, ACCOUNT, CONTAINER));
  if (known === undefined) await call(store, createContainer, { query: { restype: "container" } });
  if (lie !== undefined) disk.lies.add(lie);
  const cut = () => {
    if (model.isCut) return;
    model.isCut = true;
    disk.cut(image, lie !== undefined || random.chance(20));
  };
  let steps = lie === undefined ? 50 + random.below(STEPS_MAX) : Number.MAX_SAFE_INTEGER;
  disk.onStep = () => {
    if (--steps === 0) cut();
  };
  const clients = Array.from({ length: CLIENTS }, (_, i) => {
    return new Client(store, model, new Random(random.below(2 ** 32)), i);
  });
  await Promise.all(clients.map((client) => client.work(REQUESTS_PER_CLIENT)));
  cut();
  await closeStore(store);
}

/** One blob as it is found, with all its bytes read. */
async function found({ engine, contents }: Store, container: bigint, name: string): Promise<State> {
  const sum = async (content: Content, size: number) => {
    const body = await engine.read((tx) => contents.open(tx, content, { start: 0, count: size }));
    return sumOf(await bytesOf(body));
  };
  const all = { limit: Number.MAX_SAFE_INTEGER };
  const { blob, taken, waiting, mark } = await engine.read(async (tx: ReadTx) => ({
    blob: await blobs.get(tx, container, name),
    taken: await snapshots.walk(tx, [container, name], all),
    waiting: await blocks.walk(tx, [container, name], all),
    mark: await uncommitted.get(tx, container, name),
  }));
  assert.equal(mark?.count ?? 0, waiting.length, `${name}: its blocks are as many as are counted`);
  const version = blob && { sum: await sum(blob.content, blob.size), etag: blob.etag };
  const versions = new Map<string, Version>();
  for (const { key, value } of taken) {
    const taker = { sum: await sum(value.content, value.size), etag: value.etag };
    versions.set(tickText(key[2]), taker);
  }
  const staged = new Map<string, Block>();
  for (const { key, value } of waiting) {
    const content = { pieces: value.chunks.map((chunk) => ({ chunk })) };
    const body = await engine.read((tx) =>
      contents.open(tx, content, { start: 0, count: value.size }),
    );
    staged.set(key[2], { id: key[2], bytes: await bytesOf(body) });
  }
  return { blob: version, blocks: staged, snapshots: versions };
}

/** A state as lines that compare; what nobody was told compares with anything. */
function lines(state: State, like: State): string[] {
  const version = ({ sum, etag }: Version, wanted: Version | undefined) =>
    `${sum} ${wanted !== undefined && wanted.etag === undefined ? "*" : etag}`;
  const list = state.blob === undefined ? [] : [`blob ${version(state.blob, like.blob)}`];
  for (const { id, bytes } of state.blocks.values()) list.push(`block ${id} ${sumOf(bytes)}`);
  for (const [at, taken] of state.snapshots) {
    const isTold = at !== UNTOLD && (like.snapshots.has(at) || !like.snapshots.has(UNTOLD));
    const wanted = like.snapshots.get(isTold ? at : UNTOLD);
    list.push(`snapshot ${isTold ? at : UNTOLD} ${version(taken, wanted)}`);
  }
  return list.sort();
}

const isSame = (a: State, like: State): boolean =>
  lines(a, like).join("\n") === lines(like, like).join("\n");

/** For what comes after the cut: what is durable does not matter any more. */
const unsyncedDisk: Disk = { ...realDisk, sync: async () => {}, syncDirectory: async () => {} };

/** Opens what the cut left, and holds it against what was promised. */
async function verify(image: string, model: Model): Promise<void> {
  let store = await openStore(image, unsyncedDisk);
  const record = await store.engine.read((tx) => containers.get(tx, ACCOUNT, CONTAINER));
  assert.ok(record !== undefined, "the container is there");
  const container = BigInt(`0x${record.id}`);
  const pending = [...model.pending.values()];

  for (let client = 0; client < CLIENTS; client++) {
    for (let i = 0; i < NAMES_PER_CLIENT; i++) {
      const name = `own-${client}-${i}`;
      const before = model.stateOf(name);
      const after = pending.find((one) => one.name === name)?.after;
      const now = await found(store, container, name);
      if (isSame(now, before)) continue;
      if (after !== undefined && isSame(now, after)) {
        model.states.set(name, adopted(now, after));
        continue;
      }
      assert.deepEqual(
        lines(now, before),
        lines(before, before),
        `${name} is as it was acknowledged`,
      );
    }
  }

  for (const [name, versions] of model.shared) {
    const { blob } = await found(store, container, name);
    const newest = versions.reduce((top, { etag = "" }) => (etag > top ? etag : top), "");
    if (blob === undefined) {
      assert.equal(newest, "", `${name} is there`);
      continue;
    }
    const { sum, etag = "" } = blob;
    assert.ok(etag >= newest, `${name} is not older than what was acknowledged`);
    assert.ok(etag >= (model.seen.get(name) ?? ""), `${name} is not older than what was read`);
    const known = versions.find((version) => version.etag === etag);
    const whole = known === undefined ? pending.map(({ after }) => after.blob?.sum) : [known.sum];
    assert.ok(whole.includes(sum), `${name} is one of the writes, and whole`);
    if (known === undefined) versions.push(blob);
  }

  const options = { ...store, log: silentLog };
  await sweepFiles(options);
  await sweepGarbage(options);
  await closeStore(store);
  store = await openStore(image, unsyncedDisk);
  const problems: string[] = [];
  const count = await check(store.engine, store.files, { say: (line) => void problems.push(line) });
  assert.equal(count, 0, problems.join("\n"));
  const next = await store.engine.write(async (tx) => tx.tick());
  for (const etag of model.told)
    assert.ok(next > BigInt(etag), "ticks go on after the last one told");
  await closeStore(store);
}

/** The state after a request that took effect though nobody was told: what was found fills the gaps. */
const adopted = (now: State, after: State): State => ({
  blob: now.blob && { ...after.blob, ...now.blob },
  blocks: after.blocks,
  snapshots: now.snapshots,
});

suite("power cut", () => {
  // Nothing here is really synced, so memory will do where the system offers it as a folder.
  const memory = "/dev/shm";
  const root = mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), "lazuli-power-cut-"));
  after(() => rmSync(root, { recursive: true, force: true }));

  for (const seed of SEEDS) {
    test(`nothing acknowledged is lost and nothing is left half done (seed ${seed})`, async () => {
      const random = new Random(seed);
      const model = new Model();
      let directory = mkdtempSync(join(root, `seed-${seed}-`));
      // A second cut, after the server has gone on from the first.
      for (const round of ["first", "second"]) {
        const image = mkdtempSync(join(root, `seed-${seed}-${round}-`));
        model.isCut = false;
        model.pending.clear();
        await work({ random, directory, image }, model);
        await verify(image, model);
        rmSync(directory, { recursive: true });
        directory = image;
      }
      rmSync(directory, { recursive: true });
    });
  }

  // The harness itself: where the disk only pretends to sync, the same verification finds the loss.
  for (const lie of ["wal", "files", "directories"] as const) {
    test(`a disk that does not sync its ${lie} is found out`, async () => {
      for (const seed of [101, 102]) {
        const model = new Model();
        const directory = mkdtempSync(join(root, "lie-"));
        const image = mkdtempSync(join(root, "lie-image-"));
        await work({ random: new Random(seed), directory, image }, model, lie);
        assert.ok(model.acknowledged > 0);
        await assert.rejects(
          verify(image, model),
          (error) => error instanceof assert.AssertionError || error instanceof CorruptFile,
        );
      }
    });
  }
});
