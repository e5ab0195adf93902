import type { Filter, Operator } from "./filter.ts";

/** Texts from `low` to `high`, in the order of UTF-16 code units; no `high` is no end. */
export type Interval = {
  readonly low: string;
  readonly lowIsOpen: boolean;
  readonly high: string | undefined;
  readonly highIsOpen: boolean;
};

/** All keys whose two parts lie in two intervals. */
export type Box = { readonly partition: Interval; readonly row: Interval };

/**
 * The keys that a filter can match. `exact` says that every key in the boxes matches it, so that entities need
 * not be looked at.
 */
export type KeyRanges = { readonly boxes: readonly Box[]; readonly exact: boolean };

const everything: Interval = { low: "", lowIsOpen: false, high: undefined, highIsOpen: false };
const anyKey: Box = { partition: everything, row: everything };

/** More boxes than this are not worth their bookkeeping: what holds them all is scanned. */
const BOXES_MAX = 300;

/** What a filter says of the keys, in boxes that may overlap; never fewer keys than match. */
export function keyRanges(filter: Filter | undefined): KeyRanges {
  return filter === undefined ? { boxes: [anyKey], exact: true } : rangesOf(filter, false);
}

function rangesOf(filter: Filter, negated: boolean): KeyRanges {
  switch (filter.kind) {
    case "constant":
      return { boxes: filter.value === negated ? [] : [anyKey], exact: true };
    case "not":
      return rangesOf(filter.term, !negated);
    case "compare":
      return comparisonRanges(filter, negated);
    case "and":
    case "or": {
      const all = filter.terms.map((term) => rangesOf(term, negated));
      return (filter.kind === "and") === negated ? union(all) : intersection(all);
    }
  }
}

function comparisonRanges(
  filter: Extract<Filter, { kind: "compare" }>,
  negated: boolean,
): KeyRanges {
  const { property, operator, literal } = filter;
  if (property !== "PartitionKey" && property !== "RowKey")
    return { boxes: [anyKey], exact: false };
  // A key is always there, and always a String: compared with anything else it never matches.
  if (literal.type !== "String") return { boxes: negated ? [anyKey] : [], exact: true };
  const text = literal.value as string;
  if (text.includes("\0")) return { boxes: [anyKey], exact: false }; // no key holds it, and none ends with it
  const intervals = intervalsOf(negated ? opposite[operator] : operator, text);
  const boxes = intervals.map((interval) =>
    property === "PartitionKey"
      ? { partition: interval, row: everything }
      : { partition: everything, row: interval },
  );
  return { boxes, exact: true };
}

const opposite: Readonly<Record<Operator, Operator>> = {
  eq: "ne",
  ne: "eq",
  gt: "le",
  ge: "lt",
  lt: "ge",
  le: "gt",
};

function intervalsOf(operator: Operator, text: string): Interval[] {
  const from = (isOpen: boolean) => ({ ...everything, low: text, lowIsOpen: isOpen });
  const upTo = (isOpen: boolean) => ({ ...everything, high: text, highIsOpen: isOpen });
  switch (operator) {
    case "eq":
      return [{ low: text, lowIsOpen: false, high: text, highIsOpen: false }];
    case "ne":
      return [upTo(true), from(true)].filter((interval) => !isEmpty(interval));
    case "gt":
      return [from(true)];
    case "ge":
      return [from(false)];
    case "lt":
      return [upTo(true)].filter((interval) => !isEmpty(interval));
    case "le":
      return [upTo(false)];
  }
}

export const isPoint = ({ low, high }: Interval): boolean => low === high;

const isEmpty = ({ low, lowIsOpen, high, highIsOpen }: Interval): boolean =>
  high !== undefined && (high < low || (high === low && (lowIsOpen || highIsOpen)));

const isEverything = (interval: Interval): boolean =>
  interval.low === "" && !interval.lowIsOpen && interval.high === undefined;

function union(all: readonly KeyRanges[]): KeyRanges {
  const boxes = all.flatMap((ranges) => ranges.boxes);
  if (boxes.length > BOXES_MAX) return { boxes: [hull(boxes)], exact: false };
  return { boxes, exact: all.every((ranges) => ranges.exact) };
}

function intersection(all: readonly KeyRanges[]): KeyRanges {
  let boxes: readonly Box[] = [anyKey];
  let exact = true;
  for (const ranges of all) {
    exact &&= ranges.exact;
    if (boxes.length * ranges.boxes.length > BOXES_MAX) {
      // Either side alone holds all that both hold.
      exact = false;
      if (ranges.boxes.length < boxes.length) boxes = ranges.boxes;
      continue;
    }
    boxes = boxes.flatMap((box) => ranges.boxes.flatMap((other) => common(box, other) ?? []));
  }
  return { boxes, exact };
}

function common(one: Box, other: Box): Box | undefined {
  const partition = overlap(one.partition, other.partition);
  const row = overlap(one.row, other.row);
  return isEmpty(partition) || isEmpty(row) ? undefined : { partition, row };
}

function overlap(one: Interval, other: Interval): Interval {
  const { low, lowIsOpen } =
    one.low > other.low || (one.low === other.low && one.lowIsOpen) ? one : other;
  if (one.high === undefined || other.high === undefined) {
    const { high, highIsOpen } = one.high === undefined ? other : one;
    return { low, lowIsOpen, high, highIsOpen };
  }
  const { high, highIsOpen } =
    one.high < other.high || (one.high === other.high && one.highIsOpen) ? one : other;
  return { low, lowIsOpen, high, highIsOpen };
}

/** The smallest run of partitions that holds all boxes. */
function hull(boxes: readonly Box[]): Box {
  let low: string | undefined;
  let high: string | undefined = "";
  for (const { partition } of boxes) {
    if (low === undefined || partition.low < low) low = partition.low;
    if (high !== undefined && (partition.high === undefined || partition.high > high)) {
      high = partition.high;
    }
  }
  return {
    partition: { low: low ?? "", lowIsOpen: false, high, highIsOpen: false },
    row: everything,
  };
}

/** Whether a box is one run of keys, as they are sorted; otherwise rows outside it lie between. */
export const isRun = ({ partition, row }: Box): boolean => isPoint(partition) || isEverything(row);
