import type { Authority } from "../auth/authorize.ts";
import type { Caller, Service } from "../auth/caller.ts";
import type { Allow } from "../auth/may-do.ts";
import type { ByteStream } from "../base/bytes.ts";
import type { Ids } from "../base/ids.ts";
import type { Log } from "../base/log.ts";
import type { Instant, Tick } from "../base/time.ts";
import type { XmlElement } from "../base/xml.ts";
import type { ReadTx, WriteTx } from "../engine/engine.ts";
import type { Conditions, ConditionUse, Versioned } from "../rules/conditions.ts";
import type { ErrorCode, ErrorDetails } from "../rules/errors.ts";
import type { Lease, LeaseCodes } from "../rules/lease.ts";
import type { RestUse } from "../rules/sharing.ts";
import type { Tags } from "../rules/tags.ts";
import type { ServiceVersion } from "../rules/versions.ts";
import type { Contents, Opened, Staged } from "../store/content.ts";
import type { Opens } from "../store/opens.ts";
import type { Message } from "./parse.ts";

export type { Service };

/** What a URL names; which of them there are is each service's own. */
export type Level = "service" | BlobLevel | QueueLevel | TableLevel | FileLevel;
export type BlobLevel = "container" | "blob";
export type QueueLevel = "queue" | "messages" | "message";
export type TableLevel = "tables" | "table" | "entities" | "entity" | "batch" | "metadata";
export type FileLevel = "share" | "directory" | "file";

/** What a path stands for: a level, and the names on the way to it. */
export type Place = { readonly level: Level; readonly names: readonly string[] };

/** One of the services: all that the HTTP front end must know of it. */
export type ServiceDefinition = {
  readonly name: Service;
  /** Every operation; the router and docs/operations.md are made from this list. */
  readonly operations: readonly Operation[];
  /** What the parts of a path, after the account, stand for. */
  place(segments: readonly string[], query: ReadonlyMap<string, string>): Place;
  /** The verb that is meant, where a header may stand in for the one that was sent. */
  verb?(method: string, header: (name: string) => string | undefined): string;
  /** How an error is written to a request for this URL; as XML where the service does not say. */
  errorBody?(url: string): ErrorBody | undefined;
  /** Throws where nobody from outside may do this, whoever it is. */
  refuse?(operation: Operation, request: Request): void;
};

/** Writes an error's body; `text` is its message with the request's id and time. */
export type ErrorBody = (error: {
  readonly code: string;
  readonly text: string;
  readonly details: ErrorDetails;
}) => { readonly type: string; readonly body: string };

/** A parsed request: what the wire said. Headers of one operation only are read by its `input`. */
export type Request = {
  readonly id: string;
  readonly clientId: string | undefined;
  readonly method: string;
  /** Who sent it; http/run.ts holds what they may against the row. */
  readonly caller: Caller;
  /** The address it came from. */
  readonly client: string | undefined;
  readonly service: Service;
  readonly account: string;
  readonly level: Level;
  /** The names on the way to it, as the service's `place` found them. */
  readonly names: readonly string[];
  /** The base of the service's URLs, with a slash at the end. */
  readonly endpoint: string;
  /** Whether it came by the account's secondary address, which is for reading only. */
  readonly secondary: boolean;
  readonly version: ServiceVersion;
  readonly query: ReadonlyMap<string, string>;
  readonly conditions: Conditions;
  readonly leaseId: string | undefined;
  readonly snapshot: Tick | undefined;
  readonly versionId: Tick | undefined;
  /** The key that the customer gives for the content, if there is one. */
  readonly customerKey: CustomerKey | undefined;
  readonly body: RequestBody;
  header(name: string): string | undefined;
  /** Names and values of the headers that begin with `prefix`, names as they were sent, without it. */
  headersFrom(prefix: string): [string, string][];
};

/** A key for AES-256, and its SHA-256 in base64, by which it is known later. */
export type CustomerKey = { readonly key: Uint8Array; readonly sha256: string };

export type RequestBody = {
  /** As Content-Length has it; undefined if the length was not announced. */
  readonly size: number | undefined;
  /** All of it, in memory; only where `size` is known to be small. */
  whole(): Promise<Buffer>;
  stream(): ByteStream;
  /** Sums of a small body that were made elsewhere. */
  readonly sums?: MadeSums | undefined;
  /** Which sums of a large one are made elsewhere while it comes, and these when all of it has come. */
  readonly willSum?: { readonly md5: boolean; readonly crc64: boolean };
  laterSums?(): Promise<MadeSums>;
};

/** Base64 MD5 and CRC-64, as far as they were made. */
export type MadeSums = { readonly md5: string | undefined; readonly crc64: string | undefined };

/** Thrown by `apply` to answer with a reply and yet write nothing: a refusal that is not the whole reply. */
export class Refused extends Error {
  readonly reply: Reply;

  constructor(reply: Reply) {
    super("refused");
    this.reply = reply;
  }
}

export type HeaderValue = string | number | boolean | undefined;

/** What goes back; a header that is undefined is left out. */
export type Reply = {
  readonly status: number;
  readonly headers: Readonly<Record<string, HeaderValue>>;
  readonly body?: string | Opened;
};

/**
 * What `apply` gives when it has done its share of a longer work: the request is run once more, on what that
 * transaction left. So none holds up the others for long.
 */
export const unfinished: unique symbol = Symbol("unfinished");
export type Applied = Reply | typeof unfinished;

/** Anything that conditional headers and leases can be about. */
export type Guarded = Versioned & { readonly lease: Lease; readonly tags?: Tags };

/** How http/run.ts finds what an operation is about, and what it answers when it is not there. */
export type Target<P, R extends Guarded> = {
  /** Throws if the request's names are none; before anything of it is done. */
  check?(request: Request): void;
  /** `place` is where it is or would be; throws if not even that exists. */
  find(
    tx: ReadTx,
    request: Request,
    around: Surroundings,
  ): Promise<{ place: P; found: R | undefined }>;
  readonly missing: ErrorCode;
  /** Whether it may have tags, which `x-ms-if-tags` is about. */
  readonly hasTags?: true;
  /** How a file is entered beside those that have it open; undefined where nothing can be open. */
  readonly use?: RestUse;
  readonly leaseCodes: LeaseCodes;
};

export type Guard<P, R extends Guarded> = {
  readonly on: Target<P, R>;
  /** How conditional headers are judged; "none" refuses them, "own" leaves them to the operation. */
  readonly conditions: ConditionUse | "none" | "own";
  /** What stands before the names of the conditional headers, if it is not nothing. */
  readonly prefix?: string;
  /** Whether a held lease must be named ("guarded"), may be ("free"), or is the operation's own matter. */
  readonly lease: "guarded" | "free" | "own";
  /** Whether the operation itself says what is to be done where nothing is found. */
  readonly mayMiss?: boolean;
};

/** The body of a request after it was received, by what the row says it is. */
export type Received = {
  readonly xml: XmlElement | undefined;
  /** The whole body, where the row asks for it in memory. */
  readonly bytes: Buffer;
  readonly staged: Staged;
  /** Base64 MD5 and CRC-64 of the bytes, as far as they were computed. */
  readonly md5: string | undefined;
  readonly crc64: string | undefined;
  /** The headers that the source of a copy answered with. */
  readonly source?: Pick<OpenSource, "header" | "metadata">;
  readonly copiedTags?: Tags;
};

/** A request that has no connection of its own, and what may be done with it. */
export type InnerRequest = {
  readonly message: Message;
  readonly secure: boolean;
  readonly body: RequestBody;
  /** Where it came from, if it came from anywhere. */
  readonly client?: string | undefined;
  /** Whoever asks, if that is known already and need not be told by the message. */
  readonly caller?: Caller | undefined;
  /** The names of the operations that it may be. */
  readonly only?: readonly string[];
  /** The version it is of, if it does not say so itself. */
  readonly version?: string | undefined;
};

/** A way into a service from within: parse, authorize, match and run, as for a request from outside. */
export type InnerDoor = { answer(inner: InnerRequest): Promise<Reply> };
/** Thrown by a `find` where something must happen first that no transaction may wait for; then it runs again. */
export class MustWait extends Error {
  /** Waits for it, no longer than the request allows; no limit is given where it names none. */
  readonly until: (limitMs?: number) => Promise<void>;
  constructor(until: MustWait["until"]) {
    super("the transaction is to run again later");
    this.until = until;
  }
}

/** What `apply` has to work with, beside the transaction. */
export type Surroundings = {
  /** The services by name, once they are there. */
  readonly doors: Map<Service, InnerDoor>;
  readonly sources: Sources;
  /** Copies that go on after their request was answered. */
  readonly copies: { wake(): void };
  readonly contents: Contents;
  readonly opens: Opens;
  readonly ids: Ids;
  readonly log: Log;
  readonly settings: Settings;
  /** Who may come; for rows that hand out rights or read in somebody's name. */
  readonly authority: Authority;
  /** Keeps events of changes, where the change feed is switched on. */
  readonly changes?: ChangeNotes;
};

/** Notes changes in the transactions that make them: see blob/change-feed.ts. */
export type ChangeNotes = {
  note(change: NotedChange): Promise<void>;
  /** A copy in the background is complete. */
  copied(tx: WriteTx, place: unknown, record: unknown): void;
};

/** An operation that has been done, in its transaction still; `found` is what was there before. */
export type NotedChange = {
  readonly tx: WriteTx;
  readonly operation: Operation;
  readonly request: Request;
  readonly place: unknown;
  readonly found: unknown;
  readonly reply: Reply;
};

/** Reads what a copy names as its source, here or elsewhere: see http/source.ts. */
export type Sources = {
  /** The request for a thing of ours that a URL names, if it does, to be judged by the one who asks. */
  local(url: URL, asker: Asker): LocalSource | undefined;
  /** Reads a source; what is wrong with it is thrown as the copy's own error. */
  open(ask: SourceAsk, asker: Asker): Promise<OpenSource>;
};

export type LocalSource = { readonly service: Service; readonly message: Message };

/** What is asked of a source: its whole or a range, under conditions. */
export type SourceAsk = {
  readonly url: URL;
  readonly method: "GET" | "HEAD";
  readonly headers: Readonly<Record<string, string>>;
};

/** A source that answered. */
export type OpenSource = {
  readonly status: number;
  header(name: string): string | undefined;
  /** The `x-ms-meta-` headers, without that prefix. */
  readonly metadata: readonly (readonly [string, string])[];
  stream(): ByteStream;
  close(): void;
};

/** The one who asks for a source. */
export type Asker = Pick<Request, "account" | "endpoint" | "caller">;

/** What the configuration says that operations need. */
export type Settings = {
  readonly rehydrateMs: number;
  /** Whether every state of a blob is kept as a version. */
  readonly versioning: boolean;
  /** Whether states of blobs can be made immutable. */
  readonly immutableStorage: boolean;
  /** For how many days a deleted container can be restored; 0 means not at all. */
  readonly containerRetentionDays: number;
};

export type Call<Tx, I, P, R> = {
  readonly tx: Tx;
  readonly request: Request;
  readonly input: I;
  readonly received: Received;
  readonly place: P;
  readonly found: R;
  readonly around: Surroundings;
};

/** How the parts of a row that are the same for reading and writing look. */
type Row<I, P, R extends Guarded> = {
  /** As the reference names it. */
  readonly name: string;
  /** What tells it from every other row; tools/operations.test.ts proves that no two are alike. */
  readonly match: Match;
  /** Who may do it: the SAS letters any of which allows it, the account SAS resource type, and more. */
  readonly allow: Allow;
  /** Whether `?snapshot=` may be there. */
  readonly snapshots?: boolean;
  /** Whether `?versionid=` may be there. */
  readonly versions?: boolean;
  /** Headers that change what an operation means, and that this one heeds: see http/heeded.ts. */
  readonly heeds?: readonly string[];
  readonly body?: BodyRule;
  /** Whether the bytes of its reply may be asked for as a structured message; bytes sent may always be one. */
  readonly structured?: boolean;
  /** Reads and checks the headers and parameters that only this operation has. */
  readonly input?: (request: Request, received: Pick<Received, "xml" | "bytes">) => I;
  /** What must be fetched before the transaction, in place of taking in a body. */
  readonly prepare?: (request: Request, input: I, around: Surroundings) => Promise<Received>;
  /** Whether its reply has the ETag of its target; docs/concurrency.md tells, and a test tries it. */
  readonly givesEtag?: boolean;
  readonly guard: Guard<P, R>;
};

export type Match = {
  readonly method: string;
  /** Whether HEAD does the same, without a body. */
  readonly headToo?: boolean;
  readonly on: Level;
  readonly restype?: string;
  readonly comp?: string;
  /** A header that must be there, with this value if one is given. */
  readonly header?: HeaderMatch;
  /** A second one. */
  readonly also?: HeaderMatch;
  /** A parameter that must have this value. */
  readonly query?: { readonly name: string; readonly value: string };
};

export type HeaderMatch = { readonly name: string; readonly value?: string };

export type BodyRule =
  /**
   * A document of at most `sizeMax` bytes; `optional` if none may mean the same as an empty one, `crc64` if
   * the reply names its sum whether or not one was sent.
   */
  | {
      readonly kind: "xml";
      readonly sizeMax: number;
      readonly optional?: boolean;
      readonly crc64?: true;
    }
  /** Anything small, given to `input` as bytes. */
  | { readonly kind: "whole"; readonly sizeMax: number }
  /** Bytes to be kept; which sums are computed whatever the request asks for. */
  | {
      readonly kind: "bytes";
      readonly sizeMax: (version: ServiceVersion) => number;
      readonly md5: "always" | "if-sent";
      /** Headers that may carry the MD5 to be checked, the first one that is there counts. */
      readonly md5Headers: readonly string[];
    };

export type ReadOperation<I, P, R extends Guarded> = Row<I, P, R> & {
  readonly kind: "read";
  apply(call: Call<ReadTx, I, P, R>): Promise<Applied>;
  /** What must wait for the disk and so cannot be done in the transaction. */
  finish?(reply: Reply, input: I): Promise<Reply>;
};

export type WriteOperation<I, P, R extends Guarded> = Row<I, P, R> & {
  readonly kind: "write";
  /** Runs in the transaction, and again on a conflict: nothing may happen outside `tx`. */
  apply(call: Call<WriteTx, I, P, R>): Promise<Applied>;
};

/** One that is made of others, each with a transaction of its own. */
export type BatchOperation<I, P, R extends Guarded> = Row<I, P, R> & {
  readonly kind: "batch";
  answer(call: Pick<Call<never, I, P, R>, "request" | "input" | "around">): Promise<Reply>;
};

/** One row of Azure's REST reference. */
export type Operation =
  // biome-ignore lint/suspicious/noExplicitAny: rows of all kinds stand in one list; each is checked where it is made
  ReadOperation<any, any, any> | WriteOperation<any, any, any> | BatchOperation<any, any, any>;

export const readOperation = <I, P, R extends Guarded>(
  row: Omit<ReadOperation<I, P, R>, "kind">,
): Operation => ({ ...row, kind: "read" });

/** A read that has an answer also where its target is missing: `found` may be undefined. */
export const searchOperation = <I, P, R extends Guarded>(
  row: Omit<ReadOperation<I, P, R>, "kind" | "apply"> & {
    apply(call: Call<ReadTx, I, P, R | undefined>): Promise<Applied>;
  },
): Operation => ({ ...row, guard: { ...row.guard, mayMiss: true }, kind: "read" });

export const writeOperation = <I, P, R extends Guarded>(
  row: Omit<WriteOperation<I, P, R>, "kind">,
): Operation => ({ ...row, kind: "write" });

/** A write that makes its target where there is none, or has another answer: `found` may be undefined. */
export const createOperation = <I, P, R extends Guarded>(
  row: Omit<WriteOperation<I, P, R>, "kind" | "apply"> & {
    apply(call: Call<WriteTx, I, P, R | undefined>): Promise<Applied>;
  },
): Operation => ({ ...row, guard: { ...row.guard, mayMiss: true }, kind: "write" });

export const batchOperation = <I, P, R extends Guarded>(
  row: Omit<BatchOperation<I, P, R>, "kind">,
): Operation => ({ ...row, kind: "batch" });

/** A target for operations on the service itself, which is always there and has neither ETag nor lease. */
export const theService: Target<undefined, Guarded> = {
  find: async () => ({
    place: undefined,
    found: { etag: "", modifiedAt: 0 as Instant, lease: { state: "available" } },
  }),
  missing: "ResourceNotFound",
  leaseCodes: {
    mismatch: "LeaseIdMismatchWithContainerOperation",
    notPresent: "LeaseNotPresentWithContainerOperation",
  },
};
