import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Accounts,
  DEVELOPMENT_ACCOUNT,
  DEVELOPMENT_KEY,
  parseAccounts,
} from "../auth/accounts.ts";
import { ownerOf } from "../auth/caller.ts";
import { randomIds } from "../base/ids.ts";
import { silentLog } from "../base/log.ts";
import { memoryEngine } from "../engine/memory.ts";
import { memoryFiles } from "../engine/memory-files.ts";
import type { Reply, Surroundings } from "../http/operation.ts";
import { httpService } from "../http/server.ts";
import { copySources } from "../http/source.ts";
import type { LifecycleRule } from "../rules/lifecycle.ts";
import { checkedPolicy } from "../rules/lifecycle-policy.ts";
import { Contents } from "../store/content.ts";
import { Opens } from "../store/opens.ts";
import { runLifecycle } from "./lifecycle.ts";
import { blobService } from "./operations.ts";

const DAY = 24 * 3600 * 1000;
const ACCOUNT = DEVELOPMENT_ACCOUNT;

/** A server without sockets whose time the test owns. */
function world(settings: Partial<Surroundings["settings"]> = {}) {
  let time = Date.UTC(2026, 0, 1);
  const clock = { now: () => time };
  const engine = memoryEngine({ clock });
  const accounts: Accounts = parseAccounts(`${ACCOUNT}:${DEVELOPMENT_KEY}`);
  const doors: Surroundings["doors"] = new Map();
  const around: Surroundings = {
    contents: new Contents(engine, memoryFiles(randomIds)),
    opens: new Opens(),
    ids: randomIds,
    log: silentLog,
    authority: { accounts: () => accounts, tokens: undefined, roles: () => undefined },
    doors,
    copies: { wake: () => {} },
    sources: copySources({ doors, ports: new Map(), hosts: [] }),
    settings: {
      rehydrateMs: 0,
      versioning: false,
      immutableStorage: false,
      containerRetentionDays: 0,
      ...settings,
    },
  };
  httpService({ service: blobService, engine, around, tls: undefined, clock, log: silentLog });
  const send = (method: string, url: string, headers: Record<string, string> = {}, text = "") => {
    const bytes = Buffer.from(text);
    const all = { host: "localhost", "content-length": String(bytes.length), ...headers };
    const door = doors.get("blob");
    assert.ok(door);
    return door.answer({
      message: {
        method,
        url: `/${ACCOUNT}${url}`,
        headers: all,
        rawHeaders: Object.entries(all).flat(),
      },
      secure: false,
      body: {
        size: bytes.length,
        whole: async () => bytes,
        async *stream() {
          yield bytes;
        },
      },
      caller: ownerOf(ACCOUNT),
    });
  };
  return {
    send,
    put: (name: string, headers: Record<string, string> = {}) =>
      send("PUT", name, { "x-ms-blob-type": "BlockBlob", ...headers }, "content"),
    pass: (days: number) => {
      time += days * DAY;
    },
    run: (rules: readonly LifecycleRule[]) =>
      runLifecycle({ engine, around, rules, accounts: () => [ACCOUNT], log: silentLog }),
    async tier(name: string): Promise<Reply["headers"][string]> {
      return (await send("HEAD", name)).headers["x-ms-access-tier"];
    },
    async has(name: string): Promise<boolean> {
      return send("HEAD", name).then(
        () => true,
        (error) => {
          assert.equal(error.code, "BlobNotFound");
          return false;
        },
      );
    },
  };
}

function rulesOf(
  actions: unknown,
  filters: Record<string, unknown> = {},
): readonly LifecycleRule[] {
  const checked = checkedPolicy(
    JSON.stringify({
      rules: [
        {
          name: "rule",
          type: "Lifecycle",
          definition: { actions, filters: { blobTypes: ["blockBlob"], ...filters } },
        },
      ],
    }),
  );
  assert.ok("rules" in checked);
  return checked.rules;
}

const modified = (days: number) => ({ daysAfterModificationGreaterThan: days });
const created = (days: number) => ({ daysAfterCreationGreaterThan: days });
const nothing = { delete: 0, tierToArchive: 0, tierToCold: 0, tierToCool: 0, skipped: 0 };

test("lifecycle: a blob grows cold and is deleted, step by step", async () => {
  const { send, put, pass, run, tier, has } = world();
  await send("PUT", "/logs?restype=container");
  await put("/logs/a");
  const rules = rulesOf({
    baseBlob: {
      tierToCool: modified(10),
      tierToCold: modified(20),
      tierToArchive: modified(30),
      delete: modified(40),
    },
  });
  assert.deepEqual(await run(rules), nothing);
  pass(11);
  await put("/logs/fresh");
  assert.deepEqual(await run(rules), { ...nothing, tierToCool: 1 });
  assert.deepEqual(await run(rules), nothing, "it is cool already");
  assert.equal(await tier("/logs/a"), "Cool");
  assert.equal(await tier("/logs/fresh"), "Hot");
  pass(10);
  assert.deepEqual(await run(rules), { ...nothing, tierToCold: 1 });
  pass(10);
  assert.deepEqual(await run(rules), { ...nothing, tierToArchive: 1, tierToCool: 1 });
  assert.equal(await tier("/logs/a"), "Archive");
  pass(10);
  assert.deepEqual(await run(rules), { ...nothing, delete: 1, tierToCold: 1 });
  assert.equal(await has("/logs/a"), false);
  assert.equal(await has("/logs/fresh"), true);
});

test("lifecycle: filters choose, and more blobs than fit on a page are all seen", async () => {
  const { send, put, pass, run, has } = world();
  await send("PUT", "/logs?restype=container");
  await send("PUT", "/other?restype=container");
  for (let i = 0; i < 250; i++) await put(`/logs/old/${i}`);
  await put("/logs/kept");
  await put("/other/old");
  await put("/logs/old/tagged", { "x-ms-tags": "keep=yes" });
  pass(2);
  const tagged = rulesOf(
    { baseBlob: { delete: modified(1) } },
    { prefixMatch: ["logs/old/"], blobIndexMatch: [{ name: "keep", op: "==", value: "yes" }] },
  );
  assert.deepEqual(await run(tagged), { ...nothing, delete: 1 });
  const rules = rulesOf({ baseBlob: { delete: modified(1) } }, { prefixMatch: ["logs/old/"] });
  assert.deepEqual(await run(rules), { ...nothing, delete: 250 });
  assert.deepEqual([await has("/logs/kept"), await has("/other/old")], [true, true]);
});

test("lifecycle: leased blobs, and blobs with snapshots, are left alone", async () => {
  const { send, put, pass, run, has, tier } = world();
  await send("PUT", "/logs?restype=container");
  for (const name of ["leased", "snapshot", "plain"]) await put(`/logs/${name}`);
  const lease = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
  await send("PUT", "/logs/leased?comp=lease", lease);
  await send("PUT", "/logs/snapshot?comp=snapshot");
  pass(2);
  const cooling = rulesOf(
    { baseBlob: { tierToCool: modified(1) } },
    { prefixMatch: ["logs/leased"] },
  );
  assert.deepEqual(await run(cooling), { ...nothing, skipped: 1 });
  assert.equal(await tier("/logs/leased"), "Hot");
  const rules = rulesOf({ baseBlob: { delete: modified(1) } });
  assert.deepEqual(await run(rules), { ...nothing, delete: 1, skipped: 2 });
  assert.deepEqual(
    [await has("/logs/leased"), await has("/logs/snapshot"), await has("/logs/plain")],
    [true, true, false],
  );
  const both = rulesOf({ baseBlob: { delete: modified(1) }, snapshot: { delete: created(1) } });
  assert.deepEqual(await run(both), { ...nothing, delete: 2, skipped: 1 }, "snapshots go first");
  assert.equal(await has("/logs/snapshot"), false);
});

test("lifecycle: versions by the time they were made, the current one as a blob", async () => {
  const { send, put, pass, run, has } = world({ versioning: true });
  await send("PUT", "/logs?restype=container");
  const first = await put("/logs/a");
  pass(5);
  const second = await put("/logs/a");
  const at = (reply: Reply) =>
    `/logs/a?versionid=${encodeURIComponent(String(reply.headers["x-ms-version-id"]))}`;
  pass(5);
  const rules = rulesOf({ version: { delete: created(7) } });
  assert.deepEqual(await run(rules), { ...nothing, delete: 1 });
  assert.deepEqual(
    [await has(at(first)), await has(at(second)), await has("/logs/a")],
    [false, true, true],
  );
  const current = rulesOf({ baseBlob: { delete: modified(4) } });
  assert.deepEqual(await run(current), { ...nothing, delete: 1 });
  assert.deepEqual([await has("/logs/a"), await has(at(second))], [false, true]);
});

test("lifecycle: what it deletes can be restored where the account keeps deleted blobs", async () => {
  const { send, put, pass, run, has } = world();
  const setting =
    "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy></StorageServiceProperties>";
  await send("PUT", "/?restype=service&comp=properties", {}, setting);
  await send("PUT", "/logs?restype=container");
  await put("/logs/a");
  pass(2);
  const rules = rulesOf({ baseBlob: { delete: modified(1) } });
  assert.deepEqual(await run(rules), { ...nothing, delete: 1 });
  assert.deepEqual(await run(rules), nothing, "what is deleted is not deleted again");
  assert.equal(await has("/logs/a"), false);
  await send("PUT", "/logs/a?comp=undelete");
  assert.equal(await has("/logs/a"), true);
});
