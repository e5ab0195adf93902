import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import tls from "node:tls";
import {
  BlobServiceClient,
  ContainerSASPermissions,
  generateBlobSASQueryParameters,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { SignJWT } from "jose";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
let log: string;

before(async () => {
  const directory = mkdtempSync(join(tmpdir(), "lazuli-secrets-"));
  log = join(directory, "log");
  const args = ["--tls", "auto", "--oauth", "basic", "--debug", log];
  server = await startServer({ directory, args });
  const ca = readFileSync(join(server.directory, "tls", "ca.crt"), "utf8");
  tls.setDefaultCACertificates([...tls.getCACertificates("default"), ca]);
});

after(() => rmSync(server.directory, { recursive: true }));

/** A token as Microsoft's would look, signed by nobody in particular. */
const tokenOf = (claims: Record<string, unknown> = {}) =>
  new SignJWT({
    iss: "https://sts.windows.net/11111111-2222-4333-8444-555555555555/",
    aud: "https://storage.azure.com",
    oid: "me",
    ...claims,
  })
    .setProtectedHeader({ alg: "HS256" })
    .setIssuedAt()
    .setExpirationTime("1h")
    .sign(Buffer.from("any thirty-two bytes and more of them"));

const list = (token: string) =>
  fetch(`${server.url}/?comp=list`, {
    headers: { authorization: `Bearer ${token}`, "x-ms-version": "2025-11-05" },
  });

suite("--oauth basic", () => {
  test("takes a token that looks right, and lets it do everything", async () => {
    const token = await tokenOf();
    const service = new BlobServiceClient(server.url, {
      getToken: async () => ({ token, expiresOnTimestamp: Date.now() + 3_600_000 }),
    });
    const { containerClient } = await service.createContainer("by-token");
    await containerClient.getBlockBlobClient("b").upload("text", 4);
    await containerClient.setAccessPolicy("blob");
    const key = await service.getUserDelegationKey(new Date(), new Date(Date.now() + 3_600_000));
    assert.equal(key.signedObjectId, "me");
  });

  test("refuses one of another issuer, for something else, or with other times", async () => {
    for (const claims of [
      { iss: "https://issuer.test/" },
      { aud: "https://graph.microsoft.com" },
      { nbf: Math.floor(Date.now() / 1000) + 3600 },
    ]) {
      assert.equal((await list(await tokenOf(claims))).status, 401);
    }
  });
});

suite("The log", () => {
  test("holds no key, signature or token, also of what is refused", async () => {
    const token = await tokenOf({ aud: "https://graph.microsoft.com" });
    await list(token);
    const credential = new StorageSharedKeyCredential(server.account, server.key);
    const query = generateBlobSASQueryParameters(
      {
        containerName: "by-token",
        permissions: ContainerSASPermissions.parse("r"),
        expiresOn: new Date(Date.now() + 3_600_000),
      },
      credential,
    );
    await fetch(`${server.url}/by-token/b?${query}`);
    await fetch(`${server.url}/by-token/b?${query}x`);
    const headers = { authorization: `SharedKey ${server.account}:${query.signature}` };
    await fetch(`${server.url}/by-token/b`, { headers });
    await server.stop("keep");
    const text = readFileSync(log, "utf8");
    assert.ok(text.includes("/by-token/b"), "the requests are there");
    const secrets = [server.key, token, query.signature, encodeURIComponent(query.signature)];
    for (const secret of secrets) assert.ok(!text.includes(secret));
  });
});
