import { once } from "node:events";
import { createServer, type Server } from "node:net";
import type { Accounts } from "../auth/accounts.ts";
import { NtlmAccounts } from "../auth/ntlm.ts";
import { drawnBytes, type Ids } from "../base/ids.ts";
import type { Log } from "../base/log.ts";
import type { Clock } from "../base/time.ts";
import type { Engine } from "../engine/engine.ts";
import type { Contents } from "../store/content.ts";
import type { Opens } from "../store/opens.ts";
import type { Around } from "./around.ts";
import { runner } from "./compound.ts";
import { Connection } from "./connection.ts";
import { Holdings } from "./holdings.ts";
import { LockWaiters } from "./lock-waiters.ts";
import { fileTimeAt } from "./times.ts";
import { Watches } from "./watches.ts";

const SERVER_NAME = "LAZULI";
const CONNECTIONS_MAX = 4096;
const DRAIN_LIMIT_MS = 5_000;

export type SmbOptions = {
  readonly engine: Engine;
  readonly contents: Contents;
  readonly opens: Opens;
  /** Who may log on now; they may change. */
  accounts(): Accounts;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly isEncryptionRequired: boolean;
};

export type SmbServer = {
  readonly server: Server;
  /** Takes no new connection, lets running requests finish for some seconds, then ends what is left. */
  drained(): Promise<void>;
};

/** The SMB door to the shares; `server` listens where it is told to. */
export function smbServer(options: SmbOptions): SmbServer {
  const { clock, ids, opens } = options;
  let lastHandle = 0n;
  const random = (size: number) => drawnBytes(ids, size);
  const around: Around = {
    ...options,
    logon: {
      accounts: new NtlmAccounts(() => options.accounts()),
      serverName: SERVER_NAME,
      nonce: () => random(8),
      time: () => fileTimeAt(clock.now()),
    },
    serverGuid: random(16),
    serverName: SERVER_NAME,
    connections: new Set(),
    sessions: new Map(),
    durables: new Map(),
    creates: new Map(),
    closing: new Set(),
    holdings: new Holdings(opens),
    waiters: new LockWaiters(opens),
    watches: new Watches(opens),
    random,
    nextHandle: () => {
      lastHandle += 1n;
      return lastHandle;
    },
  };
  const server = createServer((socket) => {
    if (around.connections.size >= CONNECTIONS_MAX) socket.destroy();
    else around.connections.add(new Connection(socket, around, runner));
  });
  return { server, drained: () => drained(server, around) };
}

async function drained(server: Server, { connections, durables, closing }: Around): Promise<void> {
  const closed = once(server, "close");
  server.close();
  const all = [...connections];
  const idle = () => Promise.all(all.map((each) => each.idle()));
  const limit = new Promise<void>((resolve) => setTimeout(resolve, DRAIN_LIMIT_MS).unref());
  await Promise.race([idle(), limit]);
  for (const connection of connections) connection.destroy();
  await closed;
  // What ran on behalf of clients that are gone ends before the engine does.
  await Promise.race([Promise.all([idle(), ...all.map((each) => each.ended)]), limit]);
  for (const open of [...durables.values()]) open.abandon();
  while (closing.size > 0) await Promise.all(closing);
}
