import { createSecretKey, type KeyObject } from "node:crypto";
import { parseBase64 } from "../base/bytes.ts";
import { isAccountName } from "../rules/names.ts";

export type Account = { readonly name: string; readonly keys: readonly KeyObject[] };

/** Who may sign, by name. */
export type Accounts = ReadonlyMap<string, Account>;

/** The account that Azurite and the old emulator have, with its well-known key. */
export const DEVELOPMENT_ACCOUNT = "devstoreaccount1";
export const DEVELOPMENT_KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** Reads `name:key1[:key2];…`; throws a sentence about what is wrong, without showing a key. */
export function parseAccounts(text: string): Accounts {
  const accounts = new Map<string, Account>();
  for (const part of text.split(";").filter((entry) => entry.trim() !== "")) {
    const [name = "", ...keys] = part.trim().split(":");
    if (!isAccountName(name)) {
      throw new Error(
        `"${name}" is no account name: it takes 3 to 24 lower-case letters and digits.`,
      );
    }
    if (accounts.has(name)) throw new Error(`the account ${name} is given twice.`);
    if (keys.length < 1 || keys.length > 2) {
      throw new Error(
        `the account ${name} needs one or two keys, as ${name}:key1 or ${name}:key1:key2.`,
      );
    }
    accounts.set(name, {
      name,
      keys: keys.map((key) => {
        const bytes = parseBase64(key);
        if (bytes === undefined || bytes.length === 0) {
          throw new Error(`a key of the account ${name} is not written in base64.`);
        }
        return createSecretKey(bytes);
      }),
    });
  }
  if (accounts.size === 0) throw new Error("no account is given.");
  return accounts;
}
