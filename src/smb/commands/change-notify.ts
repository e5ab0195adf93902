import { access } from "../access.ts";
import { type Call, command } from "../command.ts";
import type { Ended, FileOpen } from "../file-open.ts";
import { SmbError } from "../status.ts";
import { type Change, Watch } from "../watches.ts";
import { layout, padded, u16, u32, u64 } from "../wire/layout.ts";

const WATCH_TREE = 1;

const answerLayout = layout({ structureSize: u16, offset: u16, length: u32 });
const entryLayout = layout({ next: u32, action: u32, nameLength: u32 });

export const changeNotify = command({
  code: 0x000f,
  name: "CHANGE_NOTIFY",
  needs: "open",
  structureSize: 32,
  request: {
    structureSize: u16,
    flags: u16,
    outputLength: u32,
    filePersistent: u64,
    fileVolatile: u64,
    filter: u32,
    reserved: u32,
  },
  payload: ({ outputLength }) => outputLength,
  async handle(call, { flags, outputLength, filter }) {
    const { open, around, connection } = call;
    if (open.kind !== "file" || !open.isDirectory) throw new SmbError("STATUS_INVALID_PARAMETER");
    if (outputLength > (connection.negotiated?.sizeMax ?? 0)) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
    open.need(access.readData);
    if (open.watch === undefined) {
      const isDeep = (flags & WATCH_TREE) !== 0;
      open.watch = new Watch(open, { filter, isDeep, since: around.opens.lastChange });
      around.watches.add(open.watch);
    }
    const { watch } = open;
    if (watch.changes.length === 0 && !watch.isOverflown) {
      await changed(call, open, watch);
    }
    const isOverflown = watch.isOverflown;
    const body = isOverflown ? undefined : entriesOf(watch.take());
    if (body === undefined || body.length > outputLength) {
      // The client looks for itself; so it does the next time, if it had no room for anything.
      watch.take();
      if (outputLength < entryLayout.size) watch.overflow();
      throw new SmbError("STATUS_NOTIFY_ENUM_DIR");
    }
    const head = answerLayout.bytes({
      structureSize: 9,
      offset: 64 + answerLayout.size,
      length: body.length,
    });
    return { body: [head, body] };
  },
});

/** Waits until there is something to tell, and nobody else waited longer. */
async function changed(call: Call, open: FileOpen, watch: Watch): Promise<void> {
  const told = Promise.withResolvers<void>();
  const tell = () => told.resolve();
  const onEnd = (why: Ended) =>
    told.reject(
      new SmbError(why === "deleted" ? "STATUS_DELETE_PENDING" : "STATUS_NOTIFY_CLEANUP"),
    );
  open.onEnd.add(onEnd);
  watch.waiters.add(tell);
  try {
    call.pend((status) => told.reject(new SmbError(status)));
    await told.promise;
  } finally {
    watch.waiters.delete(tell);
    open.onEnd.delete(onEnd);
  }
}

function entriesOf(changes: readonly Change[]): Buffer {
  const last = changes.length - 1;
  return Buffer.concat(
    changes.map(({ action, path }, index) => {
      const name = Buffer.from(path, "utf16le");
      const size = Math.ceil((entryLayout.size + name.length) / 4) * 4;
      const next = index === last ? 0 : size;
      const whole = Buffer.concat([
        entryLayout.bytes({ next, action, nameLength: name.length }),
        name,
      ]);
      return index === last ? whole : padded(whole, 4);
    }),
  );
}
