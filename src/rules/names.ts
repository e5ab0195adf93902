import type { ErrorCode } from "./errors.ts";

const CONTAINER = /^[a-z0-9](?:-?[a-z0-9])*$/;
const SPECIAL_CONTAINERS: ReadonlySet<string> = new Set([
  "$root",
  "$web",
  "$logs",
  "$blobchangefeed",
]);
const NAME_MIN = 3;
const NAME_MAX = 63;
const BLOB_NAME_MAX = 1024;
const PATH_SEGMENTS_MAX = 254;

/** What is wrong with a container's name ("Naming and Referencing Containers, Blobs, and Metadata"). */
export function badContainerName(name: string): ErrorCode | undefined {
  if (SPECIAL_CONTAINERS.has(name)) return undefined;
  if (name.length < NAME_MIN || name.length > NAME_MAX) return "OutOfRangeInput";
  return CONTAINER.test(name) ? undefined : "InvalidResourceName";
}

/** What is wrong with a queue's name ("Naming Queues and Metadata"). */
export function badQueueName(name: string): ErrorCode | undefined {
  if (name.length < NAME_MIN || name.length > NAME_MAX) return "OutOfRangeInput";
  return CONTAINER.test(name) ? undefined : "InvalidResourceName";
}

// C0 and C1 controls, and half a surrogate pair, which UTF-8 cannot carry.
const FORBIDDEN_IN_BLOB = /[\u0000-\u001f\u007f-\u009f]|\p{Surrogate}/u;

// Differs from Azure: characters for private use (U+E000 and the like) are taken in blob names.
/** What is wrong with a blob's name; any text of 1 to 1,024 characters will do but for control characters. */
export function badBlobName(name: string, container: string): ErrorCode | undefined {
  if (name.length === 0 || name.length > BLOB_NAME_MAX) return "OutOfRangeInput";
  if (FORBIDDEN_IN_BLOB.test(name)) return "InvalidResourceName";
  if (container === "$root" && name.includes("/")) return "InvalidResourceName";
  let segments = 1;
  for (let at = name.indexOf("/"); at !== -1; at = name.indexOf("/", at + 1)) segments++;
  return segments > PATH_SEGMENTS_MAX ? "InvalidResourceName" : undefined;
}

const GUID_FORMS = [
  /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
  /^\{[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}$/i,
  /^\([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\)$/i,
  /^[0-9a-f]{32}$/i,
  /^\{0x[0-9a-f]{8},0x[0-9a-f]{4},0x[0-9a-f]{4},\{(?:0x[0-9a-f]{2},){7}0x[0-9a-f]{2}\}\}$/i,
];

/** A GUID in any form .NET writes (D, N, B, P, X), as lower case with dashes; undefined if it is none. */
export function parseGuid(text: string): string | undefined {
  if (!GUID_FORMS.some((form) => form.test(text))) return undefined;
  const hex = text.replace(/0x|[^0-9a-f]/gi, "").toLowerCase();
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const ACCOUNT = /^[a-z0-9]{3,24}$/;

export const isAccountName = (name: string): boolean => ACCOUNT.test(name);
