import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { Random } from "../simulation/power-cut.ts";
import { type Call, linearized, type Model } from "./linearizable.ts";

/** A register: what is written is read until the next write; "swap" needs the value that is there. */
type Input =
  | { readonly kind: "write"; readonly value: number }
  | { readonly kind: "read" }
  | { readonly kind: "swap"; readonly from: number; readonly to: number };
type Output = number | "done" | "refused";

const register: Model<number, Input, Output> = {
  initial: 0,
  next(state, { input, output }) {
    if (input.kind === "write") return [input.value];
    if (input.kind === "read") return output === state ? [state] : [];
    if (output === undefined) return state === input.from ? [input.to] : [];
    const isDone = output === "done";
    if (isDone !== (state === input.from)) return [];
    return [isDone ? input.to : state];
  },
  text: String,
};

const NEVER = Number.POSITIVE_INFINITY;
const call = (from: number, to: number, input: Input, output?: Output): Call<Input, Output> => ({
  client: 0,
  input,
  output,
  from,
  to,
});
const write = (from: number, to: number, value: number) =>
  call(from, to, { kind: "write", value }, to === NEVER ? undefined : "done");
const read = (from: number, to: number, value: number) => call(from, to, { kind: "read" }, value);
const swap = (from: number, to: number, values: [number, number], output?: Output) =>
  call(from, to, { kind: "swap", from: values[0], to: values[1] }, output);

const rows: [what: string, good: boolean, history: Call<Input, Output>[]][] = [
  ["no call at all", true, []],
  ["one after another", true, [write(1, 2, 5), read(3, 4, 5)]],
  ["a read of what was overwritten before it", false, [write(1, 2, 5), read(3, 4, 0)]],
  ["a read beside a write sees either", true, [write(1, 10, 5), read(2, 3, 0), read(4, 5, 5)]],
  ["a write is not undone", false, [write(1, 10, 5), read(2, 3, 5), read(4, 5, 0)]],
  [
    "two readers agree on the order of two writes",
    false,
    [write(1, 20, 1), write(2, 20, 2), read(3, 4, 1), read(5, 6, 2), read(7, 8, 1)],
  ],
  ["a write without an answer may have happened", true, [write(1, NEVER, 5), read(2, 3, 5)]],
  ["and may not have happened", true, [write(1, NEVER, 5), read(2, 3, 0)]],
  [
    "and may happen late",
    true,
    [write(1, NEVER, 5), read(2, 3, 0), write(4, 5, 7), read(6, 7, 7), read(8, 9, 5)],
  ],
  [
    "but happens once",
    false,
    [write(1, NEVER, 5), read(2, 3, 5), write(4, 5, 7), read(6, 7, 7), read(8, 9, 5)],
  ],
  ["not before it was sent", false, [read(1, 2, 5), write(3, NEVER, 5)]],
  [
    "of two swaps from the same value one is refused",
    true,
    [swap(1, 9, [0, 1], "done"), swap(2, 8, [0, 2], "refused")],
  ],
  ["not both are done", false, [swap(1, 9, [0, 1], "done"), swap(2, 8, [0, 2], "done")]],
  ["nor both refused", false, [swap(1, 9, [0, 1], "refused"), swap(2, 8, [0, 2], "refused")]],
  [
    "a swap without an answer explains a refusal",
    true,
    [swap(1, NEVER, [0, 1]), swap(2, 3, [0, 2], "refused"), read(4, 5, 1)],
  ],
  ["times that touch may overlap", true, [write(1, 2, 5), read(2, 3, 0)]],
];

suite("linearized()", () => {
  for (const [what, good, history] of rows) {
    test(what, () => {
      const { kind } = linearized(register, history);
      assert.equal(kind, good ? "linearizable" : "violated");
    });
  }

  test("gives an order that is one, and tells where it got stuck", () => {
    const history = [write(1, 10, 5), read(2, 3, 0), read(4, 5, 5)];
    const found = linearized(register, history);
    assert.ok(found.kind === "linearizable");
    assert.deepEqual(found.order, [history[1], history[0], history[2]]);
    const bad = [write(1, 2, 5), read(3, 4, 0)];
    const violated = linearized(register, bad);
    assert.ok(violated.kind === "violated");
    assert.deepEqual([violated.order, violated.state, violated.stuck], [[bad[0]], 5, [bad[1]]]);
  });

  test("a search that is too long is told as such", () => {
    const history = Array.from({ length: 30 }, (_, i) => write(i, 100 + i, i));
    assert.equal(linearized(register, [...history, read(200, 201, -1)], 1000).kind, "unknown");
  });

  test("several states after one call are all tried", () => {
    const coin: Model<string, "toss" | "look", string> = {
      initial: "",
      next: (state, { input, output }) =>
        input === "toss" ? ["heads", "tails", "edge"] : state === output ? [state] : [],
      text: String,
    };
    const toss = { client: 0, input: "toss", output: "", from: 1, to: 2 } as const;
    for (const side of ["heads", "tails", "edge"]) {
      const look = { client: 0, input: "look", output: side, from: 3, to: 4 } as const;
      assert.equal(linearized(coin, [toss, look]).kind, "linearizable", side);
    }
    const look = { client: 0, input: "look", output: "gone", from: 3, to: 4 } as const;
    assert.equal(linearized(coin, [toss, look]).kind, "violated");
  });

  test("random small histories: the same verdict as trying every order", () => {
    let violated = 0;
    for (let seed = 1; seed <= 3000; seed++) {
      const history = randomHistory(new Random(seed));
      const want = bruteForce(history) ? "linearizable" : "violated";
      if (want === "violated") violated++;
      assert.equal(linearized(register, history).kind, want, `seed ${seed}`);
    }
    assert.ok(violated > 500 && violated < 2500, `${violated} of 3000 were violated`);
  });
});

function randomHistory(random: Random): Call<Input, Output>[] {
  let time = 0;
  return Array.from({ length: 1 + random.below(6) }, () => {
    time += random.below(3);
    const from = time * 2;
    const to = random.chance(20) ? NEVER : from + 1 + random.below(12);
    const value = random.below(3);
    const kind = random.below(3);
    if (kind === 0) return write(from, to, value);
    if (kind === 1) return read(from, to === NEVER ? from + 3 : to, value);
    const output = random.pick(["done", "refused"] as const);
    const values: [number, number] = [value, random.below(3)];
    return to === NEVER ? swap(from, to, values) : swap(from, to, values, output);
  });
}

/** Whether any order of the calls, with any of those that have no end left out, is one. */
function bruteForce(history: readonly Call<Input, Output>[]): boolean {
  const tried = (state: number, rest: readonly Call<Input, Output>[]): boolean => {
    if (rest.every(({ to }) => to === NEVER)) return true;
    return rest.some((each) => {
      if (rest.some((other) => other.to < each.from)) return false;
      const others = rest.filter((other) => other !== each);
      return register.next(state, each).some((next) => tried(next, others));
    });
  };
  return tried(0, history);
}
