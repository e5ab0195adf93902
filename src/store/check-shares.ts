import type { Engine } from "../engine/engine.ts";
import { folded } from "../rules/file-names.ts";
import { each } from "./each.ts";
import type { FileRecord, NodeRecord } from "./file-records.ts";
import { deletedShares, entries, nodes, oldNodes, permissions, shares, usage } from "./keys.ts";

/** What `check` does with what it finds. */
export type Checking = {
  problem(line: string): void;
  /** A file, or what a snapshot shows of one. */
  file(what: string, file: FileRecord): Promise<void>;
};

const idOf = (hex: string) => BigInt(`0x${hex}`);

/**
 * That every name leads to a node and every node has its name, that permissions are there, and that the sizes
 * of the files of each share are what is counted. A share that is being taken apart needs none of it.
 */
export async function checkShares(engine: Engine, { problem, file }: Checking): Promise<void> {
  const whole = await wholeShares(engine);
  const sizes = new Map<bigint, number>();
  await each(
    engine,
    (tx, from) => entries.walk(tx, [], from),
    entries.packed,
    async ([share, directory, name], entry) => {
      if (!whole.has(share)) return;
      const node = await engine.read((tx) => nodes.get(tx, share, idOf(entry.id)));
      const isSame = node?.kind === entry.kind && node.name === entry.name;
      if (!isSame || idOf(node.parent) !== directory) {
        problem(`entry ${name} of directory ${directory}: its node ${entry.id} is not its own`);
      }
    },
  );
  await each(
    engine,
    (tx, from) => nodes.walk(tx, [], from),
    nodes.packed,
    async ([share, id], node) => {
      if (whole.has(share)) await checkNode(engine, share, node, problem);
      if (node.kind !== "file") return;
      sizes.set(share, (sizes.get(share) ?? 0) + node.size);
      await file(`file ${node.name} (${id})`, node);
    },
  );
  await each(
    engine,
    (tx, from) => oldNodes.walk(tx, [], from),
    oldNodes.packed,
    async ([, id, until], node) => {
      if (node.kind === "file") await file(`file ${id} as it was until ${until}`, node);
    },
  );
  await each(
    engine,
    (tx, from) => usage.walk(tx, [], from),
    usage.packed,
    async ([share], counted) => {
      const size = sizes.get(share) ?? 0;
      if (whole.has(share) && size !== counted) {
        problem(`share ${share}: its files have ${size} bytes, ${counted} are counted`);
      }
    },
  );
}

async function wholeShares(engine: Engine): Promise<Set<bigint>> {
  const ids = new Set<bigint>();
  await each(
    engine,
    (tx, from) => shares.walk(tx, [], from),
    shares.packed,
    async (_key, share) => void ids.add(idOf(share.id)),
  );
  await each(
    engine,
    (tx, from) => deletedShares.walk(tx, [], from),
    deletedShares.packed,
    async (_key, { share }) => void ids.add(idOf(share.id)),
  );
  return ids;
}

async function checkNode(
  engine: Engine,
  share: bigint,
  node: NodeRecord,
  problem: (line: string) => void,
): Promise<void> {
  const { id, parent, name, permission } = node;
  const { sddl, entry } = await engine.read(async (tx) => ({
    sddl: await permissions.get(tx, share, permission),
    entry: id === "0" ? { id } : await entries.get(tx, share, idOf(parent), folded(name)),
  }));
  if (sddl === undefined) problem(`file or directory ${name} (${idOf(id)}): it has no permission`);
  if (entry?.id !== id) problem(`file or directory ${name} (${idOf(id)}): no entry names it`);
}
