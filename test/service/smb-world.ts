import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, parseAccounts } from "../../src/auth/accounts.ts";
import { randomIds } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { memoryFiles } from "../../src/engine/memory-files.ts";
import { keepPermission } from "../../src/file/node.ts";
import { available } from "../../src/rules/lease.ts";
import { noMetadata } from "../../src/rules/metadata.ts";
import { ROOT_PERMISSION } from "../../src/rules/sddl.ts";
import { DIRECTORY } from "../../src/rules/smb-properties.ts";
import { smbServer } from "../../src/smb/server.ts";
import { Contents } from "../../src/store/content.ts";
import { nodes, shares } from "../../src/store/keys.ts";
import { Opens } from "../../src/store/opens.ts";
import { type Answer, SmbClient } from "../acceptance/smb-client.ts";

export const SHARE = 5n;
export const clock = { now: () => Date.UTC(2030, 0, 1) };

export type SmbWorld = {
  readonly client: SmbClient;
  readonly opens: Opens;
  end(): Promise<void>;
};

/** That an answer has a status, which is easier to read in hexadecimal. */
export const is = (answer: Answer | undefined, wanted: number): void =>
  assert.equal(answer?.status.toString(16), wanted.toString(16));

/** The SMB server on an engine, with an empty share, and a client that is connected to it. */
export async function smbWorld(engine: Engine): Promise<SmbWorld> {
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
  const opens = new Opens();
  const contents = new Contents(engine, memoryFiles(randomIds));
  const accounts = () => parseAccounts(`${DEVELOPMENT_ACCOUNT}:${DEVELOPMENT_KEY}`);
  const around = { engine, contents, opens, clock, ids: randomIds, log: silentLog };
  const smb = smbServer({ ...around, accounts, isEncryptionRequired: false });
  smb.server.listen(0, "127.0.0.1");
  await once(smb.server, "listening");
  const { port } = smb.server.address() as AddressInfo;
  const client = await SmbClient.open({ port }, "share");
  return {
    client,
    opens,
    async end() {
      await client.end();
      await smb.drained();
    },
  };
}
