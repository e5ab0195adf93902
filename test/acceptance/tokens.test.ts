import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import tls from "node:tls";
import {
  AnonymousCredential,
  BlobSASPermissions,
  BlobServiceClient,
  type ContainerClient,
  ContainerSASPermissions,
  generateBlobSASQueryParameters,
  type RestError,
  StorageSharedKeyCredential,
  type UserDelegationKey,
} from "@azure/storage-blob";
import { UnsecuredJWT } from "jose";
import { type Issuer, startIssuer } from "./issuer.ts";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let issuer: Issuer;
let server: TestServer;
const folder = mkdtempSync(join(tmpdir(), "lazuli-tokens-"));
const rolesFile = join(folder, "roles.json");

const assignments = [
  { principal: "reader", role: "Storage Blob Data Reader" },
  { principal: "writer", role: "Storage Blob Data Contributor" },
  { principal: "chief", role: "Storage Blob Data Owner" },
  { principal: "team", role: "Storage Blob Data Contributor", container: "shared" },
  { principal: "queuer", role: "Storage Queue Data Owner" },
  { principal: "elsewhere", role: "Storage Blob Data Owner", account: "another1" },
];
const writeRoles = (list: readonly object[]) =>
  writeFileSync(rolesFile, JSON.stringify({ assignments: list }));
const begin = () =>
  startServer({
    directory: join(folder, "data"),
    args: ["--tls", "auto", "--oauth", issuer.url, "--roles", rolesFile],
  });

before(async () => {
  writeRoles(assignments);
  issuer = await startIssuer();
  server = await begin();
  const ca = readFileSync(join(server.directory, "tls", "ca.crt"), "utf8");
  tls.setDefaultCACertificates([...tls.getCACertificates("default"), ca]);
  const credential = new StorageSharedKeyCredential(server.account, server.key);
  const service = new BlobServiceClient(server.url, credential);
  for (const name of ["shared", "other"]) {
    const { containerClient } = await service.createContainer(name);
    await containerClient.getBlockBlobClient("b").upload("text", 4);
  }
});

after(async () => {
  await server.stop();
  issuer.stop();
  rmSync(folder, { recursive: true });
});

type Claims = Readonly<Record<string, unknown>>;

const serviceOf = (oid: string, claims: Claims = {}) =>
  new BlobServiceClient(server.url, {
    getToken: async () => ({
      token: await issuer.token(oid, claims),
      expiresOnTimestamp: Date.now() + 3_600_000,
    }),
  });

const codeOf = async (promise: Promise<unknown>): Promise<string> => {
  try {
    await promise;
    return "done";
  } catch (error) {
    const { statusCode, code, response } = error as RestError;
    return `${statusCode} ${code ?? response?.headers.get("x-ms-error-code")}`;
  }
};

const MISMATCH = "403 AuthorizationPermissionMismatch";
const INVALID = "401 InvalidAuthenticationInfo";

suite("Roles", () => {
  type Act = (service: BlobServiceClient) => Promise<unknown>;
  const read: Act = (service) => service.getContainerClient("other").getBlobClient("b").download();
  const write: Act = (service) =>
    service.getContainerClient("other").getBlockBlobClient("new").upload("x", 1);
  const share: Act = (service) =>
    service.getContainerClient("shared").getBlockBlobClient("new").upload("x", 1);
  const list: Act = (service) => service.listContainers().next();
  const policies: Act = (service) => service.getContainerClient("other").getAccessPolicy();
  const tags: Act = (service) => service.getContainerClient("other").getBlobClient("b").getTags();
  const cells: [who: string, act: Act, what: string, want: string, claims?: Claims][] = [
    ["reader", read, "reads", "done"],
    ["reader", list, "lists", "done"],
    ["reader", write, "writes", MISMATCH],
    ["reader", policies, "reads policies", MISMATCH],
    ["writer", write, "writes", "done"],
    ["writer", tags, "reads tags", MISMATCH],
    ["writer", policies, "reads policies", MISMATCH],
    ["chief", policies, "reads policies", "done"],
    ["chief", tags, "reads tags", "done"],
    ["member", share, "writes where the group may", "done", { groups: ["team"] }],
    ["member", write, "writes elsewhere", MISMATCH, { groups: ["team"] }],
    ["member", list, "lists all", MISMATCH, { groups: ["team"] }],
    ["member", share, "writes without the group", MISMATCH],
    ["queuer", read, "reads blobs", MISMATCH],
    ["elsewhere", read, "reads here", MISMATCH],
    ["stranger", read, "reads", MISMATCH],
  ];
  for (const [who, act, what, want, claims] of cells) {
    test(`${who} ${what}: ${want}`, async () =>
      assert.equal(await codeOf(act(serviceOf(who, claims))), want));
  }

  test("the roles file is read again", async () => {
    const late = () => codeOf(read(serviceOf("late")));
    assert.equal(await late(), MISMATCH);
    writeRoles([...assignments, { principal: "late", role: "Storage Blob Data Reader" }]);
    process.kill(server.pid, "SIGHUP");
    while ((await late()) !== "done") await new Promise((resolve) => setTimeout(resolve, 10));
  });
});

suite("Bearer tokens", () => {
  const bad: [what: string, token: () => Promise<string> | string][] = [
    ["expired", () => issuer.token("chief", { exp: Math.floor(Date.now() / 1000) - 1 })],
    ["for something else", () => issuer.token("chief", { aud: "https://graph.microsoft.com" })],
    ["of another issuer", () => issuer.token("chief", { iss: "https://issuer.test" })],
    ["without a signature", () => new UnsecuredJWT({ iss: issuer.url, oid: "chief" }).encode()],
    ["that is none", () => "nonsense"],
  ];
  for (const [what, token] of bad) {
    test(`${what}: ${INVALID}, with a challenge`, async () => {
      const headers = { authorization: `Bearer ${await token()}` };
      const reply = await send(server, {
        method: "GET",
        query: { comp: "list" },
        sign: "none",
        headers,
      });
      assert.equal(`${reply.status} ${reply.code}`, INVALID);
      assert.equal(
        reply.headers["www-authenticate"],
        `Bearer authorization_uri=${issuer.url}/oauth2/authorize resource_id=https://storage.azure.com`,
      );
      assert.match(reply.text, /<AuthenticationErrorDetail>/);
    });
  }

  test("a new key of the issuer is found", async () => {
    await issuer.rotate();
    assert.equal(await codeOf(serviceOf("reader").listContainers().next()), "done");
  });

  test("the SDK follows the challenge to the tenant", async () => {
    const asked: (string | undefined)[] = [];
    const service = new BlobServiceClient(server.url, {
      async getToken(_scopes, options) {
        asked.push(options?.tenantId);
        const token =
          options?.tenantId === undefined ? "wrong.wrong.wrong" : await issuer.token("reader");
        return { token, expiresOnTimestamp: Date.now() + 3_600_000 };
      },
    });
    assert.equal(await codeOf(service.listContainers().next()), "done");
    assert.deepEqual(asked, [undefined, issuer.tenant]);
  });
});

suite("Get User Delegation Key", () => {
  const HOUR_MS = 3_600_000;
  const keyOf = (who: string) =>
    serviceOf(who).getUserDelegationKey(
      new Date(Date.now() - HOUR_MS),
      new Date(Date.now() + HOUR_MS),
    );
  const signedBy = (
    key: UserDelegationKey,
    letters: string,
    more: object = {},
  ): ContainerClient => {
    const query = generateBlobSASQueryParameters(
      {
        containerName: "shared",
        permissions: ContainerSASPermissions.parse(letters),
        expiresOn: new Date(Date.now() + HOUR_MS),
        ...more,
      },
      key,
      server.account,
    );
    const service = new BlobServiceClient(`${server.url}?${query}`, new AnonymousCredential());
    return service.getContainerClient("shared");
  };

  test("a SAS by it does what both it and the user may", async () => {
    const reader = await keyOf("reader");
    assert.equal(reader.signedObjectId, "reader");
    assert.equal(reader.signedTenantId, issuer.tenant);
    const read = signedBy(reader, "rw").getBlobClient("b");
    assert.equal(await codeOf(read.download()), "done");
    const write = (client: ContainerClient) => codeOf(client.getBlockBlobClient("d").upload("", 0));
    assert.equal(await write(signedBy(reader, "rw")), MISMATCH);
    const writer = await keyOf("writer");
    assert.equal(await write(signedBy(writer, "r")), MISMATCH);
    assert.equal(await write(signedBy(writer, "rw")), "done");
  });

  const versions = ["2018-11-09", "2020-02-10", "2020-12-06", "2025-07-05", "2026-04-06"];
  for (const version of versions) {
    test(`a SAS by it in version ${version} is taken`, async () => {
      const client = signedBy(await keyOf("reader"), "r", { version });
      assert.equal(await codeOf(client.getBlobClient("b").download()), "done");
    });
  }

  test("a SAS of one blob that binds headers is good with those alone", async () => {
    const key = await keyOf("reader");
    const query = generateBlobSASQueryParameters(
      {
        containerName: "shared",
        blobName: "b",
        permissions: BlobSASPermissions.parse("r"),
        expiresOn: new Date(Date.now() + HOUR_MS),
        requestHeaders: { "x-ms-range": "bytes=0-1" },
      } as never,
      key,
      server.account,
    );
    const get = (range: string) =>
      fetch(`${server.url}/shared/b?${query}`, { headers: { "x-ms-range": range } });
    assert.equal(await (await get("bytes=0-1")).text(), "te");
    assert.equal((await get("bytes=0-2")).status, 403);
  });

  test("a SAS by it holds after a restart, and not for what was changed", async () => {
    const key = await keyOf("reader");
    const port = new URL(server.url).port;
    const url = signedBy(key, "r").getBlobClient("b").url;
    await server.stop("keep");
    server = await begin();
    const moved = url.replace(`:${port}/`, `:${new URL(server.url).port}/`);
    assert.equal((await fetch(moved)).status, 200);
    assert.equal((await fetch(moved.replace("skoid=reader", "skoid=chief"))).status, 403);
  });

  test("a key for longer than a week is refused", async () => {
    const late = new Date(Date.now() + 8 * 24 * HOUR_MS);
    const asked = serviceOf("reader").getUserDelegationKey(new Date(), late);
    assert.equal(await codeOf(asked), "400 InvalidXmlNodeValue");
  });

  test("is for users with a role only", async () => {
    assert.equal(await codeOf(keyOf("stranger")), MISMATCH);
    const credential = new StorageSharedKeyCredential(server.account, server.key);
    const owner = new BlobServiceClient(server.url, credential);
    const asked = owner.getUserDelegationKey(new Date(), new Date(Date.now() + HOUR_MS));
    assert.equal(await codeOf(asked), "403 AuthenticationFailed");
  });
});
