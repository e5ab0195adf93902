import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import tls from "node:tls";
import {
  AccountSASPermissions,
  AccountSASResourceTypes,
  AccountSASServices,
  AnonymousCredential,
  generateAccountSASQueryParameters,
  generateQueueSASQueryParameters,
  QueueClient,
  QueueSASPermissions,
  QueueServiceClient,
  type RestError,
  StorageSharedKeyCredential,
} from "@azure/storage-queue";
import { type Issuer, startIssuer } from "./issuer.ts";
import { startServer, type TestServer } from "./server.ts";

let issuer: Issuer;
let server: TestServer;
let url: string;
let credential: StorageSharedKeyCredential;
let queue: QueueClient;
const folder = mkdtempSync(join(tmpdir(), "lazuli-queue-rights-"));

before(async () => {
  issuer = await startIssuer();
  const roles = join(folder, "roles.json");
  const assignments = [
    { principal: "sender", role: "Storage Queue Data Message Sender" },
    { principal: "worker", role: "Storage Queue Data Message Processor" },
    { principal: "writer", role: "Storage Queue Data Contributor" },
    { principal: "blobber", role: "Storage Blob Data Owner" },
  ];
  writeFileSync(roles, JSON.stringify({ assignments }));
  const args = ["--tls", "auto", "--oauth", issuer.url, "--roles", roles];
  server = await startServer({ directory: join(folder, "data"), args });
  const ca = readFileSync(join(server.directory, "tls", "ca.crt"), "utf8");
  tls.setDefaultCACertificates([...tls.getCACertificates("default"), ca]);
  url = server.urls.queue ?? "";
  credential = new StorageSharedKeyCredential(server.account, server.key);
  queue = new QueueClient(`${url}/work`, credential);
  await queue.create();
  await new QueueClient(`${url}/other`, credential).create();
});

after(async () => {
  await server.stop();
  issuer.stop();
  rmSync(folder, { recursive: true });
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

const HOUR_MS = 3_600_000;
const expiresOn = new Date(Date.now() + HOUR_MS);
const MISMATCH = "403 AuthorizationPermissionMismatch";
const FAILED = "403 AuthenticationFailed";

type Act = (queue: QueueClient) => Promise<unknown>;
const acts: Readonly<Record<string, Act>> = {
  put: (client) => client.sendMessage("m"),
  get: (client) => client.receiveMessages(),
  peek: (client) => client.peekMessages(),
  clear: (client) => client.clearMessages(),
  metadata: (client) => client.getProperties(),
  set: (client) => client.setMetadata({ a: "1" }),
  create: (client) => client.create(),
};

const by = (query: string, name = "work") =>
  new QueueClient(`${url}/${name}?${query}`, new AnonymousCredential());

suite("SAS of a queue", () => {
  const sas = (letters: string) =>
    generateQueueSASQueryParameters(
      { queueName: "work", permissions: QueueSASPermissions.parse(letters), expiresOn },
      credential,
    ).toString();

  // SEMANTICS d.9: put a, get p, peek r, metadata r; what is of the queue itself is not possible.
  const cells: [letters: string, act: string, want: string][] = [
    ["a", "put", "done"],
    ["r", "put", MISMATCH],
    ["p", "get", "done"],
    ["r", "get", MISMATCH],
    ["r", "peek", "done"],
    ["p", "peek", MISMATCH],
    ["r", "metadata", "done"],
    ["a", "metadata", MISMATCH],
    ["raup", "set", "403 AuthorizationFailure"],
    ["raup", "create", "403 AuthorizationFailure"],
    ["raup", "clear", "403 AuthorizationFailure"],
  ];
  for (const [letters, act, want] of cells) {
    test(`with ${letters}: ${act}: ${want}`, async () =>
      assert.equal(await codeOf(acts[act]?.(by(sas(letters))) ?? Promise.reject()), want));
  }

  test("updates with u and deletes with p", async () => {
    await queue.clearMessages();
    await queue.sendMessage("m");
    const { receivedMessageItems } = await queue.receiveMessages();
    const [{ messageId, popReceipt } = { messageId: "", popReceipt: "" }] = receivedMessageItems;
    const update = (letters: string) => by(sas(letters)).updateMessage(messageId, popReceipt, "n");
    assert.equal(await codeOf(update("p")), MISMATCH);
    const { popReceipt: next = "" } = await update("u");
    assert.equal(await codeOf(by(sas("u")).deleteMessage(messageId, next)), MISMATCH);
    assert.equal(await codeOf(by(sas("p")).deleteMessage(messageId, next)), "done");
  });

  test("is none for another queue", async () =>
    assert.equal(await codeOf(by(sas("raup"), "other").peekMessages()), FAILED));

  test("leans on a stored policy, which is taken back at once", async () => {
    const query = generateQueueSASQueryParameters(
      { queueName: "work", identifier: "policy" },
      credential,
    ).toString();
    const allow = (permissions: string) =>
      queue.setAccessPolicy([
        { id: "policy", accessPolicy: { permissions, startsOn: new Date(0), expiresOn } },
      ]);
    await allow("r");
    assert.equal(await codeOf(by(query).peekMessages()), "done");
    assert.equal(await codeOf(by(query).sendMessage("m")), MISMATCH);
    await allow("ra");
    assert.equal(await codeOf(by(query).sendMessage("m")), "done");
    await queue.setAccessPolicy();
    assert.equal(await codeOf(by(query).peekMessages()), FAILED);
  });
});

suite("Account SAS on queues", () => {
  const sas = (letters: string, types: string, services: string) =>
    generateAccountSASQueryParameters(
      {
        permissions: AccountSASPermissions.parse(letters),
        resourceTypes: AccountSASResourceTypes.parse(types).toString(),
        services: AccountSASServices.parse(services).toString(),
        expiresOn,
      },
      credential,
    ).toString();
  const cells: [letters: string, types: string, services: string, act: string, want: string][] = [
    ["a", "o", "q", "put", "done"],
    ["a", "o", "b", "put", "403 AuthorizationServiceMismatch"],
    ["a", "sc", "q", "put", "403 AuthorizationResourceTypeMismatch"],
    ["d", "o", "q", "clear", "done"],
    ["w", "c", "q", "set", "done"],
    ["c", "c", "q", "create", "409 QueueAlreadyExists"],
  ];
  for (const [letters, types, services, act, want] of cells) {
    test(`${services} ${types} ${letters}: ${act}: ${want}`, async () => {
      const client = by(sas(letters, types, services));
      assert.equal(await codeOf(acts[act]?.(client) ?? Promise.reject()), want);
    });
  }
});

suite("Users of queues", () => {
  const serviceOf = (who: string) =>
    new QueueServiceClient(url, {
      getToken: async () => ({
        token: await issuer.token(who),
        expiresOnTimestamp: Date.now() + HOUR_MS,
      }),
    });
  const cells: [who: string, act: string, want: string][] = [
    ["sender", "put", "done"],
    ["sender", "peek", MISMATCH],
    ["worker", "get", "done"],
    ["worker", "put", MISMATCH],
    ["writer", "clear", "done"],
    ["blobber", "peek", MISMATCH],
  ];
  for (const [who, act, want] of cells) {
    test(`${who}: ${act}: ${want}`, async () => {
      const client = serviceOf(who).getQueueClient("work");
      assert.equal(await codeOf(acts[act]?.(client) ?? Promise.reject()), want);
    });
  }

  test("Get User Delegation Key gives a key for SAS of queues", async () => {
    const service = serviceOf("writer");
    const key = await service.getUserDelegationKey(new Date(), expiresOn);
    assert.equal(key.signedService, "q");
    const query = generateQueueSASQueryParameters(
      { queueName: "work", permissions: QueueSASPermissions.parse("r"), expiresOn },
      key,
      server.account,
    ).toString();
    assert.equal(await codeOf(by(query).peekMessages()), "done");
    assert.equal(await codeOf(by(query).sendMessage("m")), MISMATCH);
    assert.equal(await codeOf(by(query, "other").peekMessages()), FAILED);
  });
});
