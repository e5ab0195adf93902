const SQLITE_FULL = 13;
const codes = new Set(["ENOSPC", "EDQUOT"]);

/** Whether an engine or its files failed because there is no room: nothing happened, and it may go well later. */
export function isDiskFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, errcode } = error as Error & { code?: unknown; errcode?: unknown };
  return errcode === SQLITE_FULL || (typeof code === "string" && codes.has(code));
}
