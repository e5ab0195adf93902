import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { createContainer, getBlob, putBlob } from "./blobs.ts";
import { startServer } from "./server.ts";

/** A folder with a policy of one rule in it, gone at the end. */
async function withPolicy(rule: unknown, body: (file: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "lazuli-policy-"));
  const file = join(folder, "policy.json");
  writeFileSync(file, JSON.stringify({ rules: [rule] }));
  try {
    await body(file);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const rule = {
  name: "quick",
  type: "Lifecycle",
  definition: {
    filters: { blobTypes: ["blockBlob"], prefixMatch: ["temporary/"] },
    actions: { baseBlob: { delete: { daysAfterModificationGreaterThan: 0 } } },
  },
};

test("--lifecycle: rules are obeyed at start", () =>
  withPolicy(rule, async (file) => {
    const first = await startServer();
    for (const container of ["temporary", "lasting"]) {
      await createContainer(first, container);
      await putBlob(first, `/${container}/blob`, "x");
    }
    await first.stop("keep");
    const { directory } = first;
    const server = await startServer({ directory, args: ["--lifecycle", file] });
    try {
      let status = 200;
      for (let tries = 0; status === 200 && tries < 200; tries++) {
        status = (await getBlob(server, "/temporary/blob")).status;
      }
      assert.equal(status, 404);
      assert.equal((await getBlob(server, "/lasting/blob")).status, 200);
    } finally {
      await server.stop();
    }
  }));

test("--lifecycle: a file with mistakes is refused, each in a sentence", () =>
  withPolicy({ ...rule, type: "Other", enabled: 1 }, async (file) => {
    await assert.rejects(startServer({ args: ["--lifecycle", file] }), (error: Error) => {
      const lines = error.message.split("\n").filter((line) => line.startsWith("--lifecycle"));
      assert.equal(lines.length, 2);
      for (const line of lines) assert.match(line, /policy\.json: Rule quick: .*\.$/);
      return true;
    });
    await assert.rejects(startServer({ args: ["--lifecycle", `${file}.none`] }), /cannot be read/);
    await assert.rejects(startServer({ args: ["--lifecycleInterval", "0"] }), /no time between/);
  }));
