import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";

/** The other half of checkpointer.ts: runs the checkpoints it is asked for, one by one. */
const database = new DatabaseSync(workerData as string);
database.exec("PRAGMA busy_timeout = 5000; PRAGMA synchronous = NORMAL");

parentPort?.on("message", (mode: string) => {
  try {
    database.exec(`PRAGMA wal_checkpoint(${mode})`);
    parentPort?.postMessage(undefined);
  } catch (error) {
    parentPort?.postMessage((error as Error).message);
  }
});
