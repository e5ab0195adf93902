import { closed, commands, type Answer as SmbAnswer, SmbClient } from "../acceptance/smb-client.ts";
import * as smb from "../acceptance/smb-files.ts";
import type { Random } from "../simulation/power-cut.ts";
import {
  DELETE,
  type DoorsInput,
  type DoorsOutput,
  type DoorsState,
  type Half,
  initial,
  type Lived,
  type Name,
  next,
  READ,
  type RestInput,
  type SmbInput,
  statuses,
  WRITE,
} from "./doors-model.ts";
import { SHARE } from "./file-subject.ts";
import { NoAnswer } from "./http-line.ts";
import { type Answer, type Line, made, type Sent, type Subject, toldBy } from "./traffic.ts";

const HALF = 12;
const NAMES = ["a", "b"];
const ANSWER_LIMIT_MS = 20_000;

/** A handle that a client holds. */
type Held = {
  readonly open: string;
  readonly handle: smb.Handle;
  readonly access: number;
  readonly deletes: boolean;
  locked: Half[];
};
type Memory = { connection: SmbClient | undefined; life: number; held: Held[] };

const nameOf = (random: Random) => random.below(2) as Name;
const halfOf = (random: Random) => random.below(2) as Half;

function chosenRest(random: Random, fresh: () => string): RestInput {
  const dice = random.below(100);
  const name = nameOf(random);
  if (dice < 15) return { kind: "list" };
  if (dice < 40) return { kind: "get", name };
  if (dice < 55) return { kind: "make", name, word: fresh() };
  if (dice < 75) return { kind: "range", name, half: halfOf(random), word: fresh() };
  if (dice < 83) return { kind: "delete", name };
  return { kind: "rename", name, to: (1 - name) as Name, replaces: random.chance(60) };
}

const BOTH = READ | WRITE;
const ACCESSES = [READ, BOTH, BOTH, WRITE, BOTH | DELETE, BOTH | DELETE, READ | DELETE];

function chosenOpen(random: Random, fresh: () => string): SmbInput {
  const access = random.pick(ACCESSES);
  const canWrite = (access & WRITE) !== 0;
  return {
    kind: "open",
    open: fresh(),
    name: nameOf(random),
    access,
    shares: random.chance(65) ? READ | WRITE | DELETE : random.below(8),
    disposition: random.pick([
      "open",
      "openIf",
      "openIf",
      "create",
      canWrite ? "overwriteIf" : "open",
    ]),
    deletes: (access & DELETE) !== 0 && random.chance(25),
  };
}

function chosenWith(random: Random, all: readonly Held[], fresh: () => string): SmbInput {
  const { open, access, locked } = random.pick(all);
  const dice = random.below(100);
  if (dice < 25) return { kind: "close", open };
  // A connection takes all its handles with it, one after another.
  if (dice < 28 && all.length === 1) return { kind: "gone", open };
  const canWrite = (access & WRITE) !== 0;
  if (dice < 45 && locked.length > 0) {
    return { kind: "unlock", open, half: random.pick(locked) };
  }
  if (dice < 50 && (access & DELETE) !== 0) {
    if (random.chance(25)) return { kind: "doom", open, deletes: random.chance(60) };
    return { kind: "move", open, to: nameOf(random), replaces: random.chance(60) };
  }
  if (dice < 58 && locked.length === 0) {
    return { kind: "lock", open, half: halfOf(random), exclusive: random.chance(50) };
  }
  if (dice < 63 && canWrite) return { kind: "flush", open };
  if (canWrite && (dice < 85 || (access & READ) === 0)) {
    const stays = random.pick([false, false, false, "through", "flushed"] as const);
    return { kind: "write", open, half: halfOf(random), word: fresh(), stays };
  }
  return { kind: "read", open };
}

function choose(random: Random, memory: Memory, fresh: () => string): DoorsInput {
  const { life, held, connection } = memory;
  const [first] = held;
  if (connection === undefined || random.chance(first === undefined ? 45 : 30)) {
    return { ...chosenRest(random, fresh), life };
  }
  if (first === undefined || (held.length < 2 && random.chance(10))) {
    return { ...chosenOpen(random, fresh), life };
  }
  return { ...chosenWith(random, held, fresh), life };
}

function sentFor(object: string, input: RestInput): Sent {
  const root = `/${SHARE}/${object}`;
  const to = { service: "file", method: "PUT", path: root } as const;
  if (input.kind === "list") {
    return { ...to, method: "GET", query: { restype: "directory", comp: "list" } };
  }
  const path = `${root}/${NAMES[input.name]}`;
  switch (input.kind) {
    case "make": {
      const headers = { "x-ms-type": "file", "x-ms-content-length": String(2 * HALF) };
      return { ...to, path, headers };
    }
    case "range": {
      const first = input.half * HALF;
      const range = `bytes=${first}-${first + HALF - 1}`;
      const headers = { "x-ms-write": "update", "x-ms-range": range };
      return { ...to, path, query: { comp: "range" }, headers, body: input.word.padEnd(HALF, " ") };
    }
    case "get":
      return { ...to, method: "GET", path };
    case "delete":
      return { ...to, method: "DELETE", path };
    case "rename": {
      const headers = { "x-ms-file-rename-replace-if-exists": String(input.replaces) };
      const source = { header: "x-ms-file-rename-source", path };
      const there = `${root}/${NAMES[input.to]}`;
      return { ...to, path: there, query: { comp: "rename" }, headers, source };
    }
  }
}

/** The halves of a content, as far as it goes. */
const halvesIn = (text: string): string[] =>
  [0, 1]
    .filter((at) => text.length > at * HALF)
    .map((at) => text.slice(at * HALF, (at + 1) * HALF).replace(/[\0 ]+$/, ""));

function restOutput(input: RestInput, answer: Answer): DoorsOutput {
  const told = toldBy(answer);
  const { etag } = answer.headers;
  if (answer.status !== 200) return { told, etag };
  if (input.kind === "get") return { told, etag, halves: halvesIn(answer.text) };
  if (input.kind !== "list") return { told, etag };
  const names = ([0, 1] as const).filter((name) => answer.text.includes(`<Name>${NAMES[name]}<`));
  return { told, names };
}

const DISPOSITIONS = {
  open: smb.disposition.open,
  create: smb.disposition.create,
  openIf: smb.disposition.openIf,
  overwriteIf: smb.disposition.overwriteIf,
};

const maskOf = (access: number): number =>
  smb.access.readAttributes |
  ((access & READ) !== 0 ? smb.access.read : 0) |
  ((access & WRITE) !== 0 ? smb.access.write : 0) |
  ((access & DELETE) !== 0 ? smb.access.delete : 0);

const UNLOCK = 0x4;
const AT_ONCE = 0x10;

/** One operation over SMB, as the wire has it. */
async function sendSmb(
  connection: SmbClient,
  object: string,
  input: SmbInput,
  handle: smb.Handle,
): Promise<SmbAnswer> {
  switch (input.kind) {
    case "open":
      return smb.create(connection, `${object}\\${NAMES[input.name]}`, {
        access: maskOf(input.access),
        share: input.shares,
        disposition: DISPOSITIONS[input.disposition],
        options: smb.options.nonDirectory | (input.deletes ? smb.options.deleteOnClose : 0),
      });
    case "write": {
      const data = Buffer.from(input.word.padEnd(HALF, " "));
      const isThrough = input.stays === "through";
      const body = smb.writeBody(handle, input.half * HALF, data, isThrough);
      if (input.stays !== "flushed") return connection.request(commands.write, body);
      const flush = smb.closeBody(handle);
      const [wrote = closed, flushed = closed] = await connection.compound([
        [commands.write, body],
        [commands.flush, flush],
      ]);
      return wrote.status === 0 ? flushed : wrote;
    }
    case "read":
      return smb.read(connection, handle, 0, 2 * HALF);
    case "lock":
    case "unlock": {
      const kind = input.kind === "unlock" ? UNLOCK : AT_ONCE | (input.exclusive ? 2 : 1);
      const range = { start: input.half * HALF, count: HALF, flags: kind };
      return (await smb.lock(connection, handle, range)).answer;
    }
    case "doom":
      return smb.setDelete(connection, handle, input.deletes);
    case "move":
      return smb.rename(connection, handle, `${object}\\${NAMES[input.to]}`, input.replaces);
    case "flush":
      return smb.flush(connection, handle);
    case "close":
      return smb.close(connection, handle);
    case "mark":
      throw new Error("nobody asks for half of a close");
    case "gone":
      await connection.end();
      throw new NoAnswer("left", false);
  }
}

/** An answer, or that none came: the connection is gone, or it takes too long. */
async function withinLimit(asked: Promise<SmbAnswer>): Promise<SmbAnswer> {
  const late = Promise.withResolvers<never>();
  const refuse = () => late.reject(new NoAnswer("no answer in time", false));
  const timer = setTimeout(refuse, ANSWER_LIMIT_MS);
  try {
    const answer = await Promise.race([asked, late.promise]);
    if (answer === closed) throw new NoAnswer("the connection is gone", false);
    return answer;
  } finally {
    clearTimeout(timer);
  }
}

const smbTold = ({ status }: SmbAnswer): string => `smb ${(status >>> 0).toString(16)}`;

async function askSmb(memory: Memory, object: string, input: SmbInput): Promise<DoorsOutput> {
  const { connection } = memory;
  if (connection === undefined) throw new NoAnswer("there is no connection", true);
  const held = memory.held.find(({ open }) => open === input.open);
  const handle = held?.handle ?? Buffer.alloc(16);
  const answer = await withinLimit(sendSmb(connection, object, input, handle));
  const told = smbTold(answer);
  if (answer.status !== 0) return { told };
  if (input.kind === "read") {
    return { told, halves: halvesIn(smb.dataOf(answer).toString("latin1")) };
  }
  if (input.kind === "open") {
    const { open, access, deletes } = input;
    memory.held.push({ open, handle: smb.handleOf(answer), access, deletes, locked: [] });
  } else if (input.kind === "close") {
    memory.held = memory.held.filter(({ open }) => open !== input.open);
  } else if (held !== undefined && input.kind === "lock") held.locked.push(input.half);
  else if (held !== undefined && input.kind === "unlock") {
    held.locked = held.locked.filter((half) => half !== input.half);
  }
  return { told };
}

/** Connects a client that has lost its connection, or never had one; its handles went with it. */
async function ready(line: Line, memory: Memory): Promise<boolean> {
  if (line.smb === undefined) return true;
  const { port, life } = line.smb;
  const isOld = memory.life !== life || memory.connection?.isClosed !== false;
  if (!isOld) return true;
  await memory.connection?.end();
  Object.assign(memory, { connection: undefined, held: [], life });
  try {
    memory.connection = await SmbClient.open({ port }, SHARE);
    return true;
  } catch {
    return false;
  }
}

const isRest = (input: DoorsInput): input is RestInput & Lived =>
  ["make", "range", "get", "delete", "rename", "list"].includes(input.kind);

/**
 * Two names in a directory, by both doors: REST, and SMB with share modes, locks on bytes, deletes that wait for
 * the last close, and renames. Where there is no SMB it is REST alone.
 */
export const doorsSubject: Subject<DoorsState, DoorsInput, DoorsOutput, Memory> = {
  name: "Doors",
  model: { initial, next, text: (state) => JSON.stringify(state) },
  memory: () => ({ connection: undefined, life: 0, held: [] }),
  choose,
  ready,
  looks: ({ life }) => [
    { kind: "list", life },
    { kind: "get", name: 0, life },
    { kind: "get", name: 1, life },
  ],
  last({ held, life, connection }) {
    const [first] = held;
    if (first !== undefined && connection?.isClosed === false) {
      return { kind: "close", open: first.open, life };
    }
    void connection?.end();
    return undefined;
  },
  parts(input, { held }) {
    if (input.kind !== "close" && input.kind !== "gone") return [input];
    const isMarked = held.find(({ open }) => open === input.open)?.deletes === true;
    return isMarked ? [{ ...input, kind: "mark" }, input] : [input];
  },
  async ask(line, object, input, memory) {
    if (input.kind === "crash") throw new Error("nobody asks for a crash");
    if (!isRest(input)) return askSmb(memory, object, input);
    return restOutput(input, await line(sentFor(object, input)));
  },
  learn() {},
  crash: (life) => ({ input: { kind: "crash", life }, output: { told: statuses.ok } }),
  async prepare(line, object) {
    const to = { service: "file", method: "PUT" } as const;
    await made(line, { ...to, path: `/${SHARE}`, query: { restype: "share" } });
    await made(line, { ...to, path: `/${SHARE}/${object}`, query: { restype: "directory" } });
  },
};
