import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { connect as connectSecurely } from "node:tls";
import { randomIds } from "../base/ids.ts";
import { developmentCertificate, readCertificate } from "./certificate.ts";
import { Connection } from "./connection.ts";
import type { Exchange } from "./exchange.ts";
import { drained, httpServer } from "./listener.ts";

const clock = { now: () => Date.UTC(2026, 0, 2, 3, 4, 5) };

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Answers with what it was asked: verb, target and body, by the way that the target names. */
async function echo(exchange: Exchange): Promise<void> {
  const { method, url } = exchange.head;
  try {
    if (url === "/now") {
      exchange.reply(200, ["Content-Length", "3"], "now");
      return;
    }
    if (url === "/refuse") {
      exchange.reply(403, ["Content-Length", "0"]);
      return;
    }
    if (exchange.isAwaited) exchange.proceed();
    const body = await exchange.body.whole();
    if (url === "/later") await nextTurn();
    const text = `${method} ${url} ${body}`;
    if (url === "/stream") {
      exchange.begin(200, ["x-ms-meta-name", "Content-Length"]);
      for (const letter of text) await exchange.write(Buffer.from(letter));
      exchange.end();
    } else exchange.reply(200, ["Content-Length", String(Buffer.byteLength(text))], text);
  } catch {
    exchange.destroy();
  }
}

suite("A connection", () => {
  const server = httpServer({ serve: (exchange) => void echo(exchange), tls: undefined, clock });
  const port = once(server.listen(0, "127.0.0.1"), "listening").then(
    () => (server.address() as AddressInfo).port,
  );
  const folder = mkdtempSync(join(tmpdir(), "lazuli-connection-"));
  const { authority, files } = developmentCertificate({
    ...{ directory: folder, hosts: [], now: Date.now(), ids: randomIds },
  });
  const ca = readFileSync(authority);
  const tls = readCertificate(files);
  const secure = httpServer({ serve: (exchange) => void echo(exchange), tls, clock });
  const securePort = once(secure.listen(0, "127.0.0.1"), "listening").then(
    () => (secure.address() as AddressInfo).port,
  );
  after(async () => {
    await Promise.all([drained(server), drained(secure)]);
    rmSync(folder, { recursive: true });
  });

  /**
   * Sends pieces one after another, each expression when it was seen, and gives all that comes until the server
   * ends or `until` was seen.
   */
  async function told(pieces: readonly (string | RegExp)[], until?: RegExp): Promise<string> {
    const socket: Socket = connect(await port, "127.0.0.1");
    socket.setNoDelay(true);
    let text = "";
    const seen = new Promise<void>((resolve) => {
      socket.on("data", (bytes) => {
        text += bytes.toString("latin1");
        if (until?.test(text)) resolve();
      });
      socket.on("close", () => resolve());
      socket.on("error", () => resolve());
    });
    for (const piece of pieces) {
      if (typeof piece === "string") socket.write(piece, "latin1");
      else while (!piece.test(text)) await once(socket, "data");
      await nextTurn();
    }
    await seen;
    socket.destroy();
    return text;
  }

  /** Connections whose client may end its side and still listen. */
  const halfOpen = async () =>
    connect({ port: await port, host: "127.0.0.1", allowHalfOpen: true });
  const halfOpenSecure = async () =>
    connectSecurely({
      socket: connect({ port: await securePort, host: "127.0.0.1", allowHalfOpen: true }),
      ca,
      servername: "localhost",
    });

  const bodies = (text: string) =>
    text.split(/HTTP\/1\.1 \d+ [^\r]*\r\n/).map((each) => each.split("\r\n\r\n").slice(1).join());

  test("answers, with the date, and stays open", async () => {
    const text = await told(["GET /a HTTP/1.1\r\nHost: h\r\n\r\n"], /GET \/a/);
    assert.match(text, /^HTTP\/1\.1 200 OK\r\n/);
    assert.match(text, /\r\nDate: Fri, 02 Jan 2026 03:04:05 GMT\r\n/);
    assert.match(text, /\r\nConnection: keep-alive\r\n/);
  });

  test("who ends before TLS has begun, as one that looks whether somebody listens, is let go at once", async () => {
    const options = { port: await securePort, host: "127.0.0.1", allowHalfOpen: true };
    const socket = connect(options, () => socket.end());
    await once(socket.resume(), "close", { signal: AbortSignal.timeout(10_000) });
  });

  test("a head and a body may come byte by byte", async () => {
    const all = "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
    assert.match(await told([...all], /hello/), /PUT \/a hello$/);
  });

  test("requests that are sent ahead are answered in order, each after the one before", async () => {
    const one = (n: number) => `PUT /${n} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n${n}`;
    const many = Array.from({ length: 50 }, (_, n) => one(n % 10)).join("");
    const last = "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    const answers = bodies(await told([many + last])).slice(1);
    const wanted = Array.from({ length: 50 }, (_, n) => `PUT /${n % 10} ${n % 10}`);
    assert.deepEqual(answers, [...wanted, "GET /last "]);
  });

  test("Connection: close, HTTP/1.0, and a client that ends its side", async () => {
    const close = await told(["GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"]);
    assert.match(close, /\r\nConnection: close\r\n[\s\S]*GET \/a $/);
    assert.match(await told(["GET /a HTTP/1.0\r\n\r\n"]), /Connection: close[\s\S]*GET \/a $/);
    const socket = connect({ port: await port, host: "127.0.0.1", allowHalfOpen: true });
    socket.end("GET /half HTTP/1.1\r\nHost: h\r\n\r\n");
    let text = "";
    for await (const bytes of socket) text += bytes;
    assert.match(text, /GET \/half $/);
  });

  for (const protocol of ["HTTP", "HTTPS"]) {
    test(`${protocol}: who sends ahead and ends its side is answered, but for what is cut off`, async () => {
      const one = (letter: string) =>
        `PUT /later HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n${letter}`;
      const letters = [..."abcdefghij"];
      for (const rest of ["", "GET /cut HTTP/1.1\r\nHo", one("")]) {
        const socket = protocol === "HTTP" ? await halfOpen() : await halfOpenSecure();
        socket.end(letters.map(one).join("") + rest);
        let text = "";
        for await (const bytes of socket) text += bytes;
        const wanted = letters.map((letter) => `PUT /later ${letter}`);
        assert.deepEqual(bodies(text).slice(1), wanted, rest);
      }
    });
  }

  test("what a client sent ahead that is gone since is not served: nobody would tell that its body never comes", async () => {
    const served: Exchange[] = [];
    const own = httpServer({ serve: (each) => void served.push(each), tls: undefined, clock });
    after(() => drained(own));
    await once(own.listen(0, "127.0.0.1"), "listening");
    const accepted = once(own, "connection");
    const socket = connect((own.address() as AddressInfo).port, "127.0.0.1");
    const cutOff = "PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe";
    socket.write(`GET /a HTTP/1.1\r\nHost: h\r\n\r\n${cutOff}`);
    const [peer] = (await accepted) as [Socket];
    while (served.length === 0) await nextTurn();
    const [exchange] = served;
    socket.resetAndDestroy();
    exchange?.begin(200, []);
    while (!peer.destroyed) {
      await exchange?.write(Buffer.from("a"));
      await nextTurn();
    }
    exchange?.end();
    assert.deepEqual(
      served.map(({ head }) => head.url),
      ["/a"],
    );
  });

  test("a body in chunks is read, and a reply of unknown size is sent in chunks", async () => {
    const chunked =
      "PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    assert.match(await told([chunked], /abc/), /PUT \/a abc$/);
    const stream = await told(["GET /stream HTTP/1.1\r\nHost: h\r\n\r\n"], /\r\n0\r\n\r\n/);
    assert.match(stream, /Transfer-Encoding: chunked/);
    assert.match(stream, /\r\n\r\n1\r\nG\r\n1\r\nE\r\n/);
    const old = await told(["GET /stream HTTP/1.0\r\n\r\n"]);
    assert.match(old, /\r\n\r\nGET \/stream $/);
    assert.doesNotMatch(old, /chunked/);
  });

  test("HEAD has the length and no body", async () => {
    const text = await told(["HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"]);
    assert.match(text, /Content-Length: 8\r\n/);
    assert.ok(text.endsWith("\r\n\r\n"));
  });

  test("who waits to be told is told to send, or refused and let go", async () => {
    const ask = (url: string) =>
      `PUT ${url} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n`;
    const text = await told([ask("/a"), /100 Continue/, "ok"], /PUT \/a ok/);
    assert.match(text, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK/);
    const refused = await told([ask("/refuse")]);
    assert.match(refused, /^HTTP\/1\.1 403 [\s\S]*Connection: close/);
    const other = await told(
      ["PUT /a HTTP/1.1\r\nHost: h\r\nExpect: tea\r\nContent-Length: 0\r\n\r\n"],
      /417/,
    );
    assert.match(other, /^HTTP\/1\.1 417 /);
  });

  test("a body that nobody wanted is passed over, and the next request answered", async () => {
    const body = "x".repeat(300_000);
    const put = `PUT /now HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n`;
    const text = await told([put, body, "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"], /GET \/next/);
    assert.match(text, /now[\s\S]*GET \/next $/);
  });

  test("what is no request is refused, and the connection ended", async () => {
    for (const [bytes, code] of [
      ["GET /a HTTP/1.1\r\n\r\n", "400"],
      ["GET /a HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"],
      ["nonsense\r\n\r\n", "400 [^\r]*\r\nx-ms-error-code: InvalidInput[\\s\\S]*\r\nDate: "],
      ["GET /a HTTP/1.1\nHost: h\n\n", "400"],
      [
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "400",
      ],
      ["PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "400"],
      [`GET / HTTP/1.1\r\nHost: h\r\nx: ${"y".repeat(70_000)}\r\n\r\n`, "431"],
      [`GET / HTTP/1.1\r\nHost: h\r\nx: ${"y".repeat(70_000)}`, "431"],
    ] as const) {
      assert.match(await told([bytes]), new RegExp(`^HTTP/1\\.1 ${code}`), bytes.slice(0, 40));
    }
  });

  for (const [what, sent, isEnded] of [
    ["waits for its answer", "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n", false],
    [
      "does not send its body",
      "PUT /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf",
      true,
    ],
  ] as const) {
    test(`who ${what} for an hour is ${isEnded ? "let go" : "answered"}`, async () => {
      const served = Promise.withResolvers<Exchange>();
      const shared = { serve: served.resolve, commonLines: () => "", isClosing: false };
      const made = Promise.withResolvers<Connection>();
      const bare = createServer((socket) => made.resolve(new Connection(socket, shared, 0)));
      await once(bare.listen(0, "127.0.0.1"), "listening");
      const client = connect((bare.address() as AddressInfo).port, "127.0.0.1");
      client.write(sent);
      const exchange = await served.promise;
      const connection = await made.promise;
      for (let second = 1; second <= 3600; second++) connection.check(second * 1000);
      assert.equal(exchange.isGone, isEnded);
      exchange.destroy();
      client.destroy();
      bare.close();
    });
  }

  test("empty lines before a request are passed over", async () => {
    assert.match(
      await told(["\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n"], /GET \/a/),
      /GET \/a $/,
    );
  });
});
