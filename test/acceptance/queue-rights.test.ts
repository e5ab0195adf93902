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
import { at, startServer, type TestServer } from "./server.ts";

const folder = mkdtempSync(join(tmpdir(), "lazuli-queue-rights-"));
const MISMATCH = "403 AuthorizationPermissionMismatch";
const NEVER = "403 AuthorizationFailure";
const HOUR_MS = 3_600_000;
const hence = (ms: number) => new Date(Date.now() + ms);

let issuer: Issuer;
let server: TestServer;
let credential: StorageSharedKeyCredential;
let queue: QueueClient;

before(async () => {
  const rolesFile = join(folder, "roles.json");
  const assignments = [
    { principal: "sender", role: "Storage Queue Data Message Sender" },
    { principal: "processor", role: "Storage Queue Data Message Processor" },
    { principal: "writer", role: "Storage Queue Data Contributor" },
    { principal: "chief", role: "Storage Queue Data Owner" },
    { principal: "blobber", role: "Storage Blob Data Owner" },
  ];
  writeFileSync(rolesFile, JSON.stringify({ assignments }));
  issuer = await startIssuer();
  const args = ["--tls", "auto", "--oauth", issuer.url, "--roles", rolesFile];
  server = at(await startServer({ directory: join(folder, "data"), args }), "queue");
  const ca = readFileSync(join(server.directory, "tls", "ca.crt"), "utf8");
  tls.setDefaultCACertificates([...tls.getCACertificates("default"), ca]);
  credential = new StorageSharedKeyCredential(server.account, server.key);
  queue = new QueueClient(`${server.url}/box`, credential);
  await queue.create();
});

after(async () => {
  await server.stop();
  issuer.stop();
  rmSync(folder, { recursive: true, force: true });
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

type Act = (client: QueueClient) => Promise<unknown>;
const acts: Record<string, Act> = {
  put: (client) => client.sendMessage("text"),
  get: (client) => client.receiveMessages(),
  peek: (client) => client.peekMessages(),
  update: async (client) => {
    const { messageId, popReceipt } = await queue.sendMessage("text");
    return client.updateMessage(messageId, popReceipt, "new", 0);
  },
  delete: async (client) => {
    const { messageId, popReceipt } = await queue.sendMessage("text");
    return client.deleteMessage(messageId, popReceipt);
  },
  clear: (client) => client.clearMessages(),
  metadata: (client) => client.getProperties(),
  setMetadata: (client) => client.setMetadata({ a: "1" }),
  policies: (client) => client.getAccessPolicy(),
  create: (client) => client.create({ metadata: { other: "1" } }),
};

/** What each caller is answered; "m" is for a letter that is missing, "x" for what no such caller may. */
const answers: Record<string, readonly string[]> = {
  ".": ["done", "409 QueueAlreadyExists"],
  m: [MISMATCH],
  x: [NEVER],
};

async function judged(client: QueueClient): Promise<string> {
  let all = "";
  for (const [name, act] of Object.entries(acts)) {
    const code = await codeOf(act(client));
    const [letter] = Object.entries(answers).find(([, those]) => those.includes(code)) ?? [code];
    all += `${name}${letter} `;
  }
  return all.trim();
}

const by = (query: string) =>
  new QueueClient(`${server.url}/box?${query}`, new AnonymousCredential());

suite("Service SAS of a queue", () => {
  const sas = (letters: string) =>
    generateQueueSASQueryParameters(
      {
        queueName: "box",
        permissions: QueueSASPermissions.parse(letters),
        expiresOn: hence(HOUR_MS),
      },
      credential,
    ).toString();
  const rows: [letters: string, want: string][] = [
    ["r", "putm getm peek. updatem deletem clearx metadata. setMetadatax policiesx createx"],
    ["a", "put. getm peekm updatem deletem clearx metadatam setMetadatax policiesx createx"],
    ["u", "putm getm peekm update. deletem clearx metadatam setMetadatax policiesx createx"],
    ["p", "putm get. peekm updatem delete. clearx metadatam setMetadatax policiesx createx"],
    ["raup", "put. get. peek. update. delete. clearx metadata. setMetadatax policiesx createx"],
  ];
  for (const [letters, want] of rows) {
    test(`"${letters}" allows what it says`, async () =>
      assert.equal(await judged(by(sas(letters))), want));
  }

  test("is for its own queue", async () => {
    const other = new QueueClient(`${server.url}/other?${sas("raup")}`, new AnonymousCredential());
    assert.equal(await codeOf(other.sendMessage("text")), "403 AuthenticationFailed");
  });

  test("a stored policy gives letters and time, until it is taken back", async () => {
    const accessPolicy = { permissions: "a", startsOn: hence(-HOUR_MS), expiresOn: hence(HOUR_MS) };
    await queue.setAccessPolicy([{ id: "senders", accessPolicy }]);
    const query = generateQueueSASQueryParameters(
      { queueName: "box", identifier: "senders" },
      credential,
    ).toString();
    assert.equal(await codeOf(by(query).sendMessage("text")), "done");
    assert.equal(await codeOf(by(query).peekMessages()), MISMATCH);
    const more = { ...accessPolicy, permissions: "ra" };
    await queue.setAccessPolicy([{ id: "senders", accessPolicy: more }]);
    assert.equal(await codeOf(by(query).peekMessages()), "done");
    await queue.setAccessPolicy([]);
    assert.equal(await codeOf(by(query).sendMessage("text")), "403 AuthenticationFailed");
  });
});

suite("Account SAS on queues", () => {
  const sas = (letters: string, types: string, services: string) =>
    generateAccountSASQueryParameters(
      {
        services: AccountSASServices.parse(services).toString(),
        resourceTypes: AccountSASResourceTypes.parse(types).toString(),
        permissions: AccountSASPermissions.parse(letters),
        expiresOn: hence(HOUR_MS),
      },
      credential,
    ).toString();

  test("allows what it says, also to clear and to set metadata", async () => {
    const want = "putm get. peek. updatem delete. clear. metadata. setMetadata. policiesx create.";
    assert.equal(await judged(by(sas("rwdp", "co", "q"))), want);
  });

  test("is for its services and for its kinds of things", async () => {
    const put = (types: string, services: string) =>
      codeOf(by(sas("a", types, services)).sendMessage("text"));
    assert.equal(await put("o", "q"), "done");
    assert.equal(await put("o", "b"), "403 AuthorizationServiceMismatch");
    assert.equal(await put("sc", "q"), "403 AuthorizationResourceTypeMismatch");
  });
});

suite("Roles", () => {
  const serviceOf = (oid: string) =>
    new QueueServiceClient(server.url, {
      getToken: async () => ({
        token: await issuer.token(oid),
        expiresOnTimestamp: Date.now() + HOUR_MS,
      }),
    });
  const rows: [who: string, want: string][] = [
    ["sender", "put. getm peekm updatem deletem clearm metadatam setMetadatam policiesm createm"],
    [
      "processor",
      "putm get. peek. updatem delete. clearm metadata. setMetadatam policiesm createm",
    ],
    ["writer", "put. get. peek. update. delete. clear. metadata. setMetadata. policiesm create."],
    ["chief", "put. get. peek. update. delete. clear. metadata. setMetadata. policies. create."],
    ["blobber", "putm getm peekm updatem deletem clearm metadatam setMetadatam policiesm createm"],
    ["stranger", "putm getm peekm updatem deletem clearm metadatam setMetadatam policiesm createm"],
  ];
  for (const [who, want] of rows) {
    test(`${who} may do what the role says`, async () =>
      assert.equal(await judged(serviceOf(who).getQueueClient("box")), want));
  }

  test("Get User Delegation Key: its SAS gives what letters and role both allow", async () => {
    const key = await serviceOf("chief").getUserDelegationKey(hence(-HOUR_MS), hence(HOUR_MS));
    assert.deepEqual([key.signedObjectId, key.signedService], ["chief", "q"]);
    const query = generateQueueSASQueryParameters(
      {
        queueName: "box",
        permissions: QueueSASPermissions.parse("a"),
        expiresOn: hence(HOUR_MS / 2),
      },
      key,
      server.account,
    ).toString();
    assert.equal(await codeOf(by(query).sendMessage("text")), "done");
    assert.equal(await codeOf(by(query).receiveMessages()), MISMATCH);
    const other = new QueueClient(`${server.url}/other?${query}`, new AnonymousCredential());
    assert.equal(await codeOf(other.sendMessage("text")), "403 AuthenticationFailed");
    const byKey = new QueueServiceClient(server.url, credential);
    assert.equal(
      await codeOf(byKey.getUserDelegationKey(hence(0), hence(HOUR_MS))),
      "403 AuthenticationFailed",
    );
  });
});
