import { createHash } from "node:crypto";
import { parseBase64 } from "../base/bytes.ts";
import { Crc64 } from "../base/crc64.ts";
import {
  CUSTOMER_KEY_HEADERS,
  SOURCE_CONDITION_HEADERS,
  SOURCE_SUM_HEADERS,
} from "../http/heeded.ts";
import type { OpenSource, Received, Request, SourceAsk, Surroundings } from "../http/operation.ts";
import { compareSums, noBody, type Sums } from "../http/receive.ts";
import { sourceUrlOf } from "../http/source.ts";
import { invalidHeader, StorageError } from "../rules/errors.ts";

/** Headers that the rows which read from a URL heed. */
export const FROM_URL_HEADERS: readonly string[] = [
  "x-ms-copy-source",
  "x-ms-source-encryption-key",
  ...CUSTOMER_KEY_HEADERS,
  ...SOURCE_CONDITION_HEADERS,
  ...SOURCE_SUM_HEADERS,
];

const CONDITIONS = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];

/** What a request asks of its source: conditions, the right to read it, a range if `withRange`. */
export function sourceAskOf(
  request: Request,
  method: "GET" | "HEAD",
  withRange: boolean,
): SourceAsk {
  const headers: Record<string, string> = {};
  for (const name of CONDITIONS) {
    const value = request.header(`x-ms-source-${name}`);
    if (value !== undefined) headers[name] = value;
  }
  const tags = request.header("x-ms-source-if-tags");
  if (tags !== undefined) headers["x-ms-if-tags"] = tags;
  const authorization = request.header("x-ms-copy-source-authorization");
  if (authorization !== undefined) {
    if (!/^Bearer \S+$/i.test(authorization)) {
      throw invalidHeader("x-ms-copy-source-authorization", "");
    }
    headers.authorization = authorization;
  }
  for (const name of ["key", "key-sha256", "algorithm"]) {
    const value = request.header(`x-ms-source-encryption-${name}`);
    if (value !== undefined) headers[`x-ms-encryption-${name}`] = value;
  }
  const intent = request.header("x-ms-file-request-intent");
  if (intent !== undefined) headers["x-ms-file-request-intent"] = intent;
  const dots = request.header("x-ms-source-allow-trailing-dot");
  if (dots !== undefined) headers["x-ms-allow-trailing-dot"] = dots;
  const range = withRange ? request.header("x-ms-source-range") : undefined;
  if (range !== undefined) {
    if (!/^bytes=\d+-\d*$/.test(range)) throw invalidHeader("x-ms-source-range", range);
    headers["x-ms-range"] = range;
    headers.range = range;
  }
  return { url: sourceUrlOf(request), method, headers };
}

/** How much a source may send, and whether the request may ask for a part of it. */
type Wanted = {
  readonly sizeMin?: number;
  readonly sizeMax: number;
  readonly withRange: boolean;
};

/** Fetches a source's bytes before the transaction that names them, and checks the sums that were sent along. */
export async function fetchSource(
  request: Request,
  { contents, sources }: Pick<Surroundings, "contents" | "sources">,
  { sizeMin = 0, sizeMax, withRange }: Wanted,
): Promise<Received> {
  if (request.body.size !== 0) {
    throw invalidHeader("Content-Length", String(request.body.size ?? ""));
  }
  const ask = sourceAskOf(request, "GET", withRange);
  const sums = sentSums(request);
  const source = await sources.open(ask, request);
  try {
    const size = sizeOf(source);
    if (size < sizeMin || size > sizeMax) {
      const Reason = `The source is too ${size < sizeMin ? "small" : "large"}.`;
      throw new StorageError("CannotVerifyCopySource", { Reason }, 409);
    }
    const md5 = createHash("md5");
    const crc = new Crc64();
    const see = (bytes: Uint8Array) => {
      md5.update(bytes);
      crc.update(bytes);
    };
    const staged = await contents.stage(source.stream(), size, see, request.customerKey?.key);
    const received = { md5: md5.digest("base64"), crc64: crc.digest() };
    try {
      for (const each of sums) compareSums(each, received);
    } catch (error) {
      contents.discard(staged);
      throw error;
    }
    return { ...noBody, ...received, staged, source };
  } finally {
    source.close();
  }
}

/** The size of what a source sends; one that does not tell it cannot be copied. */
export function sizeOf(source: Pick<OpenSource, "header">): number {
  const text = source.header("content-length");
  if (text === undefined || !/^\d{1,15}$/.test(text)) {
    const Reason = "The source does not tell its length.";
    throw new StorageError("CannotVerifyCopySource", { Reason }, 409);
  }
  return Number(text);
}

/** The sums that a request names of its source; it has no body, so Content-MD5 can be of nothing else either. */
function sentSums(request: Request): Sums[] {
  const md5 = request.header("x-ms-source-content-md5");
  const plain = request.header("content-md5");
  const crc64 = request.header("x-ms-source-content-crc64");
  if (md5 !== undefined && crc64 !== undefined) {
    throw new StorageError("BothCrc64AndMd5HeaderPresent");
  }
  for (const sum of [md5, plain]) {
    if (sum !== undefined && parseBase64(sum)?.length !== 16) throw new StorageError("InvalidMd5");
  }
  if (crc64 !== undefined && parseBase64(crc64)?.length !== 8) {
    throw invalidHeader("x-ms-source-content-crc64", crc64);
  }
  return [
    { md5, crc64 },
    { md5: plain, crc64: undefined },
  ];
}
