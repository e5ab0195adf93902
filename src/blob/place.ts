import type { Place } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";

/**
 * What a path names: nothing is the service; one part with `restype` a container, without it a blob of the
 * root container; more parts a blob. The names are the container's and the blob's. A backslash in a blob's name
 * means a slash: the service replaces it, and the SDK for JavaScript signs the name so replaced.
 */
export function blobPlace(segments: readonly string[], query: ReadonlyMap<string, string>): Place {
  const [first = "", ...rest] = segments;
  if (first === "" && rest.length === 0) return { level: "service", names: [] };
  if (rest.length > 0 && rest.join("") !== "") {
    return { level: "blob", names: [first, rest.join("/").replaceAll("\\", "/")] };
  }
  if (query.has("restype")) return { level: "container", names: [first] };
  if (rest.length > 0) throw new StorageError("InvalidUri"); // a slash after a root blob's name
  return { level: "blob", names: ["$root", first] };
}
