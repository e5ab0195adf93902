import type { Range } from "@azure/storage-blob";
import * as b from "./blobs.ts";
import { type RawReply, send } from "./raw.ts";
import type { TestServer } from "./server.ts";

type Headers = Readonly<Record<string, string>>;

export const PAGE = 512;

/** Put Blob of a page blob; the reply is for the caller to judge. */
export const tryPutPageBlob = (
  server: TestServer,
  path: string,
  size: number | string,
  headers: Headers = {},
): Promise<RawReply> =>
  send(server, {
    method: "PUT",
    path,
    headers: {
      "x-ms-blob-type": "PageBlob",
      "x-ms-blob-content-length": String(size),
      ...headers,
    },
  });

/** Put Blob of a page blob that must succeed. */
export async function putPageBlob(
  server: TestServer,
  path: string,
  size: number,
  headers: Headers = {},
): Promise<RawReply> {
  return b.assertReply(await tryPutPageBlob(server, path, size, headers), 201);
}

export const rangeText = (start: number, count: number): string =>
  `bytes=${start}-${start + count - 1}`;

/** Put Page (update) at an offset; the reply is for the caller to judge. */
export const tryPutPage = (
  server: TestServer,
  path: string,
  start: number,
  body: Buffer,
  headers: Headers = {},
): Promise<RawReply> =>
  b.putComp(server, path, "page", {
    headers: {
      "x-ms-page-write": "update",
      "x-ms-range": rangeText(start, body.length),
      ...headers,
    },
    body,
  });

export async function putPage(
  server: TestServer,
  path: string,
  start: number,
  body: Buffer,
  headers: Headers = {},
): Promise<RawReply> {
  return b.assertReply(await tryPutPage(server, path, start, body, headers), 201);
}

/** Put Page (clear); the reply is for the caller to judge. */
export const tryClearPage = (
  server: TestServer,
  path: string,
  start: number,
  count: number,
  headers: Headers = {},
): Promise<RawReply> =>
  b.putComp(server, path, "page", {
    headers: { "x-ms-page-write": "clear", "x-ms-range": rangeText(start, count), ...headers },
  });

export async function clearPage(
  server: TestServer,
  path: string,
  start: number,
  count: number,
): Promise<RawReply> {
  return b.assertReply(await tryClearPage(server, path, start, count), 201);
}

export type Listed = readonly [kind: "PageRange" | "ClearRange", start: number, end: number];

/** The ranges of a reply in its order, both ends inclusive. */
export const listed = (xml: string): Listed[] =>
  [...xml.matchAll(/<(PageRange|ClearRange)><Start>(\d+)<\/Start><End>(\d+)<\/End><\/\1>/g)].map(
    ([, kind, start, end]) => [kind as "PageRange", Number(start), Number(end)],
  );

/** Get Page Ranges; the reply is for the caller to judge. */
export const tryGetRanges = (
  server: TestServer,
  path: string,
  call: b.BlobCall = {},
): Promise<RawReply> =>
  b.getBlob(server, path, { ...call, query: { comp: "pagelist", ...call.query } });

export async function getRanges(
  server: TestServer,
  path: string,
  call: b.BlobCall = {},
): Promise<Listed[]> {
  return listed(b.assertReply(await tryGetRanges(server, path, call), 200).text);
}

/** Ranges as the SDK gives them: its counts are one less than the bytes, because it takes end from start. */
export const pairs = (ranges: readonly Range[] | undefined): (readonly [number, number])[] =>
  (ranges ?? []).map(({ offset, count }) => [offset, (count ?? 0) + 1]);
