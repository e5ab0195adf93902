import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { mutants } from "./mutant-list.ts";

test("every mutant can be planted: its words stand once in the code", () => {
  for (const { bug, edits, found } of mutants) {
    for (const [path, from] of edits) {
      assert.equal(readFileSync(path, "utf8").split(from).length, 2, `${bug}: ${path}`);
    }
    if (found.by === "test") assert.ok(existsSync(found.file), found.file);
  }
});
