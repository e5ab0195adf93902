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
/** `lost` is how many messages at most were received by those whose answers never came: any may be one of them. */
type State = { readonly messages: readonly Message[]; readonly lost: number };

const PEEK_MAX = 32;
const anyTime: Span = { least: Number.NEGATIVE_INFINITY, most: Number.POSITIVE_INFINITY };

/** A message that a lost answer received: its receipt is another one, and it is back nobody knows when. */
const taken = (message: Message): Message => ({
  ...message,
  receipt: undefined,
  count: message.count + 1,
  backFrom: Number.NEGATIVE_INFINITY,
  backTo: Number.POSITIVE_INFINITY,
});

function next(state: State, call: Call<QueueInput, QueueOutput>): State[] {
  const { input, output, clock = anyTime } = call;
  const { messages, lost } = state;
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
      return [{ messages: [...messages, put].sort((a, b) => (a.word < b.word ? -1 : 1)), lost }];
    }
    case "receive":
      if (output === undefined) return [{ messages, lost: lost + input.count }];
      return seen(state, call, input.count, (message, each) => ({
        ...{ ...message, id: each.id, receipt: each.receipt, count: each.count },
        ...back(input.hidden),
      }));
    case "peek":
      return seen(state, call, PEEK_MAX, (message, { id, count }) => ({ ...message, id, count }));
    case "update":
    case "delete": {
      const found = messages.find(
        ({ id, receipt }) => id === input.id && receipt === input.receipt,
      );
      const changed = (after: Message | undefined, left = lost): State[] => {
        const all = messages.map((each) => (each === found ? after : each));
        return [{ messages: all.filter((each) => each !== undefined), lost: left }];
      };
      if (output === undefined || output.told === "204") {
        if (found === undefined) return [];
        if (input.kind === "delete") return changed(undefined);
        const text = input.text ?? found.text;
        return changed({ ...found, text, receipt: output?.receipt, ...back(input.hidden) });
      }
      if (output.told !== "404 MessageNotFound") return [];
      if (found === undefined) return [state];
      return lost > 0 ? changed(taken(found), lost - 1) : [];
    }
  }
}

/** The state after an answer showed messages; none if it cannot have shown these and no others. */
function seen(
  state: State,
  { input, output, clock = anyTime }: Call<QueueInput, QueueOutput>,
  max: number,
  change: (message: Message, shown: Shown) => Message,
): State[] {
  const { told, messages: shown = [] } = output ?? { told: "" };
  if (told !== "200" || shown.length > max) return [];
  let { lost } = state;
  const more = input.kind === "receive" ? 1 : 0;
  const rest = new Set(state.messages);
  const after = new Map<Message, Message>();
  for (const each of shown) {
    const found = state.messages.find(
      ({ word, text }) => text === each.text && each.text.startsWith(word),
    );
    if (found === undefined || !rest.delete(found) || found.backFrom > clock.most) return [];
    if (found.id !== undefined && found.id !== each.id) return [];
    const missed = each.count - found.count - more;
    if (missed < 0) return [];
    lost -= missed;
    after.set(found, change(missed > 0 ? taken(found) : found, each));
  }
  // Had there been more that could be seen for certain, they would have been shown.
  if (shown.length < max) {
    for (const each of rest) {
      if (each.backTo > clock.least) continue;
      lost--;
      after.set(each, taken(each));
    }
  }
  if (lost < 0) return [];
  return [{ messages: state.messages.map((each) => after.get(each) ?? each), lost }];
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
  model: { initial: { messages: [], lost: 0 }, next, text: (state) => JSON.stringify(state) },
  memory: () => ({ held: [] }),
  choose,
  looks: () => [{ kind: "peek" }],
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
