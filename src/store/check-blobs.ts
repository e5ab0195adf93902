import { createHash } from "node:crypto";
import type { Instant } from "../base/time.ts";
import type { ByteUses } from "./check-bytes.ts";
import { Census, type Checking, each } from "./checking.ts";
import {
  blobs,
  blocks,
  containerIds,
  containers,
  copies,
  deletedContainers,
  purges,
  snapshots,
  tagIndex,
  uncommitted,
  versions,
} from "./keys.ts";
import type { BlobRecord, Content, PurgeRecord } from "./records.ts";

type Container = { readonly account: string; readonly isDropped: boolean };
type Purged = Extract<PurgeRecord, { readonly what: "blob" | "snapshot" | "version" }>["what"];
export type BlobChecking = Checking & {
  readonly bytes: ByteUses;
  /** A record names content that is written in place. */
  sparse(what: string, content: Content): void;
};

const idOf = (text: string) => BigInt(`0x${text}`);
const hex = (id: bigint) => id.toString(16);

/** Blobs with all their states and blocks, their containers, and the rows that lead to them. */
export async function checkBlobs(
  checking: BlobChecking,
  dropped: ReadonlyMap<string, string>,
): Promise<void> {
  const due = await purgesIn(checking);
  const known = await knownContainers(checking, due, dropped);
  const { problem } = checking;
  const visit = async (what: string, id: bigint, record: BlobRecord) => {
    if (!known.has(id)) problem(`${what}: its container ${hex(id)} is not there`);
    const { content, size } = record;
    const found = await checking.bytes.useContent(what, content);
    checking.sparse(what, content);
    if (found !== undefined && found !== size) {
      problem(`${what}: ${found} bytes are there, ${size} should be`);
    }
  };
  await each(checking, "blob", blobs, async ([id, name], blob) => {
    const what = `blob ${name}`;
    await visit(what, id, blob);
    await checkTags(checking, known.get(id), { what, id, name, blob });
    checkPurge(checking, due, { what, kind: "blob", id, name }, blob);
    if (blob.copy?.status !== "pending") return;
    const copy = await checking.engine.read((tx) => copies.get(tx, id, name));
    if (copy === undefined) problem(`${what}: it waits for a copy that nobody makes`);
  });
  for (const [kind, rows] of [
    ["snapshot", snapshots],
    ["version", versions],
  ] as const) {
    await each(checking, kind, rows, async ([id, name, at], blob) => {
      const what = `${kind} of ${name}`;
      await visit(what, id, blob);
      checkPurge(checking, due, { what, kind, id, name, at }, blob);
    });
  }
  await checkBlocks(checking, known);
  await each(checking, "tag", tagIndex, async ([account, key, value, id, name]) => {
    const blob = await checking.engine.read((tx) => blobs.get(tx, id, name));
    const owner = known.get(id)?.account ?? "";
    const isOthers = owner !== "" && owner !== account;
    if (isOthers || blob?.deleted !== undefined || blob?.tags?.[key] !== value) {
      problem(`tag ${key}=${value} of ${name}: there is no such blob`);
    }
  });
  await each(checking, "copy", copies);
}

/** What time removes, and when: as numbers that stand for it, because very much may be due at one time. */
async function purgesIn(checking: Checking): Promise<Census> {
  const due = new Census();
  await each(checking, "purge", purges, ([time], record) => due.add(purgeNumber(time, record)));
  due.close();
  return due;
}

function purgeNumber(time: bigint, record: PurgeRecord): bigint {
  const { what, account, name, at } = record;
  const owner = record.what === "container" ? account : record.container;
  const text = JSON.stringify([String(time), what, owner, name, at ?? ""]);
  return createHash("sha256").update(text).digest().readBigUInt64BE();
}

const timeOf = (at: Instant): bigint => BigInt(Math.ceil(at));

async function knownContainers(
  checking: Checking,
  due: Census,
  dropped: ReadonlyMap<string, string>,
): Promise<Map<bigint, Container>> {
  const { engine, problem } = checking;
  const known = new Map<bigint, Container>();
  await each(checking, "container", containers, async ([account, name], { id }) => {
    known.set(idOf(id), { account, isDropped: false });
    const number = await engine.read((tx) => containerIds.get(tx, account, name));
    if (number !== idOf(id)) problem(`container ${account}/${name}: its two records differ`);
  });
  await each(checking, "container number", containerIds, async ([account, name], id) => {
    if (known.has(id)) return;
    const record = await engine.read((tx) => containers.get(tx, account, name));
    if (record === undefined) {
      problem(`container ${account}/${name}: its number is there, its record is not`);
    }
  });
  await each(checking, "deleted container", deletedContainers, async (key, { id, deleted }) => {
    const [account, name, at] = key;
    known.set(idOf(id), { account, isDropped: false });
    const purge = { what: "container", account, name, at: hex(at) } as const;
    const isDue = due.has(purgeNumber(timeOf(deleted?.until ?? 0), purge));
    if (!isDue) problem(`deleted container ${account}/${name}: nothing removes it in the end`);
  });
  for (const [id, account] of dropped) known.set(idOf(id), { account, isDropped: true });
  return known;
}

async function checkTags(
  { engine, problem }: Checking,
  container: Container | undefined,
  { what, id, name, blob }: { what: string; id: bigint; name: string; blob: BlobRecord },
): Promise<void> {
  const account = container?.account ?? "";
  if (blob.deleted !== undefined || account === "") return;
  for (const [key, value] of Object.entries(blob.tags ?? {})) {
    const row = await engine.read((tx) => tagIndex.get(tx, account, key, value, id, name));
    if (row === undefined) problem(`${what}: a search for its tag ${key} does not find it`);
  }
}

/** That what time removes has a row by which it does; what is immutable may have got another one since. */
function checkPurge(
  { problem }: Checking,
  due: Census,
  {
    what,
    kind,
    id,
    name,
    at,
  }: { what: string; kind: Purged; id: bigint; name: string; at?: bigint },
  { deleted, expiresAt, immutability, legalHold }: BlobRecord,
): void {
  const until = deleted?.until ?? expiresAt;
  if (until === undefined || immutability !== undefined || legalHold !== undefined) return;
  const purge: PurgeRecord = {
    ...{ what: kind, account: "", container: hex(id), name },
    ...(at === undefined ? {} : { at: hex(at) }),
  };
  if (due.has(purgeNumber(timeOf(until), purge))) return;
  problem(`${what}: nothing removes it when its time is over`);
}

/** Blocks that no list has named: their bytes, and that their blob's mark counts them. */
async function checkBlocks(
  checking: BlobChecking,
  known: ReadonlyMap<bigint, Container>,
): Promise<void> {
  const { engine, problem, bytes } = checking;
  let current: { readonly id: bigint; readonly name: string; count: number } | undefined;
  const compare = async () => {
    if (current === undefined) return;
    const { id, name, count } = current;
    if (known.get(id)?.isDropped === true) return; // it is being taken apart
    const mark = await engine.read((tx) => uncommitted.get(tx, id, name));
    if (mark === undefined) problem(`blocks of ${name}: the mark that there are some is missing`);
    else if (mark.count !== count) {
      problem(`blocks of ${name}: ${count} are there, ${mark.count} are counted`);
    }
  };
  await each(checking, "block", blocks, async ([id, name, block], { size, chunks }) => {
    if (current?.id !== id || current.name !== name) {
      await compare();
      current = { id, name, count: 0 };
    }
    current.count++;
    const what = `block ${block} of ${name}`;
    if (!known.has(id)) problem(`${what}: its container ${hex(id)} is not there`);
    const content = { pieces: chunks.map((chunk) => ({ chunk })) };
    const found = await bytes.useContent(what, content);
    if (found !== size) problem(`${what}: ${found} bytes are there, ${size} should be`);
  });
  await compare();
  await each(checking, "mark of blocks", uncommitted, async ([id, name]) => {
    if (known.get(id)?.isDropped === true) return;
    const [block] = await engine.read((tx) => blocks.walk(tx, [id, name], { limit: 1 }));
    if (block === undefined) problem(`blocks of ${name}: they are marked, and there are none`);
  });
}
