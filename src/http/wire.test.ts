import assert from "node:assert/strict";
import { test } from "node:test";
import {
  BrokenRequest,
  bodySizeOf,
  Chunks,
  headText,
  isHost,
  keepsAlive,
  parseHead,
} from "./wire.ts";

const head = (...lines: string[]) => lines.join("\r\n");

test("parseHead(): line, headers in both forms, white space around values", () => {
  const { method, url, headers, rawHeaders, minor } = parseHead(
    head(
      "PUT /a%20b?x=1 HTTP/1.1",
      "Host: h",
      "X-Ms-Meta-A: \t b c \t",
      "x-ms-meta-b:",
      "x-y:\xe4",
    ),
  );
  assert.deepEqual([method, url, minor], ["PUT", "/a%20b?x=1", 1]);
  assert.deepEqual(
    { ...headers },
    { host: "h", "x-ms-meta-a": "b c", "x-ms-meta-b": "", "x-y": "\xe4" },
  );
  assert.deepEqual(rawHeaders.slice(0, 4), ["Host", "h", "X-Ms-Meta-A", "b c"]);
  assert.equal(parseHead("GET / HTTP/1.0").minor, 0);
});

test("parseHead(): a target beyond ASCII is read as UTF-8, and refused if it is none", () => {
  const sent = (target: string) => parseHead(`GET ${target} HTTP/1.1`).url;
  assert.equal(
    sent("/c/gr\xc3\xb6\xc3\x9fe%20\xe2\x82\xac?prefix=\xc3\xb6"),
    "/c/größe%20€?prefix=ö",
  );
  assert.throws(() => sent("/c/\xf6"), BrokenRequest);
});

test("isHost(): names, addresses and ports, and nothing that ends a host in a URL", () => {
  for (const text of [
    "",
    "h",
    "my_host:10000",
    "a.blob.localhost",
    "127.0.0.1:80",
    "[::1]:1",
    "h:",
  ]) {
    assert.ok(isHost(text), text);
  }
  for (const text of [
    "[",
    "a b",
    "a/b",
    "a@b",
    "a?b",
    "a#b",
    "::1",
    "\xe4",
    "<x>",
    "h:x",
    "h:999999",
    "h:65536",
    ":80",
    "1.2.3.999",
    "[:::]",
    "%zz",
  ]) {
    assert.ok(!isHost(text), text);
  }
});

test("parseHead(): a header that comes twice is joined, unless that could mean two things", () => {
  const twice = (name: string) => () =>
    parseHead(head("GET / HTTP/1.1", `${name}: 1`, `${name}: 2`));
  assert.equal(twice("x-ms-meta-a")().headers["x-ms-meta-a"], "1, 2");
  for (const name of [
    "Host",
    "Content-Length",
    "Transfer-Encoding",
    "Authorization",
    "Content-Type",
  ]) {
    assert.throws(twice(name), BrokenRequest, name);
  }
});

test("parseHead(): names cannot reach what every object has", () => {
  const { headers } = parseHead(head("GET / HTTP/1.1", "__proto__: x", "constructor: y"));
  assert.equal(headers.toString, undefined);
  assert.equal(headers.constructor, "y");
});

const broken: [what: string, text: string][] = [
  ["nothing", ""],
  ["no version", "GET /"],
  ["HTTP/0.9", "GET / HTTP/0.9"],
  ["HTTP/2", "PRI * HTTP/2.0"],
  ["a verb in lower case", "get / HTTP/1.1"],
  ["a space in the target", "GET /a b HTTP/1.1"],
  ["a tab in the target", "GET /a\tb HTTP/1.1"],
  ["a zero in the target", "GET /a\0b HTTP/1.1"],
  ["no target", "GET  HTTP/1.1"],
  ["a header without a colon", head("GET / HTTP/1.1", "host")],
  ["a header without a name", head("GET / HTTP/1.1", ": x")],
  ["a space before the colon", head("GET / HTTP/1.1", "Content-Length : 4")],
  ["a space before the name", head("GET / HTTP/1.1", " Content-Length: 4")],
  ["a folded line", head("GET / HTTP/1.1", "a: b", "\tc")],
  ["a lone LF", head("GET / HTTP/1.1", "a: b\nContent-Length: 4")],
  ["a lone CR", head("GET / HTTP/1.1", "a: b\rContent-Length: 4")],
  ["a zero in a value", head("GET / HTTP/1.1", "a: b\0c")],
  ["DEL in a value", head("GET / HTTP/1.1", "a: \x7f")],
  ["a bad sign in a name", head("GET / HTTP/1.1", "a(b): c")],
  ["Latin-1 in a name", head("GET / HTTP/1.1", "\xe4: c")],
];

for (const [what, text] of broken) {
  test(`parseHead() refuses ${what}`, () => assert.throws(() => parseHead(text), BrokenRequest));
}

test("bodySizeOf(): by length, in chunks, or none; what two servers could read differently is refused", () => {
  const size = (...lines: string[]) => bodySizeOf(parseHead(head("PUT / HTTP/1.1", ...lines)));
  assert.equal(size(), 0);
  assert.equal(size("Content-Length: 0"), 0);
  assert.equal(size("Content-Length: 12"), 12);
  assert.equal(size("Transfer-Encoding: Chunked"), undefined);
  for (const lines of [
    ["Content-Length: -1"],
    ["Content-Length: +1"],
    ["Content-Length: 1e3"],
    ["Content-Length: 0x10"],
    ["Content-Length: 1, 1"],
    ["Content-Length:"],
    ["Content-Length: 9999999999999999"],
    ["Transfer-Encoding: gzip, chunked"],
    ["Transfer-Encoding: identity"],
    ["Transfer-Encoding: chunked", "Content-Length: 3"],
  ]) {
    assert.throws(() => size(...lines), BrokenRequest, String(lines));
  }
  const old = head("PUT / HTTP/1.0", "Transfer-Encoding: chunked");
  assert.throws(() => bodySizeOf(parseHead(old)), BrokenRequest);
});

const alive: [version: string, connection: string | undefined, want: boolean][] = [
  ["1.1", undefined, true],
  ["1.1", "keep-alive", true],
  ["1.1", "Close", false],
  ["1.1", "upgrade, close", false],
  ["1.0", undefined, false],
  ["1.0", "Keep-Alive", true],
];

for (const [version, connection, want] of alive) {
  test(`keepsAlive(): HTTP/${version}, Connection: ${connection} → ${want}`, () => {
    const lines = connection === undefined ? [] : [`Connection: ${connection}`];
    assert.equal(keepsAlive(parseHead(head(`GET / HTTP/${version}`, ...lines))), want);
  });
}

function unchunked(text: string, step: number): { data: string; rest: string; isOver: boolean } {
  const chunks = new Chunks();
  let data = "";
  let at = 0;
  while (at < text.length && !chunks.isOver) {
    const bytes = Buffer.from(text.slice(at, at + step), "latin1");
    const used = chunks.take(bytes, (part) => {
      data += part.toString("latin1");
    });
    at += used;
    if (used < bytes.length) break;
  }
  return { data, rest: text.slice(at), isOver: chunks.isOver };
}

test("Chunks: data is put together however it is cut, and what follows is left", () => {
  const text = '3\r\nabc\r\nA;name="v"\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nGET /';
  for (let step = 1; step <= text.length; step++) {
    assert.deepEqual(unchunked(text, step), { data: "abc0123456789", rest: "GET /", isOver: true });
  }
});

for (const text of [
  "x\r\n",
  "\r\n",
  "-1\r\n",
  "3\nabc\r\n",
  "3\r\nabcd\r\n",
  "3 3\r\nabc\r\n",
  `${"0".repeat(13)}\r\n`,
  `3;${"x".repeat(2000)}\r\n`,
  `0\r\n${`a: ${"x".repeat(900)}\r\n`.repeat(20)}\r\n`,
]) {
  test(`Chunks refuses ${JSON.stringify(text.slice(0, 30))}`, () => {
    for (const step of [1, 7, text.length])
      assert.throws(() => unchunked(text, step), BrokenRequest);
  });
}

test("headText(): no value can begin a line of its own", () => {
  assert.equal(headText(200, "OK", ["A", "b"]), "HTTP/1.1 200 OK\r\nA: b\r\n");
  for (const value of ["a\r\nb: c", "a\nb", "a\0", "\u0100"]) {
    assert.throws(() => headText(200, "OK", ["A", value]), /unfit/, JSON.stringify(value));
  }
});
