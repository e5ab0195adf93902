import { type Tick, tickAt } from "../../base/time.ts";
import type { Reply } from "../command.ts";
import { PipeOpen } from "../pipe-open.ts";
import { Rpc } from "../rpc.ts";
import { serverFacts } from "../server-facts.ts";
import { SmbError } from "../status.ts";
import { fileTimeOf } from "../times.ts";
import { answerLayout } from "./answer.ts";
import { type CreateCall, OPENED } from "./asked.ts";

/** Named pipes: the only one there is tells of the shares. */
export async function openPipe(call: CreateCall, name: string): Promise<Reply> {
  const { around, session, tree } = call;
  const pipe = name.toLowerCase().replace(/^\\?(?:pipe\\)?/, "");
  if (pipe !== "srvsvc") throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
  const rpc = new Rpc(serverFacts(around, session.account?.name ?? ""), pipe);
  const open = new PipeOpen({ handle: around.nextHandle(), tree, session, rpc });
  session.opens.set(open.handle, open);
  const now = fileTimeOf(tickAt(around.clock.now()) as Tick);
  const body = answerLayout.bytes({
    structureSize: 89,
    createAction: OPENED,
    creationTime: now,
    lastAccessTime: now,
    lastWriteTime: now,
    changeTime: now,
    allocationSize: 4096n,
    attributes: 0x80,
    filePersistent: open.handle,
    fileVolatile: open.handle,
  });
  return { body: [body], fileId: open.handle };
}
