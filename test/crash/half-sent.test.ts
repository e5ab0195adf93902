import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { send } from "../acceptance/raw.ts";
import { startServer, type TestServer } from "../acceptance/server.ts";
import { connect, headOf, open } from "../acceptance/wire.ts";
import { type Ended, run } from "./command.ts";

const MIB = 1024 * 1024;
const CONTAINER = "half";
const BODY_SIZE = 10 * MIB;
const BLOCK_BLOB = { "x-ms-blob-type": "BlockBlob" };
const BLOCK = [
  ["comp", "block"],
  ["blockid", Buffer.from("block-0").toString("base64")],
] as const;

type Cut = "destroy" | "reset" | "half close";

const uploads: [what: string, path: string, query: typeof BLOCK | readonly []][] = [
  ["Put Blob", `/${CONTAINER}/half-sent-blob`, []],
  ["Put Block", `/${CONTAINER}/half-sent-block`, BLOCK],
];
for (const [what, path, query] of uploads) {
  test(`${what}: a body cut short leaves nothing behind`, () =>
    withServer(async (server) => {
      const cuts: [Cut, size: number][] = [
        ["destroy", 4 * MIB],
        ["reset", 4 * MIB],
        ["half close", 4 * MIB],
        ["destroy", 1000],
        ["destroy", 0],
      ];
      await Promise.all(cuts.map(([cut, size]) => sendHalf(server, { path, query, size, cut })));
      await nothingLeft(server, path);
    }));
}

test("Put Blob: a body cut short leaves the blob that was there", () =>
  withServer(async (server) => {
    const path = `/${CONTAINER}/kept`;
    await send(server, { method: "PUT", path, headers: BLOCK_BLOB, body: "kept" });
    await sendHalf(server, { path, query: [], size: 4 * MIB, cut: "destroy" });
    await wait(200);
    const found = await send(server, { method: "GET", path });
    assert.deepEqual([found.status, found.text], [200, "kept"]);
    assert.equal(await server.stop("keep"), 0);
    await checkIsFine(server.directory);
  }));

test("SIGTERM: running requests finish, new ones find no server, the end is clean", async () => {
  const server = await prepared();
  try {
    const content = randomBytes(BODY_SIZE);
    const down = `/${CONTAINER}/down`;
    const stored = await send(server, {
      method: "PUT",
      path: down,
      headers: BLOCK_BLOB,
      body: content,
    });
    assert.equal(stored.status, 201, stored.text);

    const download = await open(server, { method: "GET", path: down });
    const [first] = (await once(download, "data")) as [Buffer];
    download.pause();
    const upload = await connect(server);
    const path = `/${CONTAINER}/up`;
    upload.write(putHead(server, path, []));
    await written(upload, content.subarray(0, BODY_SIZE / 2));
    await wait(100);

    const stopped = server.stop("keep");
    await refusesConnections(server);
    // As Ctrl-C does, which a terminal sends and a parent passes on.
    process.kill(server.pid, "SIGTERM");
    upload.write(content.subarray(BODY_SIZE / 2));
    assert.match(await firstLine(upload), /^HTTP\/1\.1 201 /);
    const rest = await buffer(download);
    assert.equal(Buffer.concat([first, rest]).compare(content), 0, "the download is whole");
    const answeredAt = Date.now();
    assert.equal(await stopped, 0, server.output());
    assert.ok(Date.now() - answeredAt < 5000, "the server stayed long after the last request");
    upload.destroy();

    const next = await startServer({ directory: server.directory });
    const found = await send(next, { method: "GET", path });
    await next.stop("keep");
    assert.equal(found.status, 200);
    assert.equal(found.body.compare(content), 0, "what was finished while stopping is kept");
  } finally {
    await cleanUp(server);
  }
});

test("SIGTERM: connections without a request do not hold the server", async () => {
  const server = await prepared();
  try {
    const silent = await connect(server);
    const answered = await connect(server);
    answered.write("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
    assert.match(await firstLine(answered), /^HTTP\/1\.1 200 /);
    const startedAt = Date.now();
    assert.equal(await server.stop("keep"), 0, server.output());
    const tookMs = Date.now() - startedAt;
    assert.ok(tookMs < 5000, `the end took ${tookMs} ms`);
    silent.destroy();
    answered.destroy();
  } finally {
    await cleanUp(server);
  }
});

test("SIGTERM: a client that never goes on does not hold the server for long", async () => {
  const server = await prepared();
  try {
    const path = `/${CONTAINER}/stuck`;
    const upload = await connect(server);
    upload.on("error", () => {});
    upload.write(putHead(server, path, []));
    await written(upload, Buffer.alloc(MIB));
    await wait(100);
    const limit = new AbortController();
    const ended = await Promise.race([
      server.stop("keep").then(() => "ended"),
      wait(20_000, "still running", { signal: limit.signal }),
    ]);
    limit.abort();
    assert.equal(ended, "ended");
    upload.destroy();
    const next = await startServer({ directory: server.directory });
    assert.equal((await send(next, { method: "GET", path })).status, 404);
    await next.stop("keep");
    await checkIsFine(server.directory);
  } finally {
    await cleanUp(server);
  }
});

test("start: a directory that is already served is refused", () =>
  withServer(async (server) => {
    isOneSentence(await run("--location", server.directory, ...freePorts()), /already served/);
    const found = await fetch(`${server.origin}/healthz`);
    assert.equal(found.status, 200, "the first server goes on");
  }));

test("start: a directory can be served again after SIGKILL", async () => {
  const server = await prepared();
  try {
    await server.kill();
    const next = await startServer({ directory: server.directory });
    assert.equal(await next.stop("keep"), 0);
  } finally {
    await cleanUp(server);
  }
});

test("start: a port in use is refused", () =>
  withFolder(async (folder) => {
    const other = net.createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as net.AddressInfo;
    for (const [name, threads] of [
      ["blob", "0"],
      ["queue", "1"],
      ["web", "0"],
      ["smb", "1"],
    ] as const) {
      const args = ["--location", folder, ...freePorts(), "--httpThreads", threads];
      const ended = await run(...args, `--${name}Port`, String(port));
      isOneSentence(ended, new RegExp(`${port}.*--${name}Port`));
    }
    other.close();
  }));

test("start: a bad flag or value is refused", () =>
  withFolder(async (folder) => {
    isOneSentence(await run("--location", folder, "--nonsense"), /nonsense/);
    for (const port of ["many", "-1", "65536", "1.5"]) {
      isOneSentence(await run("--location", folder, `--blobPort=${port}`), /port/i);
    }
  }));

test("start: a directory that cannot be made is refused", () =>
  withFolder(async (folder) => {
    const file = join(folder, "file");
    writeFileSync(file, "not a folder");
    // The second is one below which Node would try for ever.
    for (const directory of [join(file, "data"), "/proc/lazuli/data"]) {
      isOneSentence(await run("--location", directory, ...freePorts()), /cannot be made: /);
    }
  }));

test("start: data of a newer format is refused and left alone", async () => {
  const server = await prepared();
  try {
    assert.equal(await server.stop("keep"), 0);
    const setFormat = (number: number) => {
      const database = new DatabaseSync(join(server.directory, "lazuli.db"));
      const { user_version } = database.prepare("PRAGMA user_version").get() ?? {};
      database.exec(`PRAGMA user_version = ${number}`);
      database.close();
      return Number(user_version);
    };
    const format = setFormat(99);
    isOneSentence(await run("--location", server.directory, ...freePorts()), /newer|format|99/);
    assert.equal(setFormat(format), 99);
    const again = await startServer({ directory: server.directory });
    const query = { restype: "container" };
    const found = await send(again, { method: "GET", path: `/${CONTAINER}`, query });
    await again.stop("keep");
    assert.equal(found.status, 200, "the data is as it was");
  } finally {
    await cleanUp(server);
  }
});

test("--help: prints the usage and ends well", async () => {
  const { code, stdout, stderr } = await run("--help");
  assert.equal(code, 0, stderr);
  assert.match(stdout, /\blazuli\b/);
  assert.match(stdout, /--location/);
  assert.match(stdout, /--blobPort/);
  assert.equal(stderr, "");
});

async function prepared(): Promise<TestServer> {
  const server = await startServer();
  const query = { restype: "container" };
  const reply = await send(server, { method: "PUT", path: `/${CONTAINER}`, query });
  assert.equal(reply.status, 201, reply.text);
  return server;
}

async function cleanUp(server: TestServer): Promise<void> {
  await server.kill().catch(() => {});
  rmSync(server.directory, { recursive: true, force: true });
}

async function withServer(body: (server: TestServer) => Promise<void>): Promise<void> {
  const server = await prepared();
  try {
    await body(server);
  } finally {
    await cleanUp(server);
  }
}

async function withFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "lazuli-test-"));
  try {
    await body(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Flags that keep the server off the usual ports, should it start after all. */
const freePorts = () =>
  ["blob", "queue", "table", "file", "smb", "web"].flatMap((name) => [`--${name}Port`, "0"]);

/** Refused: exit code 1 and one sentence, without a stack. */
function isOneSentence({ code, stdout, stderr }: Ended, about: RegExp): void {
  const said = `${stdout}${stderr}`;
  assert.equal(code, 1, said);
  assert.match(said, about);
  assert.match(said, /^\S[^\n]*\.\n?$/, "one line that ends with a full stop");
}

function putHead(
  server: TestServer,
  path: string,
  query: readonly (readonly [string, string])[],
): string {
  const headers = { ...BLOCK_BLOB, "content-length": String(BODY_SIZE) };
  return headOf(server, { method: "PUT", path, query, headers });
}

const written = (socket: net.Socket, data: Buffer) =>
  new Promise<void>((resolve, reject) => {
    socket.write(data, (error) => (error ? reject(error) : resolve()));
  });

/** Announces 10 MiB, sends `size` bytes, and goes. */
async function sendHalf(
  server: TestServer,
  half: {
    readonly path: string;
    readonly query: readonly (readonly [string, string])[];
    readonly size: number;
    readonly cut: Cut;
  },
): Promise<void> {
  const socket = await connect(server);
  let said = "";
  socket.on("data", (data) => {
    said += data.toString("latin1");
  });
  socket.on("error", () => {});
  const closed = once(socket, "close");
  await written(socket, Buffer.from(putHead(server, half.path, half.query)));
  if (half.size > 0) await written(socket, randomBytes(half.size));
  await wait(50);
  if (half.cut === "reset") socket.resetAndDestroy();
  else if (half.cut === "destroy") socket.destroy();
  else socket.end();
  await closed;
  assert.doesNotMatch(said, /^HTTP\/1\.1 [25]/, "an answer to half a body");
}

/** No blob and no block at once; no file, and no word of one by `check`, when the server has stopped. */
async function nothingLeft(server: TestServer, path: string): Promise<void> {
  assert.equal((await send(server, { method: "HEAD", path })).status, 404);
  const query = { comp: "list", restype: "container", include: "uncommittedblobs" };
  const listed = await send(server, { method: "GET", path: `/${CONTAINER}`, query });
  assert.equal(listed.status, 200);
  assert.doesNotMatch(listed.text, /<Blob>/);
  assert.equal(await server.stop("keep"), 0, server.output());
  assert.deepEqual(chunkFiles(server.directory), [], "chunk files stay behind");
  await checkIsFine(server.directory);
}

function chunkFiles(directory: string): string[] {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => path.startsWith(join(directory, "chunks")));
}

async function checkIsFine(directory: string): Promise<void> {
  const { code, stdout, stderr } = await run("check", "--location", directory);
  assert.equal(code, 0, `check: ${stdout}${stderr}`);
}

async function refusesConnections(server: TestServer): Promise<void> {
  const until = Date.now() + 3000;
  for (;;) {
    try {
      const socket = await connect(server);
      socket.destroy();
    } catch {
      return;
    }
    assert.ok(Date.now() < until, "the server still takes connections 3 s after SIGTERM");
    await wait(20);
  }
}

async function firstLine(socket: net.Socket): Promise<string> {
  let said = "";
  for await (const data of socket.iterator({ destroyOnReturn: false })) {
    said += data.toString("latin1");
    if (said.includes("\r\n")) break;
  }
  return said.split("\r\n", 1)[0] ?? "";
}
