/** A request inside a request: one part of a batch. */
export type Part = {
  readonly contentId: string | undefined;
  readonly method: string;
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
};

const REQUEST_LINE = /^([A-Z]{1,16}) (\S{1,8192}) HTTP\/1\.[01]$/;
const HEADER_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(.*?)[ \t]*$/;
const HEADERS_MAX = 100;

/** The parts of a multipart body that are HTTP requests without bodies; undefined if it is none. */
export function parseMultipart(body: Buffer, boundary: string): Part[] | undefined {
  const text = body.toString("latin1").replace(/\r?\n/g, "\n");
  const marker = `--${boundary}`;
  const pieces = `\n${text}`.split(`\n${marker}`);
  if (pieces.length < 2 || !pieces.at(-1)?.startsWith("--")) return undefined;
  const parts: Part[] = [];
  for (const piece of pieces.slice(1, -1)) {
    const part = partOf(piece);
    if (part === undefined) return undefined;
    parts.push(part);
  }
  return parts;
}

function partOf(piece: string): Part | undefined {
  const [head = "", inner = ""] = splitOnce(piece.replace(/^[ \t]*\n/, ""), "\n\n");
  const outer = headersOf(head.split("\n"));
  const [first = "", ...lines] = splitOnce(inner.replace(/^\n+/, ""), "\n\n")[0].split("\n");
  const request = REQUEST_LINE.exec(first.trim());
  const headers = headersOf(lines);
  if (outer === undefined || request === null || headers === undefined) return undefined;
  const kind = outer.find(([name]) => name.toLowerCase() === "content-type")?.[1];
  if (kind?.toLowerCase() !== "application/http") return undefined;
  const contentId = outer.find(([name]) => name.toLowerCase() === "content-id")?.[1];
  return { contentId, method: request[1] ?? "", url: request[2] ?? "", headers };
}

function headersOf(lines: readonly string[]): [string, string][] | undefined {
  const headers: [string, string][] = [];
  for (const line of lines) {
    if (line === "") continue;
    const match = HEADER_LINE.exec(line);
    if (match === null || headers.length === HEADERS_MAX) return undefined;
    headers.push([match[1] ?? "", match[2] ?? ""]);
  }
  return headers;
}

function splitOnce(text: string, by: string): [string, string] {
  const at = text.indexOf(by);
  return at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + by.length)];
}
