import { setTimeout as wait } from "node:timers/promises";
import { Random } from "../simulation/power-cut.ts";
import { madeContainer } from "./blob-subject.ts";
import { doorsSubject } from "./doors-subject.ts";
import { History } from "./history.ts";
import { type Leaves, NoAnswer } from "./http-line.ts";
import { Served, SLACK_MS } from "./served-process.ts";
import { subjects } from "./subjects.ts";
import type { Answer, AnySubject, Line, Sent, Told } from "./traffic.ts";

export const faultNames = [
  "none",
  "kill",
  "power cut",
  "clock steps",
  "slow disk",
  "full disk",
  "overload",
] as const;
export type FaultName = (typeof faultNames)[number];

/** What happened in one stretch of time with one kind of fault. */
export type Epoch = {
  readonly fault: FaultName;
  readonly operations: number;
  readonly unanswered: number;
  readonly objects: number;
  readonly faults: number;
  /** Refusals because of a full disk or of too many requests. */
  readonly busy: number;
  readonly violations: readonly string[];
  readonly unknown: number;
};

const BURST = 300;
/** How often the process ends in one epoch. */
const ENDS_MAX = 2;
/** A signature is good for 15 minutes around the server's time. */
const OFFSET_MAX_MS = 600_000;

export type ServedOptions = {
  readonly seed: number;
  readonly clients: number;
  /** How many operations each client does in an epoch. */
  readonly operations: number;
  readonly faults: readonly FaultName[];
  /** Objects of this kind alone, a few of them. */
  readonly only?: string | undefined;
  readonly told?: (epoch: Epoch) => void;
};

/** Runs one epoch for each of the faults, on one server after another, over real HTTP. */
export async function proveServed(options: ServedOptions): Promise<Epoch[]> {
  const served = new Served(options.seed);
  const epochs: Epoch[] = [];
  try {
    await served.begin();
    for (const [index, fault] of options.faults.entries()) {
      if (subjectsFor(fault, options.only).length === 0) continue;
      const epoch = await new Run(served, options, fault, index).run();
      options.told?.(epoch);
      epochs.push(epoch);
    }
  } finally {
    await served.end();
  }
  return epochs;
}

/** The kinds of objects that clients work on: all, of which two by both doors, or several of one kind. */
function subjectsFor(fault: FaultName, only: string | undefined): AnySubject[] {
  // A full disk takes back what SMB has answered and nobody has flushed: see docs/proof.md.
  const able = subjects.filter((subject) => fault !== "full disk" || subject !== doorsSubject);
  const chosen = able.filter(({ name }) => only === undefined || name === only);
  if (only !== undefined) return [...chosen, ...chosen, ...chosen];
  return [...chosen, ...able.filter((subject) => subject === doorsSubject)];
}

type Target = { readonly subject: AnySubject; readonly object: string };

class Run {
  readonly #served: Served;
  readonly #options: ServedOptions;
  readonly #fault: FaultName;
  readonly #random: Random;
  readonly #history: History;
  readonly #targets: readonly Target[];
  readonly #violations: string[] = [];
  #words = 0;
  #faults = 0;
  #busy = 0;
  #running = 0;
  readonly #prefix: string;
  /** The number of the process that the epoch began with. */
  #firstLife = 0;

  constructor(served: Served, options: ServedOptions, fault: FaultName, index: number) {
    this.#served = served;
    this.#options = options;
    this.#fault = fault;
    this.#random = new Random(options.seed * 1000 + index);
    this.#prefix = `e${index}w`;
    this.#history = new History({
      now: () => Date.now() + Math.min(...served.offsets) - SLACK_MS,
      highest: () => served.seenClock(),
    });
    this.#targets = subjectsFor(fault, options.only).map((subject, at) => ({
      subject,
      object: `e${index}-${at}x`,
    }));
  }

  async run(): Promise<Epoch> {
    const served = this.#served;
    await this.#prepared();
    if (this.#fault === "power cut") {
      // A clean end first, so that the log is short; the one that is cut knows all from its beginning.
      await served.kill();
      await served.begin(this.#nextCut());
    }
    this.#firstLife = served.lives;
    const clients = Array.from({ length: this.#options.clients }, (_, client) => client);
    this.#running = clients.length;
    const work = clients.map((client) => this.#client(client).finally(() => this.#running--));
    await Promise.all([...work, this.#spoil()]);
    if (this.#fault === "power cut") {
      const crashed = this.#crashing();
      await served.kill();
      await served.begin();
      crashed();
    }
    await this.#looked();
    const judged = this.#history.judged();
    return {
      fault: this.#fault,
      operations: this.#history.answered,
      unanswered: this.#history.unanswered,
      objects: judged.objects,
      faults: this.#faults,
      busy: this.#busy,
      violations: [...this.#violations, ...judged.violations],
      unknown: judged.unknown,
    };
  }

  /** Reads all that is left. */
  async #looked(): Promise<void> {
    for (const { subject, object } of this.#targets) {
      const memory: unknown = subject.memory(-1);
      await subject.ready?.(this.#line(), memory);
      for (const look of subject.looks(memory)) {
        const open = this.#history.begin(subject, object, -1, look);
        open.end(await subject.ask(this.#line(), object, look, memory));
      }
      while (subject.last?.(memory) !== undefined);
    }
  }

  /** A process ends, which is an event for objects that may lose something; what it gives says that the next is there. */
  #crashing(): () => void {
    const life = this.#served.lives - this.#firstLife;
    const open = this.#targets.flatMap(({ subject, object }) => {
      const crash = subject.crash?.(life);
      if (crash === undefined) return [];
      const { end } = this.#history.begin(subject, object, -1, crash.input);
      return [() => end(crash.output)];
    });
    return () => {
      for (const end of open) end();
    };
  }

  async #prepared(): Promise<void> {
    await madeContainer(this.#line());
    for (const { subject, object } of this.#targets) await subject.prepare(this.#line(), object);
  }

  #line(leaves?: Leaves): Line {
    const send = (sent: Sent) => {
      const isCut = leaves === "in the body" && (sent.body?.length ?? 0) < 2 ? undefined : leaves;
      return this.#served.send(sent, isCut).then((answer) => this.#noted(answer));
    };
    const { smbPort: port, lives } = this.#served;
    return Object.assign(send, { smb: { port, life: lives - this.#firstLife } });
  }

  #noted(answer: Answer): Answer {
    const { status, code, headers } = answer;
    if (status === 503) {
      this.#busy++;
      if (code !== "ServerBusy" || headers["retry-after"] === undefined) {
        this.#violations.push(`503 ${code} with Retry-After ${headers["retry-after"]}`);
      }
    } else if (status >= 500) this.#violations.push(`${status} ${code} ${answer.text}`);
    return answer;
  }

  /** Whether the epoch's fault has still to happen; until then the clients go on. */
  get #isDue(): boolean {
    return this.#fault !== "none" && this.#faults === 0;
  }

  async #client(client: number): Promise<void> {
    const memories = new Map<Target, unknown>();
    for (let left = this.#options.operations; left > 0 || this.#isDue; left--) {
      await this.#served.ready;
      const target = this.#random.pick(this.#targets);
      const { subject } = target;
      const memory: unknown = memories.get(target) ?? subject.memory(client);
      memories.set(target, memory);
      try {
        if ((await subject.ready?.(this.#line(), memory)) === false) continue;
        await this.#act(target, client, memory);
      } catch (error) {
        this.#violations.push(String((error as Error).stack));
        return;
      }
    }
    for (const [{ subject, object }, memory] of memories) {
      for (;;) {
        const input: unknown = subject.last?.(memory);
        if (input === undefined) break;
        const open = this.#begun({ subject, object }, client, input, memory);
        const output = await subject
          .ask(this.#line(), object, input, memory)
          .catch(() => undefined);
        if (output === undefined) break;
        open.end(output);
      }
    }
  }

  async #act({ subject, object }: Target, client: number, memory: unknown): Promise<void> {
    const random = this.#random;
    const fresh = () => `${this.#prefix}${++this.#words}`;
    const input: unknown = subject.choose(random, memory, fresh);
    const dice = random.below(100);
    const leaves = dice < 2 ? "in the body" : dice < 4 ? "before the answer" : undefined;
    const open = this.#begun({ subject, object }, client, input, memory);
    try {
      const output = await subject.ask(this.#line(leaves), object, input, memory);
      // A full or a busy server has done nothing.
      if (output.told.startsWith("503")) {
        open.strike();
        await wait(random.below(20));
      } else if (!output.told.startsWith("500")) {
        open.end(output);
        subject.learn(memory, input, output);
      }
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      if (error.isHarmless) open.strike();
      if (error.message === "no answer in time") {
        this.#violations.push(`no answer in time: ${subject.name} ${JSON.stringify(input)}`);
      }
      // A server that is going down is met by nobody until the next one is there.
      if (leaves === undefined) await wait(5);
    }
  }

  /** Records that an operation begins, or all that it is a sequence of. */
  #begun({ subject, object }: Target, client: number, input: unknown, memory: unknown) {
    const parts: readonly unknown[] = subject.parts?.(input, memory) ?? [input];
    const open = parts.map((part) => this.#history.begin(subject, object, client, part));
    return {
      end: (output: Told) => {
        for (const { end } of open) end(output);
      },
      strike: () => {
        for (const { strike } of open) strike();
      },
    };
  }

  /** Makes the epoch's fault happen again and again, until the clients are done. */
  async #spoil(): Promise<void> {
    const random = this.#random;
    const served = this.#served;
    const pause = () => wait(100 + random.below(300));
    while (this.#running > 0) {
      if (this.#fault === "none") return;
      // Each end of a process leaves many requests unanswered, and each of these doubles the search.
      const isEnding = this.#fault === "kill" || this.#fault === "power cut";
      if (isEnding && this.#faults >= ENDS_MAX) return;
      if (this.#fault === "power cut") {
        await this.#cutPower();
        continue;
      }
      await pause();
      if (this.#running === 0) break;
      this.#faults++;
      switch (this.#fault) {
        case "kill": {
          const { promise, resolve } = Promise.withResolvers<void>();
          served.ready = promise;
          const crashed = this.#crashing();
          await served.kill();
          await served.begin();
          crashed();
          resolve();
          await wait(400);
          break;
        }
        case "clock steps":
          await this.#stepClock();
          break;
        case "slow disk":
          await served.order({ kind: "disk", isFull: false, syncMs: 5 + random.below(60) });
          break;
        case "full disk":
          await served.order({ kind: "disk", isFull: true, syncMs: 0 });
          await wait(100 + random.below(200));
          await served.order({ kind: "disk", isFull: false, syncMs: 0 });
          break;
        case "overload":
          await this.#overload();
          break;
      }
    }
    if (this.#fault === "slow disk") {
      await served.order({ kind: "disk", isFull: false, syncMs: 0 });
    }
  }

  async #stepClock(): Promise<void> {
    const random = this.#random;
    const served = this.#served;
    const [before = 0] = served.offsets;
    if (before > OFFSET_MAX_MS) return;
    const step = random.chance(60) ? random.below(12_000) : -random.below(12_000);
    const stepping = served.setOffset(before + step);
    this.#history.stepped();
    await stepping;
    this.#history.stepped();
  }

  #nextCut() {
    return { seed: this.#random.below(2 ** 30), steps: 10 + this.#random.below(60) };
  }

  /** Waits until the power has gone, and goes on with what it left. */
  async #cutPower(): Promise<void> {
    const served = this.#served;
    while (!served.isGone && this.#running > 0) await wait(5);
    if (!served.isGone) return;
    this.#faults++;
    const { promise, resolve } = Promise.withResolvers<void>();
    served.ready = promise;
    const crashed = this.#crashing();
    await served.ended();
    await served.begin(this.#faults < ENDS_MAX ? this.#nextCut() : undefined);
    crashed();
    resolve();
  }

  /** Many more requests than the server takes at a time: each is answered, and at once if it is refused. */
  async #overload(): Promise<void> {
    await this.#served.order({ kind: "disk", isFull: false, syncMs: 30 });
    const put = (index: number): Sent => ({
      ...{ service: "blob", method: "PUT", path: `/proof/burst-${index}`, body: "x".repeat(1000) },
      headers: { "x-ms-blob-type": "BlockBlob" },
    });
    const burst = Array.from({ length: BURST }, (_, index) => this.#served.send(put(index)));
    if (!(await this.#served.isHealthy())) this.#violations.push("not healthy under load");
    const answers = (await Promise.all(burst)).map((answer) => this.#noted(answer));
    const others = answers.filter(({ status }) => status !== 201 && status !== 503);
    if (others.length > 0) this.#violations.push(`overload: ${others[0]?.status}`);
    if (!answers.some(({ status }) => status === 503)) {
      this.#violations.push(`${BURST} requests at once, and none was refused`);
    }
    if (!answers.some(({ status }) => status === 201)) {
      this.#violations.push(`${BURST} requests at once, and none was served`);
    }
    await this.#served.order({ kind: "disk", isFull: false, syncMs: 0 });
  }
}
