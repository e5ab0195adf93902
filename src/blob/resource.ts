import type { Tick } from "../base/time.ts";
import type { WriteTx } from "../engine/engine.ts";
import type { Target } from "../http/operation.ts";
import { refuse, StorageError } from "../rules/errors.ts";
import { blobLeaseCodes, containerLeaseCodes } from "../rules/lease.ts";
import { badBlobName, badContainerName } from "../rules/names.ts";
import { blobs, containerIds, containers, snapshots } from "../store/keys.ts";
import type { BlobRecord, ContainerRecord } from "../store/records.ts";

export type ContainerPlace = { readonly account: string; readonly name: string };

/** Where a blob is: its container's number and its own name, and the snapshot if one is meant. */
export type BlobPlace = {
  readonly container: bigint;
  readonly name: string;
  readonly snapshot: Tick | undefined;
};

export const theContainer: Target<ContainerPlace, ContainerRecord> = {
  check: ({ names: [name = ""] }) => refuse(badContainerName(name)),
  async find(tx, { account, names: [name = ""] }) {
    return { place: { account, name }, found: await containers.get(tx, account, name) };
  },
  missing: "ContainerNotFound",
  leaseCodes: containerLeaseCodes,
};

export const theBlob: Target<BlobPlace, BlobRecord> = {
  check({ names: [container = "", blob = ""] }) {
    refuse(badContainerName(container));
    refuse(badBlobName(blob, container));
  },
  async find(tx, request) {
    const {
      account,
      snapshot,
      names: [containerName = "", name = ""],
    } = request;
    const container = await containerIds.get(tx, account, containerName);
    if (container === undefined) throw new StorageError("ContainerNotFound");
    const place = { container, name, snapshot };
    // No account keeps versions yet, so none has the one that is asked for.
    if (request.query.has("versionid")) return { place, found: undefined };
    const found =
      snapshot === undefined
        ? await blobs.get(tx, container, name)
        : await snapshots.get(tx, container, name, snapshot);
    return { place, found };
  },
  missing: "BlobNotFound",
  leaseCodes: blobLeaseCodes,
};

/** Stores a blob's record, or that of a snapshot, in its place. */
export function putBlobRecord(tx: WriteTx, place: BlobPlace, record: BlobRecord): void {
  if (place.snapshot === undefined) blobs.put(tx, [place.container, place.name], record);
  else snapshots.put(tx, [place.container, place.name, place.snapshot], record);
}

export const putContainerRecord = (
  tx: WriteTx,
  { account, name }: ContainerPlace,
  record: ContainerRecord,
): void => containers.put(tx, [account, name], record);
