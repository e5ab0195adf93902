import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { memoryEngine } from "../../src/engine/memory.ts";
import { nodes } from "../../src/store/keys.ts";
import { commands, SmbClient, status } from "../acceptance/smb-client.ts";
import {
  bufferOf,
  close,
  closeBody,
  create,
  createBody,
  dataOf,
  disposition,
  handleOf,
  LAST,
  lock,
  open,
  options,
  queryInfo,
  read,
  rename,
  setDelete,
  setInfo,
  standardQuery,
  write,
} from "../acceptance/smb-files.ts";
import { clock, is, SHARE, type SmbWorld, smbWorld } from "./smb-world.ts";

const SHARED = 0x1;
const EXCLUSIVE = 0x2;
const UNLOCK = 0x4;
const AT_ONCE = 0x10;
const BATCH = 9;

const LEASE = 0xff;
const RWH = 7;
const FROZEN = 0xffff_ffff_ffff_ffffn;
const DISK_FULL = 0xc000007f;
const QUOTA_EXCEEDED = 0xc0000044;
const RANGE_NOT_LOCKED = 0xc000007e;

suite("SMB clients that want the same", () => {
  const engine = memoryEngine({ clock });
  let world: SmbWorld;
  const client = () => SmbClient.open({ port: world.client.options.port }, "share");
  const durable = (guid: Buffer): [string, Buffer][] => [
    ["DH2Q", Buffer.concat([Buffer.alloc(16), guid])],
  ];
  const back = (handle: Buffer, guid: Buffer): [string, Buffer][] => [
    ["DH2C", Buffer.concat([handle, guid, Buffer.alloc(4)])],
  ];

  before(async () => {
    world = await smbWorld(engine);
  });
  after(() => world.end());

  test("a file is open 2,000 times at most", async () => {
    const handle = await open(world.client, "popular");
    const [first] = world.opens.inShare(SHARE);
    assert.ok(first);
    const others = Array.from({ length: 1998 }, () => Object.create(first) as typeof first);
    for (const other of others) world.opens.enter(other);
    const last = await open(world.client, "popular", { disposition: 1 });
    is(await create(world.client, "popular", { disposition: 1 }), QUOTA_EXCEEDED);
    await close(world.client, last);
    is(await create(world.client, "popular", { disposition: 1 }), status.ok);
    for (const other of others) world.opens.leave(other);
    await close(world.client, handle);
  });

  test("a lock that was waited for is had once, though several handles go at the same time", async () => {
    const [one, two] = [await client(), await client()];
    const mine = await open(one, "once");
    await open(one, "once"); // goes together with the other one
    const theirs = await open(two, "once");
    const at = { start: 0, count: 10 };
    is(await (await lock(one, mine, { ...at, flags: EXCLUSIVE | AT_ONCE })).answer, status.ok);
    const waiting = await lock(two, theirs, { ...at, flags: SHARED });
    await one.end();
    is(await waiting.answer, status.ok);
    is(await (await lock(two, theirs, { ...at, flags: UNLOCK })).answer, status.ok);
    const third = await client();
    const last = await open(third, "once");
    is(await (await lock(third, last, { ...at, flags: EXCLUSIVE | AT_ONCE })).answer, status.ok);
    await third.end();
    await two.end();
  });

  test("a lock that was waited for is not had after the connection is gone", async () => {
    const clientGuid = randomBytes(16);
    const { port } = world.client.options;
    const lease = Buffer.concat([randomBytes(16), Buffer.of(RWH), Buffer.alloc(15)]);
    const guid = randomBytes(16);
    const asked = { oplock: LEASE, contexts: [["RqLs", lease]] as [string, Buffer][] };
    const one = await SmbClient.open({ port, clientGuid }, "share");
    const contexts = [...asked.contexts, ...durable(guid)];
    const kept = await open(one, "kept", { ...asked, contexts });
    const other = await open(one, "kept", asked);
    const at = { start: 0, count: 10 };
    is(await (await lock(one, other, { ...at, flags: EXCLUSIVE | AT_ONCE })).answer, status.ok);
    await lock(one, kept, { ...at, flags: EXCLUSIVE });
    await one.end();
    const two = await SmbClient.open({ port, clientGuid }, "share");
    const contextsBack = [...asked.contexts, ...back(kept, guid)];
    const again = await create(two, "kept", { ...asked, contexts: contextsBack });
    is(again, status.ok);
    const unlocked = await lock(two, handleOf(again), { ...at, flags: UNLOCK });
    is(await unlocked.answer, RANGE_NOT_LOCKED);
    await two.end();
  });

  test("a file whose client is gone, and only waits for it, may be renamed over", async () => {
    const one = await client();
    await open(one, "target", { oplock: BATCH, contexts: durable(randomBytes(16)) });
    await one.end();
    const two = await client();
    const source = await open(two, "source");
    is(await rename(two, source, "target", true), status.ok);
    await two.end();
  });

  test("who may only append changes nothing that is there", async () => {
    const one = await client();
    const all = await open(one, "log");
    await write(one, all, 0, Buffer.from("first"));
    const log = await open(one, "log", { access: 0x100004 });
    is(await write(one, log, 0, Buffer.from("FIRST")), status.accessDenied);
    is(await write(one, log, 5, Buffer.from("second")), status.ok);
    assert.equal(dataOf(await read(one, all, 0, 20)).toString(), "firstsecond");
    await one.end();
  });

  test("a control of a compound fails as its open did", async () => {
    const one = await client();
    const control = Buffer.alloc(56);
    control.writeUInt16LE(57, 0);
    control.writeUInt32LE(0x00140078, 4);
    LAST.copy(control, 8);
    control.writeUInt32LE(32, 44);
    control.writeUInt32LE(1, 48);
    const answers = await one.compound([
      [commands.create, createBody("nowhere", { disposition: disposition.open })],
      [commands.ioctl, control],
      [commands.close, closeBody(LAST)],
    ]);
    assert.deepEqual(
      answers.map((answer) => answer.status),
      [status.nameNotFound, status.nameNotFound, status.nameNotFound],
    );
    await one.end();
  });

  test("a directory with something in it does not wait to be deleted", async () => {
    const [one, two] = [await client(), await client()];
    const folder = { options: options.directory };
    const watched = await open(one, "full", folder);
    await open(one, "full\\file");
    const doomed = await open(two, "full", { options: options.directory | options.deleteOnClose });
    is(await close(two, doomed), status.ok);
    is(await create(two, "full", folder), status.ok);
    is(await create(two, "full\\more"), status.ok);
    await close(one, watched);
    await one.end();
    await two.end();
  });

  test("an empty directory waits to be deleted until its last handle is closed", async () => {
    const [one, two] = [await client(), await client()];
    const folder = { options: options.directory };
    const watched = await open(one, "empty", folder);
    const doomed = await open(two, "empty", { options: options.directory | options.deleteOnClose });
    is(await close(two, doomed), status.ok);
    is(await create(two, "empty", folder), status.deletePending);
    is(await create(two, "empty\\file"), status.deletePending);
    is(await close(one, watched), status.ok);
    is(await create(two, "empty", { disposition: disposition.open }), status.nameNotFound);
    await one.end();
    await two.end();
  });

  test("a compound whose second open is a good one goes on with that", async () => {
    const one = await client();
    const query = standardQuery(LAST);
    const answers = await one.compound([
      [commands.create, createBody("nowhere", { disposition: disposition.open })],
      [commands.create, createBody("somewhere")],
      [commands.queryInfo, query],
      [commands.close, closeBody(LAST)],
    ]);
    assert.deepEqual(
      answers.map((answer) => answer.status),
      [status.nameNotFound, 0, 0, 0],
    );
    await one.end();
  });

  test("times that an open keeps are kept from all it does, unless it asked for what cannot be", async () => {
    const one = await client();
    const handle = await open(one, "times");
    const times = async () => {
      const basic = bufferOf(await queryInfo(one, handle, { infoClass: 4 }));
      return { written: basic.readBigUInt64LE(16), changed: basic.readBigUInt64LE(24) };
    };
    const setTimes = (written: bigint, changed: bigint) => {
      const data = Buffer.alloc(40);
      data.writeBigUInt64LE(written, 16);
      data.writeBigUInt64LE(changed, 24);
      return setInfo(one, handle, 4, data);
    };
    is(await setTimes(FROZEN, FROZEN - 10n), status.invalidParameter);
    const first = await times();
    await write(one, handle, 0, Buffer.from("data"));
    const second = await times();
    assert.notEqual(second.written, first.written);
    is(await setTimes(FROZEN, FROZEN), status.ok);
    await write(one, handle, 0, Buffer.from("more"));
    const security = Buffer.alloc(20);
    security[0] = 1;
    security.writeUInt16LE(0x8004, 2); // a list that says nothing: all may do all
    const asked = Buffer.alloc(32);
    asked.writeUInt16LE(33, 0);
    asked[2] = 3;
    asked.writeUInt32LE(security.length, 4);
    asked.writeUInt16LE(64 + 32, 8);
    asked.writeUInt32LE(4, 12);
    handle.copy(asked, 16);
    is(await one.request(commands.setInfo, Buffer.concat([asked, security])), status.ok);
    assert.deepEqual(await times(), second);
    await one.end();
  });

  test("room that no file can have is refused, and nothing is made", async () => {
    const one = await client();
    const contexts: [string, Buffer][] = [["AlSi", Buffer.alloc(8, 0xff)]];
    is(await create(one, "huge", { contexts }), DISK_FULL);
    is(await create(one, "huge", { disposition: disposition.open }), status.nameNotFound);
    await one.end();
  });

  test("a file that is being copied into is not renamed over", async () => {
    const one = await client();
    await close(one, await open(one, "copied"));
    await engine.write(async (tx) => {
      for (const { key, value } of await nodes.walk(tx, [SHARE], { limit: 100 })) {
        if (value.name !== "copied" || value.kind !== "file") continue;
        const copy = { id: "1", source: "", status: "pending", total: 1, done: 0 } as const;
        nodes.put(tx, key, { ...value, copy });
      }
    });
    const source = await open(one, "better");
    is(await rename(one, source, "copied", true), status.sharingViolation);
    await one.end();
  });

  test("a mark that is set and taken off in one go is off", async () => {
    const one = await client();
    const handle = await open(one, "spared");
    const both = [setDelete(one, handle, true), setDelete(one, handle, false)];
    for (const answer of await Promise.all(both)) is(answer, status.ok);
    is(await create(one, "spared", { disposition: disposition.open }), status.ok);
    await one.end();
  });
});
