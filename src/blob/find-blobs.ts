import { afterPrefix } from "../base/bytes.ts";
import { element, escapeXml, XML_DECLARATION } from "../base/xml.ts";
import type { ReadTx } from "../engine/engine.ts";
import { type Operation, type Request, readOperation, theService } from "../http/operation.ts";
import { invalidQuery, StorageError } from "../rules/errors.ts";
import {
  type Comparison,
  meetsTags,
  parseTagSearch,
  type TagSearch,
} from "../rules/tag-expressions.ts";
import { pageSizeOf } from "../service/paging.ts";
import { blobs, containerIds, tagIndex } from "../store/keys.ts";
import type { BlobRecord } from "../store/records.ts";
import { nameXml } from "./list-blobs.ts";
import { theContainer, visible } from "./resource.ts";
import { tagsXml } from "./tags.ts";

const BATCH = 256;
const SCANNED_MAX = 20_000;

function inputOf(request: Request, mayNameContainer: boolean) {
  const text = request.query.get("where");
  if (text === undefined || text === "") {
    throw new StorageError("MissingRequiredQueryParameter", { QueryParameterName: "where" });
  }
  const search = parseTagSearch(text, mayNameContainer);
  if (search === undefined) throw invalidQuery("where", text);
  return { text, search, size: pageSizeOf(request), from: markerOf(request) };
}

/** Where the next page begins: a key of the account's index, as text. */
function markerOf({ query, account }: Request): Buffer | undefined {
  const text = query.get("marker");
  if (text === undefined || text === "") return undefined;
  const bytes = Buffer.from(text, "base64url");
  const index = tagIndex.packed([account]);
  if (!bytes.subarray(0, index.length).equals(index) || bytes.toString("base64url") !== text) {
    throw invalidQuery("marker", text);
  }
  return bytes;
}

/** The two rows: in an account, and in a container. */
export const findBlobsByTags: readonly Operation[] = [
  readOperation({
    name: "Find Blobs by Tags",
    match: { method: "GET", on: "service", comp: "blobs" },
    allow: { sas: "f", resource: "o" },
    guard: { on: theService, conditions: "none", lease: "own" },
    input: (request) => inputOf(request, true),
    apply: async ({ tx, request, input }) => reply(tx, request, input, input.search.container),
  }),
  readOperation({
    name: "Find Blobs by Tags in Container",
    match: { method: "GET", on: "container", restype: "container", comp: "blobs" },
    allow: { sas: "f", resource: "o" },
    guard: { on: theContainer, conditions: "none", lease: "free" },
    input: (request) => inputOf(request, false),
    apply: async ({ tx, request, place, input }) => reply(tx, request, input, place.name),
  }),
];

type Input = ReturnType<typeof inputOf>;

async function reply(tx: ReadTx, request: Request, input: Input, container: string | undefined) {
  const { found, next } = await search(tx, request.account, input, container);
  const items = found.map(
    ({ name, containerName, record }) =>
      `<Blob>${nameXml(name)}${element("ContainerName", containerName)}${tagsXml(matched(record, input.search))}</Blob>`,
  );
  const marker = next === undefined ? "" : next.toString("base64url");
  const body = `${XML_DECLARATION}<EnumerationResults ServiceEndpoint="${escapeXml(request.endpoint)}">${element("Where", input.text)}<Blobs>${items.join("")}</Blobs><NextMarker>${marker}</NextMarker></EnumerationResults>`;
  return { status: 200, headers: { "Content-Type": "application/xml" }, body };
}

/** The tags that the search names, which is what the answer shows of a blob's. */
const matched = ({ tags = {} }: BlobRecord, { comparisons }: TagSearch) =>
  Object.fromEntries(
    comparisons.flatMap(({ key }) => (tags[key] === undefined ? [] : [[key, tags[key]]])),
  );

type Found = { readonly name: string; readonly containerName: string; readonly record: BlobRecord };

/**
 * Walks the index of one tag, the one most narrowly asked for, and keeps the blobs that meet all the rest. What
 * the index leads to is read anew, so that nothing is shown that is gone or has other tags.
 */
async function search(
  tx: ReadTx,
  account: string,
  { search: { comparisons }, size, from }: Input,
  container: string | undefined,
): Promise<{ found: Found[]; next?: Buffer }> {
  const id = container === undefined ? undefined : await containerIds.get(tx, account, container);
  if (container !== undefined && id === undefined) return { found: [] };
  const range = rangeOf(account, comparisons, id);
  const all = { all: comparisons };
  const found: Found[] = [];
  let at = from === undefined || Buffer.compare(from, range.from) < 0 ? range.from : from;
  for (let scanned = 0; ; ) {
    const rows = await tagIndex.walk(tx, [account], { from: at, to: range.to, limit: BATCH });
    for (const { key, value } of rows) {
      const packed = tagIndex.packed(key);
      if (found.length === size || scanned++ === SCANNED_MAX) return { found, next: packed };
      const [, , , inContainer, name] = key;
      if (id !== undefined && inContainer !== id) continue;
      if ((await containerIds.get(tx, account, value.container)) !== inContainer) continue;
      const record = visible(await blobs.get(tx, inContainer, name), tx.now);
      if (record === undefined || !meetsTags(all, record.tags)) continue;
      found.push({ name, containerName: value.container, record });
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH) return { found };
    at = Buffer.concat([tagIndex.packed(last.key), Buffer.of(0)]);
  }
}

type KeyRange = { readonly from: Buffer; readonly to: Uint8Array };

/** The part of the index that holds all matches: by a tag's value if one is asked for exactly, else by its bounds. */
function rangeOf(
  account: string,
  comparisons: readonly Comparison[],
  container: bigint | undefined,
): KeyRange {
  const exact = comparisons.find(({ operator }) => operator === "=");
  if (exact !== undefined) {
    const prefix = [
      account,
      exact.key,
      exact.value,
      ...(container === undefined ? [] : [container]),
    ];
    const from = tagIndex.packed(prefix);
    return { from, to: afterPrefix(from) };
  }
  const key = comparisons[0]?.key ?? "";
  const whole = tagIndex.packed([account, key]);
  let from = whole;
  let to = afterPrefix(whole);
  for (const { key: other, operator, value } of comparisons) {
    if (other !== key) continue;
    const bound = tagIndex.packed([account, key, value]);
    if (operator === ">=" || operator === ">") from = later(from, bound);
    else to = Buffer.compare(afterPrefix(bound), to) < 0 ? afterPrefix(bound) : to;
  }
  return { from, to };
}

const later = (a: Buffer, b: Buffer): Buffer => (Buffer.compare(a, b) < 0 ? b : a);
