import type { ReadTx, WriteTx } from "../engine/engine.ts";
import { garbage, layers, sparses } from "./keys.ts";
import type { LayerRecord, Sparse } from "./sparse-records.ts";
import { idOf } from "./sparse-rows.ts";

/** Above this many layers the next one gets its parents' bytes as well. */
const DEPTH_MAX = 32;

/** The uppermost layer of a content. */
export async function topOf(tx: ReadTx, { sparse }: Sparse): Promise<string> {
  const record = await sparses.get(tx, idOf(sparse));
  if (record === undefined) throw new Error(`the sparse content ${sparse} is missing`);
  return record.top;
}

export async function findLayer(tx: ReadTx, id: string): Promise<LayerRecord | undefined> {
  return (await layers.get(tx, idOf(id), 0n)) ?? undefined;
}

export async function layerOf(tx: ReadTx, id: string): Promise<LayerRecord> {
  const found = await findLayer(tx, id);
  if (found === undefined) throw new Error(`the layer ${id} is missing`);
  return found;
}

/** The first layer that stands on one; its row follows the record. */
export async function firstChild(tx: ReadTx, id: string): Promise<string | undefined> {
  const [, child] = await layers.walk(tx, [idOf(id)], { limit: 2 });
  return child?.key[1].toString(16);
}

export const putLayer = (tx: WriteTx, id: string, layer: LayerRecord): void =>
  layers.put(tx, [idOf(id), 0n], layer);

/** Says that one layer stands on another, or that it does so no more; who calls it counts. */
export const link = (tx: WriteTx, parent: string, child: string): void =>
  layers.put(tx, [idOf(parent), idOf(child)], null);
export const unlink = (tx: WriteTx, parent: string, child: string): void =>
  layers.delete(tx, idOf(parent), idOf(child));

export type Chained = { readonly id: string; readonly layer: LayerRecord };

/** A layer and all below it. */
export async function chainOf(tx: ReadTx, top: string): Promise<Chained[]> {
  const chain: Chained[] = [];
  for (let id: string | undefined = top; id !== undefined; ) {
    const layer: LayerRecord = await layerOf(tx, id);
    chain.push({ id, layer });
    id = layer.parent;
  }
  return chain;
}

/** The rows in which the bytes of a chain are found, the uppermost first. */
export function stackIn(chain: readonly Chained[]): bigint[] {
  const stack: bigint[] = [];
  for (const { layer } of chain) {
    if (isWhole(layer)) return [...stack, idOf(layer.whole.rows)];
    stack.push(idOf(layer.rows));
  }
  return stack;
}

/** The rows in which the bytes of a layer are found, the uppermost first. */
export async function stackOf(tx: ReadTx, top: string): Promise<bigint[]> {
  const chain: Chained[] = [];
  for (let id: string | undefined = top; id !== undefined; ) {
    const layer: LayerRecord = await layerOf(tx, id);
    chain.push({ id, layer });
    id = isWhole(layer) ? undefined : layer.parent;
  }
  return stackIn(chain);
}

type Whole = LayerRecord & { readonly whole: { readonly rows: string } };
const isWhole = (layer: LayerRecord): layer is Whole =>
  layer.whole !== undefined && layer.whole.done === undefined;

/** Puts an empty layer on a content's uppermost one, which is not written any more; gives the new one's rows. */
export async function putOnTop(
  tx: WriteTx,
  { sparse }: Sparse,
  { top, layer }: { readonly top: string; readonly layer: LayerRecord },
): Promise<bigint> {
  const rows = tx.tick();
  const id = rows.toString(16);
  putLayer(tx, id, { rows: id, parent: top, contents: 1, children: 0 });
  link(tx, top, id);
  sparses.put(tx, [idOf(sparse)], { top: id });
  const contents = layer.contents - 1;
  const isDeep = layer.whole === undefined && (await depthOf(tx, layer)) >= DEPTH_MAX;
  const whole = isDeep ? { whole: { rows: tx.tick().toString(16), done: 0 } } : {};
  putLayer(tx, top, { ...layer, contents, children: layer.children + 1, ...whole });
  if (isDeep) garbage.put(tx, [tx.tick()], { whole: top });
  if (contents === 0 && layer.children === 0) garbage.put(tx, [tx.tick()], { layer: top });
  return rows;
}

/** How many layers lie below one, up to one that has, or will have, its parents' bytes. */
async function depthOf(tx: ReadTx, layer: LayerRecord): Promise<number> {
  let depth = 1;
  for (let below = layer; below.parent !== undefined; depth++) {
    below = await layerOf(tx, below.parent);
    if (below.whole !== undefined) break;
  }
  return depth;
}
