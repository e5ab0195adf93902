import { ROOT } from "../file/namespace.ts";
import type { Notice, Opens } from "../store/opens.ts";
import type { FileOpen } from "./file-open.ts";

// What a client may watch for (MS-SMB2 2.2.35).
const FILE_NAME = 0x1;
const DIRECTORY_NAME = 0x2;

// What happened to a name (MS-FSCC 2.7.1).
const ADDED = 1;
const REMOVED = 2;
const MODIFIED = 3;
const OLD_NAME = 4;
const NEW_NAME = 5;

/** Changes are kept for a client that is not asking right now, up to this much. */
const KEPT_MAX = 64 * 1024;

export type Change = { readonly action: number; readonly path: string };

/** A directory that a client watches; the first request says for what, and that stays. */
export class Watch {
  readonly open: FileOpen;
  readonly filter: number;
  readonly isDeep: boolean;
  /** The last change before it began. */
  readonly since: number;
  changes: Change[] = [];
  isOverflown = false;
  /** Requests that wait for something to tell, in their order; the first one takes all there is. */
  readonly waiters = new Set<() => void>();
  #size = 0;

  constructor(
    open: FileOpen,
    { filter, isDeep, since }: { filter: number; isDeep: boolean; since: number },
  ) {
    this.open = open;
    this.since = since;
    this.filter = filter;
    this.isDeep = isDeep;
  }

  add(changes: readonly Change[]): void {
    for (const change of changes) this.#size += 12 + 2 * change.path.length;
    if (this.#size > KEPT_MAX) this.overflow();
    else if (!this.isOverflown) this.changes.push(...changes);
    this.waiters.values().next().value?.();
  }

  /** What there is has been told. */
  take(): Change[] {
    const taken = this.changes;
    this.changes = [];
    this.#size = 0;
    this.isOverflown = false;
    return taken;
  }

  overflow(): void {
    this.changes = [];
    this.isOverflown = true;
  }
}

/** The directories that clients watch, and what happens in them. */
export class Watches {
  readonly #opens: Opens;
  readonly #shares = new Map<bigint, Set<Watch>>();
  #stop: (() => void) | undefined;

  constructor(opens: Opens) {
    this.#opens = opens;
  }

  add(watch: Watch): void {
    const { share } = watch.open;
    const watches = this.#shares.get(share) ?? new Set();
    watches.add(watch);
    this.#shares.set(share, watches);
    this.#opens.watchDeep(
      share,
      [...watches].some(({ isDeep }) => isDeep),
    );
    this.#stop ??= this.#opens.watch((notice, number) => this.#tell(notice, number));
  }

  remove(watch: Watch): void {
    const { share } = watch.open;
    const watches = this.#shares.get(share);
    watches?.delete(watch);
    this.#opens.watchDeep(
      share,
      [...(watches ?? [])].some(({ isDeep }) => isDeep),
    );
    if (watches?.size === 0) this.#shares.delete(share);
    if (this.#shares.size > 0) return;
    this.#stop?.();
    this.#stop = undefined;
  }

  #tell(notice: Notice, number: number): void {
    for (const watch of this.#shares.get(notice.share) ?? []) {
      if (number <= watch.since) continue;
      const prefix = prefixOf(watch, notice);
      if (prefix === undefined) continue;
      const changes = changesOf(notice, watch.filter, prefix);
      if (changes.length > 0) watch.add(changes);
    }
  }
}

/** The way from a watched directory down to that of a change; undefined if it is not below it. */
function prefixOf({ open, isDeep }: Watch, { directory, above }: Notice): string | undefined {
  if (open.isSnapshot) return undefined; // nothing changes there
  if (directory === open.file) return "";
  if (!isDeep || above === undefined) return undefined;
  const names: string[] = [];
  for (const { id, name } of above) {
    if (id === open.file) return `${names.join("\\")}\\`;
    names.unshift(name);
  }
  return open.file === ROOT ? `${names.join("\\")}\\` : undefined;
}

function changesOf(notice: Notice, filter: number, prefix: string): Change[] {
  const { what, name, from, kind, bits } = notice;
  const path = prefix + name;
  const wanted = kind === "directory" ? DIRECTORY_NAME : FILE_NAME;
  if (what === "modified" || (filter & wanted) === 0) {
    return (filter & bits) === 0 ? [] : [{ action: MODIFIED, path }];
  }
  if (what === "added") return [{ action: ADDED, path }];
  if (what === "removed") return [{ action: REMOVED, path }];
  return [
    { action: OLD_NAME, path: prefix + (from ?? name) },
    { action: NEW_NAME, path },
  ];
}
