import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";

/** Longer than one of the server's own reads; who reads longer keeps the log, and writers do not wait for that. */
const BUSY_MS = 50;

/**
 * The other half of checkpointer.ts: runs the checkpoints it is asked for, one by one, and tells how many
 * pages of the log are not in the database yet.
 */
const database = new DatabaseSync(workerData as string);
database.exec(`PRAGMA busy_timeout = ${BUSY_MS}; PRAGMA synchronous = NORMAL`);

parentPort?.on("message", (mode: string) => {
  try {
    const { log, checkpointed } = database.prepare(`PRAGMA wal_checkpoint(${mode})`).get() ?? {};
    parentPort?.postMessage(Number(log) - Number(checkpointed));
  } catch (error) {
    parentPort?.postMessage((error as Error).message);
  }
});
