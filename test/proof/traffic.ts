import type { Random } from "../simulation/power-cut.ts";
import type { Model } from "./linearizable.ts";

export type ServiceName = "blob" | "queue" | "table" | "file";
export type Fields = Readonly<Record<string, string>>;

/** One request; `path` begins after the account, is not encoded, and header names are in lower case. */
export type Sent = {
  readonly service: ServiceName;
  readonly method: string;
  readonly path: string;
  readonly query?: Fields;
  readonly headers?: Fields;
  readonly body?: string;
  /** A header that names another path of the service by its URL. */
  readonly source?: { readonly header: string; readonly path: string };
};

/** A reply; bytes are told as Latin-1. */
export type Answer = {
  readonly status: number;
  readonly code: string | undefined;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly text: string;
};

/** The way to a server: over HTTP, or straight into `run`. It throws if no answer comes. */
export type Line = {
  (sent: Sent): Promise<Answer>;
  /** Where the server speaks SMB, and which of its lives this is; not in a simulation. */
  readonly smb?: { readonly port: number; readonly life: number };
};

/** What every answer is held against: status and code, "201" or "409 LeaseAlreadyPresent". */
export type Told = { readonly told: string };

export const toldBy = ({ status, code }: Answer): string =>
  code === undefined ? `${status}` : `${status} ${code}`;

/** A kind of object that clients work on at once: what they do, how it is asked for, and what it must be. */
export type Subject<S, I, O extends Told, M> = {
  readonly name: string;
  readonly model: Model<S, I, O>;
  /** What a client knows at first. */
  memory(client: number): M;
  /** What a client does next; `fresh` is a word that nobody has used before. */
  choose(random: Random, memory: M, fresh: () => string): I;
  /** What is read at the end, when nothing else goes on. */
  looks(memory: M): readonly I[];
  /** Makes a client ready for its next operation; false if it cannot be now. */
  ready?(line: Line, memory: M): Promise<boolean>;
  /** What a client has still to do before it is done, one after another. */
  last?(memory: M): I | undefined;
  /** What an operation is a sequence of, if others may come between; each has the same answer. */
  parts?(input: I, memory: M): readonly I[];
  ask(line: Line, object: string, input: I, memory: M): Promise<O>;
  /** What happens to the object when the process of this life ends, and how that is told. */
  readonly crash?: (life: number) => { readonly input: I; readonly output: O };
  learn(memory: M, input: I, output: O): void;
  /** What must be there before the first operation on an object. */
  prepare(line: Line, object: string): Promise<void>;
};

// biome-ignore lint/suspicious/noExplicitAny: subjects of all kinds stand in one list; each is checked where it is made
export type AnySubject = Subject<any, any, any, any>;

export const LARGE = 70_000;

/** A body that says in every place which write it belongs to, so that a torn one shows. */
export const bodyOf = (word: string, size: number): string =>
  `${word};`.repeat(Math.ceil(size / (word.length + 1))).slice(0, Math.max(size, word.length + 1));

/** The word and size that a body was made of; what is put together from several is told as torn. */
export function wordIn(body: string): string {
  const word = body.slice(0, body.indexOf(";"));
  const isWhole = body === bodyOf(word, body.length);
  return isWhole ? `${word}/${body.length}` : `torn:${body.length}:${body.slice(0, 80)}`;
}

/** A GUID of a client's own. */
export const guidOf = (client: number, which: number): string =>
  `00000000-0000-4000-8000-${String(client * 10 + which).padStart(12, "0")}`;

/** An ETag that nobody was told: it is another one than any that was told before it is first seen. */
export const untold = (from: number): string => `?${from}`;
export const isUntold = (etag: string): boolean => etag.startsWith("?");

/** Whether an ETag that an answer shows can be the one there is. */
export const shows = (shown: string | undefined, etag: string): boolean =>
  shown === etag || (isUntold(etag) && shown !== undefined);

/** Whether a write's ETag can be a new one. */
export const isNew = (shown: string | undefined, before: string | undefined): boolean =>
  shown !== undefined && shown !== before;

/** What must be there for the test to mean anything; a name that is taken is there. */
export async function made(line: Line, sent: Sent): Promise<void> {
  const answer = await line(sent);
  if (answer.status !== 201 && answer.status !== 409 && answer.status !== 204) {
    throw new Error(`${sent.method} ${sent.path}: ${toldBy(answer)} ${answer.text}`);
  }
}
