import type { BlockBlobClient } from "@azure/storage-blob";
import { newContainer, pause, refusalOf, refused, type Scene } from "./scene.ts";

/** Waits until the lease on a blob has run out; a program would rather try to acquire it from time to time. */
async function expired(blob: BlockBlobClient): Promise<string | undefined> {
  for (;;) {
    const { leaseState } = await blob.getProperties();
    if (leaseState !== "leased") return leaseState;
    await pause(250);
  }
}

/**
 * Works under a lease that is renewed as long as the work takes: a third of its time is a good interval.
 * When a renewal is refused the lease is lost, and `lost` tells the work to stop.
 */
export async function underLease<T>(
  blob: BlockBlobClient,
  renewMs: number,
  work: (leaseId: string, lost: AbortSignal) => Promise<T>,
): Promise<T> {
  const lease = blob.getBlobLeaseClient();
  await lease.acquireLease(15);
  const loss = new AbortController();
  const renew = () => void lease.renewLease().catch((error: unknown) => loss.abort(error));
  const timer = setInterval(renew, renewMs);
  try {
    return await work(lease.leaseId, loss.signal);
  } finally {
    clearInterval(timer);
    if (!loss.signal.aborted) await lease.releaseLease(); // what is lost may be somebody else's now
  }
}

/** Pessimistic concurrency: one writes, and all others are kept from it until the lease ends. */
export const exclusiveWriter: Scene = {
  title: "A report with one writer",
  async play(tell) {
    const container = await newContainer("report");
    const blob = container.getBlockBlobClient("2026.txt");
    const write = (text: string, leaseId?: string) =>
      blob.upload(text, text.length, leaseId === undefined ? {} : { conditions: { leaseId } });
    await write("empty");

    const ada = blob.getBlobLeaseClient();
    const { etag } = await ada.acquireLease(15);
    tell("Ada leases the report for 15 seconds.");
    await write("by Ada", ada.leaseId);
    tell("Ada writes, naming her lease.");
    tell(`Ben writes without one: ${await refused(write("by Ben"))}.`);
    const ben = blob.getBlobLeaseClient();
    tell(`Ben asks for a lease: ${await refused(ben.acquireLease(15))}.`);
    tell(`Ben deletes it: ${await refused(blob.delete())}.`);
    tell(`Anyone may read it: "${await blob.downloadToBuffer()}".`);
    const { etag: renewed } = await ada.renewLease();
    const { etag: now } = await blob.getProperties();
    tell(
      `Ada renews: the 15 seconds begin anew; no lease changes the ETag: ${renewed === now && etag !== now}.`,
    );

    tell(`Ada's machine stops. The lease runs out by itself: ${await expired(blob)}.`);
    tell(`Ada wakes up and writes, naming it: ${await refused(write("late", ada.leaseId))}.`);
    await ben.acquireLease(60);
    await write("by Ben", ben.leaseId);
    tell("Ben leases it and writes.");
    tell(`Ada writes, naming her old lease: ${await refused(write("later", ada.leaseId))}.`);
    tell(`Ada renews it: ${await refused(ada.renewLease())}.`);
    await ben.releaseLease();
    tell(`Ben releases his. The report: "${await blob.downloadToBuffer()}".`);

    const told = await underLease(blob, 100, async (leaseId, lost) => {
      await write("by Cleo", leaseId);
      tell("Cleo's program leases it, writes, and renews the lease as long as it works.");
      await blob.getBlobLeaseClient().breakLease(0);
      while (!lost.aborted) await pause(50);
      return refusalOf(lost.reason);
    });
    tell(`Somebody breaks it; the next renewal tells the program to stop: ${told}.`);
  },
};
