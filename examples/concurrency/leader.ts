import type { BlobLeaseClient, BlockBlobClient } from "@azure/storage-blob";
import { newContainer, refusalOf, refused, type Scene } from "./scene.ts";

/** Asks to lead; undefined if somebody else does. */
export async function elected(blob: BlockBlobClient): Promise<BlobLeaseClient | undefined> {
  const lease = blob.getBlobLeaseClient();
  try {
    await lease.acquireLease(15); // and renews it every 5 seconds or so; who cannot, leads no more
    return lease;
  } catch (error) {
    if (refusalOf(error) !== "409 LeaseAlreadyPresent") throw error;
    return undefined;
  }
}

async function election(blob: BlockBlobClient, count: number) {
  const leases = await Promise.all(Array.from({ length: count }, () => elected(blob)));
  return leases.filter((lease) => lease !== undefined);
}

/** Whoever holds the lease leads; all that the leader writes names it, so an old leader cannot. */
export const leader: Scene = {
  title: "The election of a leader",
  async play(tell) {
    const container = await newContainer("election");
    const blob = container.getBlockBlobClient("leader");
    await blob.upload("", 0);
    const decree = (text: string, { leaseId }: BlobLeaseClient) =>
      blob.upload(text, text.length, { conditions: { leaseId } });

    const [first, ...none] = await election(blob, 5);
    if (first === undefined) throw new Error("nobody was elected");
    tell(`Five candidates stand, all at once; elected: ${1 + none.length}.`);
    await decree("first", first);
    await first.renewLease();
    tell(
      `The leader rules and renews; the others ask again, elected: ${(await election(blob, 4)).length}.`,
    );
    await first.releaseLease();
    const [second] = await election(blob, 4);
    if (second === undefined) throw new Error("nobody was elected");
    tell(
      `The leader steps down: another leads at once. The old one's decree: ${await refused(decree("old", first))}.`,
    );
    await decree("second", second);
    await blob.getBlobLeaseClient().breakLease(0);
    tell(
      `The second does not answer any more, and its lease is broken. Its renewal: ${await refused(second.renewLease())}.`,
    );
    const [third] = await election(blob, 3);
    if (third === undefined) throw new Error("nobody was elected");
    await decree("third", third);
    tell(`A third leads: "${await blob.downloadToBuffer()}".`);
    await third.releaseLease();
  },
};
