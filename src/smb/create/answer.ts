import { FILE_ALL } from "../access.ts";
import type { Reply } from "../command.ts";
import { LEVEL_LEASE, LEVEL_NONE, levelOf } from "../holdings.ts";
import { allocationOf, attributesOf, numberOf, timesOf } from "../node-facts.ts";
import { layout, u8, u16, u32, u64 } from "../wire/layout.ts";
import type { Asked, Opened } from "./asked.ts";
import { contextsBytes, leaseAnswer } from "./contexts.ts";

/** The fixed part of an answer to CREATE. */
export const answerLayout = layout({
  structureSize: u16,
  oplockLevel: u8,
  flags: u8,
  createAction: u32,
  creationTime: u64,
  lastAccessTime: u64,
  lastWriteTime: u64,
  changeTime: u64,
  allocationSize: u64,
  endOfFile: u64,
  attributes: u32,
  reserved: u32,
  filePersistent: u64,
  fileVolatile: u64,
  contextsOffset: u32,
  contextsLength: u32,
});

/** The answer, with a context for each that was asked for and granted. */
export function replyOf(
  asked: Pick<Asked, "contexts" | "level">,
  { open, node, action }: Opened,
): Reply {
  const { contexts, level } = asked;
  const answers: [string, Buffer][] = [];
  const { holding } = open;
  const lease = holding?.lease;
  if (contexts.wantsMaximalAccess) {
    const most = Buffer.alloc(8);
    most.writeUInt32LE(FILE_ALL, 4);
    answers.push(["MxAc", most]);
  }
  if (contexts.wantsFileId) {
    const ids = Buffer.alloc(32);
    ids.writeBigUInt64LE(numberOf(open.file), 0);
    ids.writeBigUInt64LE(open.share, 8);
    answers.push(["QFid", ids]);
  }
  if (holding !== undefined && lease !== undefined && contexts.lease !== undefined) {
    const { state, breaking } = holding;
    const told = { state, epoch: lease.epoch, isBreaking: breaking !== undefined };
    answers.push(["RqLs", leaseAnswer(lease.asked, told)]);
  }
  if (open.durable !== undefined && contexts.durable2 !== undefined) {
    const data = Buffer.alloc(8);
    data.writeUInt32LE(open.durable.timeoutMs);
    answers.push(["DH2Q", data]);
  } else if (open.durable !== undefined && contexts.durable) {
    answers.push(["DHnQ", Buffer.alloc(8)]);
  }
  const list = contextsBytes(answers);
  const size = node.kind === "file" ? node.size : 0;
  const isLease = lease !== undefined && level === LEVEL_LEASE;
  const fixed = answerLayout.bytes({
    structureSize: 89,
    oplockLevel: isLease
      ? LEVEL_LEASE
      : holding === undefined
        ? LEVEL_NONE
        : levelOf(holding.state),
    createAction: action,
    ...timesOf(node),
    allocationSize: BigInt(allocationOf(node, open.allocation)),
    endOfFile: BigInt(size),
    attributes: attributesOf(node),
    filePersistent: open.handle,
    fileVolatile: open.handle,
    contextsOffset: list.length === 0 ? 0 : 64 + answerLayout.size,
    contextsLength: list.length,
  });
  return { body: list.length === 0 ? [fixed] : [fixed, list], fileId: open.handle };
}
