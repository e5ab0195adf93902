import type { Around } from "./around.ts";
import type { FileOpen } from "./file-open.ts";
import { HOLD_HANDLE, type Holding } from "./holdings.ts";

function othersOf({ opens }: Around, open: FileOpen): Holding[] {
  if (open.isSnapshot) return [];
  const all = (opens.of(open) as FileOpen[]).flatMap(({ holding }) => holding ?? []);
  return [...new Set(all)].filter((holding) => holding !== open.holding);
}

/** The bytes of a file change: what others have read and kept is told to be old. Nobody waits for that. */
export function breakReaders(around: Around, open: FileOpen): void {
  for (const holding of othersOf(around, open)) void around.holdings.break(holding, 0);
  // An oplock of the open itself that only covers reads goes too; a lease knows its own writes.
  const own = open.holding;
  if (own !== undefined && own.lease === undefined && own.state === 1) {
    void around.holdings.break(own, 0);
  }
}

/** The file is about to go or to be renamed: others must close what they only keep for later. */
export function breakHandles(around: Around, open: FileOpen): Promise<unknown> | undefined {
  const waits = othersOf(around, open)
    .filter(({ state }) => (state & HOLD_HANDLE) !== 0)
    .flatMap((holding) => around.holdings.break(holding, holding.state & ~HOLD_HANDLE) ?? []);
  return waits.length === 0 ? undefined : Promise.all(waits);
}
