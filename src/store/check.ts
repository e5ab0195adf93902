import type { Engine, ReadTx } from "../engine/engine.ts";
import type { ChunkFiles } from "../engine/files.ts";
import { checkQueues } from "./check-queues.ts";
import { checkShares } from "./check-shares.ts";
import { Contents } from "./content.ts";
import { each } from "./each.ts";
import {
  blobs,
  blocks,
  chunkFiles,
  layers,
  pieces,
  snapshots,
  sparseParts,
  sparses,
  versions,
} from "./keys.ts";
import type { BlobRecord, Chunk, Content } from "./records.ts";
import { idOf } from "./sparse-rows.ts";
import { checkTables } from "./table-check.ts";

/**
 * Reads every byte that a record names and compares sums, counts references and messages, and looks for files
 * and rows that nobody names. Says a line for each problem and one at the end; gives how many problems there are.
 */
export async function check(
  engine: Engine,
  files: ChunkFiles,
  say: (line: string) => void,
): Promise<number> {
  const contents = new Contents(engine, files);
  const uses = new Map<string, number>();
  let problems = 0;
  let records = 0;
  let bytes = 0;
  const problem = (line: string) => {
    problems++;
    say(line);
  };
  const use = (chunk: Chunk) => {
    if (chunk.at === "file") uses.set(chunk.id, (uses.get(chunk.id) ?? 0) + 1);
  };
  const readAll = async (what: string, content: Content, size: number) => {
    records++;
    if ("sparse" in content) {
      const isThere = await engine.read((tx) => sparses.get(tx, idOf(content.sparse)));
      if (isThere === undefined) problem(`${what}: its content ${content.sparse} is missing`);
      return; // its parts are read below, each once, however many share them
    }
    try {
      const opened = await engine.read((tx) =>
        contents.open(tx, content, { start: 0, count: size }),
      );
      let found = 0;
      for (const part of opened.bytes ?? []) found += part.length;
      for await (const part of opened.stream()) found += part.length;
      opened.close();
      bytes += found;
      if (found !== size) problem(`${what}: ${found} bytes are there, ${size} should be`);
    } catch (error) {
      problem(`${what}: ${(error as Error).message}`);
    }
  };

  const visit = async (what: string, { content, size }: BlobRecord) => {
    await readAll(what, content, size);
    if ("pieces" in content) for (const { chunk } of content.pieces) use(chunk);
  };
  await each(
    engine,
    (tx, from) => blobs.walk(tx, [], from),
    blobs.packed,
    ([, name], blob) => visit(`blob ${name}`, blob),
  );
  for (const [kind, what] of [
    [snapshots, "snapshot"],
    [versions, "version"],
  ] as const) {
    await each(
      engine,
      (tx, from) => kind.walk(tx, [], from),
      kind.packed,
      ([, name], blob) => visit(`${what} of ${name}`, blob),
    );
  }
  await each(
    engine,
    (tx, from) => blocks.walk(tx, [], from),
    blocks.packed,
    async (key, block) => {
      const content = { pieces: block.chunks.map((chunk) => ({ chunk })) };
      await readAll(`block ${key[2]} of ${key[1]}`, content, block.size);
      for (const chunk of block.chunks) use(chunk);
    },
  );
  await each(
    engine,
    (tx, from) => pieces.walk(tx, [], from),
    pieces.packed,
    async (_key, page) => {
      for (const { chunk } of page) use(chunk);
    },
  );
  await checkShares(engine, {
    problem,
    file: (what, { content, size }) => readAll(what, content, size),
  });
  await checkLayers(engine, problem);
  await each(
    engine,
    (tx, from) => sparseParts.walk(tx, [], from),
    sparseParts.packed,
    async ([rows, offset], { chunk }) => {
      if (chunk === undefined) return;
      use(chunk);
      const what = `part at ${offset} of ${rows.toString(16)}`;
      const whole = { pieces: [{ chunk }] };
      await readAll(what, whole, chunk.size);
    },
  );
  records += await checkQueues(engine, problem);
  records += await checkTables(engine, problem);
  const named = new Set<string>();
  await each(
    engine,
    (tx, from) => chunkFiles.walk(tx, [], from),
    chunkFiles.packed,
    async ([name], file) => {
      named.add(name);
      const count = uses.get(name) ?? 0;
      if (count !== file.references) {
        problem(`chunk file ${name}: ${count} records name it, ${file.references} are counted`);
      }
    },
  );
  for (const name of uses.keys()) {
    if (!named.has(name)) problem(`chunk file ${name}: named, but not counted`);
  }
  for await (const name of files.list()) {
    if (!named.has(name))
      problem(
        `chunk file ${name}: no record names it (an orphan; a start of the server removes it)`,
      );
    named.delete(name);
  }
  for (const name of named) problem(`chunk file ${name}: it is missing`);
  say(`${records} records with ${bytes} bytes read, ${problems} problems`);
  return problems;
}

/** That every layer is counted as often as contents begin at it, and known to the one it stands on. */
async function checkLayers(engine: Engine, problem: (line: string) => void): Promise<void> {
  const contents = new Map<string, number>();
  const layer = (tx: ReadTx, id: string) => layers.get(tx, idOf(id), 0n);
  await each(
    engine,
    (tx, from) => sparses.walk(tx, [], from),
    sparses.packed,
    async ([id], { top }) => {
      contents.set(top, (contents.get(top) ?? 0) + 1);
      const found = await engine.read((tx) => layer(tx, top));
      if (found == null) problem(`content ${id.toString(16)}: its layer ${top} is missing`);
    },
  );
  await each(
    engine,
    (tx, from) => layers.walk(tx, [], from),
    layers.packed,
    async ([number, above], value) => {
      const id = number.toString(16);
      if (value === null) {
        const child = await engine.read((tx) => layer(tx, above.toString(16)));
        if (child?.parent !== id)
          problem(`layer ${id}: ${above.toString(16)} does not stand on it`);
        return;
      }
      const count = contents.get(id) ?? 0;
      if (count !== value.contents) {
        problem(`layer ${id}: ${count} contents begin at it, ${value.contents} are counted`);
      }
      const onIt = await engine.read((tx) =>
        layers.walk(tx, [number], { limit: Number.MAX_SAFE_INTEGER }),
      );
      if (onIt.length - 1 !== value.children) {
        problem(
          `layer ${id}: ${onIt.length - 1} layers stand on it, ${value.children} are counted`,
        );
      }
      const { parent } = value;
      if (parent === undefined) return;
      const isKnown = await engine.read((tx) => layers.get(tx, idOf(parent), number));
      if (isKnown === undefined) problem(`layer ${id}: its parent ${parent} does not know it`);
    },
  );
}
