import { findShare } from "../../file/tree.ts";
import { command } from "../command.ts";
import { SMB_311 } from "../protection.ts";
import type { Tree } from "../session.ts";
import { SmbError } from "../status.ts";
import { EMPTY_BODY } from "../wire/bodies.ts";
import { FLAG_SIGNED } from "../wire/header.ts";
import { layout, partOf, u8, u16, u32 } from "../wire/layout.ts";

const DISK = 1;
const PIPE = 2;
const FILE_ALL = 0x001f01ff;
const PIPE_ACCESS = 0x001f00a9;
const TREES_MAX = 4096;

const answerLayout = layout({
  structureSize: u16,
  shareType: u8,
  reserved: u8,
  shareFlags: u32,
  capabilities: u32,
  maximalAccess: u32,
});

/** The share of `\\server\share`; which name the server has there does not matter. */
function shareIn(path: string): string {
  const [empty, empty2, server, share, ...rest] = path.split("\\");
  const isPath = empty === "" && empty2 === "" && server !== undefined && share !== undefined;
  if (!isPath || rest.length > 0) throw new SmbError("STATUS_BAD_NETWORK_NAME");
  return share.toLowerCase();
}

export const treeConnect = command({
  code: 0x0003,
  name: "TREE_CONNECT",
  needs: "session",
  structureSize: 9,
  request: { structureSize: u16, flags: u16, pathOffset: u16, pathLength: u16 },
  async handle(call, { pathOffset, pathLength }) {
    const { around, session, message, header, connection, isSealed } = call;
    // The newest clients sign this one always: it proves that nobody changed the logon on its way (MS-SMB2
    // 3.3.5.7).
    const isProved = isSealed || (header.flags & FLAG_SIGNED) !== 0;
    if (connection.negotiated?.dialect === SMB_311 && !isProved) {
      throw new SmbError("STATUS_ACCESS_DENIED");
    }
    if (pathLength % 2 !== 0) throw new SmbError("STATUS_INVALID_PARAMETER");
    const name = shareIn(partOf(message, pathOffset, pathLength).toString("utf16le"));
    if (session.trees.size >= TREES_MAX) throw new SmbError("STATUS_INSUFFICIENT_RESOURCES");
    const account = session.account?.name ?? "";
    let share: Tree["share"];
    if (name !== "ipc$") {
      const found = await around.engine.read((tx) => findShare(tx, account, name, undefined));
      if (found === undefined) throw new SmbError("STATUS_BAD_NETWORK_NAME");
      share = { account, name, id: found.id };
    }
    const tree: Tree = { id: session.nextTreeId(), session, share };
    session.trees.set(tree.id, tree);
    const body = answerLayout.bytes({
      structureSize: 16,
      shareType: share === undefined ? PIPE : DISK,
      maximalAccess: share === undefined ? PIPE_ACCESS : FILE_ALL,
    });
    return { body: [body], treeId: tree.id };
  },
});

export const treeDisconnect = command({
  code: 0x0004,
  name: "TREE_DISCONNECT",
  needs: "tree",
  structureSize: 4,
  request: { structureSize: u16, reserved: u16 },
  async handle({ session, tree }) {
    await session.disconnect(tree.id);
    return { body: [EMPTY_BODY] };
  },
});
