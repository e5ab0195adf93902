import { once } from "node:events";
import { mkdirSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { StatementSync } from "node:sqlite";
import { setImmediate as turn, setTimeout as wait } from "node:timers/promises";
import { parseAccounts } from "../../src/auth/accounts.ts";
import { randomIds } from "../../src/base/ids.ts";
import { fileLog } from "../../src/base/log.ts";
import { type Disk, realDisk } from "../../src/engine/disk.ts";
import { diskFiles } from "../../src/engine/disk-files.ts";
import { sqliteEngine } from "../../src/engine/sqlite/engine.ts";
import { Fronts } from "../../src/http/fronts.ts";
import type { Service, Surroundings } from "../../src/http/operation.ts";
import { openHere } from "../../src/http/ports.ts";
import { httpService } from "../../src/http/server.ts";
import { copySources } from "../../src/http/source.ts";
import { services } from "../../src/services.ts";
import { smbServer } from "../../src/smb/server.ts";
import { Contents } from "../../src/store/content.ts";
import { Opens } from "../../src/store/opens.ts";
import { startSweeper } from "../../src/store/sweeper.ts";
import { ACCOUNT, KEY } from "../acceptance/server.ts";
import { PowerCutDisk, Random } from "../simulation/power-cut.ts";

/** How a process begins, as its first argument in JSON. */
export type Beginning = {
  readonly directory: string;
  /** What its clock is ahead of the machine's. */
  readonly offsetMs: number;
  /** Requests that a port takes at a time. */
  readonly requestsMax: number;
  /** Threads that speak HTTP; none if the one that serves does. */
  readonly threads?: number;
  /** If the power is to go: after so many steps of the disk, leaving this directory. */
  readonly cut?: { readonly seed: number; readonly steps: number; readonly image: string };
};

/** What the test tells a running process. */
export type Order =
  | { readonly kind: "clock"; readonly offsetMs: number }
  | { readonly kind: "disk"; readonly isFull: boolean; readonly syncMs: number };

/** What it answers: where it listens, then that an order is carried out. */
export type Word = { readonly ports: Readonly<Record<string, number>> } | { readonly done: true };

/**
 * The server as main.ts puts it together, on a clock and a disk that the test can spoil. It is a process of
 * its own, so that it can be killed.
 */
async function serve(beginning: Beginning): Promise<void> {
  const { directory, offsetMs, requestsMax, threads = 0, cut } = beginning;
  const clock = { offsetMs, now: () => Date.now() + clock.offsetMs };
  const state = { isFull: false, syncMs: 0 };
  mkdirSync(directory, { recursive: true });
  const disk = spoilt(cut === undefined ? realDisk : cutDisk(directory, cut), state);
  const log = fileLog({ descriptor: 2 }, "error", () => clock.now());
  const onFatal = (error: unknown) => {
    log.error("a disk failed to sync, or a thread", { error: String(error) });
    process.exit(1);
  };
  const engine = await sqliteEngine({ directory, clock, disk, log, onFatal });
  const files = await diskFiles({ directory, disk, ids: randomIds, log });
  const contents = new Contents(engine, files);
  const accounts = parseAccounts(`${ACCOUNT}:${KEY}`);
  const doors: Surroundings["doors"] = new Map();
  const ports: Record<string, number> = {};
  const numbers = new Map<number, Service>();
  const around: Surroundings = {
    contents,
    opens: new Opens(),
    ids: randomIds,
    log,
    settings: {
      rehydrateMs: 0,
      versioning: true,
      immutableStorage: false,
      containerRetentionDays: 0,
    },
    authority: { accounts: () => accounts, tokens: undefined, roles: () => undefined },
    doors,
    sources: copySources({ doors, ports: numbers, hosts: [] }),
    copies: { wake: () => {} },
  };
  const fronts =
    threads === 0 ? undefined : new Fronts(threads, { accounts: () => accounts, onFatal });
  for (const service of services) {
    const options = { service, engine, around, tls: undefined, clock, log, requestsMax };
    const place = { host: "127.0.0.1", port: 0, tls: undefined };
    const opening = { service: service.name, serve: httpService(options), ...place };
    const opened = fronts === undefined ? openHere(opening, clock) : fronts.open(opening);
    const { port } = (await opened).address;
    ports[service.name] = port;
    numbers.set(port, service.name);
  }
  const inside = { engine, contents, opens: around.opens, clock, ids: randomIds, log };
  const smb = smbServer({ ...inside, accounts: () => accounts, isEncryptionRequired: false });
  smb.server.listen(0, "127.0.0.1");
  await once(smb.server, "listening");
  ports.smb = (smb.server.address() as AddressInfo).port;
  startSweeper({ engine, files, contents, log }, clock);
  const say = (word: Word) => void process.send?.(word);
  process.on("message", (order: Order) => {
    if (order.kind === "clock") clock.offsetMs = order.offsetMs;
    else Object.assign(state, order);
    say({ done: true });
  });
  process.on("disconnect", () => process.exit(0));
  fillUp(state);
  say({ ports });
}

/** At the given step the power goes: what could be left of the directory is kept, and the process ends. */
function cutDisk(directory: string, cut: NonNullable<Beginning["cut"]>): Disk {
  const disk = new PowerCutDisk(directory, new Random(cut.seed));
  let steps = 0;
  const step = () => {
    if (++steps !== cut.steps) return;
    disk.cut(cut.image);
    process.kill(process.pid, "SIGKILL");
  };
  disk.onStep = step;
  const sync = disk.sync.bind(disk);
  // The power goes in the middle of a sync, too: what was told by then is all that was promised.
  disk.sync = async (file) => {
    const syncing = sync(file);
    await turn();
    step();
    await syncing;
  };
  return disk;
}

const full = () => Object.assign(new Error("no space left on device"), { code: "ENOSPC" });

/** A disk that is slow, or has no room for anything new. */
function spoilt(disk: Disk, state: { readonly isFull: boolean; readonly syncMs: number }): Disk {
  const late = async () => {
    if (state.syncMs > 0) await wait(state.syncMs);
  };
  return {
    async open(path, which) {
      if (state.isFull && which === "new") throw full();
      return disk.open(path, which);
    },
    read: (file, into, position) => disk.read(file, into, position),
    async write(file, parts, position) {
      if (state.isFull) throw full();
      await disk.write(file, parts, position);
    },
    async sync(file) {
      await late();
      await disk.sync(file);
    },
    close: (file) => disk.close(file),
    remove: (path) => disk.remove(path),
    makeDirectory: (path) => disk.makeDirectory(path),
    async syncDirectory(path) {
      await late();
      await disk.syncDirectory(path);
    },
  };
}

/** The last statement of every transaction that writes, and of no other. */
const LAST_WRITE = "UPDATE tick SET last = ?";

/** SQLite writes its log by itself; where there is no room it says so when a transaction ends. */
function fillUp(state: { readonly isFull: boolean }): void {
  const { run } = StatementSync.prototype;
  StatementSync.prototype.run = function spoiltRun(...values) {
    if (state.isFull && this.sourceSQL === LAST_WRITE) {
      throw Object.assign(new Error("database or disk is full"), { errcode: 13 });
    }
    return run.apply(this, values as Parameters<typeof run>);
  };
}

await serve(JSON.parse(process.argv[2] ?? "") as Beginning);
