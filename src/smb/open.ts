import type { FileOpen } from "./file-open.ts";
import type { PipeOpen } from "./pipe-open.ts";

/** What a session has opened by CREATE. */
export type Open = FileOpen | PipeOpen;
