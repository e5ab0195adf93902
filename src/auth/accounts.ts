import { createSecretKey, type KeyObject } from "node:crypto";
import { parseBase64 } from "../base/bytes.ts";
import { isAccountName } from "../rules/names.ts";

export type Account = {
  readonly name: string;
  readonly keys: readonly KeyObject[];
  /** Whether what is signed with a key of the account is taken: Shared Key, and SAS but for users' own. */
  readonly sharedKey: boolean;
  /** Whether containers may be opened to everybody. */
  readonly publicAccess: boolean;
};

/** Who may sign, by name. */
export type Accounts = ReadonlyMap<string, Account>;

/** The account that Azurite and the old emulator have, with its well-known key. */
export const DEVELOPMENT_ACCOUNT = "devstoreaccount1";
export const DEVELOPMENT_KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** Reads `name:key1[:key2];…`; throws a sentence about what is wrong, without showing a key. */
export function parseAccounts(text: string): Accounts {
  const entries = text.split(";").filter((entry) => entry.trim() !== "");
  return accountsOf(
    entries.map((entry) => {
      const [name = "", ...keys] = entry.trim().split(":");
      return { name, keys, sharedKey: true, publicAccess: true };
    }),
  );
}

const SETTINGS = ["name", "keys", "sharedKey", "publicAccess"];

/** Reads the accounts file: `{"accounts": [{"name", "keys", "sharedKey"?, "publicAccess"?}]}`. */
export function parseAccountsFile(text: string): Accounts {
  const { accounts } = jsonObject(text);
  if (!Array.isArray(accounts)) throw new Error('it needs a list "accounts".');
  return accountsOf(
    accounts.map((entry: unknown) => {
      const { name, keys, sharedKey = true, publicAccess = true, ...rest } = objectOf(entry);
      const [unknown] = Object.keys(rest);
      if (unknown !== undefined) {
        throw new Error(
          `"${unknown}" is no setting of an account; there are ${SETTINGS.join(", ")}.`,
        );
      }
      if (typeof name !== "string") throw new Error('an account has no "name".');
      if (!Array.isArray(keys) || keys.some((key) => typeof key !== "string")) {
        throw new Error(`the account ${name} needs "keys", a list of one or two texts.`);
      }
      if (typeof sharedKey !== "boolean" || typeof publicAccess !== "boolean") {
        throw new Error(`"sharedKey" and "publicAccess" of ${name} are true or false.`);
      }
      return { name, keys, sharedKey, publicAccess };
    }),
  );
}

const SHOWN_FORM = /^[\w.-]{0,30}$/;

type Given = Omit<Account, "keys"> & { readonly keys: readonly string[] };

function accountsOf(given: readonly Given[]): Accounts {
  const accounts = new Map<string, Account>();
  for (const { name, keys, ...settings } of given) {
    if (!isAccountName(name)) {
      const shown = SHOWN_FORM.test(name) ? `"${name}"` : "what stands for a name"; // a key, perhaps
      throw new Error(
        `${shown} is no account name: it takes 3 to 24 lower-case letters and digits.`,
      );
    }
    if (accounts.has(name)) throw new Error(`the account ${name} is given twice.`);
    if (keys.length < 1 || keys.length > 2) {
      throw new Error(
        `the account ${name} needs one or two keys, as ${name}:key1 or ${name}:key1:key2.`,
      );
    }
    accounts.set(name, { name, keys: keys.map((key) => secretOf(name, key)), ...settings });
  }
  if (accounts.size === 0) throw new Error("no account is given.");
  return accounts;
}

function secretOf(name: string, key: string): KeyObject {
  const bytes = parseBase64(key);
  if (bytes === undefined || bytes.length === 0) {
    throw new Error(`a key of the account ${name} is not written in base64.`);
  }
  return createSecretKey(bytes);
}

/** A JSON text that holds an object; throws a sentence that shows nothing of the text. */
export function jsonObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("it is not written in JSON.");
  }
  return objectOf(value);
}

export function objectOf(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error("an object in braces is missing where one should be.");
  }
  return value as Record<string, unknown>;
}
