/** How many message numbers a client may have at hand. */
export const CREDITS_MAX = 8192;

/** The message numbers that a client may use, each once (MS-SMB2 3.3.1.1). */
export class Credits {
  /** The lowest number that is not used yet; `#used` holds those above it that are. */
  #low = 0;
  #end = 1;
  readonly #used = new Set<number>();

  /** Takes the numbers of a request; false if one of them was not granted, or was used before. */
  take(messageId: bigint, charge: number): boolean {
    if (messageId > BigInt(Number.MAX_SAFE_INTEGER)) return false;
    const first = Number(messageId);
    if (first < this.#low || first + charge > this.#end) return false;
    for (let id = first; id < first + charge; id++) if (this.#used.has(id)) return false;
    for (let id = first; id < first + charge; id++) this.#used.add(id);
    while (this.#used.delete(this.#low)) this.#low++;
    return true;
  }

  /** Grants as many numbers as were asked for, one at least, as far as the window reaches. */
  grant(asked: number): number {
    const count = Math.min(Math.max(asked, 1), this.#low + CREDITS_MAX - this.#end);
    this.#end += count;
    return count;
  }
}
