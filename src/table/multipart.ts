/** A part of a multipart body: its headers, names in lower case, and what follows them. */
export type MimePart = { readonly headers: ReadonlyMap<string, string>; readonly body: string };

/** What is wrong with a multipart body. */
export class MultipartError extends Error {}

const BOUNDARY =
  /^multipart\/mixed\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))\s*(?:;.*)?$/i;

/** The boundary that a Content-Type names; undefined if it is not multipart/mixed. */
export function boundaryOf(type: string | undefined): string | undefined {
  const match = BOUNDARY.exec(type ?? "");
  return match?.[1] ?? match?.[2];
}

/**
 * The parts between boundaries (RFC 2046), the first `countMax` of them. Line ends may be bare; what stands before
 * the first boundary and behind the last is left aside.
 */
export function partsOf(text: string, boundary: string, countMax: number): string[] {
  const mark = `--${boundary}`;
  const parts: string[] = [];
  let start: number | undefined;
  let at = 0;
  for (;;) {
    const found = nextMark(text, mark, at);
    if (found === -1) throw new MultipartError("the last boundary is missing");
    if (start !== undefined) {
      parts.push(text.slice(start, Math.max(start, endBefore(text, found))));
      if (parts.length === countMax) return parts;
    }
    at = found + mark.length;
    if (text.startsWith("--", at)) return parts;
    const lineEnd = text.indexOf("\n", at);
    if (lineEnd === -1 || text.slice(at, lineEnd).trim() !== "") {
      throw new MultipartError("a boundary's line holds more than it");
    }
    start = lineEnd + 1;
    at = start;
  }
}

/** Where the next boundary begins; it counts only at the beginning of a line. */
function nextMark(text: string, mark: string, from: number): number {
  for (let at = from; ; ) {
    const found = text.indexOf(mark, at);
    if (found <= 0 || text[found - 1] === "\n") {
      const after = text[found + mark.length];
      if (found === -1 || after === undefined || /[\r\n\t -]/.test(after)) return found;
    }
    at = found + 1;
  }
}

/** The line end before a boundary belongs to the boundary. */
function endBefore(text: string, mark: number): number {
  const end = text[mark - 1] === "\n" ? mark - 1 : mark;
  return text[end - 1] === "\r" ? end - 1 : end;
}

const HEADERS_MAX = 64;
const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*)$/;

/** Headers up to an empty line, and the rest. */
export function partOf(text: string): MimePart {
  const headers = new Map<string, string>();
  let at = 0;
  for (;;) {
    const lineEnd = text.indexOf("\n", at);
    const line = (lineEnd === -1 ? text.slice(at) : text.slice(at, lineEnd)).trimEnd();
    at = lineEnd === -1 ? text.length : lineEnd + 1;
    if (line === "") return { headers, body: text.slice(at) };
    const [, name, value] = HEADER.exec(line) ?? [];
    if (name === undefined || value === undefined) throw new MultipartError("a header is none");
    if (headers.size >= HEADERS_MAX) throw new MultipartError("there are too many headers");
    const lower = name.toLowerCase();
    const before = headers.get(lower);
    headers.set(lower, before === undefined ? value : `${before},${value}`);
  }
}
