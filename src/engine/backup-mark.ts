import { readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Disk } from "./disk.ts";
import { forbidden, OpenError } from "./open-error.ts";

const NAME = "lazuli.backup";

/**
 * What a directory says of itself while a store is copied into it, and afterwards if it is a backup. Whole is
 * "complete" alone; "switching" has all that is new beside what is old, and is being renamed: whoever finds it
 * so can finish it.
 */
export type BackupMark = {
  readonly state: "unfinished" | "switching" | "complete";
  readonly at: string;
  /** A restore's is never complete, and nothing in such a directory is worth keeping: the backup has it. */
  readonly isRestore?: boolean;
};

export function readMark(directory: string): BackupMark | undefined {
  let text: string;
  try {
    text = readFileSync(join(directory, NAME), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw forbidden(error, directory);
  }
  try {
    const mark: unknown = JSON.parse(text);
    if (typeof mark === "object" && mark !== null && "state" in mark) return mark as BackupMark;
  } catch {} // what cannot be read says nothing either
  return { state: "unfinished", at: "" };
}

/** Says it durably; the words before it stand until then. */
export async function writeMark(directory: string, mark: BackupMark, disk: Disk): Promise<void> {
  const path = join(directory, NAME);
  rmSync(`${path}.new`, { force: true });
  const file = await disk.open(`${path}.new`, "new");
  try {
    await disk.write(file, [Buffer.from(`${JSON.stringify(mark)}\n`)], 0);
    await disk.sync(file);
  } finally {
    await disk.close(file);
  }
  renameSync(`${path}.new`, path);
  await disk.syncDirectory(directory);
}

export async function removeMark(directory: string, disk: Disk): Promise<void> {
  await disk.remove(join(directory, NAME));
  await disk.syncDirectory(directory);
}

/** Refuses a directory into which a store was copied only in part. */
export function refuseUnfinished(directory: string): void {
  const mark = readMark(directory);
  if (mark === undefined || mark.state === "complete") return;
  if (mark.isRestore) {
    throw new OpenError(
      `The directory ${directory} holds a restore that was not finished: run lazuli restore again.`,
    );
  }
  throw new OpenError(
    mark.state === "switching"
      ? `The directory ${directory} holds a backup that is whole but for its names: lazuli restore --from ${directory} finishes it.`
      : `The directory ${directory} holds a backup that was not finished: run lazuli backup again, or remove the directory.`,
  );
}
