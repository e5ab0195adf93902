import { badPath } from "../rules/file-names.ts";
import { SmbError } from "./status.ts";

/** The names on the way to a file, as a client writes it from the share's root; none at all is the root. */
export function pathOf(name: string): string[] {
  if (name === "") return [];
  if (name.startsWith("\\")) throw new SmbError("STATUS_INVALID_PARAMETER");
  // Samba takes a slash for a backslash, and so do its tests; no name can have either.
  const path: string[] = [];
  for (const part of name.split(/[\\/]/)) {
    if (part !== "..") path.push(part);
    else if (path.pop() === undefined) throw new SmbError("STATUS_OBJECT_PATH_SYNTAX_BAD");
  }
  if (badPath(path) !== undefined) throw new SmbError("STATUS_OBJECT_NAME_INVALID");
  return path;
}
