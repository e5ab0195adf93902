import type { ByteUses } from "./check-bytes.ts";
import { Census, type Checking, each } from "./checking.ts";
import { layers, sparseParts, sparses, worn } from "./keys.ts";
import type { Content } from "./records.ts";
import { idOf } from "./sparse-rows.ts";

const hex = (id: bigint) => id.toString(16);
const ALL = Number.MAX_SAFE_INTEGER;

/** What the background has still to do with layers. */
export type LayerWork = {
  readonly layers: ReadonlySet<string>;
  readonly rows: ReadonlySet<string>;
  readonly wholes: ReadonlySet<string>;
};

/** Contents that are written in place: who names them, their layers, and the layers' parts. */
export class SparseUses {
  readonly #checking: Checking;
  readonly #contents = new Census();
  readonly #layers = new Census();
  readonly #rows = new Census();

  constructor(checking: Checking) {
    this.#checking = checking;
  }

  async prepare(): Promise<void> {
    const quiet = { ...this.#checking, problem: () => {}, counted: () => {} };
    await each(quiet, "", sparses, ([id]) => this.#contents.add(id));
    this.#contents.close();
    await each(quiet, "", layers, ([id, above], layer) => {
      if (above !== 0n || layer === null) return;
      this.#layers.add(id);
      this.#rows.add(idOf(layer.rows));
      if (layer.whole !== undefined) this.#rows.add(idOf(layer.whole.rows));
    });
    this.#layers.close();
    this.#rows.close();
  }

  name(what: string, content: Content): void {
    if (!("sparse" in content)) return;
    if (this.#contents.name(idOf(content.sparse)) === undefined) {
      this.#checking.problem(`${what}: its content ${content.sparse} is missing`);
    }
  }

  /** Compares, once every record that can name a content has been looked at. */
  async compare(bytes: ByteUses, work: LayerWork): Promise<void> {
    const { problem } = this.#checking;
    for (const [id, count] of this.#contents) {
      if (count === 0) problem(`content ${hex(id)}: no record names it`);
      if (count > 1) problem(`content ${hex(id)}: ${count} records name it, and only one may`);
    }
    await each(this.#checking, "content", sparses, ([id], { top }) => {
      if (this.#layers.name(idOf(top)) === undefined) {
        problem(`content ${hex(id)}: its layer ${top} is missing`);
      }
    });
    await this.#checkLayers(work);
    await this.#checkParts(bytes, work);
  }

  async #checkLayers(work: LayerWork): Promise<void> {
    const { engine, problem } = this.#checking;
    await each(this.#checking, "layer", layers, async ([number, above], layer) => {
      const id = hex(number);
      if (layer === null) {
        const child = await engine.read((tx) => layers.get(tx, above, 0n));
        if (child?.parent !== id) problem(`layer ${id}: ${hex(above)} does not stand on it`);
        return;
      }
      const count = this.#layers.countOf(number);
      if (count !== layer.contents) {
        problem(`layer ${id}: ${count} contents begin at it, ${layer.contents} are counted`);
      }
      const rows = await engine.read((tx) => layers.walk(tx, [number], { limit: ALL }));
      const children = rows.length - 1;
      if (children !== layer.children) {
        problem(`layer ${id}: ${children} layers stand on it, ${layer.children} are counted`);
      }
      if (layer.contents + layer.children === 0 && !work.layers.has(id)) {
        problem(`layer ${id}: nothing stands on it, and nothing removes it`);
      }
      if (layer.whole?.done !== undefined && !work.wholes.has(id)) {
        problem(`layer ${id}: nothing completes it`);
      }
      const { parent } = layer;
      if (parent === undefined) return;
      const isKnown = await engine.read((tx) => layers.get(tx, idOf(parent), number));
      if (isKnown === undefined) problem(`layer ${id}: its parent ${parent} does not know it`);
    });
  }

  async #checkParts(bytes: ByteUses, work: LayerWork): Promise<void> {
    const { problem } = this.#checking;
    const isOwned = (rows: bigint) => this.#rows.has(rows) || work.rows.has(hex(rows));
    let last = { rows: -1n, end: 0 };
    await each(this.#checking, "part", sparseParts, async ([rows, at], { count, chunk, start }) => {
      const offset = Number(at);
      const what = `part at ${offset} of rows ${hex(rows)}`;
      if (rows !== last.rows) {
        if (!isOwned(rows)) problem(`rows ${hex(rows)}: they belong to no layer`);
      } else if (offset < last.end) problem(`${what}: the one before it goes on to ${last.end}`);
      last = { rows, end: offset + count };
      if (chunk === undefined) return;
      if (start + count > chunk.size) problem(`${what}: it is longer than its chunk`);
      await bytes.use(what, chunk);
    });
    await each(this.#checking, "worn region", worn, ([rows, region]) => {
      if (!isOwned(rows)) {
        problem(`worn region ${region} of rows ${hex(rows)}: they belong to no layer`);
      }
    });
  }
}
