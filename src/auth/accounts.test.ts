import assert from "node:assert/strict";
import { test } from "node:test";
import {
  DEVELOPMENT_ACCOUNT,
  DEVELOPMENT_KEY,
  parseAccounts,
  parseAccountsFile,
} from "./accounts.ts";

// DESIGN 7: name:key1[:key2];...
const one = Buffer.from("first key").toString("base64");
const two = Buffer.from("second key").toString("base64");

const good: [text: string, want: Record<string, string[]>][] = [
  [`abc:${one}`, { abc: ["first key"] }],
  [`abc:${one}:${two}`, { abc: ["first key", "second key"] }],
  [`abc:${one};def:${two}`, { abc: ["first key"], def: ["second key"] }],
  [`abc:${one};`, { abc: ["first key"] }],
  [` abc:${one} ; def:${two} `, { abc: ["first key"], def: ["second key"] }],
];
for (const [text, want] of good) {
  test(`parseAccounts(): ${text}`, () => {
    const read = [...parseAccounts(text)].map(([name, account]) => {
      assert.equal(account.name, name);
      return [name, account.keys.map((key) => key.export().toString())];
    });
    assert.deepEqual(Object.fromEntries(read), want);
  });
}

test("parseAccounts(): takes the development account, whose key has 64 bytes", () => {
  const accounts = parseAccounts(`${DEVELOPMENT_ACCOUNT}:${DEVELOPMENT_KEY}`);
  assert.equal(DEVELOPMENT_ACCOUNT, "devstoreaccount1");
  assert.equal(accounts.get(DEVELOPMENT_ACCOUNT)?.keys[0]?.symmetricKeySize, 64);
});

const bad: [what: string, text: string][] = [
  ["nothing", ""],
  ["separators only", " ; ;"],
  ["a name without a key", "abc"],
  ["an empty key", "abc:"],
  ["an empty second key", `abc:${one}:`],
  ["three keys", `abc:${one}:${two}:${one}`],
  ["a key that is not base64", "abc:c2VjcmV0!"],
  ["a key with base64 cut short", "abc:c2VjcmV0c2Vjcg"],
  ["a name too short", `ab:${one}`],
  ["a name too long", `${"a".repeat(25)}:${one}`],
  ["a name in upper case", `Abc:${one}`],
  ["no name", `:${one}`],
  ["an account twice", `abc:${one};abc:${two}`],
];
for (const [what, text] of bad) {
  test(`parseAccounts(): ${what} is refused in a sentence without a key`, () =>
    assert.throws(
      () => parseAccounts(text),
      (error) => {
        assert.ok(error instanceof Error);
        assert.match(error.message, /^[^\n]+\.$/);
        for (const secret of [one, two, "c2VjcmV0"]) assert.ok(!error.message.includes(secret));
        return true;
      },
    ));
}

const file = (...accounts: unknown[]) => JSON.stringify({ accounts });

test("parseAccountsFile(): reads keys and switches", () => {
  const text = file(
    { name: "abc", keys: [one] },
    { name: "def", keys: [one, two], sharedKey: false, publicAccess: false },
  );
  const read = [...parseAccountsFile(text).values()].map((account) => [
    account.name,
    account.keys.length,
    account.sharedKey,
    account.publicAccess,
  ]);
  assert.deepEqual(read, [
    ["abc", 1, true, true],
    ["def", 2, false, false],
  ]);
});

const badFiles: [what: string, text: string][] = [
  ["no JSON", `{"accounts": [{"keys": ["${one}"]`],
  ["a list", "[]"],
  ["no accounts", "{}"],
  ["an empty list", file()],
  ["an account without a name", file({ keys: [one] })],
  ["an account without keys", file({ name: "abc" })],
  ["one key as a text", file({ name: "abc", keys: one })],
  ["a key that is no text", file({ name: "abc", keys: [1] })],
  ["three keys", file({ name: "abc", keys: [one, two, one] })],
  ["a switch that is a text", file({ name: "abc", keys: [one], sharedKey: "no" })],
  ["a setting that is none", file({ name: "abc", keys: [one], key: two })],
  ["an account twice", file({ name: "abc", keys: [one] }, { name: "abc", keys: [two] })],
];
for (const [what, text] of badFiles) {
  test(`parseAccountsFile(): ${what} is refused in a sentence without a key`, () =>
    assert.throws(
      () => parseAccountsFile(text),
      (error) => {
        assert.ok(error instanceof Error);
        assert.match(error.message, /^[^\n]+\.$/);
        for (const secret of [one, two]) assert.ok(!error.message.includes(secret));
        return true;
      },
    ));
}
