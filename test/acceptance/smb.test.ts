import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { createFile, type FileServer, startFiles } from "./files.ts";
import {
  type Answer,
  type ClientOptions,
  commands,
  type Dialect,
  type Protection,
  SmbClient,
  status,
} from "./smb-client.ts";
import {
  access,
  acknowledge,
  bufferOf,
  changesOf,
  close,
  closeBody,
  create,
  createBody,
  dataOf,
  disposition,
  flush,
  handleOf,
  ioctl,
  LAST,
  list,
  lock,
  notify,
  open,
  options,
  outputOf,
  queryInfo,
  read,
  readBody,
  rename,
  setDelete,
  share as sharing,
  standardQuery,
  write,
} from "./smb-files.ts";

export const smbPortOf = (output: string): number =>
  Number(/^\s*Smb\s+127\.0\.0\.1:(\d+)$/m.exec(output)?.[1]);

const is = (answer: Answer, want: number, what = "") =>
  assert.equal(answer.status.toString(16), want.toString(16), what);

const dialects: readonly [Dialect, readonly Protection[]][] = [
  [0x0202, ["plain", "signed"]],
  [0x0210, ["plain", "signed"]],
  [0x0300, ["plain", "signed", "sealed"]],
  [0x0302, ["plain", "signed", "sealed"]],
  [0x0311, ["plain", "signed", "sealed"]],
];

suite("SMB", () => {
  let files: FileServer;
  let port = 0;
  let share = "";
  const client = (given: Partial<ClientOptions> = {}) => SmbClient.open({ port, ...given }, share);
  before(async () => {
    files = await startFiles({ args: ["--smbPort", "any"] });
    port = smbPortOf(files.server.output());
    share = await files.share();
  });
  after(() => files.stop());

  /** Writes, reads, lists, renames and deletes; every answer must be protected as its request was. */
  async function used(given: Partial<ClientOptions>): Promise<void> {
    const name = `used-${randomBytes(4).toString("hex")}`;
    const connection = await client(given);
    const { protection } = connection.options;
    const checked = (answer: Answer) => {
      is(answer, status.ok);
      assert.equal(answer.signed, protection === "signed" ? true : undefined);
      assert.equal(answer.sealed, protection === "sealed");
      return answer;
    };
    const bytes = randomBytes(given.dialect === 0x0202 ? 60_000 : 300_000);
    const handle = handleOf(checked(await create(connection, name)));
    checked(await write(connection, handle, 0, bytes));
    checked(await flush(connection, handle));
    const found = checked(await read(connection, handle, 100, bytes.length - 100));
    assert.ok(dataOf(found).equals(bytes.subarray(100)));
    checked(await close(connection, handle));
    assert.ok((await list(connection, "", "*")).includes(name));
    const again = await open(connection, name, { access: access.delete, disposition: 1 });
    checked(await rename(connection, again, `${name}-2`));
    assert.deepEqual(await list(connection, "", `${name}*`), [`${name}-2`]);
    checked(await setDelete(connection, again, true));
    checked(await close(connection, again));
    is(await create(connection, `${name}-2`, { disposition: 1 }), status.nameNotFound);
    const tail = await connection.request(commands.logoff, Buffer.of(4, 0, 0, 0));
    checked(tail);
    await connection.end();
  }

  for (const [dialect, protections] of dialects) {
    for (const protection of protections) {
      test(`dialect ${dialect.toString(16)}, ${protection}`, () => used({ dialect, protection }));
    }
  }
  for (const cipher of [1, 2, 3, 4] as const) {
    test(`cipher ${cipher}`, () => used({ protection: "sealed", cipher }));
  }
  for (const signing of [0, 1, 2] as const) {
    test(`signing ${signing}`, () => used({ protection: "signed", signing }));
  }
  test("NTLM without SPNEGO", () => used({ raw: true, user: "DevStoreAccount1" }));

  test("a wrong key, another account, nobody: no logon", async () => {
    const wrong = [
      { ntHash: Buffer.alloc(16) },
      { user: "devstoreaccount2" },
      { user: "" },
      { user: "guest" },
    ];
    for (const given of wrong) {
      const connection = await SmbClient.connect({ port, ...given });
      await connection.negotiate();
      is(await connection.logon(), status.logonFailure);
      is(await connection.treeConnect(share), status.sessionDeleted);
      await connection.end();
    }
  });

  test("shares are those of the account, and what is not there is not", async () => {
    const connection = await client();
    is(await connection.treeConnect("nowhere"), status.badNetworkName);
    is(await connection.treeConnect(share.toUpperCase()), status.ok);
    is(await connection.treeConnect("IPC$"), status.ok);
    const pipe = await open(connection, "srvsvc");
    const bind = Buffer.from(
      "05000b03100000004800000001000000b810b8100000000001000000000001" +
        "00c84f324b7016d30112785a47bf6ee18803000000045d888aeb1cc9119fe808002b10486002000000",
      "hex",
    );
    const bound = await ioctl(connection, pipe, 0x0011c017, { input: bind });
    is(bound, status.ok);
    assert.equal(outputOf(bound)[2], 12);
    const request = Buffer.from(
      "050000031000000048000000020000003000000000000f00" +
        "00000000" +
        "01000000" +
        "01000000" +
        "0400020000000000000000000000ffffffff0000000000000000",
      "hex",
    );
    request.writeUInt16LE(request.length, 8);
    is(await write(connection, pipe, 0, request), status.ok);
    const answer = dataOf(await read(connection, pipe, 0, 65536));
    assert.equal(answer[2], 2);
    assert.ok(answer.includes(Buffer.from(`${share}\0`, "utf16le")), "the share is listed");
    assert.ok(answer.includes(Buffer.from("IPC$\0", "utf16le")));
    is(await create(connection, "lsarpc"), status.nameNotFound);
    await connection.end();
  });

  test("SMB1's negotiate leads to SMB2's", async () => {
    const connection = await SmbClient.connect({ port });
    const head = Buffer.alloc(35);
    head.write("\u00ffSMBr", "latin1");
    const names = Buffer.from("\u0002NT LM 0.12\0\u0002SMB 2.002\0\u0002SMB 2.???\0", "latin1");
    head.writeUInt16LE(names.length, 33);
    const news = connection.nextNews();
    connection.sendRaw(Buffer.concat([head, names]));
    assert.equal((await news).body.readUInt16LE(4), 0x02ff);
    connection.messageId = 1n;
    is(await connection.negotiate(), status.ok);
    is(await connection.logon(), status.ok);
    await connection.end();
  });

  test("a negotiation that was changed on the way ends the connection", async () => {
    for (const change of [false, true]) {
      const connection = await client({ dialect: 0x0302 });
      const input = Buffer.alloc(26);
      input.writeUInt32LE(change ? 0x3f : 0x7f, 0);
      connection.options.clientGuid.copy(input, 4);
      input.writeUInt16LE(3, 20);
      input.writeUInt16LE(1, 22);
      input.writeUInt16LE(0x0302, 24);
      const begun = ioctl(connection, LAST, 0x00140204, { input, room: 24 });
      if (change) await connection.ended();
      else assert.equal(outputOf(await begun).readUInt16LE(22), 0x0302);
      await connection.end();
    }
  });

  test("a signature that is wrong, or missing where one must be, is refused", async () => {
    const connection = await client({ protection: "signed" });
    const message = connection.message(commands.create, createBody("unsigned"));
    const news = connection.nextNews();
    connection.sendRaw(message);
    is(await news, status.accessDenied);
    const forged = connection.message(commands.create, createBody("forged"));
    forged.writeUInt32LE(8, 16);
    forged.fill(1, 48, 64);
    const next = connection.nextNews();
    connection.sendRaw(forged);
    is(await next, status.accessDenied);
    await connection.end();
  });

  test("what breaks the protocol ends the connection: numbers used twice, half a header, bad seals", async () => {
    const cases: ((connection: SmbClient) => void)[] = [
      (connection) =>
        connection.send([
          connection.message(commands.echo, Buffer.of(4, 0, 0, 0), { messageId: 0n }),
        ]),
      (connection) => connection.sendRaw(Buffer.from("\u00feSMB", "latin1")),
      (connection) => connection.writeBytes(Buffer.of(1, 2, 3, 4)),
      (connection) =>
        connection.sendRaw(Buffer.concat([Buffer.of(0xfd, 83, 77, 66), Buffer.alloc(80)])),
      (connection) => connection.writeBytes(Buffer.of(0, 0xff, 0xff, 0xff)),
    ];
    for (const attempt of cases) {
      const connection = await client();
      attempt(connection);
      await connection.ended();
    }
    await (await client()).end();
  });

  test("a session's handles are its own", async () => {
    const [one, two] = [await client(), await client()];
    const handle = await open(one, "own.txt");
    is(await read(two, handle, 0, 1), status.fileClosed);
    is(await close(two, handle), status.fileClosed);
    const begun = { treeId: one.treeId, sessionId: one.sessionId };
    is(await two.request(commands.read, readBody(handle, 0, 1), begun), status.sessionDeleted);
    is(await close(one, handle), status.ok);
    await one.end();
    await two.end();
  });

  test("requests of a compound share the open, and its failure", async () => {
    const connection = await client();
    const query = standardQuery(LAST);
    const parts = (name: string): [number, Buffer][] => [
      [commands.create, createBody(name, { disposition: name === "there" ? 3 : 1 })],
      [commands.queryInfo, query],
      [commands.close, closeBody(LAST)],
    ];
    const good = await connection.compound(parts("there"));
    assert.deepEqual(
      good.map((answer) => answer.status),
      [0, 0, 0],
    );
    assert.ok(good.every(({ signed }) => signed === true));
    assert.equal(bufferOf(good[1] as Answer).length, 24);
    const bad = await connection.compound(parts("nowhere"));
    assert.deepEqual(
      bad.map((answer) => answer.status),
      [status.nameNotFound, status.nameNotFound, status.nameNotFound],
    );
    await connection.end();
  });

  test("CHANGE_NOTIFY waits, tells what happened below, and can be cancelled", async () => {
    const [watcher, other] = [await client(), await client()];
    await close(other, await open(other, "watched", { options: options.directory }));
    await close(other, await open(other, "watched\\sub", { options: options.directory }));
    const handle = await open(watcher, "watched", {
      access: access.read,
      options: options.directory,
    });
    const begun = await notify(watcher, handle, 0x17, true);
    const file = await open(other, "watched\\sub\\new.txt");
    assert.deepEqual(changesOf(await begun.answer), [[1, "sub\\new.txt"]]);
    assert.equal(begun.interim.length, 1);
    const next = await notify(watcher, handle, 0x17, true);
    await rename(other, file, "watched\\sub\\old.txt");
    assert.deepEqual(changesOf(await next.answer), [
      [4, "sub\\new.txt"],
      [5, "sub\\old.txt"],
    ]);
    await close(other, file);
    const last = await notify(watcher, handle, 0x17, true);
    while (last.interim.length === 0) await new Promise((resolve) => setImmediate(resolve));
    const cancel = watcher.message(commands.cancel, Buffer.of(4, 0, 0, 0), {
      messageId: last.messageId,
    });
    watcher.send([cancel]);
    is(await last.answer, status.cancelled);
    const closing = await notify(watcher, handle, 0x17, true);
    is(await close(watcher, handle), status.ok);
    is(await closing.answer, status.notifyCleanup);
    await watcher.end();
    await other.end();
  });

  // How somebody has the directory open that a file is renamed in, and what becomes of the rename.
  const held: [what: string, mask: number, shares: number, want: number][] = [
    ["to write, sharing all but deletion", access.read | access.write, 3, status.ok],
    ["to write, sharing nothing", access.read | access.write, 0, status.sharingViolation],
    ["to delete, sharing everything", access.delete, sharing.all, status.sharingViolation],
    ["to look at its attributes, sharing nothing", access.readAttributes, 0, status.ok],
  ];
  for (const [what, mask, shares, want] of held) {
    test(`a rename in a directory that is open ${what}`, async () => {
      const [one, two] = [await client(), await client()];
      await close(one, await open(one, "holds", { options: options.directory }));
      const given = { access: mask, share: shares, options: options.directory };
      const directory = await open(one, "holds", given);
      const file = await open(two, "holds\\from.txt");
      is(await rename(two, file, "holds\\to.txt", true), want);
      await close(two, file);
      await close(one, directory);
      await one.end();
      await two.end();
    });
  }

  test("who watches attributes and no names learns of a file that is renamed", async () => {
    const [watcher, other] = [await client(), await client()];
    await close(other, await open(other, "seen", { options: options.directory }));
    const handle = await open(watcher, "seen", { access: access.read, options: options.directory });
    const file = await open(other, "seen\\old.txt");
    const begun = await notify(watcher, handle, 0x4, true);
    await rename(other, file, "seen\\new.txt");
    assert.deepEqual(changesOf(await begun.answer), [[3, "new.txt"]]);
    await watcher.end();
    await other.end();
  });

  test("an open that only synchronizes is one; one that asks for nothing is refused", async () => {
    const connection = await client();
    is(await create(connection, "synchronized", { access: 0x100000 }), status.ok);
    is(await create(connection, "synchronized", { access: 0 }), status.accessDenied);
    await connection.end();
  });

  test("locks: one at a time, in their order, and gone with their open", async () => {
    const [one, two] = [await client(), await client()];
    const [mine, theirs] = [await open(one, "locked"), await open(two, "locked")];
    await write(one, mine, 0, Buffer.alloc(100));
    const at = { start: 0, count: 10 };
    is(await (await lock(one, mine, { ...at, flags: 0x12 })).answer, status.ok);
    is(await (await lock(two, theirs, { ...at, flags: 0x12 })).answer, status.lockNotGranted);
    is(await write(two, theirs, 5, Buffer.of(1)), status.lockConflict);
    is(await read(two, theirs, 5, 1), status.lockConflict);
    is(await read(two, theirs, 10, 1), status.ok);
    const waiting = await lock(two, theirs, { ...at, flags: 0x2 });
    is(await (await lock(one, mine, { ...at, flags: 0x4 })).answer, status.ok);
    is(await waiting.answer, status.ok);
    assert.equal(waiting.interim.length, 1);
    is(await write(one, mine, 0, Buffer.of(1)), status.lockConflict);
    const again = await lock(one, mine, { ...at, flags: 0x2 });
    await two.end();
    is(await again.answer, status.ok);
    await one.end();
  });

  test("a batch oplock is broken for the next one, who waits for the answer", async () => {
    const [one, two] = [await client(), await client()];
    const answer = await create(one, "oplocked", { oplock: 9 });
    assert.equal(answer.body[2], 9);
    const second = await two.begin(commands.create, createBody("oplocked", { oplock: 9 }));
    const news = await one.nextNews();
    assert.equal(news.command, commands.oplockBreak);
    assert.equal(news.body[2], 1, "to level II");
    is(await acknowledge(one, handleOf(answer), 1), status.ok);
    const granted = await second.answer;
    is(granted, status.ok);
    assert.equal(second.interim.length, 1);
    assert.equal(granted.body[2], 1);
    // A write tells the other reader that what it kept is old.
    await write(two, handleOf(granted), 0, Buffer.of(1));
    assert.equal((await one.nextNews()).body[2], 0);
    await one.end();
    await two.end();
  });

  test("a durable open outlives its connection, with its locks", async () => {
    const guid = randomBytes(16);
    const durable: [string, Buffer][] = [["DH2Q", Buffer.concat([Buffer.alloc(16), guid])]];
    const one = await client();
    const answer = await create(one, "durable", { oplock: 9, contexts: durable, share: 0 });
    const handle = handleOf(answer);
    assert.ok(answer.message.includes("DH2Q"));
    await write(one, handle, 0, Buffer.from("kept"));
    is(await (await lock(one, handle, { start: 0, count: 4, flags: 0x12 })).answer, status.ok);
    await one.end();
    const two = await client();
    const back: [string, Buffer][] = [["DH2C", Buffer.concat([handle, guid, Buffer.alloc(4)])]];
    const stranger: [string, Buffer][] = [
      ["DH2C", Buffer.concat([handle, randomBytes(16), Buffer.alloc(4)])],
    ];
    is(await create(two, "durable", { contexts: stranger }), status.nameNotFound);
    const again = await create(two, "durable", { contexts: back });
    is(again, status.ok);
    assert.equal(dataOf(await read(two, handleOf(again), 0, 4)).toString(), "kept");
    const three = await client();
    is(await create(three, "durable", { contexts: back }), status.nameNotFound, "it is taken");
    await two.end();
    // Nobody holds it now: whoever wants the file takes it.
    is(await create(three, "durable"), status.ok);
    await three.end();
  });

  test("a create that is sent again gets the open it made, until that was used", async () => {
    const guid = randomBytes(16);
    const clientGuid = randomBytes(16);
    const contexts: [string, Buffer][] = [["DH2Q", Buffer.concat([Buffer.alloc(16), guid])]];
    const asked = { oplock: 9, contexts, share: 0, disposition: 2 };
    const send = (connection: SmbClient, replayed: boolean, given = {}) =>
      connection.request(commands.create, createBody("replayed", { ...asked, ...given }), {
        replayed,
      });
    const one = await client({ clientGuid });
    const first = await send(one, false);
    is(first, status.ok);
    is(await send(one, false), status.duplicateObjectId);
    const second = await send(one, true);
    is(second, status.ok);
    assert.deepEqual(second.body.subarray(0, 80), first.body.subarray(0, 80));
    assert.ok(second.message.includes("DH2Q"));
    await one.end();
    const stranger = await client();
    const file = { disposition: 1, share: sharing.all };
    const other = await client({ clientGuid });
    const third = await send(other, true);
    is(third, status.ok, "the connection was lost with the answer");
    assert.deepEqual(handleOf(third), handleOf(first));
    is(await write(other, handleOf(third), 0, Buffer.from("a")), status.ok);
    is(await send(other, true), status.collision, "its answer had come");
    is(await close(other, handleOf(third)), status.ok);
    is(await create(stranger, "replayed", file), status.ok);
    await other.end();
    await stranger.end();
  });

  test("a client that goes away while its opens are made leaves none behind", async () => {
    const own = await files.share();
    for (let turn = 0; turn < 4; turn++) {
      const connection = await SmbClient.open({ port }, own);
      for (let n = 0; n < 20; n++) {
        const body = createBody(`left-${turn}-${n}`, { disposition: 2, share: 0 });
        void connection.begin(commands.create, body);
      }
      await connection.end();
    }
    const handles = async () => {
      const headers = { "x-ms-recursive": "true" };
      const query = { comp: "listhandles" };
      const { text } = await files.ask({ method: "GET", path: `/${own}`, query, headers });
      return [...text.matchAll(/<Handle>/g)].length;
    };
    let left = await handles();
    for (let turn = 0; turn < 100 && left > 0; turn++) left = await handles();
    assert.equal(left, 0);
  });

  test("a delete whose handle is closed meanwhile leaves no file that is never deleted", async () => {
    const own = await files.share();
    const names: string[] = [];
    for (let turn = 0; turn < 4; turn++) {
      const connection = await SmbClient.open({ port }, own);
      const handles: Buffer[] = [];
      for (let n = 0; n < 10; n++) {
        names.push(`doomed-${turn}-${n}`);
        handles.push(await open(connection, `doomed-${turn}-${n}`));
      }
      for (const handle of handles) void setDelete(connection, handle, true);
      const closing = handles.map((handle) => close(connection, handle));
      if (turn % 2 === 0) for (const answer of closing) is(await answer, status.ok);
      await connection.end();
    }
    for (const [index, name] of names.entries()) {
      const found = async () =>
        (await files.ask({ method: "HEAD", path: `/${own}/${name}` })).status;
      let last = await found();
      for (let turn = 0; turn < 100 && last === 409; turn++) last = await found();
      const isClosed = Math.floor(index / 10) % 2 === 0;
      assert.ok(last === 404 || (last === 200 && !isClosed), `${name}: ${last}`);
    }
  });

  test("a handle that was taken up again is told with its new session, and since when", async () => {
    const guid = randomBytes(16);
    const contexts: [string, Buffer][] = [["DH2Q", Buffer.concat([Buffer.alloc(16), guid])]];
    const one = await client();
    const handle = await open(one, "resumed", { oplock: 9, contexts });
    const told = async () => {
      const query = { comp: "listhandles" };
      const { text } = await files.ask({ method: "GET", path: `/${share}/resumed`, query });
      const of = (name: string) => new RegExp(`<${name}>([^<]*)<`).exec(text)?.[1];
      return { session: of("SessionId"), since: of("LastReconnectTime"), handle: of("HandleId") };
    };
    const before = await told();
    assert.deepEqual([before.session, before.since], [String(one.sessionId), undefined]);
    await one.end();
    const two = await client();
    const back: [string, Buffer][] = [["DH2C", Buffer.concat([handle, guid, Buffer.alloc(4)])]];
    is(await create(two, "resumed", { contexts: back }), status.ok);
    const now = await told();
    assert.deepEqual([now.session, now.handle], [String(two.sessionId), before.handle]);
    assert.ok(!Number.isNaN(Date.parse(now.since ?? "")));
    await two.end();
  });

  test("copies are made by the server", async () => {
    const connection = await client();
    const [from, to] = [await open(connection, "copy-from"), await open(connection, "copy-to")];
    const bytes = randomBytes(200_000);
    await write(connection, from, 0, bytes);
    const key = outputOf(await ioctl(connection, from, 0x00140078)).subarray(0, 24);
    const chunk = Buffer.alloc(24);
    chunk.writeBigUInt64LE(1000n, 8);
    chunk.writeUInt32LE(bytes.length, 16);
    const input = Buffer.concat([key, Buffer.of(1, 0, 0, 0, 0, 0, 0, 0), chunk]);
    const answer = await ioctl(connection, to, 0x001440f2, { input });
    is(answer, status.ok);
    assert.equal(outputOf(answer).readUInt32LE(8), bytes.length);
    const found = dataOf(await read(connection, to, 1000, bytes.length));
    assert.ok(found.equals(bytes));
    await connection.end();
  });

  test("a copy that the quota ends tells how far it came", async () => {
    const small = await files.share({ "x-ms-share-quota": "1" });
    await files.ask(createFile(`/${small}/filler`, 1024 ** 3 - 500_000));
    const connection = await SmbClient.open({ port }, small);
    const [from, to] = [await open(connection, "from"), await open(connection, "to")];
    const size = 200_000;
    await write(connection, from, 0, Buffer.alloc(size, 1));
    const key = outputOf(await ioctl(connection, from, 0x00140078)).subarray(0, 24);
    const chunks = [0, size].map((target) => {
      const chunk = Buffer.alloc(24);
      chunk.writeBigUInt64LE(BigInt(target), 8);
      chunk.writeUInt32LE(size, 16);
      return chunk;
    });
    const input = Buffer.concat([key, Buffer.of(2, 0, 0, 0, 0, 0, 0, 0), ...chunks]);
    const answer = await ioctl(connection, to, 0x001440f2, { input });
    is(answer, status.diskFull);
    const told = outputOf(answer);
    assert.deepEqual([told.readUInt32LE(0), told.readUInt32LE(8)], [1, size]);
    await connection.end();
  });

  test("snapshots of the share are previous versions", async () => {
    const connection = await client();
    const handle = await open(connection, "versioned");
    await write(connection, handle, 0, Buffer.from("before"));
    await flush(connection, handle);
    const taken = await files.service.getShareClient(share).createSnapshot();
    await write(connection, handle, 0, Buffer.from("after!"));
    const root = await open(connection, "", { access: access.read, disposition: 1, options: 1 });
    const listed = outputOf(await ioctl(connection, root, 0x00144064)).toString("utf16le");
    const name = /@GMT-[\d.]+-[\d.]+/.exec(listed)?.[0] ?? "";
    const at = String(taken.snapshot);
    assert.equal(
      name,
      `@GMT-${at.slice(0, 10).replaceAll("-", ".")}-${at.slice(11, 19).replaceAll(":", ".")}`,
    );
    const time = Buffer.alloc(8);
    const seconds = BigInt(Math.floor(Date.parse(at) / 1000)) + 11_644_473_600n;
    time.writeBigUInt64LE(seconds * 10_000_000n);
    const old = { access: access.read, disposition: 1, contexts: [["TWrp", time]] as const };
    const before = await open(connection, "versioned", old);
    assert.equal(dataOf(await read(connection, before, 0, 6)).toString(), "before");
    assert.equal(dataOf(await read(connection, handle, 0, 6)).toString(), "after!");
    is(
      await create(connection, "versioned", { ...old, access: access.write }),
      status.accessDenied,
    );
    // What is locked or watched in the share is so there, and the other way round.
    const everything = { start: 0, count: 6, flags: 0x12 };
    is(await (await lock(connection, handle, everything)).answer, status.ok);
    is(await (await lock(connection, before, everything)).answer, status.ok);
    is(await write(connection, handle, 0, Buffer.from("again!")), status.ok);
    const watched = await open(connection, "", { ...old, options: 1 });
    const watching = await notify(connection, watched, 0x1, false);
    await close(connection, await open(connection, "live"));
    await close(connection, watched);
    is(await watching.answer, status.notifyCleanup);
    await connection.end();
  });

  test("a deleted share is gone for those who are connected, too", async () => {
    const name = await files.share();
    const connection = await SmbClient.open({ port }, name);
    const handle = await open(connection, "early");
    await write(connection, handle, 0, Buffer.from("kept for a while"));
    const root = await open(connection, "", { access: access.read, disposition: 1, options: 1 });
    const { snapshot } = await files.service.getShareClient(name).createSnapshot();
    const time = Buffer.alloc(8);
    const seconds = Math.floor(Date.parse(String(snapshot)) / 1000);
    time.writeBigUInt64LE((BigInt(seconds) + 11_644_473_600n) * 10_000_000n);
    const old = { access: access.read, disposition: 1, contexts: [["TWrp", time]] as const };
    const past = await open(connection, "early", old);
    is(await read(connection, past, 0, 4), status.ok);
    await files.service.getShareClient(name).delete({ deleteSnapshots: "include" });
    is(await create(connection, "late"), status.networkNameDeleted);
    is(await create(connection, "early", { disposition: 1 }), status.networkNameDeleted);
    is(await read(connection, handle, 0, 4), status.fileClosed);
    is(await read(connection, past, 0, 4), status.networkNameDeleted);
    is(await queryInfo(connection, root, { infoClass: 5 }), status.fileClosed);
    is(await connection.treeConnect(name), status.badNetworkName);
    await connection.end();
  });

  test("the share's quota is the size of the disk", async () => {
    const connection = await client();
    const root = await open(connection, "", { access: access.readAttributes, disposition: 1 });
    const size = bufferOf(await queryInfo(connection, root, { type: 2, infoClass: 3, room: 24 }));
    const unit = size.readUInt32LE(16) * size.readUInt32LE(20);
    assert.equal(Number(size.readBigUInt64LE(0)) * unit, 5120 * 1024 ** 3);
    await connection.end();
  });

  test("sharing modes stand against each other in both directions", async () => {
    const [one, two] = [await client(), await client()];
    const rows: [first: [number, number], second: [number, number], want: number][] = [
      [[access.read, sharing.write], [access.write, sharing.read], status.ok],
      [[access.write, sharing.read], [access.write, sharing.write], status.sharingViolation],
      [[access.write, sharing.write], [access.write, sharing.read], status.sharingViolation],
      [[access.read, 0], [access.readAttributes, 0], status.ok],
      [[access.read, sharing.read], [access.delete, sharing.all], status.sharingViolation],
    ];
    for (const [[a, b], [c, d], want] of rows) {
      const first = await open(one, "shared", { access: a, share: b });
      const second = await create(two, "shared", { access: c, share: d });
      is(second, want, `${a} ${b} ${c} ${d}`);
      if (second.status === 0) await close(two, handleOf(second));
      await close(one, first);
    }
    await one.end();
    await two.end();
  });

  test("what was closed is there after a kill", async () => {
    const own = await startFiles({ args: ["--smbPort", "any"] });
    const name = await own.share();
    const connection = await SmbClient.open({ port: smbPortOf(own.server.output()) }, name);
    for (let i = 0; i < 20; i++) {
      const handle = await open(connection, `kept-${i}`, { disposition: disposition.create });
      await write(connection, handle, 0, Buffer.alloc(i * 10_000, i));
      is(await close(connection, handle), status.ok);
    }
    await own.server.kill();
    await connection.end();
    const again = await startFiles({
      directory: own.server.directory,
      args: ["--smbPort", "any"],
    });
    const next = await SmbClient.open({ port: smbPortOf(again.server.output()) }, name);
    for (let i = 0; i < 20; i++) {
      const handle = await open(next, `kept-${i}`, { disposition: disposition.open });
      const found = await read(next, handle, 0, 1_000_000);
      const size = i * 10_000;
      if (size === 0) is(found, status.endOfFile);
      else assert.ok(dataOf(found).equals(Buffer.alloc(size, i)), `file ${i}`);
    }
    await next.end();
    await again.stop();
  });
});

suite("SMB as an account wants it spoken", () => {
  let files: FileServer;
  let share = "";
  before(async () => {
    files = await startFiles({ args: ["--smbPort", "any"] });
    share = await files.share();
  });
  after(() => files.stop());

  const set = async (smb: string) => {
    const body = `<StorageServiceProperties><ProtocolSettings><SMB>${smb}</SMB></ProtocolSettings></StorageServiceProperties>`;
    const query = { restype: "service", comp: "properties" };
    assert.equal((await files.ask({ method: "PUT", path: "/", query, body })).status, 202);
  };
  const logon = async (dialect: 0x0210 | 0x0300 | 0x0311) => {
    const port = smbPortOf(files.server.output());
    const connection = await SmbClient.connect({ port, dialect });
    await connection.negotiate();
    const answer = await connection.logon();
    await connection.end();
    return answer;
  };

  test("versions that are not in its list are refused at the logon", async () => {
    await set("<Versions>SMB3.1.1</Versions>");
    is(await logon(0x0210), status.accessDenied);
    is(await logon(0x0300), status.accessDenied);
    is(await logon(0x0311), status.ok);
    await set("");
    is(await logon(0x0210), status.ok);
  });

  test("encryption in transit that it requires is required of all", async () => {
    await set("<EncryptionInTransit><Required>true</Required></EncryptionInTransit>");
    is(await logon(0x0210), status.accessDenied);
    const port = smbPortOf(files.server.output());
    const sealed = await SmbClient.open({ port, dialect: 0x0311, protection: "sealed" }, share);
    is(await create(sealed, "sealed"), status.ok);
    await sealed.end();
    const plain = await SmbClient.connect({ port, dialect: 0x0311, protection: "signed" });
    await plain.negotiate();
    is(await plain.logon(), status.ok);
    is(await plain.treeConnect(share), status.accessDenied);
    await plain.end();
  });
});

suite("SMB with encryption required", () => {
  let files: FileServer;
  let share = "";
  before(async () => {
    files = await startFiles({ args: ["--smbPort", "any", "--smbEncryption", "required"] });
    share = await files.share();
  });
  after(() => files.stop());

  test("clients that cannot encrypt are refused at their logon, others must", async () => {
    const port = smbPortOf(files.server.output());
    for (const dialect of [0x0202, 0x0210] as const) {
      const connection = await SmbClient.connect({ port, dialect });
      await connection.negotiate();
      is(await connection.logon(), status.accessDenied);
      await connection.end();
    }
    for (const dialect of [0x0300, 0x0302, 0x0311] as const) {
      const sealed = await SmbClient.open({ port, dialect, protection: "sealed" }, share);
      is(await create(sealed, "sealed"), status.ok);
      await sealed.end();
      const plain = await SmbClient.connect({ port, dialect, protection: "signed" });
      await plain.negotiate();
      const logon = await plain.logon();
      is(logon, status.ok);
      assert.equal(logon.body.readUInt16LE(2) & 4, 4, "it is told to encrypt");
      is(await plain.treeConnect(share), status.accessDenied);
      await plain.end();
    }
  });
});
