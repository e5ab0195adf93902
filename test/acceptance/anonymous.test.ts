import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import {
  AnonymousCredential,
  ContainerClient,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { VERSION } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;

before(async () => {
  server = await startServer();
  const credential = new StorageSharedKeyCredential(server.account, server.key);
  for (const [name, access] of [["closed"], ["blobs", "blob"], ["open", "container"]] as const) {
    const container = new ContainerClient(`${server.url}/${name}`, credential);
    await container.create(access === undefined ? {} : { access });
    await container.getBlockBlobClient("b").upload("text", 4, { metadata: { a: "1" } });
  }
});

after(() => server.stop());

const OLD = { "x-ms-version": "2019-07-07" };
const NEW = { "x-ms-version": VERSION };

/** Status and code of a request that nobody signed. */
async function ask(method: string, path: string, headers: Record<string, string> = {}) {
  const reply = await fetch(`${server.url}${path}`, { method, headers });
  const code = reply.headers.get("x-ms-error-code");
  return { reply, text: code === null ? `${reply.status}` : `${reply.status} ${code}` };
}

const HIDDEN = "404 ResourceNotFound";
const CHALLENGED = "401 NoAuthenticationInformation";

suite("Anonymous access", () => {
  // SEMANTICS d.11: what each level opens.
  const cells: [path: string, closed: string, blobs: string, open: string][] = [
    ["/b", HIDDEN, "200", "200"],
    ["/b?comp=metadata", HIDDEN, "200", "200"],
    ["/b?comp=blocklist", HIDDEN, "200", "200"],
    ["/b?comp=blocklist&blocklisttype=all", HIDDEN, HIDDEN, HIDDEN],
    ["/b?comp=tags", HIDDEN, HIDDEN, HIDDEN],
    ["/missing", HIDDEN, "404 BlobNotFound", "404 BlobNotFound"],
    ["?restype=container", HIDDEN, HIDDEN, "200"],
    ["?restype=container&comp=metadata", HIDDEN, HIDDEN, "200"],
    ["?restype=container&comp=list", HIDDEN, HIDDEN, "200"],
    ["?restype=container&comp=list&include=metadata,tags", HIDDEN, HIDDEN, HIDDEN],
    ["?restype=container&comp=acl", HIDDEN, HIDDEN, HIDDEN],
  ];
  for (const [path, ...wants] of cells) {
    for (const [i, name] of ["closed", "blobs", "open"].entries()) {
      test(`GET /${name}${path}: ${wants[i]}`, async () =>
        assert.equal((await ask("GET", `/${name}${path}`)).text, wants[i]));
    }
  }

  const others: [
    what: string,
    method: string,
    path: string,
    headers: Record<string, string>,
    want: string,
  ][] = [
    ["HEAD of an open blob", "HEAD", "/blobs/b", {}, "200"],
    ["a question about tags", "GET", "/open/b", { ...NEW, "x-ms-if-tags": "a='1'" }, CHALLENGED],
    ["HEAD of a closed blob", "HEAD", "/closed/b", {}, HIDDEN],
    ["a container that is not there", "GET", "/nowhere/b", {}, HIDDEN],
    ["a closed blob in an old version", "GET", "/closed/b", OLD, HIDDEN],
    ["a closed blob in a new version", "GET", "/closed/b", NEW, CHALLENGED],
    ["a container that is not there, in a new version", "GET", "/nowhere/b", NEW, CHALLENGED],
    ["a list of containers", "GET", "/?comp=list", {}, HIDDEN],
    ["a list of containers in a new version", "GET", "/?comp=list", NEW, CHALLENGED],
    [
      "a write to an open container",
      "PUT",
      "/open/b",
      { ...NEW, "x-ms-blob-type": "BlockBlob" },
      CHALLENGED,
    ],
    ["a delete in an open container", "DELETE", "/open/b", NEW, CHALLENGED],
  ];
  for (const [what, method, path, headers, want] of others) {
    test(`${what}: ${want}`, async () =>
      assert.equal((await ask(method, path, headers)).text, want));
  }

  test("the challenge says where to get a token", async () => {
    const { reply } = await ask("GET", "/closed/b", NEW);
    assert.match(
      reply.headers.get("www-authenticate") ?? "",
      /^Bearer authorization_uri=https:\/\/\S+ resource_id=https:\/\/storage\.azure\.com$/,
    );
  });

  test("ends at once when the container is closed", async () => {
    const credential = new StorageSharedKeyCredential(server.account, server.key);
    const owner = new ContainerClient(`${server.url}/door`, credential);
    await owner.create({ access: "blob" });
    await owner.getBlockBlobClient("b").upload("text", 4);
    const anyone = new ContainerClient(`${server.url}/door`, new AnonymousCredential());
    assert.equal(String(await anyone.getBlobClient("b").downloadToBuffer()), "text");
    await owner.setAccessPolicy();
    await assert.rejects(anyone.getBlobClient("b").download(), { statusCode: 401 });
  });
});
