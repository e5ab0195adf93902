import { command } from "../command.ts";
import { EMPTY_BODY } from "../wire/bodies.ts";
import { u16 } from "../wire/layout.ts";

export const logoff = command({
  code: 0x0002,
  name: "LOGOFF",
  needs: "session",
  structureSize: 4,
  request: { structureSize: u16, reserved: u16 },
  async handle({ session }) {
    await session.end("keep");
    return { body: [EMPTY_BODY] };
  },
});
