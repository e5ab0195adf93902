import { CUSTOMER_KEY_HEADERS } from "../http/heeded.ts";
import { type HeaderValue, readOperation } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import { tierAt } from "../rules/tiers.ts";
import type { Opened } from "../store/content.ts";
import { blobHeaders } from "./blob-headers.ts";
import { refuseOtherKey } from "./customer-key.ts";
import { queryRequestOf } from "./query/format.ts";
import { queried } from "./query/stream.ts";
import { theBlob } from "./resource.ts";

/** The expression alone may take 256 KiB, and more with its characters escaped. */
const XML_SIZE_MAX = 1024 * 1024;

export const queryBlobContents = readOperation({
  name: "Query Blob Contents",
  match: { method: "POST", on: "blob", comp: "query" },
  allow: { sas: "r", resource: "o" },
  snapshots: true,
  versions: true,
  heeds: CUSTOMER_KEY_HEADERS,
  body: { kind: "xml", sizeMax: XML_SIZE_MAX },
  givesEtag: true,
  guard: { on: theBlob, conditions: "read", lease: "free" },
  input: (_request, { xml }) => queryRequestOf(xml),
  async apply({ tx, request, place, found, input: query, around: { contents, ids } }) {
    refuseOtherKey(found.customerKey, request);
    if (found.type !== "BlockBlob") throw new StorageError("InvalidBlobType");
    if (tierAt(found, tx.now).tier === "Archive") throw new StorageError("BlobArchived");
    const { size, headers: stored } = found;
    // The bytes are held from here on: what is queried is this version, whatever happens to the blob.
    const whole = { start: 0, count: size };
    const opened = await contents.open(tx, found.content, whole, request.customerKey?.key);
    const sync = Buffer.from(ids.guid().replaceAll("-", ""), "hex");
    const { now } = tx;
    const body: Opened = {
      stream: () => queried({ source: streamOf(opened), size, request: query, now, sync }),
      close: () => opened.close(),
    };
    const headers: Record<string, HeaderValue> = {
      ...blobHeaders(found, tx.now, place),
      "Content-Type": "avro/binary",
      "Content-Encoding": undefined,
      "x-ms-blob-content-md5": stored.contentMd5,
    };
    return { status: 200, headers, body };
  },
});

async function* streamOf(opened: Opened): AsyncGenerator<Uint8Array> {
  if (opened.bytes === undefined) yield* opened.stream();
  else yield* opened.bytes;
}
