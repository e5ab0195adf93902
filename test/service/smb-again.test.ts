import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import type { Engine } from "../../src/engine/engine.ts";
import { memoryEngine } from "../../src/engine/memory.ts";
import { type SmbClient, status } from "../acceptance/smb-client.ts";
import {
  close,
  create,
  dataOf,
  disposition,
  handleOf,
  open,
  options,
  read,
  rename,
  setDelete,
  write,
} from "../acceptance/smb-files.ts";
import { clock, SHARE, type SmbWorld, smbWorld } from "./smb-world.ts";

// Every body of a write meets a conflict and runs twice, so that none may have another effect than its writes.
suite("SMB on an engine whose transactions run again", () => {
  let world: SmbWorld;
  let client: SmbClient;

  before(async () => {
    world = await smbWorld(memoryEngine({ clock, conflicts: () => true }));
    client = world.client;
  });
  after(() => world.end());

  const isOpen = () => world.opens.inShare(SHARE).length;

  test("an open is entered once, and nothing of it is left when it is closed", async () => {
    for (const way of [disposition.create, disposition.overwriteIf, disposition.supersede]) {
      const handle = await open(client, "file", { disposition: way, share: 0, oplock: 9 });
      assert.equal(isOpen(), 1);
      assert.equal((await close(client, handle)).status, status.ok);
      assert.equal(isOpen(), 0);
    }
  });

  test("an open that fails leaves nothing behind", async () => {
    const made = await create(client, "file", { disposition: disposition.create });
    assert.equal(made.status, status.collision);
    assert.equal(isOpen(), 0);
  });

  test("what is written, renamed and deleted is so once", async () => {
    const handle = await open(client, "text", { disposition: disposition.create });
    assert.equal((await write(client, handle, 0, Buffer.from("once"))).status, status.ok);
    assert.equal((await rename(client, handle, "text-2")).status, status.ok);
    assert.equal(dataOf(await read(client, handle, 0, 100)).toString(), "once");
    assert.equal((await setDelete(client, handle, true)).status, status.ok);
    assert.equal((await close(client, handle)).status, status.ok);
    const gone = await create(client, "text-2", { disposition: disposition.open });
    assert.equal(gone.status, status.nameNotFound);
    const folder = await create(client, "folder", {
      disposition: disposition.create,
      options: options.directory | options.deleteOnClose,
    });
    assert.equal((await close(client, handleOf(folder))).status, status.ok);
    assert.equal(isOpen(), 0);
  });

  test("a mark to delete that is taken off before it is answered is off", async () => {
    const handle = await open(client, "kept", { disposition: disposition.create });
    const answers = [true, false].map((deletes) => setDelete(client, handle, deletes));
    for (const answer of answers) assert.equal((await answer).status, status.ok);
    assert.equal((await close(client, handle)).status, status.ok);
    const there = await create(client, "kept", { disposition: disposition.open });
    assert.equal(there.status, status.ok);
    assert.equal((await close(client, handleOf(there))).status, status.ok);
  });
});

suite("SMB on a machine that has no more to give", () => {
  const wants = [
    ["ENOSPC", 0xc000007f],
    ["EMFILE", 0xc000009a],
  ] as const;
  for (const [code, want] of wants) {
    test(`${code} is told as what it is, and it goes on when that is over`, async () => {
      const inner = memoryEngine({ clock });
      let isShort = false;
      const engine: Engine = {
        ...inner,
        read: inner.read.bind(inner),
        settled: inner.settled.bind(inner),
        close: inner.close.bind(inner),
        write: (body, given) =>
          isShort
            ? Promise.reject(Object.assign(new Error(code), { code }))
            : inner.write(body, given),
      };
      const { client, end } = await smbWorld(engine);
      const handle = await open(client, "file", { disposition: disposition.create });
      isShort = true;
      assert.equal((await write(client, handle, 0, Buffer.from("much"))).status, want);
      isShort = false;
      assert.equal((await write(client, handle, 0, Buffer.from("much"))).status, status.ok);
      await end();
    });
  }
});
