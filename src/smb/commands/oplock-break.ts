import { command } from "../command.ts";
import { LEVEL_II, LEVEL_NONE, levelOf, stateOfLevel } from "../holdings.ts";
import { SmbError } from "../status.ts";
import { layout, raw, u8, u16, u32, u64 } from "../wire/layout.ts";

const LEASE_SIZE = 36;

const oplockLayout = layout({
  structureSize: u16,
  level: u8,
  reserved: u8,
  reserved2: u32,
  filePersistent: u64,
  fileVolatile: u64,
});
const leaseLayout = layout({
  structureSize: u16,
  reserved: u16,
  flags: u32,
  key: raw(16),
  state: u32,
  duration: u64,
});

/** The answer to the news that an oplock breaks; that to a lease's has the same number, and another form. */
export const oplockBreak = command({
  code: 0x0012,
  name: "OPLOCK_BREAK",
  needs: "session",
  structureSize: 24,
  request: { structureSize: u16 },
  async handle({ around, session, message }) {
    const body = message.subarray(64);
    const { level, fileVolatile } = oplockLayout.read(body);
    const open = session.opens.get(fileVolatile);
    if (open === undefined || open.kind !== "file") throw new SmbError("STATUS_FILE_CLOSED");
    const { holding } = open;
    if (level !== LEVEL_NONE && level !== LEVEL_II) throw new SmbError("STATUS_INVALID_PARAMETER");
    if (holding?.breaking === undefined || holding.lease !== undefined) {
      throw new SmbError("STATUS_INVALID_OPLOCK_PROTOCOL");
    }
    const kept = stateOfLevel(level) & holding.breaking.told;
    around.holdings.acknowledge(holding, kept);
    const told = { structureSize: 24, level: levelOf(kept) };
    const answer = oplockLayout.bytes({ ...told, filePersistent: open.handle, fileVolatile });
    return { body: [answer] };
  },
});

export const leaseBreak = command({
  code: 0x0012,
  name: "OPLOCK_BREAK",
  needs: "session",
  structureSize: LEASE_SIZE,
  request: { structureSize: u16 },
  async handle({ around, connection, message }) {
    const { key, state } = leaseLayout.read(message, 64);
    const clientGuid = connection.negotiated?.clientGuid ?? Buffer.alloc(16);
    const holding = around.holdings.leaseOf({ clientGuid, key });
    if (holding === undefined) throw new SmbError("STATUS_OBJECT_NAME_NOT_FOUND");
    if (holding.breaking === undefined) throw new SmbError("STATUS_UNSUCCESSFUL");
    if ((state & ~holding.breaking.told) !== 0) throw new SmbError("STATUS_REQUEST_NOT_ACCEPTED");
    const answer = leaseLayout.bytes({ structureSize: LEASE_SIZE, key, state });
    around.holdings.acknowledge(holding, state);
    return { body: [answer] };
  },
});
