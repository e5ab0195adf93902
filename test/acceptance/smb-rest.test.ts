import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import {
  createDirectory,
  createFile,
  type FileServer,
  onDirectory,
  putRange,
  startFiles,
} from "./files.ts";
import type { RawReply, RawRequest } from "./raw.ts";
import { commands, SmbClient, status } from "./smb-client.ts";
import {
  access,
  acknowledge,
  changesOf,
  close,
  create,
  createBody,
  handleOf,
  lock,
  notify,
  open,
  options,
  read,
  setAttributes,
  setDelete,
  setInfo,
  share as sharing,
  write,
} from "./smb-files.ts";

const portOf = (output: string) => Number(/^\s*Smb\s+[\d.]+:(\d+)$/m.exec(output)?.[1]);

// SEMANTICS g.6, "Managing file locks": what REST does beside what SMB clients hold.
suite("REST meets SMB", () => {
  let files: FileServer;
  let share = "";
  let smb: SmbClient;
  before(async () => {
    files = await startFiles({ args: ["--smbPort", "any"] });
    share = await files.share();
    smb = await SmbClient.open({ port: portOf(files.server.output()) }, share);
  });
  after(async () => {
    await smb.end();
    await files.stop();
  });

  const path = () => `/${share}/file`;
  const leaseId = "11111111-2222-3333-4444-555555555555";
  const operations = {
    "Create File": () => createFile(path(), 1000),
    "Get File": () => ({ method: "GET", path: path() }),
    "Get File Properties": () => ({ method: "HEAD", path: path() }),
    "Get File Metadata": () => ({ method: "GET", path: path(), query: { comp: "metadata" } }),
    "Set File Properties": () => ({
      method: "PUT",
      path: path(),
      query: { comp: "properties" },
      headers: { "x-ms-content-type": "a/b" },
    }),
    "Set File Metadata": () => ({
      method: "PUT",
      path: path(),
      query: { comp: "metadata" },
      headers: { "x-ms-meta-a": "b" },
    }),
    "Put Range": () => putRange(path(), 0, "x".repeat(512)),
    "List Ranges": () => ({ method: "GET", path: path(), query: { comp: "rangelist" } }),
    "Lease File": () => ({
      method: "PUT",
      path: path(),
      query: { comp: "lease" },
      headers: {
        "x-ms-lease-action": "acquire",
        "x-ms-lease-duration": "-1",
        "x-ms-proposed-lease-id": leaseId,
      },
    }),
    "Delete File": () => ({ method: "DELETE", path: path() }),
  } satisfies Record<string, () => RawRequest>;
  type Operation = keyof typeof operations;
  const all = Object.keys(operations) as Operation[];
  const ask = (operation: Operation) => files.ask(operations[operation]());

  const codeOf = ({ code }: RawReply): string => code ?? "";
  const fresh = async () => {
    await files.ask({ ...operations["Delete File"]() });
    const reply = await files.ask(createFile(path(), 1000));
    assert.equal(reply.status, 201, codeOf(reply));
  };
  const release = () =>
    files.ask({
      method: "PUT",
      path: path(),
      query: { comp: "lease" },
      headers: { "x-ms-lease-action": "release", "x-ms-lease-id": leaseId },
    });

  /** Which operations are refused, and that they are by this code. */
  async function refused(code: string, among: readonly Operation[] = all): Promise<Operation[]> {
    const found: Operation[] = [];
    for (const operation of among) {
      const reply = await ask(operation);
      if (reply.status < 300) {
        if (operation === "Lease File") await release();
        continue;
      }
      const given =
        operation === "Get File Properties" && codeOf(reply) === "" ? code : codeOf(reply);
      assert.equal(given, code, operation);
      assert.equal(reply.status, 409, operation);
      found.push(operation);
    }
    return found;
  }

  const changes: Operation[] = ["Set File Properties", "Set File Metadata", "Put Range"];
  const reads: Operation[] = ["Get File", "List Ranges"];
  const modes: [shares: string, bits: number, want: Operation[]][] = [
    ["nothing", 0, ["Create File", ...reads, ...changes, "Lease File", "Delete File"]],
    ["reading", sharing.read, ["Create File", ...changes, "Lease File", "Delete File"]],
    ["writing", sharing.write, ["Create File", ...reads, "Lease File", "Delete File"]],
    [
      "deleting",
      sharing.delete,
      ["Create File", ...reads, ...changes, "Lease File", "Delete File"],
    ],
    ["reading and writing", 3, ["Create File", "Lease File", "Delete File"]],
    ["reading and deleting", 5, ["Create File", ...changes, "Lease File", "Delete File"]],
    ["writing and deleting", 6, [...reads, "Lease File", "Delete File"]],
    ["everything", 7, ["Delete File"]],
  ];
  for (const [shares, bits, want] of modes) {
    test(`an SMB client that reads shares ${shares}`, async () => {
      await fresh();
      const handle = await open(smb, "file", { access: access.read, share: bits, disposition: 1 });
      assert.deepEqual(new Set(await refused("SharingViolation")), new Set(want));
      await close(smb, handle);
      assert.deepEqual(await refused("SharingViolation", ["Get File", "Put Range"]), []);
    });
  }

  const held: [what: string, bits: number, isRefused: boolean][] = [
    ["looks at attributes", access.readAttributes, false],
    ["reads", access.read, false],
    ["writes", access.write, true],
    ["deletes", access.delete, true],
    ["reads and writes", 3, true],
    ["reads and deletes", access.read | access.delete, true],
    ["writes and deletes", access.write | access.delete, true],
    ["does all", 3 | access.delete, true],
  ];
  for (const [what, bits, isRefused] of held) {
    test(`Lease File beside an SMB client that ${what}`, async () => {
      await fresh();
      const handle = await open(smb, "file", { access: bits, disposition: 1 });
      assert.equal((await refused("SharingViolation", ["Lease File"])).length, isRefused ? 1 : 0);
      await close(smb, handle);
    });

    test(`an SMB client that ${what} beside a lease of REST`, async () => {
      await fresh();
      assert.equal((await ask("Lease File")).status, 201);
      const answer = await create(smb, "file", { access: bits, disposition: 1 });
      assert.equal(answer.status, isRefused ? status.sharingViolation : status.ok);
      if (answer.status === 0) await close(smb, handleOf(answer));
      await release();
      const again = await open(smb, "file", { access: bits, disposition: 1 });
      await close(smb, again);
    });
  }

  test("a pending delete: refused whatever is asked, not listed, gone with the last handle, alive if taken back", async () => {
    await fresh();
    const handle = await open(smb, "file", { disposition: 1 });
    await setDelete(smb, handle, true);
    assert.deepEqual(new Set(await refused("SMBDeletePending")), new Set(all));
    const listed = async () => {
      const reply = await files.ask({
        method: "GET",
        path: `/${share}`,
        query: onDirectory("list"),
      });
      return reply.body.toString().includes("<Name>file</Name>");
    };
    assert.equal(await listed(), false);
    await setDelete(smb, handle, false);
    assert.equal((await ask("Get File")).status, 200);
    assert.equal(await listed(), true);
    await setDelete(smb, handle, true);
    await close(smb, handle);
    assert.equal((await ask("Get File")).status, 404);
    assert.equal(await listed(), false);
  });

  test("nothing is put into a directory that is to be deleted", async () => {
    await fresh();
    const handle = await open(smb, "doomed", { options: options.directory });
    await setDelete(smb, handle, true);
    const into = (name: string) => `/${share}/doomed/${name}`;
    const renaming = { "x-ms-file-rename-source": `${files.server.url}${path()}` };
    const attempts: RawRequest[] = [
      createFile(into("file"), 10),
      createDirectory(into("directory")),
      { method: "PUT", path: into("renamed"), query: { comp: "rename" }, headers: renaming },
    ];
    for (const attempt of attempts) {
      const reply = await files.ask(attempt);
      assert.equal(reply.status, 409);
      assert.equal(codeOf(reply), "SMBDeletePending");
    }
    await close(smb, handle);
    assert.equal((await create(smb, "doomed", { disposition: 1 })).status, status.nameNotFound);
  });

  test("any lock on bytes keeps REST from writing, an exclusive one from reading", async () => {
    const rows: [flags: number, want: Operation[]][] = [
      [0x11, ["Create File", ...changes]],
      [0x12, ["Create File", "Get File", "List Ranges", ...changes]],
    ];
    for (const [flags, want] of rows) {
      await fresh();
      const handle = await open(smb, "file", { disposition: 1 });
      const begun = await lock(smb, handle, { start: 900, count: 1, flags });
      assert.equal((await begun.answer).status, 0);
      const among = all.filter((each) => each !== "Delete File" && each !== "Lease File");
      assert.deepEqual(new Set(await refused("FileLockConflict", among)), new Set(want));
      await close(smb, handle);
      assert.deepEqual(await refused("FileLockConflict", among), []);
    }
  });

  test("the read-only attribute that an SMB client sets counts for REST", async () => {
    await fresh();
    const handle = await open(smb, "file", { disposition: 1 });
    await setAttributes(smb, handle, 1);
    await close(smb, handle);
    const among: Operation[] = ["Create File", "Set File Metadata", "Put Range", "Delete File"];
    assert.deepEqual(await refused("ReadOnlyAttribute", among), among);
    const again = await open(smb, "file", { access: access.writeAttributes, disposition: 1 });
    await setAttributes(smb, again, 0x80);
    await close(smb, again);
  });

  // What a client keeps to itself, what REST asks, and what is left of it; a blocking break is answered first.
  const R = 1;
  const RH = 3;
  const RW = 5;
  const RWH = 7;
  const breaks: [
    held: number,
    operation: Operation,
    left: number | undefined,
    isAwaited: boolean,
  ][] = [
    [RWH, "Get File", RH, true],
    [RWH, "Get File Properties", RH, true],
    [RWH, "Get File Metadata", RH, true],
    [RWH, "List Ranges", RH, true],
    [RH, "Get File", undefined, false],
    [RW, "Get File", R, true],
    [RWH, "Put Range", 0, true],
    [RWH, "Set File Properties", 0, true],
    [RWH, "Set File Metadata", 0, true],
    [RH, "Put Range", 0, false],
    [RW, "Put Range", 0, true],
  ];
  for (const [state, operation, left, isAwaited] of breaks) {
    test(`${operation} beside a lease of ${state}`, async () => {
      await fresh();
      const key = Buffer.from(`key of ${String(state)}`.padEnd(16));
      const lease = Buffer.alloc(32);
      key.copy(lease);
      lease.writeUInt32LE(state, 16);
      const answer = await create(smb, "file", {
        disposition: 1,
        oplock: 0xff,
        contexts: [["RqLs", lease]],
      });
      assert.equal(answer.status, 0);
      smb.news.splice(0);
      const asked = ask(operation);
      if (left !== undefined) {
        const news = await smb.nextNews();
        assert.equal(news.body.readUInt32LE(24), state);
        assert.equal(news.body.readUInt32LE(28), left);
        const ack = Buffer.alloc(36);
        ack.writeUInt16LE(36, 0);
        key.copy(ack, 8);
        ack.writeUInt32LE(left, 24);
        if (!isAwaited) assert.ok((await asked).status < 300, "nobody waits");
        if ((news.body.readUInt32LE(4) & 1) !== 0) {
          assert.equal((await smb.request(commands.oplockBreak, ack)).status, 0);
        }
      }
      const reply = await asked;
      assert.ok(reply.status < 300, codeOf(reply));
      assert.equal(smb.news.length, 0);
      await close(smb, handleOf(answer));
    });
  }

  test("Delete File asks who keeps a handle for later to close it, and then deletes", async () => {
    await fresh();
    const answer = await create(smb, "file", { disposition: 1, oplock: 9 });
    const asked = ask("Delete File");
    const news = await smb.nextNews();
    assert.equal(news.command, commands.oplockBreak);
    await close(smb, handleOf(answer));
    assert.equal((await asked).status, 202);
  });

  test("a client that answers the break and keeps its handle open is in the way", async () => {
    await fresh();
    const answer = await create(smb, "file", { disposition: 1, oplock: 9 });
    const asked = ask("Delete File");
    await smb.nextNews();
    await acknowledge(smb, handleOf(answer), 1);
    assert.equal(codeOf(await asked), "SharingViolation");
    await close(smb, handleOf(answer));
  });

  test("List Handles shows what is open, Force Close Handles closes it", async () => {
    await fresh();
    const handle = await open(smb, "file", { access: access.read | access.write, disposition: 1 });
    const file = files.service.getShareClient(share).rootDirectoryClient.getFileClient("file");
    const listed = [];
    for await (const each of file.listHandles()) listed.push(each);
    assert.equal(listed.length, 1);
    assert.equal(listed[0]?.handleId, String(handle.readBigUInt64LE()));
    assert.equal(listed[0]?.path, "file");
    assert.match(listed[0]?.clientIp ?? "", /^127\.0\.0\.1:\d+$/);
    const closed = await file.forceCloseAllHandles();
    assert.equal(closed.closedHandlesCount, 1);
    assert.equal((await read(smb, handle, 0, 1)).status, status.fileClosed);
    assert.equal((await ask("Delete File")).status, 202);
  });

  test("handles are listed and closed by force without a word to a client that keeps an oplock", async () => {
    await fresh();
    const handle = await open(smb, "file", { disposition: 1, oplock: 9 });
    const file = files.service.getShareClient(share).rootDirectoryClient.getFileClient("file");
    const listed = [];
    for await (const each of file.listHandles()) listed.push(each.handleId);
    assert.deepEqual(listed, [String(handle.readBigUInt64LE())]);
    assert.equal((await file.forceCloseAllHandles()).closedHandlesCount, 1);
    assert.equal((await read(smb, handle, 0, 1)).status, status.fileClosed);
    assert.deepEqual(smb.news, []);
  });

  test("a file whose last handle is closed by force while it is to be deleted goes", async () => {
    await fresh();
    const handle = await open(smb, "file", { disposition: 1 });
    await setDelete(smb, handle, true);
    const root = files.service.getShareClient(share).rootDirectoryClient;
    assert.equal((await root.forceCloseAllHandles({ recursive: true })).closedHandlesCount, 1);
    const until = Date.now() + 5000;
    while ((await ask("Get File")).status === 409) assert.ok(Date.now() < until, "it stays");
    assert.equal((await ask("Get File")).status, 404);
  });

  test("what REST changes is told to those who watch", async () => {
    await fresh();
    const root = await open(smb, "", {
      access: access.read,
      options: options.directory,
      disposition: 1,
    });
    const rows: [Operation, [number, string][]][] = [
      ["Put Range", [[3, "file"]]],
      ["Delete File", [[2, "file"]]],
      ["Create File", [[1, "file"]]],
    ];
    for (const [operation, want] of rows) {
      const begun = await notify(smb, root, 0x1f, false);
      while (begun.interim.length === 0) await new Promise((resolve) => setImmediate(resolve));
      assert.ok((await ask(operation)).status < 300);
      assert.deepEqual(changesOf(await begun.answer), want, operation);
    }
    await close(smb, root);
  });

  test("what SMB writes REST reads, with another ETag; what REST writes SMB reads", async () => {
    await fresh();
    const before = await ask("Get File Properties");
    const handle = await open(smb, "file", { disposition: 1 });
    await write(smb, handle, 10, Buffer.from("by smb"));
    const now = await ask("Get File");
    assert.notEqual(now.headers.etag, before.headers.etag);
    assert.equal(now.body.subarray(10, 16).toString(), "by smb");
    assert.equal((await files.ask(putRange(path(), 0, "by rest!"))).status, 201);
    const answer = await read(smb, handle, 0, 16);
    assert.equal(answer.message.toString("latin1", 80, 96), "by rest!\0\0by smb");
    await close(smb, handle);
  });

  test("the time of the last access that an SMB client sets is the one that REST lists", async () => {
    await files.ask(createFile(`/${share}/seen`, 0));
    const handle = await open(smb, "seen", { access: access.writeAttributes, disposition: 1 });
    const times = Buffer.alloc(40);
    times.writeBigUInt64LE(116_444_736_000_000_000n, 8); // 1970 in FILETIME
    assert.equal((await setInfo(smb, handle, 4, times)).status, 0);
    await close(smb, handle);
    const query = onDirectory("list", { include: "timestamps", prefix: "seen" });
    const { text } = await files.ask({ method: "GET", path: `/${share}`, query });
    assert.match(text, /<LastAccessTime>1970-01-01T00:00:00.0000000Z</);
  });

  test("a name is one, whatever its case, by either door", async () => {
    await fresh();
    assert.equal((await create(smb, "FILE", { disposition: 2 })).status, status.collision);
    await close(smb, await open(smb, "Made By SMB", { disposition: 2 }));
    const reply = await files.ask({ method: "HEAD", path: `/${share}/made by smb` });
    assert.equal(reply.status, 200);
    const request = await smb.request(
      commands.create,
      createBody("made BY smb", { disposition: 1 }),
    );
    assert.equal(request.status, 0);
  });
});
