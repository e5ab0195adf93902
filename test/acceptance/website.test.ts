import assert from "node:assert/strict";
import http from "node:http";
import { after, before, test } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
let service: BlobServiceClient;
let origin: URL;

before(async () => {
  server = await startServer();
  service = BlobServiceClient.fromConnectionString(server.connectionString);
  origin = new URL(/Web\s+(http:\S+)/.exec(server.output())?.[1] ?? "");
  const web = service.getContainerClient("$web");
  await web.create(); // without public access: the website needs none
  const pages: [name: string, type: string, text: string][] = [
    ["index.html", "text/html", "<h1>home</h1>"],
    ["docs/index.html", "text/html", "<h1>docs</h1>"],
    ["docs/ä b.txt", "text/plain", "umlaut"],
    ["404.html", "text/html", "<h1>gone astray</h1>"],
    ["app.css", "text/css", "0123456789"],
  ];
  for (const [name, blobContentType, text] of pages) {
    const blobHTTPHeaders = { blobContentType, blobCacheControl: "max-age=60" };
    const metadata = { secret: "yes" };
    await web.getBlockBlobClient(name).upload(text, text.length, { blobHTTPHeaders, metadata });
  }
});
after(() => server.stop());

type Answer = { status: number; headers: http.IncomingHttpHeaders; text: string };

/** What a browser gets; it signs nothing. */
const visit = (path: string, headers: Record<string, string> = {}, method = "GET") =>
  new Promise<Answer>((resolve, reject) => {
    const { hostname: host, port } = origin;
    const outgoing = http.request({ host, port, method, path, headers }, (reply) => {
      let text = "";
      reply.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      reply.on("end", () =>
        resolve({ status: reply.statusCode ?? 0, headers: reply.headers, text }),
      );
    });
    outgoing.on("error", reject).end();
  });

const settings = (staticWebsite: Record<string, unknown>) =>
  service.setProperties({ staticWebsite: { enabled: true, ...staticWebsite } });

test("static website: nothing is served before it is switched on", async () => {
  for (const path of ["/", "/index.html"]) {
    const reply = await visit(path);
    assert.equal(reply.status, 404);
    assert.equal(reply.headers["x-ms-error-code"], "WebContentNotFound");
    assert.match(reply.text, /<title>WebContentNotFound<\/title>/);
  }
  assert.equal((await visit("/healthz")).status, 200);
});

test("static website: pages, index documents and the error document", async () => {
  await settings({ indexDocument: "index.html", errorDocument404Path: "404.html" });
  const pages: [path: string, status: number, text: string][] = [
    ["/", 200, "<h1>home</h1>"],
    ["/?utm=1", 200, "<h1>home</h1>"],
    ["/index.html", 200, "<h1>home</h1>"],
    ["/docs/", 200, "<h1>docs</h1>"],
    ["/docs/%C3%A4%20b.txt", 200, "umlaut"],
    ["/docs", 404, "<h1>gone astray</h1>"],
    ["/none/", 404, "<h1>gone astray</h1>"],
    ["/%24web/index.html", 404, "<h1>gone astray</h1>"],
    ["/../index.html", 404, "<h1>gone astray</h1>"],
  ];
  for (const [path, status, text] of pages) {
    const reply = await visit(path);
    assert.deepEqual({ status: reply.status, text: reply.text }, { status, text }, path);
  }
  const reply = await visit("/");
  assert.equal(reply.headers["content-type"], "text/html");
  assert.equal(reply.headers["cache-control"], "max-age=60");
  assert.equal(reply.headers["content-length"], "13");
  assert.equal(reply.headers["x-ms-meta-secret"], undefined);
  assert.equal(reply.headers["x-ms-lease-state"], undefined);
  const head = await visit("/docs/", {}, "HEAD");
  assert.deepEqual(
    { status: head.status, text: head.text, size: head.headers["content-length"] },
    { status: 200, text: "", size: "13" },
  );
  const missing = await visit("/none", {}, "HEAD");
  assert.deepEqual({ status: missing.status, text: missing.text }, { status: 404, text: "" });
});

test("static website: conditions and ranges", async () => {
  await settings({ indexDocument: "index.html" });
  const { headers } = await visit("/app.css");
  const etag = String(headers.etag);
  const fresh = await visit("/app.css", { "if-none-match": etag });
  assert.deepEqual({ status: fresh.status, text: fresh.text }, { status: 304, text: "" });
  assert.equal((await visit("/app.css", { "if-none-match": '"other"' })).status, 200);
  assert.equal((await visit("/app.css", { "if-match": '"other"' })).status, 412);
  const since = { "if-modified-since": String(headers["last-modified"]) };
  assert.equal((await visit("/app.css", since)).status, 304);
  const range = await visit("/app.css", { range: "bytes=2-4" });
  assert.deepEqual({ status: range.status, text: range.text }, { status: 206, text: "234" });
  assert.equal(range.headers["content-range"], "bytes 2-4/10");
  const beyond = await visit("/app.css", { range: "bytes=10-" });
  assert.equal(beyond.status, 416);
  assert.equal(beyond.headers["content-range"], "bytes */10");
  const gone = await visit("/none", { range: "bytes=2-4", "if-match": etag });
  assert.equal(gone.status, 404);
});

test("static website: a default page for every directory", async () => {
  await settings({ defaultIndexDocumentPath: "docs/index.html" });
  for (const path of ["/", "/any/", "/docs/"]) {
    const { status, text } = await visit(path);
    assert.deepEqual({ status, text }, { status: 200, text: "<h1>docs</h1>" }, path);
  }
  assert.equal((await visit("/any")).status, 404);
});

test("static website: an error document that is missing itself gives the plain page", async () => {
  await settings({ indexDocument: "index.html", errorDocument404Path: "nowhere.html" });
  const reply = await visit("/none");
  assert.equal(reply.status, 404);
  assert.match(reply.text, /The requested content does not exist\./);
});

test("static website: only reading, only known accounts, only paths that are some", async () => {
  await settings({ indexDocument: "index.html" });
  for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
    const reply = await visit("/index.html", {}, method);
    assert.deepEqual(
      { status: reply.status, allow: reply.headers.allow },
      { status: 405, allow: "GET, HEAD" },
    );
  }
  const mine = { host: `${server.account}.web.localhost` };
  assert.equal((await visit("/", mine)).status, 200);
  const azure = { host: `${server.account}.z6.web.core.windows.net` };
  assert.equal((await visit("/", azure)).status, 200);
  assert.equal((await visit("/", { host: "unknown.web.localhost" })).status, 404);
  assert.equal((await visit("/%ff")).status, 400);
  assert.equal((await visit(`/${"x".repeat(9000)}`)).status, 414);
  assert.equal((await visit(`/${"x".repeat(2000)}`)).status, 400);
});
