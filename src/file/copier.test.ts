import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { randomIds } from "../base/ids.ts";
import { silentLog } from "../base/log.ts";
import { memoryEngine } from "../engine/memory.ts";
import { memoryFiles } from "../engine/memory-files.ts";
import type { Surroundings } from "../http/operation.ts";
import { available } from "../rules/lease.ts";
import { noMetadata } from "../rules/metadata.ts";
import { Contents } from "../store/content.ts";
import type { FileRecord } from "../store/file-records.ts";
import { deletedShares, fileCopies, nodes, usage } from "../store/keys.ts";
import { Opens } from "../store/opens.ts";
import { FileCopier } from "./copier.ts";

const TURNS_MAX = 500;
const KEY = [1n, 2n] as const;

/** A copier on an engine in memory, with a source of five bytes that counts how often it is read. */
function world() {
  const engine = memoryEngine({ clock: { now: () => Date.UTC(2030, 0, 1) } });
  const contents = new Contents(engine, memoryFiles(randomIds));
  const seen = { reads: 0 };
  async function* stream() {
    yield Buffer.from("12345");
  }
  const open = async () => {
    seen.reads++;
    return { header: () => "5", metadata: {}, stream, close: () => {} };
  };
  const around = { contents, opens: new Opens(), sources: { open } } as unknown as Surroundings;
  return { engine, contents, seen, copier: new FileCopier({ engine, around, log: silentLog }) };
}

suite("a copy into a share that was deleted meanwhile", () => {
  const record = {
    id: "copy",
    url: "http://127.0.0.1/source",
    endpoint: "http://127.0.0.1/account/",
    account: "account",
    shareName: "gone",
    startedAt: 0,
  };

  for (const hasFile of [true, false]) {
    const rest = hasFile ? "and its file, which can come back, has failed" : "if no file is left";
    test(`is forgotten without being read, ${rest}`, async () => {
      const { engine, contents, seen, copier } = world();
      await engine.write(async (tx) => {
        fileCopies.put(tx, KEY, record);
        deletedShares.put(tx, ["account", "gone", 9n], {
          share: {
            ...{ etag: "0x1", modifiedAt: 0, metadata: noMetadata, lease: available },
            ...{ id: "1", quota: 1, tier: "Hot", policies: [], snapshotCount: 0 },
          },
          ...{ deletedAt: 0, expiresAt: Number.MAX_SAFE_INTEGER },
        });
        usage.put(tx, [KEY[0]], hasFile ? 5 : 0);
        if (!hasFile) return;
        const file: FileRecord = {
          ...{ kind: "file", id: "2", parent: "0", name: "file", since: "1", generation: "1" },
          ...{ etag: "0x1", modifiedAt: 0, size: 5, content: contents.sparse.create(tx) },
          ...{ createdAt: "1", writtenAt: "1", changedAt: "1", attributes: 32, permission: "1*1" },
          ...{ headers: {}, metadata: noMetadata, lease: available },
          copy: { id: "copy", source: record.url, status: "pending", done: 0, total: 5 },
        };
        nodes.put(tx, KEY, file);
      });
      await copier.wake();
      const left = () => engine.read((tx) => fileCopies.get(tx, ...KEY));
      for (let turn = 0; turn < TURNS_MAX && (await left()) !== undefined; turn++) await nextTurn();
      assert.equal(await left(), undefined);
      await copier.stop();
      assert.equal(seen.reads, 0);
      const node = await engine.read((tx) => nodes.get(tx, ...KEY));
      const file = node?.kind === "file" ? [node.copy?.status, node.size] : undefined;
      assert.deepEqual(file, hasFile ? ["failed", 0] : undefined);
      assert.equal(await engine.read((tx) => usage.get(tx, KEY[0])), 0);
    });
  }
});
