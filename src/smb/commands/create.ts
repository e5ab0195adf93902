import type { ReadTx } from "../../engine/engine.ts";
import { ROOT, tickOf, type View } from "../../file/namespace.ts";
import { type ShareTx, walk } from "../../file/tree.ts";
import { isHeld, leaseAt } from "../../rules/lease.ts";
import { DELETE, WRITE } from "../../rules/sharing.ts";
import type { NodeRecord } from "../../store/file-records.ts";
import { shareSnapshots } from "../../store/keys.ts";
import type { Identity } from "../../store/opens.ts";
import { access } from "../access.ts";
import { command } from "../command.ts";
import { replyOf } from "../create/answer.ts";
import {
  type Asked,
  type Attempt,
  type CreateCall,
  DIRECTORY_FILE,
  dispositions,
  makes,
  OPENED,
  type Opened,
  OVERWRITTEN,
  replaces,
  SUPERSEDED,
} from "../create/asked.ts";
import { type CreateContexts, createContextsOf } from "../create/contexts.ts";
import { madeOnce, reconnected } from "../create/durable.ts";
import { checkLease, inTheWay } from "../create/holding.ts";
import { made, overwritten } from "../create/node.ts";
import { opened, withdraw } from "../create/opened.ts";
import { openPipe } from "../create/pipe.ts";
import {
  checkAttributes,
  checkKind,
  checkMasks,
  grantedFor,
  WRITE_ACCESS,
} from "../create/refusals.ts";
import { inShare, rightsOf, shareAt } from "../file-open.ts";
import { pathOf } from "../paths.ts";
import { SMB_202 } from "../protection.ts";
import type { SharePlace } from "../session.ts";
import { SmbError } from "../status.ts";
import { fileTimeOf } from "../times.ts";
import { waitedFor } from "../waiting.ts";
import { partOf, u8, u16, u32, u64 } from "../wire/layout.ts";

const IMPERSONATION_MAX = 3;
/** As many as Samba lets a client have. */
const OPENS_MAX = 16_384;
/** How often a file or directory may be open at once, and a root ("Scalability targets for Azure Files"). */
const HANDLES_MAX = 2_000;
const ROOT_HANDLES_MAX = 10_000;

export const create = command({
  code: 0x0005,
  name: "CREATE",
  needs: "tree",
  structureSize: 57,
  request: {
    structureSize: u16,
    securityFlags: u8,
    oplockLevel: u8,
    impersonationLevel: u32,
    smbCreateFlags: u64,
    reserved: u64,
    desiredAccess: u32,
    attributes: u32,
    shareAccess: u32,
    disposition: u32,
    options: u32,
    nameOffset: u16,
    nameLength: u16,
    contextsOffset: u32,
    contextsLength: u32,
  },
  async handle(call, request) {
    const { message, session, tree, connection } = call;
    if (request.nameLength % 2 !== 0) throw new SmbError("STATUS_INVALID_PARAMETER");
    const name = partOf(message, request.nameOffset, request.nameLength).toString("utf16le");
    if (session.opens.size >= OPENS_MAX) throw new SmbError("STATUS_TOO_MANY_OPENED_FILES");
    if (tree.share === undefined) return openPipe(call, name);
    const list = partOf(message, request.contextsOffset, request.contextsLength);
    const contexts = createContextsOf(list);
    if (contexts.reconnect !== undefined) return reconnected(call, contexts, tree.share, name);
    if (request.impersonationLevel > IMPERSONATION_MAX) {
      throw new SmbError("STATUS_BAD_IMPERSONATION_LEVEL");
    }
    const disposition = dispositions[request.disposition];
    if (disposition === undefined) throw new SmbError("STATUS_INVALID_PARAMETER");
    checkMasks(request);
    if (contexts.hasAttributes) throw new SmbError("STATUS_EAS_NOT_SUPPORTED");
    const isOld = connection.negotiated?.dialect === SMB_202;
    const path = pathOf(withoutEnd(name, request.options));
    const asked: Asked = {
      call,
      place: tree.share,
      path,
      view: await viewFor(call, tree.share, contexts),
      disposition,
      options: request.options,
      attributes: request.attributes,
      desired: request.desiredAccess,
      shares: request.shareAccess,
      level: request.oplockLevel,
      contexts: isOld ? { ...contexts, lease: undefined } : contexts,
      entered: { open: undefined },
    };
    return replyOf(asked, await madeOnce(asked, () => openedAfterAll(asked)));
  },
});

/** A directory's name may end as if another one followed (MS-FSA 2.1.5.1). */
const withoutEnd = (name: string, options: number): string =>
  (options & DIRECTORY_FILE) !== 0 && name.length > 1 && name.endsWith("\\")
    ? name.slice(0, -1)
    : name;

/** Tries until nothing is left that others must give up first. */
async function openedAfterAll(asked: Asked): Promise<Opened> {
  for (;;) {
    const attempt = await attempted(asked).catch((error: unknown) => {
      withdraw(asked);
      throw error;
    });
    if (attempt === "missing") throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
    if (!("wait" in attempt)) return attempt;
    await waitedFor(asked.call, attempt.wait);
  }
}

/** The share as it is, or a snapshot of it: previous versions are named by their second. */
async function viewFor(call: CreateCall, place: SharePlace, { at }: CreateContexts): Promise<View> {
  if (at === undefined || at === 0n) return { share: place.id, at: undefined };
  const second = at / 10_000_000n;
  const found = await call.around.engine.read(async (tx) => {
    const rows = await shareSnapshots.walk(tx, [place.id], { limit: 1000 });
    return rows.find(({ key }) => fileTimeOf(key[1]) / 10_000_000n === second)?.key[1];
  }, "soon");
  if (found === undefined) throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
  return { share: place.id, at: found };
}

/** Tries to open; only what may make or change a file is a transaction that writes. */
async function attempted(asked: Asked): Promise<Attempt> {
  const { call, disposition, place, view } = asked;
  if (disposition === "open" || disposition === "openIf" || view.at !== undefined) {
    const read = await call.around.engine.read(async (tx) => {
      withdraw(asked);
      await shareAt(tx, place);
      const spot = await walk(tx, view, asked.path);
      return spot.node === undefined ? "missing" : existing(asked, tx, spot.node);
    }, "soon");
    if (read !== "missing" || disposition === "open") return read;
  }
  if (view.at !== undefined) throw new SmbError("STATUS_MEDIA_WRITE_PROTECTED");
  return inShare(
    call.around,
    place,
    async (change) => {
      withdraw(asked); // after a conflict this runs again
      const spot = await walk(change.tx, view, asked.path);
      if (spot.node !== undefined) return existing(asked, change.tx, spot.node, change);
      return makes(disposition) ? made(asked, change, spot) : "missing";
    },
    "soon",
  );
}

/** Opens what is there, or says what must be waited for; with `change` it may be overwritten. */
async function existing(
  asked: Asked,
  tx: ReadTx,
  node: NodeRecord,
  change?: ShareTx,
): Promise<Attempt> {
  const { call, disposition, options, view } = asked;
  const { opens } = call.around;
  const identity: Identity = { share: asked.place.id, file: tickOf(node.id) };
  const isLive = view.at === undefined;
  if (disposition === "create") throw new SmbError("STATUS_OBJECT_NAME_COLLISION");
  if (isLive && opens.isDeletePending(identity)) throw new SmbError("STATUS_DELETE_PENDING");
  const handlesMax = identity.file === ROOT ? ROOT_HANDLES_MAX : HANDLES_MAX;
  if (isLive && opens.countOf(identity) >= handlesMax) throw new SmbError("STATUS_QUOTA_EXCEEDED");
  const overwrites = replaces(disposition);
  checkKind(node, options, overwrites);
  const granted = grantedFor(asked, node);
  if (!isLive) {
    if (
      (rightsOf(granted) & (WRITE | DELETE)) !== 0 &&
      (asked.desired & access.maximumAllowed) === 0
    ) {
      throw new SmbError("STATUS_ACCESS_DENIED");
    }
    return opened(asked, node, granted & ~WRITE_ACCESS, OPENED);
  }
  checkAttributes(asked, node, granted, overwrites);
  const rights = rightsOf(granted) | (overwrites ? WRITE : 0);
  if (isHeld(leaseAt(node.lease, tx.now)) && (rights & (WRITE | DELETE)) !== 0) {
    throw new SmbError("STATUS_SHARING_VIOLATION");
  }
  const isCopied = node.kind === "file" && node.copy?.status === "pending";
  if (isCopied && (rights & (WRITE | DELETE)) !== 0) throw new SmbError("STATUS_SHARING_VIOLATION");
  checkLease(asked, identity);
  const wait = inTheWay(asked, identity, { granted, rights, overwrites });
  if (wait !== undefined) return { wait };
  if (!overwrites || change === undefined) return opened(asked, node, granted, OPENED);
  if (node.kind !== "file") throw new SmbError("STATUS_INVALID_PARAMETER");
  const after = await overwritten(asked, change, node);
  return opened(asked, after, granted, disposition === "supersede" ? SUPERSEDED : OVERWRITTEN);
}
