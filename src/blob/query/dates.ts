import type { DatePart } from "./syntax.ts";
import { datePart, offsetText, QueryFault, type Timestamp, timestampAt } from "./values.ts";

const UNIT_MS: Readonly<Record<string, number>> = {
  day: 86_400_000,
  hour: 3_600_000,
  minute: 60_000,
  second: 1_000,
};
const MINUTE_MS = 60_000;
const QUANTITY_MAX = 1e12;

/** DATE_ADD; a month's end stays a month's end. */
export function dateAdded(from: Timestamp, part: DatePart, quantity: bigint): Timestamp {
  const count = Number(quantity);
  if (Math.abs(count) > QUANTITY_MAX) {
    throw new QueryFault("DateOutOfRange", "The date is not between the years 1 and 9999.");
  }
  const unit = UNIT_MS[part];
  if (unit !== undefined) return timestampAt(from.at + count * unit, from.offsetMinutes);
  const offset = from.offsetMinutes * MINUTE_MS;
  const local = new Date(from.at + offset);
  const day = local.getUTCDate();
  local.setUTCDate(1);
  local.setUTCMonth(local.getUTCMonth() + count * (part === "year" ? 12 : 1));
  const last = new Date(Date.UTC(local.getUTCFullYear(), local.getUTCMonth() + 1, 0)).getUTCDate();
  local.setUTCDate(Math.min(day, last));
  return timestampAt(local.getTime() - offset, from.offsetMinutes);
}

/** DATE_DIFF: how many whole units lie from the first to the second. */
export function dateDifference(from: Timestamp, to: Timestamp, part: DatePart): bigint {
  const unit = UNIT_MS[part];
  if (unit !== undefined) return BigInt(Math.trunc((to.at - from.at) / unit));
  const months =
    (datePart(to, "year") - datePart(from, "year")) * 12n +
    datePart(to, "month") -
    datePart(from, "month");
  // The last of the months counts only if it is over.
  const arrived = dateAdded(from, "month", months).at;
  const late = months > 0n && arrived > to.at ? -1n : months < 0n && arrived < to.at ? 1n : 0n;
  return part === "month" ? months + late : (months + late) / 12n;
}

const MONTHS =
  "January February March April May June July August September October November December".split(
    " ",
  );
const FIELDS = /y+|M+|d+|a|h+|H+|m+|s+|S+|X+|x+|'[^']*'/g;

/** TO_STRING: a date written by the format strings of the reference; other characters stay. */
export function dateText(date: Timestamp, format: string): string {
  const of = (part: DatePart) => Number(datePart(date, part));
  const pad = (value: number, size: number) => String(value).padStart(size, "0");
  const offset = date.offsetMinutes;
  const local = new Date(date.at + offset * MINUTE_MS);
  return format.replace(FIELDS, (field) => {
    const size = field.length;
    switch (field[0]) {
      case "y":
        return size === 2 ? pad(of("year") % 100, 2) : pad(of("year"), size);
      case "M": {
        const month = MONTHS[of("month") - 1] ?? "";
        return size >= 4 ? month : size === 3 ? month.slice(0, 3) : pad(of("month"), size);
      }
      case "d":
        return pad(of("day"), size);
      case "a":
        return of("hour") < 12 ? "AM" : "PM";
      case "h":
        return pad(of("hour") % 12 || 12, size);
      case "H":
        return pad(of("hour"), size);
      case "m":
        return pad(of("minute"), size);
      case "s":
        return pad(of("second"), size);
      case "S":
        return pad(local.getUTCMilliseconds(), 3).padEnd(size, "0").slice(0, size);
      case "X":
      case "x":
        if (field[0] === "X" && offset === 0) return "Z";
        if (size === 1) return offsetText(offset, "").slice(0, 3);
        return offsetText(offset, size === 3 || size === 5 ? ":" : "");
      default:
        return field.slice(1, -1);
    }
  });
}
