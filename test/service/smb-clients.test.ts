import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { memoryEngine } from "../../src/engine/memory.ts";
import { type Answer, commands, SmbClient, status } from "../acceptance/smb-client.ts";
import {
  access,
  bufferOf,
  type CreateOptions,
  close,
  closeBody,
  create,
  createBody,
  dataOf,
  disposition,
  type Handle,
  handleOf,
  ioctl,
  ioctlBody,
  LAST,
  list,
  lock,
  open,
  options,
  queryInfo,
  read,
  rename,
  renameBody,
  setAttributes,
  setDelete,
  setInfo,
  writeBody,
} from "../acceptance/smb-files.ts";
import { clock, is, type SmbWorld, smbWorld } from "./smb-world.ts";

const NAME_INVALID = 0xc0000033;
const PRIVILEGE_NOT_HELD = 0xc0000061;
const NOT_SUPPORTED = 0xc00000bb;
const FILE_NOT_AVAILABLE = 0xc0000467;
const LEASE = 0xff;
const READ_HANDLE = 3;
const RESUME_KEY = 0x00140078;

/** What Windows, macOS and Linux are known to send, beyond what Samba's tests ask for. */
suite("SMB as clients of everyday speak it", () => {
  const engine = memoryEngine({ clock });
  let world: SmbWorld;
  const other = () => SmbClient.open({ port: world.client.options.port }, "share");
  const made = async (name: string, given?: CreateOptions): Promise<string> => {
    await close(world.client, await open(world.client, name, given));
    return name;
  };
  const isThere = async (name: string): Promise<boolean> => {
    const asked = { access: access.readAttributes, disposition: disposition.open };
    const answer = await create(world.client, name, asked);
    if (answer.status === 0) await close(world.client, handleOf(answer));
    return answer.status === 0;
  };
  const leased = (state: number): CreateOptions => {
    const data = Buffer.alloc(32);
    randomBytes(16).copy(data);
    data.writeUInt32LE(state, 16);
    return { access: access.read, oplock: LEASE, contexts: [["RqLs", data]] };
  };
  const moved = (name: string, to: string) =>
    world.client.compound([
      [commands.create, createBody(name, { access: access.delete, disposition: disposition.open })],
      [commands.setInfo, renameBody(LAST, to)],
      [commands.close, closeBody(LAST)],
    ]);

  before(async () => {
    world = await smbWorld(engine);
  });
  after(() => world.end());

  test("Linux renames in one message what another client keeps open for later", async () => {
    await made("kept");
    const holder = await other();
    const handle = await open(holder, "kept", leased(READ_HANDLE));
    const answers = moved("kept", "renamed");
    const news = await holder.nextNews();
    assert.deepEqual([news.body.readUInt32LE(24), news.body.readUInt32LE(28)], [READ_HANDLE, 1]);
    is(await close(holder, handle), status.ok);
    for (const answer of await answers) {
      is(answer, status.ok);
      assert.equal(answer.flags & 2, 0, "the answers come together, and none of them later");
    }
    assert.deepEqual([await isThere("kept"), await isThere("renamed")], [false, true]);
    await holder.end();
  });

  test("a directory is renamed once clients close what they keep open below for later", async () => {
    await made("above", { options: options.directory });
    await made("above\\below", { options: options.directory });
    await made("above\\below\\file");
    const holder = await other();
    const handle = await open(holder, "above\\below\\file", leased(READ_HANDLE));
    const directory = await open(world.client, "above", { options: options.directory });
    const answer = rename(world.client, directory, "above2");
    await holder.nextNews();
    is(await close(holder, handle), status.ok);
    is(await answer, status.ok);
    await holder.end();
    assert.equal(await isThere("above2\\below\\file"), true);
    const used = await open(world.client, "above2\\below\\file");
    is(await rename(world.client, directory, "above3"), status.accessDenied);
    is(await close(world.client, used), status.ok);
    is(await rename(world.client, directory, "above3"), status.ok);
    is(await close(world.client, directory), status.ok);
  });

  test("a directory takes the place of no file", async () => {
    await made("in place");
    const directory = await open(world.client, "to place", { options: options.directory });
    is(await rename(world.client, directory, "in place", true), status.accessDenied);
    is(await close(world.client, directory), status.ok);
    assert.equal(await isThere("in place"), true);
  });

  const flagged = (handle: Handle, flags: number): Promise<Answer> => {
    const data = Buffer.alloc(4);
    data.writeUInt32LE(flags);
    return setInfo(world.client, handle, 64, data);
  };
  const flags: [what: string, flags: number, want: number, left: boolean][] = [
    ["nothing", 0, status.ok, true],
    ["delete", 0x1, status.ok, false],
    ["delete unless it is a program that runs", 0x5, status.ok, false],
    ["delete though it is read-only", 0x11, status.ok, false],
    ["take the name away at once", 0x3, NOT_SUPPORTED, true],
    ["delete as Windows asks for first", 0x13, NOT_SUPPORTED, true],
    ["delete on close what was not opened so", 0x9, NOT_SUPPORTED, true],
    ["what nobody knows", 0x21, status.invalidParameter, true],
  ];
  for (const [what, bits, want, left] of flags) {
    test(`FileDispositionInformationEx: ${what}`, async () => {
      const name = await made(`flags ${bits}`);
      const handle = await open(world.client, name);
      is(await flagged(handle, bits), want);
      is(await close(world.client, handle), status.ok);
      assert.equal(await isThere(name), left);
    });
  }

  test("FileDispositionInformationEx: a read-only file goes only if that is said", async () => {
    const handle = await open(world.client, "only read");
    is(await setAttributes(world.client, handle, 0x1), status.ok);
    is(await flagged(handle, 0x1), status.cannotDelete);
    is(await flagged(handle, 0x11), status.ok);
    is(await close(world.client, handle), status.ok);
    assert.equal(await isThere("only read"), false);
  });

  test("FileDispositionInformationEx: an open that deletes on close may be told not to", async () => {
    const handle = await open(world.client, "not so", { options: options.deleteOnClose });
    is(await flagged(handle, 0x8), status.ok);
    is(await close(world.client, handle), status.ok);
    assert.equal(await isThere("not so"), true);
  });

  test("every file has a number that is not 0, the root too, and tells it alike everywhere", async () => {
    const root = await create(world.client, "", {
      options: options.directory,
      contexts: [["QFid", Buffer.alloc(0)]],
    });
    const handle = handleOf(root);
    const at = async (infoClass: number, place: number) =>
      bufferOf(await queryInfo(world.client, handle, { infoClass })).readBigUInt64LE(place);
    const context = root.message.subarray(root.body.readUInt32LE(80));
    const numbers = [
      await at(6, 0),
      await at(18, 64),
      await at(59, 8),
      context.readBigUInt64LE(24),
    ];
    assert.deepEqual(new Set(numbers).size, 1);
    assert.notEqual(numbers[0], 0n);
    assert.equal(await at(59, 0), context.readBigUInt64LE(32), "the volume's");
    is(await close(world.client, handle), status.ok);
  });

  test("the older and the newer lists of a directory tell the same names and numbers", async () => {
    await made("listed", { options: options.directory });
    await made("listed\\Äpfel 🍎.txt");
    const told = async (infoClass: number, number: number, name: number) => {
      const handle = await open(world.client, "listed", { options: options.directory });
      const body = Buffer.alloc(34);
      body.writeUInt16LE(33, 0);
      body[2] = infoClass;
      handle.copy(body, 8);
      body.writeUInt16LE(64 + 32, 24);
      body.writeUInt16LE(2, 26);
      body.writeUInt32LE(4096, 28);
      body.write("*", 32, "utf16le");
      const buffer = bufferOf(await world.client.request(commands.queryDirectory, body));
      is(await close(world.client, handle), status.ok);
      const found: unknown[] = [];
      for (let next = -1, at = 0; next !== 0; at += next) {
        next = buffer.readUInt32LE(at);
        const end = at + name + buffer.readUInt32LE(at + 60);
        found.push([
          buffer.toString("utf16le", at + name, end),
          buffer.readBigUInt64LE(at + number),
        ]);
      }
      return found;
    };
    const both = await told(0x25, 96, 104);
    assert.equal(both.length, 3);
    assert.deepEqual(await told(0x26, 72, 80), both);
    assert.deepEqual(await told(0x3c, 72, 88), both);
    assert.deepEqual(await told(0x3f, 72, 114), both);
  });

  test("cmd's *. lists what has no dot", async () => {
    await made("dots", { options: options.directory });
    for (const name of ["plain", "one.dot", "two.dots.txt"]) await made(`dots\\${name}`);
    assert.deepEqual(await list(world.client, "dots", "<"), ["plain"]);
    assert.deepEqual(await list(world.client, "dots", "<.txt"), ["two.dots.txt"]);
    assert.deepEqual(await list(world.client, "dots", '<"*'), ["one.dot", "plain", "two.dots.txt"]);
  });

  const attributes: [asked: number, kind: number, want: number | undefined][] = [
    [0x2, 0, 0x22],
    [0x107, 0, 0x127],
    [0x1000, 0, 0x1020],
    [0x4000, 0, 0x20],
    [0x12, options.directory, 0x12],
    [0x110, options.directory, undefined],
  ];
  for (const [asked, kind, want] of attributes) {
    const what = kind === options.directory ? "directory" : "file";
    test(`a new ${what} that is to have the attributes ${asked.toString(16)}`, async () => {
      const given = { attributes: asked, options: kind };
      const answer = await create(world.client, `new ${asked} ${kind}`, given);
      if (want === undefined) is(answer, status.invalidParameter);
      else assert.equal(answer.body.readUInt32LE(56).toString(16), want.toString(16));
    });
  }

  test("a client that sets one attribute more loses none that REST knows", async () => {
    const handle = await open(world.client, "attributes");
    for (const bits of [0x20020, 0x20021, 0x3107]) {
      is(await setAttributes(world.client, handle, bits), status.ok);
      const told = bufferOf(await queryInfo(world.client, handle, { infoClass: 35 }));
      assert.equal(told.readUInt32LE().toString(16), bits.toString(16));
    }
    is(await close(world.client, handle), status.ok);
  });

  const contexts: [name: string, size: number, want: number][] = [
    ["AAPL", 24, status.ok],
    ["MxAc", 0, status.ok],
    ["MxAc", 8, status.ok],
    ["MxAc", 4, status.invalidParameter],
    ["DHnQ", 16, status.ok],
    ["DHnQ", 4, status.invalidParameter],
    ["AlSi", 4, status.invalidParameter],
  ];
  for (const [name, size, want] of contexts) {
    test(`the context ${name} of ${size} bytes`, async () => {
      const given: CreateOptions = { contexts: [[name, Buffer.alloc(size)]] };
      is(await create(world.client, "with context", given), want);
    });
  }

  test("backup programs are told that nobody reads what is audited", async () => {
    const asked = { access: access.all | 0x01000000 };
    is(await create(world.client, "audited", asked), PRIVILEGE_NOT_HELD);
  });

  test("what a new file is given of its descriptor is its own, the rest is what the directory passes on", async () => {
    const everybody = Buffer.from("010100000000000100000000", "hex");
    const entry = Buffer.from(`00001400a9001200${everybody.toString("hex")}`, "hex");
    const list = Buffer.concat([Buffer.from("02001c0001000000", "hex"), entry]);
    const head = (control: number, owner: number, access: number) => {
      const bytes = Buffer.alloc(20);
      bytes[0] = 1;
      bytes.writeUInt16LE(control, 2);
      bytes.writeUInt32LE(owner, 4);
      bytes.writeUInt32LE(access, 16);
      return bytes;
    };
    const told = async (name: string, security: Buffer | undefined, parts: number) => {
      const given: CreateOptions = security === undefined ? {} : { contexts: [["SecD", security]] };
      const handle = await open(world.client, name, given);
      const answer = await queryInfo(world.client, handle, { type: 3, infoClass: 0, parts });
      is(answer, status.ok);
      is(await close(world.client, handle), status.ok);
      return bufferOf(answer).subarray(20);
    };
    const passedOn = await told("given nothing", undefined, 4);
    const owned = Buffer.concat([head(0x8000, 20, 0), everybody]);
    assert.deepEqual(await told("given an owner", owned, 1), everybody);
    const creators = await told("given an owner too", owned, 4);
    // The entry for whoever makes something is now for its owner, and is shorter by what that one's name is.
    assert.equal(creators.readUInt16LE(4), passedOn.readUInt16LE(4));
    assert.deepEqual(creators.subarray(8, 28), passedOn.subarray(8, 28));
    assert.ok(creators.includes(everybody) && !passedOn.includes(everybody));
    const listed = Buffer.concat([head(0x8004, 0, 20), list]);
    assert.deepEqual(await told("given a list", listed, 4), list);
    const name = "given nonsense";
    const nonsense: CreateOptions = { contexts: [["SecD", Buffer.alloc(10)]] };
    is(await create(world.client, name, nonsense), 0xc0000079);
    assert.equal(await isThere(name), false);
  });

  test("a directory's name may end with a backslash, a file's may not", async () => {
    await made("ended", { options: options.directory });
    const asked = { disposition: disposition.open };
    const directory = { ...asked, options: options.directory };
    is(await create(world.client, "ended\\", directory), status.ok);
    is(await create(world.client, "ended\\\\", directory), NAME_INVALID);
    is(
      await create(world.client, "ended\\file\\", { disposition: disposition.openIf }),
      NAME_INVALID,
    );
    is(await create(world.client, "\\", directory), status.invalidParameter);
  });

  test("a control names its file to the related requests behind it, by both halves of its number", async () => {
    const handle = await open(world.client, "controlled");
    const [control, closing] = await world.client.compound([
      [commands.ioctl, ioctlBody(handle, RESUME_KEY)],
      [commands.close, closeBody(LAST)],
    ]);
    is(control, status.ok);
    is(closing, status.ok);
    is(await close(world.client, handle), status.fileClosed);
    const again = await open(world.client, "controlled");
    const half = Buffer.from(again);
    half.writeBigUInt64LE(77n);
    is(await ioctl(world.client, half, RESUME_KEY), status.fileClosed);
    is(await close(world.client, again), status.ok);
  });

  test("what was sent before a client lost its connection changes nothing after it came back", async () => {
    const handle = await open(world.client, "sent late");
    const sent = (channelSequence: number) =>
      world.client.request(commands.write, writeBody(handle, 0, Buffer.of(channelSequence)), {
        channelSequence,
      });
    is(await sent(0), status.ok);
    is(await sent(1), status.ok);
    is(await sent(0), FILE_NOT_AVAILABLE);
    is(await sent(1), status.ok);
    assert.deepEqual(dataOf(await read(world.client, handle, 0, 1)), Buffer.of(1));
    is(await close(world.client, handle), status.ok);
  });

  for (const dialect of [0x0311, 0x0302] as const) {
    const want = dialect === 0x0311 ? status.accessDenied : status.ok;
    test(`a share is connected to without a signature by ${dialect.toString(16)}`, async () => {
      const { port } = world.client.options;
      const client = await SmbClient.connect({ port, dialect, protection: "plain" });
      await client.negotiate();
      is(await client.logon(), status.ok);
      client.provesLogon = false;
      is(await client.treeConnect("share"), want);
      client.provesLogon = true;
      is(await client.treeConnect("share"), status.ok);
      await client.end();
    });
  }

  test("nothing is locked in a directory, and no room below zero is asked for", async () => {
    const directory = await open(world.client, "no locks", { options: options.directory });
    const locking = await lock(world.client, directory, { start: 0, count: 1, flags: 0x12 });
    is(await locking.answer, status.invalidParameter);
    is(await setDelete(world.client, directory, true), status.ok);
    is(await close(world.client, directory), status.ok);
    const file = await open(world.client, "no room");
    is(await setInfo(world.client, file, 19, Buffer.alloc(8, 0xff)), status.invalidParameter);
    is(await close(world.client, file), status.ok);
  });
});
