import { folded } from "../rules/file-names.ts";
import { type Checking, each } from "./checking.ts";
import type { FileRecord, NodeRecord } from "./file-records.ts";
import {
  deletedShares,
  entries,
  fileCopies,
  nodes,
  oldEntries,
  oldNodes,
  permissions,
  shareSnapshots,
  shares,
  usage,
} from "./keys.ts";
import type { Content } from "./records.ts";

export type ShareChecking = Checking & {
  /** A file names its content. */
  sparse(what: string, content: Content): void;
};

/** Shares that are being taken apart, and those whose old states are. */
export type ShareWork = {
  readonly shares: ReadonlySet<bigint>;
  readonly histories: ReadonlySet<bigint>;
};

/** What is found of a share that is there, or can be restored. */
type Found = {
  readonly name: string;
  readonly snapshotCount: number;
  readonly snapshots: bigint[];
  size: number;
};

const idOf = (hex: string) => BigInt(`0x${hex}`);

/**
 * That every name leads to a node and every node has its name, that permissions are there, that the sizes
 * of the files of each share are what is counted, and that old states are ones that a snapshot shows. A share
 * that is being taken apart needs none of it.
 */
export async function checkShares(checking: ShareChecking, work: ShareWork): Promise<void> {
  const { engine, problem, sparse } = checking;
  const whole = await wholeShares(checking);
  const lost = new Set<bigint>();
  const isWhole = (share: bigint): boolean => {
    if (whole.has(share)) return true;
    if (!work.shares.has(share) && !lost.has(share)) {
      lost.add(share);
      problem(`share ${share}: there are rows of it, and it is not there`);
    }
    return false;
  };
  await each(checking, "snapshot of share", shareSnapshots, ([share, at]) => {
    if (isWhole(share)) whole.get(share)?.snapshots.push(at);
  });
  for (const { name, snapshotCount, snapshots } of whole.values()) {
    if (snapshots.length !== snapshotCount) {
      problem(
        `share ${name}: ${snapshots.length} snapshots are there, ${snapshotCount} are counted`,
      );
    }
  }
  await each(checking, "entry", entries, async ([share, directory, name], entry) => {
    if (!isWhole(share)) return;
    const node = await engine.read((tx) => nodes.get(tx, share, idOf(entry.id)));
    const isSame = node?.kind === entry.kind && node.name === entry.name;
    if (!isSame || idOf(node.parent) !== directory) {
      problem(`entry ${name} of directory ${directory}: its node ${entry.id} is not its own`);
    }
  });
  await each(checking, "node", nodes, async ([share, id], node) => {
    const found = isWhole(share) ? whole.get(share) : undefined;
    if (found !== undefined) await checkNode(checking, share, node);
    if (node.kind !== "file") return;
    if (found !== undefined) found.size += node.size;
    sparse(`file ${node.name} (${id})`, node.content);
  });
  const checkOld = (what: string, share: bigint, since: string, until: bigint) => {
    if (!isWhole(share) || work.histories.has(share)) return;
    const isShown = whole.get(share)?.snapshots.some((at) => idOf(since) <= at && at < until);
    if (!isShown) problem(`${what}: no snapshot shows it, and nothing removes it`);
  };
  await each(checking, "old node", oldNodes, ([share, id, until], node) => {
    const what = `file or directory ${id} as it was until ${until}`;
    checkOld(what, share, node.since, until);
    if (node.kind === "file") sparse(what, node.content);
  });
  await each(checking, "old entry", oldEntries, ([share, , name, until], { since }) => {
    checkOld(`entry ${name} as it was until ${until}`, share, since, until);
  });
  await each(checking, "permission", permissions, ([share]) => void isWhole(share));
  await each(checking, "usage of share", usage, ([share], counted) => {
    const found = isWhole(share) ? whole.get(share) : undefined;
    if (found !== undefined && found.size !== counted) {
      problem(`share ${found.name}: its files have ${found.size} bytes, ${counted} are counted`);
    }
  });
  await each(checking, "copy to file", fileCopies);
}

async function wholeShares(checking: Checking): Promise<Map<bigint, Found>> {
  const found = new Map<bigint, Found>();
  await each(checking, "share", shares, ([account, name], { id, snapshotCount }) => {
    found.set(idOf(id), { name: `${account}/${name}`, snapshotCount, snapshots: [], size: 0 });
  });
  await each(checking, "deleted share", deletedShares, ([account, name], { share }) => {
    const { id, snapshotCount } = share;
    found.set(idOf(id), { name: `${account}/${name}`, snapshotCount, snapshots: [], size: 0 });
  });
  return found;
}

async function checkNode(
  { engine, problem }: Checking,
  share: bigint,
  node: NodeRecord,
): Promise<void> {
  const { id, parent, name, permission } = node;
  const what = `file or directory ${name} (${idOf(id)})`;
  const isPending = (file: FileRecord) => file.copy?.status === "pending";
  const { sddl, entry, copy } = await engine.read(async (tx) => ({
    sddl: await permissions.get(tx, share, permission),
    entry: id === "0" ? { id } : await entries.get(tx, share, idOf(parent), folded(name)),
    copy: await fileCopies.get(tx, share, idOf(id)),
  }));
  if (sddl === undefined) problem(`${what}: it has no permission`);
  if (entry?.id !== id) problem(`${what}: no entry names it`);
  if (node.kind === "file" && isPending(node) && copy === undefined) {
    problem(`${what}: it waits for a copy that nobody makes`);
  }
}
