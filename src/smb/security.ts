import type { ReadTx } from "../engine/engine.ts";
import { permissionIn } from "../file/permission.ts";
import { StorageError } from "../rules/errors.ts";
import { ROOT_PERMISSION } from "../rules/sddl.ts";
import { parseSddl, type SecurityDescriptor, sddlOf } from "../rules/security-descriptor.ts";
import { SmbError } from "./status.ts";

/** The descriptor that a key stands for. */
export async function descriptorIn(
  tx: ReadTx,
  share: bigint,
  key: string,
): Promise<SecurityDescriptor> {
  let sddl = ROOT_PERMISSION;
  try {
    sddl = await permissionIn(tx, share, key);
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
  }
  const parsed = parseSddl(sddl);
  if (parsed === undefined) throw new SmbError("STATUS_INVALID_SECURITY_DESCR");
  return parsed;
}

/** A descriptor some parts of which are given anew, as SDDL. */
export async function mergedSddl(
  tx: ReadTx,
  share: bigint,
  key: string,
  given: Partial<SecurityDescriptor>,
): Promise<string> {
  return sddlOf({ ...(await descriptorIn(tx, share, key)), ...given });
}
