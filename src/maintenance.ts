import { existsSync, readdirSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { Progress, sizeText } from "./base/progress.ts";
import { httpDate, systemClock } from "./base/time.ts";
import { readMark, refuseUnfinished, removeMark, writeMark } from "./engine/backup-mark.ts";
import { realDisk } from "./engine/disk.ts";
import { lookAtFiles } from "./engine/disk-files.ts";
import { askToHold } from "./engine/door.ts";
import { madeDirectory } from "./engine/made-directory.ts";
import { OpenError } from "./engine/open-error.ts";
import { DirectoryInUse } from "./engine/sqlite/database.ts";
import { lockDirectory, openSnapshot, type RecordSnapshot } from "./engine/sqlite/snapshot.ts";
import { type Copied, type CopyOptions, copyStore, switchNames } from "./store/backup.ts";
import { check } from "./store/check.ts";

/** Where results and progress go. */
export type Terminal = {
  say(line: string): void;
  progress: Progress;
};

export function terminal(stdout: NodeJS.WriteStream, stderr: NodeJS.WriteStream): Terminal {
  const progress = new Progress({
    write: (text) => void stderr.write(text),
    isTerminal: stderr.isTTY === true,
    now: () => performance.now(),
  });
  return {
    progress,
    say(line) {
      progress.clear();
      stdout.write(`${line}\n`);
    },
  };
}

/** A store whose bytes stay as they are until it is let go, be it served meanwhile or not. */
type Still = {
  readonly records: RecordSnapshot;
  readonly isServed: boolean;
  confirm(): Promise<void>;
  letGo(): void;
};

async function still(directory: string): Promise<Still> {
  if (!existsSync(join(directory, "lazuli.db"))) {
    refuseUnfinished(directory);
    throw new OpenError(`There is no data in ${directory}.`);
  }
  refuseUnfinished(directory);
  let unlock: () => void;
  try {
    unlock = lockDirectory(directory);
  } catch (error) {
    if (error instanceof DirectoryInUse) return beside(directory);
    unlock = () => {}; // it lies where nothing can be written: then no server can begin there
  }
  try {
    const records = openSnapshot(directory);
    return { records, isServed: false, confirm: async () => {}, letGo: unlock };
  } catch (error) {
    unlock();
    throw error;
  }
}

/** The files are held first: what is freed from then on stays, and the snapshot names nothing freed before. */
async function beside(directory: string): Promise<Still> {
  const hold = await askToHold(directory);
  try {
    const records = openSnapshot(directory);
    return { records, isServed: true, confirm: hold.confirm, letGo: hold.letGo };
  } catch (error) {
    hold.letGo();
    throw error;
  }
}

/** A database so damaged that a walk through it ends, in a sentence. */
function unreadable(error: unknown, directory: string): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code !== "ERR_SQLITE_ERROR") return error;
  return new OpenError(`The records of ${directory} cannot be read to their end: ${message}.`);
}

/** `lazuli check`: gives how many problems there are. */
export async function checkStore(location: string, out: Terminal): Promise<number> {
  const store = await still(location);
  const said: Promise<void>[] = [];
  try {
    return await check(store.records.engine, lookAtFiles(location), {
      // What looks like damage may only mean that the server has stopped and its files have moved on.
      say: (line) => void said.push(store.confirm().then(() => out.say(line))),
      told: (text) => out.progress.tell(text),
      complaints: () => store.records.complaints(),
      recordsRead: () => store.records.close(),
      isServed: store.isServed,
    });
  } catch (error) {
    throw unreadable(error, location);
  } finally {
    const outcomes = await Promise.allSettled(said);
    store.records.close();
    store.letGo();
    out.progress.clear();
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    // biome-ignore lint/correctness/noUnsafeFinally: that the server has stopped is why whatever else failed
    if (failed !== undefined) throw failed.reason;
  }
}

const now = () => httpDate(systemClock.now());

const isEmpty = (directory: string) =>
  readdirSync(directory).every((name) => /^lazuli\.(lock|backup\.new)|^lost\+found$/.test(name));

/** The path without links, also of what is not there yet. */
function realPath(path: string): string {
  return existsSync(path) ? realpathSync(path) : join(realPath(dirname(path)), basename(path));
}

/** Refuses a copy in the directory it is made of: it would be lost with it, and take part in its life. */
function refuseInside(from: string, to: string): void {
  const [outer, inner] = [realPath(from), realPath(to)];
  if (inner !== outer && !inner.startsWith(outer.replace(/\/?$/, "/"))) return;
  throw new OpenError(`The directory ${to} is inside of ${from}: a copy must be beside it.`);
}

/** What went wrong with the disk that a copy goes to, in a sentence. */
function copyError(error: unknown, to: string): unknown {
  const { code, message, errcode } = error as NodeJS.ErrnoException & { errcode?: number };
  const SQLITE_FULL = 13;
  if (code === "ENOSPC" || code === "EDQUOT" || errcode === SQLITE_FULL) {
    return new OpenError(`There is not enough room in ${to}: what is there is not finished.`);
  }
  if (error instanceof OpenError || code === undefined) return error;
  return new OpenError(`The copy to ${to} failed: ${message}.`);
}

type Copying = {
  readonly from: string;
  readonly to: string;
  readonly store: Still;
  readonly mark: CopyOptions["mark"];
  readonly damaged: (complaints: readonly string[]) => void;
};

async function copy({ from, to, store, mark, damaged }: Copying, out: Terminal): Promise<Copied> {
  try {
    return await copyStore({
      ...{ from, to, mark, disk: realDisk, damaged },
      records: store.records,
      open: openSnapshot,
      confirm: store.confirm,
      problem: out.say,
      told: (text) => out.progress.tell(text),
    });
  } catch (error) {
    throw copyError(error, to);
  } finally {
    store.records.close();
    out.progress.clear();
  }
}

/** Finishes a backup that was cut short when everything was on the disk, and only names were missing. */
async function switched(directory: string): Promise<void> {
  const mark = readMark(directory);
  if (mark?.state !== "switching") return;
  await switchNames({ to: directory, disk: realDisk, open: openSnapshot });
  await writeMark(directory, { ...mark, state: "complete" }, realDisk);
}

/** `lazuli backup`: makes or renews a backup of a store, be it served or not; gives how many problems it met. */
export async function backUp(location: string, to: string, out: Terminal): Promise<number> {
  refuseInside(location, to);
  const store = await still(location);
  // What is in a backup may be all that is left of it.
  const damaged = ([first]: readonly string[]) => {
    throw new OpenError(
      `The records of ${location} are damaged (${first}): what is in ${to} stays as it was, and lazuli check tells more.`,
    );
  };
  try {
    madeDirectory(to);
    const mark = readMark(to);
    if (mark?.isRestore || (mark === undefined && !isEmpty(to))) {
      throw new OpenError(`The directory ${to} is neither empty nor a backup.`);
    }
    const unlock = lockDirectory(to);
    try {
      await switched(to);
      if (mark === undefined) await writeMark(to, { state: "unfinished", at: now() }, realDisk);
      const copying = { from: location, to, store, mark: { at: now() }, damaged };
      const { files, bytes, newFiles, newBytes, problems } = await copy(copying, out);
      await writeMark(to, { state: "complete", at: now() }, realDisk);
      out.say(
        `Backup of ${location} in ${to}: all records, and ${files} files with ${sizeText(bytes)}, of which ${newFiles} with ${sizeText(newBytes)} are new`,
      );
      if (problems > 0) out.say(`${problems} files are damaged, and not in the backup`);
      return problems;
    } finally {
      unlock();
    }
  } finally {
    store.records.close();
    store.letGo();
  }
}

/** `lazuli restore`: makes a data directory of a backup, and checks it; gives how many problems there are. */
export async function restore(from: string, location: string, out: Terminal): Promise<number> {
  const mark = readMark(from);
  if (mark === undefined || mark.isRestore) {
    throw new OpenError(`The directory ${from} holds no backup.`);
  }
  if (mark.state === "unfinished") {
    throw new OpenError(`The backup in ${from} was not finished: run lazuli backup again.`);
  }
  refuseInside(from, location);
  const before = readMark(location); // one that was cut short begins anew
  if (!before?.isRestore && existsSync(location) && (before !== undefined || !isEmpty(location))) {
    throw new OpenError(`The directory ${location} is not empty: a restore needs a new one.`);
  }
  if (mark.state === "switching") {
    const unlock = lockDirectory(from);
    await switched(from).finally(unlock);
  }
  const store = await still(from);
  try {
    madeDirectory(location);
    const unlock = lockDirectory(location);
    try {
      const restoring = { at: now(), isRestore: true };
      await writeMark(location, { ...restoring, state: "unfinished" }, realDisk);
      // All that can be had is taken; the check tells of the rest.
      await copy({ from, to: location, store, mark: restoring, damaged: () => {} }, out);
      const restored = openSnapshot(location);
      const problems = await check(restored.engine, lookAtFiles(location), {
        say: out.say,
        told: (text) => out.progress.tell(text),
        complaints: () => restored.complaints(),
        recordsRead: () => restored.close(),
      }).catch((error) => {
        throw unreadable(error, location);
      });
      await removeMark(location, realDisk);
      out.say(`Restored ${location} from the backup of ${mark.at} in ${from}`);
      return problems;
    } finally {
      unlock();
    }
  } finally {
    store.records.close();
    store.letGo();
  }
}
