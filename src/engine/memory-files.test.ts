import { randomIds } from "../base/ids.ts";
import { filesConformance } from "./files-conformance.ts";
import { memoryFiles } from "./memory-files.ts";

filesConformance("memory", {
  open: async () => memoryFiles(randomIds),
  // What a read gives are the stored bytes themselves, so a change to them is a change to the file.
  async flip(files, file, offset) {
    for await (const part of files.read(file, offset, 1)) part[0] = (part[0] ?? 0) ^ 1;
  },
});
