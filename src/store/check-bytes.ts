import { crc32 } from "node:zlib";
import { CorruptFile, type FileReader } from "../engine/files.ts";
import { Census, type Checking, each } from "./checking.ts";
import { chunkFiles, pieces, references } from "./keys.ts";
import type { Chunk, Content } from "./records.ts";

const HEAP_BATCH = 1_000;
const hex = (id: bigint) => id.toString(16);
const idOf = (text: string) => BigInt(`0x${text}`);

type FileUse = { count: number; readonly size: number; readonly by: string };
type NamedFile = { readonly size: number; readonly sums: string; readonly by: string };

/** Who names which bytes: values of the heap, lists of pieces, and chunk files. */
export class ByteUses {
  readonly #checking: Checking;
  readonly #heap = new Census();
  readonly #lists = new Census();
  readonly #files = new Map<string, FileUse>();
  /** All that records say of files, by name. */
  readonly #named = new Map<string, NamedFile>();
  /** The bytes that were read and compared with their sums. */
  bytes = 0;

  constructor(checking: Checking) {
    this.#checking = checking;
  }

  /** Learns what there is, before anything is named. */
  async prepare(): Promise<void> {
    const { engine } = this.#checking;
    for (let after = 0n; ; ) {
      const ids = await engine.read((tx) => tx.heapIds(after, HEAP_BATCH));
      for (const id of ids) this.#heap.add(id);
      after = ids.at(-1) ?? after;
      if (ids.length < HEAP_BATCH) break;
    }
    this.#heap.close();
    let last: bigint | undefined;
    await each(
      { ...this.#checking, problem: () => {}, counted: () => {} },
      "",
      pieces,
      ([list]) => {
        if (list !== last) this.#lists.add(list);
        last = list;
      },
    );
    this.#lists.close();
    await each(this.#checking, "page of list", pieces, async ([list, offset], page) => {
      for (const { chunk } of page) await this.use(`list ${hex(list)} from ${offset} on`, chunk);
    });
  }

  /** A record names a chunk; a heap value is read the first time. */
  async use(what: string, chunk: Chunk): Promise<void> {
    const { engine, problem } = this.#checking;
    if (chunk.at === "file") {
      const known = this.#files.get(chunk.id);
      if (known === undefined) {
        this.#files.set(chunk.id, { count: 1, size: chunk.size, by: what });
      } else known.count++;
      return;
    }
    const id = idOf(chunk.id);
    const count = this.#heap.name(id);
    if (count === undefined) problem(`${what}: its heap value ${chunk.id} is missing`);
    else if (count > 1) {
      // It was read for the first one that names it; each of them must be able to.
      if (this.#heap.sumOf(id) !== chunk.sum) {
        problem(`${what}: its heap value ${chunk.id} has another sum`);
      }
    } else {
      const bytes = await engine.read((tx) => tx.getHeap(id));
      this.bytes += bytes?.length ?? 0;
      const sum = bytes === undefined ? undefined : crc32(bytes);
      if (bytes?.length !== chunk.size || sum !== chunk.sum) {
        problem(`${what}: its heap value ${chunk.id} is damaged`);
      }
      this.#heap.keepSum(id, chunk.sum ?? 0); // so that damage is told of once
    }
  }

  /** A message names its text; one of an earlier version has no sum to compare it with. */
  async useText(what: string, id: bigint, sum: number | undefined): Promise<void> {
    const { engine, problem } = this.#checking;
    if (this.#heap.name(id) === undefined) {
      problem(`${what}: its text is missing`);
      return;
    }
    if (sum === undefined) return;
    const bytes = await engine.read((tx) => tx.getHeap(id));
    this.bytes += bytes?.length ?? 0;
    if (bytes === undefined || crc32(bytes) !== sum) problem(`${what}: its text is damaged`);
  }

  /** A record names content; gives how long it is, as far as that can be seen. */
  async useContent(what: string, content: Content): Promise<number | undefined> {
    if ("sparse" in content) return undefined;
    if ("list" in content) return this.#useList(what, idOf(content.list));
    let size = 0;
    for (const { chunk } of content.pieces) {
      await this.use(what, chunk);
      size += chunk.size;
    }
    return size;
  }

  async #useList(what: string, list: bigint): Promise<number | undefined> {
    const { engine, problem } = this.#checking;
    if (this.#lists.name(list) === undefined) {
      problem(`${what}: its list ${hex(list)} is missing`);
      return undefined;
    }
    let size = 0;
    let from: Uint8Array = pieces.packed([list]);
    for (;;) {
      const rows = await engine.read((tx) => pieces.walk(tx, [list], { from, limit: 16 }));
      for (const { key, value } of rows) {
        if (Number(key[1]) !== size) {
          problem(`${what}: its list ${hex(list)} has a gap before ${key[1]}`);
          return undefined;
        }
        for (const { chunk } of value) size += chunk.size;
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < 16) return size;
      from = Buffer.concat([pieces.packed(last.key), Buffer.of(0)]);
    }
  }

  /** Compares what was named with what is counted, once every record has been looked at. */
  async compare(droppedLists: ReadonlySet<string>): Promise<void> {
    const { problem } = this.#checking;
    const counts = new Map<string, number>();
    await each(this.#checking, "references of", references, ([kind, id], count) => {
      const isThere = kind === "list" ? this.#lists.has(idOf(id)) : this.#heap.has(idOf(id));
      if (isThere) counts.set(`${kind} ${id}`, count);
      else problem(`references of ${kind} ${id}: there is no such thing`);
    });
    for (const [kind, title, census] of [
      ["heap", "heap value", this.#heap],
      ["list", "list", this.#lists],
    ] as const) {
      for (const [id, count] of census) {
        if (kind === "list" && droppedLists.has(hex(id))) continue;
        const counted = counts.get(`${kind} ${hex(id)}`) ?? 1;
        if (count === 0) problem(`${title} ${hex(id)}: no record names it`);
        else if (count !== counted) {
          problem(`${title} ${hex(id)}: ${count} records name it, ${counted} are counted`);
        }
      }
    }
    await each(this.#checking, "chunk file", chunkFiles, ([name], { size, sums, references }) => {
      const use = this.#files.get(name);
      this.#named.set(name, { size, sums, by: use?.by ?? "" });
      const count = use?.count ?? 0;
      if (count === 0) problem(`chunk file ${name}: no record names it, ${references} are counted`);
      else if (count !== references) {
        problem(`chunk file ${name}: ${count} records name it, ${references} are counted`);
      } else if (use?.size !== size) {
        problem(`chunk file ${name}: it has ${size} bytes, ${use?.by} says ${use?.size}`);
      }
    });
    for (const [name, { by }] of this.#files) {
      if (!this.#named.has(name)) {
        problem(`chunk file ${name} of ${by}: named, but not counted`);
      }
    }
  }

  /** Reads every chunk file whole; for this the records are needed no more. */
  async readFiles(files: FileReader, told: (done: number, all: number) => void): Promise<void> {
    const { problem } = this.#checking;
    let all = 0;
    for (const { size } of this.#named.values()) all += size;
    let done = 0;
    for (const [name, { size, sums, by }] of this.#named) {
      const of = by === "" ? "" : ` of ${by}`;
      try {
        for await (const part of files.read({ name, size, sums }, 0, size)) {
          this.bytes += part.length;
          told(done + part.length, all);
        }
      } catch (error) {
        const fault = error instanceof CorruptFile ? `it ${error.fault}` : String(error);
        problem(`chunk file ${name}${of}: ${fault}`);
      }
      done += size;
    }
  }

  /** Files that no record names; only where nobody is making any. */
  async findOrphans(files: FileReader): Promise<void> {
    for await (const name of files.list()) {
      if (this.#named.has(name) || this.#files.has(name)) continue;
      this.#checking.problem(
        `chunk file ${name}: no record names it (an orphan; a start of the server removes it)`,
      );
    }
  }
}
