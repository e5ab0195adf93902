import type { View } from "../../file/namespace.ts";
import type { Rights } from "../../rules/sharing.ts";
import type { NodeRecord } from "../../store/file-records.ts";
import type { CallWith } from "../command.ts";
import type { FileOpen } from "../file-open.ts";
import type { SharePlace } from "../session.ts";
import type { CreateContexts } from "./contexts.ts";

/** What is to happen to what is there, and to what is not, in the order of MS-SMB2 2.2.13. */
export const dispositions = [
  "supersede",
  "open",
  "create",
  "openIf",
  "overwrite",
  "overwriteIf",
] as const;

export type Disposition = (typeof dispositions)[number];

/** Whether a file that is not there is made. */
export const makes = (disposition: Disposition) =>
  disposition !== "open" && disposition !== "overwrite";

/** Whether a file that is there loses its content. */
export const replaces = (disposition: Disposition) =>
  disposition === "supersede" || disposition === "overwrite" || disposition === "overwriteIf";

// Create options (MS-SMB2 2.2.13).
export const DIRECTORY_FILE = 0x1;
export const WRITE_THROUGH = 0x2;
export const NON_DIRECTORY_FILE = 0x40;
export const DELETE_ON_CLOSE = 0x1000;

// What has happened, as the answer tells it (MS-SMB2 2.2.14).
export const SUPERSEDED = 0;
export const OPENED = 1;
export const CREATED = 2;
export const OVERWRITTEN = 3;

export type CreateCall = CallWith<"tree">;

/** An open as it is asked for. */
export type Asked = {
  readonly call: CreateCall;
  readonly place: SharePlace;
  readonly path: readonly string[];
  readonly view: View;
  readonly disposition: Disposition;
  readonly options: number;
  readonly attributes: number;
  readonly desired: number;
  readonly shares: Rights;
  readonly level: number;
  readonly contexts: CreateContexts;
  /** The open that was entered last: whoever enters another one takes it out first. */
  readonly entered: { open: FileOpen | undefined };
};

/** An open that was entered beside the others, and what became of its file. */
export type Opened = {
  readonly open: FileOpen;
  readonly node: NodeRecord;
  readonly action: number;
};

/** How a try to open ended; what others must give up first is waited for, outside of the transaction. */
export type Attempt = Opened | { readonly wait: Promise<unknown> } | "missing";
