import type { Ids } from "../base/ids.ts";
import type { Log } from "../base/log.ts";
import type { Clock } from "../base/time.ts";
import type { Engine } from "../engine/engine.ts";
import type { Contents } from "../store/content.ts";
import type { Opens } from "../store/opens.ts";
import type { Connection } from "./connection.ts";
import type { Opened } from "./create/asked.ts";
import type { FileOpen } from "./file-open.ts";
import type { Holdings } from "./holdings.ts";
import type { LockWaiters } from "./lock-waiters.ts";
import type { LogonSurroundings } from "./logon.ts";
import type { Session } from "./session.ts";
import type { Watches } from "./watches.ts";

/** What every part of the SMB server has at hand. */
export type Around = {
  readonly engine: Engine;
  readonly contents: Contents;
  readonly opens: Opens;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly logon: LogonSurroundings;
  readonly serverGuid: Buffer;
  readonly serverName: string;
  readonly isEncryptionRequired: boolean;
  readonly connections: Set<Connection>;
  /** All sessions of all connections: a client that comes back names the one it had. */
  readonly sessions: Map<bigint, Session>;
  /** Durable opens by their handles, whether their clients are there or not. */
  readonly durables: Map<bigint, FileOpen>;
  /** What creates made that clients may send again, by the clients' names for them; none while it is made. */
  readonly creates: Map<string, Opened | undefined>;
  /** Closes that nobody waits for, of clients that are gone. */
  readonly closing: Set<Promise<void>>;
  readonly holdings: Holdings;
  readonly waiters: LockWaiters;
  readonly watches: Watches;
  random(size: number): Buffer;
  nextHandle(): bigint;
};
