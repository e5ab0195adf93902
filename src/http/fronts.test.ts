import assert from "node:assert/strict";
import { createHmac, hash } from "node:crypto";
import { once } from "node:events";
import { request as requestHttp } from "node:http";
import { connect } from "node:net";
import { after, suite, test } from "node:test";
import { type Accounts, parseAccounts } from "../auth/accounts.ts";
import { crc64 } from "../base/crc64.ts";
import { ClientGone } from "./body.ts";
import type { Served } from "./exchange.ts";
import { Fronts } from "./fronts.ts";

const KEY = Buffer.alloc(32, 7).toString("base64");
const OTHER_KEY = Buffer.alloc(32, 8).toString("base64");

suite("Threads of HTTP", async () => {
  let accounts: Accounts = parseAccounts(`abc:${KEY}`);
  const fronts = new Fronts(2, {
    accounts: () => accounts,
    onFatal(error) {
      throw error;
    },
  });
  let serve: (served: Served) => unknown = () => {};
  const opened = await fronts.open({
    service: "blob",
    serve: (served) => void serve(served),
    host: "127.0.0.1",
    port: 0,
    tls: undefined,
  });
  const { port } = opened.address;
  after(async () => {
    await opened.drained();
    await fronts.close();
  });

  type Sent = { method?: string; path?: string; headers?: Record<string, string>; body?: Buffer };

  /** Sends a request and gives the answer's status and body. */
  async function ask({ method = "GET", path = "/abc/c/b", headers = {}, body }: Sent) {
    const outgoing = requestHttp({ port, host: "127.0.0.1", method, path, headers });
    outgoing.end(body);
    const [incoming] = await once(outgoing, "response");
    const parts: Buffer[] = [];
    for await (const part of incoming) parts.push(part);
    return { status: incoming.statusCode as number, body: Buffer.concat(parts) };
  }

  test("a port that is in use is told", async () => {
    const options = { service: "blob", serve, host: "127.0.0.1", port, tls: undefined } as const;
    await assert.rejects(fronts.open(options), { code: "EADDRINUSE" });
  });

  for (const size of [0, 1, 1024, 8192, 8193, 65_536, 65_537, 300_000, 5_000_000]) {
    test(`a body of ${size} bytes comes as it was sent, with its sums, and goes back whole`, async () => {
      const body = Buffer.alloc(size, "0123456789\xff", "latin1");
      let sums: unknown;
      serve = async (served) => {
        const whole = await served.body.whole();
        sums = served.body.sums ?? (await served.body.laterSums?.());
        served.reply(200, ["Content-Length", String(whole.length)], whole);
      };
      const answer = await ask({ method: "PUT", body });
      assert.ok(answer.body.equals(body));
      assert.deepEqual(sums, { md5: hash("md5", body, "base64"), crc64: crc64(body) });
    });
  }

  test("sums are there for one who reads only as many bytes as there are", async () => {
    const body = Buffer.alloc(400_000, 5);
    serve = async (served) => {
      let left = body.length;
      for await (const part of served.body.stream()) {
        left -= part.length;
        if (left === 0) break;
      }
      const sums = await served.body.laterSums?.();
      served.reply(200, ["Content-Length", "24"], sums?.md5);
    };
    for (let i = 0; i < 20; i++) {
      assert.equal(String((await ask({ method: "PUT", body })).body), hash("md5", body, "base64"));
    }
  });

  test("a reply in pieces waits for a client that does not read", async () => {
    const piece = Buffer.alloc(256 * 1024, 9);
    let sent = 0;
    serve = async (served) => {
      served.begin(200, ["Content-Length", String(piece.length * 100)]);
      for (let i = 0; i < 100; i++) {
        await served.write(piece);
        sent++;
      }
      served.end();
    };
    const socket = connect(port, "127.0.0.1");
    socket.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    await once(socket, "readable"); // and nothing is read
    for (let before = -1; before !== sent; ) {
      before = sent;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    assert.ok(sent < 60, `${sent} pieces went ahead`);
    let size = 0;
    socket.on("data", (bytes) => {
      size += bytes.length;
    });
    while (size < piece.length * 100) await once(socket, "data");
    socket.destroy();
    assert.equal(sent, 100);
  });

  test("a client that goes in the middle of its body is gone", async () => {
    const gone = Promise.withResolvers<unknown>();
    serve = async (served) => {
      try {
        for await (const _part of served.body.stream());
        gone.resolve("all of it came");
      } catch (error) {
        gone.resolve(error);
      }
    };
    const socket = connect(port, "127.0.0.1");
    socket.write("PUT /abc/c/b HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nbegin");
    setTimeout(() => socket.destroy(), 50);
    assert.ok((await gone.promise) instanceof ClientGone);
  });

  test("a signature is verified by the keys of this moment", async () => {
    let signer: string | undefined;
    serve = (served) => {
      signer = served.signer?.name;
      served.reply(200, ["Content-Length", "0"]);
    };
    const signed = (key: string) => {
      const date = new Date(0).toUTCString();
      const text = `GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:${date}\nx-ms-version:2021-10-04\n/abc/abc/c/b`;
      const sum = createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
      return {
        "x-ms-date": date,
        "x-ms-version": "2021-10-04",
        authorization: `SharedKey abc:${sum}`,
      };
    };
    const signerOf = async (key: string) => {
      await ask({ headers: signed(key) });
      return signer;
    };
    assert.equal(await signerOf(KEY), "abc");
    assert.equal(await signerOf(OTHER_KEY), undefined);
    accounts = parseAccounts(`abc:${OTHER_KEY}`);
    assert.equal(await signerOf(KEY), undefined, "the first request after the change already");
    for (let i = 0; i < 20 && (await signerOf(OTHER_KEY)) === undefined; i++);
    assert.equal(signer, "abc");
    assert.equal(await signerOf(KEY), undefined);
  });
});
