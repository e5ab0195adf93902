/** Bits of what an open may do to data, and of what it lets others do beside it; SMB's share modes have the same. */
export const READ = 1;
export const WRITE = 2;
export const DELETE = 4;
export const ALL: number = READ | WRITE | DELETE;

/** A set of those bits. */
export type Rights = number;

/** What an open does, and what it lets others do. */
export type Sharing = { readonly access: Rights; readonly shares: Rights };

/**
 * Whether two opens cannot stand side by side: one of them does what the other does not share. An open that
 * touches no data, but looks at attributes only, stands beside any (MS-FSA, "Algorithm to check sharing access").
 */
export function inConflict(a: Sharing, b: Sharing): boolean {
  if ((a.access & ALL) === 0 || (b.access & ALL) === 0) return false;
  return (a.access & ~b.shares & ALL) !== 0 || (b.access & ~a.shares & ALL) !== 0;
}

/** How a REST operation enters a file: it does its work at once, so it shares everything ("Manage file locks"). */
export const restOpens = {
  /** What is listed, also who has it open: nothing is asked of them. */
  list: { access: 0, shares: ALL },
  /** Get File Properties, Get File Metadata: whatever others do. */
  look: { access: 0, shares: ALL },
  read: { access: READ, shares: ALL },
  write: { access: WRITE, shares: ALL },
  /** Create File over one that is there, and the destination of a copy. */
  replace: { access: WRITE | DELETE, shares: ALL },
  /** Nobody else may have the file open at all. */
  delete: { access: DELETE, shares: ALL },
  /** A lease keeps others from changing it for as long as it lasts, and bears none that denies anything. */
  lease: { access: ALL, shares: READ },
} as const satisfies Record<string, Sharing>;

export type RestUse = keyof typeof restOpens;

/** A lock on bytes, of one open; `count` 0 locks nothing but keeps others from spanning its place. */
export type RangeLock = {
  readonly start: bigint;
  readonly count: bigint;
  readonly exclusive: boolean;
};

/** Whether two ranges have a byte in common; an empty one counts where it lies strictly inside the other. */
export function overlap(
  a: Pick<RangeLock, "start" | "count">,
  b: Pick<RangeLock, "start" | "count">,
): boolean {
  if (a.count === 0n && b.count === 0n) return false;
  return a.start < b.start + b.count && b.start < a.start + a.count;
}

/** What a client may keep to itself of a file: reads, writes, and the handle though its user has closed it. */
export type Oplock = { readonly read: boolean; readonly write: boolean; readonly handle: boolean };

export const noOplock: Oplock = { read: false, write: false, handle: false };

/** What is left of an oplock once a REST operation has come by, and whether that must wait for the client. */
export function oplockAfter(
  held: Oplock,
  use: RestUse,
): { readonly left: Oplock; readonly waits: boolean } {
  switch (use) {
    case "list":
      return { left: held, waits: false };
    case "look":
    case "read":
      return { left: { ...held, write: false }, waits: held.write };
    case "write":
    case "replace":
      return { left: noOplock, waits: held.write };
    case "delete":
    case "lease":
      return { left: { ...held, handle: false }, waits: held.handle };
  }
}
