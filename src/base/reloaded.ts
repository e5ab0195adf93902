import { unwatchFile, watchFile } from "node:fs";
import type { Log } from "./log.ts";

const LOOK_MS = 2000;

/** A value that comes from files, made anew when they change or when it is told to. */
export type Reloaded<T> = { get(): T; reload(): void; stop(): void };

export type ReloadedOptions<T> = {
  /** What it is, for the log: "the accounts". */
  readonly what: string;
  readonly paths: readonly string[];
  /** Reads the files; throws a sentence if they are not good. */
  readonly read: () => T;
  readonly log: Log;
  readonly onChange?: (value: T) => void;
};

/** Reads once and throws if that fails; later, what cannot be read is told, and the value stays as it was. */
export function reloaded<T>({ what, paths, read, log, onChange }: ReloadedOptions<T>): Reloaded<T> {
  let value = read();
  const reload = () => {
    try {
      value = read();
      onChange?.(value);
      log.info(`${what} are read anew`);
    } catch (error) {
      log.error(`${what} stay as they were`, { error: (error as Error).message });
    }
  };
  for (const path of paths) watchFile(path, { persistent: false, interval: LOOK_MS }, reload);
  const stop = () => {
    for (const path of paths) unwatchFile(path, reload);
  };
  return { get: () => value, reload, stop };
}
