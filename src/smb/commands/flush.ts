import { access } from "../access.ts";
import { command } from "../command.ts";
import { EMPTY_BODY } from "../wire/bodies.ts";
import { u16, u32, u64 } from "../wire/layout.ts";

export const flush = command({
  code: 0x0007,
  name: "FLUSH",
  needs: "open",
  structureSize: 24,
  request: {
    structureSize: u16,
    reserved: u16,
    reserved2: u32,
    filePersistent: u64,
    fileVolatile: u64,
  },
  async handle({ around, open }) {
    if (open.kind === "file") {
      open.need(access.writeData | access.appendData);
      // What came through other handles of the file is part of it.
      await around.engine.settled();
      await open.settled();
    }
    return { body: [EMPTY_BODY] };
  },
});
