import assert from "node:assert/strict";
import { test } from "node:test";
import { CREDITS_MAX, Credits } from "./credits.ts";

test("Credits: each number is used once, and only when it was granted", () => {
  const credits = new Credits();
  assert.ok(!credits.take(1n, 1), "not granted yet");
  assert.ok(credits.take(0n, 1));
  assert.ok(!credits.take(0n, 1), "used");
  assert.equal(credits.grant(10), 10);
  assert.ok(credits.take(3n, 2), "out of order");
  assert.ok(!credits.take(2n, 2), "one of them is used");
  assert.ok(credits.take(1n, 2));
  assert.ok(credits.take(5n, 6));
  assert.ok(!credits.take(11n, 1));
  assert.ok(!credits.take(2n ** 63n, 1));
});

test("Credits: the window is as long as the limit, from the lowest number that is not used", () => {
  const credits = new Credits();
  assert.ok(credits.take(0n, 1));
  assert.equal(credits.grant(0), 1, "nobody is left without one");
  assert.equal(credits.grant(65535), CREDITS_MAX - 1);
  assert.equal(credits.grant(65535), 0);
  assert.ok(credits.take(2n, 100));
  assert.equal(credits.grant(100), 0, "number 1 is still out");
  assert.ok(credits.take(1n, 1));
  assert.equal(credits.grant(1000), 101);
});
