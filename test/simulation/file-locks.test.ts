import assert from "node:assert/strict";
import { mock, suite, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import {
  DELETE,
  noOplock,
  type Oplock,
  READ,
  type Rights,
  WRITE,
} from "../../src/rules/sharing.ts";
import { shares } from "../../src/store/keys.ts";
import type { Notice, OpenFile } from "../../src/store/opens.ts";
import { type Answer, type Ask, TestService } from "./file-service.ts";

const bits = (text: string): Rights =>
  (text.includes("R") ? READ : 0) |
  (text.includes("W") ? WRITE : 0) |
  (text.includes("D") ? DELETE : 0);

const oplock = (text: string): Oplock => ({
  read: text.includes("R"),
  write: text.includes("W"),
  handle: text.includes("H"),
});

const DIRECTORY = "/share/dir";
const FILE = `${DIRECTORY}/file`;

/** A share with one file in a directory, and what an SMB client would do to it. */
class Bench {
  readonly service = new TestService();
  share = 0n;
  file = 0n;
  #handles = 0n;

  async prepare(): Promise<this> {
    const { service } = this;
    await service.createShare("share");
    await service.createDirectory(DIRECTORY);
    assert.equal((await service.createFile(FILE, 1000)).status, 201);
    const record = await service.engine.read((tx) => shares.get(tx, "account", "share"));
    this.share = BigInt(`0x${record?.id}`);
    this.file = BigInt((await this.ask("Get File Properties")).header("x-ms-file-id") ?? -1);
    return this;
  }

  /** Enters an open as the SMB server will. */
  open(access: string, sharing: string, more: Partial<OpenFile> = {}): OpenFile {
    const open: OpenFile = {
      share: this.share,
      file: this.file,
      access: bits(access),
      shares: bits(sharing),
      handle: ++this.#handles,
      holder: { session: 7n, address: "10.0.0.1:445", name: "client", openedAt: 0 },
      locks: [],
      oplock: noOplock,
      breakOplock: () => {},
      closed: () => {},
      ...more,
    };
    this.service.opens.enter(open);
    return open;
  }

  ask(operation: keyof typeof asks): Promise<Answer> {
    return this.service.ask(asks[operation]);
  }
}

const range = { "x-ms-range": "bytes=0-511" };
const asks = {
  "Create File": {
    method: "PUT",
    path: FILE,
    headers: { "x-ms-type": "file", "x-ms-content-length": "1000" },
  },
  "Get File": { path: FILE },
  "Get File Properties": { method: "HEAD", path: FILE },
  "Get File Metadata": { path: FILE, query: { comp: "metadata" } },
  "Set File Properties": { method: "PUT", path: FILE, query: { comp: "properties" } },
  "Set File Metadata": { method: "PUT", path: FILE, query: { comp: "metadata" } },
  "Delete File": { method: "DELETE", path: FILE },
  "Put Range": {
    method: "PUT",
    path: FILE,
    query: { comp: "range" },
    headers: { ...range, "x-ms-write": "clear" },
  },
  "List Ranges": { path: FILE, query: { comp: "rangelist" } },
  "Lease File": {
    method: "PUT",
    path: FILE,
    query: { comp: "lease" },
    headers: { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" },
  },
  "List Directories and Files": {
    path: DIRECTORY,
    query: { restype: "directory", comp: "list" },
  },
  "Rename File": {
    method: "PUT",
    path: `${DIRECTORY}/other`,
    query: { comp: "rename" },
    headers: { "x-ms-file-rename-source": `http://localhost/account${FILE}` },
  },
  "Rename Directory": {
    method: "PUT",
    path: "/share/other",
    query: { comp: "rename", restype: "directory" },
    headers: { "x-ms-file-rename-source": `http://localhost/account${DIRECTORY}` },
  },
  "Delete Directory": { method: "DELETE", path: DIRECTORY, query: { restype: "directory" } },
} as const satisfies Record<string, Ask>;

type Name = keyof typeof asks;

// "Manage file locks", the table of share modes: which operations fail beside a handle that shares this.
const columns: readonly Name[] = [
  "Create File",
  "Get File",
  "Set File Properties",
  "Set File Metadata",
  "Delete File",
  "Put Range",
  "List Ranges",
  "Lease File",
];
const modes: [shares: string, cells: string][] = [
  ["", "xxxxxxxx"],
  ["R", "x.xxxx.x"],
  ["W", "xx..x.xx"],
  ["D", "xxxxxxxx"],
  ["RW", "x...x..x"],
  ["RD", "x.xxxx.x"],
  ["WD", ".x..x.xx"],
  ["RWD", "....x..."],
];

suite("A handle's share mode and REST", () => {
  for (const [sharing, cells] of modes) {
    for (const [index, name] of columns.entries()) {
      const want = cells[index] === "x" ? "SharingViolation" : undefined;
      test(`${name} beside a handle that shares ${sharing || "nothing"}: ${want ?? "done"}`, async () => {
        const bench = await new Bench().prepare();
        bench.open("R", sharing);
        assert.equal((await bench.ask(name)).code, want);
      });
    }
  }

  for (const name of [
    "Get File Properties",
    "Get File Metadata",
    "List Directories and Files",
  ] as const) {
    test(`${name} succeeds whatever is shared`, async () => {
      const bench = await new Bench().prepare();
      bench.open("RWD", "");
      assert.ok((await bench.ask(name)).status < 300);
    });
  }

  // The table of a lease against the handle's access, all of it shared.
  for (const [access, want] of [
    ["", undefined],
    ["R", undefined],
    ["W", "SharingViolation"],
    ["D", "SharingViolation"],
    ["RW", "SharingViolation"],
    ["RD", "SharingViolation"],
    ["WD", "SharingViolation"],
    ["RWD", "SharingViolation"],
  ] as const) {
    test(`Lease File beside a handle with ${access || "no"} access: ${want ?? "done"}`, async () => {
      const bench = await new Bench().prepare();
      bench.open(access, "RWD");
      assert.equal((await bench.ask("Lease File")).code, want);
    });
  }

  test("A handle that only looks at attributes stands in nobody's way but Delete File's", async () => {
    for (const name of columns) {
      const bench = await new Bench().prepare();
      bench.open("", "");
      const want = name === "Delete File" ? "SharingViolation" : undefined;
      assert.equal((await bench.ask(name)).code, want, name);
    }
  });

  test("Lock state follows the file through a rename of its directory's parent", async () => {
    const bench = await new Bench().prepare();
    const { service } = bench;
    await service.createDirectory("/share/up");
    await service.rename("directory", DIRECTORY, "/share/up/dir");
    bench.open("R", "");
    const path = "/share/up/dir/file";
    assert.equal((await service.ask({ path })).code, "SharingViolation");
  });

  test("What is open cannot be renamed or deleted, nor the directory it is in", async () => {
    const bench = await new Bench().prepare();
    const open = bench.open("R", "RWD");
    assert.equal((await bench.ask("Rename File")).code, "SharingViolation");
    assert.equal((await bench.ask("Rename Directory")).code, "SharingViolation");
    assert.equal((await bench.ask("Delete Directory")).code, "CannotDeleteFileOrDirectory");
    bench.service.opens.leave(open);
    assert.equal((await bench.ask("Rename Directory")).status, 200);
  });
});

suite("Byte-range locks and REST", () => {
  const lock = (exclusive: boolean) => ({ locks: [{ start: 900n, count: 10n, exclusive }] });
  for (const [name, exclusive, want] of [
    ["Put Range", true, "FileLockConflict"],
    ["Put Range", false, "FileLockConflict"],
    ["Set File Metadata", false, "FileLockConflict"],
    ["Create File", false, "FileLockConflict"],
    ["Get File", true, "FileLockConflict"],
    ["Get File", false, undefined],
    ["Get File Properties", true, undefined],
  ] as const) {
    const kind = exclusive ? "an exclusive" : "a shared";
    test(`${name} of a file with ${kind} lock anywhere: ${want ?? "done"}`, async () => {
      const bench = await new Bench().prepare();
      bench.open("RW", "RWD", lock(exclusive));
      assert.equal((await bench.ask(name)).code, want);
    });
  }
});

suite("A file that is to be deleted when its last handle closes", () => {
  const names = Object.keys(asks) as Name[];
  for (const name of names.filter((each) => !/Director/.test(each))) {
    test(`${name}: 409 SMBDeletePending`, async () => {
      const bench = await new Bench().prepare();
      bench.open("R", "RWD");
      bench.service.opens.setDeletePending(bench, true);
      const { status, code } = await bench.ask(name);
      assert.deepEqual([status, code], [409, "SMBDeletePending"]);
    });
  }

  test("It is not listed, its directory is not empty, and it comes back if the mark is taken off", async () => {
    const bench = await new Bench().prepare();
    const { opens } = bench.service;
    opens.setDeletePending(bench, true);
    assert.doesNotMatch((await bench.ask("List Directories and Files")).text, /<File>/);
    assert.equal((await bench.ask("Delete Directory")).code, "DirectoryNotEmpty");
    opens.setDeletePending(bench, false);
    assert.match((await bench.ask("List Directories and Files")).text, /<Name>file</);
    assert.equal((await bench.ask("Get File")).status, 200);
  });
});

// "Manage file locks", the table of oplocks: what each operation breaks them to, and whether it waits.
const breaks: [name: Name, held: string, left: string | undefined, waits: boolean][] = [
  ["Get File", "RWH", "RH", true],
  ["Get File Properties", "RWH", "RH", true],
  ["Get File Metadata", "RWH", "RH", true],
  ["List Ranges", "RWH", "RH", true],
  ["Get File", "RH", undefined, false],
  ["Get File", "RW", "R", true],
  ["List Directories and Files", "RWH", undefined, false],
  ["Put Range", "RWH", "", true],
  ["Set File Properties", "RWH", "", true],
  ["Set File Metadata", "RWH", "", true],
  ["Put Range", "RH", "", false],
  ["Put Range", "RW", "", true],
];

suite("Oplocks and REST", () => {
  for (const [name, held, left, waits] of breaks) {
    const what =
      left === undefined
        ? "nothing is broken"
        : `broken to ${left || "none"}${waits ? ", waits" : ""}`;
    test(`${name} of a file with ${held}: ${what}`, async () => {
      const bench = await new Bench().prepare();
      const asked: Oplock[] = [];
      const open = bench.open("RW", "RWD", {
        oplock: oplock(held),
        breakOplock: (to) => void asked.push(to),
      });
      let isAnswered = false;
      const answer = bench.ask(name).then((reply) => {
        isAnswered = true;
        return reply;
      });
      for (let i = 0; i < 5; i++) await turn();
      assert.deepEqual(asked, left === undefined ? [] : [oplock(left)]);
      assert.equal(isAnswered, !waits);
      if (waits) bench.service.opens.acknowledge(open, oplock(left ?? ""));
      assert.ok((await answer).status < 300);
    });
  }

  for (const [held, left] of [
    ["RWH", "RW"],
    ["RH", "R"],
  ] as const) {
    test(`Delete File breaks ${held} to ${left}, and goes on if the handle is closed then`, async () => {
      const bench = await new Bench().prepare();
      const open = bench.open("R", "RWD", {
        oplock: oplock(held),
        breakOplock(to) {
          assert.deepEqual(to, oplock(left));
          bench.service.opens.leave(open);
        },
      });
      assert.equal((await bench.ask("Delete File")).status, 202);
    });
  }

  test("Delete File is refused if the handle is kept", async () => {
    const bench = await new Bench().prepare();
    const open = bench.open("R", "RWD", {
      oplock: oplock("RH"),
      breakOplock: (to) => bench.service.opens.acknowledge(open, to),
    });
    assert.equal((await bench.ask("Delete File")).code, "SharingViolation");
  });

  test("A share mode in the way breaks the handle's oplock first", async () => {
    const bench = await new Bench().prepare();
    const open = bench.open("R", "R", {
      oplock: oplock("RH"),
      breakOplock: () => void bench.service.opens.leave(open),
    });
    assert.equal((await bench.ask("Put Range")).status, 201);
  });

  // A request waits as long as its timeout says, and 30 seconds at most.
  for (const [timeout, waitMs] of [
    [undefined, 30_000],
    ["0", 30_000],
    ["5", 5_000],
    ["90", 30_000],
  ] as const) {
    test(`A client that does not answer, timeout ${timeout}: ClientCacheFlushDelay after ${waitMs} ms`, async () => {
      const bench = await new Bench().prepare();
      mock.timers.enable({ apis: ["setTimeout"] });
      try {
        bench.open("RW", "RWD", { oplock: oplock("RWH") });
        const query = timeout === undefined ? {} : { timeout };
        let isAnswered = false;
        const answer = bench.service.ask({ path: FILE, query }).finally(() => {
          isAnswered = true;
        });
        for (let i = 0; i < 5; i++) await turn();
        mock.timers.tick(waitMs - 1);
        for (let i = 0; i < 5; i++) await turn();
        assert.equal(isAnswered, false);
        mock.timers.tick(1);
        assert.equal((await answer).code, "ClientCacheFlushDelay");
      } finally {
        mock.timers.reset();
      }
    });
  }
});

suite("Handles", () => {
  const list = (path: string, headers: Record<string, string> = {}, query = {}): Ask => ({
    path,
    query: { comp: "listhandles", ...query },
    headers,
  });
  const close = (path: string, id: string, headers: Record<string, string> = {}): Ask => ({
    method: "PUT",
    path,
    query: { comp: "forceclosehandles" },
    headers: { "x-ms-handle-id": id, ...headers },
  });
  const recursive = { "x-ms-recursive": "true" };
  const ids = (text: string) => [...text.matchAll(/<HandleId>(\d+)</g)].map(([, id]) => id);

  test("List Handles tells what is open, of a file or below a directory", async () => {
    const bench = await new Bench().prepare();
    bench.open("R", "RWD");
    bench.open("RW", "RWD");
    const { service } = bench;
    const { text } = await service.ask(list(FILE));
    assert.deepEqual(ids(text), ["1", "2"]);
    assert.match(text, /<Path>dir\/file<\/Path>/);
    assert.match(text, /<ClientIp>10\.0\.0\.1:445<\/ClientIp>/);
    assert.match(text, /<AccessRight>Read<\/AccessRight><AccessRight>Write<\/AccessRight>/);
    assert.deepEqual(ids((await service.ask(list(DIRECTORY))).text), []);
    assert.deepEqual(ids((await service.ask(list("/share", recursive))).text), ["1", "2"]);
    const first = await service.ask(list("/share", recursive, { maxresults: "1" }));
    assert.deepEqual(ids(first.text), ["1"]);
    const marker = /<NextMarker>([^<]+)</.exec(first.text)?.[1];
    const next = await service.ask(list("/share", recursive, { marker }));
    assert.deepEqual(ids(next.text), ["2"]);
    assert.equal((await service.ask(list(FILE, recursive))).code, "InvalidHeaderValue");
  });

  test("Force Close Handles takes them away, one or all", async () => {
    const bench = await new Bench().prepare();
    const { service } = bench;
    const closed: string[] = [];
    for (const name of ["a", "b", "c"]) {
      bench.open("RWD", "", { closed: () => void closed.push(name) });
    }
    const one = await service.ask(close(FILE, "2"));
    assert.equal(one.header("x-ms-number-of-handles-closed"), "1");
    assert.deepEqual(closed, ["b"]);
    assert.equal((await bench.ask("Get File")).code, "SharingViolation");
    const all = await service.ask(close("/share", "*", recursive));
    assert.equal(all.header("x-ms-number-of-handles-closed"), "2");
    assert.equal((await bench.ask("Get File")).status, 200);
    const none = await service.ask(close(FILE, "99"));
    assert.equal(none.header("x-ms-number-of-handles-closed"), "0");
  });
});

test("Watchers learn of every change once it is durable, by directory and name", async () => {
  const bench = await new Bench().prepare();
  const { service } = bench;
  const told: Notice[] = [];
  const stop = service.opens.watch((notice) => void told.push(notice));
  await service.createFile("/share/new", 10);
  await service.putRange("/share/new", 0, "abc");
  await service.rename("file", "/share/new", "/share/newer");
  await service.rename("file", "/share/newer", `${DIRECTORY}/newest`);
  await service.ask({ method: "DELETE", path: `${DIRECTORY}/newest` });
  await service.ask({ method: "DELETE", path: "/share/missing" });
  stop();
  await service.createFile("/share/unseen", 10);
  assert.deepEqual(
    told.map(({ what, name, from }) => [what, ...(from === undefined ? [] : [from]), name]),
    [
      ["added", "new"],
      ["modified", "new"],
      ["renamed", "new", "newer"],
      ["removed", "newer"],
      ["added", "newest"],
      ["removed", "newest"],
    ],
  );
});
