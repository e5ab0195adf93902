import { tickText } from "../base/time.ts";
import { createOperation, type HeaderValue } from "../http/operation.ts";
import { noBody } from "../http/receive.ts";
import { sourceUrlOf, withoutSignature } from "../http/source.ts";
import { StorageError } from "../rules/errors.ts";
import { changedHeaders } from "../service/resource.ts";
import { snapshots } from "../store/keys.ts";
import type { BlobRecord, CopyState } from "../store/records.ts";
import { describedBlob, overwrite } from "./block-blob.ts";
import { foundSource, ownSource } from "./copy-source.ts";
import { past } from "./history.ts";
import { carried } from "./local-copy.ts";
import { theBlob } from "./resource.ts";

/** The source of an incremental copy, which is always the same blob, whatever snapshot and signature come with it. */
function blobOf(url: URL): string {
  const blob = new URL(url);
  blob.search = "";
  return blob.href;
}

/**
 * Copies a snapshot of a page blob into a blob that has nothing but such copies, and takes a snapshot of that.
 * The bytes are shared, so only what differs from the last one takes space ("Incremental Copy Blob").
 */
export const incrementalCopyBlob = createOperation({
  name: "Incremental Copy Blob",
  match: {
    method: "PUT",
    on: "blob",
    comp: "incrementalcopy",
    header: { name: "x-ms-copy-source" },
  },
  allow: { sas: "cw", resource: "o" },
  givesEtag: true,
  guard: { on: theBlob, conditions: "create", lease: "guarded" },
  input: (request) => ({ url: sourceUrlOf(request), blob: describedBlob(request) }),
  async prepare(request, { url }, around) {
    const own = await ownSource(request, url, around);
    if (own === undefined) throw new StorageError("InvalidSourceBlobUrl");
    return noBody;
  },
  async apply(call) {
    const { tx, request, place, found, input, around } = call;
    const own = around.sources.local(input.url, request);
    const from = own === undefined ? undefined : await foundSource(tx, own, around);
    const source = from?.found;
    if (from === undefined || source === undefined) {
      const Reason = "The source does not exist.";
      throw new StorageError("CannotVerifyCopySource", { Reason }, 404);
    }
    const { snapshot } = from.place;
    if (snapshot === undefined) throw new StorageError("IncrementalCopySourceMustBeSnapshot");
    if (source.type !== "PageBlob") throw new StorageError("InvalidSourceBlobType");
    const shown = blobOf(input.url);
    if (found !== undefined) refuseOtherSource(found, shown, snapshot);
    const taken = tx.tick();
    const copy: CopyState = {
      id: around.ids.guid(),
      source: withoutSignature(input.url),
      status: "success",
      done: source.size,
      total: source.size,
      completedAt: tx.now,
      incremental: {
        blob: shown,
        from: snapshot.toString(16),
        taken: taken.toString(16),
      },
    };
    const content = await around.contents.copied(tx, source.content);
    const record = await overwrite(call, found, {
      ...carried(source),
      ...input.blob,
      tier: undefined,
      metadata: source.metadata,
      content,
      copy,
    });
    const kept = await around.contents.copied(tx, record.content);
    const { version: _version, ...state } = past(record);
    snapshots.put(tx, [place.container, place.name, taken], { ...state, content: kept });
    const headers: Record<string, HeaderValue> = {
      ...changedHeaders(record),
      "x-ms-copy-id": copy.id,
      "x-ms-copy-status": copy.status,
      "x-ms-copy-destination-snapshot": tickText(taken),
    };
    return { status: 202, headers };
  },
});

/** Such a copy goes on only from the same blob, and only to a later snapshot of it. */
function refuseOtherSource({ copy }: BlobRecord, blob: string, snapshot: bigint): void {
  const before = copy?.incremental;
  if (before === undefined || before.blob !== blob) {
    throw new StorageError("IncrementalCopyBlobMismatch");
  }
  if (snapshot < BigInt(`0x${before.from}`)) {
    throw new StorageError("IncrementalCopyOfEarlierVersionSnapshotNotAllowed");
  }
}
