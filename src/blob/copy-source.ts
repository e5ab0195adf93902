import { parseBase64 } from "../base/bytes.ts";
import { childText, parseXml, XmlError } from "../base/xml.ts";
import type { ReadTx } from "../engine/engine.ts";
import type { LocalSource, Received, Request, Surroundings } from "../http/operation.ts";
import { asOwner, parseAddress, parseRequest } from "../http/parse.ts";
import { isCovered, sourceUrlOf } from "../http/source.ts";
import { invalidHeader, StorageError } from "../rules/errors.ts";
import { checkedMetadata, type Metadata } from "../rules/metadata.ts";
import type { TagExpression } from "../rules/tag-expressions.ts";
import { checkedTags, type Tags } from "../rules/tags.ts";
import { sourceAskOf } from "../service/from-url.ts";
import type { HttpHeaders } from "../store/records.ts";
import { blobPlace } from "./place.ts";
import { theBlob } from "./resource.ts";

const MD5_SIZE = 16;

/** A source that is a blob of this server and that the caller may read; undefined if it is elsewhere. */
export async function ownSource(
  request: Request,
  url: URL,
  around: Surroundings,
): Promise<LocalSource | undefined> {
  const own = around.sources.local(url, request);
  if (own?.service !== "blob") return undefined;
  if (!isCovered(own, request)) {
    const ask = sourceAskOf(request, "HEAD", false);
    (await around.sources.open(ask, request)).close(); // refuses what the caller may not read
    await sourceTags(request, around); // the tags have a right of their own
  }
  return own;
}

const place = { name: "blob", operations: [], place: blobPlace } as const;

/** What a source of ours is, in this transaction. */
export async function foundSource(tx: ReadTx, { message }: LocalSource, around: Surroundings) {
  const ids = { id: "", clientId: undefined };
  const address = parseAddress(message, false);
  const request = asOwner(parseRequest(message, place, address, ids, undefined));
  theBlob.check?.(request);
  try {
    return await theBlob.find(tx, request, around);
  } catch (error) {
    if (error instanceof StorageError) return undefined;
    throw error;
  }
}

/** What a source elsewhere tells of itself; it may be any server, so it is checked as a request's headers are. */
export function facts({ header, metadata }: NonNullable<Received["source"]>) {
  const md5 = header("content-md5");
  const texts: Record<keyof HttpHeaders, string | undefined> = {
    contentType: header("content-type"),
    contentEncoding: header("content-encoding"),
    contentLanguage: header("content-language"),
    contentDisposition: header("content-disposition"),
    cacheControl: header("cache-control"),
    contentMd5: parseBase64(md5 ?? "")?.length === MD5_SIZE ? md5 : undefined,
  };
  const headers: HttpHeaders = Object.fromEntries(
    Object.entries(texts).filter(([, text]) => text !== undefined),
  );
  return { headers, metadata: metadataIn(metadata) };
}

function metadataIn(pairs: readonly (readonly [string, string])[]): Metadata {
  try {
    return checkedMetadata(pairs);
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    const Reason = "The source's metadata is not what a blob can have.";
    throw new StorageError("CannotVerifyCopySource", { Reason }, 409);
  }
}

/** Whether the source's tags are to be copied; then none may be sent. */
export function copiesTags(request: Request): boolean {
  const name = "x-ms-copy-source-tag-option";
  const option = request.header(name);
  if (option === undefined || option.toUpperCase() === "REPLACE") return false;
  if (option.toUpperCase() !== "COPY") throw invalidHeader(name, option);
  if (request.header("x-ms-tags") !== undefined) {
    throw new StorageError("BothUserTagsAndSourceTagsCopyPresent");
  }
  return true;
}

/** The tags of a source, where the request asks for them to be copied. */
export async function sourceTags(
  request: Request,
  around: Surroundings,
): Promise<Tags | undefined> {
  if (!copiesTags(request)) return undefined;
  const url = new URL(sourceUrlOf(request));
  url.searchParams.set("comp", "tags");
  // Conditions and keys are about the bytes, with which they are sent.
  const { authorization } = sourceAskOf(request, "GET", false).headers;
  const headers = authorization === undefined ? {} : { authorization };
  const source = await around.sources.open({ url, method: "GET", headers }, request);
  const parts: Uint8Array[] = [];
  try {
    let size = 0;
    for await (const part of source.stream()) {
      size += part.length;
      if (size > 64 * 1024) throw new StorageError("TagsTooLarge");
      parts.push(part);
    }
  } finally {
    source.close();
  }
  return tagsIn(Buffer.concat(parts));
}

/** The tags that a source told; one that is no blob tells something else. */
function tagsIn(bytes: Buffer): Tags {
  try {
    const [set] = parseXml(bytes).children;
    const pairs = (set?.children ?? []).map((tag): [string, string] => [
      childText(tag, "Key") ?? "",
      childText(tag, "Value") ?? "",
    ]);
    return checkedTags(pairs);
  } catch (error) {
    if (!(error instanceof XmlError || error instanceof StorageError)) throw error;
    const Reason = "The source does not tell its tags.";
    throw new StorageError("CannotVerifyCopySource", { Reason }, 409);
  }
}

type Conditional = { readonly ifTags: TagExpression | undefined };

/** Not every server knows of tags, and one that does not would ignore a condition on them. */
export function refuseTagCondition({ ifTags }: Conditional): void {
  if (ifTags === undefined) return;
  throw new StorageError("UnsupportedHeader", { HeaderName: "x-ms-source-if-tags" });
}
