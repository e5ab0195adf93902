import { httpDate, instantOf } from "../base/time.ts";
import { element } from "../base/xml.ts";
import type { WriteTx } from "../engine/engine.ts";
import type { HeaderValue, Request } from "../http/operation.ts";
import { checkedMetadata, type Metadata } from "../rules/metadata.ts";
import type { Changed } from "../store/records.ts";

/** A new ETag and time of change, from one tick. */
export function changedNow(tx: WriteTx): Changed {
  const tick = tx.tick();
  return { etag: `0x${tick.toString(16).toUpperCase()}`, modifiedAt: instantOf(tick) };
}

export const changedHeaders = ({ etag, modifiedAt }: Changed): Record<string, HeaderValue> => ({
  ETag: `"${etag}"`,
  "Last-Modified": httpDate(modifiedAt),
});

/** `x-ms-meta-` headers of a reply. */
export function metadataHeaders(
  metadata: Readonly<Record<string, string>>,
): Record<string, HeaderValue> {
  const headers: Record<string, HeaderValue> = {};
  for (const name in metadata) headers[`x-ms-meta-${name}`] = metadata[name];
  return headers;
}

/** A whole number from a header or parameter; undefined if it is none. */
export function parseInteger(text: string): number | undefined {
  return /^-?\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** What the `x-ms-meta-` headers of a request say. */
export const metadataOf = (request: Request): Metadata =>
  checkedMetadata(request.headersFrom("x-ms-meta-"));

export function metadataXml(metadata: Metadata): string {
  let text = "";
  for (const name in metadata) text += element(name, metadata[name]);
  return `<Metadata>${text}</Metadata>`;
}
