import type { Instant, Tick } from "../base/time.ts";

/**
 * Ordered keys in transactions; what every engine must offer, and all that it must offer.
 * engine/conformance.ts holds each promise as a test.
 */
export type Engine = {
  /**
   * Runs `body` on one committed state. What it returns is given out only when that state is durable, as
   * far as `body` looked at it: nobody learns what a power cut could still undo.
   */
  read<T>(body: (tx: ReadTx) => Promise<T>, given?: Given): Promise<T>;
  /**
   * Runs `body` alone, as if no other transaction ran beside it, and makes its writes durable before the
   * promise resolves. If `body` throws, none of its writes happen. It may run again after a conflict, so
   * it has no effect but its writes, and it awaits nothing but `tx`.
   */
  write<T>(body: (tx: WriteTx) => Promise<T>, given?: Given): Promise<T>;
  /** Resolves when all that bodies have written by now is durable, however soon their results were given out. */
  settled(): Promise<void>;
  /** Finishes what has begun, then lets go of the data directory. */
  close(): Promise<void>;
};

/**
 * When a result is given out: once all that it tells of is durable, which is the rule, or "soon", when the
 * bodies that come next see it. The latter is for protocols that have a request of their own to make sure.
 */
export type Given = "durable" | "soon";

export type Entry = { readonly key: Uint8Array; readonly value: Uint8Array };

/** Keys from `from` up to but not `to`, in byte order, or from the last one down. */
export type RangeQuery = {
  readonly from: Uint8Array;
  readonly to: Uint8Array;
  readonly limit: number;
  readonly reverse?: boolean;
};

export type ReadTx = {
  /** The time of this transaction; it is never before that of one that came before it, read or write. */
  readonly now: Instant;
  get(key: Uint8Array): Promise<Uint8Array | undefined>;
  range(query: RangeQuery): Promise<readonly Entry[]>;
  /** A value of the heap: see `WriteTx.putHeap`. */
  getHeap(id: Tick): Promise<Uint8Array | undefined>;
  /** The numbers of the heap's values behind `after`, the first `limit` of them, in order. */
  heapIds(after: Tick, limit: number): Promise<readonly Tick[]>;
};

export type WriteTx = ReadTx & {
  /** The next tick: later than every tick before it, also those before a restart or a clock's step back. */
  tick(): Tick;
  put(key: Uint8Array, value: Uint8Array): void;
  delete(key: Uint8Array): void;
  /**
   * The heap holds larger values by number, for engines that keep them better apart from the ordered keys.
   * The number is a tick of this transaction, so none is ever given to two of them.
   */
  putHeap(id: Tick, value: Uint8Array): void;
  deleteHeap(id: Tick): void;
  /**
   * A value that this transaction has put takes the number and the place of an older one, which is gone with it:
   * cheaper than a new place and a hole. False, and nothing happens, if this transaction has put no such value.
   */
  moveHeap(from: Tick, to: Tick): boolean;
  /**
   * `effect` happens once the transaction is durable and no read that began before it is under way, so that it
   * may free what such a read is about to hold; and not at all if the transaction fails.
   */
  afterCommit(effect: () => void): void;
};
