import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import {
  answered,
  createDirectory,
  createFile,
  type FileServer,
  freshName,
  namesIn,
  onDirectory,
  onShare,
  putRange,
  startFiles,
} from "./files.ts";

let files: FileServer;

before(async () => {
  files = await startFiles();
});

after(() => files.stop());

const on = (share: string, method: string, comp = "", headers = {}, query = {}) =>
  files.ask({ method, path: `/${share}`, query: onShare(comp, query), headers });

suite("Create Share, Get Share Properties, Set Share Properties", () => {
  test("a share has metadata, a quota and a tier", async () => {
    const share = files.service.getShareClient(freshName());
    await share.create({ metadata: { One: "1" }, quota: 7, accessTier: "Cool" });
    const got = await share.getProperties();
    assert.deepEqual(got.metadata, { one: "1" });
    assert.deepEqual([got.quota, got.accessTier], [7, "Cool"]);
    assert.deepEqual([got.leaseState, got.leaseStatus], ["available", "unlocked"]);
    assert.match(String(got.etag), /^"0x[0-9A-F]+"$/);
  });

  test("defaults: 5 TiB, TransactionOptimized, SMB", async () => {
    const { headers } = answered(await on(await files.share(), "HEAD"), 200);
    assert.equal(headers["x-ms-share-quota"], "5120");
    assert.equal(headers["x-ms-access-tier"], "TransactionOptimized");
    assert.equal(headers["x-ms-enabled-protocols"], "SMB");
  });

  test("a share that is there is not made again", async () => {
    const name = await files.share();
    answered(await on(name, "PUT"), 409, "ShareAlreadyExists");
  });

  test("quota and tier can be set; what is not given stays", async () => {
    const name = await files.share({ "x-ms-share-quota": "9" });
    const before = await on(name, "GET");
    const set = answered(await on(name, "PUT", "properties", { "x-ms-access-tier": "hot" }), 200);
    assert.notEqual(set.headers.etag, before.headers.etag);
    const { headers } = await on(name, "GET");
    assert.equal(headers["x-ms-share-quota"], "9");
    assert.equal(headers["x-ms-access-tier"], "Hot");
    assert.ok(headers["x-ms-access-tier-change-time"]);
    answered(await on(name, "PUT", "properties", { "x-ms-share-quota": "1" }), 200);
    assert.equal((await on(name, "GET")).headers["x-ms-share-quota"], "1");
  });

  test("growing past the quota is refused, small things go on", async () => {
    const name = await files.share({ "x-ms-share-quota": "1" });
    const gib = 1024 ** 3;
    answered(await files.ask(createFile(`/${name}/big`, gib)), 201);
    answered(await files.ask(createFile(`/${name}/more`, 1)), 403, "ShareSizeLimitReached");
    answered(await files.ask(createFile(`/${name}/none`, 0)), 201);
    answered(
      await files.ask({
        method: "PUT",
        path: `/${name}/none`,
        query: { comp: "properties" },
        headers: { "x-ms-content-length": "5" },
      }),
      403,
      "ShareSizeLimitReached",
    );
    answered(await files.ask(createFile(`/${name}/big`, gib - 5)), 201); // one goes, the other comes
    answered(await files.ask(createFile(`/${name}/more`, 5)), 201);
    answered(await files.ask(createFile(`/${name}/more`, 6)), 403, "ShareSizeLimitReached");
  });
});

suite("Get Share Stats", () => {
  test("adds up the sizes of files, also in GiB for older versions", async () => {
    const name = await files.share();
    await files.ask(createFile(`/${name}/a`, 1000));
    await files.ask(createFile(`/${name}/b`, 24));
    const client = files.service.getShareClient(name);
    assert.equal((await client.getStatistics()).shareUsageBytes, 1024);
    await files.ask({ method: "DELETE", path: `/${name}/a` });
    const { text } = answered(await on(name, "GET", "stats"), 200);
    assert.match(text, /<ShareStats><ShareUsageBytes>24<\/ShareUsageBytes><\/ShareStats>/);
    const older = await on(name, "GET", "stats", { "x-ms-version": "2017-04-17" });
    assert.match(older.text, /<ShareUsage>1<\/ShareUsage>/);
  });
});

suite("Get Share Metadata, Set Share Metadata", () => {
  test("replaces all of it", async () => {
    const name = await files.share({ "x-ms-meta-old": "1" });
    answered(await on(name, "PUT", "metadata", { "x-ms-meta-new": "2" }), 200);
    const { headers } = answered(await on(name, "GET", "metadata"), 200);
    assert.equal(headers["x-ms-meta-new"], "2");
    assert.equal(headers["x-ms-meta-old"], undefined);
  });
});

suite("Get Share ACL, Set Share ACL", () => {
  test("keeps policies as they were given", async () => {
    const share = files.service.getShareClient(await files.share());
    assert.deepEqual((await share.getAccessPolicy()).signedIdentifiers, []);
    const startsOn = new Date("2026-01-01T00:00:00Z");
    const expiresOn = new Date("2027-01-01T00:00:00Z");
    await share.setAccessPolicy([
      { id: "one", accessPolicy: { startsOn, expiresOn, permissions: "rwdl" } },
    ]);
    const [policy] = (await share.getAccessPolicy()).signedIdentifiers;
    assert.deepEqual(policy?.accessPolicy, { startsOn, expiresOn, permissions: "rwdl" });
  });
});

suite("Create Permission, Get Permission", () => {
  const sddl = "O:SYG:SYD:P(A;OICI;FA;;;SY)(A;;0x1200a9;;;S-1-5-21-1-2-3-4)";

  test("keeps a security descriptor exactly; the same text has the same key", async () => {
    const share = files.service.getShareClient(await files.share());
    const first = await share.createPermission(sddl);
    const again = await share.createPermission(sddl);
    assert.equal(first.filePermissionKey, again.filePermissionKey);
    const got = await share.getPermission(first.filePermissionKey ?? "");
    assert.equal(got.permission, sddl);
  });

  test("a file and a directory can be made with it, and children inherit", async () => {
    const name = await files.share();
    const share = files.service.getShareClient(name);
    const { filePermissionKey = "" } = await share.createPermission(sddl);
    const path = `/${name}/dir`;
    const key = { "x-ms-file-permission-key": filePermissionKey };
    const made = answered(await files.ask(createDirectory(path, key)), 201);
    assert.equal(made.headers["x-ms-file-permission-key"], filePermissionKey);
    const child = answered(await files.ask(createFile(`${path}/file`, 0)), 201);
    const inherited = String(child.headers["x-ms-file-permission-key"]);
    const { permission } = await share.getPermission(inherited);
    assert.equal(permission, "O:SYG:SYD:AI(A;ID;FA;;;SY)");
    const own = { "x-ms-file-permission": sddl };
    const direct = answered(await files.ask(createFile(`${path}/direct`, 0, own)), 201);
    assert.equal(direct.headers["x-ms-file-permission-key"], filePermissionKey);
  });

  test("in bytes too: kept as they came, and given in the form that is asked for", async () => {
    const share = files.service.getShareClient(await files.share());
    const { filePermissionKey: first = "" } = await share.createPermission(sddl);
    const asked = { filePermissionFormat: "Binary" as const };
    const { permission: bytes } = await share.getPermission(first, asked);
    assert.match(bytes, /^[A-Za-z0-9+/]+=*$/);
    const { filePermissionKey: second = "" } = await share.createPermission({
      permission: bytes,
      format: "Binary",
    });
    const { permission, format } = await share.getPermission(second, asked);
    assert.deepEqual([permission, format], [bytes, "Binary"]);
    const text = await share.getPermission(second);
    assert.deepEqual([text.permission, text.format], [sddl, "Sddl"]);
    const headers = { "x-ms-file-permission": bytes, "x-ms-file-permission-format": "binary" };
    const made = answered(await files.ask(createDirectory(`/${share.name}/dir`, headers)), 201);
    assert.equal(made.headers["x-ms-file-permission-key"], second);
    const child = answered(await files.ask(createFile(`/${share.name}/dir/file`, 0)), 201);
    const key = String(child.headers["x-ms-file-permission-key"]);
    assert.equal((await share.getPermission(key)).permission, "O:SYG:SYD:AI(A;ID;FA;;;SY)");
  });

  test("permissions are of one share only", async () => {
    const from = files.service.getShareClient(await files.share());
    const { filePermissionKey = "" } = await from.createPermission(sddl);
    const headers = { "x-ms-file-permission-key": filePermissionKey };
    const other = await files.share();
    answered(await on(other, "GET", "filepermission", headers), 400, "FileInvalidPermissionKey");
  });
});

suite("List Shares", () => {
  test("by prefix, page by page, with metadata and snapshots", async () => {
    const prefix = `list-${process.pid}-`;
    for (const end of ["c", "a", "b"]) {
      const share = files.service.getShareClient(`${prefix}${end}`);
      await share.create({ metadata: { end } });
    }
    const { snapshot } = await files.service.getShareClient(`${prefix}b`).createSnapshot();
    const seen: string[] = [];
    const list = files.service.listShares({
      prefix,
      includeSnapshots: true,
      includeMetadata: true,
    });
    for await (const page of list.byPage({ maxPageSize: 2 })) {
      for (const { name, snapshot: at, metadata, properties } of page.shareItems ?? []) {
        seen.push(`${name.slice(prefix.length)}${at === undefined ? "" : "@"}`);
        assert.equal(metadata?.end, name.slice(-1));
        assert.equal(properties.quota, 5120);
        if (at !== undefined) assert.equal(at, snapshot);
      }
    }
    assert.deepEqual(seen, ["a", "b@", "b", "c"]);
  });
});

suite("Snapshot Share", () => {
  test("shows the share as it was: files, directories, names and contents", async () => {
    const name = await files.share({ "x-ms-meta-a": "1" });
    const at = (path: string) => `/${name}/${path}`;
    await files.ask(createDirectory(at("dir")));
    await files.ask(createFile(at("dir/kept"), 5));
    await files.ask(putRange(at("dir/kept"), 0, "first"));
    await files.ask(createFile(at("dir/gone"), 1));
    const taken = answered(await on(name, "PUT", "snapshot"), 201);
    const sharesnapshot = String(taken.headers["x-ms-snapshot"]);
    assert.equal(taken.headers.etag, (await on(name, "GET")).headers.etag);

    await files.ask(putRange(at("dir/kept"), 0, "other"));
    await files.ask({ method: "DELETE", path: at("dir/gone") });
    await files.ask(createFile(at("dir/new"), 1));
    await on(name, "PUT", "metadata", { "x-ms-meta-a": "2" });

    const then = { sharesnapshot };
    const old = await files.ask({ method: "GET", path: at("dir/kept"), query: then });
    assert.equal(old.text, "first");
    assert.equal((await files.ask({ method: "GET", path: at("dir/kept") })).text, "other");
    const list = onDirectory("list", then);
    const listed = await files.ask({ method: "GET", path: at("dir"), query: list });
    assert.deepEqual(namesIn(listed.text), ["gone", "kept"]);
    assert.match(listed.text, new RegExp(`ShareSnapshot="${sharesnapshot}"`));
    const missing = await files.ask({ method: "GET", path: at("dir/new"), query: then });
    answered(missing, 404, "ResourceNotFound");
    const properties = await on(name, "GET", "", {}, then);
    assert.equal(properties.headers["x-ms-meta-a"], "1");

    answered(await on(name, "DELETE"), 409, "ShareHasSnapshots");
    answered(await on(name, "DELETE", "", {}, then), 202);
    answered(await on(name, "GET", "", {}, then), 404, "ShareSnapshotNotFound");
    answered(await on(name, "DELETE"), 202);
  });

  test("with metadata of its own it has another ETag", async () => {
    const name = await files.share();
    const taken = answered(await on(name, "PUT", "snapshot", { "x-ms-meta-own": "1" }), 201);
    assert.notEqual(taken.headers.etag, (await on(name, "GET")).headers.etag);
    const query = { sharesnapshot: String(taken.headers["x-ms-snapshot"]) };
    assert.equal((await on(name, "GET", "", {}, query)).headers["x-ms-meta-own"], "1");
  });

  test("a share has 200 of them at most", async () => {
    const name = await files.share();
    await Promise.all(
      Array.from({ length: 200 }, async () => answered(await on(name, "PUT", "snapshot"), 201)),
    );
    answered(await on(name, "PUT", "snapshot"), 409, "ShareSnapshotCountExceeded");
    answered(await on(name, "DELETE", "", { "x-ms-delete-snapshots": "include" }), 202);
  });
});

suite("Delete Share, Restore Share", () => {
  const policy = (enabled: boolean) =>
    `<StorageServiceProperties><ShareDeleteRetentionPolicy><Enabled>${enabled}</Enabled>${enabled ? "<Days>3</Days>" : ""}</ShareDeleteRetentionPolicy></StorageServiceProperties>`;
  const retain = async (enabled: boolean) => {
    const query = { restype: "service", comp: "properties" };
    const body = policy(enabled);
    answered(await files.ask({ method: "PUT", path: "/", query, body }), 202);
  };

  test("a deleted share is gone at once, and a new one of the name is empty", async () => {
    const name = await files.share();
    await files.ask(createFile(`/${name}/file`, 1));
    answered(await on(name, "DELETE"), 202);
    answered(await on(name, "GET"), 404, "ShareNotFound");
    answered(await files.ask({ method: "GET", path: `/${name}/file` }), 404, "ShareNotFound");
    answered(await on(name, "PUT"), 201);
    const query = onDirectory("list");
    const { text } = await files.ask({ method: "GET", path: `/${name}`, query });
    assert.deepEqual(namesIn(text), []);
  });

  test("with a retention policy it is listed as deleted and can be restored, snapshots too", async () => {
    await retain(true);
    try {
      const name = await files.share({ "x-ms-meta-a": "1" });
      await files.ask(createFile(`/${name}/file`, 3));
      await files.ask(putRange(`/${name}/file`, 0, "abc"));
      const taken = await on(name, "PUT", "snapshot");
      answered(await on(name, "DELETE", "", { "x-ms-delete-snapshots": "include" }), 202);
      answered(await on(name, "GET"), 404, "ShareNotFound");
      const deleted = [];
      for await (const item of files.service.listShares({ prefix: name, includeDeleted: true })) {
        deleted.push(item);
      }
      assert.deepEqual([deleted.length, deleted[0]?.deleted], [1, true]);
      assert.equal(deleted[0]?.properties.remainingRetentionDays, 3);
      await files.service.undeleteShare(name, deleted[0]?.version ?? "");
      assert.equal((await files.ask({ method: "GET", path: `/${name}/file` })).text, "abc");
      const query = { sharesnapshot: String(taken.headers["x-ms-snapshot"]) };
      answered(await on(name, "GET", "", {}, query), 200);
      const headers = {
        "x-ms-deleted-share-name": name,
        "x-ms-deleted-share-version": deleted[0]?.version ?? "",
      };
      answered(await on(name, "PUT", "undelete", headers), 409, "ShareAlreadyExists");
      answered(await on(name, "DELETE", "", { "x-ms-delete-snapshots": "include" }), 202);
      const unknown = { ...headers, "x-ms-deleted-share-version": "0".repeat(16) };
      answered(await on(name, "PUT", "undelete", unknown), 404, "ShareNotFound");
    } finally {
      await retain(false);
    }
  });
});

suite("Lease Share", () => {
  const id = "11111111-2222-3333-4444-555555555555";
  const other = "99999999-2222-3333-4444-555555555555";

  test("guards deletion and changes; all five actions", async () => {
    const name = await files.share();
    const client = files.service.getShareClient(name).getShareLeaseClient(id);
    assert.equal((await client.acquireLease(15)).leaseId, id);
    answered(await on(name, "DELETE"), 412, "LeaseIdMissing");
    answered(await on(name, "PUT", "metadata"), 412, "LeaseIdMissing");
    answered(await on(name, "PUT", "properties"), 412, "LeaseIdMissing");
    answered(await on(name, "PUT", "acl"), 412, "LeaseIdMissing");
    const wrong = { "x-ms-lease-id": other };
    answered(await on(name, "DELETE", "", wrong), 412, "LeaseIdMismatchWithShareOperation");
    answered(await on(name, "GET", "", wrong), 412, "LeaseIdMismatchWithShareOperation");
    answered(await on(name, "GET", "", { "x-ms-lease-id": id }), 200);
    answered(await files.ask(createFile(`/${name}/file`, 1)), 201);
    const renew = { "x-ms-lease-action": "renew", "x-ms-lease-id": id };
    answered(await on(name, "PUT", "lease", renew), 200); // the SDK renews no lease of a share
    assert.equal((await client.changeLease(other)).leaseId, other);
    assert.equal((await on(name, "GET")).headers["x-ms-lease-duration"], "fixed");
    const end = { "x-ms-lease-action": "break", "x-ms-lease-break-period": "0" };
    answered(await on(name, "PUT", "lease", end), 202);
    const lost = await on(name, "DELETE", "", wrong);
    answered(lost, 412, "LeaseLost");
    await client.releaseLease();
    answered(await on(name, "DELETE", "", wrong), 412, "LeaseNotPresentWithShareOperation");
    answered(await on(name, "DELETE"), 202);
  });

  test("a snapshot can be leased too, and then goes only with include-leased", async () => {
    const name = await files.share();
    const taken = await on(name, "PUT", "snapshot");
    const query = { sharesnapshot: String(taken.headers["x-ms-snapshot"]) };
    const acquire = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
    answered(await on(name, "PUT", "lease", acquire, query), 201);
    answered(await on(name, "DELETE", "", {}, query), 412, "LeaseIdMissing");
    const include = { "x-ms-delete-snapshots": "include" };
    answered(await on(name, "DELETE", "", include), 409, "DeleteShareWhenSnapshotLeased");
    answered(await on(name, "DELETE", "", { "x-ms-delete-snapshots": "include-leased" }), 202);
  });
});

suite("Get File Service Properties, Set File Service Properties", () => {
  test("CORS, metrics and SMB's settings come back as they were set", async () => {
    const rule = {
      allowedOrigins: "https://example.org",
      allowedMethods: "GET,PUT",
      allowedHeaders: "*",
      exposedHeaders: "x-ms-meta-*",
      maxAgeInSeconds: 5,
    };
    await files.service.setProperties({
      cors: [rule],
      hourMetrics: {
        version: "1.0",
        enabled: true,
        includeAPIs: true,
        retentionPolicy: { enabled: true, days: 7 },
      },
      protocol: { smb: { multichannel: { enabled: true } } },
    });
    const got = await files.service.getProperties();
    assert.deepEqual(got.cors, [rule]);
    assert.equal(got.hourMetrics?.enabled, true);
    assert.equal(got.minuteMetrics?.enabled, false);
    assert.equal(got.protocol?.smb?.multichannel?.enabled, true);
  });

  test("the lists of SMB's settings are kept, unknown values refused", async () => {
    const query = { restype: "service", comp: "properties" };
    const body = (versions: string) =>
      `<StorageServiceProperties><ProtocolSettings><SMB><Versions>${versions}</Versions><ChannelEncryption>AES-256-GCM</ChannelEncryption></SMB></ProtocolSettings></StorageServiceProperties>`;
    const set = (text: string) => files.ask({ method: "PUT", path: "/", query, body: text });
    answered(await set(body("SMB3.0;SMB3.1.1")), 202);
    const { text } = await files.ask({ method: "GET", path: "/", query });
    assert.match(text, /<Versions>SMB3.0;SMB3.1.1<\/Versions>/);
    assert.match(text, /<ChannelEncryption>AES-256-GCM<\/ChannelEncryption>/);
    answered(await set(body("SMB1.0")), 400, "InvalidXmlNodeValue");
    const logging = "<StorageServiceProperties><Logging /></StorageServiceProperties>";
    answered(await set(logging), 400, "UnsupportedXmlNode");
  });
});
