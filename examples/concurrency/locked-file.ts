import type { ShareClient } from "@azure/storage-file-share";
import { SmbClient, status } from "../../test/acceptance/smb-client.ts";
import * as smb from "../../test/acceptance/smb-files.ts";
import { newShare, refused, type Scene } from "./scene.ts";

const PORT = Number(process.env.LAZULI_SMB_PORT ?? 10445);

/** A client as an operating system has one; this small one comes from the tests. */
async function mounted(share: ShareClient): Promise<SmbClient | undefined> {
  try {
    return await SmbClient.open({ port: PORT }, share.name);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ECONNREFUSED")
      return undefined;
    throw error;
  }
}

async function namesIn(share: ShareClient): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of share.rootDirectoryClient.listFilesAndDirectories()) {
    names.push(name);
  }
  return names;
}

/** The same file by SMB and by REST: each heeds what the other holds. */
export const lockedFile: Scene = {
  title: "A file, locked over SMB",
  async play(tell) {
    const share = await newShare("desk");
    const ada = await mounted(share);
    if (ada === undefined) {
      tell(`Nobody listens at the SMB port ${PORT}: this part is left out.`);
      return;
    }
    const file = share.rootDirectoryClient.getFileClient("budget.txt");
    await file.uploadData(Buffer.from("100"));
    const { access, share: sharing, disposition } = smb;
    const existing = { disposition: disposition.open };
    const readWrite = access.read | access.write;

    const locked = await smb.open(ada, "budget.txt", { ...existing, access: readWrite, share: 0 });
    tell("Ada opens the budget over SMB for writing, and shares nothing.");
    tell(`Ben reads it over REST: ${await refused(file.downloadToBuffer())}.`);
    tell(`Ben writes: ${await refused(file.uploadRange("999", 0, 3))}.`);
    tell(`Ben deletes it: ${await refused(file.delete())}.`);
    tell(`Ben may look at its size: ${(await file.getProperties()).contentLength}.`);
    let handles = 0;
    for await (const { path } of file.listHandles()) handles += path === "budget.txt" ? 1 : 0;
    tell(`And see that it is open: ${handles} handle.`);
    await smb.write(ada, locked, 0, Buffer.from("200"));
    await smb.close(ada, locked);
    tell(`Ada writes and closes it. Ben reads: ${await file.downloadToBuffer()}.`);

    const lease = file.getShareLeaseClient();
    await lease.acquireLease();
    const late = await smb.create(ada, "budget.txt", { ...existing, access: readWrite });
    tell(
      `Ben leases it over REST. Ada opens it for writing: ${late.status === status.sharingViolation ? "a sharing violation" : late.status}.`,
    );
    const shown = await smb.open(ada, "budget.txt", { ...existing, access: access.read });
    tell("Ada may open it for reading.");
    await smb.close(ada, shown);
    await lease.releaseLease();

    const kept = await smb.open(ada, "budget.txt", {
      ...existing,
      access: access.read,
      share: sharing.all,
    });
    const doomed = await smb.open(ada, "budget.txt", {
      ...existing,
      access: access.delete,
      share: sharing.all,
    });
    await smb.setDelete(ada, doomed, true);
    tell(
      `Ada deletes it, but has it open still. Ben reads: ${await refused(file.downloadToBuffer())}.`,
    );
    tell(`It is in no list: ${(await namesIn(share)).length === 0}.`);
    await smb.close(ada, doomed);
    await smb.close(ada, kept);
    tell(`When the last handle is closed it is gone: ${await refused(file.downloadToBuffer())}.`);
    await ada.end();
  },
};
