import { createHash, hash } from "node:crypto";
import { parseBase64 } from "../base/bytes.ts";
import { Crc64, crc64 } from "../base/crc64.ts";
import { parseXml, type XmlElement, XmlError } from "../base/xml.ts";
import { invalidHeader, StorageError } from "../rules/errors.ts";
import { type Contents, HEAP_CHUNK_MAX, nothingStaged } from "../store/content.ts";
import { sealing } from "../store/sealing.ts";
import { bodySize } from "./body.ts";
import type { BodyRule, Received, Request } from "./operation.ts";

/** What is received where there is no body. */
export const noBody: Received = {
  xml: undefined,
  bytes: Buffer.alloc(0),
  staged: nothingStaged,
  md5: undefined,
  crc64: undefined,
};

/** Takes in a request's body as its row says, and checks the sums that the request sent along. */
export async function receive(
  request: Request,
  rule: BodyRule | undefined,
  contents: Contents,
): Promise<Received> {
  if (rule === undefined) return noBody;
  const sums = sentSums(request, rule.kind === "bytes" ? rule.md5Headers : ["content-md5"]);
  if (rule.kind !== "bytes") {
    const size = bodySize(request.body, rule.sizeMax);
    const bytes = size === 0 ? Buffer.alloc(0) : await request.body.whole();
    const isNamed = rule.kind === "xml" && rule.crc64 === true;
    const wanted = { md5: sums.md5 !== undefined, crc64: isNamed || sums.crc64 !== undefined };
    const received = sumsOf(bytes, wanted, request.body.sums);
    compareSums(sums, received);
    if (rule.kind === "whole") return { ...noBody, ...received, bytes };
    if (bytes.length === 0 && rule.optional) return noBody;
    return { ...noBody, ...received, xml: readXml(bytes) };
  }
  const size = bodySize(request.body, rule.sizeMax(request.version));
  const wantsMd5 = rule.md5 === "always" || sums.md5 !== undefined;
  if (size <= HEAP_CHUNK_MAX) {
    const bytes = size === 0 ? Buffer.alloc(0) : await request.body.whole();
    const received = sumsOf(bytes, { md5: wantsMd5, crc64: true }, request.body.sums);
    compareSums(sums, received);
    const { seal, ...sealed } = sealing(request.customerKey?.key);
    const parts = [{ bytes: seal(bytes), ...sealed }];
    const staged = size === 0 ? nothingStaged : { size, parts };
    return { ...noBody, ...received, staged };
  }
  const { willSum } = request.body;
  const md5 = wantsMd5 && !willSum?.md5 ? createHash("md5") : undefined;
  const crc = willSum?.crc64 ? undefined : new Crc64();
  const see = (bytes: Uint8Array) => {
    md5?.update(bytes);
    crc?.update(bytes);
  };
  const key = request.customerKey?.key;
  const staged = await contents.stage(request.body.stream(), size, see, key);
  const made = await request.body.laterSums?.();
  const received = {
    md5: wantsMd5 ? (md5?.digest("base64") ?? made?.md5) : undefined,
    crc64: crc?.digest() ?? made?.crc64,
  };
  try {
    compareSums(sums, received);
  } catch (error) {
    contents.discard(staged);
    throw error;
  }
  return { ...noBody, ...received, staged };
}

/** Base64 MD5 and CRC-64 of bytes, as far as they were sent or computed. */
export type Sums = { readonly md5: string | undefined; readonly crc64: string | undefined };

const sumsOf = (
  bytes: Uint8Array,
  wanted: { readonly md5: boolean; readonly crc64: boolean },
  made: Sums | undefined,
): Sums => ({
  md5: wanted.md5 ? (made?.md5 ?? hash("md5", bytes, "base64")) : undefined,
  crc64: wanted.crc64 ? (made?.crc64 ?? crc64(bytes)) : undefined,
});

const MD5_SIZE = 16;
const CRC64_SIZE = 8;

function sentSums(request: Request, md5Headers: readonly string[]): Sums {
  const name = md5Headers.find((header) => request.header(header) !== undefined);
  const md5 = name === undefined ? undefined : request.header(name);
  const crc = request.header("x-ms-content-crc64");
  if (request.header("content-md5") !== undefined && crc !== undefined) {
    throw new StorageError("BothCrc64AndMd5HeaderPresent");
  }
  if (md5 !== undefined && parseBase64(md5)?.length !== MD5_SIZE)
    throw new StorageError("InvalidMd5");
  if (crc !== undefined && Buffer.from(crc, "base64").length < CRC64_SIZE) {
    throw invalidHeader("x-ms-content-crc64", crc);
  }
  return { md5, crc64: crc };
}

/** Refuses bytes whose sums are not those that were sent along. */
export function compareSums(sent: Sums, found: Sums): void {
  if (sent.md5 !== undefined && sent.md5 !== found.md5) {
    throw new StorageError("Md5Mismatch", {
      UserSpecifiedMd5: sent.md5,
      ServerCalculatedMd5: found.md5 ?? "",
    });
  }
  if (sent.crc64 !== undefined && sent.crc64 !== found.crc64) {
    throw new StorageError("Crc64Mismatch", {
      UserSpecifiedCrc64: sent.crc64,
      ServerCalculatedCrc64: found.crc64 ?? "",
    });
  }
}

/** A body as XML, or the refusal of one that is none. */
export function readXml(bytes: Uint8Array): XmlElement {
  try {
    return parseXml(bytes);
  } catch (error) {
    if (error instanceof XmlError) {
      throw new StorageError("InvalidXmlDocument", { Reason: error.message });
    }
    throw error;
  }
}
