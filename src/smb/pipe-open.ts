import type { Rpc } from "./rpc.ts";
import type { Session, Tree } from "./session.ts";

/** A named pipe of the server that a client has open: what it writes is answered by what it reads. */
export class PipeOpen {
  readonly kind = "pipe";
  readonly handle: bigint;
  readonly tree: Tree;
  readonly session: Session;
  readonly rpc: Rpc;

  constructor(made: { handle: bigint; tree: Tree; session: Session; rpc: Rpc }) {
    this.handle = made.handle;
    this.tree = made.tree;
    this.session = made.session;
    this.rpc = made.rpc;
  }

  async close(): Promise<void> {
    this.session.opens.delete(this.handle);
  }

  lost(): void {}
}
