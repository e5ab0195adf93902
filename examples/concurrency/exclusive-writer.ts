import type { BlockBlobClient } from "@azure/storage-blob";
import { newContainer, pause, refused, type Scene } from "./scene.ts";

/** Waits until the lease on a blob has run out; a program would rather try to acquire it from time to time. */
async function expired(blob: BlockBlobClient): Promise<string | undefined> {
  for (;;) {
    const { leaseState } = await blob.getProperties();
    if (leaseState !== "leased") return leaseState;
    await pause(250);
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
  },
};
