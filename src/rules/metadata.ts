import { StorageError } from "./errors.ts";

/** User metadata; names keep the case they were sent with. */
export type Metadata = Readonly<Record<string, string>>;

export const noMetadata: Metadata = {};

// A C# identifier: "Setting and Retrieving Properties and Metadata for Blob Resources".
const NAME = /^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}\p{Cf}]*$/u;
// Values are text of HTTP headers; the service refuses what is beyond ASCII, which would read otherwise in a list.
const VALUE = /^[\t\x20-\x7e]*$/;
const SIZE_MAX = 8 * 1024;

/** The metadata of a request, from its `x-ms-meta-` headers with that prefix taken off. */
export function checkedMetadata(pairs: readonly (readonly [string, string])[]): Metadata {
  if (pairs.length === 0) return noMetadata;
  const metadata: Record<string, string> = Object.create(null);
  const seen = new Set<string>();
  let size = 0;
  for (const [name, value] of pairs) {
    if (name === "") throw new StorageError("EmptyMetadataKey");
    if (!NAME.test(name) || !VALUE.test(value)) throw new StorageError("InvalidMetadata");
    const lower = name.toLowerCase();
    if (seen.has(lower)) throw new StorageError("InvalidMetadata");
    seen.add(lower);
    size += name.length + value.length;
    metadata[name] = value;
  }
  if (size > SIZE_MAX) throw new StorageError("MetadataTooLarge");
  return metadata;
}
