import type { Random } from "../simulation/power-cut.ts";
import { CONTAINER, madeContainer } from "./blob-subject.ts";
import type { Call } from "./linearizable.ts";
import {
  bodyOf,
  isNew,
  isUntold,
  LARGE,
  type Sent,
  type Subject,
  shows,
  toldBy,
  untold,
  wordIn,
} from "./traffic.ts";

type Name = 0 | 1;
const NAMES = ["a", "b"];
/** Something of a blob that stays as it is, by the time that names it. */
type PastId = { readonly kind: "snapshot" | "version"; readonly id: string };

export type PastInput =
  | { readonly kind: "put"; readonly name: Name; readonly word: string; readonly size: number }
  | { readonly kind: "metadata"; readonly name: Name; readonly word: string }
  | { readonly kind: "snapshot"; readonly name: Name }
  | { readonly kind: "copy"; readonly name: Name; readonly to: Name; readonly of?: PastId }
  | { readonly kind: "get"; readonly name: Name; readonly of?: PastId }
  | { readonly kind: "delete"; readonly name: Name; readonly withSnapshots: boolean }
  | { readonly kind: "drop"; readonly name: Name; readonly id: string };
export type PastOutput = {
  readonly told: string;
  readonly etag?: string | undefined;
  readonly text?: string | undefined;
  readonly stamp?: string | undefined;
  readonly snapshot?: string | undefined;
  readonly version?: string | undefined;
};

type Content = { readonly text: string; readonly stamp: string; readonly etag: string };
type State = {
  readonly blobs: readonly [Content | undefined, Content | undefined];
  /** Snapshots and versions, the current one too, in the order they were made. */
  readonly past: readonly (Content & PastId & { readonly name: Name })[];
};

function next(state: State, { input, output, from }: Call<PastInput, PastOutput>): State[] {
  const { name } = input;
  const blob = state.blobs[name];
  const etag = output?.etag ?? untold(from);
  const answered = (...told: string[]) =>
    output !== undefined && told.includes(output.told) ? [state] : [];
  const isDone = (told: string) => output === undefined || output.told === told;
  const withBlob = (at: Name, to: Content | undefined, past = state.past): State => ({
    blobs: at === 0 ? [to, state.blobs[1]] : [state.blobs[0], to],
    past,
  });
  const written = (at: Name, content: Omit<Content, "etag">): State[] => {
    if (output !== undefined && !isNew(output.etag, state.blobs[at]?.etag)) return [];
    const after = { ...content, etag };
    if (output?.version === undefined) return [withBlob(at, after)];
    const version = { ...after, name: at, kind: "version", id: output.version } as const;
    return [withBlob(at, after, [...state.past, version])];
  };
  const found = (of: PastId | undefined): Content | undefined =>
    of === undefined
      ? blob
      : state.past.find((each) => each.name === name && each.kind === of.kind && each.id === of.id);
  if (input.kind === "put") {
    const { word, size } = input;
    if (!isDone("201")) return [];
    return written(name, { text: `${word}/${bodyOf(word, size).length}`, stamp: word });
  }
  if (input.kind === "copy") {
    const source = found(input.of);
    if (source === undefined) return answered("404 CannotVerifyCopySource");
    const { text, stamp } = source;
    return isDone("202") ? written(input.to, { text, stamp }) : [];
  }
  if (input.kind === "drop") {
    const rest = state.past.filter(
      (each) => each.kind !== "snapshot" || each.name !== name || each.id !== input.id,
    );
    if (rest.length === state.past.length) return answered("404 BlobNotFound");
    return isDone("202") ? [{ ...state, past: rest }] : [];
  }
  if (input.kind === "get") {
    const content = found(input.of);
    if (content === undefined) return answered("404 BlobNotFound");
    if (output?.told !== "200" || !shows(output.etag, content.etag)) return [];
    if (output.text !== content.text || output.stamp !== content.stamp) return [];
    return [isUntold(content.etag) ? known(state, content.etag, etag) : state];
  }
  if (blob === undefined) return answered("404 BlobNotFound");
  if (input.kind === "metadata") {
    return isDone("200") ? written(name, { text: blob.text, stamp: input.word }) : [];
  }
  const others = state.past.filter((each) => each.kind !== "snapshot" || each.name !== name);
  if (input.kind === "delete") {
    const isKept = others.length < state.past.length && !input.withSnapshots;
    if (isKept) return answered("409 SnapshotsPresent");
    return isDone("202") ? [withBlob(name, undefined, others)] : [];
  }
  if (!isDone("201") || (output !== undefined && !shows(output.etag, blob.etag))) return [];
  const id = output?.snapshot ?? untold(from);
  const snapshot = { ...blob, name, kind: "snapshot", id } as const;
  const after = { ...state, past: [...state.past, snapshot] };
  return [isUntold(blob.etag) ? known(after, blob.etag, etag) : after];
}

/** An ETag that nobody was told is known from now on, wherever the version is. */
function known({ blobs: [first, second], past }: State, from: string, to: string): State {
  const named = <T extends Content>(each: T): T =>
    each.etag === from ? { ...each, etag: to } : each;
  return {
    blobs: [first && named(first), second && named(second)],
    past: past.map(named),
  };
}

type Memory = { past: (PastId & { readonly name: Name })[] };

function choose(random: Random, { past }: Memory, fresh: () => string): PastInput {
  const dice = random.below(100);
  const name = random.below(2) as Name;
  const size = random.chance(6) ? LARGE : 40;
  const one = past.length > 0 && random.chance(60) ? random.pick(past) : undefined;
  const of = one === undefined ? {} : { name: one.name, of: { kind: one.kind, id: one.id } };
  if (dice < 30) return { kind: "put", name, word: fresh(), size };
  if (dice < 38) return { kind: "metadata", name, word: fresh() };
  if (dice < 52) return { kind: "snapshot", name };
  if (dice < 65) {
    const from = one?.name ?? name;
    const to = (random.chance(70) ? 1 - from : from) as Name;
    return { kind: "copy", name, to, ...of };
  }
  if (dice < 88) return { kind: "get", name, ...of };
  if (dice < 93 && one?.kind === "snapshot") return { kind: "drop", name: one.name, id: one.id };
  return { kind: "delete", name, withSnapshots: random.chance(60) };
}

const fieldOf = { snapshot: "snapshot", version: "versionid" } as const;

function sentFor(object: string, input: PastInput): Sent {
  const pathOf = (name: Name) => `/${CONTAINER}/${object}/${NAMES[name]}`;
  const to = { service: "blob", method: "PUT", path: pathOf(input.name) } as const;
  switch (input.kind) {
    case "put": {
      const headers = { "x-ms-blob-type": "BlockBlob", "x-ms-meta-stamp": input.word };
      return { ...to, headers, body: bodyOf(input.word, input.size) };
    }
    case "metadata":
      return { ...to, query: { comp: "metadata" }, headers: { "x-ms-meta-stamp": input.word } };
    case "snapshot":
      return { ...to, query: { comp: "snapshot" } };
    case "copy": {
      const { of } = input;
      const query = of === undefined ? "" : `?${fieldOf[of.kind]}=${encodeURIComponent(of.id)}`;
      const source = { header: "x-ms-copy-source", path: `${to.path}${query}` };
      return { ...to, path: pathOf(input.to), source };
    }
    case "get": {
      const { of } = input;
      return { ...to, method: "GET", query: of === undefined ? {} : { [fieldOf[of.kind]]: of.id } };
    }
    case "delete": {
      const headers: Record<string, string> = {};
      if (input.withSnapshots) headers["x-ms-delete-snapshots"] = "include";
      return { ...to, method: "DELETE", headers };
    }
    case "drop":
      return { ...to, method: "DELETE", query: { snapshot: input.id } };
  }
}

/**
 * Two blobs with what is kept of them: snapshots and, where the account has them, versions; and copies from one to
 * the other, or from what was back to what is.
 */
export const pastSubject: Subject<State, PastInput, PastOutput, Memory> = {
  name: "Past",
  model: {
    initial: { blobs: [undefined, undefined], past: [] },
    next,
    text: (state) => JSON.stringify(state),
  },
  memory: () => ({ past: [] }),
  choose,
  looks: () => [
    { kind: "get", name: 0 },
    { kind: "get", name: 1 },
  ],
  async ask(line, object, input) {
    const answer = await line(sentFor(object, input));
    const { headers, text } = answer;
    const told = toldBy(answer);
    const version = headers["x-ms-version-id"];
    const common = { told, etag: headers.etag, version };
    if (input.kind === "snapshot") return { ...common, snapshot: headers["x-ms-snapshot"] };
    if (input.kind !== "get" || answer.status !== 200) return common;
    return { ...common, text: wordIn(text), stamp: headers["x-ms-meta-stamp"] ?? "" };
  },
  learn(memory, input, output) {
    const { snapshot, version } = output;
    if (output.told >= "300") return;
    const name = input.kind === "copy" ? input.to : input.name;
    if (input.kind === "snapshot" && snapshot !== undefined) {
      memory.past.push({ name, kind: "snapshot", id: snapshot });
    }
    const isWrite = input.kind === "put" || input.kind === "metadata" || input.kind === "copy";
    if (isWrite && version !== undefined) memory.past.push({ name, kind: "version", id: version });
  },
  prepare: (line) => madeContainer(line),
};
