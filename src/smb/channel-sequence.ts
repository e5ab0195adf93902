/** Half of all numbers are later than one, the other half earlier: they begin anew after the last. */
const LATER_MAX = 0x7fff;

/** What a client has running on one of its opens, by the times it has lost its connection (MS-SMB2 3.3.1.10). */
export class ChannelSequence {
  #number: number;
  #losses = 0;
  #running = 0;
  #runningBefore = 0;

  constructor(number: number) {
    this.#number = number;
  }

  /**
   * A request begins; what this gives is to be called when it is over. Undefined refuses one that changes
   * something: it was sent before the client lost its connection, or is sent again while its first sending may
   * still have its effect (MS-SMB2 3.3.5.2.10).
   */
  begin(request: {
    readonly number: number;
    readonly isAgain: boolean;
    readonly changes: boolean;
  }): (() => void) | undefined {
    const later = (request.number - this.#number) & 0xffff;
    if (later > LATER_MAX) return request.changes ? undefined : () => {};
    if (later > 0) this.restart(request.number);
    if (request.changes && request.isAgain && this.#runningBefore > 0) return undefined;
    this.#running++;
    const losses = this.#losses;
    return () => {
      if (losses === this.#losses) this.#running--;
      else this.#runningBefore--;
    };
  }

  /** The client has lost its connection, and counts on from here; one that logs on anew may begin anew. */
  restart(number: number): void {
    this.#runningBefore += this.#running;
    this.#running = 0;
    this.#number = number;
    this.#losses++;
  }
}
