import assert from "node:assert/strict";
import { test } from "node:test";
import { remembered } from "./remembered.ts";

test("remembered(): works a result out once, and again when it had to make room", () => {
  const asked: string[] = [];
  const lengthOf = remembered(2, (text) => {
    asked.push(text);
    return text.length;
  });
  assert.deepEqual(["a", "bb", "a", "bb"].map(lengthOf), [1, 2, 1, 2]);
  assert.deepEqual(asked, ["a", "bb"]);
  assert.deepEqual(["ccc", "bb", "a"].map(lengthOf), [3, 2, 1]);
  assert.deepEqual(asked, ["a", "bb", "ccc", "a"]);
});
