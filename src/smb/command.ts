import type { Around } from "./around.ts";
import type { Connection } from "./connection.ts";
import type { Open } from "./open.ts";
import type { Session, Tree } from "./session.ts";
import type { NtStatus } from "./status.ts";
import type { Header } from "./wire/header.ts";
import { type Fields, type Layout, layout, type ValuesOf } from "./wire/layout.ts";

/** What must be found before a command can run: each includes those before it. */
export type Needs = "connection" | "session" | "tree" | "open";

/** One request of a client, as the dispatcher hands it to its command. */
export type Call = {
  readonly around: Around;
  readonly connection: Connection;
  readonly header: Header;
  /** The whole message: offsets count from its header. */
  readonly message: Buffer;
  readonly isSealed: boolean;
  readonly session: Session | undefined;
  readonly tree: Tree | undefined;
  readonly open: Open | undefined;
  /** In a related request, the open that the one before was about. */
  readonly relatedFile: bigint | undefined;
  /** In a related request, why there is no such open. */
  readonly failed: NtStatus | undefined;
  /**
   * Tells the client that the answer takes a while, unless it knows already. `onAbort` is called, once at
   * most, when the client cancels the request or what it is about is taken from it.
   */
  pend(onAbort: (status: NtStatus) => void): void;
};

type Found<N extends Needs> = N extends "connection"
  ? unknown
  : N extends "session"
    ? { readonly session: Session }
    : N extends "tree"
      ? { readonly session: Session; readonly tree: Tree }
      : { readonly session: Session; readonly tree: Tree; readonly open: Open };

export type CallWith<N extends Needs> = Call & Found<N>;

/** What a command answers: the body after its header, in parts so that large data is not copied. */
export type Reply = {
  /** Success if it is not given. */
  readonly status?: NtStatus;
  readonly body: readonly Buffer[];
  /** Where the answer names a tree or session that the request did not. */
  readonly treeId?: number;
  readonly session?: Session;
  /** The answer is signed though the request was not. */
  readonly isSigned?: boolean;
  /** Which open the related requests that follow mean. */
  readonly fileId?: bigint;
  /** Sees the answer as it is sent. */
  readonly sent?: (message: Buffer) => void;
};

/** A row of MS-SMB2's list of commands. */
export type Command = {
  readonly code: number;
  readonly name: string;
  readonly needs: Needs;
  readonly structureSize: number;
  readonly layout: Layout<Fields>;
  /** How many bytes a request carries or asks for at most, which its credits must cover. */
  readonly payload: ((request: ValuesOf<Fields>) => number) | undefined;
  readonly handle: (call: Call, request: ValuesOf<Fields>) => Promise<Reply>;
};

export function command<const F extends Fields, const N extends Needs>(row: {
  readonly code: number;
  readonly name: string;
  readonly needs: N;
  /** What the first field of the body must say. */
  readonly structureSize: number;
  /** The fixed part of the body, in the order of the specification. */
  readonly request: F;
  readonly payload?: (request: ValuesOf<F>) => number;
  handle(call: CallWith<N>, request: ValuesOf<F>): Promise<Reply>;
}): Command {
  const { request, ...rest } = row;
  return { payload: undefined, ...rest, layout: layout(request) } as unknown as Command;
}

/** Where commands with an open name it: twice the number of its handle. */
export type FileIdFields = { readonly filePersistent: bigint; readonly fileVolatile: bigint };
