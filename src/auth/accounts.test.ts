import assert from "node:assert/strict";
import { test } from "node:test";
import { DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, parseAccounts } from "./accounts.ts";

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
