import { once } from "node:events";
import { chmodSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join, relative } from "node:path";
import { createInterface } from "node:readline";
import type { Log } from "../base/log.ts";
import type { Engine } from "./engine.ts";
import type { ChunkFiles } from "./files.ts";
import { OpenError } from "./open-error.ts";

const NAME = "lazuli.sock";
const HELD = "held\n";
/** What the name of a socket may be long, on every system. */
const PATH_MAX = 100;
const CONNECTIONS_MAX = 16;

/** As it is, or as it is called from here, whichever is shorter: the names of sockets have a small limit. */
function pathOf(directory: string): string {
  const path = join(directory, NAME);
  const near = relative("", path);
  return near.length < path.length ? near : path;
}

/**
 * Where another process asks a server to keep the files that its snapshot of the records names: as long as it
 * is connected, no file is removed or written over. However it ends, the system closes its connection.
 * Who is connected may send a line, which comes back, to learn that this is still so.
 */
export async function openDoor(
  directory: string,
  { engine, files }: { readonly engine: Pick<Engine, "settled">; readonly files: ChunkFiles },
  log: Log,
): Promise<{ close(): void }> {
  const path = pathOf(directory);
  const guests = new Set<Socket>();
  const server: Server = createServer((socket) => {
    const letGo = files.keepFreed();
    guests.add(socket);
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => {
      guests.delete(socket);
      letGo();
    });
    // What was answered before, though nobody waited for its sync, is to be in the other's snapshot too.
    engine.settled().then(
      () => {
        socket.write(HELD);
        socket.pipe(socket);
      },
      () => void socket.destroy(),
    );
  });
  server.maxConnections = CONNECTIONS_MAX;
  const close = () => {
    server.close();
    for (const socket of guests) socket.destroy();
  };
  try {
    if (Buffer.byteLength(path) > PATH_MAX)
      throw new Error(`its path is longer than ${PATH_MAX} bytes`);
    rmSync(path, { force: true }); // what a crash left; the directory is locked, so nobody listens there
    server.listen(path);
    await once(server, "listening");
    chmodSync(path, 0o600);
    server.unref();
  } catch (error) {
    const why = String(error);
    log.warn("backups and checks have to wait until the server stops", { directory, why });
  }
  return { close };
}

/** That a server keeps all files for us. */
export type Hold = {
  /** Throws an `OpenError` unless the server has kept them up to now. */
  confirm(): Promise<void>;
  letGo(): void;
};

/** Asks the server of a directory to keep its files; throws if it does not answer. */
export async function askToHold(directory: string): Promise<Hold> {
  const socket = connect(pathOf(directory));
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  let failure: unknown;
  socket.on("error", (error) => {
    failure = error;
  });
  const told = await lines.next().catch(() => ({ done: true }));
  if (told.done) {
    socket.destroy();
    throw new OpenError(
      `The directory ${directory} is in use by another process, which cannot be asked to keep its files (${String(failure ?? "it hung up")}): if that is a check or a backup, wait for its end.`,
    );
  }
  return {
    async confirm() {
      if (!socket.destroyed) socket.write(HELD);
      const answer = await lines.next().catch(() => ({ done: true }));
      if (answer.done) {
        throw new OpenError(`The server of ${directory} has stopped meanwhile: run this again.`);
      }
    },
    letGo: () => void socket.destroy(),
  };
}
