import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { expiries, messages, queueNames, queueStates, queues } from "../../src/store/keys.ts";
import { QueueStore, type Told } from "./queue-store.ts";

const QUEUE = ["deep"];

async function filled(count: number, query: Record<string, number> = {}): Promise<QueueStore> {
  const store = new QueueStore();
  await store.call("Create Queue", QUEUE);
  await putMany(store, count, query);
  return store;
}

async function putMany(
  store: QueueStore,
  count: number,
  query: Record<string, number> = {},
): Promise<Told[]> {
  const told: Told[] = [];
  for (let i = 0; i < count; i++) {
    const { status, messages } = await store.call("Put Message", QUEUE, { query, text: `m${i}` });
    assert.equal(status, 201);
    told.push(...messages);
  }
  return told;
}

const get = (store: QueueStore, count = 1) =>
  store.call("Get Messages", QUEUE, { query: { numofmessages: count } });
const peek = (store: QueueStore, count = 1) =>
  store.call("Peek Messages", QUEUE, { query: { numofmessages: count } });

async function countOf(store: QueueStore): Promise<unknown> {
  const { headers } = await store.call("Get Queue Metadata", QUEUE);
  return headers["x-ms-approximate-messages-count"];
}

/** The rows that one call looked at and changed. */
async function costOf(store: QueueStore, call: () => Promise<unknown>): Promise<number[]> {
  const { rowsRead, rowsWritten } = store;
  await call();
  return [store.rowsRead - rowsRead, store.rowsWritten - rowsWritten];
}

/** What each operation costs on a queue with so many messages that wait, are hidden, or are visible. */
async function costs(depth: number): Promise<Record<string, number[]>> {
  const store = await filled(depth, { visibilitytimeout: 3600 });
  await putMany(store, depth);
  for (let i = 0; i < depth; i += 32) await get(store, 32);
  await putMany(store, 40);
  await putMany(store, depth);
  const [first] = (await get(store)).messages;
  const names = [...QUEUE, first?.id ?? ""];
  const popreceipt = first?.receipt ?? "";
  return {
    put: await costOf(store, () => putMany(store, 1)),
    get: await costOf(store, () => get(store)),
    getMany: await costOf(store, () => get(store, 32)),
    peek: await costOf(store, () => peek(store, 32)),
    delete: await costOf(store, () =>
      store.call("Delete Message", names, { query: { popreceipt } }),
    ),
    count: await costOf(store, () => countOf(store)),
    clear: await costOf(store, () => store.call("Clear Messages", QUEUE)),
    deleteQueue: await costOf(store, () => store.call("Delete Queue", QUEUE)),
  };
}

test("no operation touches more rows in a deep queue than in a shallow one", async () => {
  const shallow = await costs(64);
  assert.deepEqual(await costs(1024), shallow);
  const { put, get: got, delete: deleted, clear } = shallow;
  assert.deepEqual(
    [put, got, deleted, clear],
    [
      [1, 3],
      [2, 3],
      [2, 3],
      [1, 4],
    ],
  );
});

test("a message whose text is damaged is given to nobody, told of, and blocks no other", async () => {
  const store = await filled(0);
  const text = "t".repeat(1000);
  await store.call("Put Message", QUEUE, { text });
  await putMany(store, 1);
  await store.engine.write(async (tx) => {
    const [row] = await messages.walk(tx, [], { limit: 1 });
    assert.ok(row !== undefined && "heap" in row.value.text);
    tx.putHeap(row.value.text.heap, Buffer.from(text.replace("t", "u")));
  });
  assert.deepEqual(
    (await peek(store, 2)).messages.map(({ text }) => text),
    ["m0"],
  );
  assert.deepEqual(
    (await get(store, 2)).messages.map(({ text }) => text),
    ["m0"],
  );
  assert.match(store.logged.join(), /^the text of a message is damaged/);
  assert.match((await store.problems()).join(), /^message \S+: its text is damaged$/);
});

suite("messages that have expired and that no sweep has met", () => {
  for (const call of [get, peek]) {
    test(`${call.name}: are passed by, however many they are`, async () => {
      const store = await filled(1500, { messagettl: 10 });
      await putMany(store, 3, { messagettl: 100 });
      await putMany(store, 700, { messagettl: 10 });
      await putMany(store, 2, { messagettl: -1 });
      store.now += 10_000;
      const { messages } = await call(store, 5);
      assert.deepEqual(
        messages.map(({ text }) => text),
        ["m0", "m1", "m2", "m0", "m1"],
      );
      assert.deepEqual(await store.problems(), []);
    });

    test(`${call.name}: are not there, if there is nothing else`, async () => {
      const store = await filled(1100, { messagettl: 10 });
      store.now += 9_999;
      assert.equal((await peek(store)).messages.length, 1);
      store.now += 1;
      const { status, messages } = await call(store, 32);
      assert.deepEqual([status, messages], [200, []]);
    });
  }

  test("Get Messages clears them away as it goes, and counts", async () => {
    const store = await filled(1500, { messagettl: 10 });
    await putMany(store, 3, { messagettl: 100 });
    store.now += 10_000;
    assert.equal(await countOf(store), 1503);
    await get(store, 2);
    assert.equal(await countOf(store), 3);
  });

  test("the sweep goes past one that is damaged, and tells of it", async () => {
    const store = await filled(100, { messagettl: 10 });
    const broken = await store.engine.write(async (tx) => {
      const [row] = await messages.walk(tx, [], { limit: 1 });
      assert.ok(row);
      tx.put(messages.packed(row.key), Buffer.of(99));
      return row.key;
    });
    store.now += 10_000;
    await assert.rejects(store.sweep(), /unknown version 99/);
    const left = await store.engine.read((tx) =>
      tx.range({ from: messages.packed([]), to: messages.packed([2n ** 64n - 1n]), limit: 100 }),
    );
    assert.deepEqual(
      left.map(({ key }) => messages.unpacked(key)),
      [broken],
    );
    assert.equal(await countOf(store), 1);
  });

  test("the sweep removes all that is kept of them", async () => {
    const store = await filled(0);
    await store.call("Put Message", QUEUE, { query: { messagettl: 5 }, text: "x".repeat(5000) });
    await putMany(store, 600, { messagettl: 5 });
    await get(store, 10);
    await putMany(store, 1, { messagettl: 6 });
    store.now += 5_000;
    await store.sweep();
    assert.equal(await countOf(store), 1);
    const rows = await store.engine.read(async (tx) => [
      (await messages.walk(tx, [], { limit: 10 })).length,
      (await expiries.walk(tx, [], { limit: 10 })).length,
    ]);
    assert.deepEqual(rows, [1, 1]);
    assert.deepEqual(await store.problems(), []);
  });
});

for (const name of ["Clear Messages", "Delete Queue"]) {
  test(`${name}: the messages are gone at once, and taken apart by the sweep`, async () => {
    const store = await filled(600);
    const [gotten] = (await get(store)).messages;
    await store.call(name, QUEUE);
    await store.call("Create Queue", QUEUE);
    assert.equal(await countOf(store), 0);
    assert.deepEqual((await peek(store)).messages, []);
    const query = { popreceipt: gotten?.receipt ?? "" };
    const answer = await store.call("Delete Message", [...QUEUE, gotten?.id ?? ""], { query });
    assert.equal(answer.code, "MessageNotFound");
    await putMany(store, 1);
    assert.deepEqual(await store.problems(), []);
    store.now += 8 * 86_400_000; // those that are left expire as well, beside the garbage
    await putMany(store, 1);
    await store.sweep();
    const left = await store.engine.read((tx) => messages.walk(tx, [], { limit: 10 }));
    assert.equal(left.length, 1);
    assert.equal(await countOf(store), 1);
    assert.deepEqual(await store.problems(), []);
  });
}

test("messages come first in, first out; one that comes back stands behind those that were visible", async () => {
  const store = await filled(3);
  await store.call("Get Messages", QUEUE, { query: { visibilitytimeout: 5 } });
  store.now += 4_999;
  await putMany(store, 1);
  assert.deepEqual(
    (await peek(store, 32)).messages.map(({ text }) => text),
    ["m1", "m2", "m0"],
  );
  store.now += 1;
  assert.deepEqual(
    (await peek(store, 32)).messages.map(({ text, dequeueCount }) => [text, dequeueCount]),
    [
      ["m1", "0"],
      ["m2", "0"],
      ["m0", "0"],
      ["m0", "1"],
    ],
  );
});

suite("check", () => {
  const account = "devstoreaccount1";
  const place = { visibleAt: 1, tick: 1n };
  const damages: [
    what: string,
    damage: Parameters<QueueStore["engine"]["write"]>[0],
    said: RegExp,
  ][] = [
    [
      "a count that is wrong",
      async (tx) => {
        const state = await queueStates.get(tx, account, "deep");
        if (state !== undefined) queueStates.put(tx, [account, "deep"], { ...state, count: 7 });
      },
      /^queue devstoreaccount1\/deep: 2 messages are there, 7 are counted$/,
    ],
    [
      "an expiry that names nothing",
      async (tx) => expiries.put(tx, [5, 5n, 5n], place),
      /^expiry 5 of message number 5: there is no such message$/,
    ],
    [
      "a message that no expiry names",
      async (tx) => {
        const [row] = await expiries.walk(tx, [], { limit: 1 });
        if (row !== undefined) expiries.delete(tx, ...row.key);
      },
      /^message \S+: the index of expiry does not lead to it$/,
    ],
    [
      "a text that is missing",
      async (tx) => {
        const [row] = await messages.walk(tx, [], { limit: 1 });
        if (row !== undefined) messages.put(tx, row.key, { ...row.value, text: { heap: 9n } });
      },
      /^message \S+: its text is missing$/,
    ],
    [
      "messages of no queue",
      async (tx) => {
        const [row] = await messages.walk(tx, [], { limit: 1 });
        if (row !== undefined)
          messages.put(tx, [3n, 3, 3n], { ...row.value, expiresAt: 253_402_300_799_000 });
      },
      /^1 messages of number 3: they belong to no queue$/,
    ],
    [
      "a queue without a record",
      async (tx) => queues.delete(tx, account, "deep"),
      /^queue devstoreaccount1\/deep: it has messages, and no record$/,
    ],
    [
      "a queue without a state",
      async (tx) => queues.put(tx, [account, "other"], { metadata: {}, policies: [] }),
      /^queue devstoreaccount1\/other: its state is missing$/,
    ],
    [
      "a number that is nobody's",
      async (tx) => queueNames.put(tx, [4n], { account, name: "deep" }),
      /^queue devstoreaccount1\/deep: it has an old number$/,
    ],
  ];
  for (const [what, damage, said] of damages) {
    test(`finds ${what}`, async () => {
      const store = await filled(2);
      assert.deepEqual(await store.problems(), []);
      await store.engine.write(damage);
      const problems = await store.problems();
      assert.equal(problems.length, 1, problems.join("\n"));
      assert.match(problems[0] ?? "", said);
    });
  }
});
