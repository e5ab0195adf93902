import assert from "node:assert/strict";
import { test } from "node:test";
import { httpDate } from "../../src/base/time.ts";
import { NEVER } from "../../src/rules/messages.ts";
import { Random } from "./power-cut.ts";
import { type Answer, QueueStore, type Told } from "./queue-store.ts";

const SEEDS = Array.from({ length: 60 }, (_, index) => index + 1);
const STEPS = 300;
const QUEUES = ["one", "two"];
const DAY_S = 86_400;

/** A message as it should be; `turn` is the number of its last change, which orders equals. */
type Model = {
  readonly id: string;
  readonly insertedAt: number;
  readonly expiresAt: number;
  text: string;
  visibleAt: number;
  turn: number;
  dequeueCount: number;
  receipt: string;
};

type Receipt = { readonly id: string; readonly receipt: string };

/** One history: random requests, each answer held against a list of messages that is searched whole. */
class History {
  readonly #random: Random;
  readonly #store: QueueStore;
  readonly #queues = new Map<string, { metadata: Record<string, string>; messages: Model[] }>();
  /** Every receipt that was ever given, of whichever queue. */
  readonly #receipts: Receipt[] = [];
  #turn = 0;

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.#store = new QueueStore(() => this.#random.below(8) === 0);
  }

  async run(): Promise<void> {
    for (const name of QUEUES) await this.#create(name);
    for (let step = 0; step < STEPS; step++) await this.#step();
    await this.#store.sweep();
    assert.deepEqual(await this.#store.problems(), []);
    for (const name of QUEUES) await this.#count(name, "exact");
  }

  async #step(): Promise<void> {
    const name = this.#one(QUEUES);
    const dice = this.#random.below(100);
    if (dice < 30) await this.#put(name);
    else if (dice < 50) await this.#get(name);
    else if (dice < 60) await this.#peek(name);
    else if (dice < 70) await this.#update(name);
    else if (dice < 80) await this.#delete(name);
    else if (dice < 90) this.#wait();
    else if (dice < 94) await this.#count(name, "at least");
    else if (dice < 96) await this.#store.sweep();
    else if (dice < 97) await this.#clear(name);
    else if (dice < 98) await this.#deleteQueue(name);
    else await this.#create(name);
  }

  #one<T>(items: readonly T[]): T {
    return items[this.#random.below(items.length)] as T;
  }

  /** Time goes on by nothing, by a bit, to a moment when something changes, or by days. */
  #wait(): void {
    const all = [...this.#queues.values()].flatMap(({ messages }) => messages);
    const times = all.flatMap(({ visibleAt, expiresAt }) => [visibleAt, expiresAt]);
    const moment = this.#one([...times, this.#store.now]) - this.#random.below(2);
    const steps = [1, 999, 10_000, 3_600_000, moment - this.#store.now];
    const by = this.#one(steps);
    if (by > 0 && by < 30 * DAY_S * 1000) this.#store.now += by;
  }

  #alive(name: string): Model[] | undefined {
    const now = this.#store.now;
    return this.#queues.get(name)?.messages.filter(({ expiresAt }) => expiresAt > now);
  }

  #visible(name: string, count: number): Model[] | undefined {
    return this.#alive(name)
      ?.filter(({ visibleAt }) => visibleAt <= this.#store.now)
      .sort((a, b) => a.visibleAt - b.visibleAt || a.turn - b.turn)
      .slice(0, count);
  }

  async #create(name: string): Promise<void> {
    const metadata: Record<string, string> = this.#random.below(2) === 0 ? {} : { a: "1" };
    const answer = await this.#store.call("Create Queue", [name], { metadata });
    const before = this.#queues.get(name)?.metadata;
    if (before === undefined) {
      assert.equal(answer.status, 201);
      this.#queues.set(name, { metadata, messages: [] });
    } else if (JSON.stringify(before) === JSON.stringify(metadata))
      assert.equal(answer.status, 204);
    else assert.equal(answer.code, "QueueAlreadyExists");
  }

  async #deleteQueue(name: string): Promise<void> {
    const answer = await this.#store.call("Delete Queue", [name]);
    if (this.#queues.delete(name)) assert.equal(answer.status, 204);
    else assert.equal(answer.code, "QueueNotFound");
  }

  async #clear(name: string): Promise<void> {
    const answer = await this.#store.call("Clear Messages", [name]);
    const queue = this.#queues.get(name);
    if (queue === undefined) return assert.equal(answer.code, "QueueNotFound");
    assert.equal(answer.status, 204);
    queue.messages = [];
  }

  async #count(name: string, how: "exact" | "at least"): Promise<void> {
    const answer = await this.#store.call("Get Queue Metadata", [name]);
    const alive = this.#alive(name)?.length;
    if (alive === undefined) return assert.equal(answer.code, "QueueNotFound");
    const told = Number(answer.headers["x-ms-approximate-messages-count"]);
    if (how === "exact") assert.equal(told, alive);
    else assert.ok(told >= alive, `${told} are told of ${alive}`);
  }

  async #put(name: string): Promise<void> {
    const text = `${this.#turn}${"x".repeat(this.#one([0, 10, 250, 300, 2000]))}`;
    const ttl = this.#one([undefined, -1, 2, 15, 100, DAY_S]);
    const delay = this.#one([undefined, 0, 1, 60, 7 * DAY_S]);
    const query = {
      ...(ttl === undefined ? {} : { messagettl: ttl }),
      ...(delay === undefined ? {} : { visibilitytimeout: delay }),
    };
    const answer = await this.#store.call("Put Message", [name], { query, text });
    if (ttl !== undefined && ttl !== -1 && (delay ?? 0) >= ttl) {
      return assert.equal(answer.code, "InvalidQueryParameterValue");
    }
    const queue = this.#queues.get(name);
    if (queue === undefined) return assert.equal(answer.code, "QueueNotFound");
    assert.equal(answer.status, 201);
    const [told] = answer.messages;
    assert.ok(told !== undefined);
    const now = this.#store.now;
    const model: Model = {
      id: told.id,
      insertedAt: now,
      expiresAt: ttl === -1 ? NEVER : now + (ttl ?? 7 * DAY_S) * 1000,
      text,
      visibleAt: now + (delay ?? 0) * 1000,
      turn: this.#turn++,
      dequeueCount: 0,
      receipt: told.receipt ?? "",
    };
    queue.messages.push(model);
    this.#receipts.push({ ...model });
    assert.deepEqual(told, { ...toldOf(model), dequeueCount: undefined, text: undefined });
  }

  async #get(name: string): Promise<void> {
    const count = this.#one([1, 1, 2, 5, 32]);
    const seconds = this.#one([undefined, 1, 30, DAY_S]);
    const query = {
      numofmessages: count,
      ...(seconds === undefined ? {} : { visibilitytimeout: seconds }),
    };
    const answer = await this.#store.call("Get Messages", [name], { query });
    const due = this.#visible(name, count);
    if (due === undefined) return assert.equal(answer.code, "QueueNotFound");
    assert.equal(answer.status, 200);
    for (const [index, model] of due.entries()) {
      model.visibleAt = this.#store.now + (seconds ?? 30) * 1000;
      model.turn = this.#turn++;
      model.dequeueCount++;
      model.receipt = answer.messages[index]?.receipt ?? "";
      this.#receipts.push({ ...model });
    }
    assert.deepEqual(answer.messages, due.map(toldOf));
  }

  async #peek(name: string): Promise<void> {
    const count = this.#one([1, 2, 32]);
    const query = { numofmessages: count, peekonly: "true" };
    const answer = await this.#store.call("Peek Messages", [name], { query });
    const due = this.#visible(name, count);
    if (due === undefined) return assert.equal(answer.code, "QueueNotFound");
    const without = { receipt: undefined, nextVisible: undefined };
    assert.deepEqual(
      answer.messages,
      due.map((model) => ({ ...toldOf(model), ...without })),
    );
  }

  /** Some receipt: often the newest of a message that is there, else any that was ever given. */
  #receipt(name: string): Receipt {
    const messages = this.#queues.get(name)?.messages ?? [];
    if (messages.length > 0 && this.#random.below(3) > 0) return this.#one(messages);
    const nobody = { id: "01234567-89ab-4def-a123-456789abcdef", receipt: "AQAAAAAAAAAAAAAAAAAA" };
    const any = this.#one([...this.#receipts, nobody]);
    // Another message's receipt is no better than an old one.
    return this.#random.below(4) > 0 ? any : { ...any, id: this.#one([...messages, nobody]).id };
  }

  #held(name: string, { id, receipt }: Receipt): Model | undefined {
    return this.#alive(name)?.find((model) => model.id === id && model.receipt === receipt);
  }

  #isMissing(name: string, model: Model | undefined, answer: Answer): model is undefined {
    if (model !== undefined) return false;
    assert.equal(answer.code, this.#queues.has(name) ? "MessageNotFound" : "QueueNotFound");
    return true;
  }

  async #update(name: string): Promise<void> {
    const given = { ...this.#receipt(name) };
    const seconds = this.#one([0, 0, 1, 30, DAY_S]);
    const text = this.#one([undefined, "", "new", "y".repeat(500)]);
    const answer = await this.#store.call("Update Message", [name, given.id], {
      query: { popreceipt: given.receipt, visibilitytimeout: seconds },
      ...(text === undefined ? {} : { text }),
    });
    const model = this.#held(name, given);
    if (this.#isMissing(name, model, answer)) return;
    const visibleAt = this.#store.now + seconds * 1000;
    if (visibleAt > model.expiresAt) {
      return assert.equal(answer.code, "OutOfRangeQueryParameterValue");
    }
    assert.equal(answer.status, 204);
    model.visibleAt = visibleAt;
    model.turn = this.#turn++;
    model.text = text ?? model.text;
    model.receipt = String(answer.headers["x-ms-popreceipt"]);
    assert.notEqual(model.receipt, given.receipt);
    assert.equal(answer.headers["x-ms-time-next-visible"], httpDate(visibleAt));
    this.#receipts.push({ ...model });
  }

  async #delete(name: string): Promise<void> {
    const given = { ...this.#receipt(name) };
    const query = { popreceipt: given.receipt };
    const answer = await this.#store.call("Delete Message", [name, given.id], { query });
    const model = this.#held(name, given);
    if (this.#isMissing(name, model, answer)) return;
    assert.equal(answer.status, 204);
    const queue = this.#queues.get(name);
    if (queue !== undefined) queue.messages = queue.messages.filter((other) => other !== model);
  }
}

const toldOf = (model: Model): Told => ({
  id: model.id,
  inserted: httpDate(model.insertedAt),
  expires: httpDate(model.expiresAt),
  receipt: model.receipt,
  nextVisible: httpDate(model.visibleAt),
  dequeueCount: String(model.dequeueCount),
  text: model.text,
});

for (const seed of SEEDS) {
  test(`seed ${seed}: every answer is what a plain list of messages would give`, () =>
    new History(seed).run());
}
