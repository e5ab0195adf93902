import { mkdirSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { OpenError } from "./open-error.ts";

/**
 * Makes a directory for data, with those above it, or tells in a sentence why it cannot. One after another:
 * Node's own way to make them all never ends in /proc and its like, where nothing can be made.
 */
export function madeDirectory(directory: string): void {
  try {
    const missing: string[] = [];
    let path = resolve(directory);
    for (; statSync(path, { throwIfNoEntry: false }) === undefined; path = dirname(path)) {
      missing.unshift(path);
    }
    for (const each of missing) mkdirSync(each, { mode: 0o700 });
    if (!statSync(path).isDirectory()) throw new Error(`${path} is not a directory`);
  } catch (error) {
    throw new OpenError(`The directory ${directory} cannot be made: ${(error as Error).message}.`);
  }
}
