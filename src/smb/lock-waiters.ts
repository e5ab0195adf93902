import { overlap, type RangeLock } from "../rules/sharing.ts";
import type { Identity, OpenFile, Opens } from "../store/opens.ts";
import type { FileOpen } from "./file-open.ts";

type Waiter = {
  readonly open: FileOpen;
  readonly lock: RangeLock;
  /** Called when it has the lock. */
  readonly granted: () => void;
};
type Waiting = Waiter & { readonly stop: () => void };

/** The opens whose locks count for one: what a snapshot shows is not what is locked in the share. */
const besides = (opens: Opens, open: FileOpen): readonly OpenFile[] =>
  open.isSnapshot ? [open] : opens.of(open);

/** Whether an open may lock so beside what is locked: its own shared lock may lie on its own exclusive one. */
export function mayLock(opens: Opens, open: FileOpen, lock: RangeLock): boolean {
  return besides(opens, open).every((other) =>
    other.locks.every((held) => {
      if (!lock.exclusive && (!held.exclusive || other === open)) return true;
      return !overlap(held, lock);
    }),
  );
}

/** Whether reading or writing meets a lock: another's, and a write the open's own shared one too. */
export function mayTouch(
  opens: Opens,
  open: FileOpen,
  range: { readonly start: bigint; readonly count: bigint },
  writes: boolean,
): boolean {
  if (range.count === 0n) return true;
  return besides(opens, open).every((other) =>
    other.locks.every((held) => {
      const isAllowed = other === open ? !writes || held.exclusive : !writes && !held.exclusive;
      return isAllowed || !overlap(held, range);
    }),
  );
}

/** Requests for locks that others hold, in the order they came. */
export class LockWaiters {
  readonly #opens: Opens;
  readonly #waiting = new Map<string, Set<Waiting>>();

  constructor(opens: Opens) {
    this.#opens = opens;
  }

  /** Waits for a lock; what this gives ends the waiting. */
  wait(waiter: Waiter): () => void {
    const key = keyOf(waiter.open);
    const waiting = this.#waiting.get(key) ?? new Set();
    const stop = () => {
      waiting.delete(entered);
      if (waiting.size === 0 && this.#waiting.get(key) === waiting) this.#waiting.delete(key);
    };
    const entered: Waiting = { ...waiter, stop };
    waiting.add(entered);
    this.#waiting.set(key, waiting);
    return stop;
  }

  /** Something was unlocked: those who waited for it get theirs, in their order. */
  released(identity: Identity): void {
    const key = keyOf(identity);
    for (const waiter of [...(this.#waiting.get(key) ?? [])]) {
      if (!mayLock(this.#opens, waiter.open, waiter.lock)) continue;
      // It waits no more from here on: something else may be unlocked before its request goes on.
      waiter.stop();
      waiter.open.locks = [...waiter.open.locks, waiter.lock];
      waiter.granted();
    }
  }
}

const keyOf = ({ share, file }: Identity): string => `${share}/${file}`;
