import assert from "node:assert/strict";
import { createHash, randomBytes, randomInt } from "node:crypto";
import http from "node:http";
import { type RawReply, type RawRequest, send } from "../acceptance/raw.ts";
import type { TestServer } from "../acceptance/server.ts";

const KIB = 1024;

/** One whole state of a name. The ETag is unknown while nobody has seen it. */
type State =
  | "absent"
  | { readonly hash: string; readonly size: number; readonly etag: string | undefined };

/** What is known of one name; only one client ever writes it, one request after another. */
type Name = {
  readonly blob: string;
  acknowledged: State;
  /** Where the name may be as well: the request was sent, its reply did not come. */
  inDoubt: State | undefined;
  /** Acknowledged blocks that no acknowledged list names yet. */
  staged: { readonly id: string; readonly size: number }[];
};

/** Clients that write, overwrite and delete, and know afterwards what the server owes them. */
export class Load {
  readonly #container: string;
  readonly #clients: Name[][];
  readonly #pool = randomBytes(1024 * KIB);
  readonly #tags = new Set<string>();
  #dying = false;
  #written = 0;
  /** Requests that changed a name and were acknowledged. */
  acknowledged = 0;

  constructor(options: { container: string; clients: number; namesPerClient: number }) {
    this.#container = options.container;
    this.#clients = Array.from({ length: options.clients }, (_, client) =>
      Array.from({ length: options.namesPerClient }, (_, name) => ({
        blob: `client-${String(client).padStart(2, "0")}/name-${name}`,
        acknowledged: "absent",
        inDoubt: undefined,
        staged: [],
      })),
    );
  }

  /** From now on a lost connection is expected. */
  expectDeath(): void {
    this.#dying = true;
  }

  /** All clients write until the server is gone. */
  async run(server: TestServer): Promise<void> {
    this.#dying = false;
    const agent = new http.Agent({ keepAlive: true });
    await Promise.all(this.#clients.map((names) => this.#client(server, names, agent)));
    agent.destroy();
  }

  async #client(server: TestServer, names: readonly Name[], agent: http.Agent): Promise<void> {
    const ask = (request: RawRequest) => send(server, { ...request, agent });
    for (;;) {
      const name = names[randomInt(names.length)];
      assert.ok(name !== undefined);
      try {
        await this.#step(name, ask);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (!this.#dying || code === undefined || !/^(ECONN|EPIPE)/.test(code)) throw error;
        // A request that found no connection was never sent.
        if (code === "ECONNREFUSED") name.inDoubt = undefined;
        return;
      }
    }
  }

  async #step(name: Name, ask: (request: RawRequest) => Promise<RawReply>): Promise<void> {
    const dice = randomInt(100);
    const path = `/${this.#container}/${name.blob}`;
    if (dice < 20 && name.acknowledged !== "absent") {
      await this.#change(name, "absent", 202, () => ask({ method: "DELETE", path }));
    } else if (dice < 75) {
      const body = this.#content(dice < 60 ? 1 * KIB : 300 * KIB);
      const headers = { "x-ms-blob-type": "BlockBlob" };
      await this.#change(name, stateOf(body), 201, () =>
        ask({ method: "PUT", path, headers, body }),
      );
      name.staged = [];
    } else {
      const sizes = dice < 90 ? [100 * KIB, 5 * KIB] : [5 * KIB, 5 * KIB, 100 * KIB, 5 * KIB];
      const blocks = sizes.map((size) => this.#content(size));
      const stamp = String(this.#written).padStart(12, "0");
      name.staged = [];
      for (const [index, body] of blocks.entries()) {
        const id = Buffer.from(`${stamp}-${index}`).toString("base64");
        const reply = await ask({
          method: "PUT",
          path,
          query: { comp: "block", blockid: id },
          body,
        });
        assert.equal(reply.status, 201, reply.text);
        name.staged.push({ id, size: body.length });
      }
      const list = name.staged.map(({ id }) => `<Uncommitted>${id}</Uncommitted>`).join("");
      const body = `<?xml version="1.0" encoding="utf-8"?><BlockList>${list}</BlockList>`;
      const query = { comp: "blocklist" };
      await this.#change(name, stateOf(Buffer.concat(blocks)), 201, () =>
        ask({ method: "PUT", path, query, body }),
      );
      name.staged = [];
    }
  }

  async #change(
    name: Name,
    next: State,
    status: number,
    request: () => Promise<RawReply>,
  ): Promise<void> {
    name.inDoubt = next;
    const reply = await request();
    assert.equal(reply.status, status, `${name.blob}: ${reply.status} ${reply.text}`);
    name.inDoubt = undefined;
    this.acknowledged++;
    if (next === "absent") {
      name.acknowledged = "absent";
    } else {
      const etag = String(reply.headers.etag);
      assert.ok(!this.#tags.has(etag), `the ETag ${etag} was handed out twice`);
      this.#tags.add(etag);
      name.acknowledged = { ...next, etag };
    }
  }

  /** Compares every name with what the server owes; afterwards nothing is in doubt. */
  async verify(server: TestServer): Promise<{ names: number; inDoubt: number; applied: number }> {
    const names = this.#clients.flat();
    const inDoubt = names.filter((name) => name.inDoubt !== undefined);
    let applied = 0;
    await inParallel(names, async (name) => {
      if (await this.#verifyName(server, name)) applied++;
    });
    await this.#verifyList(server, names);
    return { names: names.length, inDoubt: inDoubt.length, applied };
  }

  /** True if a change in doubt turns out to have been made. */
  async #verifyName(server: TestServer, name: Name): Promise<boolean> {
    const path = `/${this.#container}/${name.blob}`;
    const reply = await send(server, { method: "GET", path });
    assert.ok(
      reply.status === 200 || reply.status === 404,
      `${name.blob}: ${reply.status} ${reply.text}`,
    );
    const found =
      reply.status === 404
        ? "absent"
        : { ...stateOf(reply.body), etag: String(reply.headers.etag) };
    const isOld = same(found, name.acknowledged);
    const isNew = name.inDoubt !== undefined && same(found, name.inDoubt);
    const owed = { acknowledged: name.acknowledged, inDoubt: name.inDoubt, found };
    assert.ok(isOld || isNew, `${name.blob} is not what it should be: ${JSON.stringify(owed)}`);
    if (isNew && found !== "absent") {
      assert.ok(!this.#tags.has(found.etag), `the ETag ${found.etag} was handed out twice`);
      this.#tags.add(found.etag);
    }
    if (isOld && name.staged.length > 0) await this.#verifyStaged(server, name);
    name.acknowledged = found;
    name.inDoubt = undefined;
    name.staged = [];
    return isNew && !isOld;
  }

  async #verifyStaged(server: TestServer, name: Name): Promise<void> {
    const path = `/${this.#container}/${name.blob}`;
    const query = { comp: "blocklist", blocklisttype: "uncommitted" };
    const reply = await send(server, { method: "GET", path, query });
    assert.equal(reply.status, 200, `the blocks of ${name.blob}: ${reply.status} ${reply.text}`);
    for (const { id, size } of name.staged) {
      const listed = `<Name>${id}</Name><Size>${size}</Size>`;
      assert.ok(reply.text.includes(listed), `${name.blob} lost block ${id}: ${reply.text}`);
    }
  }

  async #verifyList(server: TestServer, names: readonly Name[]): Promise<void> {
    const query = { restype: "container", comp: "list" };
    const reply = await send(server, { method: "GET", path: `/${this.#container}`, query });
    assert.equal(reply.status, 200, reply.text);
    const listed = [...reply.text.matchAll(/<Blob><Name>([^<]*)<.*?<Content-Length>(\d+)</gs)].map(
      ([, blob, size]) => [blob, Number(size)],
    );
    const owed = names.flatMap(({ blob, acknowledged }) =>
      acknowledged === "absent" ? [] : [[blob, acknowledged.size]],
    );
    assert.deepEqual(listed, owed, "List Blobs gives what Get Blob gives");
  }

  /** Bytes that no other write has. */
  #content(size: number): Buffer {
    const stamp = Buffer.from(`write ${++this.#written};`);
    const start = randomInt(this.#pool.length - size);
    const rest = this.#pool.subarray(start, start + size - stamp.length);
    return Buffer.concat([stamp, rest]);
  }
}

const stateOf = (body: Buffer) => ({
  hash: createHash("sha256").update(body).digest("hex"),
  size: body.length,
  etag: undefined,
});

function same(found: State, owed: State): boolean {
  if (found === "absent" || owed === "absent") return found === owed;
  const sameTag = owed.etag === undefined || owed.etag === found.etag;
  return found.hash === owed.hash && found.size === owed.size && sameTag;
}

/** Runs the step for every item, a few at a time. */
export async function inParallel<T>(
  items: readonly T[],
  step: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const worker = async () => {
    for (const item of rest) await step(item);
  };
  await Promise.all(Array.from({ length: 16 }, worker));
}
