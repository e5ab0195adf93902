import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { readMark, refuseUnfinished } from "./backup-mark.ts";
import { OpenError } from "./open-error.ts";

const folder = mkdtempSync(join(tmpdir(), "lazuli-mark-"));
after(() => rmSync(folder, { recursive: true }));

// What the file says, and why the directory is not served.
const rows: [text: string | undefined, refused: RegExp | undefined][] = [
  [undefined, undefined],
  ['{"state":"complete","at":"then"}', undefined],
  ['{"state":"unfinished","at":"then"}', / a backup that was not finished: run lazuli backup /],
  ['{"state":"switching","at":"then"}', / whole but for its names: lazuli restore --from /],
  ['{"state":"unfinished","at":"then","isRestore":true}', / restore that was not finished: run /],
  ['{"state":"switching","at":"then","isRestore":true}', / restore that was not finished: run /],
  ['{"state":"comp', / a backup that was not finished/],
  ["", / a backup that was not finished/],
  ["null", / a backup that was not finished/],
  ["5", / a backup that was not finished/],
  ["{}", / a backup that was not finished/],
];
for (const [text, refused] of rows) {
  test(`refuseUnfinished(): ${text ?? "no mark"} is ${refused === undefined ? "fine" : "refused"}`, () => {
    const path = join(folder, "lazuli.backup");
    rmSync(path, { force: true });
    if (text !== undefined) writeFileSync(path, text);
    assert.equal(readMark(folder) === undefined, text === undefined);
    const look = () => refuseUnfinished(folder);
    if (refused === undefined) look();
    else {
      assert.throws(look, OpenError);
      assert.throws(look, refused);
    }
  });
}
