/** Milliseconds since the epoch, UTC. */
export type Instant = number;

/** 100-nanosecond steps since the year 1, as .NET and therefore Azure count them. */
export type Tick = bigint;

/** The only source of time in the program; tests pass their own. */
export type Clock = { now(): Instant };

export const systemClock: Clock = { now: () => Date.now() };

const EPOCH_TICK = 621_355_968_000_000_000n;
const TICKS_PER_MS = 10_000n;

export const tickAt = (now: Instant): Tick => BigInt(Math.floor(now)) * TICKS_PER_MS + EPOCH_TICK;

export const instantOf = (tick: Tick): Instant => Number((tick - EPOCH_TICK) / TICKS_PER_MS);

const weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const two = (value: number) => (value < 10 ? `0${value}` : `${value}`);

let lastSecond = Number.NaN;
let lastText = "";

/** An RFC 1123 date, as every date header and XML date has it; by hand, because a list writes thousands. */
export function httpDate(at: Instant): string {
  const second = Math.floor(at / 1000);
  if (second === lastSecond) return lastText;
  const date = new Date(second * 1000);
  const day = `${weekdays[date.getUTCDay()]}, ${two(date.getUTCDate())} ${months[date.getUTCMonth()]}`;
  const time = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
  lastSecond = second;
  lastText = `${day} ${date.getUTCFullYear()} ${time} GMT`;
  return lastText;
}

const TICKS_PER_SECOND = 10_000_000n;
let lastTickSecond: bigint | undefined;
let lastTickText = "";

/** ISO 8601 with seven digits of a second: how snapshots and versions are named. Most share the last one's second. */
export function tickText(tick: Tick): string {
  const second = tick / TICKS_PER_SECOND;
  if (second !== lastTickSecond) {
    lastTickText = new Date(instantOf(tick)).toISOString().slice(0, 19);
    lastTickSecond = second;
  }
  return `${lastTickText}.${String(tick % TICKS_PER_SECOND).padStart(7, "0")}Z`;
}

const TICK_TEXT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{7})Z$/;

/** The tick that `tickText` wrote; undefined if the text is no such time. */
export function parseTickText(text: string): Tick | undefined {
  const match = TICK_TEXT.exec(text);
  if (match === null) return undefined;
  const seconds = Date.parse(`${match[1]}Z`);
  if (Number.isNaN(seconds)) return undefined;
  const tick = tickAt(seconds) + BigInt(match[2] ?? "0");
  return tickText(tick) === text ? tick : undefined; // there is no 30th of February
}

const HTTP_DATE =
  /^(?:[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4}|[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2}) \d\d:\d\d:\d\d GMT$/;

let lastParsed = "";
let lastInstant: Instant | undefined;

/** A date header in RFC 1123 or RFC 850 form; undefined if it is neither. Most requests carry the last one's. */
export function parseHttpDate(text: string): Instant | undefined {
  if (text === lastParsed) return lastInstant;
  lastInstant = parsedHttpDate(text);
  lastParsed = text;
  return lastInstant;
}

function parsedHttpDate(text: string): Instant | undefined {
  if (!HTTP_DATE.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) || !hasDay(text, at) ? undefined : at;
}

/** Whether the text's day is the instant's: JavaScript takes a 31st of November for the 1st of December. */
const hasDay = (text: string, at: Instant): boolean =>
  Number(/\d\d/.exec(text)?.[0]) === new Date(at).getUTCDate();

const ISO_DATE = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,7})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/** The ISO 8601 forms that access policies and SAS use; undefined if it is none of them. */
export function parseIsoDate(text: string): Instant | undefined {
  if (!ISO_DATE.test(text)) return undefined;
  const at = Date.parse(text);
  const day = Date.parse(text.slice(0, 10));
  const isDay = !Number.isNaN(day) && new Date(day).getUTCDate() === Number(text.slice(8, 10));
  return Number.isNaN(at) || !isDay ? undefined : at;
}
