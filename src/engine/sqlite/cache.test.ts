import assert from "node:assert/strict";
import { test } from "node:test";
import { Cache } from "./cache.ts";

const value = (size: number, fill: number) => Buffer.alloc(size, fill);

test("gives back what it was told last, and what it was told is not there", () => {
  const cache = new Cache<string>();
  assert.equal(cache.get("a"), undefined);
  cache.set("a", value(3, 1));
  cache.set("b", undefined);
  assert.deepEqual(cache.get("a"), value(3, 1));
  assert.equal(cache.get("b"), null);
  cache.set("a", value(0, 0));
  assert.equal(cache.get("a")?.length, 0);
  cache.set("a", undefined);
  assert.equal(cache.get("a"), null);
  cache.forget("a");
  assert.equal(cache.get("a"), undefined);
  cache.clear();
  assert.equal(cache.get("b"), undefined);
});

test("a value that is too large is not kept, nor what was there before it", () => {
  const cache = new Cache<string>();
  cache.set("a", value(3, 1));
  cache.set("a", value(16 * 1024 + 1, 2));
  assert.equal(cache.get("a"), undefined);
});

test("whatever it forgets, it never tells of anything but the last", () => {
  const cache = new Cache<number>();
  const last = new Map<number, Buffer | undefined>();
  const given: [Uint8Array, Buffer][] = [];
  let state = 7;
  const next = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state % below;
  };
  for (let step = 0; step < 60_000; step++) {
    const key = next(3_000);
    if (next(3) === 0) {
      const known = cache.get(key);
      if (known === undefined) continue;
      assert.deepEqual(known ?? undefined, last.get(key));
      if (known !== null && given.length < 200) given.push([known, Buffer.from(known)]);
    } else {
      const written = next(10) === 0 ? undefined : value(next(1_500), next(256));
      cache.set(key, written);
      last.set(key, written);
    }
  }
  for (const [bytes, then] of given)
    assert.deepEqual(Buffer.from(bytes), then, "what was given out stays");
});
