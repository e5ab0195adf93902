import assert from "node:assert/strict";
import { ownerOf } from "../../src/auth/caller.ts";
import { randomIds } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import type { Tick } from "../../src/base/time.ts";
import { blobService } from "../../src/blob/operations.ts";
import type { Engine, WriteTx } from "../../src/engine/engine.ts";
import { memoryEngine } from "../../src/engine/memory.ts";
import { memoryFiles } from "../../src/engine/memory-files.ts";
import { router } from "../../src/http/match.ts";
import type {
  InnerDoor,
  Reply,
  RequestBody,
  Settings,
  Surroundings,
} from "../../src/http/operation.ts";
import { type Message, parseAddress, parseRequest } from "../../src/http/parse.ts";
import { run } from "../../src/http/run.ts";
import { copySources } from "../../src/http/source.ts";
import { errors, StorageError } from "../../src/rules/errors.ts";
import { check } from "../../src/store/check.ts";
import { Contents } from "../../src/store/content.ts";
import { Opens } from "../../src/store/opens.ts";
import { expireBlocks, purge, sweepFiles, sweepGarbage } from "../../src/store/sweep.ts";

const ACCOUNT = "account";
export const SECOND = 1_000;
export const HOUR = 3_600 * SECOND;
export const DAY = 24 * HOUR;

type Fields = Readonly<Record<string, string>>;

/** One request; `path` begins after the account and is not encoded, header names are in lower case. */
export type Sent = {
  readonly query?: Fields;
  readonly headers?: Fields;
  readonly body?: Buffer | string;
};

export type Answer = {
  readonly status: number;
  readonly code: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
};

const route = router(blobService.operations);

/**
 * The Blob service on an engine in memory, with a clock that only the test moves: what a server does between
 * its socket and its disk. Every body of a write runs twice, so none may have another effect than its writes.
 */
export class World {
  at = Date.UTC(2030, 0, 1);
  settings: Settings;
  readonly #engine: Engine;
  readonly #files = memoryFiles(randomIds);
  readonly #contents: Contents;
  readonly #heapIds = new Set<Tick>();

  constructor(settings: Partial<Settings> = {}) {
    this.settings = {
      rehydrateMs: HOUR,
      versioning: false,
      immutableStorage: false,
      containerRetentionDays: 0,
      ...settings,
    };
    const engine = memoryEngine({ clock: { now: () => this.at }, conflicts: () => true });
    this.#engine = { ...engine, write: (body) => engine.write((tx) => body(this.#watched(tx))) };
    this.#contents = new Contents(this.#engine, this.#files);
  }

  /** Notes which values of the heap were ever written, as an engine cannot list them. */
  #watched(tx: WriteTx): WriteTx {
    return new Proxy(tx, {
      get: (target, name) => {
        if (name === "putHeap") {
          return (id: Tick, value: Uint8Array) => {
            this.#heapIds.add(id);
            target.putHeap(id, value);
          };
        }
        const member = Reflect.get(target, name, target);
        return typeof member === "function" ? member.bind(target) : member;
      },
    });
  }

  pass(ms: number): void {
    this.at += ms;
  }

  async send(method: string, path: string, { query = {}, headers = {}, body = "" }: Sent = {}) {
    const bytes = Buffer.from(body);
    const encoded = path.split("/").map(encodeURIComponent).join("/");
    const url = `/${ACCOUNT}${encoded}?${new URLSearchParams(query).toString().replaceAll("+", "%20")}`;
    const all = { host: "localhost", "content-length": String(bytes.length), ...headers };
    const message = { method, url, headers: all, rawHeaders: Object.entries(all).flat() };
    try {
      return await answered(await this.#answer(message, bodyOf(bytes)));
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      const [, , wire]: readonly [number, string, string?] = errors[error.code];
      const { status, code } = error;
      return { status, code: wire ?? code, headers: {}, text: "" } satisfies Answer;
    }
  }

  async #answer(message: Message, body: RequestBody): Promise<Reply> {
    const address = parseAddress(message, false);
    const ids = { id: "", clientId: undefined };
    const parsed = parseRequest(message, blobService, address, ids, undefined, body);
    const request = { ...parsed, caller: ownerOf(ACCOUNT), client: undefined };
    return run(route(request), request, this.#engine, this.#around());
  }

  /** Copies may read what is here, by way of http://localhost, and nothing else. */
  #around(): Surroundings {
    const blob: InnerDoor = { answer: ({ message, body }) => this.#answer(message, body) };
    const doors = new Map([["blob" as const, blob]]);
    const sources = copySources({ doors, ports: new Map([[80, "blob"]]), hosts: [] });
    const copies = { wake: () => {} };
    const own = { contents: this.#contents, ids: randomIds, log: silentLog };
    const authority = { accounts: () => new Map(), tokens: undefined, roles: () => undefined };
    const { settings } = this;
    return { ...own, settings, doors, sources, copies, authority, opens: new Opens() };
  }

  /** Sends what must be answered with this status, and this code if it is a refusal. */
  async must(want: string, method: string, path: string, sent: Sent = {}): Promise<Answer> {
    const answer = await this.send(method, path, sent);
    const { status, code } = answer;
    const got = code === undefined || !want.includes(" ") ? `${status}` : `${status} ${code}`;
    assert.equal(got, want, `${method} ${path} ${JSON.stringify(sent.query ?? {})}`);
    return answer;
  }

  get #store() {
    const bytes = { files: this.#files, contents: this.#contents };
    return { engine: this.#engine, ...bytes, log: silentLog };
  }

  /** What the background does every second, and every hour. */
  async sweep(): Promise<void> {
    await this.expireBlocks();
    await sweepFiles(this.#store);
    await purge(this.#store, this.at);
    // What is taken apart may hold what must be taken apart too; then it is the next second's matter.
    while ((await sweepGarbage(this.#store)) > 0);
  }

  /** Drops blocks that no list has named for a week, which can be seen until this is done. */
  async expireBlocks(): Promise<void> {
    await expireBlocks(this.#store, this.at);
  }

  /** How many rows each subspace of the engine has, and values the heap, and files there are. */
  async left(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    const count = (what: string) => {
      counts[what] = (counts[what] ?? 0) + 1;
    };
    await this.#engine.read(async (tx) => {
      const range = { from: Buffer.of(0), to: Buffer.of(255), limit: 1_000_000 };
      for (const { key } of await tx.range(range)) count(`subspace ${key[0]}`);
      for (const id of this.#heapIds) if ((await tx.getHeap(id)) !== undefined) count("heap");
    });
    await this.#files.sweep(async (names) => {
      for (const _ of names) count("files");
      return new Set(names);
    });
    return counts;
  }

  /** Fails if a record names bytes that are not there, or a count of references is wrong. */
  async checked(): Promise<void> {
    const lines: string[] = [];
    const problems = await check(this.#engine, this.#files, {
      say: (line) => void lines.push(line),
    });
    assert.equal(problems, 0, lines.join("\n"));
  }

  async create(container: string): Promise<void> {
    await this.must("201", "PUT", `/${container}`, { query: { restype: "container" } });
  }

  /** Switches soft delete of blobs on for this many days, or off. */
  async keepDeleted(days: number | undefined, allowPermanentDelete = false): Promise<void> {
    const policy =
      days === undefined
        ? "<Enabled>false</Enabled>"
        : `<Enabled>true</Enabled><Days>${days}</Days><AllowPermanentDelete>${allowPermanentDelete}</AllowPermanentDelete>`;
    const body = `<StorageServiceProperties><DeleteRetentionPolicy>${policy}</DeleteRetentionPolicy></StorageServiceProperties>`;
    await this.must("202", "PUT", "/", { query: { restype: "service", comp: "properties" }, body });
  }

  /** Put Blob that must succeed. */
  put(path: string, body: Buffer | string, headers: Fields = {}): Promise<Answer> {
    const sent = { headers: { "x-ms-blob-type": "BlockBlob", ...headers }, body };
    return this.must("201", "PUT", path, sent);
  }

  comp(want: string, path: string, comp: string, headers: Fields = {}, query: Fields = {}) {
    return this.must(want, "PUT", path, { query: { comp, ...query }, headers });
  }

  /** One line for each thing List Blobs shows: its name, and what it is. */
  async list(container: string, include = "", more: Fields = {}): Promise<string[]> {
    const query = {
      ...{ restype: "container", comp: "list", ...more },
      ...(include === "" ? {} : { include }),
    };
    const { text } = await this.must("200", "GET", `/${container}`, { query });
    return [...text.matchAll(/<Blob>(.*?)<\/Blob>/gs)].map(([, xml = ""]) => {
      const has = (name: string) => new RegExp(`<${name}>([^<]+)</${name}>`).exec(xml)?.[1];
      const words = [
        has("Deleted") === "true" ? "deleted" : "",
        has("Snapshot") === undefined ? "" : "snapshot",
        has("VersionId") === undefined ? "" : "version",
        has("IsCurrentVersion") === "true" ? "current" : "",
        has("HasVersionsOnly") === "true" ? "only" : "",
      ];
      return [has("Name"), ...words.filter((word) => word !== "")].join(" ");
    });
  }

  /** The containers List Containers shows. */
  async containers(include = ""): Promise<{ name: string; version: string | undefined }[]> {
    const query = { comp: "list", ...(include === "" ? {} : { include }) };
    const { text } = await this.must("200", "GET", "/", { query });
    return [...text.matchAll(/<Container>(.*?)<\/Container>/gs)].map(([, xml = ""]) => ({
      name: /<Name>([^<]+)</.exec(xml)?.[1] ?? "",
      version: /<Version>([^<]+)</.exec(xml)?.[1],
    }));
  }

  /** The names Find Blobs by Tags gives. */
  async find(where: string): Promise<string[]> {
    const { text } = await this.must("200", "GET", "/", { query: { comp: "blobs", where } });
    return [...text.matchAll(/<Name>([^<]+)</g)].map((match) => match[1] ?? "");
  }
}

const bodyOf = (bytes: Buffer): RequestBody => ({
  size: bytes.length,
  whole: async () => bytes,
  async *stream() {
    if (bytes.length > 0) yield bytes;
  },
});

async function answered({ status, headers, body }: Reply): Promise<Answer> {
  const given = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name.toLowerCase(), String(value)] as const],
  );
  let text = "";
  if (typeof body === "string") text = body;
  else if (body !== undefined) {
    const parts: Uint8Array[] = [...(body.bytes ?? [])];
    for await (const part of body.stream()) parts.push(part);
    body.close();
    text = Buffer.concat(parts).toString();
  }
  return { status, code: undefined, headers: Object.fromEntries(given), text };
}
