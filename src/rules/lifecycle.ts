import type { Instant } from "../base/time.ts";
import type { Tags } from "./tags.ts";
import type { Tier } from "./tiers.ts";

/** A rule of a management policy, after it was checked. */
export type LifecycleRule = {
  readonly name: string;
  readonly blobTypes: readonly LifecycleBlob["type"][];
  /** Beginnings of `container/blob`; none means all. */
  readonly prefixes: readonly string[];
  /** Tags that must all be there, with these values. */
  readonly tags: readonly { readonly name: string; readonly value: string }[];
  readonly actions: Readonly<Record<Subject, readonly LifecycleStep[]>>;
};

/** What a rule can be about. */
export type Subject = "baseBlob" | "snapshot" | "version";
export const subjects: readonly Subject[] = ["baseBlob", "snapshot", "version"];

/** An action and the ages in days that must all be exceeded. */
export type LifecycleStep = {
  readonly action: LifecycleAction;
  readonly modified?: number;
  readonly created?: number;
  readonly tierChanged?: number;
};

/** From the least expensive on: where several are due, the first one is done. */
export const lifecycleActions = ["delete", "tierToArchive", "tierToCold", "tierToCool"] as const;
export type LifecycleAction = (typeof lifecycleActions)[number];

/** What rules look at in a blob, a snapshot or an earlier version. */
export type LifecycleBlob = {
  readonly subject: Subject;
  /** `container/blob`. */
  readonly path: string;
  readonly type: "BlockBlob" | "AppendBlob" | "PageBlob";
  readonly tier: Tier;
  readonly tags?: Tags | undefined;
  readonly modifiedAt: Instant;
  /** When it was made; for a snapshot or version, when that was taken. */
  readonly createdAt: Instant;
  readonly tierChangedAt?: Instant | undefined;
};

export type Due = { readonly rule: string; readonly action: LifecycleAction };

const DAY_MS = 24 * 3600 * 1000;

/** Where a tier can be left for a cooler one ("Lifecycle management policy definition", rule actions). */
const LEAVES: Readonly<Record<Exclude<LifecycleAction, "delete">, readonly Tier[]>> = {
  tierToCool: ["Hot"],
  tierToCold: ["Hot", "Cool"],
  tierToArchive: ["Hot", "Cool", "Cold"],
};

/** What is to be done with a blob at `now`, and by which rule; undefined if nothing is. */
export function lifecycleAction(
  rules: readonly LifecycleRule[],
  blob: LifecycleBlob,
  now: Instant,
): Due | undefined {
  let due: Due | undefined;
  let rank: number = lifecycleActions.length;
  for (const rule of rules) {
    if (!isMeant(rule, blob)) continue;
    for (const step of rule.actions[blob.subject]) {
      const found = lifecycleActions.indexOf(step.action);
      if (found >= rank || !isPossible(step.action, blob) || !isOld(step, blob, now)) continue;
      rank = found;
      due = { rule: rule.name, action: step.action };
    }
  }
  return due;
}

const isMeant = ({ blobTypes, prefixes, tags }: LifecycleRule, blob: LifecycleBlob): boolean =>
  blobTypes.includes(blob.type) &&
  (prefixes.length === 0 || prefixes.some((prefix) => blob.path.startsWith(prefix))) &&
  tags.every(({ name, value }) => blob.tags?.[name] === value);

/** Only block blobs have tiers, and no blob goes to a warmer one. */
const isPossible = (action: LifecycleAction, { type, tier }: LifecycleBlob): boolean =>
  action === "delete" || (type === "BlockBlob" && LEAVES[action].includes(tier));

function isOld(
  { modified, created, tierChanged }: LifecycleStep,
  blob: LifecycleBlob,
  now: Instant,
): boolean {
  const exceeds = (days: number | undefined, since: Instant) =>
    days === undefined || now - since > days * DAY_MS;
  return (
    exceeds(modified, blob.modifiedAt) &&
    exceeds(created, blob.createdAt) &&
    // A blob whose tier never changed has had it since it was made.
    exceeds(tierChanged, blob.tierChangedAt ?? blob.createdAt)
  );
}

/**
 * Whether a rule may be about a container at all. Containers of the system are left alone unless a prefix
 * names them.
 */
export function concernsContainer(rules: readonly LifecycleRule[], container: string): boolean {
  const path = `${container}/`;
  const isSystem = container.startsWith("$") && container !== "$root";
  return rules.some(({ prefixes }) =>
    prefixes.length === 0
      ? !isSystem
      : prefixes.some((prefix) => path.startsWith(prefix) || prefix.startsWith(path)),
  );
}
