import { StorageError } from "../rules/errors.ts";
import { ordinalBytes, ordinalText } from "../store/subspace.ts";

/** Where the next page begins, as a text for headers and URLs that says nothing to clients. */
export function tokenText(key: string): string {
  const text = ordinalBytes(key).toString("base64url");
  return `1!${text.length}!${text}`;
}

const FORM = /^1!(\d{1,5})!([A-Za-z0-9_-]*)$/;

/** Reads what `tokenText` wrote; anything else is refused. */
export function tokenOf(query: ReadonlyMap<string, string>, name: string): string | undefined {
  const text = query.get(name.toLowerCase());
  if (text === undefined || text === "") return undefined;
  const [, size, token = ""] = FORM.exec(text) ?? [];
  if (size === undefined || Number(size) !== token.length) throw new StorageError("InvalidInput");
  const bytes = Buffer.from(token, "base64url");
  if (bytes.includes(0)) throw new StorageError("InvalidInput");
  return ordinalText(bytes);
}
