import assert from "node:assert/strict";
import { test } from "node:test";
import { NEVER } from "../rules/messages.ts";
import {
  type MessageRecord,
  messagePlaceRecord,
  messageRecord,
  queueStateRecord,
} from "./queue-records.ts";
import type { Codec } from "./subspace.ts";

/** As an engine gives it back: bytes somewhere within a larger buffer. */
function reread<T>({ encode, decode }: Codec<T>, value: T): T {
  const bytes = encode(value);
  const around = new Uint8Array(bytes.length + 7);
  around.set(bytes, 3);
  return decode(around.subarray(3, 3 + bytes.length));
}

const message: MessageRecord = {
  id: "01234567-89ab-4def-a123-456789abcdef",
  number: 638_000_000_000_000_001n,
  expiresAt: NEVER,
  dequeueCount: 2 ** 32 - 1,
  text: { heap: 2n ** 64n - 1n },
};

const messages: [what: string, record: MessageRecord][] = [
  ["a text in the heap", { ...message, text: { heap: 2n ** 64n - 1n, sum: 2 ** 32 - 1 } }],
  ["a text in the heap, without a sum", message],
  ["a text in the record", { ...message, text: { bytes: Buffer.from("größe 😀\0") } }],
  ["an empty text", { ...message, dequeueCount: 0, text: { bytes: Buffer.alloc(0) } }],
];
for (const [what, record] of messages) {
  test(`messageRecord: ${what} comes back as it was`, () =>
    assert.deepEqual(reread(messageRecord, record), record));
}

test("queueStateRecord, messagePlaceRecord: the largest values come back as they were", () => {
  const state = { generation: 2n ** 64n - 1n, count: 2 ** 48 - 1 };
  assert.deepEqual(reread(queueStateRecord, state), state);
  const place = { visibleAt: NEVER, tick: 2n ** 64n - 1n };
  assert.deepEqual(reread(messagePlaceRecord, place), place);
});

for (const [name, codec] of Object.entries({
  queueStateRecord,
  messagePlaceRecord,
  messageRecord,
})) {
  test(`${name}: a record of an unknown version is not guessed at`, () =>
    assert.throws(() => codec.decode(Buffer.alloc(60, 9)), /unknown version 9/));
}
