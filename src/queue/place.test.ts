import assert from "node:assert/strict";
import { test } from "node:test";
import { StorageError } from "../rules/errors.ts";
import { queuePlace } from "./place.ts";

const places: [path: string, level: string, names: string[]][] = [
  ["", "service", []],
  ["queue", "queue", ["queue"]],
  ["queue/", "queue", ["queue"]],
  ["queue/messages", "messages", ["queue"]],
  ["queue/messages/", "messages", ["queue"]],
  ["queue/messages/id", "message", ["queue", "id"]],
];
for (const [path, level, names] of places) {
  test(`queuePlace(): "${path}" is a ${level}`, () =>
    assert.deepEqual(queuePlace(path.split("/")), { level, names }));
}

for (const path of ["queue/other", "queue/Messages", "queue/messages/id/more", "queue//messages"]) {
  test(`queuePlace(): "${path}" is nothing`, () =>
    assert.throws(
      () => queuePlace(path.split("/")),
      (error) => error instanceof StorageError && error.code === "InvalidUri",
    ));
}
