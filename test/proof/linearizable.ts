/** One operation of a client on one object, as its client saw it. */
export type Call<I, O> = {
  readonly client: number;
  readonly input: I;
  /** What was answered; undefined if no answer came, and then nobody knows whether it happened. */
  readonly output: O | undefined;
  /** When it was sent, on a clock that only runs forward; no two events have the same time. */
  readonly from: number;
  /** When the answer was there; infinite if none came. */
  readonly to: number;
  /** What the server's clock may have said while it ran; for what time alone changes. */
  readonly clock?: Span;
};

export type Span = { readonly least: number; readonly most: number };

/** A kind of object, as a function: what one operation after another does to it. */
export type Model<S, I, O> = {
  readonly initial: S;
  /**
   * Every state that the call may lead to from this one; none if it cannot have been answered so. A call
   * without an output gives only the states it leads to if it takes effect.
   */
  next(state: S, call: Call<I, O>): readonly S[];
  /** States with the same text are the same state. */
  text(state: S): string;
};

export type Verdict<S, I, O> =
  | { readonly kind: "linearizable"; readonly order: readonly Call<I, O>[] }
  | {
      readonly kind: "violated";
      /** The longest order that was found, the state it leads to, and what could not come next. */
      readonly order: readonly Call<I, O>[];
      readonly state: S;
      readonly stuck: readonly Call<I, O>[];
    }
  /** The search was given up: nothing is known. */
  | { readonly kind: "unknown" };

/** One moment of the history, in a list from which what is already placed is taken out. */
type Moment<I, O> = {
  readonly call: Call<I, O>;
  readonly index: number;
  readonly isBegin: boolean;
  /** The other moment of the same call, if it has ended. */
  twin: Moment<I, O> | undefined;
  before: Moment<I, O> | undefined;
  after: Moment<I, O> | undefined;
};

type Frame<S, I, O> = {
  readonly moment: Moment<I, O>;
  /** The state before the call, and those it could lead to that are still to be tried. */
  readonly state: S;
  readonly others: S[];
};

const STEPS_MAX = 500_000;

/**
 * Looks for an order of the calls in which each happens between its begin and its end, and in which the model
 * gives every answer. Wing and Gong's search: place any call that began before the first end among those that
 * are left, go on from there, and come back when it leads nowhere. What was placed together with the state it
 * led to is remembered and not tried twice (Lowe).
 */
export function linearized<S, I, O>(
  model: Model<S, I, O>,
  calls: readonly Call<I, O>[],
  stepsMax = STEPS_MAX,
): Verdict<S, I, O> {
  const list = momentsOf(calls);
  const placed = new Placed(calls.length);
  const seen = new Set<string>();
  const frames: Frame<S, I, O>[] = [];
  let left = calls.filter(isEnded).length;
  let state = model.initial;
  let best: { order: Call<I, O>[]; state: S } = { order: [], state };
  let at = list.after;
  for (let steps = 0; left > 0; steps++) {
    if (steps >= stepsMax) return { kind: "unknown" };
    if (at?.isBegin) {
      const { call, index } = at;
      placed.add(index);
      const fresh = model.next(state, call).filter((next) => !seen.has(textOf(next)));
      const next = fresh.pop();
      if (next === undefined) {
        placed.delete(index);
        at = at.after;
        continue;
      }
      seen.add(textOf(next));
      frames.push({ moment: at, state, others: fresh });
      state = next;
      takeOut(at);
      if (isEnded(call)) left--;
      if (frames.length > best.order.length) {
        best = { order: frames.map(({ moment }) => moment.call), state };
      }
      at = list.after;
      continue;
    }
    // The end of a call that is not placed (or of the list): one of those before it was placed wrongly.
    const frame = frames.pop();
    if (frame === undefined) return { kind: "violated", ...best, stuck: stuckAfter(best, calls) };
    const other = frame.others.pop();
    if (other !== undefined) {
      const text = textOf(other);
      frames.push(frame);
      if (seen.has(text)) continue;
      seen.add(text);
      state = other;
      at = list.after;
      continue;
    }
    placed.delete(frame.moment.index);
    putBack(frame.moment);
    if (isEnded(frame.moment.call)) left++;
    state = frame.state;
    at = frame.moment.after;
  }
  return { kind: "linearizable", order: frames.map(({ moment }) => moment.call) };

  function textOf(next: S): string {
    return `${placed.text()} ${model.text(next)}`;
  }
}

const isEnded = ({ to }: Call<unknown, unknown>): boolean => to !== Number.POSITIVE_INFINITY;

/** What had begun before anything that is left ended, and yet fits nowhere. */
function stuckAfter<S, I, O>(
  { order }: { order: readonly Call<I, O>[]; state: S },
  calls: readonly Call<I, O>[],
): Call<I, O>[] {
  const done = new Set(order);
  const rest = calls.filter((call) => !done.has(call));
  const end = Math.min(...rest.map(({ to }) => to));
  return rest.filter(({ from }) => from < end);
}

/** The head of the list of moments in the order of time. Calls without an end have only a begin. */
function momentsOf<I, O>(calls: readonly Call<I, O>[]): Moment<I, O> {
  // Those without an end stay in the list longest: they come last in the set of what is placed.
  const numbered = [...calls].sort(
    (a, b) => Number(isEnded(b)) - Number(isEnded(a)) || a.from - b.from,
  );
  const moments = numbered.flatMap((call, index) => {
    const rest = { call, index, twin: undefined, before: undefined, after: undefined };
    const begin: Moment<I, O> = { ...rest, isBegin: true };
    if (!isEnded(call)) return [begin];
    const end: Moment<I, O> = { ...rest, isBegin: false, twin: begin };
    begin.twin = end;
    return [begin, end];
  });
  const timeOf = ({ call, isBegin }: Moment<I, O>) => (isBegin ? call.from : call.to);
  // Of two moments at the same time the begin comes first: they may have overlapped.
  moments.sort((a, b) => timeOf(a) - timeOf(b) || Number(b.isBegin) - Number(a.isBegin));
  const head = { isBegin: false, index: -1 } as Moment<I, O>;
  let last = head;
  for (const moment of moments) {
    last.after = moment;
    moment.before = last;
    last = moment;
  }
  return head;
}

function takeOut<I, O>(moment: Moment<I, O>): void {
  for (const each of [moment, moment.twin]) {
    if (each?.before !== undefined) each.before.after = each.after;
    if (each?.after !== undefined) each.after.before = each.before;
  }
}

/** The opposite of `takeOut`, in the opposite order. */
function putBack<I, O>(moment: Moment<I, O>): void {
  for (const each of [moment.twin, moment]) {
    if (each?.before !== undefined) each.before.after = each;
    if (each?.after !== undefined) each.after.before = each;
  }
}

const WORD_BITS = 32;

/** Which calls are placed; as a text it leaves out the words at the beginning that are full. */
class Placed {
  readonly #words: Uint32Array;

  constructor(count: number) {
    this.#words = new Uint32Array(Math.ceil(count / WORD_BITS));
  }

  add(index: number): void {
    const word = Math.floor(index / WORD_BITS);
    this.#words[word] = ((this.#words[word] ?? 0) | (1 << (index % WORD_BITS))) >>> 0;
  }

  delete(index: number): void {
    const word = Math.floor(index / WORD_BITS);
    this.#words[word] = ((this.#words[word] ?? 0) & ~(1 << (index % WORD_BITS))) >>> 0;
  }

  text(): string {
    let first = 0;
    while (this.#words[first] === 0xffff_ffff) first++;
    let end = this.#words.length;
    while (end > first && this.#words[end - 1] === 0) end--;
    let text = `${first}`;
    for (let at = first; at < end; at++) text += `.${this.#words[at]?.toString(36)}`;
    return text;
  }
}
