import type { Random } from "../simulation/power-cut.ts";
import {
  afterWrite,
  chosenLease,
  type Lease,
  type LeaseInput,
  leased,
  leaseHeaders,
  noLease,
  refusedByLease,
} from "./leases.ts";
import type { Call } from "./linearizable.ts";
import {
  isNew,
  isUntold,
  made,
  type Sent,
  type Subject,
  shows,
  toldBy,
  untold,
} from "./traffic.ts";

export const SHARE = "proof";
const HALF = 12;

export type FileInput =
  | { readonly kind: "create"; readonly word: string; readonly leaseId?: string }
  | {
      readonly kind: "range";
      readonly word: string;
      readonly half: 0 | 1;
      readonly leaseId?: string;
    }
  | { readonly kind: "metadata"; readonly word: string; readonly leaseId?: string }
  | { readonly kind: "delete"; readonly leaseId?: string }
  | { readonly kind: "get"; readonly leaseId?: undefined }
  | { readonly kind: "lease"; readonly lease: LeaseInput; readonly leaseId?: undefined };
export type FileOutput = {
  readonly told: string;
  readonly etag: string | undefined;
  readonly halves?: readonly string[];
  readonly stamp?: string | undefined;
  readonly lease?: string | undefined;
};

type File = {
  readonly halves: readonly [string, string];
  readonly stamp: string;
  readonly etag: string;
};
type State = { readonly file: File | undefined; readonly lease: Lease };

const NEVER = { least: Number.NEGATIVE_INFINITY, most: Number.POSITIVE_INFINITY };

function next(state: State, { input, output, from }: Call<FileInput, FileOutput>): State[] {
  const { file, lease } = state;
  const etag = output?.etag ?? untold(from);
  const answered = (told: string) =>
    output !== undefined && told.split("|").includes(output.told) ? [state] : [];
  if (file === undefined && input.kind !== "create") return answered("404 ResourceNotFound");
  if (input.kind === "get") {
    if (file === undefined || output?.told !== "200" || !shows(output.etag, file.etag)) return [];
    const isIt = output.halves?.join() === file.halves.join() && output.stamp === file.stamp;
    const mode = lease.mode === "none" ? "available" : lease.mode;
    if (!isIt || output.lease !== mode) return [];
    return [isUntold(file.etag) ? { file: { ...file, etag }, lease } : state];
  }
  if (input.kind === "lease") {
    const [told, after] = leased(lease, input.lease, NEVER);
    if (told >= "300") return answered(told);
    return output === undefined || output.told === told ? [{ file, lease: after }] : [];
  }
  const byLease = refusedByLease(file === undefined ? noLease : lease, input.leaseId, "File");
  if (byLease !== undefined) return answered(byLease);
  const told = { create: "201", range: "201", metadata: "200", delete: "202" }[input.kind];
  if (output !== undefined && output.told !== told) return [];
  if (input.kind === "delete") return [{ file: undefined, lease: noLease }];
  if (output !== undefined && !isNew(output.etag, file?.etag)) return [];
  const before = file ?? { halves: ["", ""] as const, stamp: "", etag };
  const after = (change: Partial<File>): State[] => [
    { file: { ...before, ...change, etag }, lease: afterWrite(lease) },
  ];
  if (input.kind === "create") return after({ halves: ["", ""], stamp: input.word });
  if (input.kind === "metadata") return after({ stamp: input.word });
  const [first, second] = before.halves;
  return after({ halves: input.half === 0 ? [input.word, second] : [first, input.word] });
}

type Memory = { readonly client: number; lease: string | undefined };

function choose(random: Random, memory: Memory, fresh: () => string): FileInput {
  const uses = memory.lease !== undefined && random.chance(75) ? { leaseId: memory.lease } : {};
  const dice = random.below(100);
  if (dice < 35) return { kind: "get" };
  if (dice < 50) {
    return { kind: "lease", lease: chosenLease(random, memory.client, memory.lease, [-1]) };
  }
  if (dice < 62) return { kind: "create", word: fresh(), ...uses };
  if (dice < 90) return { kind: "range", word: fresh(), half: random.below(2) as 0 | 1, ...uses };
  if (dice < 95) return { kind: "metadata", word: fresh(), ...uses };
  return { kind: "delete", ...uses };
}

function sentFor(object: string, input: FileInput): Sent {
  const to = { service: "file", method: "PUT", path: `/${SHARE}/${object}` } as const;
  const headers: Record<string, string> = {};
  if (input.leaseId !== undefined) headers["x-ms-lease-id"] = input.leaseId;
  switch (input.kind) {
    case "create":
      headers["x-ms-type"] = "file";
      headers["x-ms-content-length"] = String(2 * HALF);
      headers["x-ms-meta-stamp"] = input.word;
      return { ...to, headers };
    case "range": {
      const first = input.half * HALF;
      headers["x-ms-write"] = "update";
      headers["x-ms-range"] = `bytes=${first}-${first + HALF - 1}`;
      return { ...to, query: { comp: "range" }, headers, body: input.word.padEnd(HALF, " ") };
    }
    case "metadata":
      headers["x-ms-meta-stamp"] = input.word;
      return { ...to, query: { comp: "metadata" }, headers };
    case "delete":
      return { ...to, method: "DELETE", headers };
    case "get":
      return { ...to, method: "GET" };
    case "lease":
      return { ...to, query: { comp: "lease" }, headers: leaseHeaders(input.lease, "File") };
  }
}

/** A file over REST: made anew, written in two ranges, leased, deleted. */
export const fileSubject: Subject<State, FileInput, FileOutput, Memory> = {
  name: "File",
  model: {
    initial: { file: undefined, lease: noLease },
    next,
    text: (state) => JSON.stringify(state),
  },
  memory: (client) => ({ client, lease: undefined }),
  choose,
  looks: () => [{ kind: "get" }],
  async ask(line, object, input) {
    const answer = await line(sentFor(object, input));
    const { headers, text } = answer;
    const common = { told: toldBy(answer), etag: headers.etag };
    if (input.kind !== "get" || answer.status !== 200) return common;
    const half = (at: number) => text.slice(at * HALF, (at + 1) * HALF).replace(/[\0 ]+$/, "");
    return {
      ...common,
      halves: [half(0), half(1)],
      stamp: headers["x-ms-meta-stamp"] ?? "",
      lease: headers["x-ms-lease-state"],
    };
  },
  learn(memory, input, output) {
    const isDone = output.told < "300";
    if (input.kind === "lease") {
      if (isDone && input.lease.act === "acquire") memory.lease = input.lease.id;
      else if (isDone && input.lease.act === "change") memory.lease = input.lease.to;
      else memory.lease = undefined;
    } else if (output.told.includes("Lease")) memory.lease = undefined;
  },
  prepare: (line) =>
    made(line, {
      ...{ service: "file", method: "PUT", path: `/${SHARE}` },
      query: { restype: "share" },
    }),
};
