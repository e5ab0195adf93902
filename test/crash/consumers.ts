import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import http from "node:http";
import { type RawReply, type RawRequest, send } from "../acceptance/raw.ts";
import type { TestServer } from "../acceptance/server.ts";

const HIDDEN_S = [1, 3];

/** What is known of one message, by its text, which no other one has. */
type Known = {
  put: "acknowledged" | "in doubt";
  /** When its deletion was acknowledged, if it was. */
  deletedAt: number | undefined;
  /** How many deletions have had no answer. */
  deletionsInDoubt: number;
  /** Until when it is invisible for certain: its last retrieval began that long ago, or later. */
  hiddenUntil: number;
  /** Each retrieval counts one up, so none is told twice. */
  readonly counts: Set<string>;
};

type Got = { readonly text: string; readonly id: string; readonly receipt: string };

/** Clients that put, get, release and delete messages of one queue, and watch what they are given. */
export class Consumers {
  readonly #path: string;
  readonly #clients: number;
  readonly #known = new Map<string, Known>();
  #dying = false;
  /** Requests that were acknowledged, by kind. */
  readonly done = { put: 0, got: 0, deleted: 0, released: 0 };

  constructor(queue: string, clients: number) {
    this.#path = `/${queue}/messages`;
    this.#clients = clients;
  }

  /** From now on a lost connection is expected. */
  expectDeath(): void {
    this.#dying = true;
  }

  /** All clients work until the server is gone. */
  async run(server: TestServer): Promise<void> {
    this.#dying = false;
    const agent = new http.Agent({ keepAlive: true });
    const ask = (request: RawRequest) => send(server, { ...request, agent });
    const client = async () => {
      while (await this.#survived(() => this.#step(ask)));
    };
    await Promise.all(Array.from({ length: this.#clients }, client));
    agent.destroy();
  }

  async #survived(step: () => Promise<void>): Promise<boolean> {
    try {
      await step();
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (!this.#dying || code === undefined || !/^(ECONN|EPIPE)/.test(code)) throw error;
      return false;
    }
  }

  async #step(ask: (request: RawRequest) => Promise<RawReply>): Promise<void> {
    if (randomInt(100) < 40) return this.#put(ask);
    const seconds = HIDDEN_S[randomInt(HIDDEN_S.length)] ?? 1;
    for (const got of await this.#get(ask, 1 + randomInt(4), seconds)) {
      const dice = randomInt(100);
      if (dice < 70) await this.#delete(ask, got);
      else if (dice < 85) await this.#release(ask, got);
      // The others are left to become visible by themselves.
    }
  }

  async #put(ask: (request: RawRequest) => Promise<RawReply>): Promise<void> {
    const text = `message ${this.#known.size} ${"x".repeat(randomInt(2) * 1000)}`;
    const known: Known = {
      put: "in doubt",
      deletedAt: undefined,
      deletionsInDoubt: 0,
      hiddenUntil: 0,
      counts: new Set(),
    };
    this.#known.set(text, known);
    const body = `<QueueMessage><MessageText>${text}</MessageText></QueueMessage>`;
    const reply = await ask({ method: "POST", path: this.#path, body });
    assert.equal(reply.status, 201, reply.text);
    known.put = "acknowledged";
    this.done.put++;
  }

  async #get(
    ask: (request: RawRequest) => Promise<RawReply>,
    count: number,
    seconds: number,
  ): Promise<Got[]> {
    const begin = performance.now();
    const query = { numofmessages: String(count), visibilitytimeout: String(seconds) };
    const reply = await ask({ method: "GET", path: this.#path, query });
    assert.equal(reply.status, 200, reply.text);
    const end = performance.now();
    return [...reply.text.matchAll(/<QueueMessage>(.*?)<\/QueueMessage>/gs)].map(([, xml = ""]) => {
      const value = (name: string) => new RegExp(`<${name}>([^<]*)<`).exec(xml)?.[1] ?? "";
      const text = value("MessageText");
      this.#see(text, value("DequeueCount"), { begin, end, hiddenMs: seconds * 1000 });
      return { text, id: value("MessageId"), receipt: value("PopReceipt") };
    });
  }

  /** Holds a retrieval, which happened between two times, against all that is known of the message. */
  #see(text: string, count: string, when: { begin: number; end: number; hiddenMs: number }): void {
    const known = this.#known.get(text);
    assert.ok(known !== undefined, `nobody has put "${text}"`);
    const isBack = known.deletedAt !== undefined && known.deletedAt < when.begin;
    assert.ok(!isBack, `"${text}" was deleted, and is there again`);
    const until = when.begin + when.hiddenMs;
    const isShared = when.end < Math.min(known.hiddenUntil, until);
    assert.ok(!isShared, `"${text}" was handed out while it was invisible`);
    assert.ok(!known.counts.has(count), `"${text}" was retrieved twice as number ${count}`);
    known.counts.add(count);
    known.hiddenUntil = Math.max(known.hiddenUntil, until);
    this.done.got++;
  }

  /** The receipt may be old by now, if the message was visible again before this came. */
  async #delete(ask: (request: RawRequest) => Promise<RawReply>, got: Got): Promise<void> {
    const known = this.#known.get(got.text);
    assert.ok(known !== undefined);
    known.deletionsInDoubt++;
    const path = `${this.#path}/${got.id}`;
    const reply = await ask({ method: "DELETE", path, query: { popreceipt: got.receipt } });
    known.deletionsInDoubt--;
    if (reply.status === 404) return;
    assert.equal(reply.status, 204, reply.text);
    assert.equal(known.deletedAt, undefined, `"${got.text}" was deleted twice`);
    known.deletedAt = performance.now();
    this.done.deleted++;
  }

  /** Makes the message visible at once. */
  async #release(ask: (request: RawRequest) => Promise<RawReply>, got: Got): Promise<void> {
    const known = this.#known.get(got.text);
    assert.ok(known !== undefined);
    known.hiddenUntil = 0;
    const query = { popreceipt: got.receipt, visibilitytimeout: "0" };
    const reply = await ask({ method: "PUT", path: `${this.#path}/${got.id}`, query });
    assert.ok(reply.status === 204 || reply.status === 404, reply.text);
    if (reply.status === 204) this.done.released++;
  }

  /** Takes out all that is left; afterwards nothing that is owed may be missing. */
  async drain(server: TestServer): Promise<number> {
    const ask = (request: RawRequest) => send(server, request);
    const queue = this.#path.replace(/\/messages$/, "");
    const until = performance.now() + 15_000;
    const found = new Set<string>();
    for (;;) {
      for (const got of await this.#get(ask, 32, 60)) {
        found.add(got.text);
        await this.#delete(ask, got);
      }
      const query = { comp: "metadata" };
      const { headers } = await ask({ method: "GET", path: queue, query });
      if (headers["x-ms-approximate-messages-count"] === "0") break;
      assert.ok(performance.now() < until, "messages stay invisible for ever");
    }
    for (const [text, known] of this.#known) {
      const isGone = known.deletedAt !== undefined || known.deletionsInDoubt > 0;
      assert.ok(isGone || known.put === "in doubt", `"${text}" was acknowledged, and is lost`);
    }
    return found.size;
  }
}
