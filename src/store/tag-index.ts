import type { WriteTx } from "../engine/engine.ts";
import type { Tags } from "../rules/tags.ts";
import { tagIndex } from "./keys.ts";

/** Which blob the index speaks of. */
export type Tagged = {
  readonly account: string;
  readonly containerName: string;
  readonly container: bigint;
  readonly name: string;
};

/** Keeps the index of a current blob's tags; it holds one row for each, so a search reads only what it finds. */
export function indexTags(
  tx: WriteTx,
  { account, containerName, container, name }: Tagged,
  before: Tags | undefined,
  after: Tags | undefined,
): void {
  if (before === after) return;
  for (const key in before) {
    const value = before[key] as string;
    if (after?.[key] !== value) tagIndex.delete(tx, account, key, value, container, name);
  }
  for (const key in after) {
    const value = after[key] as string;
    if (before?.[key] !== value) {
      tagIndex.put(tx, [account, key, value, container, name], { container: containerName });
    }
  }
}
