import assert from "node:assert/strict";
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { after, suite, test } from "node:test";
import { send } from "./raw.ts";
import { startServer } from "./server.ts";

const folder = mkdtempSync(join(tmpdir(), "lazuli-operator-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const until = async (isDone: () => boolean) => {
  while (!isDone()) await new Promise((resolve) => setTimeout(resolve, 5));
};

const ports = ["blob", "queue", "table", "file", "smb", "web"].flatMap((name) => [
  `--${name}Port`,
  "0",
]);

/** Starts the command line; what comes of it is the caller's. */
const spawned = (...args: string[]): ChildProcessByStdio<null, Readable, Readable> =>
  spawn(process.execPath, ["src/main.ts", ...args], { stdio: ["ignore", "pipe", "pipe"] });

suite("What an operator does", () => {
  test("a log file is its owner's alone, and SIGHUP goes on in a new one", async () => {
    const log = join(folder, "log");
    const server = await startServer({ args: ["--debug", log] });
    try {
      assert.equal(statSync(log).mode & 0o777, 0o600);
      assert.equal((await send(server, { method: "GET", path: "/before" })).status, 404);
      renameSync(log, `${log}.1`);
      process.kill(server.pid, "SIGHUP");
      await until(() => existsSync(log));
      assert.equal((await send(server, { method: "GET", path: "/later" })).status, 404);
    } finally {
      assert.equal(await server.stop(), 0);
    }
    assert.match(readFileSync(`${log}.1`, "utf8"), /\/before/);
    assert.doesNotMatch(readFileSync(`${log}.1`, "utf8"), /\/later/);
    assert.match(readFileSync(log, "utf8"), /\/later/);
  });

  test("SIGHUP stops a server in order that has no files to read again", async () => {
    const server = spawned("--location", join(folder, "hup"), ...ports);
    const exited = once(server, "exit");
    server.stdout.on("data", (data: Buffer) => {
      if (data.includes("Ready")) server.kill("SIGHUP");
    });
    assert.deepEqual(await exited, [0, null]);
    assert.ok(!existsSync(join(folder, "hup", "lazuli.db-wal")), "the database is closed");
  });

  test("who opens the well-known account to other machines is told so", async () => {
    const warning = /^Others than this machine can come/m;
    for (const [host, isWarned] of [
      ["0.0.0.0", true],
      ["127.0.0.1", false],
    ] as const) {
      const server = await startServer({ args: ["--queueHost", host] });
      await server.stop();
      assert.equal(warning.test(server.output()), isWarned, host);
    }
  });

  test("nobody has to read what is said", async () => {
    const told = spawned("--help");
    told.stdout.destroy();
    const [said, [code]] = await Promise.all([text(told.stderr), once(told, "exit")]);
    assert.deepEqual([code, said], [0, ""]);
  });

  test("files whose records are lost are not taken for leftovers", async () => {
    const first = await startServer();
    const { directory } = first;
    const query = { restype: "container" };
    assert.equal((await send(first, { method: "PUT", path: "/files", query })).status, 201);
    const headers = { "x-ms-blob-type": "BlockBlob" };
    const body = Buffer.alloc(300_000, 1);
    const put = { method: "PUT", path: "/files/large", headers, body };
    assert.equal((await send(first, put)).status, 201);
    assert.equal(await first.stop("keep"), 0);
    const database = join(directory, "lazuli.db");
    renameSync(database, `${database}.mislaid`);
    for (const empty of [false, true]) {
      if (empty) writeFileSync(database, "");
      const refused = spawned("--location", directory, ...ports);
      const [said, [code]] = await Promise.all([
        text(refused.stderr),
        once(refused, "exit") as Promise<[number | null]>,
      ]);
      assert.equal(code, 1);
      assert.match(said, /^The directory \S+ has files with data, but lazuli\.db [^\n]*\.\n$/);
    }
    assert.equal(globSync(join(directory, "chunks/*/*")).length, 1);
    for (const each of globSync(`${database}{,-wal,-shm}`)) rmSync(each);
    renameSync(`${database}.mislaid`, database);
    const again = await startServer({ directory });
    const got = await send(again, { method: "GET", path: "/files/large" });
    assert.equal(got.status, 200);
    await again.stop();
  });
});
