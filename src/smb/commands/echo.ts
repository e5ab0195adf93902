import { command } from "../command.ts";
import { EMPTY_BODY } from "../wire/bodies.ts";
import { u16 } from "../wire/layout.ts";

export const echo = command({
  code: 0x000d,
  name: "ECHO",
  needs: "connection",
  structureSize: 4,
  request: { structureSize: u16, reserved: u16 },
  async handle() {
    return { body: [EMPTY_BODY] };
  },
});
