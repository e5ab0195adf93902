import { StorageError } from "./errors.ts";

/** Index tags of a blob; names are case-sensitive. */
export type Tags = Readonly<Record<string, string>>;

const COUNT_MAX = 10;
const KEY_MAX = 128;
const VALUE_MAX = 256;
const HEADER_MAX = 2 * 1024;
const ALLOWED = /^[a-zA-Z0-9 +\-./:=_]*$/;

/** Tags that keep Set Blob Tags' rules: at most ten, of few kinds of characters, each name once. */
export function checkedTags(pairs: readonly (readonly [string, string])[]): Tags {
  if (pairs.length > COUNT_MAX) throw new StorageError("TagsTooLarge");
  const tags: Record<string, string> = Object.create(null);
  for (const [key, value] of pairs) {
    if (key === "") throw new StorageError("EmptyTagName");
    if (key.length > KEY_MAX || value.length > VALUE_MAX) throw new StorageError("TagsTooLarge");
    if (!ALLOWED.test(key) || !ALLOWED.test(value)) throw new StorageError("InvalidTag");
    if (key in tags) throw new StorageError("DuplicateTagNames");
    tags[key] = value;
  }
  return tags;
}

/** The tags of an `x-ms-tags` header, which is written as a query string. */
export function parseTagHeader(text: string | undefined): Tags | undefined {
  if (text === undefined || text === "") return undefined;
  if (text.length > HEADER_MAX) throw new StorageError("TagsTooLarge");
  const pairs = text.split("&").map((pair): [string, string] => {
    const [key = "", ...value] = pair.split("=");
    return [decoded(key), decoded(value.join("="))];
  });
  return checkedTags(pairs);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw new StorageError("InvalidTag");
  }
}
