import assert from "node:assert/strict";
import { test } from "node:test";
import { forbidden, OpenError } from "./open-error.ts";

test("forbidden(): what the system refuses is a sentence, other errors stay as they are", () => {
  const made = (code: string) => Object.assign(new Error(`${code}: open 'x'`), { code });
  for (const code of ["EACCES", "EPERM", "EROFS", "ENOTDIR", "EEXIST", "ENOSPC", "EMFILE"]) {
    const error = forbidden(made(code), "/data");
    assert.ok(error instanceof OpenError);
    assert.equal(error.message, `The directory /data cannot be used: ${code}: open 'x'.`);
  }
  const other = made("EIO");
  assert.equal(forbidden(other, "/data"), other);
});
