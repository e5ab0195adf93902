import { ownerOf } from "../../src/auth/caller.ts";
import { randomIds } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { childText, parseXml, type XmlElement } from "../../src/base/xml.ts";
import type { Engine, Entry, ReadTx } from "../../src/engine/engine.ts";
import { memoryEngine } from "../../src/engine/memory.ts";
import { memoryFiles } from "../../src/engine/memory-files.ts";
import type { Reply, Request, Surroundings } from "../../src/http/operation.ts";
import { run } from "../../src/http/run.ts";
import { queueService } from "../../src/queue/operations.ts";
import { noConditions } from "../../src/rules/conditions.ts";
import { StorageError } from "../../src/rules/errors.ts";
import { NEWEST_VERSION } from "../../src/rules/versions.ts";
import { check } from "../../src/store/check.ts";
import { Contents } from "../../src/store/content.ts";
import { sweepGarbage } from "../../src/store/sweep.ts";
import { expireMessages } from "../../src/store/sweep-messages.ts";

const ACCOUNT = "devstoreaccount1";

/** A message as a reply of the service tells it; what it does not tell is undefined. */
export type Told = {
  readonly id: string;
  readonly inserted: string | undefined;
  readonly expires: string | undefined;
  readonly receipt: string | undefined;
  readonly nextVisible: string | undefined;
  readonly dequeueCount: string | undefined;
  readonly text: string | undefined;
};

export type Answer = {
  readonly status: number;
  /** Azure's code, where the answer is a refusal. */
  readonly code: string | undefined;
  readonly headers: Reply["headers"];
  readonly messages: readonly Told[];
};

type Sent = {
  readonly query?: Readonly<Record<string, string | number>>;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly text?: string;
};

/** The Queue service in memory, with a clock that stands until the test moves it. */
export class QueueStore {
  now = Date.UTC(2030, 0, 1);
  readonly engine: Engine;
  /** How many rows the operations have looked at, and how many they have changed. */
  rowsRead = 0;
  rowsWritten = 0;
  /** The errors that the operations have told the operator of. */
  readonly logged: string[] = [];
  readonly #files = memoryFiles(randomIds);
  readonly #contents: Contents;

  constructor(conflicts?: () => boolean) {
    const clock = { now: () => this.now };
    const engine = memoryEngine({ clock, ...(conflicts === undefined ? {} : { conflicts }) });
    this.engine = {
      ...engine,
      read: (body) => engine.read((tx) => body(this.#counted(tx))),
      write: (body) => engine.write((tx) => body(this.#counted(tx))),
    };
    this.#contents = new Contents(this.engine, this.#files);
  }

  #counted<Tx extends ReadTx>(tx: Tx): Tx {
    return new Proxy(tx, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => {
          if (/^(get|getHeap)$/.test(String(name))) this.rowsRead++;
          if (/^(put|delete|putHeap|deleteHeap)$/.test(String(name))) this.rowsWritten++;
          const result: unknown = value.apply(target, args);
          return name === "range" ? this.#countedRows(result as ReturnType<Tx["range"]>) : result;
        };
      },
    });
  }

  async #countedRows(rows: ReturnType<ReadTx["range"]>): Promise<readonly Entry[]> {
    this.rowsRead += (await rows).length;
    return rows;
  }

  /** Runs one operation as the server would, once the request is parsed. */
  async call(name: string, names: readonly string[], sent: Sent = {}): Promise<Answer> {
    const operation = queueService.operations.find((candidate) => candidate.name === name);
    if (operation === undefined) throw new Error(`there is no operation ${name}`);
    const body =
      sent.text === undefined
        ? Buffer.alloc(0)
        : Buffer.from(`<QueueMessage><MessageText>${sent.text}</MessageText></QueueMessage>`);
    const request: Partial<Request> = {
      id: "",
      clientId: undefined,
      method: operation.match.method,
      caller: ownerOf(ACCOUNT),
      service: "queue",
      account: ACCOUNT,
      level: operation.match.on,
      names,
      endpoint: "",
      secondary: false,
      version: NEWEST_VERSION,
      query: new Map(Object.entries(sent.query ?? {}).map(([key, value]) => [key, String(value)])),
      conditions: noConditions,
      leaseId: undefined,
      snapshot: undefined,
      header: () => undefined,
      headersFrom: () => Object.entries(sent.metadata ?? {}),
      body: {
        size: body.length,
        whole: async () => body,
        async *stream() {
          yield body;
        },
      },
    };
    // No operation of queues looks at anything else, in either.
    const log = { ...silentLog, error: (what: string) => void this.logged.push(what) };
    const around = { contents: this.#contents, ids: randomIds, log } as Partial<Surroundings>;
    try {
      const {
        status,
        headers,
        body: text,
      } = await run(operation, request as Request, this.engine, around as Surroundings);
      return { status, code: undefined, headers, messages: toldIn(text) };
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      return { status: 0, code: error.code, headers: {}, messages: [] };
    }
  }

  /** What runs in the background. */
  async sweep(): Promise<void> {
    await expireMessages(this.engine, this.now);
    const options = { engine: this.engine, files: this.#files, contents: this.#contents };
    await sweepGarbage({ ...options, log: silentLog });
  }

  /** What `lazuli check` says, but for its last line. */
  async problems(): Promise<readonly string[]> {
    const lines: string[] = [];
    await check(this.engine, this.#files, { say: (line) => void lines.push(line) });
    return lines.slice(0, -1);
  }
}

function toldIn(body: Reply["body"]): Told[] {
  if (typeof body !== "string" || !body.includes("<QueueMessagesList")) return [];
  return parseXml(Buffer.from(body)).children.map((message: XmlElement) => ({
    id: childText(message, "MessageId") ?? "",
    inserted: childText(message, "InsertionTime"),
    expires: childText(message, "ExpirationTime"),
    receipt: childText(message, "PopReceipt"),
    nextVisible: childText(message, "TimeNextVisible"),
    dequeueCount: childText(message, "DequeueCount"),
    text: childText(message, "MessageText"),
  }));
}
