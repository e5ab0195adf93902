import type { CustomerKey, HeaderValue } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";

/** Refuses a request whose key is not the one that the content is encrypted with. */
export function refuseOtherKey(
  used: string | undefined,
  { customerKey: given }: { readonly customerKey: CustomerKey | undefined },
): void {
  if (used === given?.sha256) return;
  if (given === undefined) throw new StorageError("BlobUsesCustomerSpecifiedEncryption");
  if (used === undefined) throw new StorageError("BlobDoesNotUseCustomerSpecifiedEncryption");
  throw new StorageError("BlobCustomerSpecifiedEncryptionMismatch");
}

/** What a new record or block notes of the key it is encrypted with. */
export const keyNoted = ({ customerKey }: { readonly customerKey: CustomerKey | undefined }) =>
  customerKey === undefined ? {} : { customerKey: customerKey.sha256 };

/** How a write tells what it did with its bytes. */
export const encryptedHeaders = (state: {
  readonly encryptionScope?: string | undefined;
  readonly customerKey?: string | undefined;
}): Record<string, HeaderValue> => ({
  "x-ms-request-server-encrypted": true,
  "x-ms-encryption-key-sha256": state.customerKey,
  "x-ms-encryption-scope": state.encryptionScope,
});
