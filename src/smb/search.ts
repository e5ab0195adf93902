import type { ReadTx } from "../engine/engine.ts";
import { entriesOf, entryOf, nodeOf, tickOf } from "../file/namespace.ts";
import { folded } from "../rules/file-names.ts";
import { matcher } from "../rules/wildcards.ts";
import type { NodeRecord } from "../store/file-records.ts";
import type { FileOpen } from "./file-open.ts";

const BATCH = 128;

/** A name that a search found, and what it stands for. */
export type Found = { readonly name: string; readonly node: NodeRecord };

/** How far a client has got through a directory. */
export class Search {
  readonly pattern: string;
  readonly #matches: (name: string) => boolean;
  readonly #isPlain: boolean;
  /** "." and ".." come first, then names in their order; undefined when all were told. */
  #next: { readonly dots: number; readonly from: string } | undefined = { dots: 2, from: "" };
  isFresh = true;

  constructor(pattern: string) {
    this.pattern = pattern;
    this.#isPlain = !/[*?<>"]/.test(pattern);
    this.#matches = matcher(pattern);
  }

  /** Gives names to `take`, one after another, until it wants no more; that one comes again the next time. */
  async run(tx: ReadTx, open: FileOpen, take: (found: Found) => boolean): Promise<void> {
    const { view, file } = open;
    if (this.#next === undefined) return;
    if (this.#isPlain) {
      const entry = await entryOf(tx, view, file, this.pattern);
      const node = entry === undefined ? undefined : await nodeOf(tx, view, tickOf(entry.id));
      if (node === undefined || entry === undefined || take({ name: entry.name, node })) {
        this.#next = undefined;
      }
      return;
    }
    while (this.#next.dots > 0) {
      const name = this.#next.dots === 2 ? "." : "..";
      const own = await open.node(tx);
      const node = name === "." ? own : ((await nodeOf(tx, view, tickOf(own.parent))) ?? own);
      if (this.#matches(name) && !take({ name, node })) return;
      this.#next = { ...this.#next, dots: this.#next.dots - 1 };
    }
    for (let { from } = this.#next; ; ) {
      const listed = await entriesOf(tx, view, file, { prefix: "", from, limit: BATCH });
      for (const entry of listed.entries) {
        if (!this.#matches(entry.name)) continue;
        const node = await nodeOf(tx, view, tickOf(entry.id));
        if (node === undefined || take({ name: entry.name, node })) continue;
        this.#next = { dots: 0, from: folded(entry.name) };
        return;
      }
      if (listed.next === undefined) {
        this.#next = undefined;
        return;
      }
      from = listed.next;
      this.#next = { dots: 0, from };
    }
  }
}
