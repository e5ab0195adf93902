import { newContainer, refused, type Scene } from "./scene.ts";

/** A lease on a container keeps it from being deleted, and nothing else. */
export const containerLease: Scene = {
  title: "A container that must not go away",
  async play(tell) {
    const container = await newContainer("archive");
    const lease = container.getBlobLeaseClient();
    await lease.acquireLease(-1);
    tell("The archive is leased without end.");
    tell(`Somebody deletes it: ${await refused(container.delete())}.`);
    await container.uploadBlockBlob("2026.txt", "data", 4);
    await container.setMetadata({ owner: "ada" });
    tell("Blobs and metadata can be written as before, without the lease.");
    const wrong = { conditions: { leaseId: "00000000-0000-0000-0000-000000000000" } };
    tell(
      `Who names a lease must name the right one: ${await refused(container.setMetadata({}, wrong))}.`,
    );
    await container.delete({ conditions: { leaseId: lease.leaseId } });
    tell(`Its holder deletes it, naming the lease. It exists: ${await container.exists()}.`);
  },
};
