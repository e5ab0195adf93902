import type { Command } from "./command.ts";
import { changeNotify } from "./commands/change-notify.ts";
import { close } from "./commands/close.ts";
import { create } from "./commands/create.ts";
import { echo } from "./commands/echo.ts";
import { flush } from "./commands/flush.ts";
import { ioctl } from "./commands/ioctl.ts";
import { lock } from "./commands/lock.ts";
import { logoff } from "./commands/logoff.ts";
import { negotiate } from "./commands/negotiate.ts";
import { leaseBreak, oplockBreak } from "./commands/oplock-break.ts";
import { queryDirectory } from "./commands/query-directory.ts";
import { queryInfo } from "./commands/query-info.ts";
import { read } from "./commands/read.ts";
import { sessionSetup } from "./commands/session-setup.ts";
import { setInfo } from "./commands/set-info.ts";
import { treeConnect, treeDisconnect } from "./commands/tree-connect.ts";
import { write } from "./commands/write.ts";

/** All that clients can ask for. CANCEL has no answer, so it is no row; see compound.ts. */
const rows: readonly Command[] = [
  negotiate,
  sessionSetup,
  logoff,
  treeConnect,
  treeDisconnect,
  create,
  close,
  flush,
  read,
  write,
  lock,
  ioctl,
  echo,
  queryDirectory,
  changeNotify,
  queryInfo,
  setInfo,
  oplockBreak,
  leaseBreak,
];

const byCode = Map.groupBy(rows, ({ code }) => code);

/** The command with a code; one of them has two forms, which the size of its structure tells apart. */
export function commandOf(code: number, structureSize: number): Command | undefined {
  const found = byCode.get(code);
  return found?.find((row) => row.structureSize === structureSize) ?? found?.[0];
}
