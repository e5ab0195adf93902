import * as b from "./blobs.ts";
import { send } from "./raw.ts";
import type { TestServer } from "./server.ts";

type Fields = Readonly<Record<string, string>>;

/** One item of List Blobs. */
export type Shown = {
  readonly name: string;
  readonly isPrefix: boolean;
  readonly isDeleted: boolean;
  readonly isCurrent: boolean;
  readonly hasVersionsOnly: boolean;
  readonly snapshot: string | undefined;
  readonly version: string | undefined;
  readonly xml: string;
};

const textIn = (xml: string, name: string) => {
  const text = b.texts(xml, name)[0];
  return text === "" ? undefined : text;
};

/** The items of a page, in its order. */
export const shownIn = (text: string): Shown[] =>
  [...text.matchAll(/<(Blob|BlobPrefix)>(.*?)<\/\1>/gs)].map(([, kind, xml = ""]) => ({
    name: textIn(xml, "Name") ?? "",
    isPrefix: kind === "BlobPrefix",
    isDeleted: textIn(xml, "Deleted") === "true",
    isCurrent: textIn(xml, "IsCurrentVersion") === "true",
    hasVersionsOnly: textIn(xml, "HasVersionsOnly") === "true",
    snapshot: textIn(xml, "Snapshot"),
    version: textIn(xml, "VersionId"),
    xml,
  }));

/** What List Blobs shows; `query` holds whatever it is asked beside `include`. */
export async function shown(
  server: TestServer,
  container: string,
  include = "",
  query: Fields = {},
): Promise<Shown[]> {
  const all = { restype: "container", comp: "list", ...(include && { include }), ...query };
  const reply = await b.getBlob(server, `/${container}`, { query: all });
  return shownIn(b.assertReply(reply, 200).text);
}

/** The same in words: "name", and of "prefix", "deleted", "snapshot", "version", "current", "only" what it is. */
export const wordsOf = (items: readonly Shown[]): string[] =>
  items.map((item) =>
    [
      item.name,
      ...(item.isPrefix ? ["prefix"] : []),
      ...(item.isDeleted ? ["deleted"] : []),
      ...(item.snapshot === undefined ? [] : ["snapshot"]),
      ...(item.version === undefined ? [] : ["version"]),
      ...(item.isCurrent ? ["current"] : []),
      ...(item.hasVersionsOnly ? ["only"] : []),
    ].join(" "),
  );

/** Every page to the end, in one list. */
export async function shownInPages(
  server: TestServer,
  container: string,
  include: string,
  query: Fields & { readonly maxresults: string },
): Promise<Shown[]> {
  const items: Shown[] = [];
  let marker: string | undefined;
  for (let pages = 0; pages < 1_000; pages++) {
    const all = {
      ...{ restype: "container", comp: "list", ...(include && { include }), ...query },
      ...(marker === undefined ? {} : { marker }),
    };
    const { text } = b.assertReply(await b.getBlob(server, `/${container}`, { query: all }), 200);
    const page = shownIn(text);
    if (page.length > Number(query.maxresults)) throw new Error("a page is longer than asked for");
    items.push(...page);
    marker = b.texts(text, "NextMarker")[0] ?? "";
    if (marker === "") return items;
  }
  throw new Error("the pages do not end");
}

/** Switches soft delete of blobs on for this many days, or off. */
export async function keepDeleted(
  server: TestServer,
  days: number | undefined,
  allowPermanentDelete?: boolean,
): Promise<void> {
  const allow =
    allowPermanentDelete === undefined
      ? ""
      : `<AllowPermanentDelete>${allowPermanentDelete}</AllowPermanentDelete>`;
  const policy =
    days === undefined
      ? "<Enabled>false</Enabled>"
      : `<Enabled>true</Enabled><Days>${days}</Days>${allow}`;
  const body = `<?xml version="1.0" encoding="utf-8"?><StorageServiceProperties><DeleteRetentionPolicy>${policy}</DeleteRetentionPolicy></StorageServiceProperties>`;
  const query = { restype: "service", comp: "properties" };
  b.assertReply(await send(server, { method: "PUT", path: "/", query, body }), 202);
}

export const undelete = async (server: TestServer, path: string) =>
  b.assertReply(await b.putComp(server, path, "undelete"), 200);
