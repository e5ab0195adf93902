import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, before, suite, test } from "node:test";
import { DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, parseAccounts } from "../../src/auth/accounts.ts";
import { randomIds } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { memoryEngine } from "../../src/engine/memory.ts";
import { memoryFiles } from "../../src/engine/memory-files.ts";
import { keepPermission } from "../../src/file/node.ts";
import { available } from "../../src/rules/lease.ts";
import { noMetadata } from "../../src/rules/metadata.ts";
import { ROOT_PERMISSION } from "../../src/rules/sddl.ts";
import { DIRECTORY } from "../../src/rules/smb-properties.ts";
import { type SmbServer, smbServer } from "../../src/smb/server.ts";
import { Contents } from "../../src/store/content.ts";
import { nodes, shares } from "../../src/store/keys.ts";
import { Opens } from "../../src/store/opens.ts";
import { SmbClient, status } from "../acceptance/smb-client.ts";
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

const SHARE = 5n;

// Every body of a write meets a conflict and runs twice, so that none may have another effect than its writes.
suite("SMB on an engine whose transactions run again", () => {
  const clock = { now: () => Date.UTC(2030, 0, 1) };
  const engine = memoryEngine({ clock, conflicts: () => true });
  const opens = new Opens();
  let smb: SmbServer;
  let client: SmbClient;

  before(async () => {
    await engine.write(async (tx) => {
      const changed = { etag: "0x1", modifiedAt: 0, metadata: noMetadata, lease: available };
      const share = { quota: 1, tier: "Hot", policies: [], snapshotCount: 0, id: "5" } as const;
      shares.put(tx, [DEVELOPMENT_ACCOUNT, "share"], { ...changed, ...share });
      const permission = await keepPermission(tx, SHARE, ROOT_PERMISSION);
      const times = { createdAt: "1", writtenAt: "1", changedAt: "1", since: "1" };
      const root = { kind: "directory", id: "0", parent: "0", name: "" } as const;
      const attributes = DIRECTORY;
      nodes.put(tx, [SHARE, 0n], { ...changed, ...root, ...times, attributes, permission });
    });
    const contents = new Contents(engine, memoryFiles(randomIds));
    const accounts = () => parseAccounts(`${DEVELOPMENT_ACCOUNT}:${DEVELOPMENT_KEY}`);
    const around = { engine, contents, opens, clock, ids: randomIds, log: silentLog };
    smb = smbServer({ ...around, accounts, isEncryptionRequired: false });
    smb.server.listen(0, "127.0.0.1");
    await once(smb.server, "listening");
    const { port } = smb.server.address() as AddressInfo;
    client = await SmbClient.open({ port }, "share");
  });
  after(async () => {
    await client.end();
    await smb.drained();
  });

  const isOpen = () => opens.inShare(SHARE).length;

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
});
