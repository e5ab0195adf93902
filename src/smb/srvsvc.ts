import { NdrReader, NdrWriter } from "./ndr.ts";

/** What the service of shares needs to know (MS-SRVS). */
export type ServerFacts = {
  readonly serverName: string;
  shares(): Promise<readonly string[]>;
};

const DISK = 0;
const IPC = 0x80000003;

const OK = 0;
const INVALID_LEVEL = 124;
const NOT_FOUND = 2310;

type Listed = { readonly name: string; readonly type: number; readonly remark: string };

const listed = (name: string): Listed =>
  name === "IPC$" ? { name, type: IPC, remark: "Remote IPC" } : { name, type: DISK, remark: "" };

/** Runs one call by its number; undefined if there is none such. */
export async function called(
  facts: ServerFacts,
  number: number,
  input: Buffer,
): Promise<Buffer | undefined> {
  const reader = new NdrReader(input);
  switch (number) {
    case 15:
      return shareEnum(facts, reader);
    case 16:
      return shareInfo(facts, reader);
    case 21:
      return serverInfo(facts, reader);
    default:
      return undefined;
  }
}

async function shareEnum(facts: ServerFacts, reader: NdrReader): Promise<Buffer> {
  reader.optionalText();
  const level = reader.u32();
  const writer = new NdrWriter().u32(level).u32(level);
  if (level !== 0 && level !== 1) {
    return writer.u32(0).u32(0).u32(0).u32(INVALID_LEVEL).bytes();
  }
  const all = [...(await facts.shares()), "IPC$"].map(listed);
  writer.pointer().u32(all.length).pointer().u32(all.length);
  for (const { name, type, remark } of all) {
    writer.text(name);
    if (level === 1) writer.u32(type).text(remark);
  }
  return writer.texts().u32(all.length).u32(0).u32(OK).bytes();
}

async function shareInfo(facts: ServerFacts, reader: NdrReader): Promise<Buffer> {
  reader.optionalText();
  const wanted = reader.text();
  const level = reader.u32();
  const all = [...(await facts.shares()), "IPC$"];
  const found = all.find((name) => name.toLowerCase() === wanted.toLowerCase());
  const writer = new NdrWriter().u32(level);
  if (found === undefined) return writer.u32(0).u32(NOT_FOUND).bytes();
  const { name, type, remark } = listed(found);
  if (level === 1005) return writer.pointer().u32(0).u32(OK).bytes();
  if (level === 0) return writer.pointer().text(name).texts().u32(OK).bytes();
  if (level !== 1 && level !== 2) return writer.u32(0).u32(INVALID_LEVEL).bytes();
  writer.pointer().text(name).u32(type).text(remark);
  if (level === 2) {
    const everybody = 0xffffffff;
    writer.u32(0).u32(everybody).u32(0).text("").u32(0);
  }
  return writer.texts().u32(OK).bytes();
}

async function serverInfo({ serverName }: ServerFacts, reader: NdrReader): Promise<Buffer> {
  reader.optionalText();
  const level = reader.u32();
  const writer = new NdrWriter().u32(level);
  if (level !== 100 && level !== 101) return writer.u32(0).u32(INVALID_LEVEL).bytes();
  const windowsNt = 500;
  writer.pointer().u32(windowsNt).text(serverName);
  if (level === 101) {
    const server = 0x2;
    writer.u32(10).u32(0).u32(server).text("Lazuli");
  }
  return writer.texts().u32(OK).bytes();
}
