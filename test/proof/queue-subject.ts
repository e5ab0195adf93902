import type { Random } from "../simulation/power-cut.ts";
import type { Call, Span } from "./linearizable.ts";
import { type Answer, made, type Subject, toldBy } from "./traffic.ts";

export type QueueInput =
  | { readonly kind: "put"; readonly word: string; readonly hidden: number }
  | { readonly kind: "receive"; readonly count: number; readonly hidden: number }
  | { readonly kind: "peek" }
  | {
      readonly kind: "update";
      readonly id: string;
      readonly receipt: string;
      readonly word: string;
      readonly hidden: number;
      readonly text?: string;
    }
  | { readonly kind: "delete"; readonly id: string; readonly receipt: string };

/** A message as an answer tells it. */
type Shown = {
  readonly id: string;
  readonly receipt: string | undefined;
  readonly count: number;
  readonly text: string;
};
export type QueueOutput = {
  readonly told: string;
  readonly messages?: readonly Shown[];
  readonly receipt?: string | undefined;
};

/** `word` is what it was first put as, which names it for good; it comes back between the two times. */
type Message = {
  readonly word: string;
  readonly text: string;
  /** Undefined while nobody was told. */
  readonly id: string | undefined;
  readonly receipt: string | undefined;
  readonly count: number;
  readonly backFrom: number;
  readonly backTo: number;
};
type State = readonly Message[];

const PEEK_MAX = 32;
const anyTime: Span = { least: Number.NEGATIVE_INFINITY, most: Number.POSITIVE_INFINITY };

function next(state: State, call: Call<QueueInput, QueueOutput>): State[] {
  const { input, output, clock = anyTime } = call;
  const back = (hidden: number) => ({
    backFrom: clock.least + hidden * 1000,
    backTo: clock.most + hidden * 1000,
  });
  switch (input.kind) {
    case "put": {
      if (output !== undefined && output.told !== "201") return [];
      const [shown] = output?.messages ?? [];
      const { word } = input;
      const told = { id: shown?.id, receipt: shown?.receipt };
      const put = { word, text: word, ...told, count: 0, ...back(input.hidden) };
      return [[...state, put].sort((a, b) => (a.word < b.word ? -1 : 1))];
    }
    case "receive": {
      const may = state.filter(({ backFrom }) => backFrom <= clock.most);
      if (output === undefined) {
        // It took some, nobody knows which; at most two were asked for.
        const taken = (each: Message): Message => ({
          ...{ ...each, receipt: undefined, count: each.count + 1 },
          ...back(input.hidden),
        });
        const one = may.map((a) => state.map((each) => (each === a ? taken(each) : each)));
        if (input.count === 1) return one;
        const two = may.flatMap((a, index) =>
          may
            .slice(index + 1)
            .map((b) => state.map((each) => (each === a || each === b ? taken(each) : each))),
        );
        return [...one, ...two];
      }
      const shown = seen(state, call, input.count, (message, each) => ({
        ...{ ...message, id: each.id, receipt: each.receipt, count: each.count },
        ...back(input.hidden),
      }));
      return shown === undefined ? [] : [shown];
    }
    case "peek": {
      const shown = seen(state, call, PEEK_MAX, (message, { id }) => ({ ...message, id }));
      return shown === undefined ? [] : [shown];
    }
    case "update": {
      const found = state.find(({ id, receipt }) => id === input.id && receipt === input.receipt);
      if (output === undefined || output.told === "204") {
        if (found === undefined) return [];
        const text = input.text ?? found.text;
        const after = { ...found, text, receipt: output?.receipt, ...back(input.hidden) };
        return [state.map((each) => (each === found ? after : each))];
      }
      return found === undefined && output.told === "404 MessageNotFound" ? [state] : [];
    }
    case "delete": {
      const found = state.find(({ id, receipt }) => id === input.id && receipt === input.receipt);
      if (output === undefined || output.told === "204") {
        return found === undefined ? [] : [state.filter((each) => each !== found)];
      }
      return found === undefined && output.told === "404 MessageNotFound" ? [state] : [];
    }
  }
}

/** The state after an answer showed messages; undefined if it cannot have shown these and no others. */
function seen(
  state: State,
  { input, output, clock = anyTime }: Call<QueueInput, QueueOutput>,
  max: number,
  change: (message: Message, shown: Shown) => Message,
): State | undefined {
  const { told, messages = [] } = output ?? { told: "" };
  if (told !== "200" || messages.length > max) return undefined;
  const more = input.kind === "receive" ? 1 : 0;
  const rest = new Set(state);
  const after = new Map<Message, Message>();
  for (const shown of messages) {
    const found = state.find(
      ({ word, text }) => text === shown.text && shown.text.startsWith(word),
    );
    if (found === undefined || !rest.delete(found)) return undefined;
    if (found.backFrom > clock.most || found.count + more !== shown.count) return undefined;
    if (found.id !== undefined && found.id !== shown.id) return undefined;
    after.set(found, change(found, shown));
  }
  // Had there been more that could be seen for certain, they would have been shown.
  const isShort = messages.length < max;
  if (isShort && [...rest].some(({ backTo }) => backTo <= clock.least)) return undefined;
  return state.map((each) => after.get(each) ?? each);
}

type Held = { readonly id: string; readonly receipt: string; readonly text: string };
type Memory = { held: Held[] };

/** Seconds for which messages are hidden: at once, soon, or not again while the test runs. */
const HIDDEN = [0, 5, 100_000, 100_000];

function choose(random: Random, memory: Memory, fresh: () => string): QueueInput {
  const dice = random.below(100);
  if (dice < 30) {
    return { kind: "put", word: `${fresh()}.`, hidden: random.chance(80) ? 0 : 5 };
  }
  if (dice < 35) return { kind: "peek" };
  const held = memory.held.length === 0 ? undefined : random.pick(memory.held);
  if (dice < 65 || held === undefined) {
    return { kind: "receive", count: 1 + random.below(2), hidden: random.pick(HIDDEN.slice(1)) };
  }
  const { id, receipt, text } = held;
  if (dice < 85) return { kind: "delete", id, receipt };
  const word = text.slice(0, text.indexOf(".") + 1);
  const changed = random.chance(50) ? { text: `${word}${fresh()}` } : {};
  return { kind: "update", id, receipt, word, hidden: random.pick(HIDDEN), ...changed };
}

function messagesIn({ text }: Answer): Shown[] {
  return [...text.matchAll(/<QueueMessage>(.*?)<\/QueueMessage>/gs)].map(([, xml = ""]) => {
    const has = (name: string) => new RegExp(`<${name}>([^<]*)<`).exec(xml)?.[1];
    return {
      id: has("MessageId") ?? "",
      receipt: has("PopReceipt"),
      count: Number(has("DequeueCount") ?? 0),
      text: has("MessageText") ?? "",
    };
  });
}

const body = (text: string) => `<QueueMessage><MessageText>${text}</MessageText></QueueMessage>`;

/** One queue: messages are put, received, hidden, shown again, changed and deleted. */
export const queueSubject: Subject<State, QueueInput, QueueOutput, Memory> = {
  name: "Queue",
  model: { initial: [], next, text: (state) => JSON.stringify(state) },
  memory: () => ({ held: [] }),
  choose,
  look: { kind: "peek" },
  async ask(line, object, input) {
    const to = { service: "queue", path: `/${object}/messages` } as const;
    switch (input.kind) {
      case "put": {
        const query = { visibilitytimeout: String(input.hidden), messagettl: "-1" };
        const answer = await line({ ...to, method: "POST", query, body: body(input.word) });
        return { told: toldBy(answer), messages: messagesIn(answer) };
      }
      case "receive": {
        const query = {
          numofmessages: String(input.count),
          visibilitytimeout: String(input.hidden),
        };
        const answer = await line({ ...to, method: "GET", query });
        return { told: toldBy(answer), messages: messagesIn(answer) };
      }
      case "peek": {
        const query = { peekonly: "true", numofmessages: String(PEEK_MAX) };
        const answer = await line({ ...to, method: "GET", query });
        return { told: toldBy(answer), messages: messagesIn(answer) };
      }
      case "update": {
        const query = { popreceipt: input.receipt, visibilitytimeout: String(input.hidden) };
        const path = `${to.path}/${input.id}`;
        const text = input.text === undefined ? {} : { body: body(input.text) };
        const answer = await line({ ...to, method: "PUT", path, query, ...text });
        return { told: toldBy(answer), receipt: answer.headers["x-ms-popreceipt"] };
      }
      case "delete": {
        const path = `${to.path}/${input.id}`;
        const query = { popreceipt: input.receipt };
        return { told: toldBy(await line({ ...to, method: "DELETE", path, query })) };
      }
    }
  },
  learn(memory, input, output) {
    if (input.kind === "receive" || input.kind === "put") {
      for (const { id, receipt, text } of output.messages ?? []) {
        const own = input.kind === "put" ? input.word : text;
        if (receipt !== undefined) memory.held.push({ id, receipt, text: own });
      }
    } else if (input.kind !== "peek" && (output.told === "204" || memory.held.length > 6)) {
      // Now and then an old receipt is tried again; it must lead nowhere.
      const others = memory.held.filter(({ receipt }) => receipt !== input.receipt);
      if (input.kind === "update" && output.receipt !== undefined) {
        const text = input.text ?? input.word;
        others.push({ id: input.id, receipt: output.receipt, text });
      }
      memory.held = others;
    }
  },
  prepare: (line, object) => made(line, { service: "queue", method: "PUT", path: `/${object}` }),
};
