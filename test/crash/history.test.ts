import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { rmSync } from "node:fs";
import http from "node:http";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { type RawRequest, send } from "../acceptance/raw.ts";
import { startServer, type TestServer } from "../acceptance/server.ts";
import { run } from "./command.ts";
import { inParallel } from "./load.ts";

const CLIENTS = 24;
const ROUNDS = 2;

/** What one client was told, and what it had asked for when the server went. */
class Client {
  readonly log: string;
  readonly page: string;
  /** The text that appends made, and the one that may have come after. */
  appended = "";
  appending = "";
  /** Each version by its id, and copies by their names. */
  readonly versions = new Map<string, string>();
  readonly copies = new Map<string, string>();
  #count = 0;

  constructor(index: number) {
    this.log = `/crash/log-${index}`;
    this.page = `/crash/page-${index}`;
  }

  async create(server: TestServer): Promise<void> {
    const headers = { "x-ms-blob-type": "AppendBlob" };
    const reply = await send(server, { method: "PUT", path: this.log, headers });
    assert.equal(reply.status, 201, reply.text);
  }

  async work(server: TestServer, isDying: () => boolean): Promise<void> {
    const agent = new http.Agent({ keepAlive: true });
    const ask = (request: RawRequest) => send(server, { ...request, agent });
    try {
      for (;;) {
        const text = `${this.page} ${++this.#count};`.repeat(1 + randomInt(200));
        const dice = randomInt(3);
        if (dice === 0) {
          this.appending = text;
          const query = { comp: "appendblock" };
          const reply = await ask({ method: "PUT", path: this.log, query, body: text });
          assert.equal(reply.status, 201, reply.text);
          assert.equal(Number(reply.headers["x-ms-blob-append-offset"]), this.appended.length);
          this.appended += text;
          this.appending = "";
        } else if (dice === 1 || this.versions.size === 0) {
          const headers = { "x-ms-blob-type": "BlockBlob" };
          const reply = await ask({ method: "PUT", path: this.page, headers, body: text });
          assert.equal(reply.status, 201, reply.text);
          this.versions.set(String(reply.headers["x-ms-version-id"]), text);
        } else {
          const [id, copied] = [...this.versions].at(randomInt(this.versions.size)) ?? ["", ""];
          const source = `${server.url}${this.page}?versionid=${encodeURIComponent(id)}`;
          const path = `${this.page}-copy-${this.#count}`;
          const reply = await ask({ method: "PUT", path, headers: { "x-ms-copy-source": source } });
          assert.equal(reply.status, 202, reply.text);
          this.copies.set(path, copied);
        }
      }
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (!isDying() || code === undefined || !/^(ECONN|EPIPE)/.test(code)) throw error;
    } finally {
      agent.destroy();
    }
  }

  async verify(server: TestServer): Promise<void> {
    const log = await send(server, { method: "GET", path: this.log });
    const isWhole = log.text === this.appended || log.text === this.appended + this.appending;
    assert.ok(
      isWhole,
      `${this.log} has ${log.text.length} characters, ${this.appended.length} owed`,
    );
    this.appended = log.text;
    this.appending = "";
    for (const [versionid, text] of this.versions) {
      const reply = await send(server, { method: "GET", path: this.page, query: { versionid } });
      assert.deepEqual([reply.status, reply.text], [200, text], `${this.page} at ${versionid}`);
    }
    for (const [path, text] of this.copies) {
      const reply = await send(server, { method: "GET", path });
      assert.deepEqual([reply.status, reply.text], [200, text], path);
    }
  }
}

test("SIGKILL under appends, versions and copies: each is whole, none that was acknowledged is lost", async () => {
  const args = ["--versioning"];
  let server = await startServer({ args });
  const { directory } = server;
  const clients = Array.from({ length: CLIENTS }, (_, index) => new Client(index));
  try {
    const query = { restype: "container" };
    assert.equal((await send(server, { method: "PUT", path: "/crash", query })).status, 201);
    await inParallel(clients, (client) => client.create(server));
    for (let round = 0; round < ROUNDS; round++) {
      let isDying = false;
      const working = Promise.all(clients.map((client) => client.work(server, () => isDying)));
      await Promise.race([working, wait(800 + randomInt(400))]);
      isDying = true;
      await server.kill();
      await working;
      server = await startServer({ directory, args });
      await inParallel(clients, (client) => client.verify(server));
    }
    assert.equal(await server.stop("keep"), 0, server.output());
    const checked = await run("check", "--location", directory);
    assert.equal(checked.code, 0, `check: ${checked.stdout}${checked.stderr}`);
  } finally {
    await server.kill().catch(() => {});
    rmSync(directory, { recursive: true, force: true });
  }
});
