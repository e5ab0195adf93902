import { randomIds } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import type { Clock } from "../../src/base/time.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { ChunkFiles } from "../../src/engine/files.ts";
import { memoryEngine } from "../../src/engine/memory.ts";
import { memoryFiles } from "../../src/engine/memory-files.ts";
import { fileService } from "../../src/file/operations.ts";
import { router } from "../../src/http/match.ts";
import type { InnerDoor, Reply, RequestBody, Surroundings } from "../../src/http/operation.ts";
import { asOwner, type Message, parseAddress, parseRequest } from "../../src/http/parse.ts";
import { run } from "../../src/http/run.ts";
import { copySources } from "../../src/http/source.ts";
import { errors, StorageError } from "../../src/rules/errors.ts";
import { NEWEST_VERSION } from "../../src/rules/versions.ts";
import { check } from "../../src/store/check.ts";
import { Contents } from "../../src/store/content.ts";
import { Opens } from "../../src/store/opens.ts";
import { sweepGarbage } from "../../src/store/sweep.ts";

export type Ask = {
  readonly method?: string;
  /** From the share on: "/share/directory/file". */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
};

export type Answer = {
  readonly status: number;
  readonly code: string | undefined;
  readonly text: string;
  header(name: string): string | undefined;
};

const route = router(fileService.operations);

/** The File service on an engine in memory, with a clock that the test owns; no port and no signature. */
export class TestService {
  readonly clock: Clock & { at: number };
  readonly engine: Engine;
  readonly files: ChunkFiles = memoryFiles(randomIds);
  readonly opens = new Opens();
  readonly around: Surroundings;

  constructor(conflicts: () => boolean = () => false) {
    const clock = { at: Date.parse("2026-01-01"), now: () => clock.at++ };
    this.clock = clock;
    this.engine = memoryEngine({ clock, conflicts });
    // Copies may read what is here, by way of http://localhost, and nothing else.
    const door: InnerDoor = { answer: ({ message, body }) => this.#answer(message, body) };
    const doors = new Map([["file" as const, door]]);
    this.around = {
      contents: new Contents(this.engine, this.files),
      opens: this.opens,
      ids: randomIds,
      log: silentLog,
      doors,
      copies: { wake: () => {} },
      sources: copySources({ doors, ports: new Map([[80, "file"]]), hosts: [] }),
      settings: {
        rehydrateMs: 0,
        versioning: false,
        immutableStorage: false,
        containerRetentionDays: 0,
      },
      authority: { accounts: () => new Map(), tokens: undefined, roles: () => undefined },
    };
  }

  async ask({ method = "GET", path, query = {}, headers = {}, body }: Ask): Promise<Answer> {
    const url = `/account${path.split("/").map(encodeURIComponent).join("/")}?${new URLSearchParams(query)}`;
    const all = { host: "localhost", ...headers };
    const message = { method, url, headers: all, rawHeaders: Object.entries(all).flat() };
    const bytes = body ?? Buffer.alloc(0);
    try {
      const reply = await this.#answer(message, {
        size: bytes.length,
        whole: async () => bytes,
        async *stream() {
          yield bytes;
        },
      });
      const values = new Map(
        Object.entries(reply.headers).map(([name, value]) => [name.toLowerCase(), value]),
      );
      const header = (name: string) => {
        const value = values.get(name);
        return value === undefined ? undefined : String(value);
      };
      const parts: Uint8Array[] = [];
      if (typeof reply.body === "object") {
        parts.push(...(reply.body.bytes ?? []));
        if (reply.body.bytes === undefined) {
          for await (const part of reply.body.stream()) parts.push(Buffer.from(part));
        }
        reply.body.close();
      }
      const text =
        typeof reply.body === "string" ? reply.body : Buffer.concat(parts).toString("latin1");
      return { status: reply.status, code: undefined, text, header };
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      const [status] = errors[error.code];
      return { status, code: error.code, text: "", header: () => undefined };
    }
  }

  async #answer(message: Message, body: RequestBody): Promise<Reply> {
    const address = parseAddress(message, false);
    const ids = { id: "", clientId: undefined };
    const version = String(message.headers["x-ms-version"] ?? NEWEST_VERSION);
    const parsed = parseRequest(message, fileService, address, ids, version, body);
    const request = asOwner(parsed);
    return run(route(request), request, this.engine, this.around);
  }

  createShare(name: string): Promise<Answer> {
    return this.ask({ method: "PUT", path: `/${name}`, query: { restype: "share" } });
  }

  createFile(path: string, size: number): Promise<Answer> {
    const headers = { "x-ms-type": "file", "x-ms-content-length": String(size) };
    return this.ask({ method: "PUT", path, headers });
  }

  createDirectory(path: string): Promise<Answer> {
    return this.ask({ method: "PUT", path, query: { restype: "directory" } });
  }

  putRange(path: string, start: number, text: string): Promise<Answer> {
    const range = `bytes=${start}-${start + text.length - 1}`;
    const headers = { "x-ms-write": "update", "x-ms-range": range };
    const body = Buffer.from(text, "latin1");
    return this.ask({ method: "PUT", path, query: { comp: "range" }, headers, body });
  }

  rename(
    kind: "file" | "directory",
    from: string,
    to: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer> {
    const encoded = from.split("/").map(encodeURIComponent).join("/");
    return this.ask({
      method: "PUT",
      path: to,
      query: { comp: "rename", ...(kind === "directory" ? { restype: "directory" } : {}) },
      headers: { "x-ms-file-rename-source": `http://localhost/account${encoded}`, ...headers },
    });
  }

  /** All that the background would do. */
  async sweep(): Promise<void> {
    const { engine, files } = this;
    const { contents } = this.around;
    while ((await sweepGarbage({ engine, files, contents, log: silentLog })) > 0);
  }

  /** What `lazuli check` has to say, but for its last line. */
  async problems(): Promise<string[]> {
    const lines: string[] = [];
    await check(this.engine, this.files, { say: (line) => lines.push(line) });
    return lines.slice(0, -1);
  }
}
