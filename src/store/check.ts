import { sizeText } from "../base/progress.ts";
import type { Engine } from "../engine/engine.ts";
import type { FileReader } from "../engine/files.ts";
import { checkBlobs } from "./check-blobs.ts";
import { ByteUses } from "./check-bytes.ts";
import { SparseUses } from "./check-layers.ts";
import { checkQueues } from "./check-queues.ts";
import { checkShares } from "./check-shares.ts";
import { type Checking, each } from "./checking.ts";
import * as keys from "./keys.ts";
import { checkTables } from "./table-check.ts";

export type CheckOptions = {
  /** Takes a line for each problem, and one at the end. */
  readonly say: (line: string) => void;
  /** Takes how far it has come, again and again. */
  readonly told?: (text: () => string) => void;
  /** What the engine finds wrong with its own file. */
  readonly complaints?: () => readonly string[];
  /** Called when no more records will be read. */
  readonly recordsRead?: () => void;
  /** That somebody writes meanwhile, so that there may be files which no record names yet, or any more. */
  readonly isServed?: boolean;
};

/**
 * Looks at every record, follows every reference and compares every byte with its sum; counts who names what,
 * and looks for rows and files that nobody names. Gives how many problems there are.
 */
export async function check(
  engine: Engine,
  files: FileReader,
  { say, told = () => {}, complaints, recordsRead, isServed = false }: CheckOptions,
): Promise<number> {
  let problems = 0;
  let records = 0;
  const checking: Checking = {
    engine,
    problem(line) {
      problems++;
      say(line);
    },
    counted() {
      records++;
      told(() => `records: ${records}`);
    },
  };
  for (const line of complaints?.() ?? []) checking.problem(`database: ${line}`);
  const bytes = new ByteUses(checking);
  const sparse = new SparseUses(checking);
  const work = await garbageIn(checking);
  await bytes.prepare();
  await sparse.prepare();
  const named = { ...checking, bytes, sparse: sparse.name.bind(sparse) };
  await checkBlobs(named, work.containers);
  await checkShares(named, work);
  await checkQueues(named, work.messages);
  await checkTables(checking, work.tables);
  await sparse.compare(bytes, work);
  await bytes.compare(work.lists);
  await each(checking, "service", keys.services);
  await each(checking, "change", keys.changes);
  await each(checking, "change feed", keys.changeFeeds);
  await findUnknown(checking);
  recordsRead?.();
  await bytes.readFiles(files, (done, all) =>
    told(() => `files: ${sizeText(done)} of ${sizeText(all)}`),
  );
  if (!isServed) await bytes.findOrphans(files);
  say(`${records} records with ${bytes.bytes} bytes read, ${problems} problems`);
  return problems;
}

/** What the background has still to do: things that look as if nobody named them. */
async function garbageIn(checking: Checking) {
  const work = {
    lists: new Set<string>(),
    messages: new Set<bigint>(),
    tables: new Set<bigint>(),
    shares: new Set<bigint>(),
    histories: new Set<bigint>(),
    layers: new Set<string>(),
    rows: new Set<string>(),
    wholes: new Set<string>(),
    /** Whose it was, as far as that is known. */
    containers: new Map<string, string>(),
  };
  const idOf = (text: string) => BigInt(`0x${text}`);
  await each(checking, "garbage", keys.garbage, (_key, value) => {
    if ("list" in value) work.lists.add(value.list);
    else if ("container" in value) work.containers.set(value.container, value.account ?? "");
    else if ("messages" in value) work.messages.add(idOf(value.messages));
    else if ("table" in value) work.tables.add(idOf(value.table));
    else if ("share" in value) work.shares.add(idOf(value.share));
    else if ("history" in value) work.histories.add(idOf(value.history));
    else if ("layer" in value) work.layers.add(value.layer);
    else if ("rows" in value) work.rows.add(value.rows);
    else work.wholes.add(value.whole);
  });
  return work;
}

/** Keys of no kind that this version knows. */
async function findUnknown({ engine, problem }: Checking): Promise<void> {
  const known = new Set(Object.values(keys).map((kind) => kind.packed([])[0]));
  for (let first = 0; first < 255; first++) {
    if (known.has(first)) continue;
    const range = { from: Buffer.of(first), to: Buffer.of(first + 1), limit: 1 };
    const [row] = await engine.read((tx) => tx.range(range));
    if (row !== undefined)
      problem(`keys that begin with ${first}: this version knows no such kind`);
  }
}
