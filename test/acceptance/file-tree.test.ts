import assert from "node:assert/strict";
import dns from "node:dns";
import { after, before, mock, suite, test } from "node:test";
import {
  FileSystemAttributes,
  ShareServiceClient,
  StorageSharedKeyCredential,
} from "@azure/storage-file-share";
import {
  answered,
  createDirectory,
  createFile,
  type Fields,
  type FileServer,
  lease,
  namesIn,
  onDirectory,
  onShare,
  putRange,
  rename,
  startFiles,
} from "./files.ts";
import type { RawRequest } from "./raw.ts";
import { exchange } from "./signed.ts";

let files: FileServer;

before(async () => {
  files = await startFiles();
});

after(() => files.stop());

const get = (path: string, query: Fields = {}, headers: Fields = {}) =>
  files.ask({ method: "GET", path, query, headers });
const head = (path: string) => files.ask({ method: "HEAD", path });
const remove = (path: string, query: Fields = {}, headers: Fields = {}) =>
  files.ask({ method: "DELETE", path, query, headers });

async function root(): Promise<string> {
  return `/${await files.share()}`;
}

suite("Create Directory, Get Directory Properties, Delete Directory", () => {
  test("a directory is made, looked at and removed", async () => {
    const share = files.service.getShareClient(await files.share());
    const directory = share.getDirectoryClient("dir");
    const made = await directory.create({ metadata: { a: "1" } });
    assert.match(String(made.fileId), /^\d+$/);
    assert.equal(made.fileParentId, "0");
    assert.equal(made.fileAttributes, "Directory");
    const got = await directory.getProperties();
    assert.deepEqual(got.metadata, { a: "1" });
    assert.equal(got.fileId, made.fileId);
    assert.equal(got.etag, made.etag);
    const below = directory.getDirectoryClient("below");
    await below.create();
    assert.equal((await below.getProperties()).fileParentId, made.fileId);
    await assert.rejects(directory.delete(), { code: "DirectoryNotEmpty", statusCode: 409 });
    await below.delete();
    await directory.delete();
    assert.equal(await directory.exists(), false);
  });

  test("the root is a directory that is always there", async () => {
    const path = await root();
    const { headers } = answered(await get(path, onDirectory()), 200);
    assert.equal(headers["x-ms-file-attributes"], "Directory");
    assert.equal(headers["x-ms-file-id"], "0");
    answered(await files.ask(createDirectory(path)), 409, "ResourceAlreadyExists");
    answered(await remove(path, onDirectory()), 409, "CannotDeleteFileOrDirectory");
  });

  test("the parent must be there, and be a directory", async () => {
    const path = await root();
    answered(await files.ask(createDirectory(`${path}/no/dir`)), 404, "ParentNotFound");
    answered(await files.ask(createFile(`${path}/no/file`, 1)), 404, "ParentNotFound");
    await files.ask(createFile(`${path}/file`, 1));
    answered(await files.ask(createFile(`${path}/file/below`, 1)), 404, "ParentNotFound");
  });

  test("a file and a directory cannot share a name, nor be taken for each other", async () => {
    const path = await root();
    await files.ask(createFile(`${path}/file`, 1));
    await files.ask(createDirectory(`${path}/dir`));
    answered(await files.ask(createDirectory(`${path}/file`)), 409, "ResourceTypeMismatch");
    answered(await files.ask(createFile(`${path}/dir`, 1)), 409, "ResourceTypeMismatch");
    answered(await files.ask(createDirectory(`${path}/dir`)), 409, "ResourceAlreadyExists");
    answered(await get(`${path}/dir`), 404, "ResourceNotFound");
    answered(await get(`${path}/file`, onDirectory()), 404, "ResourceNotFound");
    answered(await remove(`${path}/file`, onDirectory()), 404, "ResourceNotFound");
    answered(await remove(`${path}/dir`), 404, "ResourceNotFound");
  });

  test("a slash at the end of a directory's path means nothing, of a file's it is refused", async () => {
    const path = await root();
    answered(await files.ask(createDirectory(`${path}/dir/`)), 201);
    answered(await get(`${path}/dir`, onDirectory()), 200);
    answered(await files.ask(createFile(`${path}/file/`, 1)), 400, "InvalidUri");
  });
});

suite("Get Directory Metadata, Set Directory Metadata, Set Directory Properties", () => {
  test("metadata is replaced, properties are changed where they are given", async () => {
    const path = `${await root()}/dir`;
    const first = await files.ask(createDirectory(path, { "x-ms-meta-a": "1" }));
    const set = (comp: string, headers: Fields) =>
      files.ask({ method: "PUT", path, query: onDirectory(comp), headers });
    answered(await set("metadata", { "x-ms-meta-b": "2" }), 200);
    const { headers } = answered(await get(path, onDirectory("metadata")), 200);
    assert.deepEqual([headers["x-ms-meta-a"], headers["x-ms-meta-b"]], [undefined, "2"]);
    const created = "2001-02-03T04:05:06.1234567Z";
    const changed = answered(
      await set("properties", {
        "x-ms-file-attributes": "Hidden",
        "x-ms-file-creation-time": created,
      }),
      200,
    );
    assert.equal(changed.headers["x-ms-file-attributes"], "Hidden | Directory");
    assert.equal(changed.headers["x-ms-file-creation-time"], created);
    const written = "x-ms-file-last-write-time";
    assert.equal(changed.headers[written], first.headers[written]);
    assert.notEqual(
      changed.headers["x-ms-file-change-time"],
      first.headers["x-ms-file-change-time"],
    );
    assert.equal((await get(path, onDirectory())).headers["x-ms-meta-b"], "2");
  });
});

suite("The last write of a directory", () => {
  test("is when a name last came or went, as drives that are mounted show it; its ETag stays", async () => {
    const share = await root();
    const [one, two] = [`${share}/one`, `${share}/two`];
    for (const path of [one, two]) answered(await files.ask(createDirectory(path)), 201);
    const state = async (path: string) => {
      const { headers } = answered(await get(path, onDirectory()), 200);
      return { written: String(headers["x-ms-file-last-write-time"]), etag: headers.etag };
    };
    const move = (from: string, to: string) => files.ask(rename(files.server, { from, to }));
    const steps: [
      what: string,
      RawRequest | (() => Promise<unknown>),
      one: boolean,
      two: boolean,
    ][] = [
      ["a new file", createFile(`${one}/a`, 5), true, false],
      ["what is written into it", putRange(`${one}/a`, 0, "hello"), false, false],
      ["a name of its own for it", () => move(`${one}/a`, `${one}/b`), true, false],
      ["its move", () => move(`${one}/b`, `${two}/b`), true, true],
      ["its end", () => remove(`${two}/b`), false, true],
      ["a directory in it", createDirectory(`${two}/below`), false, true],
      ["what comes into that", createFile(`${two}/below/c`, 0), false, false],
      ["a refusal", () => remove(`${two}/below`, onDirectory()), false, false],
    ];
    const before = { one: await state(one), two: await state(two) };
    for (const [what, step, ...changes] of steps) {
      await (typeof step === "function" ? step() : files.ask(step));
      for (const [index, key] of (["one", "two"] as const).entries()) {
        const now = await state(key === "one" ? one : two);
        assert.equal(now.written > before[key].written, changes[index], `${what}: ${key}`);
        assert.equal(now.etag, before[key].etag);
        before[key] = now;
      }
    }
  });
});

suite("Names", () => {
  // As the SDK for Python does it with directories in directories.
  test("a slash parts names also where it is encoded, in sources too", async () => {
    const { server } = files;
    const base = `/${server.account}${await root()}`;
    const encoded = (method: string, path: string, query: string, headers: Fields = {}) =>
      exchange(server, {
        method,
        target: `${base}/${path}?restype=directory${query}`,
        headers: {
          ...{ "x-ms-version": "2026-04-06", "x-ms-date": new Date().toUTCString() },
          ...{ "content-length": "0", ...headers },
        },
      });
    assert.equal((await encoded("PUT", "a", "")).status, 201);
    assert.equal((await encoded("PUT", "a%2Fb", "")).status, 201);
    assert.equal((await encoded("PUT", "a%2fb%2Fc", "")).status, 201);
    assert.equal((await encoded("GET", "a/b/c", "")).status, 200);
    const source = { "x-ms-file-rename-source": `${server.origin}${base}/a%2Fb%2Fc` };
    assert.equal((await encoded("PUT", "a%2Fd", "&comp=rename", source)).status, 200);
    const { text } = await encoded("GET", "a", "&comp=list");
    assert.deepEqual(namesIn(text), ["b", "d"]);
    const bad = await encoded("GET", "a%2F%2Fb", "");
    assert.deepEqual([bad.status, bad.code], [400, "InvalidResourceName"]);
  });

  test("are found in any case and keep their own", async () => {
    const path = await root();
    await files.ask(createDirectory(`${path}/Straße`));
    await files.ask(createFile(`${path}/Straße/Ärger.TXT`, 2));
    answered(await head(`${path}/STRAßE/äRGER.txt`), 200);
    answered(await head(`${path}/STRASSE/Ärger.TXT`), 404, "ParentNotFound");
    const { text } = await get(`${path}/straße`, onDirectory("list"));
    assert.deepEqual(namesIn(text), ["Ärger.TXT"]);
    answered(await files.ask(createFile(`${path}/STRAßE/ÄRGER.txt`, 3)), 201);
    const again = await get(`${path}/straße`, onDirectory("list"));
    assert.deepEqual(namesIn(again.text), ["Ärger.TXT"]);
  });

  test("lose dots at their end unless the request says otherwise", async () => {
    const path = await root();
    const keep = { "x-ms-allow-trailing-dot": "true" };
    answered(await files.ask(createFile(`${path}/a...`, 1)), 201);
    answered(await head(`${path}/a`), 200);
    answered(await files.ask(createFile(`${path}/b.`, 1, keep)), 201);
    answered(await head(`${path}/b.`), 404, "ResourceNotFound");
    answered(await files.ask({ method: "HEAD", path: `${path}/b.`, headers: keep }), 200);
    const { text } = await get(path, onDirectory("list"));
    assert.deepEqual(namesIn(text), ["a", "b."]);
  });

  const bad: [what: string, name: string, code: string][] = [
    ["256 characters", "x".repeat(256), "InvalidFileOrDirectoryPathName"],
    ["251 levels", Array(251).fill("d").join("/"), "InvalidFileOrDirectoryPathName"],
    ["a colon", "a:b", "InvalidResourceName"],
    ["a star", "*", "InvalidResourceName"],
    ["a backslash", "a\\b", "InvalidResourceName"],
    ["a control character", "a\u0007", "InvalidResourceName"],
    ["a device", "nul", "InvalidResourceName"],
    ["dots only", "...", "InvalidResourceName"],
    ["nothing between slashes", "a//b", "InvalidResourceName"],
  ];
  for (const [what, name, code] of bad) {
    test(`${what}: 400 ${code}`, async () => {
      const path = await root();
      answered(await files.ask(createFile(`${path}/${name}`, 1)), 400, code);
      answered(await files.ask(createDirectory(`${path}/${name}`)), 400, code);
    });
  }
});

suite("List Directories and Files", () => {
  test("files and directories by name, page by page, by prefix in any case", async () => {
    const share = files.service.getShareClient(await files.share());
    const directory = share.getDirectoryClient("");
    for (const name of ["b", "A", "bb", "c"]) await directory.getFileClient(name).create(3);
    for (const name of ["B1", "a1"]) await directory.getDirectoryClient(name).create();
    const seen: string[] = [];
    for await (const page of directory.listFilesAndDirectories().byPage({ maxPageSize: 2 })) {
      const { fileItems, directoryItems } = page.segment;
      assert.ok(fileItems.length + directoryItems.length <= 2);
      seen.push(
        ...fileItems.map(({ name }) => name),
        ...directoryItems.map(({ name }) => `${name}/`),
      );
    }
    assert.deepEqual(new Set(seen), new Set(["A", "B1/", "a1/", "b", "bb", "c"]));
    assert.equal(seen.length, 6);
    const { text } = await get(`/${share.name}`, onDirectory("list", { prefix: "B" }));
    assert.deepEqual(namesIn(text), ["b", "B1", "bb"]);
    assert.match(text, /<Prefix>B<\/Prefix>/);
    assert.match(text, /<DirectoryId>0<\/DirectoryId>/);
    assert.match(text, new RegExp(`ShareName="${share.name}" DirectoryPath=""`));
  });

  test("a prefix that XML cannot hold comes back encoded", async () => {
    const share = await files.share();
    const prefix = "a\u0001\uffff";
    for (const [path, query] of [
      [`/${share}`, onDirectory("list", { prefix })],
      ["/", { comp: "list", prefix }],
    ] as const) {
      const { status, text } = await get(path, query);
      assert.equal(status, 200, text);
      assert.match(text, /<Prefix Encoded="true">a%01%EF%BF%BF<\/Prefix>/);
    }
  });

  test("tells times, ETag, attributes and permission if asked", async () => {
    const share = files.service.getShareClient(await files.share());
    const file = share.rootDirectoryClient.getFileClient("file");
    const made = await file.create(12);
    const options = {
      includeTimestamps: true,
      includeEtag: true,
      includeAttributes: true,
      includePermissionKey: true,
      includeExtendedInfo: true,
    };
    for await (const item of share.rootDirectoryClient.listFilesAndDirectories(options)) {
      assert.ok(item.kind === "file");
      assert.equal(item.fileId, made.fileId);
      assert.equal(item.properties.contentLength, 12);
      assert.equal(item.properties.etag, made.etag);
      assert.equal(item.attributes, "Archive");
      assert.equal(item.permissionKey, made.filePermissionKey);
      assert.deepEqual(item.properties.creationTime, made.fileCreatedOn);
    }
    const { text } = await get(`/${share.name}`, onDirectory("list"));
    assert.doesNotMatch(text, /Etag|CreationTime|PermissionKey/);
  });

  test("bad parameters are refused", async () => {
    const path = await root();
    const list = (query: Fields) => get(path, onDirectory("list", query));
    answered(await list({ maxresults: "0" }), 400, "OutOfRangeQueryParameterValue");
    answered(await list({ marker: "nonsense" }), 400, "InvalidQueryParameterValue");
    answered(await list({ include: "everything" }), 400, "InvalidQueryParameterValue");
    answered(await get(`${path}/no`, onDirectory("list")), 404, "ResourceNotFound");
  });
});

suite("Create File, Get File Properties, Set File Properties", () => {
  test("a file has HTTP and SMB properties, and metadata", async () => {
    const share = files.service.getShareClient(await files.share());
    const file = share.rootDirectoryClient.getFileClient("file");
    const creationTime = new Date("2020-01-02T03:04:05.678Z");
    const made = await file.create(100, {
      fileHttpHeaders: { fileContentType: "text/plain", fileCacheControl: "no-cache" },
      metadata: { a: "1" },
      fileAttributes: FileSystemAttributes.parse("Hidden|System"),
      creationTime,
    });
    const got = await file.getProperties();
    assert.equal(got.contentLength, 100);
    assert.equal(got.contentType, "text/plain");
    assert.equal(got.cacheControl, "no-cache");
    assert.deepEqual(got.metadata, { a: "1" });
    assert.equal(got.fileAttributes, "Hidden | System | Archive");
    assert.deepEqual(got.fileCreatedOn, creationTime);
    assert.deepEqual([got.etag, got.fileId], [made.etag, made.fileId]);
    assert.deepEqual([got.leaseState, got.leaseStatus], ["available", "unlocked"]);
  });

  test("creating over a file zeroes it and keeps its id", async () => {
    const path = `${await root()}/file`;
    const first = await files.ask(createFile(path, 5, { "x-ms-meta-a": "1" }));
    await files.ask(putRange(path, 0, "hello"));
    const second = answered(await files.ask(createFile(path, 5)), 201);
    assert.equal(second.headers["x-ms-file-id"], first.headers["x-ms-file-id"]);
    const { text, headers } = await get(path);
    assert.equal(text, "\0".repeat(5));
    assert.equal(headers["x-ms-meta-a"], undefined);
  });

  test("if one HTTP property is set, the others are cleared; if none is, they stay", async () => {
    const path = `${await root()}/file`;
    const set = (headers: Fields) =>
      files.ask({ method: "PUT", path, query: { comp: "properties" }, headers });
    const given = { "x-ms-content-type": "text/plain", "x-ms-content-language": "de" };
    const made = await files.ask(createFile(path, 5, given));
    answered(await set({ "x-ms-file-attributes": "None" }), 200);
    const before = await head(path);
    assert.equal(before.headers["content-language"], "de");
    assert.equal(before.headers["x-ms-file-attributes"], "None");
    answered(await set({ "x-ms-cache-control": "no-store" }), 200);
    const { headers } = await head(path);
    assert.equal(headers["content-language"], undefined);
    assert.equal(headers["content-type"], "application/octet-stream");
    assert.equal(headers["cache-control"], "no-store");
    const written = "x-ms-file-last-write-time";
    assert.equal(headers[written], made.headers[written], "nothing was written");
  });

  test("a resize cuts or adds zeros, and counts as a write", async () => {
    const path = `${await root()}/file`;
    const made = await files.ask(createFile(path, 5));
    await files.ask(putRange(path, 0, "hello", { "x-ms-file-last-write-time": "preserve" }));
    const file = files.service
      .getShareClient(path.split("/")[1] ?? "")
      .rootDirectoryClient.getFileClient("file");
    const smaller = await file.resize(2);
    assert.notEqual(
      smaller.fileLastWriteOn?.toISOString(),
      String(made.headers["x-ms-file-last-write-time"]),
    );
    await file.resize(6);
    assert.equal((await get(path)).text, "he\0\0\0\0");
  });

  test("a permission takes in what the directory passes on, unless it is restored", async () => {
    const share = await files.share();
    const above = "O:BAG:SYD:P(A;OICI;FA;;;SY)";
    const given = "O:BAG:SYD:(A;;FR;;;WD)";
    const permission = (text: string, more: Fields = {}): Fields => ({
      "x-ms-file-permission": text,
      ...more,
    });
    const restored = permission(given, { "x-ms-file-property-semantics": "Restore" });
    answered(await files.ask(createDirectory(`/${share}/d`, permission(above))), 201);
    const kept = async (request: RawRequest) => {
      const { headers } = answered(await files.ask(request), 201);
      const key = { "x-ms-file-permission-key": String(headers["x-ms-file-permission-key"]) };
      const query = onShare("filepermission");
      const found = await files.ask({ method: "GET", path: `/${share}`, query, headers: key });
      return JSON.parse(found.text).permission;
    };
    const path = `/${share}/d`;
    const both = "O:BAG:SYD:AI(A;;FR;;;WD)";
    assert.equal(
      await kept(createFile(`${path}/f`, 0, permission(given))),
      `${both}(A;ID;FA;;;SY)`,
    );
    assert.equal(
      await kept(createDirectory(`${path}/d`, permission(given))),
      `${both}(A;OICIID;FA;;;SY)`,
    );
    assert.equal(await kept(createFile(`${path}/r`, 0, restored)), given);
    assert.equal(await kept(createDirectory(`${path}/e`, restored)), given);
    assert.equal(await kept(createDirectory(`${path}/p`, permission(above))), above);
  });

  test("a permission does not grow from directory to directory without bound", async () => {
    let path = `/${await files.share()}`;
    const statuses: number[] = [];
    for (let level = 0; level < 10; level++) {
      path += "/d";
      const aces = Array.from(
        { length: 230 },
        (_, i) => `(A;OICI;FA;;;S-1-5-21-1-2-${level}-${i})`,
      );
      const headers = { "x-ms-file-permission": `O:BAG:SYD:${aces.join("")}` };
      statuses.push((await files.ask(createDirectory(path, headers))).status);
      if (statuses.at(-1) === 400) break;
    }
    assert.deepEqual(statuses.slice(-2), [201, 400]);
  });

  test("times, attributes and permission are required from 2019-02-02 to 2021-04-10", async () => {
    const path = `${await root()}/file`;
    const older = { "x-ms-version": "2020-02-10" };
    answered(await files.ask(createFile(path, 5, older)), 400, "MissingRequiredHeader");
    const all = {
      ...older,
      "x-ms-file-attributes": "None",
      "x-ms-file-creation-time": "now",
      "x-ms-file-last-write-time": "now",
      "x-ms-file-permission": "inherit",
    };
    answered(await files.ask(createFile(path, 5, all)), 201);
  });

  test("a new file has Archive whatever is asked for, a restored one has what it had", async () => {
    const path = `${await root()}/file`;
    const rows = [
      ["None", {}, "Archive"],
      ["Hidden", {}, "Hidden | Archive"],
      ["Hidden", { "x-ms-file-property-semantics": "New" }, "Hidden | Archive"],
      ["Hidden", { "x-ms-file-property-semantics": "Restore" }, "Hidden"],
      ["None", { "x-ms-file-property-semantics": "restore" }, "None"],
    ] as const;
    for (const [asked, more, want] of rows) {
      const headers = { "x-ms-file-attributes": asked, ...more };
      const made = answered(await files.ask(createFile(path, 5, headers)), 201);
      assert.equal(made.headers["x-ms-file-attributes"], want, JSON.stringify(headers));
    }
  });

  test("with a body the file begins with it", async () => {
    const path = `${await root()}/file`;
    const request = { ...createFile(path, 7), body: "hello" };
    answered(await files.ask(request), 201);
    assert.equal((await get(path)).text, "hello\0\0");
  });
});

suite("Get File Metadata, Set File Metadata, Delete File", () => {
  test("metadata is replaced whole", async () => {
    const path = `${await root()}/file`;
    await files.ask(createFile(path, 1, { "x-ms-meta-a": "1" }));
    const query = { comp: "metadata" };
    const headers = { "x-ms-meta-b": "2" };
    answered(await files.ask({ method: "PUT", path, query, headers }), 200);
    const got = answered(await get(path, query), 200);
    assert.deepEqual([got.headers["x-ms-meta-a"], got.headers["x-ms-meta-b"]], [undefined, "2"]);
  });

  test("a deleted file is gone, for everybody and at once", async () => {
    const path = `${await root()}/file`;
    await files.ask(createFile(path, 1));
    answered(await remove(path), 202);
    answered(await get(path), 404, "ResourceNotFound");
    answered(await remove(path), 404, "ResourceNotFound");
  });

  test("without a lease the last writer wins", async () => {
    const path = `${await root()}/file`;
    await files.ask(createFile(path, 1));
    const write = async (letter: string) =>
      answered(await files.ask(putRange(path, 0, letter)), 201);
    await Promise.all([..."abcdefgh"].map(write));
    await write("z");
    assert.equal((await get(path)).text, "z");
  });

  test("of many who delete at once one succeeds", async () => {
    const path = `${await root()}/file`;
    await files.ask(createFile(path, 1));
    const replies = await Promise.all(Array.from({ length: 8 }, () => remove(path)));
    const statuses = replies.map(({ status }) => status).sort();
    assert.deepEqual(statuses, [202, ...Array(7).fill(404)]);
  });
});

suite("ReadOnly", () => {
  test("a read-only file is not changed until the attribute is taken off", async () => {
    const path = `${await root()}/file`;
    await files.ask(createFile(path, 5, { "x-ms-file-attributes": "ReadOnly" }));
    const refused = [409, "ReadOnlyAttribute"] as const;
    answered(await files.ask(putRange(path, 0, "a")), ...refused);
    answered(await files.ask(createFile(path, 5)), ...refused);
    answered(await remove(path), ...refused);
    const query = { comp: "properties" };
    answered(await files.ask({ method: "PUT", path, query }), ...refused);
    answered(await files.ask({ method: "PUT", path, query: { comp: "metadata" } }), ...refused);
    const headers = { "x-ms-file-attributes": "None" };
    answered(await files.ask({ method: "PUT", path, query, headers }), 200);
    answered(await remove(path), 202);
  });

  test("nor is a read-only directory removed", async () => {
    const path = `${await root()}/dir`;
    await files.ask(createDirectory(path, { "x-ms-file-attributes": "ReadOnly" }));
    answered(await remove(path, onDirectory()), 409, "ReadOnlyAttribute");
  });
});

suite("Rename File, Rename Directory", () => {
  const move = (from: string, to: string, headers: Fields = {}) =>
    files.ask(rename(files.server, { from, to }, headers));
  const moveDirectory = (from: string, to: string, headers: Fields = {}) =>
    files.ask(rename(files.server, { from, to, isDirectory: true }, headers));
  const replace = { "x-ms-file-rename-replace-if-exists": "true" };

  test("through the SDK, which needs the account in the host's name", async () => {
    const { port } = new URL(files.server.url);
    const lookup = dns.lookup.bind(dns);
    const here = (name: string, ...rest: unknown[]) =>
      (lookup as (...all: unknown[]) => void)(
        name.endsWith(".localhost") ? "127.0.0.1" : name,
        ...rest,
      );
    mock.method(dns, "lookup", here as never);
    try {
      const { account, key } = files.server;
      const service = new ShareServiceClient(
        `http://${account}.file.localhost:${port}`,
        new StorageSharedKeyCredential(account, key),
      );
      const share = service.getShareClient(await files.share());
      const directory = share.getDirectoryClient("one");
      await directory.create();
      const file = directory.getFileClient("a b%.txt");
      await file.create(3, { metadata: { a: "1" } });
      await file.uploadRange("abc", 0, 3);
      const { fileId } = await file.getProperties();
      const { destinationFileClient: moved } = await file.rename("two.txt");
      const got = await moved.getProperties();
      assert.deepEqual([got.fileId, got.metadata?.a], [fileId, "1"]);
      assert.equal(String(await moved.downloadToBuffer()), "abc");
      assert.equal(await file.exists(), false);
      const { destinationDirectoryClient: renamed } = await directory.rename("other");
      assert.equal(await renamed.exists(), true);
      assert.equal(await directory.exists(), false);
    } finally {
      mock.restoreAll();
    }
  });

  test("a directory moves with all that is in it", async () => {
    const path = await root();
    for (const name of ["/a", "/a/b", "/a/b/c", "/to"]) {
      await files.ask(createDirectory(`${path}${name}`));
    }
    await files.ask(createFile(`${path}/a/b/c/file`, 3));
    await files.ask(putRange(`${path}/a/b/c/file`, 0, "abc"));
    answered(await moveDirectory(`${path}/a`, `${path}/to/new`), 200);
    assert.equal((await get(`${path}/to/new/b/c/file`)).text, "abc");
    answered(await get(`${path}/a`, onDirectory()), 404, "ResourceNotFound");
    answered(await moveDirectory(`${path}/to`, `${path}/to/new/b/in`), 400, "InvalidHeaderValue");
    answered(await get(`${path}/to/new`, onDirectory()), 200);
  });

  test("nothing is replaced unless asked, a directory never", async () => {
    const path = await root();
    await files.ask(createFile(`${path}/from`, 1, { "x-ms-meta-a": "1" }));
    await files.ask(createFile(`${path}/to`, 2));
    await files.ask(createDirectory(`${path}/dir`));
    const exists = [409, "ResourceAlreadyExists"] as const;
    answered(await move(`${path}/from`, `${path}/to`), ...exists);
    answered(await move(`${path}/from`, `${path}/dir`, replace), ...exists);
    answered(await moveDirectory(`${path}/dir`, `${path}/to`), ...exists);
    answered(await move(`${path}/from`, `${path}/to`, replace), 200);
    const { headers } = await head(`${path}/to`);
    assert.deepEqual([headers["content-length"], headers["x-ms-meta-a"]], ["1", "1"]);
    answered(await head(`${path}/from`), 404, "ResourceNotFound");
  });

  test("a read-only file is replaced only if that is ignored", async () => {
    const path = await root();
    await files.ask(createFile(`${path}/from`, 1));
    await files.ask(createFile(`${path}/to`, 2, { "x-ms-file-attributes": "ReadOnly" }));
    const ignore = { "x-ms-file-rename-ignore-readonly": "true" };
    answered(await move(`${path}/from`, `${path}/to`, replace), 409, "ReadOnlyAttribute");
    answered(await move(`${path}/from`, `${path}/to`, ignore), 400, "InvalidHeaderValue");
    answered(await move(`${path}/from`, `${path}/to`, { ...replace, ...ignore }), 200);
  });

  test("leases of both ends must be named", async () => {
    const path = await root();
    const [a, b] = ["aaaaaaaa", "bbbbbbbb"].map((start) => `${start}-0000-0000-0000-000000000000`);
    await files.ask(createFile(`${path}/from`, 1));
    await files.ask(createFile(`${path}/to`, 1));
    const acquire = (name: string, id = "") =>
      files.ask(
        lease("acquire", `${path}/${name}`, {
          "x-ms-lease-duration": "-1",
          "x-ms-proposed-lease-id": id,
        }),
      );
    answered(await acquire("from", a), 201);
    answered(await acquire("to", b), 201);
    const go = (headers: Fields) => move(`${path}/from`, `${path}/to`, { ...replace, ...headers });
    answered(await go({}), 412, "LeaseIdMissing");
    answered(await go({ "x-ms-source-lease-id": a ?? "" }), 412, "LeaseIdMissing");
    const wrong = { "x-ms-source-lease-id": b ?? "", "x-ms-destination-lease-id": b ?? "" };
    answered(await go(wrong), 412, "LeaseIdMismatchWithFileOperation");
    answered(await go({ ...wrong, "x-ms-source-lease-id": a ?? "" }), 200);
  });

  test("a name can change its case, and properties with it", async () => {
    const path = await root();
    await files.ask(createFile(`${path}/name`, 1));
    const headers = { "x-ms-file-attributes": "Hidden", "x-ms-content-type": "text/css" };
    const moved = answered(await move(`${path}/name`, `${path}/NAME`, headers), 200);
    assert.equal(moved.headers["x-ms-file-attributes"], "Hidden");
    const { text } = await get(path, onDirectory("list"));
    assert.deepEqual(namesIn(text), ["NAME"]);
    assert.equal((await head(`${path}/name`)).headers["content-type"], "text/css");
  });

  test("what cannot be is refused", async () => {
    const path = await root();
    const other = await root();
    await files.ask(createFile(`${path}/file`, 1));
    await files.ask(createDirectory(`${path}/dir`));
    answered(await move(`${path}/no`, `${path}/to`), 404, "ResourceNotFound");
    answered(await move(`${path}/file`, `${path}/no/to`), 404, "ParentNotFound");
    answered(await move(`${path}/dir`, `${path}/to`), 409, "ResourceTypeMismatch");
    answered(await moveDirectory(`${path}/file`, `${path}/to`), 409, "ResourceTypeMismatch");
    answered(await move(`${path}/file`, `${other}/to`), 400, "InvalidHeaderValue");
    const query = { comp: "rename" };
    const put = (headers: Fields) =>
      files.ask({ method: "PUT", path: `${path}/to`, query, headers });
    answered(await put({}), 400, "MissingRequiredHeader");
    answered(await put({ "x-ms-file-rename-source": "file" }), 400, "InvalidHeaderValue");
  });
});

suite("Links", () => {
  for (const [name, method, restype] of [
    ["Create Symbolic Link", "PUT", "symboliclink"],
    ["Get Symbolic Link", "GET", "symboliclink"],
    ["Create Hard Link", "PUT", "hardlink"],
  ] as const) {
    test(`${name}: there are none on a share of SMB`, async () => {
      const reply = await files.ask({ method, path: `${await root()}/link`, query: { restype } });
      answered(reply, 400, "UnsupportedQueryParameter");
    });
  }
});

suite("List Handles, Force Close Handles", () => {
  test("nothing is open as long as nobody comes over SMB", async () => {
    const share = files.service.getShareClient(await files.share());
    const directory = share.rootDirectoryClient;
    const file = directory.getFileClient("file");
    await file.create(1);
    for await (const handle of directory.listHandles({ recursive: true })) assert.fail(`${handle}`);
    for await (const handle of file.listHandles()) assert.fail(`${handle}`);
    assert.equal((await file.forceCloseAllHandles()).closedHandlesCount, 0);
    assert.equal((await directory.forceCloseHandle("7")).closedHandlesCount, 0);
    const list = (path: string, query: Fields) => get(path, { comp: "listhandles", ...query });
    const path = `/${share.name}`;
    answered(await list(`${path}/no`, {}), 404, "ResourceNotFound");
    answered(await list(path, { maxresults: "0" }), 400, "OutOfRangeQueryParameterValue");
  });
});
