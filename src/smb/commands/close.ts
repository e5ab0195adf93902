import type { NodeRecord } from "../../store/file-records.ts";
import { command } from "../command.ts";
import type { FileOpen } from "../file-open.ts";
import { allocationOf, attributesOf, timesOf } from "../node-facts.ts";
import { SmbError } from "../status.ts";
import { layout, u16, u32, u64 } from "../wire/layout.ts";

const POSTQUERY = 1;

const answerLayout = layout({
  structureSize: u16,
  flags: u16,
  reserved: u32,
  creationTime: u64,
  lastAccessTime: u64,
  lastWriteTime: u64,
  changeTime: u64,
  allocationSize: u64,
  endOfFile: u64,
  attributes: u32,
});

/** What is told of a file as it is closed: nothing, if it is gone; the open is closed then all the same. */
async function nodeOf(open: FileOpen): Promise<NodeRecord | undefined> {
  try {
    return await open.read((tx) => open.node(tx));
  } catch (error) {
    if (error instanceof SmbError) return undefined;
    throw error;
  }
}

export const close = command({
  code: 0x0006,
  name: "CLOSE",
  needs: "open",
  structureSize: 24,
  request: {
    structureSize: u16,
    flags: u16,
    reserved: u32,
    filePersistent: u64,
    fileVolatile: u64,
  },
  async handle({ open }, { flags }) {
    if (open.kind === "file") await open.marking;
    const isAsked = (flags & POSTQUERY) !== 0 && open.kind === "file";
    const node = isAsked ? await nodeOf(open) : undefined;
    await open.close("closed");
    const facts =
      node === undefined
        ? {}
        : {
            flags: POSTQUERY,
            ...timesOf(node),
            allocationSize: BigInt(allocationOf(node)),
            endOfFile: BigInt(node.kind === "file" ? node.size : 0),
            attributes: attributesOf(node),
          };
    return { body: [answerLayout.bytes({ structureSize: 60, ...facts })] };
  },
});
