import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, suite, test } from "node:test";
import { fileURLToPath } from "node:url";
import { AzureNamedKeyCredential, generateTableSas, TableServiceClient } from "@azure/data-tables";
import {
  BlobServiceClient,
  ContainerSASPermissions,
  generateBlobSASQueryParameters,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { build } from "esbuild-wasm";
import { type Browser, chromium, type Page } from "playwright-core";
import { startServer, type TestServer } from "./server.ts";
import { at, tableClient } from "./tables.ts";

// The browser comes with its package, for this kind of machine only.
const skip = process.platform !== "linux" || process.arch !== "x64";
const folder = mkdtempSync(join(tmpdir(), "lazuli-browser-"));
let server: TestServer;
let browser: Browser;
let pages: http.Server;
let sas = "";

/** Unpacks the browser and the libraries it needs, and starts it with all its guards up. */
async function startBrowser(): Promise<Browser> {
  process.env.TMPDIR = folder; // where the package unpacks to
  const { default: packed, inflate } = await import("@sparticuz/chromium");
  const executablePath = await packed.executablePath();
  const bin = join(dirname(fileURLToPath(import.meta.resolve("@sparticuz/chromium"))), "../bin");
  const libraries = join(await inflate(join(bin, "al2023.tar.br")), "lib");
  const env = { ...process.env, LD_LIBRARY_PATH: libraries };
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--no-zygote", "--disable-dev-shm-usage"],
    env,
  });
}

/** The browser build of the SDK as one script, on a page of another origin. */
async function startPages(): Promise<http.Server> {
  const sdk = new URL(
    "../../node_modules/@azure/storage-blob/dist/browser/index.js",
    import.meta.url,
  );
  const contents = `import * as blob from ${JSON.stringify(fileURLToPath(sdk))}; globalThis.blob = blob;`;
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: process.cwd() },
    bundle: true,
    platform: "browser",
    format: "iife",
    write: false,
    logLevel: "silent",
  });
  const script = outputFiles[0]?.text ?? "";
  const listener = http.createServer((incoming, outgoing) => {
    const isScript = incoming.url === "/sdk.js";
    outgoing.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
    outgoing.end(isScript ? script : '<!doctype html><script src="/sdk.js"></script>');
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  return listener;
}

before(async () => {
  if (skip) return;
  [server, browser, pages] = await Promise.all([startServer(), startBrowser(), startPages()]);
  const credential = new StorageSharedKeyCredential(server.account, server.key);
  const service = new BlobServiceClient(server.url, credential);
  await service.createContainer("box");
  await service.setProperties({
    cors: [
      {
        allowedOrigins: originOf("127.0.0.1"),
        allowedMethods: "GET,HEAD,PUT,DELETE",
        allowedHeaders: "*",
        exposedHeaders: "*",
        maxAgeInSeconds: 60,
      },
    ],
  });
  const permissions = ContainerSASPermissions.parse("racwdl");
  const expiresOn = new Date(Date.now() + 3_600_000);
  const values = { containerName: "box", permissions, expiresOn };
  sas = generateBlobSASQueryParameters(values, credential).toString();
});

after(async () => {
  if (!skip) {
    await browser.close();
    pages.close();
    await server.stop();
  }
  rmSync(folder, { recursive: true, force: true });
});

const originOf = (host: string) => `http://${host}:${(pages.address() as AddressInfo).port}`;

async function pageAt(host: string): Promise<Page> {
  const page = await browser.newPage();
  await page.goto(originOf(host));
  return page;
}

suite("A browser on a page of another origin", { skip }, () => {
  test("uploads in blocks, reads back, lists and deletes with the SDK", async () => {
    const page = await pageAt("127.0.0.1");
    const result = (await page.evaluate(`(async () => {
      const box = new blob.ContainerClient(${JSON.stringify(`${server.url}/box?${sas}`)});
      const bytes = new Uint8Array(3 * 1024 * 1024).map((_, i) => i * 31);
      const client = box.getBlockBlobClient("von hier/ä.bin");
      const made = await client.uploadData(bytes, {
        blockSize: 1024 * 1024,
        maxSingleShotSize: 1024,
        metadata: { from: "browser" },
        blobHTTPHeaders: { blobContentType: "application/x-test" },
      });
      const back = await client.download();
      const body = new Uint8Array(await (await back.blobBody).arrayBuffer());
      const { metadata, contentType, etag } = await client.getProperties();
      const names = [];
      for await (const { name } of box.listBlobsFlat()) names.push(name);
      await client.delete();
      const missing = await client.getProperties().catch(({ statusCode }) => statusCode);
      const code = await client.download().catch((error) => error.code);
      return {
        same: body.length === bytes.length && body.every((byte, i) => byte === bytes[i]),
        sameTag: made.etag === etag && back.etag === etag,
        metadata, contentType, names, missing, code,
      };
    })()`)) as Record<string, unknown>;
    assert.deepEqual(result, {
      same: true,
      sameTag: true,
      metadata: { from: "browser" },
      contentType: "application/x-test",
      names: ["von hier/ä.bin"],
      missing: 404,
      code: "BlobNotFound",
    });
    await page.close();
  });

  test("sees nothing where no rule is for it", async () => {
    const page = await pageAt("localhost");
    const result = await page.evaluate(`(async () => {
      const url = ${JSON.stringify(`${server.url}/box/forbidden?${sas}`)};
      const put = { method: "PUT", headers: { "x-ms-blob-type": "BlockBlob" }, body: "x" };
      return [
        await fetch(url, put).then(({ status }) => status, ({ name }) => name),
        await fetch(url).then(({ status }) => status, ({ name }) => name),
      ];
    })()`);
    assert.deepEqual(result, ["TypeError", "TypeError"]);
    await page.close();
    const reply = await fetch(`${server.url}/box/forbidden?${sas}`);
    assert.equal(reply.status, 404, "the upload was stopped by the preflight");
  });

  test("reads an entity again and again, and asks by itself whether its copy is still good", async () => {
    const tables = TableServiceClient.fromConnectionString(server.connectionString, {
      allowInsecureConnection: true,
    });
    await tables.setProperties({
      cors: [
        {
          allowedOrigins: originOf("127.0.0.1"),
          allowedMethods: "GET",
          allowedHeaders: "*",
          exposedHeaders: "*",
          maxAgeInSeconds: 60,
        },
      ],
    });
    await tables.createTable("seen");
    const table = tableClient(server, "seen");
    const key = { partitionKey: "p", rowKey: "r" };
    await table.createEntity({ ...key, n: 1 });
    const credential = new AzureNamedKeyCredential(server.account, server.key);
    const permissions = { query: true };
    const expiresOn = new Date(Date.now() + 3_600_000);
    const signature = generateTableSas("seen", credential, { permissions, expiresOn });
    const url = `${server.urls.table}${at("seen", "p", "r")}?${signature}`;
    const page = await pageAt("127.0.0.1");
    const read = () =>
      page.evaluate(`fetch(${JSON.stringify(url)}).then(async (reply) => {
        const { n } = await reply.json();
        return [reply.status, n];
      })`);
    assert.deepEqual(await read(), [200, 1]);
    assert.deepEqual(await read(), [200, 1]);
    await table.updateEntity({ ...key, n: 2 });
    assert.deepEqual(await read(), [200, 2]);
    await page.close();
  });
});
