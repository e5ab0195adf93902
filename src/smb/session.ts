import type { Account } from "../auth/accounts.ts";
import type { Connection } from "./connection.ts";
import type { Logon } from "./logon.ts";
import type { Open } from "./open.ts";
import type { Sealer, Signer } from "./protection.ts";

/** A share that a session is connected to, or the pipes of the server itself. */
export type Tree = {
  readonly id: number;
  readonly session: Session;
  /** Undefined for IPC$. */
  readonly share: SharePlace | undefined;
};

/** A share by its number: one of the same name that is made later is another. */
export type SharePlace = { readonly account: string; readonly name: string; readonly id: bigint };

/** Waits for all, also where one fails: the others must be closed as well. */
async function all(closing: readonly Promise<void>[]): Promise<void> {
  for (const closed of await Promise.allSettled(closing)) {
    if (closed.status === "rejected") throw closed.reason;
  }
}

/** A client that is logging on, or has; all that it has open is gone with it. */
export class Session {
  readonly id: bigint;
  readonly connection: Connection;
  readonly trees = new Map<number, Tree>();
  readonly opens = new Map<bigint, Open>();
  /** Who it is; undefined until the logon is done. */
  account: Account | undefined;
  logon: Logon | undefined;
  /** The hash over the logon, which the keys are made with. */
  hash: Buffer;
  signer: Signer | undefined;
  sealer: Sealer | undefined;
  isSigningRequired = false;
  isEncrypted = false;
  #lastTree = 0;

  constructor(id: bigint, connection: Connection) {
    this.id = id;
    this.connection = connection;
    this.hash = connection.hash;
  }

  nextTreeId(): number {
    this.#lastTree++;
    return this.#lastTree;
  }

  /** Ends the session: requests that wait are answered, and what is open is closed, or kept if it is durable. */
  async end(durable: "keep" | "close" = "close"): Promise<void> {
    this.#forget();
    if (durable === "keep") {
      for (const open of [...this.opens.values()]) {
        if (open.kind !== "file" || open.durable === undefined) continue;
        this.opens.delete(open.handle);
        open.lost();
      }
    }
    await all([...this.trees.values()].map(({ id }) => this.disconnect(id)));
  }

  /** Leaves a share, with all that is open there. */
  async disconnect(treeId: number): Promise<void> {
    const tree = this.trees.get(treeId);
    this.trees.delete(treeId);
    const closing = [...this.opens.values()].filter((open) => open.tree === tree);
    await all(
      closing.map((open) => {
        this.opens.delete(open.handle);
        return open.close("cleanup");
      }),
    );
  }

  /** The connection is gone: what may be taken up again waits for that, the rest is closed. */
  lost(): void {
    this.#forget();
    for (const open of [...this.opens.values()]) {
      this.opens.delete(open.handle);
      open.lost();
    }
    this.trees.clear();
  }

  #forget(): void {
    this.connection.sessions.delete(this.id);
    if (this.connection.around.sessions.get(this.id) === this) {
      this.connection.around.sessions.delete(this.id);
    }
  }
}
