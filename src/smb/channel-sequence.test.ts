import assert from "node:assert/strict";
import { test } from "node:test";
import { ChannelSequence } from "./channel-sequence.ts";

const plain = { isAgain: false, changes: true };
const again = { isAgain: true, changes: true };

// Where the open is, what a request says, and whether it runs.
const rows: [open: number, request: number, want: boolean][] = [
  [0, 0, true],
  [0, 1, true],
  [0, 0x7fff, true],
  [0, 0x8000, false],
  [0, 0xffff, false],
  [5, 4, false],
  [0xffff, 0, true],
  [0xffff, 0x7ffe, true],
  [0xffff, 0x7fff, false],
];
for (const [open, number, want] of rows) {
  test(`ChannelSequence at ${open}: a write of ${number}`, () => {
    const sequence = new ChannelSequence(open);
    assert.equal(sequence.begin({ ...plain, number }) !== undefined, want);
    assert.notEqual(sequence.begin({ isAgain: false, changes: false, number }), undefined);
  });
}

test("ChannelSequence: a write that is sent again waits until its first sending is over", () => {
  const sequence = new ChannelSequence(0);
  const over = sequence.begin({ ...plain, number: 0 });
  assert.equal(sequence.begin({ ...again, number: 1 }), undefined);
  const other = sequence.begin({ ...plain, number: 1 });
  other?.();
  assert.equal(sequence.begin({ ...again, number: 1 }), undefined);
  over?.();
  assert.notEqual(sequence.begin({ ...again, number: 1 }), undefined);
});

test("ChannelSequence: what a client lost twice ago still counts", () => {
  const sequence = new ChannelSequence(0);
  const first = sequence.begin({ ...plain, number: 0 });
  const second = sequence.begin({ ...plain, number: 1 });
  second?.();
  assert.equal(sequence.begin({ ...again, number: 2 }), undefined);
  first?.();
  assert.notEqual(sequence.begin({ ...again, number: 2 }), undefined);
});

test("ChannelSequence: a client that logs on anew counts from where it says", () => {
  const sequence = new ChannelSequence(7);
  const over = sequence.begin({ ...plain, number: 7 });
  sequence.restart(0);
  assert.notEqual(sequence.begin({ ...plain, number: 0 }), undefined);
  assert.equal(sequence.begin({ ...again, number: 0 }), undefined);
  over?.();
  assert.notEqual(sequence.begin({ ...again, number: 0 }), undefined);
});
