import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { type QueueClient, QueueServiceClient } from "@azure/storage-queue";
import { type RawReply, type RawRequest, send } from "./raw.ts";
import { at, startServer, type TestServer } from "./server.ts";

let server: TestServer;
let service: QueueServiceClient;
let count = 0;

before(async () => {
  server = at(await startServer(), "queue");
  service = QueueServiceClient.fromConnectionString(server.connectionString);
});

after(() => server.stop());

async function fresh(): Promise<QueueClient> {
  const queue = service.getQueueClient(`m-${process.pid}-${++count}`);
  await queue.create();
  return queue;
}

const raw = (
  queue: QueueClient,
  method: string,
  more: Partial<RawRequest> & { id?: string } = {},
) =>
  send(server, {
    method,
    path: `/${queue.name}/messages${more.id === undefined ? "" : `/${more.id}`}`,
    ...more,
  });

const bodyOf = (text: string) =>
  `<?xml version="1.0" encoding="utf-8"?><QueueMessage><MessageText>${text}</MessageText></QueueMessage>`;

const elementIn = (text: string, name: string) =>
  new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1];

const isDate = (text: string | undefined) =>
  assert.match(text ?? "", /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/);

function isAnswer(reply: RawReply, status: number, code?: string): void {
  assert.deepEqual([reply.status, reply.code], [status, code], reply.text);
}

suite("Put Message", () => {
  test("tells nothing, and lets no message live longer than a week, in versions that did not", async () => {
    const queue = await fresh();
    const put = (version: string, query: Record<string, string>) =>
      raw(queue, "POST", { body: bodyOf("m"), query, headers: { "x-ms-version": version } });
    const reply = await put("2015-12-11", {});
    isAnswer(reply, 201);
    assert.equal(reply.text, "");
    isAnswer(await put("2017-04-17", { messagettl: "-1" }), 400, "OutOfRangeQueryParameterValue");
    isAnswer(await put("2017-07-29", { messagettl: "-1" }), 201);
  });

  test("answers with id, times and a receipt, and without the text", async () => {
    const reply = await raw(await fresh(), "POST", { body: bodyOf("hello") });
    isAnswer(reply, 201);
    assert.match(String(reply.headers["content-type"]), /^application\/xml/);
    const names = [...reply.text.matchAll(/<(\w+)>/g)].map(([, name]) => name);
    assert.deepEqual(names, [
      "QueueMessagesList",
      "QueueMessage",
      "MessageId",
      "InsertionTime",
      "ExpirationTime",
      "PopReceipt",
      "TimeNextVisible",
    ]);
    assert.match(
      elementIn(reply.text, "MessageId") ?? "",
      /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
    );
    const inserted = elementIn(reply.text, "InsertionTime");
    const expires = elementIn(reply.text, "ExpirationTime");
    isDate(inserted);
    isDate(expires);
    assert.equal(Date.parse(expires ?? "") - Date.parse(inserted ?? ""), 7 * 86_400_000);
    assert.equal(elementIn(reply.text, "TimeNextVisible"), inserted);
  });

  test("takes a time to live and a delay", async () => {
    const queue = await fresh();
    const options = { messageTimeToLive: 3600, visibilityTimeout: 60 };
    const put = await queue.sendMessage("later", options);
    assert.equal(Number(put.expiresOn) - Number(put.insertedOn), 3_600_000);
    assert.equal(Number(put.nextVisibleOn) - Number(put.insertedOn), 60_000);
    assert.deepEqual((await queue.receiveMessages()).receivedMessageItems, []);
    assert.equal((await queue.getProperties()).approximateMessagesCount, 1);
  });

  test("-1 never expires", async () => {
    const queue = await fresh();
    const put = await queue.sendMessage("for ever", { messageTimeToLive: -1 });
    assert.equal(put.expiresOn.toUTCString(), "Fri, 31 Dec 9999 23:59:59 GMT");
    const long = await queue.sendMessage("for long", { messageTimeToLive: 2_147_483_647 });
    assert.equal(Number(long.expiresOn) - Number(long.insertedOn), 2_147_483_647_000);
  });

  test("its receipt deletes the message, and updates it", async () => {
    const queue = await fresh();
    const { messageId, popReceipt } = await queue.sendMessage("one");
    const updated = await queue.updateMessage(messageId, popReceipt, "two", 0);
    await queue.deleteMessage(messageId, updated.popReceipt ?? "");
    assert.deepEqual((await queue.peekMessages()).peekedMessageItems, []);
  });

  const texts: [what: string, text: string][] = [
    ["an empty text", ""],
    ["plain text", "hello, world"],
    ["Base64", Buffer.from("hello").toString("base64")],
    ["markup", `<a b="c">&amp;</a>]]><![CDATA[x]]>`],
    ["white space", " \t\n a \n\n b "],
    ["other scripts", "größe 漢字 😀 \u2028\u0085\ufeff\ufffd"],
    ["JSON", '{"a":[1,2,"\\u0000"]}'],
    ["64 KiB", "x".repeat(65_536)],
    ["64 KiB of quotes", '"'.repeat(65_536)],
    ["64 KiB of three bytes each", `${"漢".repeat(21_845)}x`],
  ];
  for (const [what, text] of texts) {
    test(`${what} comes back as it was`, async () => {
      const queue = await fresh();
      await queue.sendMessage(text);
      const { peekedMessageItems } = await queue.peekMessages();
      assert.equal(peekedMessageItems[0]?.messageText, text);
      const { receivedMessageItems } = await queue.receiveMessages();
      assert.equal(receivedMessageItems[0]?.messageText, text);
    });
  }

  test("a carriage return that is written as one comes back as one", async () => {
    const queue = await fresh();
    isAnswer(await raw(queue, "POST", { body: bodyOf("a&#xD;&#xA;b&#13;c") }), 201);
    assert.equal(elementIn((await raw(queue, "GET")).text, "MessageText"), "a&#xD;\nb&#xD;c");
  });

  test("markup that is not escaped is removed", async () => {
    const queue = await fresh();
    isAnswer(await raw(queue, "POST", { body: bodyOf("a<b>c</b>d") }), 201);
    assert.equal(elementIn((await raw(queue, "GET")).text, "MessageText"), "acd");
  });
});

suite("Get Messages", () => {
  test("gives one message by default, first in first out, with all that is known of it", async () => {
    const queue = await fresh();
    for (const text of ["one", "two", "three"]) await queue.sendMessage(text);
    const reply = await raw(queue, "GET");
    isAnswer(reply, 200);
    const names = [...reply.text.matchAll(/<(\w+)>/g)].map(([, name]) => name);
    assert.deepEqual(names, [
      "QueueMessagesList",
      "QueueMessage",
      "MessageId",
      "InsertionTime",
      "ExpirationTime",
      "PopReceipt",
      "TimeNextVisible",
      "DequeueCount",
      "MessageText",
    ]);
    assert.equal(elementIn(reply.text, "MessageText"), "one");
    assert.equal(elementIn(reply.text, "DequeueCount"), "1");
    const next = Date.parse(elementIn(reply.text, "TimeNextVisible") ?? "");
    const date = Date.parse(String(reply.headers.date));
    assert.ok(Math.abs(next - date - 30_000) <= 2000, "30 seconds after the retrieval");
    const rest = await queue.receiveMessages({ numberOfMessages: 32, visibilityTimeout: 600 });
    assert.deepEqual(
      rest.receivedMessageItems.map(({ messageText }) => messageText),
      ["two", "three"],
    );
    assert.deepEqual((await queue.receiveMessages()).receivedMessageItems, []);
    assert.equal((await queue.getProperties()).approximateMessagesCount, 3);
  });

  test("an empty queue gives an empty list", async () => {
    const reply = await raw(await fresh(), "GET");
    isAnswer(reply, 200);
    assert.match(reply.text, /<QueueMessagesList ?\/>$/);
  });

  test("a message made visible comes back with a greater count and another receipt", async () => {
    const queue = await fresh();
    await queue.sendMessage("again");
    const [first] = (await queue.receiveMessages()).receivedMessageItems;
    assert.ok(first !== undefined);
    const { popReceipt = "" } = await queue.updateMessage(
      first.messageId,
      first.popReceipt,
      undefined,
      0,
    );
    const [second] = (await queue.receiveMessages()).receivedMessageItems;
    assert.equal(second?.messageId, first.messageId);
    assert.equal(second?.messageText, "again");
    assert.deepEqual([first.dequeueCount, second?.dequeueCount], [1, 2]);
    for (const old of [first.popReceipt, popReceipt]) {
      const query = { popreceipt: old };
      const refused = await raw(queue, "DELETE", { id: first.messageId, query });
      isAnswer(refused, 404, "MessageNotFound");
    }
    await queue.deleteMessage(first.messageId, second?.popReceipt ?? "");
  });

  test("no message goes to two of many that ask at once", async () => {
    const queue = await fresh();
    const texts = Array.from({ length: 200 }, (_, index) => `message ${index}`);
    await Promise.all(texts.map((text) => queue.sendMessage(text)));
    const found: string[] = [];
    const consumer = async () => {
      for (;;) {
        const { receivedMessageItems } = await queue.receiveMessages({ numberOfMessages: 3 });
        if (receivedMessageItems.length === 0) return;
        for (const { messageText, messageId, popReceipt } of receivedMessageItems) {
          found.push(messageText);
          await queue.deleteMessage(messageId, popReceipt);
        }
      }
    };
    await Promise.all(Array.from({ length: 16 }, consumer));
    assert.deepEqual(new Set(found), new Set(texts));
    assert.equal(found.length, texts.length);
    assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
  });
});

suite("Peek Messages", () => {
  test("shows what is visible, and changes nothing", async () => {
    const queue = await fresh();
    await queue.sendMessage("hidden", { visibilityTimeout: 600 });
    for (const text of ["one", "two"]) await queue.sendMessage(text);
    for (let i = 0; i < 2; i++) {
      const { peekedMessageItems } = await queue.peekMessages({ numberOfMessages: 32 });
      assert.deepEqual(
        peekedMessageItems.map(({ messageText, dequeueCount }) => [messageText, dequeueCount]),
        [
          ["one", 0],
          ["two", 0],
        ],
      );
    }
    const reply = await raw(queue, "GET", { query: { peekonly: "true" } });
    assert.doesNotMatch(reply.text, /PopReceipt|TimeNextVisible/);
    assert.equal(elementIn(reply.text, "MessageText"), "one");
    const got = await raw(queue, "GET", { query: { peekonly: "false" } });
    assert.match(got.text, /PopReceipt/);
  });
});

suite("Update Message", () => {
  test("changes the text and the time, and gives a new receipt", async () => {
    const queue = await fresh();
    await queue.sendMessage("before");
    const [got] = (await queue.receiveMessages()).receivedMessageItems;
    assert.ok(got !== undefined);
    const query = { popreceipt: got.popReceipt, visibilitytimeout: "0" };
    const body = bodyOf("after");
    const reply = await raw(queue, "PUT", { id: got.messageId, query, body });
    isAnswer(reply, 204);
    assert.notEqual(reply.headers["x-ms-popreceipt"], got.popReceipt);
    isDate(String(reply.headers["x-ms-time-next-visible"]));
    isAnswer(await raw(queue, "PUT", { id: got.messageId, query, body }), 404, "MessageNotFound");
    const [seen] = (await queue.peekMessages()).peekedMessageItems;
    assert.deepEqual([seen?.messageText, seen?.dequeueCount], ["after", 1]);
  });

  test("without a body keeps the text, of whatever length", async () => {
    const queue = await fresh();
    for (const text of ["short", "l".repeat(50_000)]) {
      const { messageId, popReceipt } = await queue.sendMessage(text);
      await queue.updateMessage(messageId, popReceipt, undefined, 0);
      const [got] = (await queue.receiveMessages()).receivedMessageItems;
      assert.equal(got?.messageText, text);
      const hidden = await queue.updateMessage(
        messageId,
        got?.popReceipt ?? "",
        "x".repeat(60_000),
        3600,
      );
      assert.deepEqual((await queue.peekMessages()).peekedMessageItems, []);
      const shown = await queue.updateMessage(messageId, hidden.popReceipt ?? "", "", 0);
      assert.equal((await queue.peekMessages()).peekedMessageItems[0]?.messageText, "");
      await queue.deleteMessage(messageId, shown.popReceipt ?? "");
    }
  });

  test("one of many that update with the same receipt wins", async () => {
    const queue = await fresh();
    const { messageId, popReceipt } = await queue.sendMessage("contended");
    const query = { popreceipt: popReceipt, visibilitytimeout: "0" };
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        raw(queue, "PUT", { id: messageId, query, body: bodyOf(`winner ${index}`) }),
      ),
    );
    const winners = replies.flatMap(({ status }, index) => (status === 204 ? [index] : []));
    assert.equal(winners.length, 1);
    assert.ok(replies.every(({ status, code }) => status === 204 || code === "MessageNotFound"));
    const [seen] = (await queue.peekMessages()).peekedMessageItems;
    assert.equal(seen?.messageText, `winner ${winners[0]}`);
  });
});

suite("Delete Message", () => {
  test("answers 204 once, and 404 MessageNotFound after", async () => {
    const queue = await fresh();
    await queue.sendMessage("gone");
    const [got] = (await queue.receiveMessages()).receivedMessageItems;
    assert.ok(got !== undefined);
    const request = { id: got.messageId, query: { popreceipt: got.popReceipt } };
    isAnswer(await raw(queue, "DELETE", request), 204);
    isAnswer(await raw(queue, "DELETE", request), 404, "MessageNotFound");
    assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
  });
});

suite("Clear Messages", () => {
  test("removes all, also those that are hidden; older receipts lead nowhere", async () => {
    const queue = await fresh();
    for (let i = 0; i < 40; i++) await queue.sendMessage(`${i}`);
    const [got] = (await queue.receiveMessages()).receivedMessageItems;
    assert.equal((await queue.clearMessages())._response.status, 204);
    assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
    assert.deepEqual((await queue.peekMessages()).peekedMessageItems, []);
    const request = { id: got?.messageId ?? "", query: { popreceipt: got?.popReceipt ?? "" } };
    isAnswer(await raw(queue, "DELETE", request), 404, "MessageNotFound");
    await queue.sendMessage("new");
    assert.equal((await queue.getProperties()).approximateMessagesCount, 1);
    isAnswer(await raw(queue, "DELETE"), 204);
    isAnswer(await raw(queue, "DELETE"), 204);
  });
});
