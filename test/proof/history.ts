import { type Call, linearized } from "./linearizable.ts";
import type { AnySubject, Told } from "./traffic.ts";

/** A call that is being recorded: without an answer until there is one. */
type Recorded = { -readonly [K in keyof Call<unknown, Told>]: Call<unknown, Told>[K] } & {
  clock: { least: number; most: number };
};

/** Where the server's clock is, as far as clients can tell. */
export type KnownClock = {
  /** What it says now. */
  now(): number;
  /** The latest it has ever said, with all that ticks may have run ahead of it. */
  highest(): number;
};

/** What clients did to objects, with the times of their requests and answers. */
export class History {
  readonly #objects = new Map<string, { subject: AnySubject; calls: Recorded[] }>();
  readonly #open = new Set<Recorded>();
  readonly #clock: KnownClock;
  #time = 0;
  /** Requests of each kind of answer. */
  answered = 0;
  unanswered = 0;

  constructor(clock: KnownClock) {
    this.#clock = clock;
  }

  /** Begins a call; what it gives ends it with its answer, or strikes it out as one that cannot have happened. */
  begin(subject: AnySubject, object: string, client: number, input: unknown) {
    const known = this.#objects.get(object) ?? { subject, calls: [] };
    this.#objects.set(object, known);
    const call: Recorded = {
      ...{ client, input, output: undefined, from: ++this.#time, to: Number.POSITIVE_INFINITY },
      clock: { least: this.#clock.now(), most: Number.POSITIVE_INFINITY },
    };
    known.calls.push(call);
    this.#open.add(call);
    this.unanswered++;
    return {
      end: (output: Told) => {
        if (!this.#open.delete(call)) return;
        call.output = output;
        call.to = ++this.#time;
        call.clock.most = this.#clock.highest();
        this.unanswered--;
        this.answered++;
      },
      strike: () => {
        if (!this.#open.delete(call)) return;
        known.calls.splice(known.calls.indexOf(call), 1);
        this.unanswered--;
      },
    };
  }

  /** The clock was set back: what runs may see that time too. */
  stepped(): void {
    for (const { clock } of this.#open) clock.least = Math.min(clock.least, this.#clock.now());
  }

  /** What is open now will not be answered any more. */
  forget(): void {
    this.#open.clear();
  }

  /** Every object whose history has no order, told in full; and how many could not be judged. */
  judged(): { objects: number; violations: string[]; unknown: number } {
    const violations: string[] = [];
    let unknown = 0;
    for (const [object, { subject, calls }] of this.#objects) {
      const verdict = linearized(subject.model, calls);
      if (verdict.kind === "unknown") unknown++;
      if (verdict.kind !== "violated") continue;
      const lines = [
        `${subject.name} ${object}: no order of its ${calls.length} operations gives these answers`,
        "  the last of those that have one:",
        ...verdict.order.slice(-12).map(line),
        `  lead to ${JSON.stringify(verdict.state)}`,
        "  where none of these fits:",
        ...verdict.stuck.map(line),
      ];
      violations.push(lines.join("\n"));
    }
    return { objects: this.#objects.size, violations, unknown };
  }
}

const line = ({ client, input, output, from, to, clock }: Call<unknown, unknown>): string =>
  `    ${from}–${to} client ${client} ${JSON.stringify(input)} → ${JSON.stringify(output)} ${clock?.least}–${clock?.most}`;
