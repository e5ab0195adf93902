import type { ErrorCode } from "./errors.ts";

const SHARE = /^[a-z0-9](?:-?[a-z0-9])*$/;
const SHARE_MIN = 3;
const SHARE_MAX = 63;
const COMPONENT_MAX = 255;
const PATH_MAX = 2048;
const DEPTH_MAX = 250;

/** What is wrong with a share's name ("Naming and Referencing Shares, Directories, Files, and Metadata"). */
export function badShareName(name: string): ErrorCode | undefined {
  if (name.length < SHARE_MIN || name.length > SHARE_MAX) return "OutOfRangeInput";
  return SHARE.test(name) ? undefined : "InvalidResourceName";
}

// Control characters, what Windows keeps for itself, half a surrogate pair, and Unicode's non-characters.
const FORBIDDEN = /["\\/:|<>*?\u0000-\u001f]|\p{Surrogate}|\p{Noncharacter_Code_Point}/u;
const RESERVED = /^(?:LPT[1-9]|COM[1-9]|PRN|AUX|NUL|CON|CLOCK\$|\.|\.\.)$/i;

/** What is wrong with the name of one file or directory. */
export function badComponent(name: string): ErrorCode | undefined {
  if (name === "" || RESERVED.test(name) || FORBIDDEN.test(name)) return "InvalidResourceName";
  return name.length > COMPONENT_MAX ? "InvalidFileOrDirectoryPathName" : undefined;
}

/** What is wrong with the way from a share's root to a file or directory; none at all is the root. */
export function badPath(names: readonly string[]): ErrorCode | undefined {
  if (names.length > DEPTH_MAX) return "InvalidFileOrDirectoryPathName";
  let size = 0;
  for (const name of names) {
    const bad = badComponent(name);
    if (bad !== undefined) return bad;
    size += name.length + 1;
  }
  return size - 1 > PATH_MAX ? "InvalidFileOrDirectoryPathName" : undefined;
}

/** A name without the dots at its end, which Windows and so the service drop unless told otherwise. */
export const withoutTrailingDots = (name: string): string =>
  name.endsWith(".") ? name.replace(/\.+$/, "") : name;

const ASCII = /^[\u0020-\u007e]*$/;

/**
 * What two names have alike that differ in case only. As in NTFS each character has one upper case of its
 * own, so that no name becomes longer and the sharp s is not two letters.
 */
export function folded(name: string): string {
  if (ASCII.test(name)) return name.toUpperCase();
  let text = "";
  for (const char of name) {
    const upper = char.toUpperCase();
    text += upper.length === char.length && upper.toLowerCase() === char ? upper : char;
  }
  return text;
}
