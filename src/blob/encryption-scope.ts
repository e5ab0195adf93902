import type { WriteTx } from "../engine/engine.ts";
import { StorageError } from "../rules/errors.ts";
import { containers } from "../store/keys.ts";
import type { BlobPlace } from "./resource.ts";

// Differs from Azure: a blob shows the encryption scope that it was written with, not the default one of its container.
/** Refuses a scope that a request names where the container has one of its own and allows no other. */
export async function refuseOtherScope(
  tx: WriteTx,
  { account, containerName }: BlobPlace,
  scope: string | undefined,
): Promise<void> {
  if (scope === undefined) return;
  const container = await containers.get(tx, account, containerName);
  if (container?.denyScopeOverride && container.encryptionScope !== scope) {
    throw new StorageError("RequestForbiddenByContainerEncryptionPolicy");
  }
}
