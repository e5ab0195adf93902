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

/** Deletes shares so that they can be restored. */
async function withRetention(service: TestService): Promise<void> {
  const policy = "<Enabled>true</Enabled><Days>7</Days>";
  const body = Buffer.from(
    `<StorageServiceProperties><ShareDeleteRetentionPolicy>${policy}</ShareDeleteRetentionPolicy></StorageServiceProperties>`,
  );
  const query = { restype: "service", comp: "properties" };
  const headers = { "content-length": String(body.length) };
  assert.equal((await service.ask({ method: "PUT", path: "/", query, headers, body })).status, 202);
}

const SHARE = { restype: "share" };
const deleteShare = (service: TestService, name: string) =>
  service.ask({
    method: "DELETE",
    path: `/${name}`,
    query: SHARE,
    headers: { "x-ms-delete-snapshots": "include" },
  });

/** Pages of shares, each as what it lists: a name, with a snapshot's time or a deleted one's version. */
async function pages(
  service: TestService,
  maxresults: number,
  listed: () => void = () => {},
): Promise<string[][]> {
  const found: string[][] = [];
  for (let marker = ""; ; ) {
    const include = "snapshots,deleted";
    const query = { comp: "list", include, marker, maxresults: String(maxresults) };
    const { text } = await service.ask({ path: "/", query });
    const all = text.matchAll(
      /<Share><Name>(\S+?)<\/Name>(?:<Deleted>.*?<Version>|<Snapshot>)?(.*?)</g,
    );
    found.push([...all].map(([, name, at]) => `${name} ${at}`.trim()));
    listed();
    marker = /<NextMarker>([^<]*)</.exec(text)?.[1] ?? "";
    if (marker === "") return found;
  }
}

test("A page of shares costs the same however many deleted ones there are", async () => {
  const service = new TestService();
  await withRetention(service);
  for (let i = 0; i < 1000; i++) {
    const name = `share-${String(i).padStart(6, "0")}`;
    await service.createShare(name);
    if (i % 100 !== 0) await deleteShare(service, name);
  }
  const engine = counted(service.engine);
  Object.assign(service, { engine });
  let before = engine.looks;
  const found = await pages(service, PAGE, () => {
    const cost = engine.looks - before;
    assert.ok(cost <= 4 * PAGE, `a page looks at ${cost} rows`);
    before = engine.looks;
  });
  assert.equal(found.flat().length, 1000);
});

test("Shares of one name, deleted, restored and with snapshots, are listed once each, page by page", async () => {
  const service = new TestService();
  await withRetention(service);
  await service.createShare("share");
  const snapshot = { ...SHARE, comp: "snapshot" };
  assert.equal((await service.ask({ method: "PUT", path: "/share", query: snapshot })).status, 201);
  await deleteShare(service, "share");
  const [[first = ""] = []] = await pages(service, 10);
  await service.createShare("share");
  await deleteShare(service, "share");
  const headers = {
    "x-ms-deleted-share-name": "share",
    "x-ms-deleted-share-version": first.split(" ")[1] ?? "",
  };
  const restore = { method: "PUT", path: "/share", query: { ...SHARE, comp: "undelete" }, headers };
  assert.equal((await service.ask(restore)).status, 201);
  const together = await pages(service, 10);
  const apart = await pages(service, 1);
  assert.equal(apart.length, 3); // the second one deleted, the snapshot, and the share
  assert.deepEqual(apart.flat(), together.flat());
});
