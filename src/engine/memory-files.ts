import type { Ids } from "../base/ids.ts";
import { type ChunkFiles, CorruptFile, SUM_BLOCK_SIZE } from "./files.ts";
import { checkSums, Sums } from "./sums.ts";

/** Chunks in this process: for tests and throw-away servers. */
export function memoryFiles(ids: Ids): ChunkFiles {
  const files = new Map<string, Buffer>();
  const ours = new Set<string>();
  const held = new Map<string, number>();
  const freed = new Set<string>();
  let keepers = 0;
  const free = (name: string) => {
    ours.delete(name);
    if (keepers > 0 || held.has(name)) freed.add(name);
    else files.delete(name);
  };
  return {
    async create() {
      const name = ids.guid();
      const parts: Uint8Array[] = [];
      const sums = new Sums();
      ours.add(name);
      return {
        write(bytes) {
          sums.add(bytes);
          parts.push(bytes);
          return undefined;
        },
        async finish() {
          const bytes = Buffer.concat(parts);
          files.set(name, bytes);
          return { name, size: bytes.length, sums: sums.digest() };
        },
        async abandon() {
          free(name);
        },
      };
    },
    async *read(file, offset, count) {
      const bytes = files.get(file.name);
      if (bytes === undefined) throw new CorruptFile(file.name, 0, "is missing");
      if (bytes.length !== file.size) throw new CorruptFile(file.name, 0);
      const sums = Buffer.from(file.sums, "base64");
      const begin = offset - (offset % SUM_BLOCK_SIZE);
      const end = Math.min(
        bytes.length,
        Math.ceil((offset + count) / SUM_BLOCK_SIZE) * SUM_BLOCK_SIZE,
      );
      checkSums(file, sums, begin, bytes.subarray(begin, end));
      yield bytes.subarray(offset, offset + count);
    },
    hold: (name) => void held.set(name, (held.get(name) ?? 0) + 1),
    letGo(name) {
      const count = (held.get(name) ?? 0) - 1;
      if (count > 0) held.set(name, count);
      else held.delete(name);
      if (count <= 0 && keepers === 0 && freed.delete(name)) free(name);
    },
    keepFreed() {
      keepers++;
      return () => {
        keepers--;
        if (keepers === 0) for (const name of freed) if (!held.has(name)) files.delete(name);
      };
    },
    settle: (name) => void ours.delete(name),
    free,
    async sweep(isNamed) {
      const names = [...files.keys()].filter((name) => !ours.has(name) && !freed.has(name));
      const named = await isNamed(names);
      const orphans = names.filter(
        (name) => !named.has(name) && !held.has(name) && !freed.has(name),
      );
      for (const name of orphans) files.delete(name);
      return orphans.length;
    },
    async *list() {
      yield* files.keys();
    },
    async close() {
      files.clear();
    },
  };
}
