import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import {
  BlobServiceClient,
  type ContainerClient,
  ContainerSASPermissions,
  generateBlobSASQueryParameters,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
let service: BlobServiceClient;
let container: ContainerClient;
let sas: string;

before(async () => {
  server = await startServer();
  const credential = new StorageSharedKeyCredential(server.account, server.key);
  service = new BlobServiceClient(server.url, credential);
  container = service.getContainerClient("box");
  await container.create({ access: "blob" });
  await container.getBlockBlobClient("b").upload("text", 4, { metadata: { a: "1" } });
  const permissions = ContainerSASPermissions.parse("rw");
  const expiresOn = new Date(Date.now() + 3_600_000);
  sas = generateBlobSASQueryParameters(
    { containerName: "box", permissions, expiresOn },
    credential,
  ).toString();
});

after(() => server.stop());

const RULE = {
  allowedOrigins: "http://a.test",
  allowedMethods: "GET,PUT",
  allowedHeaders: "x-ms-*,content-type",
  exposedHeaders: "x-ms-meta-*,ETag,x-ms-error-code",
  maxAgeInSeconds: 60,
};
const rules = (...cors: Partial<typeof RULE>[]) =>
  service.setProperties({ cors: cors.map((rule) => ({ ...RULE, ...rule })) });

type Headers = Record<string, string>;
const A = { Origin: "http://a.test" };

async function preflight(headers: Headers, path = "/box/b") {
  const reply = await fetch(`${server.url}${path}`, { method: "OPTIONS", headers });
  const code = reply.headers.get("x-ms-error-code");
  return { reply, text: code === null ? `${reply.status}` : `${reply.status} ${code}` };
}

const put = (headers: string) => ({
  ...A,
  "Access-Control-Request-Method": "PUT",
  "Access-Control-Request-Headers": headers,
});

suite("CORS preflight", () => {
  test("without rules is refused", async () => {
    await rules();
    assert.equal((await preflight(put("x-ms-date"))).text, "403 CorsPreflightFailure");
  });

  test("that a rule allows is answered without a signature, for what is there and what is not", async () => {
    await rules({});
    for (const path of ["/box/b", "/nowhere/at/all", "/?comp=list"]) {
      const { reply } = await preflight(put("x-ms-date,content-type"), path);
      assert.equal(reply.status, 200);
      const got = [...reply.headers].filter(([name]) => name.startsWith("access-control"));
      assert.deepEqual(Object.fromEntries(got), {
        "access-control-allow-origin": "http://a.test",
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": "PUT",
        "access-control-allow-headers": "x-ms-date,content-type",
        "access-control-max-age": "60",
      });
    }
  });

  const cells: [what: string, headers: Headers, want: string][] = [
    [
      "of another origin",
      { ...put("x-ms-date"), Origin: "http://b.test" },
      "403 CorsPreflightFailure",
    ],
    [
      "of another method",
      { ...put("x-ms-date"), "Access-Control-Request-Method": "DELETE" },
      "403 CorsPreflightFailure",
    ],
    ["of another header", put("authorization"), "403 CorsPreflightFailure"],
    ["of nobody", { "Access-Control-Request-Method": "PUT" }, "400 MissingRequiredHeader"],
    ["of no method", A, "400 MissingRequiredHeader"],
  ];
  for (const [what, headers, want] of cells) {
    test(`${what}: ${want}`, async () => assert.equal((await preflight(headers)).text, want));
  }

  test("in an account that is not there is not found", async () => {
    const reply = await fetch(`${server.origin}/nobody1/c/b`, {
      method: "OPTIONS",
      headers: put(""),
    });
    assert.equal(reply.status, 404);
  });
});

suite("CORS headers", () => {
  const corsOf = (reply: Response) =>
    Object.fromEntries(
      [...reply.headers].filter(([name]) => name === "vary" || name.startsWith("access-control")),
    );
  const OPEN = {
    "access-control-allow-origin": "http://a.test",
    "access-control-allow-credentials": "true",
  };

  test("stand on a reply, with what the page may see of it", async () => {
    await rules({});
    const reply = await fetch(`${server.url}/box/b`, { headers: A });
    assert.equal(reply.status, 200);
    assert.deepEqual(corsOf(reply), {
      ...OPEN,
      "access-control-expose-headers": "ETag,x-ms-meta-a,x-ms-error-code",
      vary: "Origin",
    });
  });

  test("stand on an error too", async () => {
    for (const [path, status] of [
      ["/box/missing", 404],
      ["/closed/b", 404],
      [`/box/b?${sas}x`, 403],
    ] as const) {
      const reply = await fetch(`${server.url}${path}`, { headers: A });
      assert.equal(reply.status, status);
      assert.equal(reply.headers.get("access-control-allow-origin"), "http://a.test");
      assert.match(reply.headers.get("access-control-expose-headers") ?? "", /x-ms-error-code/);
    }
  });

  test("stand on the reply to a write, without Vary", async () => {
    const headers = { ...A, "x-ms-blob-type": "BlockBlob" };
    const reply = await fetch(`${server.url}/box/new?${sas}`, {
      method: "PUT",
      headers,
      body: "x",
    });
    assert.equal(reply.status, 201);
    const { "access-control-expose-headers": exposed, ...rest } = corsOf(reply);
    assert.deepEqual(rest, OPEN);
    assert.match(exposed ?? "", /ETag/);
  });

  test("stand on the reply to a request by Shared Key that names an origin", async () => {
    const reply = await send(server, {
      method: "GET",
      path: "/box/b",
      headers: { origin: "http://a.test" },
    });
    assert.equal(reply.headers["access-control-allow-origin"], "http://a.test");
  });

  test("are not there for another origin, but Vary is, and the request runs", async () => {
    for (const headers of [{ Origin: "http://b.test" }, {}]) {
      const reply = await fetch(`${server.url}/box/b`, { headers });
      assert.equal(await reply.text(), "text");
      assert.deepEqual(corsOf(reply), { vary: "Origin" });
    }
  });

  test("are a star for everybody where the rule says so, also without an origin", async () => {
    await rules({ allowedOrigins: "*", exposedHeaders: "*" });
    for (const headers of [A, {}] as Headers[]) {
      const reply = await fetch(`${server.url}/box/b`, { headers });
      const { "access-control-expose-headers": exposed, ...rest } = corsOf(reply);
      assert.deepEqual(rest, { "access-control-allow-origin": "*" });
      assert.match(exposed ?? "", /x-ms-request-id.*ETag/);
    }
  });

  test("are gone with the rules", async () => {
    await rules();
    assert.deepEqual(corsOf(await fetch(`${server.url}/box/b`, { headers: A })), {});
  });
});

suite("CORS rules", () => {
  const many = (count: number, end = "") =>
    Array.from({ length: count }, (_, i) => `x-ms-meta-h${i}${end}`).join(",");
  const bad: [what: string, rules: Partial<typeof RULE>[]][] = [
    ["six rules", Array(6).fill({})],
    ["65 headers", [{ allowedHeaders: many(65) }]],
    ["three prefixes", [{ exposedHeaders: many(3, "*") }]],
    ["an origin of 257 characters", [{ allowedOrigins: `http://${"a".repeat(250)}` }]],
    [
      "more than 2 KiB",
      Array(5).fill({ allowedOrigins: `http://${"a".repeat(200)},http://${"b".repeat(200)}` }),
    ],
    ["a method that is none", [{ allowedMethods: "GET,DANCE" }]],
  ];
  for (const [what, list] of bad) {
    test(`${what} are refused with 400`, async () => {
      await assert.rejects(rules(...list), { statusCode: 400 });
    });
  }

  test("64 headers and two prefixes are taken", async () => {
    await rules({ allowedHeaders: `${many(64)},x-ms-meta-a*,x-ms-meta-b*` });
    await rules();
  });
});
