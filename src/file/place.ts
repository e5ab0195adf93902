import type { Place } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";

const HANDLES = ["listhandles", "forceclosehandles"];

/**
 * What a path names: nothing is the service, one part a share, more a file, or a directory if `restype` says so.
 * The root directory has the share's path. Requests about handles do not say which of the two they mean, and
 * are taken as a file's. The names are the share's and those on the way to the file.
 */
export function filePlace(segments: readonly string[], query: ReadonlyMap<string, string>): Place {
  const [share = "", ...rest] = stepsOf(segments);
  if (share === "" && rest.length === 0) return { level: "service", names: [] };
  const restype = query.get("restype");
  const onHandles = HANDLES.includes(query.get("comp") ?? "");
  const isDirectory = restype === "directory";
  // A slash at the end of a directory's path means nothing.
  const path = rest.at(-1) === "" ? rest.slice(0, -1) : rest;
  if (path.length === 0 && !isDirectory && !onHandles) return { level: "share", names: [share] };
  if (path.length < rest.length && path.length > 0 && !isDirectory && !onHandles) {
    throw new StorageError("InvalidUri");
  }
  return { level: isDirectory ? "directory" : "file", names: [share, ...path] };
}

/** No name holds a slash, so one that was encoded parts names as well: the SDK for Python sends `a%2Fb`. */
export const stepsOf = (segments: readonly string[]): string[] =>
  segments.some((segment) => segment.includes("/"))
    ? segments.flatMap((segment) => segment.split("/"))
    : [...segments];
