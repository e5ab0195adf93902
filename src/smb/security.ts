import type { ReadTx } from "../engine/engine.ts";
import { asSddl, permissionIn } from "../file/node.ts";
import { chosenParts, replacedParts } from "../rules/descriptor-parts.ts";
import { StorageError } from "../rules/errors.ts";
import { ROOT_PERMISSION } from "../rules/sddl.ts";
import { binaryOf, sddlOf } from "../rules/security-descriptor.ts";
import { SmbError } from "./status.ts";

/** The bytes of the descriptor that a key stands for. */
async function descriptorIn(tx: ReadTx, share: bigint, key: string): Promise<Buffer> {
  let sddl = ROOT_PERMISSION;
  try {
    sddl = asSddl(await permissionIn(tx, share, key));
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
  }
  const bytes = binaryOf(sddl);
  if (bytes === undefined) throw new SmbError("STATUS_INVALID_SECURITY_DESCR");
  return bytes;
}

/** Some parts of the descriptor that a key stands for. */
export async function descriptorParts(
  tx: ReadTx,
  share: bigint,
  key: string,
  parts: number,
): Promise<Buffer> {
  const bytes = chosenParts(await descriptorIn(tx, share, key), parts);
  if (bytes === undefined) throw new SmbError("STATUS_INVALID_SECURITY_DESCR");
  return bytes;
}

/** The descriptor that a key stands for with some parts given anew, as SDDL. */
export async function mergedSddl(
  tx: ReadTx,
  { share, key }: { readonly share: bigint; readonly key: string },
  given: Buffer,
  parts: number,
): Promise<string> {
  const merged = replacedParts(await descriptorIn(tx, share, key), given, parts);
  const sddl = merged === undefined ? undefined : sddlOf(merged);
  if (sddl === undefined) throw new SmbError("STATUS_INVALID_SECURITY_DESCR");
  return sddl;
}
