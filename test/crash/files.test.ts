import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { rmSync } from "node:fs";
import http from "node:http";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import {
  createDirectory,
  createFile,
  namesIn,
  onDirectory,
  onShare,
  putRange,
  rename,
} from "../acceptance/files.ts";
import { type RawReply, type RawRequest, send } from "../acceptance/raw.ts";
import { at, startServer, type TestServer } from "../acceptance/server.ts";
import { run } from "./command.ts";

const SHARE = "/crash";
const CLIENTS = 12;
const NAMES = 5;
const SIZE = 3000;
const ROUNDS = 2;

/** The files of a directory and what is in them. */
type Contents = ReadonlyMap<string, string>;

/** A client alone in its directory, which is renamed now and then; it knows what the server owes it. */
class Client {
  readonly #number: number;
  directory: string;
  contents: Contents = new Map();
  /** Where it may be as well: the request was sent, its reply did not come. */
  inDoubt: { readonly directory: string; readonly contents: Contents } | undefined;
  acknowledged = 0;
  #count = 0;

  constructor(number: number) {
    this.#number = number;
    this.directory = `${SHARE}/client-${number}`;
  }

  /** A change of one file or of the directory's name: the request, and what is so after it. */
  next(server: TestServer): { request: RawRequest; directory: string; contents: Contents } {
    const { directory, contents } = this;
    const after = new Map(contents);
    const name = `name-${randomInt(NAMES)}`;
    const path = `${directory}/${name}`;
    const before = contents.get(name);
    const dice = randomInt(100);
    if (before === undefined || dice < 10) {
      after.set(name, "\0".repeat(SIZE));
      return { request: createFile(path, SIZE), directory, contents: after };
    }
    if (dice < 55) {
      const text = `${this.#number} ${++this.#count};`.repeat(1 + randomInt(100));
      const start = randomInt(SIZE - text.length);
      after.set(name, before.slice(0, start) + text + before.slice(start + text.length));
      return { request: putRange(path, start, text), directory, contents: after };
    }
    if (dice < 65) {
      after.delete(name);
      return { request: { method: "DELETE", path }, directory, contents: after };
    }
    if (dice < 90) {
      const other = `name-${randomInt(NAMES)}`;
      after.delete(name);
      after.set(other, before);
      const to = `${directory}/${other}`;
      const replace = { "x-ms-file-rename-replace-if-exists": "true" };
      return { request: rename(server, { from: path, to }, replace), directory, contents: after };
    }
    const to = `${SHARE}/client-${this.#number}-${++this.#count}`;
    const request = rename(server, { from: directory, to, isDirectory: true });
    return { request, directory: to, contents };
  }
}

test("SIGKILL under load of files, renames and snapshots: nothing acknowledged is lost, nothing is half there", async (t) => {
  let started = await startServer();
  let server = at(started, "file");
  const { directory } = started;
  const clients = Array.from({ length: CLIENTS }, (_, number) => new Client(number));
  const snapshots = new Map<string, string>();
  try {
    const made = await send(server, { method: "PUT", path: SHARE, query: onShare() });
    assert.equal(made.status, 201, made.text);
    for (const client of clients) await send(server, createDirectory(client.directory));
    for (let round = 0; round < ROUNDS; round++) {
      const dying = { now: false };
      const agent = new http.Agent({ keepAlive: true });
      const ask = (request: RawRequest) => send(server, { ...request, agent });
      const working = [
        ...clients.map((client) => work(client, server, ask, dying)),
        takeSnapshots(ask, dying, snapshots),
      ];
      await Promise.race([Promise.all(working), wait(1000 + randomInt(500))]);
      // A slow machine gets the time to take a snapshot that the crash then has to leave alone.
      for (let i = 0; i < 100 && snapshots.size === 0; i++) await wait(100);
      dying.now = true;
      await started.kill();
      await Promise.all(working);
      agent.destroy();

      started = await startServer({ directory });
      server = at(started, "file");
      const seen = (path: string, sharesnapshot?: string) => shown(server, path, sharesnapshot);
      let applied = 0;
      for (const client of clients) if (await settled(client, seen)) applied++;
      for (const [taken, before] of snapshots) assert.equal(await whole(server, taken), before);
      const total = clients.reduce((sum, { acknowledged }) => sum + acknowledged, 0);
      t.diagnostic(
        `round ${round}: ${total} acknowledged, ${applied} in doubt were made, ${snapshots.size} snapshots`,
      );
      assert.ok(total > 0);
      assert.ok(snapshots.size > 0, "no snapshot was taken before the kill");
    }
    assert.equal(await started.stop("keep"), 0, started.output());
    const checked = await run("check", "--location", directory);
    assert.equal(checked.code, 0, `check: ${checked.stdout}${checked.stderr}`);
  } finally {
    await started.kill().catch(() => {});
    rmSync(directory, { recursive: true, force: true });
  }
});

type Send = (request: RawRequest) => Promise<RawReply>;
type Dying = { now: boolean };

/** Whether a request met the end of the server, which must be expected by then. */
function isEnd(error: unknown, dying: Dying): boolean {
  const { code } = error as NodeJS.ErrnoException;
  if (!dying.now || code === undefined || !/^(ECONN|EPIPE)/.test(code)) throw error;
  return true;
}

async function work(client: Client, server: TestServer, ask: Send, dying: Dying): Promise<void> {
  for (;;) {
    const { request, directory, contents } = client.next(server);
    client.inDoubt = { directory, contents };
    try {
      const reply = await ask(request);
      assert.ok(reply.status < 300, `${request.path}: ${reply.status} ${reply.text}`);
    } catch (error) {
      if (isEnd(error, dying)) return;
    }
    client.directory = directory;
    client.contents = contents;
    client.inDoubt = undefined;
    client.acknowledged++;
  }
}

/** Takes snapshots and reads each whole; what was read then must be read after every crash. */
async function takeSnapshots(
  ask: Send,
  dying: Dying,
  snapshots: Map<string, string>,
): Promise<void> {
  for (;;) {
    try {
      const taken = await ask({ method: "PUT", path: SHARE, query: onShare("snapshot") });
      assert.equal(taken.status, 201, taken.text);
      const id = String(taken.headers["x-ms-snapshot"]);
      snapshots.set(id, await wholeBy(ask, id));
      await wait(100);
    } catch (error) {
      if (isEnd(error, dying)) return;
    }
  }
}

/** The client's directory is as it was acknowledged, or as the request in doubt would have it; whether the latter. */
async function settled(
  client: Client,
  seen: (path: string) => Promise<Contents | undefined>,
): Promise<boolean> {
  const { inDoubt } = client;
  const isOwed = async (directory: string, contents: Contents) => {
    const found = await seen(directory);
    return found !== undefined && same(found, contents);
  };
  if (inDoubt !== undefined && (await isOwed(inDoubt.directory, inDoubt.contents))) {
    const isMoved = inDoubt.directory !== client.directory;
    if (isMoved) assert.equal(await seen(client.directory), undefined, "in two places");
    client.directory = inDoubt.directory;
    client.contents = inDoubt.contents;
    client.inDoubt = undefined;
    return true;
  }
  assert.ok(await isOwed(client.directory, client.contents), `${client.directory} is not as owed`);
  client.inDoubt = undefined;
  return false;
}

const same = (a: Contents, b: Contents): boolean =>
  a.size === b.size && [...a].every(([name, text]) => b.get(name) === text);

/** What is in a directory; undefined if it is not there. */
const shown = (server: TestServer, path: string, sharesnapshot?: string) =>
  shownBy((request) => send(server, request), path, sharesnapshot);

async function shownBy(
  ask: Send,
  path: string,
  sharesnapshot?: string,
): Promise<Contents | undefined> {
  const then: Record<string, string> = sharesnapshot === undefined ? {} : { sharesnapshot };
  const list = await ask({ method: "GET", path, query: onDirectory("list", then) });
  if (list.status === 404) return undefined;
  assert.equal(list.status, 200, list.text);
  const found = new Map<string, string>();
  for (const name of namesIn(list.text)) {
    const file = await ask({ method: "GET", path: `${path}/${name}`, query: then });
    assert.equal(file.status, 200, `${path}/${name}: ${file.text}`);
    found.set(name, file.text);
  }
  return found;
}

/** All that a snapshot shows, as one text. */
const whole = (server: TestServer, id: string) => wholeBy((request) => send(server, request), id);

async function wholeBy(ask: Send, id: string): Promise<string> {
  const query = onDirectory("list", { sharesnapshot: id });
  const list = await ask({ method: "GET", path: SHARE, query });
  const all: unknown[] = [];
  for (const name of namesIn(list.text)) {
    const found = await shownBy(ask, `${SHARE}/${name}`, id);
    all.push([name, ...(found ?? [])]);
  }
  return JSON.stringify(all);
}
