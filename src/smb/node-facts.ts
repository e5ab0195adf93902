import { ROOT, tickOf } from "../file/namespace.ts";
import { DIRECTORY } from "../rules/smb-properties.ts";
import type { NodeRecord } from "../store/file-records.ts";
import { fileTimeOf } from "./times.ts";

const CLUSTER = 4096;
const NORMAL = 0x80;

/** Attributes as SMB tells them: a file that has none is a normal one. */
export function attributesOf({ attributes, kind }: NodeRecord): number {
  const bits = kind === "directory" ? attributes | DIRECTORY : attributes;
  return bits === 0 ? NORMAL : bits;
}

/** No client takes 0 for a file's number: it stands for having none (MS-FSCC 2.1.9). No file has that of the root. */
const ROOT_NUMBER = 1n;

/** The number that clients know a file or directory by, on Linux as its inode. */
export const numberOf = (file: bigint): bigint => (file === ROOT ? ROOT_NUMBER : file);

/** The room a file takes, or has been promised, in whole clusters. */
export function allocationOf(node: NodeRecord, promised = 0): number {
  const size = node.kind === "file" ? Math.max(node.size, promised) : 0;
  return Math.ceil(size / CLUSTER) * CLUSTER;
}

const time = (hex: string): bigint => fileTimeOf(tickOf(hex));

export const timesOf = (node: NodeRecord) => ({
  creationTime: time(node.createdAt),
  lastAccessTime: time(node.accessedAt ?? node.writtenAt),
  lastWriteTime: time(node.writtenAt),
  changeTime: time(node.changedAt),
});
