import assert from "node:assert/strict";
import { test } from "node:test";
import type { Engine, ReadTx } from "../../src/engine/engine.ts";
import { TestService } from "./file-service.ts";

const COUNT = 3000;
const PAGE = 100;

/** An engine that counts what its reads look at. */
function counted(engine: Engine): Engine & { looks: number } {
  const self = {
    ...engine,
    looks: 0,
    read: <T>(body: (tx: ReadTx) => Promise<T>) =>
      engine.read((tx) =>
        body({
          now: tx.now,
          async get(key) {
            self.looks++;
            return tx.get(key);
          },
          async range(query) {
            const rows = await tx.range(query);
            self.looks += 1 + rows.length;
            return rows;
          },
          getHeap: (id) => tx.getHeap(id),
          heapIds: (after, limit) => tx.heapIds(after, limit),
        }),
      ),
  };
  return self;
}

test("A page of a large directory costs the same wherever it is, at a snapshot too", async () => {
  const service = new TestService();
  await service.createShare("share");
  await service.createDirectory("/share/dir");
  for (let i = 0; i < COUNT; i++) {
    await service.createFile(`/share/dir/file-${String(i).padStart(6, "0")}`, i);
  }
  const query = { restype: "share", comp: "snapshot" };
  const taken = await service.ask({ method: "PUT", path: "/share", query });
  const sharesnapshot = taken.header("x-ms-snapshot") ?? "";
  const engine = counted(service.engine);
  Object.assign(service, { engine });

  /** Reads all pages; gives what each of them cost. */
  async function costs(then: Record<string, string>): Promise<number[]> {
    const found: number[] = [];
    let listed = 0;
    for (let marker = ""; ; ) {
      const before = engine.looks;
      const query = {
        restype: "directory",
        comp: "list",
        maxresults: String(PAGE),
        marker,
        ...then,
      };
      const { text } = await service.ask({ path: "/share/dir", query });
      found.push(engine.looks - before);
      listed += text.split("<File>").length - 1;
      marker = /<NextMarker>([^<]*)</.exec(text)?.[1] ?? "";
      if (marker === "") break;
    }
    assert.equal(listed, COUNT);
    return found;
  }

  const now = await costs({});
  assert.equal(now.length, COUNT / PAGE);
  for (const cost of now) assert.ok(cost <= 2 * PAGE + 20, `a page looks at ${cost} rows`);

  for (let i = 0; i < COUNT; i += 2) {
    await service.ask({ method: "DELETE", path: `/share/dir/file-${String(i).padStart(6, "0")}` });
  }
  const then = await costs({ sharesnapshot });
  // Rows come in batches of 500 from what is there now and from what was set apart.
  for (const cost of then) assert.ok(cost <= 1300, `a page at the snapshot looks at ${cost} rows`);
});
