import type { ReadTx } from "../engine/engine.ts";
import { asSddl, permissionIn } from "../file/node.ts";
import {
  chosenParts,
  DACL,
  GROUP,
  OWNER,
  partsIn,
  replacedParts,
} from "../rules/descriptor-parts.ts";
import { StorageError } from "../rules/errors.ts";
import { inheritedPermission, ROOT_PERMISSION } from "../rules/sddl.ts";
import { binaryOf, sddlOf } from "../rules/security-descriptor.ts";
import type { NodeKind } from "../rules/smb-properties.ts";
import { SmbError } from "./status.ts";

/** The descriptor that a key stands for. */
async function sddlIn(tx: ReadTx, share: bigint, key: string): Promise<string> {
  try {
    return asSddl(await permissionIn(tx, share, key));
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return ROOT_PERMISSION;
  }
}

function bytesOf(sddl: string): Buffer {
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
  const bytes = chosenParts(bytesOf(await sddlIn(tx, share, key)), parts);
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
  return replaced(await sddlIn(tx, share, key), given, parts);
}

/** What something new is given, as SDDL; what it is not given is what the directory passes on, whose key this is. */
export async function givenSddl(
  tx: ReadTx,
  { share, key, kind }: { readonly share: bigint; readonly key: string; readonly kind: NodeKind },
  given: Buffer,
): Promise<string> {
  const above = inheritedPermission(await sddlIn(tx, share, key), kind);
  return replaced(above, given, partsIn(given) & (OWNER | GROUP | DACL));
}

function replaced(before: string, given: Buffer, parts: number): string {
  const merged = replacedParts(bytesOf(before), given, parts);
  const sddl = merged === undefined ? undefined : sddlOf(merged);
  if (sddl === undefined) throw new SmbError("STATUS_INVALID_SECURITY_DESCR");
  return sddl;
}
