import { STATUS_CODES } from "node:http";
import { type ErrorCode, errors } from "../rules/errors.ts";

/** The first lines of a request, as they were sent; names of `headers` in lower case. */
export type Head = {
  readonly method: string;
  /** The target; where it holds more than ASCII, its bytes are UTF-8. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Names and values by turns, in the order and case they were sent in. */
  readonly rawHeaders: readonly string[];
  /** Of HTTP/1.1 or HTTP/1.0. */
  readonly minor: 0 | 1;
  /** All of it, Latin-1, without the empty line at its end. */
  readonly text: string;
};

/** Bytes that are no request: where the next one would begin nobody knows, so the connection ends. */
export class BrokenRequest extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode = "InvalidInput") {
    super(errors[code][1]);
    this.code = code;
  }
}

const REQUEST_LINE = /^([A-Z]{1,32}) ([\x21-\x7e\x80-\xff]+) HTTP\/1\.([01])$/;
const NAME_FORM = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** No line may hold a control character but the tab; a lone CR or LF would make two lines of one elsewhere. */
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

/** Said twice, these would mean two things, and a proxy before us may take the other one. */
const SINGLE = new Set([
  "authorization",
  "content-length",
  "content-type",
  "host",
  "if-modified-since",
  "if-unmodified-since",
  "transfer-encoding",
]);

/** Names that clients send, with their lower case: nearly all of a request's are found here. */
const names = new Map<string, string>();
const NAMES_MAX = 1_000;

function nameOf(raw: string): string {
  const known = names.get(raw);
  if (known !== undefined) return known;
  if (!NAME_FORM.test(raw)) throw new BrokenRequest();
  const name = raw.toLowerCase();
  if (names.size < NAMES_MAX && raw.length <= 40) names.set(raw, name);
  return name;
}

/** Takes the head of a request apart, which is given as Latin-1 and without the empty line at its end. */
export function parseHead(text: string): Head {
  let end = text.indexOf("\r\n");
  if (end === -1) end = text.length;
  const line = REQUEST_LINE.exec(text.slice(0, end));
  if (line === null) throw new BrokenRequest();
  const headers: Record<string, string | undefined> = Object.create(null);
  const rawHeaders: string[] = [];
  for (let at = end + 2; at < text.length; at = end + 2) {
    end = text.indexOf("\r\n", at);
    if (end === -1) end = text.length;
    const colon = text.indexOf(":", at);
    if (colon === -1 || colon > end) throw new BrokenRequest();
    const raw = text.slice(at, colon);
    const name = nameOf(raw);
    const value = trimmed(text, colon + 1, end);
    rawHeaders.push(raw, value);
    const before = headers[name];
    if (before === undefined) headers[name] = value;
    else if (SINGLE.has(name)) throw new BrokenRequest();
    else headers[name] = `${before}, ${value}`;
  }
  const [, method = "", url = "", minor] = line;
  return { method, url: targetOf(url), headers, rawHeaders, minor: minor === "1" ? 1 : 0, text };
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** A target as text: some clients, curl among them, send names beyond ASCII as the UTF-8 that they are. */
function targetOf(bytes: string): string {
  if (!/[\x80-\xff]/.test(bytes)) return bytes;
  try {
    return utf8.decode(Buffer.from(bytes, "latin1"));
  } catch {
    throw new BrokenRequest("InvalidUri");
  }
}

function trimmed(text: string, from: number, to: number): string {
  let begin = from;
  let end = to;
  while (begin < end && isBlank(text.charCodeAt(begin))) begin++;
  while (end > begin && isBlank(text.charCodeAt(end - 1))) end--;
  const value = text.slice(begin, end);
  if (NO_VALUE.test(value)) throw new BrokenRequest();
  return value;
}

const isBlank = (code: number): boolean => code === 0x20 || code === 0x09;

const LENGTH_FORM = /^\d{1,15}$/;

/** The size of the body that follows, undefined if it comes in chunks; ambiguous ones are refused. */
export function bodySizeOf({ headers, minor }: Head): number | undefined {
  const length = headers["content-length"];
  const encoding = headers["transfer-encoding"];
  if (encoding !== undefined) {
    if (length !== undefined || minor === 0) throw new BrokenRequest();
    if (encoding.toLowerCase() !== "chunked") throw new BrokenRequest();
    return undefined;
  }
  if (length === undefined) return 0;
  if (!LENGTH_FORM.test(length)) throw new BrokenRequest();
  return Number(length);
}

const HOST_FORM = /^(?:[\w.~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::\d{0,5})?$/;

/** Whether it is a host, with a port or without, as URLs have it; we write it into URLs of our own. None is one too. */
export function isHost(text: string): boolean {
  if (text === "" || text === lastHost) return true;
  if (!HOST_FORM.test(text) || !URL.canParse(`http://${text}/`)) return false;
  lastHost = text;
  return true;
}

/** The last one that was a host: the next request has the same, most of the time. */
let lastHost = "";

/** Whether the connection is to stay when the request is answered. */
export function keepsAlive({ headers, minor }: Head): boolean {
  const wish = headers.connection;
  if (wish === undefined) return minor === 1;
  const words = wish
    .toLowerCase()
    .split(",")
    .map((word) => word.trim());
  return minor === 1 ? !words.includes("close") : words.includes("keep-alive");
}

/** Of the lines between chunks, and of all that may follow the last one. */
const CHUNK_LINE_MAX = 1024;
const TRAILERS_MAX = 16 * 1024;
const CHUNK_FORM = /^([0-9a-fA-F]{1,12})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/;

/** Takes a body in chunks apart; what follows it is not its own. */
export class Chunks {
  #left = 0;
  #state: "size" | "data" | "after" | "trailers" | "end" = "size";
  #line = "";
  #trailers = 0;

  /** Gives the data of some more bytes to `see`, and how many of them belong to the body. */
  take(bytes: Buffer, see: (data: Buffer) => void): number {
    let at = 0;
    while (at < bytes.length && this.#state !== "end") {
      if (this.#state === "data") {
        const data = bytes.subarray(at, at + this.#left);
        at += data.length;
        this.#left -= data.length;
        if (this.#left === 0) this.#state = "after";
        see(data);
      } else at = this.#readLine(bytes, at);
    }
    return at;
  }

  get isOver(): boolean {
    return this.#state === "end";
  }

  #readLine(bytes: Buffer, at: number): number {
    const lf = bytes.indexOf(0x0a, at);
    const end = lf === -1 ? bytes.length : lf + 1;
    this.#line += bytes.toString("latin1", at, end);
    if (this.#line.length > CHUNK_LINE_MAX) throw new BrokenRequest();
    if (lf === -1) return end;
    if (!this.#line.endsWith("\r\n")) throw new BrokenRequest();
    const line = this.#line.slice(0, -2);
    this.#line = "";
    this.#seeLine(line);
    return end;
  }

  #seeLine(line: string): void {
    if (this.#state === "after") {
      if (line !== "") throw new BrokenRequest();
      this.#state = "size";
    } else if (this.#state === "trailers") {
      this.#trailers += line.length;
      if (this.#trailers > TRAILERS_MAX) throw new BrokenRequest();
      if (line === "") this.#state = "end";
    } else {
      const size = CHUNK_FORM.exec(line)?.[1];
      if (size === undefined) throw new BrokenRequest();
      this.#left = Number.parseInt(size, 16);
      this.#state = this.#left === 0 ? "trailers" : "data";
    }
  }
}

export const reasonOf = (status: number): string => STATUS_CODES[status] ?? "";

/** The head of a reply; throws if a value could end its line. */
export function headText(status: number, reason: string, list: readonly string[]): string {
  let text = `HTTP/1.1 ${status} ${reason}\r\n`;
  for (let i = 0; i < list.length; i += 2) {
    const value = list[i + 1] as string;
    if (NO_VALUE.test(value)) throw new Error(`the header ${list[i]} has an unfit value`);
    text += `${list[i]}: ${value}\r\n`;
  }
  return text;
}
