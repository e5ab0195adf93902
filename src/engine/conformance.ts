import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import type { Clock } from "../base/time.ts";
import type { Engine, WriteTx } from "./engine.ts";

const bytes = (text: string) => Buffer.from(text);
const text = (value: Uint8Array | undefined) =>
  value === undefined ? undefined : Buffer.from(value).toString();

/** How a suite gets its engines; `reopen` closes one and opens what it kept, if it keeps anything. */
export type EngineUnderTest = {
  open(clock: Clock): Promise<Engine>;
  reopen?(engine: Engine, clock: Clock): Promise<Engine>;
  clean?(): void;
};

/** What every engine promises. Each engine's test file runs this, whole. */
export function engineConformance(name: string, { open, reopen, clean }: EngineUnderTest): void {
  const clock = { at: Date.UTC(2026, 0, 1), now: () => clock.at };
  const put = (engine: Engine, key: string, value: string) =>
    engine.write(async (tx) => tx.put(bytes(key), bytes(value)));
  const get = (engine: Engine, key: string) =>
    engine.read(async (tx) => text(await tx.get(bytes(key))));
  const keys = (entries: readonly { key: Uint8Array }[]) => entries.map(({ key }) => text(key));

  suite(`${name} engine`, () => {
    after(() => clean?.());

    test("a write is there for every later read", async () => {
      const engine = await open(clock);
      assert.equal(await get(engine, "k"), undefined);
      await put(engine, "k", "one");
      await put(engine, "k", "two");
      assert.equal(await get(engine, "k"), "two");
      await engine.write(async (tx) => tx.delete(bytes("k")));
      assert.equal(await get(engine, "k"), undefined);
      await engine.close();
    });

    test("a write that is given out soon is there for every later body, and settled() waits for it", async () => {
      const engine = await open(clock);
      let effects = 0;
      const result = await engine.write(async (tx) => {
        tx.put(bytes("k"), bytes("soon"));
        tx.afterCommit(() => effects++);
        return "given";
      }, "soon");
      assert.equal(result, "given");
      const seen = await engine.read(async (tx) => text(await tx.get(bytes("k"))), "soon");
      assert.equal(seen, "soon");
      await assert.rejects(
        engine.write(async () => {
          throw new Error("refused");
        }, "soon"),
        /refused/,
      );
      await engine.settled();
      assert.equal(effects, 1);
      await engine.settled();
      await engine.write(async (tx) => tx.put(bytes("l"), bytes("last")), "soon");
      if (reopen === undefined) await engine.close();
      else {
        const again = await reopen(engine, clock);
        assert.equal(await get(again, "l"), "last", "closing an engine makes all durable");
        await again.close();
      }
    });

    test("a body that throws leaves nothing behind", async () => {
      const engine = await open(clock);
      let effects = 0;
      const failed = engine.write(async (tx) => {
        tx.put(bytes("k"), bytes("lost"));
        tx.putHeap(tx.tick(), bytes("lost"));
        tx.afterCommit(() => effects++);
        throw new Error("give up");
      });
      await assert.rejects(failed, /give up/);
      assert.equal(await get(engine, "k"), undefined);
      assert.equal(effects, 0);
      await engine.close();
    });

    test("the heap's numbers are told in order, a body's own among them", async () => {
      const engine = await open(clock);
      const ids = await engine.write(async (tx) => {
        const numbers = Array.from({ length: 5 }, () => tx.tick());
        for (const id of numbers) tx.putHeap(id, bytes("v"));
        return numbers;
      });
      const [first, second, third, fourth, fifth] = ids as [bigint, bigint, bigint, bigint, bigint];
      assert.deepEqual(await engine.read((tx) => tx.heapIds(0n, 2)), [first, second]);
      assert.deepEqual(await engine.read((tx) => tx.heapIds(third, 9)), [fourth, fifth]);
      await engine.write(async (tx) => {
        tx.deleteHeap(second);
        const sixth = tx.tick();
        tx.putHeap(sixth, bytes("v"));
        assert.deepEqual(await tx.heapIds(first, 2), [third, fourth]);
        assert.deepEqual(await tx.heapIds(fourth, 9), [fifth, sixth]);
        tx.deleteHeap(sixth);
      });
      assert.deepEqual(await engine.read((tx) => tx.heapIds(0n, 9)), [first, third, fourth, fifth]);
      await engine.close();
    });

    test("a body sees its own writes, in get and in range", async () => {
      const engine = await open(clock);
      await put(engine, "b", "old");
      await put(engine, "d", "old");
      await engine.write(async (tx) => {
        tx.put(bytes("a"), bytes("new"));
        tx.put(bytes("d"), bytes("new"));
        tx.delete(bytes("b"));
        assert.equal(text(await tx.get(bytes("a"))), "new");
        assert.equal(await tx.get(bytes("b")), undefined);
        const found = await tx.range({ from: bytes("a"), to: bytes("z"), limit: 10 });
        assert.deepEqual(keys(found), ["a", "d"]);
        assert.equal(text(found[1]?.value), "new");
        const last = await tx.range({ from: bytes("a"), to: bytes("z"), limit: 1, reverse: true });
        assert.deepEqual(keys(last), ["d"]);
      });
      await engine.close();
    });

    test("range goes in byte order, from inclusive, to exclusive, up to the limit", async () => {
      const engine = await open(clock);
      const all = ["a", "a\0", "a\x01", "aa", "b", "ä", "\u{10000}"];
      for (const key of [...all].reverse()) await put(engine, key, key);
      const range = (from: string, to: string, limit: number, reverse = false) =>
        engine.read(async (tx) =>
          keys(await tx.range({ from: bytes(from), to: bytes(to), limit, reverse })),
        );
      assert.deepEqual(await range("", "\u{10ffff}", 100), all);
      assert.deepEqual(await range("a\0", "b", 100), ["a\0", "a\x01", "aa"]);
      assert.deepEqual(await range("a", "b", 2), ["a", "a\0"]);
      assert.deepEqual(await range("a", "b", 2, true), ["aa", "a\x01"]);
      assert.deepEqual(await range("x", "y", 5), []);
      assert.deepEqual(await range("b", "a", 5), []);
      await engine.close();
    });

    test("any byte may stand in a key or value, and either may be long", async () => {
      const engine = await open(clock);
      const key = Buffer.from([0, 255, 0, 1, ...Array<number>(4000).fill(255)]);
      const value = Buffer.alloc(300_000, 0xa5);
      await engine.write(async (tx) => tx.put(key, value));
      const found = await engine.read((tx) => tx.get(key));
      assert.ok(found !== undefined && value.equals(found));
      await engine.close();
    });

    test("concurrent read-check-write bodies count without a loss", async () => {
      const engine = await open(clock);
      const increment = async (tx: WriteTx) => {
        const count = Number(text(await tx.get(bytes("n"))) ?? "0");
        tx.put(bytes("n"), bytes(String(count + 1)));
      };
      await Promise.all(Array.from({ length: 500 }, () => engine.write(increment)));
      assert.equal(await get(engine, "n"), "500");
      await engine.close();
    });

    test("a read sees one state: two keys that are written together never differ", async () => {
      const engine = await open(clock);
      const both = (value: string) =>
        engine.write(async (tx) => {
          tx.put(bytes("x"), bytes(value));
          await tx.get(bytes("x"));
          tx.put(bytes("y"), bytes(value));
        });
      await both("0");
      const pairs = Array.from({ length: 200 }, (_, i) => [
        both(String(i)),
        engine.read(async (tx) => {
          const x = text(await tx.get(bytes("x")));
          assert.equal(text(await tx.get(bytes("y"))), x);
        }),
      ]);
      await Promise.all(pairs.flat());
      await engine.close();
    });

    test("one failing body does not fail those beside it", async () => {
      const engine = await open(clock);
      const outcomes = await Promise.allSettled([
        put(engine, "a", "1"),
        engine.write(async (tx) => {
          tx.put(bytes("a"), bytes("2"));
          throw new Error("no");
        }),
        put(engine, "b", "1"),
      ]);
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ["fulfilled", "rejected", "fulfilled"],
      );
      assert.equal(await get(engine, "a"), "1");
      assert.equal(await get(engine, "b"), "1");
      await engine.close();
    });

    test("a heap value takes the number of an older one, if it is of the same transaction", async () => {
      const engine = await open(clock);
      const [older, other] = await engine.write(async (tx) => {
        const numbers = [tx.tick(), tx.tick()] as const;
        for (const number of numbers) tx.putHeap(number, bytes("older"));
        return numbers;
      });
      const put = await engine.write(async (tx) => {
        const number = tx.tick();
        tx.putHeap(number, bytes("newer, and longer"));
        assert.equal(tx.moveHeap(number, older), true);
        assert.equal(tx.moveHeap(number, other), false, "it was moved");
        assert.equal(tx.moveHeap(older + 1n, older), false, "it is of an earlier transaction");
        assert.equal(text(await tx.getHeap(older)), "newer, and longer");
        assert.equal(await tx.getHeap(number), undefined);
        return number;
      });
      await engine.read(async (tx) => {
        assert.equal(text(await tx.getHeap(older)), "newer, and longer");
        assert.equal(text(await tx.getHeap(other)), "older");
        assert.equal(await tx.getHeap(put), undefined);
        assert.deepEqual(await tx.heapIds(0n, 9), [older, other]);
      });
      await assert.rejects(
        engine.write(async (tx) => {
          const number = tx.tick();
          tx.putHeap(number, bytes("lost"));
          tx.moveHeap(number, other);
          throw new Error("refused");
        }),
      );
      assert.equal(text(await engine.read((tx) => tx.getHeap(other))), "older");
      await engine.close();
    });

    test("heap values come back by their number, until they are deleted", async () => {
      const engine = await open(clock);
      const id = await engine.write(async (tx) => {
        const number = tx.tick();
        tx.putHeap(number, bytes("large"));
        assert.equal(text(await tx.getHeap(number)), "large");
        return number;
      });
      assert.equal(text(await engine.read((tx) => tx.getHeap(id))), "large");
      await engine.write(async (tx) => tx.deleteHeap(id));
      assert.equal(await engine.read((tx) => tx.getHeap(id)), undefined);
      await engine.close();
    });

    test("afterCommit happens once, when the write is done", async () => {
      const engine = await open(clock);
      const order: string[] = [];
      await engine.write(async (tx) => {
        tx.put(bytes("k"), bytes("v"));
        tx.afterCommit(() => order.push("effect"));
        order.push("body");
      });
      assert.equal(order.at(-1), "effect");
      assert.equal(order.filter((step) => step === "effect").length, 1);
      await engine.close();
    });

    test("ticks always grow, also when the clock stands still or steps back", async () => {
      const engine = await open(clock);
      const ticks: bigint[] = [];
      const take = () => engine.write(async (tx) => void ticks.push(tx.tick(), tx.tick()));
      await take();
      await take();
      clock.at -= 3_600_000;
      await take();
      const times = await engine.read(async (tx) => tx.now);
      clock.at += 3_600_000;
      assert.ok(times >= clock.at, "time does not run backwards either");
      for (let i = 1; i < ticks.length; i++) assert.ok((ticks[i] ?? 0n) > (ticks[i - 1] ?? 0n));
      await engine.close();
    });

    test("time does not run backwards where nothing is written either", async () => {
      const engine = await open(clock);
      clock.at += 60_000;
      const seen = await engine.read(async (tx) => tx.now);
      clock.at -= 60_000;
      assert.ok((await engine.read(async (tx) => tx.now)) >= seen);
      await assert.rejects(
        engine.write(async (tx) => {
          assert.ok(tx.now >= seen);
          throw new Error("refused");
        }),
        /refused/,
      );
      await engine.close();
    });

    test("nothing begins after close, and what had begun is finished", async () => {
      const engine = await open(clock);
      const writes = Array.from({ length: 20 }, (_, i) => put(engine, `k${i}`, "v"));
      await engine.close();
      await Promise.all(writes);
      await assert.rejects(get(engine, "k1"));
      await assert.rejects(put(engine, "k1", "v"));
    });

    if (reopen !== undefined) {
      test("what was written is there after reopening, and ticks go on from there", async () => {
        const engine = await open(clock);
        await put(engine, "k", "kept");
        const [id, before] = await engine.write(async (tx) => {
          const number = tx.tick();
          tx.putHeap(number, bytes("kept"));
          return [number, tx.tick()] as const;
        });
        clock.at -= 86_400_000;
        const again = await reopen(engine, clock);
        assert.equal(await get(again, "k"), "kept");
        assert.equal(text(await again.read((tx) => tx.getHeap(id))), "kept");
        assert.ok((await again.write(async (tx) => tx.tick())) > before);
        clock.at += 86_400_000;
        await again.close();
      });
    }
  });
}
