import type { NodeRecord } from "../../store/file-records.ts";
import { ChannelSequence } from "../channel-sequence.ts";
import { FILE_SIZE_MAX } from "../commands/write.ts";
import { FileOpen } from "../file-open.ts";
import { LEVEL_LEASE } from "../holdings.ts";
import { SmbError } from "../status.ts";
import { type Asked, DELETE_ON_CLOSE, OPENED, type Opened, WRITE_THROUGH } from "./asked.ts";
import { makeDurable } from "./durable.ts";
import { mayHold } from "./holding.ts";

/** Enters the open beside the others, with what it may keep to itself. */
export function opened(asked: Asked, node: NodeRecord, granted: number, action: number): Opened {
  const { call, contexts, options, place, view } = asked;
  const { around, session, tree, connection } = call;
  // A client that went away meanwhile closes nothing any more.
  if (session.trees.get(tree.id) !== tree) throw new SmbError("STATUS_NETWORK_NAME_DELETED");
  const { allocation = 0n } = contexts;
  if (action !== OPENED && allocation > BigInt(FILE_SIZE_MAX))
    throw new SmbError("STATUS_DISK_FULL");
  const open = new FileOpen(around, {
    handle: around.nextHandle(),
    place,
    session,
    tree,
    node,
    view,
    granted,
    shares: asked.shares,
    deletesOnClose: (options & DELETE_ON_CLOSE) !== 0,
    isWriteThrough: (options & WRITE_THROUGH) !== 0,
    isNew: action !== OPENED,
    sequence: new ChannelSequence(call.header.channelSequence),
  });
  if (node.kind === "file" && open.isNew) open.allocation = Number(allocation);
  session.opens.set(open.handle, open);
  asked.entered.open = open;
  if (open.isSnapshot) return { open, node, action };
  const clientGuid = connection.negotiated?.clientGuid ?? Buffer.alloc(16);
  const isLease =
    asked.level === LEVEL_LEASE && contexts.lease !== undefined && node.kind === "file";
  const state = node.kind === "file" ? mayHold(asked, open) : 0;
  around.opens.enter(open);
  if (isLease) around.holdings.hold(open, state, { asked: contexts.lease, clientGuid });
  else if (state !== 0) around.holdings.hold(open, state, undefined);
  makeDurable(asked, open);
  return { open, node, action };
}

/** Takes out again what was entered by a body that runs once more, or that came to nothing. */
export function withdraw({ call, entered }: Asked): void {
  const { open } = entered;
  if (open === undefined) return;
  entered.open = undefined;
  call.around.opens.evict(open);
}
