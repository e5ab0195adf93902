import type { Call } from "./linearizable.ts";
import { isNew, isUntold, shows, untold } from "./traffic.ts";

/** Bits of what an open does and of what it lets others do, as SMB's share modes have them. */
export const READ = 1;
export const WRITE = 2;
export const DELETE = 4;
const ALL = 7;

export type Name = 0 | 1;
export type Half = 0 | 1;
/** Which life of the server an operation belongs to: one that has ended does nothing any more. */
export type Lived = { readonly life: number };

export type SmbInput =
  | {
      readonly kind: "open";
      /** What the client calls its handle, and the file if it is made by this. */
      readonly open: string;
      readonly name: Name;
      readonly access: number;
      readonly shares: number;
      readonly disposition: "open" | "create" | "openIf" | "overwriteIf";
      readonly deletes: boolean;
    }
  | {
      readonly kind: "write";
      readonly open: string;
      readonly half: Half;
      readonly word: string;
      /** Whether it stays once it is answered: because it goes through, or because a flush follows at once. */
      readonly stays: false | "through" | "flushed";
    }
  | { readonly kind: "read"; readonly open: string }
  | {
      readonly kind: "lock";
      readonly open: string;
      readonly half: Half;
      readonly exclusive: boolean;
    }
  | { readonly kind: "unlock"; readonly open: string; readonly half: Half }
  | { readonly kind: "doom"; readonly open: string; readonly deletes: boolean }
  | { readonly kind: "move"; readonly open: string; readonly to: Name; readonly replaces: boolean }
  | { readonly kind: "flush"; readonly open: string }
  /** The first half of a close by a handle that deletes: the file is marked, and goes when it can. */
  | { readonly kind: "mark"; readonly open: string }
  | { readonly kind: "close"; readonly open: string }
  /** The client ends its connection; the server closes the handle when it notices. */
  | { readonly kind: "gone"; readonly open: string };

export type RestInput =
  | { readonly kind: "make"; readonly name: Name; readonly word: string }
  | { readonly kind: "range"; readonly name: Name; readonly half: Half; readonly word: string }
  | { readonly kind: "get"; readonly name: Name }
  | { readonly kind: "delete"; readonly name: Name }
  | { readonly kind: "rename"; readonly name: Name; readonly to: Name; readonly replaces: boolean }
  | { readonly kind: "list" };

export type DoorsInput =
  | ((SmbInput | RestInput) & Lived)
  /** The process ends, and one of the next life begins. */
  | ({ readonly kind: "crash" } & Lived);

export type DoorsOutput = {
  readonly told: string;
  readonly etag?: string | undefined;
  /** The halves of the content, as far as the file goes. */
  readonly halves?: readonly string[];
  readonly names?: readonly Name[];
};

type File = {
  readonly id: string;
  readonly halves: readonly string[];
  readonly etag: string;
};
/** What is on the disk under the two names. */
type Disk = readonly [File | undefined, File | undefined];
/** A state of the disk, and which handle led to it on which file, if it was a handle. */
type Past = { readonly disk: Disk; readonly by?: string; readonly file?: string };
type Lock = { readonly half: Half; readonly exclusive: boolean };
type Open = {
  readonly open: string;
  readonly file: string;
  readonly access: number;
  readonly shares: number;
  readonly deletes: boolean;
  readonly locks: readonly Lock[];
};

/**
 * Two names of a directory, with all that is open. A crash leaves any of the states in `tail`, of which the
 * first is the last that was promised to stay, and the last is how things are now.
 */
export type DoorsState = {
  readonly life: number;
  readonly tail: readonly Past[];
  readonly opens: readonly Open[];
  /** Files that go with their last close. */
  readonly doomed: readonly string[];
};

export const initial: DoorsState = {
  life: 0,
  tail: [{ disk: [undefined, undefined] }],
  opens: [],
  doomed: [],
};

export const statuses = {
  ok: "smb 0",
  endOfFile: "smb c0000011",
  denied: "smb c0000022",
  missing: "smb c0000034",
  collision: "smb c0000035",
  sharing: "smb c0000043",
  lockConflict: "smb c0000054",
  lockNotGranted: "smb c0000055",
  deletePending: "smb c0000056",
} as const;

const diskOf = ({ tail }: DoorsState): Disk => tail.at(-1)?.disk ?? [undefined, undefined];
const opensOf = ({ opens }: DoorsState, file: File): Open[] =>
  opens.filter((each) => each.file === file.id);
const isDoomed = ({ doomed }: DoorsState, file: File): boolean => doomed.includes(file.id);

/** Whether one of two opens does what the other does not share; who touches no data is in nobody's way. */
function inConflict(
  a: { readonly access: number; readonly shares: number },
  b: { readonly access: number; readonly shares: number },
): boolean {
  if (a.access === 0 || b.access === 0) return false;
  return (a.access & ~b.shares & ALL) !== 0 || (b.access & ~a.shares & ALL) !== 0;
}

/** The disk with another file under a name. */
function withFile(disk: Disk, name: Name, file: File | undefined): Disk {
  return name === 0 ? [file, disk[1]] : [disk[0], file];
}

/** What a handle changed: seen by all, and lost by a crash until somebody makes it durable. */
function changed(state: DoorsState, disk: Disk, { open, file }: Open): DoorsState {
  return { ...state, tail: [...state.tail, { disk, by: open, file }] };
}

/** What REST changed: answered when it is durable, with all that came before it. */
function changedByRest(state: DoorsState, disk: Disk, isAnswered: boolean): DoorsState {
  return { ...state, tail: isAnswered ? [{ disk }] : [...state.tail, { disk }] };
}

/** The state in which the last change that is meant stays, and with it all before it. */
function settled(state: DoorsState, isMeant: (past: Past, before: Past) => boolean): DoorsState {
  const { tail } = state;
  for (let at = tail.length - 1; at > 0; at--) {
    const past = tail[at] as Past;
    if (!isMeant(past, tail[at - 1] as Past)) continue;
    return { ...state, tail: [{ disk: past.disk }, ...tail.slice(at + 1)] };
  }
  return state;
}

/** A reader by REST is told nothing of a name that a crash could take back: of its file, or that it is there. */
const settledName = (state: DoorsState, name: Name, what: "etag" | "id"): DoorsState =>
  settled(state, (past, before) => past.disk[name]?.[what] !== before.disk[name]?.[what]);

const written = (file: File, half: Half, word: string, etag: string): File => ({
  ...file,
  etag,
  halves: half === 0 ? [word, ...file.halves.slice(1)] : [file.halves[0] ?? "", word],
});

/** Takes a handle away, and the file with it if it was the last of one that is to go. */
function closed(state: DoorsState, open: Open): DoorsState {
  const opens = state.opens.filter((each) => each !== open);
  const { file } = open;
  const { doomed } = state;
  const left = { ...state, opens };
  if (!doomed.includes(file) || opens.some((each) => each.file === file)) return left;
  const [first, second] = diskOf(state);
  const disk: Disk = [
    first?.id === file ? undefined : first,
    second?.id === file ? undefined : second,
  ];
  return changed({ ...left, doomed: doomed.filter((each) => each !== file) }, disk, open);
}

/** Every state that a call may lead to. */
export function next(state: DoorsState, call: Call<DoorsInput, DoorsOutput>): DoorsState[] {
  const { input } = call;
  if (input.kind === "crash") {
    if (input.life !== state.life) return [];
    return state.tail.map(({ disk }) => ({
      ...{ life: state.life + 1, tail: [{ disk }], opens: [], doomed: [] },
    }));
  }
  if (input.life !== state.life) return [];
  switch (input.kind) {
    case "make":
    case "range":
    case "get":
    case "delete":
    case "rename":
    case "list":
      return nextByRest(state, input, call);
    case "open":
      return nextOpen(state, input, call);
    default:
      return nextBySmb(state, input, call);
  }
}

type AnyCall = Call<DoorsInput, DoorsOutput>;

/** What keeps REST from using a file so, beside those who have it open ("Managing file locks"). */
function refusals(state: DoorsState, file: File, access: number): string[] {
  if (isDoomed(state, file)) return ["409 SMBDeletePending"];
  const found: string[] = [];
  const opens = opensOf(state, file);
  const inTheWay =
    access === DELETE ? opens : opens.filter((open) => inConflict(open, { access, shares: ALL }));
  if (inTheWay.length > 0) found.push("409 SharingViolation");
  const locks = opens.flatMap((open) => open.locks);
  const isLocked = access === READ ? locks.some(({ exclusive }) => exclusive) : locks.length > 0;
  if (isLocked && access !== DELETE) found.push("409 FileLockConflict");
  return found;
}

function nextByRest(state: DoorsState, input: RestInput, { output, from }: AnyCall): DoorsState[] {
  const disk = diskOf(state);
  const etag = output?.etag ?? untold(from);
  const refused = (codes: readonly string[]) =>
    output !== undefined && codes.includes(output.told) ? [state] : [];
  if (input.kind === "list") {
    const there = ([0, 1] as const).filter((name) => {
      const file = disk[name];
      return file !== undefined && !isDoomed(state, file);
    });
    if (output?.told !== "200" || output.names?.join() !== there.join()) return [];
    return [settledName(settledName(state, 0, "id"), 1, "id")];
  }
  const { name } = input;
  const file = disk[name];
  if (input.kind === "rename") return nextRename(state, input, { output, etag });
  if (file === undefined) {
    if (input.kind !== "make") return refused(["404 ResourceNotFound"]);
  } else {
    const uses = { make: WRITE | DELETE, range: WRITE, get: READ, delete: DELETE };
    const codes = refusals(state, file, uses[input.kind]);
    if (codes.length > 0) return refused(codes);
  }
  const told = { make: "201", range: "201", get: "200", delete: "202" }[input.kind];
  if (input.kind === "range" && file !== undefined && input.half >= file.halves.length) {
    return refused(["416 InvalidRange"]);
  }
  if (output !== undefined && output.told !== told) return [];
  if (input.kind === "get") {
    if (file === undefined || output === undefined || !shows(output.etag, file.etag)) return [];
    if (output.halves?.join() !== file.halves.join()) return [];
    const seen = settledName(state, name, "etag");
    if (!isUntold(file.etag)) return [seen];
    const known = seen.tail.map((past) => ({
      ...past,
      disk: renamedTag(past.disk, file.etag, etag),
    }));
    return [{ ...seen, tail: known }];
  }
  const isAnswered = output !== undefined;
  if (input.kind === "delete") {
    return [changedByRest(state, withFile(disk, name, undefined), isAnswered)];
  }
  if (isAnswered && !isNew(output.etag, file?.etag)) return [];
  const before = file ?? { id: input.word, halves: [], etag };
  const after =
    input.kind === "make"
      ? { ...before, halves: ["", ""], etag }
      : written(before, input.half, input.word, etag);
  return [changedByRest(state, withFile(disk, name, after), isAnswered)];
}

/** An ETag that nobody was told is known from the first read on, wherever the version is. */
function renamedTag([first, second]: Disk, from: string, to: string): Disk {
  const known = (file: File | undefined) => (file?.etag === from ? { ...file, etag: to } : file);
  return [known(first), known(second)];
}

function nextRename(
  state: DoorsState,
  { name, to, replaces }: Extract<RestInput, { kind: "rename" }>,
  { output, etag }: { readonly output: DoorsOutput | undefined; readonly etag: string },
): DoorsState[] {
  const disk = diskOf(state);
  const source = disk[name];
  const there = disk[to];
  const codes: string[] = [];
  if (source === undefined) codes.push("404 ResourceNotFound");
  else codes.push(...refusals(state, source, DELETE));
  if (there !== undefined) {
    codes.push(...refusals(state, there, DELETE));
    if (!replaces) codes.push("409 ResourceAlreadyExists");
  }
  // Which of several reasons is told is said nowhere; one that has nothing to replace is told no other.
  if (codes.length > 0 || source === undefined) {
    return output !== undefined && codes.includes(output.told) ? [state] : [];
  }
  if (output !== undefined && (output.told !== "200" || !isNew(output.etag, source.etag)))
    return [];
  const moved = { ...source, etag };
  const after: Disk = to === 0 ? [moved, undefined] : [undefined, moved];
  return [changedByRest(state, after, output !== undefined)];
}

function nextOpen(
  state: DoorsState,
  input: Extract<SmbInput, { kind: "open" }>,
  { output, from }: AnyCall,
): DoorsState[] {
  const { name, disposition, deletes, access, shares } = input;
  const disk = diskOf(state);
  const file = disk[name];
  const answered = (...told: string[]) =>
    output !== undefined && told.includes(output.told) ? [state] : [];
  const overwrites = disposition === "overwriteIf";
  if (file === undefined && disposition === "open") return answered(statuses.missing);
  if (file !== undefined) {
    const pending = isDoomed(state, file) ? [statuses.deletePending] : [];
    if (disposition === "create") return answered(statuses.collision, ...pending);
    if (pending.length > 0) return answered(...pending);
    const wanted = { access: access | (overwrites ? WRITE : 0), shares };
    if (opensOf(state, file).some((open) => inConflict(open, wanted))) {
      return answered(statuses.sharing);
    }
  }
  if (output !== undefined && output.told !== statuses.ok) return [];
  const id = file?.id ?? input.open;
  const open: Open = { open: input.open, file: id, access, shares, deletes, locks: [] };
  const opens = [...state.opens, open].sort((a, b) => (a.open < b.open ? -1 : 1));
  const entered = { ...state, opens };
  if (file !== undefined && !overwrites) return [entered];
  const made: File = { id, halves: [], etag: untold(from) };
  return [changed(entered, withFile(disk, name, made), open)];
}

type HandleInput = Exclude<SmbInput, { kind: "open" }>;

function nextBySmb(state: DoorsState, input: HandleInput, { output, from }: AnyCall): DoorsState[] {
  const open = state.opens.find((each) => each.open === input.open);
  if (open === undefined) return [];
  const disk = diskOf(state);
  const at: Name = disk[0]?.id === open.file ? 0 : 1;
  const file = disk[at];
  if (file?.id !== open.file) return [];
  const answered = (...told: string[]) =>
    output !== undefined && told.includes(output.told) ? [state] : [];
  const done = (after: DoorsState) =>
    output === undefined || output.told === statuses.ok ? [after] : [];
  const others = opensOf(state, file).filter((each) => each !== open);
  const withOpen = (change: Partial<Open>): DoorsState => ({
    ...state,
    opens: state.opens.map((each) => (each === open ? { ...open, ...change } : each)),
  });
  switch (input.kind) {
    case "write": {
      const meets = (lock: Lock) => lock.half === input.half;
      const isLocked =
        others.some(({ locks }) => locks.some(meets)) ||
        open.locks.some((lock) => meets(lock) && !lock.exclusive);
      if (isLocked) return answered(statuses.lockConflict);
      const after = written(file, input.half, input.word, untold(from));
      const wrote = changed(state, withFile(disk, at, after), open);
      const stays = input.stays !== false && output !== undefined;
      return done(stays ? settled(wrote, ({ by }) => by === open.open) : wrote);
    }
    case "read": {
      const isLocked = others.some(({ locks }) => locks.some(({ exclusive }) => exclusive));
      const isEmpty = file.halves.length === 0;
      const told = [
        ...(isLocked ? [statuses.lockConflict] : []),
        ...(isEmpty ? [statuses.endOfFile] : []),
      ];
      if (told.length > 0) return answered(...told);
      return output?.halves?.join() === file.halves.join() ? answered(statuses.ok) : [];
    }
    case "lock": {
      const meets = (lock: Lock) => lock.half === input.half && (lock.exclusive || input.exclusive);
      if (others.some(({ locks }) => locks.some(meets))) return answered(statuses.lockNotGranted);
      const { half, exclusive } = input;
      return done(withOpen({ locks: [...open.locks, { half, exclusive }] }));
    }
    case "unlock":
      return done(withOpen({ locks: open.locks.filter(({ half }) => half !== input.half) }));
    case "doom": {
      const rest = state.doomed.filter((each) => each !== file.id);
      return done({ ...state, doomed: input.deletes ? [...rest, file.id].sort() : rest });
    }
    case "move": {
      if (input.to === at) return done(state);
      const there = disk[input.to];
      if (there !== undefined) {
        if (!input.replaces) return answered(statuses.collision);
        if (isDoomed(state, there) || opensOf(state, there).length > 0) {
          return answered(statuses.denied);
        }
      }
      const moved = { ...file, etag: untold(from) };
      return done(changed(state, input.to === 0 ? [moved, undefined] : [undefined, moved], open));
    }
    case "flush":
      return done(output === undefined ? state : settled(state, (past) => past.file === file.id));
    case "mark": {
      const rest = state.doomed.filter((each) => each !== file.id);
      return [{ ...withOpen({ deletes: false }), doomed: [...rest, file.id].sort() }];
    }
    case "close": {
      if (open.deletes) return [];
      const after = closed(state, open);
      return done(output === undefined ? after : settled(after, ({ by }) => by === open.open));
    }
    case "gone":
      if (open.deletes) return [];
      return [closed(state, open)];
  }
}
