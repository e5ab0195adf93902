import { tickOf } from "../file/namespace.ts";
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
