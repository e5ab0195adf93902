import type { ReadTx } from "../engine/engine.ts";
import { containers, queues, shares, tables } from "./keys.ts";
import type { AccessPolicy } from "./records.ts";

/** What a container, queue, table or share says of who may use it. */
export type Access = {
  readonly policies: readonly AccessPolicy[];
  readonly publicAccess?: "container" | "blob";
  readonly encryptionScope?: string;
  readonly denyScopeOverride?: boolean;
};

/** Reads it where a request's first name points; undefined where nothing is there. */
export async function accessOf(
  tx: ReadTx,
  { service, account, names: [name = ""] }: AccessPlace,
): Promise<Access | undefined> {
  if (service === "blob") return containers.get(tx, account, name);
  if (service === "queue") return queues.get(tx, account, name);
  if (service === "table") return tables.get(tx, account, name.toLowerCase());
  if (service === "file") return shares.get(tx, account, name);
  return undefined;
}

export type AccessPlace = {
  readonly service: "blob" | "queue" | "table" | "file";
  readonly account: string;
  readonly names: readonly string[];
};
