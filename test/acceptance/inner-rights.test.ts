import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import {
  AnonymousCredential,
  BlobBatch,
  BlobBatchClient,
  BlockBlobClient,
  ContainerClient,
  ContainerSASPermissions,
  generateBlobSASQueryParameters,
  type RestError,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
let credential: StorageSharedKeyCredential;

before(async () => {
  server = await startServer();
  credential = new StorageSharedKeyCredential(server.account, server.key);
  for (const name of ["mine", "theirs", "open"]) {
    const container = new ContainerClient(`${server.url}/${name}`, credential);
    await container.create(name === "open" ? { access: "blob" } : {});
    await container.getBlockBlobClient("b").upload("text", 4);
  }
});

after(() => server.stop());

const sas = (containerName: string, letters: string) =>
  generateBlobSASQueryParameters(
    {
      containerName,
      permissions: ContainerSASPermissions.parse(letters),
      expiresOn: new Date(Date.now() + 3_600_000),
    },
    credential,
  ).toString();

const codeOf = async (promise: Promise<unknown>): Promise<string> => {
  try {
    await promise;
    return "done";
  } catch (error) {
    const { statusCode, code } = error as RestError;
    return `${statusCode} ${code}`;
  }
};

// A signature for one container must not become a way to read another one.
suite("What a copy may read", () => {
  const cells: [what: string, letters: string | undefined, source: () => string, want: RegExp][] = [
    ["the owner copies from any container", undefined, () => "/theirs/b", /^done$/],
    [
      "a SAS copies from another container without a right",
      "cw",
      () => "/theirs/b",
      /^40[134] CannotVerifyCopySource$/,
    ],
    [
      "a SAS copies from its own container without a right there",
      "rcw",
      () => "/mine/b",
      /^40[134] CannotVerifyCopySource$/,
    ],
    ["a SAS copies by another SAS", "cw", () => `/theirs/b?${sas("theirs", "r")}`, /^done$/],
    [
      "a SAS copies by a SAS that cannot read",
      "cw",
      () => `/theirs/b?${sas("theirs", "w")}`,
      /^403 CannotVerifyCopySource$/,
    ],
    [
      "a SAS copies by a SAS of another container",
      "cw",
      () => `/theirs/b?${sas("mine", "r")}`,
      /^403 CannotVerifyCopySource$/,
    ],
    [
      "the owner copies by a SAS that cannot read",
      undefined,
      () => `/theirs/b?${sas("theirs", "w")}`,
      /^403 CannotVerifyCopySource$/,
    ],
    ["a SAS copies what is open to all", "cw", () => "/open/b", /^done$/],
    [
      "a SAS that cannot write copies",
      "r",
      () => "/open/b",
      /^403 AuthorizationPermissionMismatch$/,
    ],
  ];
  for (const [what, letters, source, want] of cells) {
    const clientAt = (name: string) =>
      letters === undefined
        ? new BlockBlobClient(`${server.url}/mine/${name}`, credential)
        : new BlockBlobClient(
            `${server.url}/mine/${name}?${sas("mine", letters)}`,
            new AnonymousCredential(),
          );
    test(`${what}: ${want.source}`, async () => {
      const url = `${server.url}${source()}`;
      const copy = clientAt(`copy-${Math.random()}`).beginCopyFromURL(url);
      assert.match(await codeOf(copy.then((poller) => poller.pollUntilDone())), want);
      assert.match(await codeOf(clientAt(`sync-${Math.random()}`).syncCopyFromURL(url)), want);
      const upload = clientAt(`put-${Math.random()}`).syncUploadFromURL(url);
      assert.match(await codeOf(upload), want);
    });
  }
});

suite("What a batch may do", () => {
  const removed = async (letters: string, names: readonly string[]) => {
    const owner = new ContainerClient(`${server.url}/mine`, credential);
    for (const name of names) await owner.getBlockBlobClient(name).upload("x", 1);
    const query = sas("mine", letters);
    const batch = new BlobBatch();
    for (const name of names) {
      await batch.deleteBlob(`${server.url}/mine/${name}?${query}`, new AnonymousCredential());
    }
    const url = `${server.url}/mine?${query}`;
    const client = new BlobBatchClient(url, new AnonymousCredential());
    const { subResponses } = await client.submitBatch(batch);
    return subResponses.map(({ status, errorCode }) => `${status} ${errorCode ?? ""}`.trim());
  };

  test("a container's SAS with d deletes its blobs", async () =>
    assert.deepEqual(await removed("d", ["x", "y"]), ["202", "202"]));

  test("a container's SAS with w sends a batch, whose deletes are refused one by one", async () => {
    const refused = "403 AuthorizationPermissionMismatch";
    assert.deepEqual(await removed("w", ["x", "y"]), [refused, refused]);
  });

  test("a container's SAS with r sends none", async () => {
    await assert.rejects(removed("r", ["x"]), { statusCode: 403 });
  });
});
