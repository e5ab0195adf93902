import { pathOf as pathIn } from "../../file/tree.ts";
import { folded } from "../../rules/file-names.ts";
import type { Reply } from "../command.ts";
import type { FileOpen } from "../file-open.ts";
import { LEVEL_LEASE, LEVEL_NONE } from "../holdings.ts";
import type { SharePlace } from "../session.ts";
import { SmbError } from "../status.ts";
import { FLAG_REPLAY } from "../wire/header.ts";
import { replyOf } from "./answer.ts";
import { type Asked, type CreateCall, OPENED, type Opened } from "./asked.ts";
import type { CreateContexts } from "./contexts.ts";

const DURABLE_MS = 60_000;
const DURABLE_MAX_MS = 300_000;
/** More opens than these are not promised to outlive their connections: their clients open the files anew. */
export const DURABLES_MAX = 65_536;

/** Lets an open outlive its connection, if its client asked for that and keeps its handle. */
export function makeDurable({ call, contexts }: Asked, open: FileOpen): void {
  const { around, connection, session } = call;
  if (!contexts.durable && contexts.durable2 === undefined) return;
  if (open.isDirectory || !open.oplock.handle || around.durables.size >= DURABLES_MAX) return;
  const { durable2 } = contexts;
  const wanted =
    durable2 === undefined || durable2.timeoutMs === 0 ? DURABLE_MS : durable2.timeoutMs;
  open.durable = {
    version: durable2 === undefined ? 1 : 2,
    timeoutMs: Math.min(wanted, DURABLE_MAX_MS),
    createGuid: durable2?.createGuid,
    clientGuid: connection.negotiated?.clientGuid ?? Buffer.alloc(16),
    account: session.account?.name ?? "",
    isResilient: false,
    timer: undefined,
  };
  around.durables.set(open.handle, open);
}

/** A client that lost its connection takes up an open that has waited for it (MS-SMB2 3.3.5.9.7 and .12). */
export async function reconnected(
  call: CreateCall,
  contexts: CreateContexts,
  place: SharePlace,
  name: string,
): Promise<Reply> {
  const { around, session, tree, connection } = call;
  const { reconnect, lease } = contexts;
  const open = around.durables.get(reconnect?.handle ?? 0n);
  const durable = open?.durable;
  const clientGuid = connection.negotiated?.clientGuid ?? Buffer.alloc(16);
  if (open === undefined || durable === undefined || reconnect === undefined) {
    throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
  }
  const held = open.holding?.lease;
  const isSameLease =
    held === undefined
      ? lease === undefined
      : lease?.key.equals(held.asked.key) && durable.clientGuid.equals(clientGuid);
  // The first version of durable handles has no number of its own, and either way of coming back will do.
  const guid = reconnect.createGuid;
  const isSameGuid = guid === undefined || guid.equals(durable.createGuid ?? Buffer.alloc(16));
  const isMine = open.session === undefined && durable.account === session.account?.name;
  if (!isMine || !isSameLease || !isSameGuid || open.share !== place.id) {
    throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
  }
  const { node, path } = await open.read(async (tx) => {
    const found = await open.node(tx);
    return { node: found, path: await pathIn(tx, open.view, found) };
  });
  // A lease stands for a file by its name, which the client repeats.
  const isSameName = folded(path.join("\\")) === folded(name);
  if (held !== undefined && !isSameName) throw new SmbError("STATUS_INVALID_PARAMETER");
  const isLeft = session.trees.get(tree.id) !== tree;
  if (open.isClosed || open.session !== undefined || isLeft) {
    throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
  }
  open.resume(session, tree, call.header.channelSequence);
  const level = held === undefined ? LEVEL_NONE : LEVEL_LEASE;
  return replyOf(
    { contexts: { ...contexts, durable: false, durable2: undefined }, level },
    {
      open,
      node,
      action: OPENED,
    },
  );
}

/**
 * Makes an open once, however often its client asks for it: a create that is sent again, because its answer was
 * lost, gets the open it made (MS-SMB2 3.3.5.9.10).
 */
export async function madeOnce(asked: Asked, make: () => Promise<Opened>): Promise<Opened> {
  const { around, connection } = asked.call;
  const guid = asked.contexts.durable2?.createGuid;
  const clientGuid = connection.negotiated?.clientGuid;
  if (guid === undefined || clientGuid === undefined) return make();
  const { creates } = around;
  const name = Buffer.concat([clientGuid, guid]).toString("hex");
  const isAgain = (asked.call.header.flags & FLAG_REPLAY) !== 0;
  if (creates.has(name)) {
    if (!isAgain) throw new SmbError("STATUS_DUPLICATE_OBJECTID");
    const known = creates.get(name);
    if (known === undefined) throw new SmbError("STATUS_FILE_NOT_AVAILABLE");
    if (!known.open.isUsed) return replayed(asked, known);
  }
  creates.set(name, undefined);
  let made: Opened | undefined;
  try {
    made = await make();
    return made;
  } finally {
    if (made === undefined || made.open.isClosed) creates.delete(name);
    else {
      creates.set(name, made);
      made.open.createName = name;
    }
  }
}

/** The open that an earlier create of the same name made, as it is now. */
async function replayed({ call, contexts, level, place }: Asked, made: Opened): Promise<Opened> {
  const { session, tree } = call;
  const { open, action } = made;
  const key = level === LEVEL_LEASE ? contexts.lease?.key : undefined;
  const held = open.holding?.lease?.asked.key;
  const isSameLease = held === undefined ? key === undefined : key?.equals(held) === true;
  const isMine = open.holder.name === session.account?.name && open.share === place.id;
  if (!isMine || !isSameLease) throw new SmbError("STATUS_ACCESS_DENIED");
  const node = await open.read((tx) => open.node(tx));
  if (open.isClosed || session.trees.get(tree.id) !== tree) {
    throw new SmbError("STATUS_FILE_CLOSED");
  }
  if (open.session === undefined) open.resume(session, tree, call.header.channelSequence);
  // Its client has it through a connection that it may have given up, and that is not known to be gone.
  else if (open.session !== session) throw new SmbError("STATUS_FILE_NOT_AVAILABLE");
  return { open, node, action };
}
