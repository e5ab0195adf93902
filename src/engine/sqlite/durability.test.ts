import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync, StatementSync } from "node:sqlite";
import { after, suite, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { silentLog } from "../../base/log.ts";
import { type Clock, systemClock } from "../../base/time.ts";
import { type Disk, realDisk } from "../disk.ts";
import { isDiskFull } from "../disk-full.ts";
import type { Engine } from "../engine.ts";
import { OpenError } from "../open-error.ts";
import { sqliteEngine } from "./engine.ts";
import { openSnapshot } from "./snapshot.ts";

const root = mkdtempSync(join(tmpdir(), "lazuli-durability-"));
const newDirectory = () => mkdtempSync(join(root, "data-"));

/** A disk whose syncs wait for the test, once it says so. */
class GatedDisk {
  isShut = false;
  syncs = 0;
  readonly #waiting: { resolve(): void; reject(error: Error): void }[] = [];
  readonly disk: Disk = {
    ...realDisk,
    sync: async (file) => {
      this.syncs++;
      if (this.isShut) {
        await new Promise<void>((resolve, reject) => void this.#waiting.push({ resolve, reject }));
      }
      await realDisk.sync(file);
    },
  };

  /** Resolves when a sync has begun, and waits. */
  async begun(): Promise<void> {
    while (this.#waiting.length === 0) await turn();
  }

  /** Lets the sync that waits end. */
  finish(): void {
    this.#waiting.shift()?.resolve();
  }

  fail(): void {
    this.#waiting.shift()?.reject(new Error("the disk is gone"));
  }

  open(): void {
    this.isShut = false;
    while (this.#waiting.length > 0) this.finish();
  }
}

type Opening = {
  disk?: Disk;
  directory?: string;
  clock?: Clock;
  onFatal?: (error: unknown) => void;
};

const open = ({
  disk = realDisk,
  directory = newDirectory(),
  clock = systemClock,
  onFatal = (error) => {
    throw error;
  },
}: Opening = {}): Promise<Engine> =>
  sqliteEngine({ directory, clock, disk, log: silentLog, onFatal });

const bytes = (text: string) => Buffer.from(text);
const text = (value: Uint8Array | undefined) =>
  value === undefined ? undefined : Buffer.from(value).toString();
const put = (engine: Engine, key: string, value = "v") =>
  engine.write(async (tx) => tx.put(bytes(key), bytes(value)));
const get = (engine: Engine, key: string) =>
  engine.read(async (tx) => text(await tx.get(bytes(key))));

/** Whether a promise settles within many turns of the event loop, with nothing else going on. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const note = () => {
    settled = true;
  };
  promise.then(note, note);
  for (let i = 0; i < 50; i++) await turn();
  return settled;
}

/** An engine with the keys "a" and "b", and a write of "a" that is committed and not synced. */
async function unsynced(options: Opening = {}) {
  const gate = new GatedDisk();
  const engine = await open({ disk: gate.disk, ...options });
  await put(engine, "a", "old");
  await put(engine, "b", "old");
  gate.isShut = true;
  gate.syncs = 0;
  const writing = put(engine, "a", "new");
  await gate.begun();
  return { gate, engine, writing };
}

suite("sqlite engine, durability", () => {
  after(() => rmSync(root, { recursive: true, force: true }));

  test("a write resolves, and its effects happen, only when the sync has ended", async () => {
    const { gate, engine, writing } = await unsynced();
    let effects = 0;
    const second = engine.write(async (tx) => {
      tx.put(bytes("c"), bytes("v"));
      tx.afterCommit(() => effects++);
    });
    assert.equal(await isSettled(writing), false);
    gate.finish();
    await writing;
    await gate.begun();
    assert.equal(await isSettled(second), false, "the sync before it began too early to count");
    assert.equal(effects, 0);
    gate.open();
    await second;
    assert.equal(effects, 1);
    await engine.close();
  });

  test("a read that saw an unsynced key waits for it, a read of other keys does not", async () => {
    const { gate, engine } = await unsynced();
    const seeing = get(engine, "a");
    assert.equal(await get(engine, "b"), "old");
    assert.equal(await isSettled(seeing), false);
    gate.open();
    assert.equal(await seeing, "new");
    await engine.close();
  });

  test("a range that covers an unsynced key waits, also where the key is gone", async () => {
    const { gate, engine, writing } = await unsynced();
    gate.finish();
    await writing;
    const removing = engine.write(async (tx) => tx.delete(bytes("a")));
    await gate.begun();
    const range = (from: string, to: string) =>
      engine.read(async (tx) => {
        const rows = await tx.range({ from: bytes(from), to: bytes(to), limit: 9 });
        return rows.map(({ key }) => text(key));
      });
    const covering = range("a", "z");
    assert.deepEqual(await range("aa", "z"), ["b"]);
    assert.equal(await isSettled(covering), false);
    gate.open();
    assert.deepEqual(await covering, ["b"]);
    await removing;
    await engine.close();
  });

  test("a read that saw a write which waits for the next sync waits for that one", async () => {
    const { gate, engine } = await unsynced();
    const second = put(engine, "b", "new");
    assert.equal(await isSettled(second), false);
    const seeing = get(engine, "b");
    assert.equal(await isSettled(seeing), false);
    gate.finish();
    await gate.begun();
    assert.equal(await isSettled(seeing), false);
    gate.open();
    assert.equal(await seeing, "new");
    await second;
    await engine.close();
  });

  test("a refusal waits too, since it tells of what it saw", async () => {
    const { gate, engine } = await unsynced();
    const refused = engine.write(async (tx) => {
      if (text(await tx.get(bytes("a"))) !== "old") throw new Error("refused");
    });
    const isRefused = assert.rejects(refused, /refused/);
    assert.equal(await isSettled(refused), false);
    gate.open();
    await isRefused;
    await engine.close();
  });

  test("a write that changes nothing asks for no sync, and waits for that of what it saw", async () => {
    const { gate, engine, writing } = await unsynced();
    const look = () => engine.write(async (tx) => text(await tx.get(bytes("a"))));
    const looking = look();
    assert.equal(await isSettled(looking), false);
    gate.open();
    assert.equal(await looking, "new");
    await writing;
    const { syncs } = gate;
    assert.equal(await look(), "new");
    assert.equal(gate.syncs, syncs);
    await engine.close();
  });

  test("the writes that come during a sync share the next one", async () => {
    const { gate, engine, writing } = await unsynced();
    const writes = Array.from({ length: 300 }, (_, i) => put(engine, `k${i}`));
    for (let i = 0; i < 200; i++) await turn();
    gate.open();
    await Promise.all([writing, ...writes]);
    assert.ok(gate.syncs <= 10, `${gate.syncs} syncs for 301 writes`);
    await engine.close();
  });

  test("close waits for the sync that is under way", async () => {
    const directory = newDirectory();
    const { gate, engine, writing } = await unsynced({ directory });
    const closing = engine.close();
    assert.equal(await isSettled(closing), false);
    gate.open();
    await Promise.all([writing, closing]);
    const again = await open({ directory });
    assert.equal(await get(again, "a"), "new");
    await again.close();
  });

  test("close waits for the writes that a checkpoint holds back, and does not wait for ever", async () => {
    const directory = newDirectory();
    const gate = new GatedDisk();
    const engine = await open({ directory, disk: gate.disk });
    const value = Buffer.alloc(1024 * 1024, 0x5a);
    await engine.write(async (tx) => {
      for (let i = 0; i < 40; i++) tx.putHeap(tx.tick(), value);
    });
    gate.isShut = true;
    const writes = [put(engine, "syncing")];
    await gate.begun();
    for (let isHeld = false, i = 0; !isHeld; i++) {
      isHeld = true;
      const write = engine.write(async (tx) => {
        isHeld = false;
        tx.put(bytes(`${i}`), bytes("v"));
      });
      writes.push(write);
      for (let turns = 0; turns < 50; turns++) await turn();
    }
    const closing = engine.close();
    gate.open();
    await closing;
    await Promise.all(writes);
    const again = await open({ directory });
    assert.equal(await get(again, `${writes.length - 2}`), "v");
    await again.close();
  });

  test("a sync that fails ends everything: writes and reads that hang on it fail", async () => {
    const fatal: unknown[] = [];
    const { gate, engine, writing } = await unsynced({
      onFatal: (error) => void fatal.push(error),
    });
    const seeing = get(engine, "a");
    assert.equal(await isSettled(seeing), false);
    const outcomes = [
      assert.rejects(writing, /the disk is gone/),
      assert.rejects(seeing, /the disk is gone/),
    ];
    assert.equal(fatal.length, 0);
    gate.fail();
    await Promise.all(outcomes);
    assert.match(String(fatal[0]), /the disk is gone/);
    assert.equal(fatal.length, 1);
    assert.equal(await isSettled(get(engine, "a")), false, "nobody learns what may be lost");
    assert.equal(await isSettled(put(engine, "c")), false, "and nothing more is acknowledged");
  });

  test("a sync that fails while the engine opens fails the opening", async () => {
    const disk: Disk = { ...realDisk, sync: () => Promise.reject(new Error("the disk is gone")) };
    const directory = newDirectory();
    await assert.rejects(open({ disk, directory }), /the disk is gone/);
    const again = await open({ directory });
    await again.close();
  });

  test("a directory is served by one engine at a time", async () => {
    const directory = newDirectory();
    const engine = await open({ directory });
    await assert.rejects(open({ directory }), (error) => {
      return error instanceof OpenError && /already served/.test(error.message);
    });
    await put(engine, "a");
    await engine.close();
    const again = await open({ directory });
    assert.equal(await get(again, "a"), "v");
    await again.close();
  });

  test("a directory that is not there is an OpenError", async () => {
    await assert.rejects(open({ directory: join(root, "missing") }), OpenError);
  });

  for (const [what, pragma, undo, message] of [
    ["a newer format", "user_version = 99", "user_version = 1", /format 99.*newer/],
    [
      "a database of another program",
      "application_id = 7",
      "application_id = 1281456757",
      /another/,
    ],
  ] as const) {
    test(`${what} is refused and left alone`, async () => {
      const directory = newDirectory();
      const path = join(directory, "lazuli.db");
      const engine = await open({ directory });
      await put(engine, "a");
      await engine.close();
      const change = (text: string) => {
        const database = new DatabaseSync(path);
        database.exec(`PRAGMA ${text}`);
        database.close();
      };
      change(pragma);
      await assert.rejects(open({ directory }), (error) => {
        return error instanceof OpenError && message.test(error.message);
      });
      change(undo);
      const again = await open({ directory });
      assert.equal(await get(again, "a"), "v");
      await again.close();
    });
  }

  test("a file that is no database is an OpenError", async () => {
    const directory = newDirectory();
    writeFileSync(join(directory, "lazuli.db"), Buffer.alloc(8192, 0x41));
    await assert.rejects(open({ directory }), OpenError);
  });

  test("the log of writes stays bounded under constant load, with reads beside it", async () => {
    const directory = newDirectory();
    const engine = await open({ directory });
    const value = Buffer.alloc(60 * 1024, 0x5a);
    let sizeMax = 0;
    const ids: bigint[] = [];
    const client = async () => {
      for (let i = 0; i < 128; i++) {
        const id = await engine.write(async (tx) => {
          const number = tx.tick();
          tx.putHeap(number, value);
          tx.put(bytes(`k${number}`), value.subarray(0, 100));
          return number;
        });
        ids.push(id);
        assert.equal((await engine.read((tx) => tx.getHeap(id)))?.length, value.length);
        sizeMax = Math.max(sizeMax, statSync(join(directory, "lazuli.db-wal")).size);
      }
    };
    await Promise.all(Array.from({ length: 8 }, client));
    assert.ok(sizeMax < 64 * 1024 * 1024, `it grew to ${sizeMax} bytes`);
    for (const id of ids) {
      const found = await engine.read((tx) => tx.getHeap(id));
      assert.ok(found !== undefined && value.equals(found));
    }
    await engine.close();
  });

  for (const statement of [
    "BEGIN IMMEDIATE",
    "INSERT OR REPLACE INTO record VALUES (?, ?)",
    "COMMIT",
  ]) {
    test(`a full disk at ${statement}: what is open fails, nothing is lost, and it goes on`, async (t) => {
      const engine = await open();
      await put(engine, "a", "old");
      const { run } = StatementSync.prototype;
      const full = Object.assign(new Error("database or disk is full"), { errcode: 13 });
      const mocked = t.mock.method(
        StatementSync.prototype,
        "run",
        function run_(this: StatementSync, ...values: Parameters<typeof run>) {
          if (this.sourceSQL === statement) throw full;
          return run.apply(this, values);
        },
      );
      const refused = await Promise.allSettled([
        put(engine, "a", "new"),
        put(engine, "b", "new"),
        engine.write(async (tx) => tx.get(bytes("a"))),
      ]);
      for (const each of refused.slice(0, 2)) assert.equal(each.status, "rejected");
      assert.ok(refused.every((each) => each.status === "fulfilled" || isDiskFull(each.reason)));
      assert.deepEqual([await get(engine, "a"), await get(engine, "b")], ["old", undefined]);
      mocked.mock.restore();
      await put(engine, "b", "new");
      assert.deepEqual([await get(engine, "a"), await get(engine, "b")], ["old", "new"]);
      await engine.close();
    });
  }

  test("one who reads an old state keeps nobody waiting, and the log is short again afterwards", async () => {
    const directory = newDirectory();
    const engine = await open({ directory });
    const value = Buffer.alloc(1024 * 1024, 0x5a);
    let slowest = 0;
    const write = async (count: number) => {
      for (let i = 0; i < count; i++) {
        const since = performance.now();
        await engine.write(async (tx) => {
          const number = tx.tick();
          tx.putHeap(number, value);
          tx.put(bytes("last"), bytes(String(number)));
        });
        slowest = Math.max(slowest, performance.now() - since);
      }
    };
    await write(1);
    const before = await get(engine, "last");
    const snapshot = openSnapshot(directory);
    await write(110);
    const seen = await snapshot.engine.read(async (tx) => text(await tx.get(bytes("last"))));
    assert.equal(seen, before);
    assert.equal((await snapshot.engine.read((tx) => tx.heapIds(0n, 9))).length, 1);
    assert.ok(slowest < 3_000, `a write took ${slowest} ms`);
    const size = () => statSync(join(directory, "lazuli.db-wal")).size;
    assert.ok(size() > 100 * 1024 * 1024, "the log was begun anew under a reader");
    snapshot.close();
    // The copy of the long log goes on beside some of these; how many depends on the machine.
    let grown: number;
    let rounds = 0;
    do {
      assert.ok(++rounds < 10, "the log goes on growing");
      grown = size();
      await write(40);
    } while (size() > grown);
    await engine.close();
  });

  test("a last number that is lost is refused, and one that is too small is complained of", async () => {
    const directory = newDirectory();
    const engine = await open({ directory });
    await engine.write(async (tx) => tx.putHeap(tx.tick(), bytes("v")));
    await engine.close();
    const change = (sql: string) => {
      const database = new DatabaseSync(join(directory, "lazuli.db"));
      database.exec(sql);
      database.close();
    };
    const complaints = () => {
      const snapshot = openSnapshot(directory);
      const lines = snapshot.complaints();
      snapshot.close();
      return lines;
    };
    assert.deepEqual(complaints(), []);
    change("UPDATE tick SET last = 5");
    assert.deepEqual(complaints(), ["1 heap values are newer than its last number"]);
    change("DELETE FROM tick");
    const isTold = (error: unknown) =>
      error instanceof OpenError && /does not tell its last number\.$/.test(error.message);
    assert.throws(complaints, isTold);
    await assert.rejects(open({ directory }), isTold);
  });

  test("ticks go on after a reopening with a clock that stepped back, though nothing kept the last ones", async () => {
    const directory = newDirectory();
    const engine = await open({ directory, clock: { now: () => Date.UTC(2030, 0, 1) } });
    const last = await engine.write(async (tx) => {
      tx.tick();
      return tx.tick();
    });
    await engine.close();
    const again = await open({ directory, clock: { now: () => Date.UTC(2020, 0, 1) } });
    assert.ok((await again.write(async (tx) => tx.tick())) > last);
    await again.close();
  });

  test("no number is given out again after a crash", async () => {
    const directory = newDirectory();
    const clock = { at: Date.UTC(2030, 0, 1), now: () => clock.at };
    const engine = await open({ directory, clock });
    for (let i = 0; i < 30; i++) {
      const last = await engine.write(async (tx) => {
        const number = tx.tick();
        tx.put(bytes("k"), bytes(String(number)));
        return number;
      });
      const copy = newDirectory(); // as a killed process leaves it
      for (const name of ["lazuli.db", "lazuli.db-wal"]) {
        copyFileSync(join(directory, name), join(copy, name));
      }
      const again = await open({ directory: copy, clock: { now: () => 0 } });
      const next = await again.write(async (tx) => tx.tick());
      await again.close();
      assert.ok(next > last, `after ${i}`);
      assert.ok(next <= last + 2_000_000n, "and not much later");
      clock.at += i * 10;
    }
    await engine.close();
    const again = await open({ directory, clock: { now: () => 0 } });
    const [kept] = await again.write(async (tx) => [await tx.get(bytes("k")), tx.tick()] as const);
    const next = await again.write(async (tx) => tx.tick());
    assert.equal(next, BigInt(text(kept) ?? "") + 2n, "a stop in order leaves no gap");
    await again.close();
  });
});
