import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import {
  AccountSASPermissions,
  AccountSASResourceTypes,
  AccountSASServices,
  FileSASPermissions,
  generateAccountSASQueryParameters,
  generateFileSASQueryParameters,
  ShareSASPermissions,
  ShareServiceClient,
  StorageSharedKeyCredential,
} from "@azure/storage-file-share";
import { answered, createFile, type FileServer, onShare, putRange, startFiles } from "./files.ts";

let files: FileServer;
let credential: StorageSharedKeyCredential;

before(async () => {
  files = await startFiles();
  credential = new StorageSharedKeyCredential(files.server.account, files.server.key);
});

after(() => files.stop());

const soon = () => new Date(Date.now() + 600_000);

/** A share with a file "file" that holds "abc". */
async function prepared(): Promise<string> {
  const share = await files.share();
  answered(await files.ask(createFile(`/${share}/file`, 3)), 201);
  answered(await files.ask(putRange(`/${share}/file`, 0, "abc")), 201);
  return share;
}

const clientWith = (sas: string) => new ShareServiceClient(`${files.server.url}?${sas}`);
const refused = { statusCode: 403, code: "AuthorizationPermissionMismatch" };

suite("A signature for a share", () => {
  const signed = (shareName: string, letters: string, identifier?: string) =>
    clientWith(
      generateFileSASQueryParameters(
        {
          shareName,
          ...(identifier === undefined
            ? { permissions: ShareSASPermissions.parse(letters), expiresOn: soon() }
            : { identifier }),
        },
        credential,
      ).toString(),
    ).getShareClient(shareName).rootDirectoryClient;

  test("lets read, list, write and delete as its letters say", async () => {
    const share = await prepared();
    const reader = signed(share, "r");
    assert.equal(String(await reader.getFileClient("file").downloadToBuffer()), "abc");
    await assert.rejects(reader.listFilesAndDirectories().next(), refused);
    await assert.rejects(reader.getFileClient("file").uploadRange("x", 0, 1), refused);
    const lister = signed(share, "l");
    const { value } = await lister.listFilesAndDirectories().next();
    assert.equal(value.name, "file");
    await assert.rejects(lister.getFileClient("file").download(), refused);
    const creator = signed(share, "c");
    await creator.getFileClient("new").create(1);
    await assert.rejects(creator.getFileClient("new").create(2), refused);
    await assert.rejects(creator.getFileClient("new").delete(), refused);
    const writer = signed(share, "wd");
    await writer.getFileClient("new").create(2);
    await writer.getFileClient("new").delete();
  });

  test("is of no use for the share itself or another one", async () => {
    const share = await prepared();
    const sas = generateFileSASQueryParameters(
      { shareName: share, permissions: ShareSASPermissions.parse("rcwdl"), expiresOn: soon() },
      credential,
    ).toString();
    const mine = clientWith(sas).getShareClient(share);
    await assert.rejects(mine.getProperties(), { statusCode: 403 });
    await assert.rejects(mine.delete(), { statusCode: 403 });
    const other = clientWith(sas).getShareClient(await prepared());
    const file = other.rootDirectoryClient.getFileClient("file");
    await assert.rejects(file.downloadToBuffer(), { statusCode: 403 });
  });

  test("follows a stored policy, and ends with it", async () => {
    const share = await prepared();
    const owner = files.service.getShareClient(share);
    const accessPolicy = { permissions: "r", expiresOn: soon(), startsOn: new Date(0) };
    await owner.setAccessPolicy([{ id: "readers", accessPolicy }]);
    const reader = signed(share, "", "readers").getFileClient("file");
    assert.equal(String(await reader.downloadToBuffer()), "abc");
    await assert.rejects(reader.delete(), refused);
    await owner.setAccessPolicy([]);
    await assert.rejects(reader.downloadToBuffer(), { statusCode: 403 });
  });
});

suite("A signature for a file", () => {
  const sasOf = (shareName: string, filePath: string, letters: string) =>
    generateFileSASQueryParameters(
      { shareName, filePath, permissions: FileSASPermissions.parse(letters), expiresOn: soon() },
      credential,
    ).toString();

  test("is for that file alone", async () => {
    const share = await prepared();
    await files.ask(createFile(`/${share}/other`, 1));
    const root = clientWith(sasOf(share, "file", "rw")).getShareClient(share).rootDirectoryClient;
    assert.equal(String(await root.getFileClient("file").downloadToBuffer()), "abc");
    await root.getFileClient("file").uploadRange("A", 0, 1);
    await assert.rejects(root.getFileClient("other").downloadToBuffer(), { statusCode: 403 });
  });

  test("does not let another file be moved or copied to its place", async () => {
    const share = await prepared();
    await files.ask(createFile(`/${share}/secret`, 1));
    const sas = sasOf(share, "file", "rcwd");
    const query = Object.fromEntries(new URLSearchParams(sas));
    const source = `${files.server.url}/${share}/secret`;
    const put = (more: Record<string, string>, headers: Record<string, string>) =>
      files.ask({
        method: "PUT",
        path: `/${share}/file`,
        query: { ...query, ...more },
        headers,
        sign: "none",
      });
    const moved = await put(
      { comp: "rename" },
      { "x-ms-file-rename-source": source, "x-ms-file-rename-replace-if-exists": "true" },
    );
    answered(moved, 403, "AuthorizationPermissionMismatch");
    const copied = await put({}, { "x-ms-copy-source": source });
    answered(copied, 401, "CannotVerifyCopySource");
    const signed = `${source}?${sasOf(share, "secret", "r")}`;
    answered(await put({}, { "x-ms-copy-source": signed }), 202);
  });
});

suite("A signature for the account", () => {
  const sasOf = (letters: string, types: string) =>
    generateAccountSASQueryParameters(
      {
        services: AccountSASServices.parse("f").toString(),
        resourceTypes: AccountSASResourceTypes.parse(types).toString(),
        permissions: AccountSASPermissions.parse(letters),
        expiresOn: soon(),
      },
      credential,
    ).toString();

  test("reaches shares and files by resource type", async () => {
    const share = await prepared();
    const all = clientWith(sasOf("rwdlc", "sco"));
    assert.equal((await all.getShareClient(share).getProperties()).quota, 5120);
    await all.getShareClient(share).createSnapshot();
    const objects = clientWith(sasOf("rwdlc", "o")).getShareClient(share);
    const file = objects.rootDirectoryClient.getFileClient("file");
    assert.equal(String(await file.downloadToBuffer()), "abc");
    await assert.rejects(objects.getProperties(), { code: "AuthorizationResourceTypeMismatch" });
    const acl = await files.ask({
      method: "GET",
      path: `/${share}`,
      query: {
        ...onShare("acl"),
        ...Object.fromEntries(new URLSearchParams(sasOf("rwdlc", "sco"))),
      },
      sign: "none",
    });
    assert.equal(acl.status, 403, "policies are the owner's alone");
  });
});
