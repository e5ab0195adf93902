const SQLITE_FULL = 13;
const noRoom = new Set(["ENOSPC", "EDQUOT"]);
const noFiles = new Set(["EMFILE", "ENFILE"]);

const codeOf = (error: unknown): string =>
  error instanceof Error ? String((error as Error & { code?: unknown }).code) : "";

/** Whether an engine or its files failed because there is no room: nothing happened, and it may go well later. */
export function isDiskFull(error: unknown): boolean {
  const isFull = error instanceof Error && "errcode" in error && error.errcode === SQLITE_FULL;
  return isFull || noRoom.has(codeOf(error));
}

/** Whether the process or the system has as many files and connections open as it may: the same holds then. */
export const isOutOfFiles = (error: unknown): boolean => noFiles.has(codeOf(error));
