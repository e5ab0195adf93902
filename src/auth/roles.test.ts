import assert from "node:assert/strict";
import { test } from "node:test";
import { grantsOf, parseRoles } from "./roles.ts";

const text = JSON.stringify({
  assignments: [
    { principal: "ann", role: "Storage Blob Data Reader" },
    { principal: "ann", role: "Storage Queue Data Contributor", account: "abc" },
    { principal: "bob", role: "Storage Table Data Owner", account: "def" },
    { principal: "staff", role: "Storage File Data Privileged Contributor", container: "home" },
    { principal: "*", role: "Storage Blob Data Reader", container: "news" },
  ],
});
const READER = "rlg";
const WRITER = "rlgacwdupme";
const NEWS = `blob ${READER} news`;

const rows: [principals: string[], account: string, want: string[]][] = [
  [["ann"], "abc", [`blob ${READER}`, `queue ${WRITER}`, NEWS]],
  [["ann"], "def", [`blob ${READER}`, NEWS]],
  [["bob"], "abc", [NEWS]],
  [["bob"], "def", ["table *", NEWS]],
  [["bob", "staff"], "abc", [`file ${WRITER} home`, NEWS]],
  [["eve"], "abc", [NEWS]],
];
for (const [principals, account, want] of rows) {
  test(`grantsOf(): ${principals} in ${account}: ${want}`, () => {
    const grants = grantsOf(parseRoles(text), principals, account);
    const got = grants.map(({ service, letters, container }) =>
      [service, letters, container].filter(Boolean).join(" "),
    );
    assert.deepEqual(got, want);
  });
}

const one = (entry: unknown) => JSON.stringify({ assignments: [entry] });
const bad: [what: string, text: string, says: RegExp][] = [
  ["no JSON", "{", /not written in JSON/],
  ["a list", "[]", /object/],
  ["nothing", "{}", /"assignments"/],
  ["a text for an assignment", one("ann"), /object/],
  ["nobody", one({ role: "Storage Blob Data Reader" }), /"principal"/],
  ["no role", one({ principal: "ann" }), /is no role/],
  ["a role that is none", one({ principal: "ann", role: "King" }), /"King" is no role/],
  ["a field that is none", one({ principal: "ann", role: "King", scope: "x" }), /"scope"/],
  ["a number", one({ principal: 1, role: "King" }), /"principal" must be a text/],
];
for (const [what, given, says] of bad) {
  test(`parseRoles(): ${what} is refused in a sentence`, () =>
    assert.throws(
      () => parseRoles(given),
      (error) => error instanceof Error && says.test(error.message) && /\.$/.test(error.message),
    ));
}
