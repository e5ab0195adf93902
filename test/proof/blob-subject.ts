import type { Random } from "../simulation/power-cut.ts";
import {
  afterWrite,
  chosenLease,
  type Lease,
  type LeaseInput,
  leased,
  leaseHeaders,
  leasesAt,
  noLease,
  refusedByLease,
} from "./leases.ts";
import type { Call, Span } from "./linearizable.ts";
import {
  type Answer,
  bodyOf,
  isNew,
  isUntold,
  LARGE,
  type Line,
  made,
  type Sent,
  type Subject,
  shows,
  toldBy,
  untold,
  wordIn,
} from "./traffic.ts";

export const CONTAINER = "proof";

type Uses = {
  readonly ifMatch?: string;
  readonly ifNoneMatch?: string;
  readonly leaseId?: string;
};
export type BlobInput = Uses &
  (
    | { readonly kind: "put"; readonly word: string; readonly size: number }
    | { readonly kind: "metadata"; readonly word: string }
    | { readonly kind: "append"; readonly word: string; readonly position?: number }
    | { readonly kind: "page"; readonly word: string; readonly page: 0 | 1 }
    | { readonly kind: "block"; readonly id: string; readonly word: string }
    | { readonly kind: "list"; readonly ids: readonly string[]; readonly word: string }
    | { readonly kind: "get" }
    | { readonly kind: "delete" }
    | { readonly kind: "lease"; readonly lease: LeaseInput }
  );

export type BlobOutput = {
  readonly told: string;
  readonly etag: string | undefined;
  /** What a read shows: the words of the content, and that of the metadata. */
  readonly text?: string | undefined;
  readonly stamp?: string | undefined;
  readonly lease?: string | undefined;
  readonly offset?: number | undefined;
};

type Blob = { readonly text: string; readonly stamp: string; readonly etag: string };
export type BlobState = {
  readonly blob: Blob | undefined;
  readonly lease: Lease;
  /** Blocks that no list has named yet. */
  readonly blocks: readonly (readonly [id: string, word: string])[];
};

export type BlobType = "BlockBlob" | "AppendBlob" | "PageBlob";

/** What one operation answers, and what it leaves. */
type Outcome = { readonly told: string; readonly after: BlobState; readonly isWrite?: true };

/** The words of an empty blob, by its type. */
const emptyText: Readonly<Record<BlobType, string>> = {
  BlockBlob: "",
  AppendBlob: "",
  PageBlob: "|",
};

const textOf = (type: BlobType, input: Extract<BlobInput, { kind: "put" }>): string =>
  type === "BlockBlob" ? `${input.word}/${bodyOf(input.word, input.size).length}` : emptyText[type];

/** Every outcome that the documents allow, for one view of the lease. */
function outcome(type: BlobType, state: BlobState, call: Call<BlobInput, BlobOutput>): Outcome {
  const { input } = call;
  const { blob, lease, blocks } = state;
  const etag = call.output?.etag ?? untold(call.from);
  const stay = (told: string): Outcome => ({ told, after: state });
  const written = (change: Partial<Blob>, told = "201"): Outcome => {
    const before = blob ?? { text: emptyText[type], stamp: "" };
    const after = { ...state, blob: { ...before, ...change, etag }, lease: afterWrite(lease) };
    return { told, after, isWrite: true };
  };
  const makes = input.kind === "put" || input.kind === "block" || input.kind === "list";
  const waits = input.kind === "delete" && blocks.length > 0;
  if (blob === undefined && !makes && !waits) {
    if (input.kind !== "delete") return stay("404 BlobNotFound");
    // The order of these two is told nowhere for what is not there.
    const named = input.leaseId === undefined && input.ifMatch === undefined;
    return stay(named ? "404 BlobNotFound" : "404 BlobNotFound|412");
  }
  if (input.kind === "lease") {
    const [told, after] = leased(lease, input.lease, call.clock ?? anyTime);
    return { told, after: { ...state, lease: after } };
  }
  if (input.kind === "get") {
    const isSame = input.ifNoneMatch !== undefined && input.ifNoneMatch === blob?.etag;
    if (isSame) return stay("304");
    if (input.ifMatch !== undefined && input.ifMatch !== blob?.etag)
      return stay("412 ConditionNotMet");
    return stay("200");
  }
  // Put Blob and Put Block List refuse a lease id where there is no blob; blocks that wait know of no lease.
  const isUnleased = blob === undefined && (input.kind === "block" || input.kind === "delete");
  const byLease = isUnleased ? undefined : refusedByLease(lease, input.leaseId, "Blob");
  if (byLease !== undefined) return stay(byLease);
  if (input.ifMatch !== undefined && input.ifMatch !== blob?.etag) {
    return stay("412 ConditionNotMet");
  }
  if (input.ifNoneMatch === "*" && blob !== undefined) return stay("409 BlobAlreadyExists");
  switch (input.kind) {
    case "put": {
      const done = written({ text: textOf(type, input), stamp: input.word });
      return { ...done, after: { ...done.after, blocks: [] } };
    }
    case "metadata":
      return written({ stamp: input.word }, "200");
    case "append": {
      const text = blob?.text ?? "";
      if (input.position !== undefined && input.position !== text.length) {
        return stay("412 AppendPositionConditionNotMet");
      }
      return written({ text: `${text}${input.word};` });
    }
    case "page": {
      const pages = (blob?.text ?? "|").split("|");
      pages[input.page] = input.word;
      return written({ text: pages.join("|") });
    }
    case "block": {
      const all = [...blocks.filter(([id]) => id !== input.id), [input.id, input.word] as const];
      all.sort(([a], [b]) => (a < b ? -1 : 1));
      return { told: "201", after: { ...state, blocks: all } };
    }
    case "list": {
      const words = input.ids.map((id) => blocks.find(([each]) => each === id)?.[1]);
      if (words.includes(undefined)) return stay("400 InvalidBlockList");
      const whole = words.map((word) => `${word};`).join("");
      const done = written({ text: wordIn(whole), stamp: input.word });
      return { ...done, after: { ...done.after, blocks: [] } };
    }
    case "delete":
      return { told: "202", after: { blob: undefined, lease: noLease, blocks: [] } };
  }
}

const anyTime: Span = { least: Number.NEGATIVE_INFINITY, most: Number.POSITIVE_INFINITY };

/** Whether an answer is one of those that are allowed. */
const isTold = (told: string, allowed: string): boolean =>
  allowed.split("|").some((each) => told === each || told.startsWith(`${each} `));

function nextStates(
  type: BlobType,
  state: BlobState,
  call: Call<BlobInput, BlobOutput>,
): BlobState[] {
  const { input, output, clock = anyTime } = call;
  return leasesAt(state.lease, clock).flatMap((lease) => {
    const seen = { ...state, lease };
    const { told, after, isWrite } = outcome(type, seen, call);
    if (output === undefined) return told < "300" && input.kind !== "get" ? [after] : [];
    if (!isTold(output.told, told)) return [];
    if (told >= "300") return [after];
    const { blob } = seen;
    if (isWrite) {
      const offset = blob?.text.length ?? 0;
      if (input.kind === "append" && output.offset !== offset) return [];
      return isNew(output.etag, blob?.etag) ? [after] : [];
    }
    if (blob === undefined || (input.kind !== "get" && input.kind !== "lease")) return [after];
    if (!shows(output.etag, blob.etag)) return [];
    const known = isUntold(blob.etag) ? { ...blob, etag: output.etag ?? blob.etag } : blob;
    if (input.kind === "lease") return [{ ...after, blob: known }];
    const state1 = lease.mode === "none" ? "available" : lease.mode;
    const isIt = output.text === blob.text && output.stamp === blob.stamp;
    return isIt && output.lease === state1 ? [{ ...after, blob: known }] : [];
  });
}

type Memory = {
  readonly client: number;
  etag: string | undefined;
  lease: string | undefined;
  length: number;
  blocks: { readonly id: string; readonly word: string }[];
};

function chosen(type: BlobType, random: Random, memory: Memory, fresh: () => string): BlobInput {
  const uses: { -readonly [K in keyof Uses]: Uses[K] } = {};
  if (memory.etag !== undefined && random.chance(45)) uses.ifMatch = memory.etag;
  if (memory.lease !== undefined && random.chance(75)) uses.leaseId = memory.lease;
  const dice = random.below(100);
  if (dice < 25) {
    const { ifMatch } = uses;
    if (ifMatch === undefined) return { kind: "get" };
    return random.chance(50) ? { kind: "get", ifMatch } : { kind: "get", ifNoneMatch: ifMatch };
  }
  if (dice < 45) {
    const seconds = [15, -1, 20];
    return { kind: "lease", lease: chosenLease(random, memory.client, memory.lease, seconds) };
  }
  if (dice < 50) return { kind: "delete", ...uses };
  if (dice < 57) return { kind: "metadata", word: fresh(), ...uses };
  const size = random.chance(6) ? LARGE : 40;
  const isFirst = uses.ifMatch === undefined && random.chance(30);
  const put: BlobInput = {
    ...{ kind: "put", word: fresh(), size },
    ...(isFirst ? { ...uses, ifNoneMatch: "*" } : uses),
  };
  if (dice < (type === "BlockBlob" ? 78 : 66)) return put;
  if (type === "AppendBlob") {
    const position = random.chance(40) ? { position: memory.length } : {};
    return { kind: "append", word: fresh(), ...position, ...uses };
  }
  if (type === "PageBlob") {
    return { kind: "page", word: fresh(), page: random.below(2) as 0 | 1, ...uses };
  }
  const { leaseId } = uses;
  if (memory.blocks.length < 1 + random.below(2)) {
    const word = fresh();
    return { kind: "block", id: word.padStart(9, "_"), word, ...(leaseId ? { leaseId } : {}) };
  }
  return { kind: "list", ids: memory.blocks.map(({ id }) => id), word: fresh(), ...uses };
}

const PAGE = 512;
const encodedId = (id: string) => Buffer.from(id).toString("base64");

function sentFor(type: BlobType, path: string, input: BlobInput): Sent {
  const to = { service: "blob", method: "PUT", path } as const;
  const headers: Record<string, string> = {};
  if (input.ifMatch !== undefined) headers["if-match"] = input.ifMatch;
  if (input.ifNoneMatch !== undefined) headers["if-none-match"] = input.ifNoneMatch;
  if (input.leaseId !== undefined) headers["x-ms-lease-id"] = input.leaseId;
  switch (input.kind) {
    case "put":
      headers["x-ms-blob-type"] = type;
      headers["x-ms-meta-stamp"] = input.word;
      if (type === "PageBlob") headers["x-ms-blob-content-length"] = String(2 * PAGE);
      return { ...to, headers, body: type === "BlockBlob" ? bodyOf(input.word, input.size) : "" };
    case "metadata":
      headers["x-ms-meta-stamp"] = input.word;
      return { ...to, query: { comp: "metadata" }, headers };
    case "append":
      if (input.position !== undefined) {
        headers["x-ms-blob-condition-appendpos"] = String(input.position);
      }
      return { ...to, query: { comp: "appendblock" }, headers, body: `${input.word};` };
    case "page": {
      const first = input.page * PAGE;
      headers["x-ms-page-write"] = "update";
      headers["x-ms-range"] = `bytes=${first}-${first + PAGE - 1}`;
      return { ...to, query: { comp: "page" }, headers, body: bodyOf(input.word, PAGE) };
    }
    case "block":
      return {
        ...to,
        query: { comp: "block", blockid: encodedId(input.id) },
        headers,
        body: `${input.word};`,
      };
    case "list": {
      headers["x-ms-meta-stamp"] = input.word;
      const ids = input.ids.map((id) => `<Uncommitted>${encodedId(id)}</Uncommitted>`).join("");
      const body = `<?xml version="1.0" encoding="utf-8"?><BlockList>${ids}</BlockList>`;
      return { ...to, query: { comp: "blocklist" }, headers, body };
    }
    case "get":
      return { ...to, method: "GET", headers };
    case "delete":
      return { ...to, method: "DELETE", headers };
    case "lease":
      return { ...to, query: { comp: "lease" }, headers: leaseHeaders(input.lease, "Blob") };
  }
}

function shownText(type: BlobType, { text }: Answer): string {
  if (type === "AppendBlob") return text;
  if (type === "BlockBlob") return text === "" ? "" : wordIn(text);
  const page = (at: number) => {
    const bytes = text.slice(at * PAGE, (at + 1) * PAGE);
    if (/^\0*$/.test(bytes)) return "";
    const told = wordIn(bytes);
    return told.endsWith(`/${PAGE}`) ? told.slice(0, -4) : told;
  };
  return `${page(0)}|${page(1)}`;
}

/** Blobs of one type: puts, conditional puts, deletes, leases, appends, pages and block lists. */
export const blobSubject = (type: BlobType): Subject<BlobState, BlobInput, BlobOutput, Memory> => ({
  name: type,
  model: {
    initial: { blob: undefined, lease: noLease, blocks: [] },
    next: (state, call) => nextStates(type, state, call),
    text: (state) => JSON.stringify(state),
  },
  memory: (client) => ({ client, etag: undefined, lease: undefined, length: 0, blocks: [] }),
  choose: (random, memory, fresh) => chosen(type, random, memory, fresh),
  looks: () => [{ kind: "get" }],
  async ask(line, object, input) {
    const answer = await line(sentFor(type, `/${CONTAINER}/${object}`, input));
    const { headers } = answer;
    const told = answer.status === 304 ? "304" : toldBy(answer);
    const etag = headers.etag;
    if (input.kind === "append") {
      const offset = headers["x-ms-blob-append-offset"];
      return { told, etag, offset: offset === undefined ? undefined : Number(offset) };
    }
    if (input.kind !== "get" || answer.status !== 200) return { told, etag };
    return {
      ...{ told, etag, text: shownText(type, answer) },
      stamp: headers["x-ms-meta-stamp"] ?? "",
      lease: headers["x-ms-lease-state"],
    };
  },
  learn(memory, input, output) {
    const isDone = output.told < "300";
    if (isDone && output.etag !== undefined) memory.etag = output.etag;
    if (isDone && input.kind === "get") memory.length = output.text?.length ?? 0;
    if (input.kind === "lease") {
      const { lease } = input;
      if (isDone && lease.act === "acquire") memory.lease = lease.id;
      else if (isDone && lease.act === "change") memory.lease = lease.to;
      else if (lease.act !== "renew") memory.lease = undefined;
    }
    if (output.told.includes("Lease") && input.kind !== "lease") memory.lease = undefined;
    if (input.kind === "block" && isDone) memory.blocks.push(input);
    if (input.kind === "list") memory.blocks = [];
  },
  prepare: (line) => madeContainer(line),
});

export const madeContainer = (line: Line): Promise<void> =>
  made(line, {
    ...{ service: "blob", method: "PUT", path: `/${CONTAINER}` },
    query: { restype: "container" },
  });
