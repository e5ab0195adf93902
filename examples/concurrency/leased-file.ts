import { newShare, refused, type Scene } from "./scene.ts";

/** Files over REST: no conditions; the last writer wins, unless the file is leased. */
export const leasedFile: Scene = {
  title: "A file over REST",
  async play(tell) {
    const share = await newShare("plans");
    const file = share.rootDirectoryClient.getFileClient("plan.txt");
    await file.uploadData(Buffer.from("0000"));
    await Promise.all(["1111", "2222"].map((text) => file.uploadRange(text, 0, 4)));
    const whole = ["1111", "2222"].includes(String(await file.downloadToBuffer()));
    tell(`Two write at once, and the last one wins. It is one of them, not a mixture: ${whole}.`);
    const lease = file.getShareLeaseClient();
    await lease.acquireLease();
    tell(`Ada leases it. Ben writes: ${await refused(file.uploadRange("3333", 0, 4))}.`);
    tell(`Ben deletes it: ${await refused(file.delete())}.`);
    const leaseId = lease.leaseId;
    await file.uploadRange("4444", 0, 4, { leaseAccessConditions: { leaseId } });
    await lease.releaseLease();
    tell(`Ada writes, naming her lease, and releases it: ${await file.downloadToBuffer()}.`);
  },
};
