import type { Engine, ReadTx } from "../engine/engine.ts";

const BATCH = 200;

type Rows<K, V> = readonly { readonly key: K; readonly value: V }[];

/** Calls `visit` for every row of a subspace, a batch of them in memory at a time. */
export async function each<K extends readonly unknown[], V>(
  engine: Engine,
  walk: (tx: ReadTx, from: { limit: number; from?: Uint8Array }) => Promise<Rows<K, V>>,
  packed: (key: K) => Buffer,
  visit: (key: K, value: V) => Promise<void>,
): Promise<void> {
  let from: Uint8Array | undefined;
  for (;;) {
    const start = from === undefined ? {} : { from };
    const rows = await engine.read((tx) => walk(tx, { limit: BATCH, ...start }));
    for (const { key, value } of rows) await visit(key, value);
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH) return;
    from = Buffer.concat([packed(last.key), Buffer.of(0)]);
  }
}
