import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { after, before, suite, test } from "node:test";
import {
  AccountSASPermissions,
  AccountSASResourceTypes,
  AccountSASServices,
  AnonymousCredential,
  BlobClient,
  BlobSASPermissions,
  type BlobSASSignatureValues,
  BlobServiceClient,
  BlockBlobClient,
  ContainerClient,
  ContainerSASPermissions,
  generateAccountSASQueryParameters,
  generateBlobSASQueryParameters,
  type RestError,
  SASProtocol,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { type RawRequest, send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";
import { signed } from "./wire.ts";

let server: TestServer;
let credential: StorageSharedKeyCredential;
let container: ContainerClient;

before(async () => {
  server = await startServer({ args: ["--versioning"] });
  credential = new StorageSharedKeyCredential(server.account, server.key);
  container = new ContainerClient(`${server.url}/box`, credential);
  await container.create();
  for (const name of ["one", "dir/two", "dir/sub/three", "dir2/four"]) {
    await container.getBlockBlobClient(name).upload("text", 4, { tags: { a: "b" } });
  }
});

after(() => server.stop());

const HOUR_MS = 3_600_000;
const hence = (ms: number) => new Date(Date.now() + ms);

/** A SAS of the container, or of a blob in it. */
function sas(values: Partial<BlobSASSignatureValues> & { letters?: string }): string {
  const { letters = "r", ...rest } = values;
  const parse = rest.blobName === undefined ? ContainerSASPermissions : BlobSASPermissions;
  const own = rest.identifier === undefined;
  return generateBlobSASQueryParameters(
    {
      containerName: "box",
      ...(own ? { permissions: parse.parse(letters), expiresOn: hence(HOUR_MS) } : {}),
      ...rest,
    },
    credential,
  ).toString();
}

const codeOf = async (promise: Promise<unknown>): Promise<string> => {
  try {
    await promise;
    return "done";
  } catch (error) {
    const { statusCode, code, response } = error as RestError;
    return `${statusCode} ${code ?? response?.headers.get("x-ms-error-code")}`;
  }
};

const containerBy = (query: string) =>
  new ContainerClient(`${server.url}/box?${query}`, new AnonymousCredential());
const blobBy = (name: string, query: string) =>
  new BlockBlobClient(
    `${server.url}/box/${encodeURIComponent(name)}?${query}`,
    new AnonymousCredential(),
  );
const MISMATCH = "403 AuthorizationPermissionMismatch";
const FAILED = "403 AuthenticationFailed";

suite("Service SAS", () => {
  test("of a container reads, lists, writes and deletes as its letters say", async () => {
    const box = containerBy(sas({ letters: "racwdl" }));
    await box.getBlockBlobClient("new").upload("new", 3);
    assert.equal(String(await box.getBlobClient("new").downloadToBuffer()), "new");
    const names: string[] = [];
    for await (const { name } of box.listBlobsFlat()) names.push(name);
    assert.ok(names.includes("new"));
    await box.getBlobClient("new").delete();
  });

  const cells: [
    what: string,
    letters: string,
    act: (box: ContainerClient) => Promise<unknown>,
    want: string,
  ][] = [
    ["lists with l", "l", (box) => box.listBlobsFlat().next(), "done"],
    ["lists with r", "r", (box) => box.listBlobsFlat().next(), MISMATCH],
    ["reads with r", "r", (box) => box.getBlobClient("one").getProperties(), "done"],
    ["writes with r", "r", (box) => box.getBlockBlobClient("x").upload("", 0), MISMATCH],
    ["makes with c", "c", (box) => box.getBlockBlobClient(`c-${Date.now()}`).upload("", 0), "done"],
    [
      "overwrites with c",
      "c",
      (box) => box.getBlockBlobClient("one").upload("", 0),
      "403 UnauthorizedBlobOverwrite",
    ],
    [
      "overwrites with w",
      "w",
      (box) => box.getBlockBlobClient("dir2/four").upload("four", 4),
      "done",
    ],
    [
      "writes tags with w",
      "w",
      (box) => box.getBlockBlobClient("x").upload("", 0, { tags: { a: "b" } }),
      MISMATCH,
    ],
    [
      "writes tags with wt",
      "wt",
      (box) => box.getBlockBlobClient("x").upload("", 0, { tags: { a: "b" } }),
      "done",
    ],
    ["reads tags with r", "r", (box) => box.getBlobClient("one").getTags(), MISMATCH],
    ["reads tags with t", "t", (box) => box.getBlobClient("one").getTags(), "done"],
    ["finds by tags with f", "f", (box) => box.findBlobsByTags("a='b'").next(), "done"],
    ["finds by tags with l", "l", (box) => box.findBlobsByTags("a='b'").next(), MISMATCH],
    [
      "leases with w",
      "w",
      (box) => box.getBlobClient("one").getBlobLeaseClient().breakLease(0),
      "409 LeaseNotPresentWithLeaseOperation",
    ],
    [
      "breaks a lease with d",
      "d",
      (box) => box.getBlobClient("one").getBlobLeaseClient().breakLease(0),
      "409 LeaseNotPresentWithLeaseOperation",
    ],
    [
      "acquires a lease with d",
      "d",
      (box) => box.getBlobClient("one").getBlobLeaseClient().acquireLease(15),
      MISMATCH,
    ],
    [
      "reads the container's properties with r",
      "r",
      (box) => box.getProperties(),
      "403 AuthorizationFailure",
    ],
    ["deletes the container with d", "d", (box) => box.delete(), "403 AuthorizationFailure"],
    ["reads the policies with r", "r", (box) => box.getAccessPolicy(), "403 AuthorizationFailure"],
    [
      "asks about the account with r",
      "r",
      (box) => box.getBlobClient("one").getAccountInfo(),
      "done",
    ],
  ];
  for (const [what, letters, act, want] of cells) {
    test(`of a container ${what}: ${want}`, async () =>
      assert.equal(await codeOf(act(containerBy(sas({ letters })))), want));
  }

  test("of a container is none for another one, nor for the account", async () => {
    const query = sas({ letters: "rl" });
    const other = new ContainerClient(`${server.url}/other?${query}`, new AnonymousCredential());
    assert.equal(await codeOf(other.listBlobsFlat().next()), FAILED);
    const service = new BlobServiceClient(`${server.url}?${query}`, new AnonymousCredential());
    assert.equal(await codeOf(service.listContainers().next()), FAILED);
  });

  test("of a blob is none for another blob, nor for the container", async () => {
    const query = sas({ blobName: "one", letters: "rw" });
    assert.equal(await codeOf(blobBy("one", query).getProperties()), "done");
    assert.equal(await codeOf(blobBy("dir/two", query).getProperties()), FAILED);
    assert.equal(await codeOf(containerBy(query).listBlobsFlat().next()), FAILED);
  });

  test("of a snapshot reads that snapshot alone", async () => {
    const { snapshot } = await container.getBlobClient("one").createSnapshot();
    assert.ok(snapshot);
    const later = await container.getBlobClient("one").createSnapshot();
    const query = sas({ blobName: "one", snapshotTime: snapshot });
    const blob = new BlobClient(`${server.url}/box/one?${query}`, new AnonymousCredential());
    assert.equal(await codeOf(blob.withSnapshot(snapshot).download()), "done");
    assert.equal(await codeOf(blob.download()), FAILED);
    assert.equal(await codeOf(blob.withSnapshot(later.snapshot ?? "").download()), FAILED);
  });

  test("of a version reads that version, and deletes it with x alone", async () => {
    const made = await container.getBlockBlobClient("versions").upload("1", 1);
    await container.getBlockBlobClient("versions").upload("2", 1);
    const { versionId = "" } = made;
    const blob = (letters: string) =>
      blobBy("versions", sas({ blobName: "versions", versionId, letters })).withVersion(versionId);
    assert.equal(String(await blob("r").downloadToBuffer()), "1");
    assert.equal(
      await codeOf(blobBy("versions", sas({ blobName: "versions", versionId })).download()),
      FAILED,
    );
    assert.equal(await codeOf(blob("d").delete()), MISMATCH);
    assert.equal(await codeOf(blob("x").delete()), "done");
  });

  test("of a directory reaches what is in it", async () => {
    const query = sas({ blobName: "dir", isDirectory: true });
    assert.match(query, /sr=d&.*sdd=1|sdd=1&.*sr=d/);
    for (const name of ["dir/two", "dir/sub/three"]) {
      assert.equal(await codeOf(blobBy(name, query).getProperties()), "done");
    }
    for (const name of ["one", "dir2/four"]) {
      assert.equal(await codeOf(blobBy(name, query).getProperties()), FAILED);
    }
  });

  test("of a directory lists it, and nothing beside it", async () => {
    // The SDK has no such letter for a directory, so this one is made by hand.
    const expiry = "2099-01-01T00:00:00Z";
    const resource = `/blob/${server.account}/box/dir`;
    const lines = ["rl", "", expiry, resource, "", "", "", "2021-08-06", "d", ...Array(7).fill("")];
    const signature = createHmac("sha256", Buffer.from(server.key, "base64"))
      .update(lines.join("\n"))
      .digest("base64");
    const fields = { sv: "2021-08-06", sr: "d", sdd: "1", sp: "rl", se: expiry, sig: signature };
    const box = containerBy(String(new URLSearchParams(fields)));
    const first = await box.listBlobsFlat({ prefix: "dir/" }).next();
    assert.equal(first.value?.name, "dir/sub/three");
    const beyond = "403 QueryParameterSddInvalid";
    assert.equal(await codeOf(box.listBlobsFlat({ prefix: "dir" }).next()), beyond);
    assert.equal(await codeOf(box.listBlobsFlat().next()), beyond);
    assert.equal(await codeOf(box.listBlobsFlat({ prefix: "dir2/" }).next()), FAILED);
  });

  test("of a name with all kinds of characters is the SDK's", async () => {
    for (const name of ["a b+c%20/ü?&=#", "'quoted' \"name\".txt", "日本"]) {
      await container.getBlockBlobClient(name).upload("x", 1);
      const query = sas({ blobName: name });
      assert.equal(await codeOf(blobBy(name, query).download()), "done", name);
    }
  });

  test("replaces headers of the reply", async () => {
    const query = sas({
      blobName: "one",
      cacheControl: "no-store",
      contentDisposition: 'attachment; filename="a b.txt"',
      contentEncoding: "identity",
      contentLanguage: "fr",
      contentType: "text/x-test",
    });
    const asForms = query.replaceAll("%20", "+"); // as .NET's and Go's SDKs write it
    assert.notEqual(asForms, query);
    for (const reply of [
      await blobBy("one", query).download(),
      await blobBy("one", query).getProperties(),
      await blobBy("one", asForms).getProperties(),
    ]) {
      assert.equal(reply.cacheControl, "no-store");
      assert.equal(reply.contentDisposition, 'attachment; filename="a b.txt"');
      assert.equal(reply.contentEncoding, "identity");
      assert.equal(reply.contentLanguage, "fr");
      assert.equal(reply.contentType, "text/x-test");
    }
  });

  test("writes in its encryption scope, and lets a header name no other", async () => {
    const query = sas({ letters: "rcw", encryptionScope: "myscope" });
    const made = await containerBy(query).getBlockBlobClient("scoped").upload("x", 1);
    assert.equal(made.encryptionScope, "myscope");
    const other = containerBy(query).getBlockBlobClient("scoped");
    const upload = other.upload("x", 1, { encryptionScope: "another" });
    assert.equal(await codeOf(upload), "400 InvalidHeaderValue");
  });

  const limits: [what: string, values: Partial<BlobSASSignatureValues>, want: string][] = [
    ["from this address", { ipRange: { start: "127.0.0.1" } }, "done"],
    ["from these addresses", { ipRange: { start: "127.0.0.0", end: "127.0.0.9" } }, "done"],
    [
      "from another address",
      { ipRange: { start: "10.0.0.1" } },
      "403 AuthorizationSourceIPMismatch",
    ],
    ["by both protocols", { protocol: SASProtocol.HttpsAndHttp }, "done"],
    ["by https alone", { protocol: SASProtocol.Https }, "403 AuthorizationProtocolMismatch"],
    ["that begins later", { startsOn: hence(HOUR_MS / 2) }, FAILED],
    ["that began", { startsOn: hence(-HOUR_MS) }, "done"],
    ["that has ended", { expiresOn: hence(-1000) }, FAILED],
    ["in version 2015-04-05", { version: "2015-04-05" }, "done"],
    ["in version 2018-11-09", { version: "2018-11-09" }, "done"],
    ["in version 2020-12-06", { version: "2020-12-06" }, "done"],
  ];
  for (const [what, values, want] of limits) {
    test(`${what}: ${want}`, async () =>
      assert.equal(
        await codeOf(blobBy("one", sas({ blobName: "one", ...values })).getProperties()),
        want,
      ));
  }

  test("with one character changed is refused, and the refusal shows no signature", async () => {
    const query = new URLSearchParams(sas({ blobName: "one" }));
    const right = query.get("sig") ?? "";
    query.set("sig", (right.startsWith("A") ? "B" : "A") + right.slice(1));
    const reply = await send(server, { ...read, query: Object.fromEntries(query) });
    assert.deepEqual([reply.status, reply.code], [403, "AuthenticationFailed"]);
    assert.match(reply.text, /<AuthenticationErrorDetail>.*String to sign used was/s);
    assert.ok(!reply.text.includes(right) && !reply.text.includes(server.key));
    query.set("sig", right);
    query.set("sp", "rw");
    assert.equal((await send(server, { ...read, query: Object.fromEntries(query) })).status, 403);
  });

  test("speaks the version it was signed with where a request names none", async () => {
    const query = sas({ blobName: "one", version: "2019-12-12" });
    const reply = await fetch(`${server.url}/box/one?${query}`);
    assert.equal(reply.status, 200);
    assert.equal(reply.headers.get("x-ms-version"), "2019-12-12");
    assert.equal(await reply.text(), "text");
  });
});

const read: RawRequest = { method: "GET", path: "/box/one", sign: "none" };

suite("Stored access policies", () => {
  const allow = (permissions: string, expiresOn = hence(HOUR_MS)) =>
    container.setAccessPolicy(undefined, [
      { id: "policy", accessPolicy: { permissions, expiresOn, startsOn: hence(-HOUR_MS) } },
    ]);

  test("give rights, change them and take them back at once", async () => {
    const box = containerBy(sas({ identifier: "policy" }));
    await allow("r");
    assert.equal(await codeOf(box.getBlobClient("one").download()), "done");
    assert.equal(await codeOf(box.listBlobsFlat().next()), MISMATCH);
    await allow("rlcw");
    assert.equal(await codeOf(box.listBlobsFlat().next()), "done");
    assert.equal(await codeOf(box.getBlockBlobClient("by-policy").upload("x", 1)), "done");
    await allow("rlc");
    assert.equal(
      await codeOf(box.getBlockBlobClient("by-policy").upload("x", 1)),
      "403 UnauthorizedBlobOverwrite",
    );
    await allow("r", hence(-1000));
    assert.equal(await codeOf(box.getBlobClient("one").download()), FAILED);
    await container.setAccessPolicy();
    assert.equal(await codeOf(box.getBlobClient("one").download()), FAILED);
  });

  test("share with the signature what each does not say, and nothing twice", async () => {
    await container.setAccessPolicy(undefined, [
      { id: "half", accessPolicy: { permissions: "r" } as never },
    ]);
    const by = (values: Partial<BlobSASSignatureValues>) =>
      codeOf(
        containerBy(sas({ identifier: "half", ...values }))
          .getBlobClient("one")
          .download(),
      );
    assert.equal(await by({ expiresOn: hence(HOUR_MS) }), "done");
    assert.equal(await by({}), FAILED);
    const both = { expiresOn: hence(HOUR_MS), permissions: ContainerSASPermissions.parse("r") };
    assert.equal(await by(both), FAILED);
  });

  test("stop a body that is sent without right before it is stored", async () => {
    await allow("r");
    const big = Buffer.alloc(1024 * 1024);
    const box = containerBy(sas({ identifier: "policy" }));
    assert.equal(await codeOf(box.getBlockBlobClient("big").upload(big, big.length)), MISMATCH);
  });
});

suite("Account SAS", () => {
  const query = (letters: string, types: string, services = "bqtf") =>
    generateAccountSASQueryParameters(
      {
        permissions: AccountSASPermissions.parse(letters),
        resourceTypes: AccountSASResourceTypes.parse(types).toString(),
        services: AccountSASServices.parse(services).toString(),
        expiresOn: hence(HOUR_MS),
      },
      credential,
    ).toString();
  const by = (text: string) =>
    new BlobServiceClient(`${server.url}?${text}`, new AnonymousCredential());

  test("lists, makes and deletes containers, and reads and writes blobs", async () => {
    const service = by(query("rwdlac", "sco"));
    const { containerClient } = await service.createContainer("by-account");
    await containerClient.getBlockBlobClient("b").upload("text", 4);
    assert.equal(String(await containerClient.getBlobClient("b").downloadToBuffer()), "text");
    const names: string[] = [];
    for await (const { name } of service.listContainers()) names.push(name);
    assert.ok(names.includes("by-account"));
    await containerClient.delete();
  });

  const cells: [
    what: string,
    query: () => string,
    act: (service: BlobServiceClient) => Promise<unknown>,
    want: string,
  ][] = [
    [
      "of another service",
      () => query("l", "s", "qtf"),
      (service) => service.listContainers().next(),
      "403 AuthorizationServiceMismatch",
    ],
    [
      "of another type",
      () => query("l", "co"),
      (service) => service.listContainers().next(),
      "403 AuthorizationResourceTypeMismatch",
    ],
    [
      "without the letter",
      () => query("r", "sco"),
      (service) => service.listContainers().next(),
      MISMATCH,
    ],
    ["for the settings", () => query("r", "s"), (service) => service.getProperties(), "done"],
    [
      "for the container's properties",
      () => query("r", "c"),
      (service) => service.getContainerClient("box").getProperties(),
      "done",
    ],
    [
      "for the policies",
      () => query("rwdlacup", "sco"),
      (service) => service.getContainerClient("box").getAccessPolicy(),
      "403 AuthorizationFailure",
    ],
    [
      "to find by tags",
      () => query("f", "o"),
      (service) => service.findBlobsByTags("a='b'").next(),
      "done",
    ],
  ];
  for (const [what, text, act, want] of cells) {
    test(`${what}: ${want}`, async () => assert.equal(await codeOf(act(by(text()))), want));
  }
});

suite("Secondary", () => {
  test("reads are answered, writes are refused", async () => {
    const at = async (method: string, path: string) => {
      const request = signed(server, { method, path });
      const target = request.target.replace(server.account, `${server.account}-secondary`);
      const reply = await fetch(`${server.origin}${target}`, {
        method,
        headers: Object.fromEntries(
          Object.entries(request.headers).filter(([name]) => name !== "host"),
        ),
      });
      return [reply.status, reply.headers.get("x-ms-error-code")];
    };
    assert.deepEqual(await at("GET", "/box/one"), [200, null]);
    assert.deepEqual(await at("DELETE", "/box/one"), [403, "InsufficientAccountPermissions"]);
  });
});
