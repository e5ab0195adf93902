import { setImmediate as settled } from "node:timers/promises";
import type { Ids } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { memoryFiles } from "../../src/engine/memory-files.ts";
import { type Router, router } from "../../src/http/match.ts";
import type { RequestBody, Service, Surroundings } from "../../src/http/operation.ts";
import { asOwner, parseAddress, parseRequest } from "../../src/http/parse.ts";
import { run } from "../../src/http/run.ts";
import { copySources } from "../../src/http/source.ts";
import { errors, StorageError } from "../../src/rules/errors.ts";
import { NEWEST_VERSION } from "../../src/rules/versions.ts";
import { services } from "../../src/services.ts";
import { check } from "../../src/store/check.ts";
import { Contents } from "../../src/store/content.ts";
import { Opens } from "../../src/store/opens.ts";
import { mergeWorn } from "../../src/store/sparse-upkeep.ts";
import { sweepFiles, sweepGarbage } from "../../src/store/sweep.ts";
import { expireMessages } from "../../src/store/sweep-messages.ts";
import { Random } from "../simulation/power-cut.ts";
import { History } from "./history.ts";
import { DiskFull, emptyVersion, Scheduler, SimulatedEngine } from "./simulated-engine.ts";
import { subjects } from "./subjects.ts";
import type { Answer, AnySubject, Line, Sent } from "./traffic.ts";

const ACCOUNT = "devstoreaccount1";
const BEGIN = Date.UTC(2030, 0, 1);
/** Ticks may run ahead of a clock that stands still by so much, and not more in so short a run. */
const TICKS_AHEAD_MS = 20;
const STEPS_MAX = 200_000;

const served = new Map(
  services.map((service) => [service.name, { service, route: router(service.operations) }]),
) as ReadonlyMap<Service, { service: (typeof services)[number]; route: Router }>;

/** What happened in one run. */
export type Outcome = {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly unknown: number;
  readonly operations: number;
  readonly unanswered: number;
  readonly objects: number;
  readonly steps: number;
  readonly conflicts: number;
  readonly powerCuts: number;
  readonly clockSteps: number;
  readonly fullDisks: number;
  readonly cutBodies: number;
};

/** A request that ended without an answer and without an effect: its body never came whole. */
class BodyCut extends Error {}

/** Which faults happen; all, unless a test wants fewer. */
export type Faults = { readonly powerCuts?: boolean; readonly clock?: boolean };

/**
 * One simulated life of a server: clients, faults and the order in which everything happens come from the
 * seed alone, so the same seed gives the same run.
 */
export function simulated(seed: number, faults: Faults = {}): Promise<Outcome> {
  return new Simulation(seed, faults).run();
}

class Simulation {
  readonly #seed: number;
  readonly #faults: Faults;
  readonly #random: Random;
  readonly #scheduler: Scheduler;
  readonly #ids: Ids;
  readonly #clock = { at: BEGIN, highest: BEGIN, now: () => this.#clock.at };
  readonly #history: History;
  readonly #files: ReturnType<typeof memoryFiles>;
  readonly #violations: string[] = [];
  readonly #clients: Client[] = [];
  #engine: SimulatedEngine;
  #around: Surroundings;
  #words = 0;
  #jumpBack: { readonly ms: number; readonly at: number } | undefined;
  #counts = { conflicts: 0, powerCuts: 0, clockSteps: 0, fullDisks: 0, cutBodies: 0 };

  constructor(seed: number, faults: Faults) {
    this.#seed = seed;
    this.#faults = faults;
    this.#random = new Random(seed);
    this.#scheduler = new Scheduler(new Random(seed ^ 0x5eed));
    let guids = 0;
    this.#ids = {
      guid: () =>
        `${seed.toString(16).padStart(8, "0")}-0000-4000-a000-${String(++guids).padStart(12, "0")}`,
    };
    this.#history = new History({
      now: () => this.#clock.at,
      highest: () => this.#clock.highest + TICKS_AHEAD_MS,
    });
    this.#files = memoryFiles(this.#ids);
    this.#engine = new SimulatedEngine(this.#scheduler, this.#clock, emptyVersion);
    this.#around = this.#surroundings();
  }

  async run(): Promise<Outcome> {
    await this.#play().catch((error) => this.#note(error));
    const judged = this.#history.judged();
    this.#counts.conflicts += this.#engine.conflicts;
    return {
      seed: this.#seed,
      violations: [...this.#violations, ...judged.violations],
      unknown: judged.unknown,
      objects: judged.objects,
      operations: this.#history.answered,
      unanswered: this.#history.unanswered,
      steps: this.#scheduler.steps,
      ...this.#counts,
    };
  }

  async #play(): Promise<void> {
    const random = this.#random;
    const count = 1 + random.below(3);
    const objects = Array.from({ length: count }, (_, index) => ({
      subject: random.pick(subjects),
      object: `o${index}x`.padEnd(3, "0"),
    }));
    for (const { subject, object } of objects) {
      await this.#through(subject.prepare(this.#line(), object));
    }
    for (let client = 0; client < 2 + random.below(4); client++) {
      const { subject, object } = random.pick(objects);
      const memory: unknown = subject.memory(client);
      const left = 6 + random.below(14);
      this.#clients.push({ client, subject, object, memory, left, runs: true });
    }
    await this.#live();
    this.#engine.isFull = false;
    for (const { subject, object } of objects) {
      const memory: unknown = subject.memory(-1);
      for (const look of subject.looks(memory)) {
        const open = this.#history.begin(subject, object, -1, look);
        open.end(await this.#through(subject.ask(this.#line(), object, look, memory)));
      }
    }
    await this.#through(this.#sweep());
    await this.#through(this.#checked());
  }

  /** Clients do all they have to do, while things go wrong. */
  async #live(): Promise<void> {
    for (const client of this.#clients) this.#start(client);
    await settled();
    while (this.#clients.some(({ runs }) => runs)) {
      if (!(await this.#scheduler.step())) throw new Error("nothing goes on, and nobody is done");
      if (this.#scheduler.steps > STEPS_MAX) throw new Error("it goes on for ever");
      this.#mayFail();
    }
    // What was sent by clients that no longer wait goes on for a while.
    this.#engine.isFull = false;
    while (await this.#scheduler.step());
  }

  #mayFail(): void {
    const random = this.#random;
    const dice = random.below(4000);
    const { powerCuts = true, clock = true } = this.#faults;
    if (dice < 8 && powerCuts) this.#cutPower();
    else if (dice < 60 && clock) this.#stepClock(random.below(12_000));
    else if (dice < 75 && clock) this.#stepClock(-random.below(20_000));
    else if (dice < 85) {
      this.#engine.isFull = !this.#engine.isFull;
      if (this.#engine.isFull) this.#counts.fullDisks++;
    } else if (dice < 100) this.#engine.isFull = false;
    else if (dice < 120) this.#sweep().catch((error) => this.#note(error));
    else if (dice < 150 && clock && this.#jumpBack === undefined) {
      // The clock is wrong for a moment: what was seen meanwhile must stay true.
      const ms = 15_000 + random.below(10_000);
      this.#jumpBack = { ms, at: this.#scheduler.steps + 2 + random.below(30) };
      this.#stepClock(ms);
    } else if (dice < 1500) this.#passed();
    if (this.#jumpBack !== undefined && this.#scheduler.steps >= this.#jumpBack.at) {
      this.#stepClock(-this.#jumpBack.ms);
      this.#jumpBack = undefined;
    }
  }

  /** Time passes. */
  #passed(): void {
    this.#clock.at++;
    this.#clock.highest = Math.max(this.#clock.highest, this.#clock.at);
  }

  #stepClock(ms: number): void {
    this.#clock.at += ms;
    this.#clock.highest = Math.max(this.#clock.highest, this.#clock.at);
    this.#counts.clockSteps++;
    this.#history.stepped();
  }

  /** All that runs is gone, with what was not durable; a new process goes on from what was. */
  #cutPower(): void {
    this.#counts.powerCuts++;
    this.#counts.conflicts += this.#engine.conflicts;
    this.#scheduler.drop();
    this.#history.forget();
    this.#jumpBack = undefined;
    // A restart reads the clock anew, and nothing remembers that it once was later but for the ticks.
    this.#clock.at = Math.max(this.#clock.at, this.#clock.highest);
    this.#engine = new SimulatedEngine(this.#scheduler, this.#clock, this.#engine.durable);
    this.#around = this.#surroundings();
    for (const client of this.#clients) if (client.runs) this.#start(client);
  }

  #start(client: Client): void {
    const engine = this.#engine;
    const loop = async () => {
      await this.#scheduler.pause();
      while (client.left > 0) {
        client.left--;
        await this.#act(client);
      }
    };
    loop().then(
      () => {
        if (engine === this.#engine) client.runs = false;
      },
      (error) => {
        client.runs = false;
        this.#note(error);
      },
    );
  }

  async #act({ subject, object, memory, client }: Client): Promise<void> {
    const random = this.#random;
    const input: unknown = subject.choose(random, memory, () => `w${++this.#words}`);
    const isCut = random.chance(3);
    const open = this.#history.begin(subject, object, client, input);
    const asked = subject.ask(this.#line(isCut), object, input, memory).then(
      (output) => {
        // What is refused because the disk is full has not happened at all.
        if (output.told.startsWith("503")) open.strike();
        else {
          open.end(output);
          subject.learn(memory, input, output);
        }
      },
      (error) => {
        if (!(error instanceof BodyCut)) throw error;
        this.#counts.cutBodies++;
        open.strike();
      },
    );
    if (random.chance(4))
      asked.catch((error) => this.#note(error)); // the client waits no longer
    else await asked;
  }

  #note(error: unknown): void {
    if (error instanceof DiskFull) return; // of a sweep, which the next one does again
    this.#violations.push(`an operation failed: ${(error as Error).stack ?? String(error)}`);
  }

  /** Runs what belongs to the test itself to its end. */
  async #through<T>(work: Promise<T>): Promise<T> {
    let isDone = false;
    const done = () => {
      isDone = true;
    };
    work.then(done, done);
    await settled();
    while (!isDone && (await this.#scheduler.step()));
    return work;
  }

  #line(cutsBody = false): Line {
    const engine = this.#engine;
    const around = this.#around;
    return async (sent) => {
      try {
        return await answered(sent, engine, around, this.#bodyOf(sent, cutsBody));
      } catch (error) {
        if (error instanceof DiskFull) {
          return { status: 503, code: "ServerBusy", headers: {}, text: "" };
        }
        if (!(error instanceof StorageError)) throw error;
        const [, , wire]: readonly [number, string, string?] = errors[error.code];
        const { status, code } = error;
        return { status, code: wire ?? code, headers: {}, text: "" };
      }
    };
  }

  /** The body comes in two parts, between which others run; or only its first part comes. */
  #bodyOf({ body = "" }: Sent, isCut: boolean): RequestBody {
    const bytes = Buffer.from(body, "latin1");
    const half = Math.ceil(bytes.length / 2);
    const pause = () => this.#scheduler.pause();
    return {
      size: bytes.length,
      async whole() {
        await pause();
        if (isCut && bytes.length > 0) throw new BodyCut();
        return bytes;
      },
      async *stream() {
        await pause();
        yield bytes.subarray(0, half);
        await pause();
        if (isCut) throw new BodyCut();
        yield bytes.subarray(half);
      },
    };
  }

  #surroundings(): Surroundings {
    // Every second account keeps versions.
    const versioning = this.#seed % 2 === 1;
    const none = { rehydrateMs: 0, versioning, immutableStorage: false };
    return {
      contents: new Contents(this.#engine, this.#files),
      opens: new Opens(),
      ids: this.#ids,
      log: silentLog,
      doors: new Map(),
      copies: { wake: () => {} },
      sources: copySources({ doors: new Map(), ports: new Map([[80, "blob"]]), hosts: [] }),
      settings: { ...none, containerRetentionDays: 0 },
      authority: { accounts: () => new Map(), tokens: undefined, roles: () => undefined },
    };
  }

  /** What runs in the background. */
  async #sweep(): Promise<void> {
    const { contents } = this.#around;
    const options = { engine: this.#engine, files: this.#files, contents, log: silentLog };
    const now = this.#clock.at;
    await expireMessages(this.#engine, now);
    await sweepGarbage(options);
    await sweepFiles(options);
    await mergeWorn(options, { now, after: undefined, isStopped: () => false });
  }

  /** What `lazuli check` finds is a violation too. */
  async #checked(): Promise<void> {
    const lines: string[] = [];
    await check(this.#engine, this.#files, { say: (line) => void lines.push(line) });
    // A file that was in the making when the power went: the process that made it would have been gone too.
    const problems = lines.slice(0, -1).filter((line) => !line.includes("(an orphan;"));
    if (problems.length > 0) this.#violations.push(`check: ${problems.join("\n")}`);
  }
}

type Client = {
  readonly client: number;
  readonly subject: AnySubject;
  readonly object: string;
  readonly memory: unknown;
  left: number;
  runs: boolean;
};

/** What the server does between its socket and its engine. */
async function answered(
  sent: Sent,
  engine: SimulatedEngine,
  around: Surroundings,
  body: RequestBody,
): Promise<Answer> {
  const door = served.get(sent.service);
  if (door === undefined) throw new Error(`there is no service ${sent.service}`);
  const path = sent.path.split("/").map(encodeURIComponent).join("/");
  const query = new URLSearchParams(sent.query ?? {}).toString().replaceAll("+", "%20");
  const url = `/${ACCOUNT}${path}${query === "" ? "" : `?${query}`}`;
  const size = { "content-length": String(body.size) };
  const { source } = sent;
  const named = source && { [source.header]: `http://localhost/${ACCOUNT}${source.path}` };
  const headers = { host: "localhost", ...size, ...sent.headers, ...named };
  const { method } = sent;
  const message = { method, url, headers, rawHeaders: Object.entries(headers).flat() };
  const address = parseAddress(message, false);
  const ids = { id: "", clientId: undefined };
  const parsed = parseRequest(message, door.service, address, ids, NEWEST_VERSION, body);
  const request = asOwner(parsed);
  const reply = await run(door.route(request), request, engine, around);
  const values = Object.entries(reply.headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name.toLowerCase(), String(value)] as const],
  );
  let text = "";
  if (typeof reply.body === "string") text = reply.body;
  else if (reply.body !== undefined) {
    const parts: Uint8Array[] = [...(reply.body.bytes ?? [])];
    if (reply.body.bytes === undefined) {
      for await (const part of reply.body.stream()) parts.push(Buffer.from(part));
    }
    reply.body.close();
    text = Buffer.concat(parts).toString("latin1");
  }
  return { status: reply.status, code: undefined, headers: Object.fromEntries(values), text };
}
