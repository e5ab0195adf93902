import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import {
  answered,
  clearRange,
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

// Every request here is refused with the code of the error tables, and leaves nothing behind.

let files: FileServer;
let snapshot = "";
let etag = "";

const SHARE = "/refused";
const FILE = `${SHARE}/dir/file`;
const DIRECTORY = `${SHARE}/dir`;

before(async () => {
  files = await startFiles();
  answered(await files.ask({ method: "PUT", path: SHARE, query: onShare() }), 201);
  answered(await files.ask(createDirectory(DIRECTORY)), 201);
  answered(await files.ask(createFile(FILE, 1000)), 201);
  const taken = await files.ask({ method: "PUT", path: SHARE, query: onShare("snapshot") });
  snapshot = String(taken.headers["x-ms-snapshot"]);
  etag = String((await files.ask({ method: "HEAD", path: FILE })).headers.etag);
});

after(() => files.stop());

type Row = [what: string, request: () => RawRequest, status: number, code: string];

const put = (path: string, query: Fields, headers: Fields = {}, body = ""): RawRequest => ({
  ...{ method: "PUT", path, query, headers, body },
});
const get = (path: string, query: Fields = {}, headers: Fields = {}): RawRequest => ({
  ...{ method: "GET", path, query, headers },
});
const remove = (path: string, query: Fields = {}, headers: Fields = {}): RawRequest => ({
  ...{ method: "DELETE", path, query, headers },
});

function refused(rows: readonly Row[]): void {
  for (const [what, request, status, code] of rows) {
    test(`${what}: ${status} ${code}`, async () => {
      answered(await files.ask(request()), status, code);
    });
  }
}

const HEADER = [400, "InvalidHeaderValue"] as const;
const QUERY = [400, "InvalidQueryParameterValue"] as const;
const FOREIGN = [400, "UnsupportedHeader"] as const;

suite("A snapshot is not written to", () => {
  const at = (request: RawRequest): RawRequest => ({
    ...request,
    query: { ...request.query, sharesnapshot: snapshot },
  });
  const renamed = () => rename(files.server, { from: FILE, to: `${SHARE}/to` });
  const moved = () =>
    rename(files.server, { from: DIRECTORY, to: `${SHARE}/to`, isDirectory: true });
  const source = () => ({ "x-ms-copy-source": `${files.server.url}${FILE}` });
  const rows: [what: string, request: () => RawRequest][] = [
    ["Create Share", () => put("/refused2", onShare())],
    ["Set Share Properties", () => put(SHARE, onShare("properties"))],
    ["Set Share Metadata", () => put(SHARE, onShare("metadata"))],
    ["Set Share ACL", () => put(SHARE, onShare("acl"))],
    ["Get Share ACL", () => get(SHARE, onShare("acl"))],
    ["Get Share Stats", () => get(SHARE, onShare("stats"))],
    ["Create Permission", () => put(SHARE, onShare("filepermission"))],
    ["Restore Share", () => put(SHARE, onShare("undelete"))],
    ["Snapshot Share", () => put(SHARE, onShare("snapshot"))],
    ["Create Directory", () => createDirectory(`${SHARE}/new`)],
    ["Set Directory Properties", () => put(DIRECTORY, onDirectory("properties"))],
    ["Set Directory Metadata", () => put(DIRECTORY, onDirectory("metadata"))],
    ["Delete Directory", () => remove(DIRECTORY, onDirectory())],
    ["Rename Directory", moved],
    ["Create File", () => createFile(`${SHARE}/new`, 1)],
    ["Set File Properties", () => put(FILE, { comp: "properties" })],
    ["Set File Metadata", () => put(FILE, { comp: "metadata" })],
    ["Put Range", () => putRange(FILE, 0, "a")],
    ["Clear Range", () => clearRange(FILE, 0, 511)],
    ["Copy File", () => put(FILE, {}, source())],
    ["Rename File", renamed],
    ["Delete File", () => remove(FILE)],
    ["Lease File", () => lease("acquire", FILE, { "x-ms-lease-duration": "-1" })],
  ];
  refused(rows.map(([what, request]) => [what, () => at(request()), ...QUERY]));
  refused([
    ["a time that is none", () => get(FILE, { sharesnapshot: "yesterday" }), ...QUERY],
    [
      "one that was never taken",
      () => get(FILE, { sharesnapshot: "2020-01-01T00:00:00.0000000Z" }),
      404,
      "ShareSnapshotNotFound",
    ],
    [
      "Delete Share of a snapshot, with snapshots",
      () => at(remove(SHARE, onShare(), { "x-ms-delete-snapshots": "include" })),
      ...QUERY,
    ],
  ]);
});

suite("A share that is not there", () => {
  const rows: [what: string, request: () => RawRequest][] = [
    ["Get Share Properties", () => get("/nothing", onShare())],
    ["Delete Share", () => remove("/nothing", onShare())],
    [
      "Get Permission",
      () => get("/nothing", onShare("filepermission"), { "x-ms-file-permission-key": "1*1" }),
    ],
    ["List Directories and Files", () => get("/nothing", onDirectory("list"))],
    ["Create Directory", () => createDirectory("/nothing/dir")],
    ["Create File", () => createFile("/nothing/file", 1)],
    ["Get File", () => get("/nothing/file")],
    ["Put Range", () => putRange("/nothing/file", 0, "a")],
    ["List Handles", () => get("/nothing/file", { comp: "listhandles" })],
  ];
  refused(rows.map(([what, request]) => [what, request, 404, "ShareNotFound"]));
});

suite("Shares", () => {
  const create = (headers: Fields, name = "/refused2") => put(name, onShare(), headers);
  const set = (headers: Fields) => put(SHARE, onShare("properties"), headers);
  const permission = (body: string) => put(SHARE, onShare("filepermission"), {}, body);
  refused([
    ["a name in capitals", () => create({}, "/Refused"), 400, "InvalidResourceName"],
    ["a name of two letters", () => create({}, "/ab"), 400, "OutOfRangeInput"],
    ["a quota of nothing", () => create({ "x-ms-share-quota": "0" }), ...HEADER],
    ["a quota beyond 100 TiB", () => set({ "x-ms-share-quota": "102401" }), ...HEADER],
    ["a tier that there is not", () => set({ "x-ms-access-tier": "Lukewarm" }), ...HEADER],
    ["a tier of another account", () => set({ "x-ms-access-tier": "Premium" }), ...HEADER],
    ["NFS", () => create({ "x-ms-enabled-protocols": "NFS" }), ...HEADER],
    ["NFS's squashing", () => create({ "x-ms-root-squash": "RootSquash" }), ...FOREIGN],
    ["provisioned speed", () => set({ "x-ms-share-provisioned-iops": "500" }), ...FOREIGN],
    ["metadata of a bad name", () => create({ "x-ms-meta-a-b": "1" }), 400, "InvalidMetadata"],
    [
      "a condition",
      () => get(SHARE, onShare(), { "if-match": '"1"' }),
      400,
      "ConditionHeadersNotSupported",
    ],
    ["another intent", () => get(FILE, {}, { "x-ms-file-request-intent": "fun" }), ...HEADER],
    ["a permission that is no JSON", () => permission("O:SYG:SY"), 400, "InvalidInput"],
    ["a permission that is none", () => permission("{}"), 400, "InvalidInput"],
    [
      "a permission in a format that there is not",
      () => permission('{"permission":"AQ==","format":"Text"}'),
      400,
      "InvalidInput",
    ],
    [
      "a permission without an owner",
      () => permission('{"permission":"G:SYD:"}'),
      400,
      "FileInvalidPermission",
    ],
    [
      "Get Permission without a key",
      () => get(SHARE, onShare("filepermission")),
      400,
      "MissingRequiredHeader",
    ],
    [
      "Get Permission of a bad key",
      () => get(SHARE, onShare("filepermission"), { "x-ms-file-permission-key": "x" }),
      400,
      "FileInvalidPermissionKey",
    ],
    [
      "Delete Share with something else",
      () => remove(SHARE, onShare(), { "x-ms-delete-snapshots": "only" }),
      ...HEADER,
    ],
    [
      "Restore Share without a version",
      () => put(SHARE, onShare("undelete"), { "x-ms-deleted-share-name": "refused" }),
      400,
      "MissingRequiredHeader",
    ],
    [
      "Restore Share by another name",
      () =>
        put(SHARE, onShare("undelete"), {
          "x-ms-deleted-share-name": "other",
          "x-ms-deleted-share-version": "0".repeat(16),
        }),
      ...HEADER,
    ],
    [
      "Lease Share for too short",
      () => ({
        ...lease("acquire", SHARE, { "x-ms-lease-duration": "5" }),
        query: onShare("lease"),
      }),
      ...HEADER,
    ],
    [
      "List Shares with an unknown include",
      () => get("/", { comp: "list", include: "nothing" }),
      ...QUERY,
    ],
    ["a comp that there is not", () => get(SHARE, onShare("nothing")), ...QUERY],
    [
      "six policies",
      () =>
        put(
          SHARE,
          onShare("acl"),
          {},
          `<SignedIdentifiers>${"<SignedIdentifier><Id>a</Id></SignedIdentifier>".repeat(6)}</SignedIdentifiers>`,
        ),
      400,
      "InvalidXmlDocument",
    ],
  ]);
});

suite("Directories and files", () => {
  const create = (headers: Fields) => createFile(`${SHARE}/new`, 1, headers);
  const make = (headers: Fields) => createDirectory(`${SHARE}/new`, headers);
  const set = (headers: Fields) => put(FILE, { comp: "properties" }, headers);
  refused([
    [
      "no type",
      () => put(`${SHARE}/new`, {}, { "x-ms-content-length": "1" }),
      400,
      "MissingRequiredHeader",
    ],
    ["another type", () => create({ "x-ms-type": "link" }), ...HEADER],
    [
      "no length",
      () => put(`${SHARE}/new`, {}, { "x-ms-type": "file" }),
      400,
      "MissingRequiredHeader",
    ],
    ["a length below nothing", () => create({ "x-ms-content-length": "-1" }), ...HEADER],
    ["a length that is none", () => set({ "x-ms-content-length": "long" }), ...HEADER],
    ["a body longer than the file", () => ({ ...create({}), body: "too long" }), ...HEADER],
    ["attributes that there are not", () => create({ "x-ms-file-attributes": "Shiny" }), ...HEADER],
    [
      "a file that is a directory",
      () => create({ "x-ms-file-attributes": "Directory" }),
      ...HEADER,
    ],
    [
      "attributes to be preserved in a new file",
      () => create({ "x-ms-file-attributes": "preserve" }),
      ...HEADER,
    ],
    ["a time that is none", () => make({ "x-ms-file-creation-time": "noon" }), ...HEADER],
    ["a change time that is none", () => set({ "x-ms-file-change-time": "noon" }), ...HEADER],
    [
      "a bad permission",
      () => create({ "x-ms-file-permission": "all" }),
      400,
      "FileInvalidPermission",
    ],
    [
      "an unknown key",
      () => create({ "x-ms-file-permission-key": "1*1" }),
      400,
      "FileInvalidPermissionKey",
    ],
    [
      "permission and key",
      () => create({ "x-ms-file-permission": "inherit", "x-ms-file-permission-key": "1*1" }),
      ...HEADER,
    ],
    [
      "bytes that are no permission",
      () => create({ "x-ms-file-permission": "AQAA", "x-ms-file-permission-format": "binary" }),
      400,
      "FileInvalidPermission",
    ],
    ["other semantics", () => create({ "x-ms-file-property-semantics": "Odd" }), ...HEADER],
    ["a dot rule that is none", () => create({ "x-ms-allow-trailing-dot": "maybe" }), ...HEADER],
    ["NFS's owner", () => create({ "x-ms-owner": "1000" }), ...FOREIGN],
    [
      "a structured body of another form",
      () => putRangeWith({ "x-ms-structured-body": "XSM/1.0" }),
      ...HEADER,
    ],
    [
      "a time of the last write that is none",
      () => putRangeWith({ "x-ms-file-last-write-time": "noon" }),
      ...HEADER,
    ],
    ["a condition", () => set({ "if-match": etag }), 400, "ConditionHeadersNotSupported"],
    ["an MD5 that is none", () => putRangeWith({ "content-md5": "short" }), 400, "InvalidMd5"],
    ["a lease id that is none", () => set({ "x-ms-lease-id": "mine" }), ...HEADER],
    [
      "a lease on a file that is not there",
      () =>
        createFile(`${SHARE}/new`, 1, { "x-ms-lease-id": "11111111-2222-3333-4444-555555555555" }),
      412,
      "LeaseNotPresentWithFileOperation",
    ],
    [
      "Copy File with the permission of nobody",
      () =>
        put(
          `${SHARE}/new`,
          {},
          {
            "x-ms-copy-source": `${files.server.url}${FILE}`,
            "x-ms-file-permission-copy-mode": "override",
          },
        ),
      400,
      "MissingRequiredHeader",
    ],
    [
      "Copy File with NFS's modes",
      () =>
        put(
          `${SHARE}/new`,
          {},
          {
            "x-ms-copy-source": `${files.server.url}${FILE}`,
            "x-ms-file-mode-copy-mode": "source",
          },
        ),
      ...FOREIGN,
    ],
    [
      "Abort Copy File of nothing",
      () => put(FILE, { comp: "copy", copyid: "1" }, { "x-ms-copy-action": "abort" }),
      409,
      "NoPendingCopyOperation",
    ],
    [
      "Abort Copy File without an id",
      () => put(FILE, { comp: "copy" }, { "x-ms-copy-action": "abort" }),
      400,
      "MissingRequiredQueryParameter",
    ],
    [
      "Force Close Handles of no handle",
      () => put(FILE, { comp: "forceclosehandles" }),
      400,
      "MissingRequiredHeader",
    ],
    [
      "Force Close Handles of a bad one",
      () => put(FILE, { comp: "forceclosehandles" }, { "x-ms-handle-id": "x" }),
      ...HEADER,
    ],
    [
      "List Handles of a file with all below",
      () => get(FILE, { comp: "listhandles" }, { "x-ms-recursive": "true" }),
      ...HEADER,
    ],
    [
      "a verb that a file has not",
      () => ({ method: "POST", path: FILE }),
      405,
      "UnsupportedHttpVerb",
    ],
    ["a comp that there is not", () => get(FILE, { comp: "nothing" }), ...QUERY],
    [
      "a range beyond 64 bits",
      () => get(FILE, {}, { "x-ms-range": "bytes=99999999999999999-" }),
      416,
      "InvalidRange",
    ],
  ]);
});

const putRangeWith = (headers: Fields) => putRange(FILE, 0, "abc", headers);

suite("Afterwards", () => {
  test("what was refused made nothing and changed nothing", async () => {
    const list = await files.ask(get("/", { comp: "list", include: "snapshots" }));
    assert.deepEqual(namesIn(list.text), ["refused", "refused"]);
    const names = await files.ask(get(SHARE, onDirectory("list")));
    assert.deepEqual(namesIn(names.text), ["dir"]);
    const { headers } = await files.ask({ method: "HEAD", path: FILE });
    assert.deepEqual([headers.etag, headers["x-ms-lease-state"]], [etag, "available"]);
    const ranges = await files.ask(get(FILE, { comp: "rangelist" }));
    assert.match(ranges.text, /<Ranges><\/Ranges>/);
  });
});
