import assert from "node:assert/strict";
import { mock, suite, test } from "node:test";
import { recurring } from "./recurring.ts";

suite("recurring()", () => {
  test("runs at once, again after each pause, and not after it was stopped", async () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    const ends: (() => void)[] = [];
    const task = recurring(() => new Promise<void>((resolve) => ends.push(resolve)), 1_000);
    const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
    assert.equal(ends.length, 1);
    mock.timers.tick(5_000);
    assert.equal(ends.length, 1, "the first is still under way");
    ends[0]?.();
    await turn();
    mock.timers.tick(999);
    assert.equal(ends.length, 1);
    mock.timers.tick(1);
    assert.equal(ends.length, 2);
    ends[1]?.();
    await turn();
    await task.stop();
    mock.timers.tick(5_000);
    assert.equal(ends.length, 2);
    mock.timers.reset();
  });

  test("tells a run that is under way to stop, and waits for its end", async () => {
    let end = () => {};
    let asked = () => false;
    const task = recurring(async (isStopped) => {
      asked = isStopped;
      await new Promise<void>((resolve) => {
        end = resolve;
      });
    }, 1_000);
    assert.equal(asked(), false);
    let hasEnded = false;
    const stopped = task.stop().then(() => {
      hasEnded = true;
    });
    assert.equal(asked(), true);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(hasEnded, false);
    end();
    await stopped;
    assert.equal(hasEnded, true);
  });
});
