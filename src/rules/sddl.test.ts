import assert from "node:assert/strict";
import { test } from "node:test";
import { inheritedPermission, isPermission, mergedPermission, ROOT_PERMISSION } from "./sddl.ts";

const descriptors: [what: string, text: string, want: boolean][] = [
  ["the root's own", ROOT_PERMISSION, true],
  [
    "the example of the reference",
    "O:S-1-5-21-2127521184-1604012920-1887927527-21560751G:S-1-5-21-2127521184-1604012920-1887927527-513D:AI(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;S-1-5-21-397955417-626881126-188441444-3053964)",
    true,
  ],
  ["an audit list too", "O:BAG:SYD:(A;;FA;;;SY)S:(AU;SAFA;FA;;;WD)", true],
  ["an empty access list", "O:BAG:SYD:", true],
  ["a protected list", "O:BAG:SYD:PAI(A;OICI;FA;;;SY)", true],
  ["rights by letters", "O:BAG:SYD:(A;;CCDCLCSWRPWPDTLOCRSDRCWDWO;;;SY)", true],
  ["no owner", "G:SYD:(A;;FA;;;SY)", false],
  ["no group", "O:BAD:(A;;FA;;;SY)", false],
  ["no access list", "O:BAG:SY", false],
  ["a SID of a domain nobody knows", "O:BAG:SYD:(A;;FA;;;DA)", false],
  ["an owner of a domain nobody knows", "O:DAG:SYD:(A;;FA;;;SY)", false],
  ["a kind of entry that there is not", "O:BAG:SYD:(Q;;FA;;;SY)", false],
  ["rights that there are not", "O:BAG:SYD:(A;;ZZ;;;SY)", false],
  ["flags that there are not", "O:BAG:SYD:(A;XX;FA;;;SY)", false],
  ["an entry cut short", "O:BAG:SYD:(A;;FA)", false],
  ["a bracket too few", "O:BAG:SYD:(A;;FA;;;SY", false],
  ["nothing", "", false],
  ["something else", "everybody may", false],
];
for (const [what, text, want] of descriptors) {
  test(`isPermission(): ${what}: ${want}`, () => assert.equal(isPermission(text), want));
}

const parent = (aces: string) => `O:BAG:SYD:${aces}`;
const rows: [what: string, aces: string, file: string, directory: string][] = [
  ["for this directory only", "(A;;FA;;;SY)", "", ""],
  ["for files and directories", "(A;OICI;FA;;;SY)", "(A;ID;FA;;;SY)", "(A;OICIID;FA;;;SY)"],
  ["for files", "(A;OI;FA;;;SY)", "(A;ID;FA;;;SY)", "(A;OIIOID;FA;;;SY)"],
  ["for directories", "(A;CI;FA;;;SY)", "", "(A;CIID;FA;;;SY)"],
  ["for children only", "(A;OICIIO;FA;;;SY)", "(A;ID;FA;;;SY)", "(A;OICIID;FA;;;SY)"],
  ["for the next level only", "(A;OICINP;FA;;;SY)", "(A;ID;FA;;;SY)", "(A;ID;FA;;;SY)"],
  ["for files of the next level only", "(A;OINP;FA;;;SY)", "(A;ID;FA;;;SY)", ""],
  [
    "for whoever makes it",
    "(A;OICIIO;FA;;;CO)",
    "(A;ID;FA;;;BA)",
    "(A;ID;FA;;;BA)(A;OICIIOID;FA;;;CO)",
  ],
  [
    "two of them, in order",
    "(D;OI;FW;;;WD)(A;OI;FR;;;WD)",
    "(D;ID;FW;;;WD)(A;ID;FR;;;WD)",
    "(D;OIIOID;FW;;;WD)(A;OIIOID;FR;;;WD)",
  ],
];
for (const [what, aces, file, directory] of rows) {
  test(`inheritedPermission(): an entry ${what}`, () => {
    assert.equal(inheritedPermission(parent(aces), "file"), `O:BAG:SYD:AI${file}`);
    assert.equal(inheritedPermission(parent(aces), "directory"), `O:BAG:SYD:AI${directory}`);
  });
}

test("inheritedPermission(): what is inherited is a permission again", () => {
  for (const kind of ["file", "directory"] as const) {
    assert.ok(isPermission(inheritedPermission(ROOT_PERMISSION, kind)));
  }
});

// What is given, what a directory passes on, and what a new file has of both.
const merged: [what: string, given: string, above: string, want: string][] = [
  ["own entries first", "D:(A;;FR;;;WD)", "D:(A;OI;FA;;;SY)", "D:AI(A;;FR;;;WD)(A;ID;FA;;;SY)"],
  ["none of its own", "D:", "D:(A;OI;FA;;;SY)", "D:AI(A;ID;FA;;;SY)"],
  ["the owner is the new one", "D:", "D:(A;OIIO;FA;;;CO)", "D:AI(A;ID;FA;;;BA)"],
  ["inherited ones replaced", "D:AI(A;ID;FR;;;WD)", "D:(A;OI;FA;;;SY)", "D:AI(A;ID;FA;;;SY)"],
  ["inherited ones gone", "D:AI(A;ID;FR;;;WD)", "D:(A;;FA;;;SY)", "D:AI"],
  ["protected", "D:P(A;ID;FR;;;WD)", "D:(A;OI;FA;;;SY)", "D:P(A;ID;FR;;;WD)"],
  ["no list at all", "D:NO_ACCESS_CONTROL", "D:(A;OI;FA;;;SY)", "D:NO_ACCESS_CONTROL"],
  ["no list above", "D:(A;;FR;;;WD)", "D:NO_ACCESS_CONTROL", "D:(A;;FR;;;WD)"],
  ["nothing passed on", "D:(A;;FR;;;WD)", "D:(A;CI;FA;;;SY)", "D:(A;;FR;;;WD)"],
  [
    "audits stay",
    "D:(A;;FR;;;WD)S:(AU;SA;FA;;;WD)",
    "D:(A;OI;FA;;;SY)",
    "D:AI(A;;FR;;;WD)(A;ID;FA;;;SY)S:(AU;SA;FA;;;WD)",
  ],
];
for (const [what, given, above, want] of merged) {
  test(`mergedPermission(): ${what}`, () =>
    assert.equal(
      mergedPermission(`O:BAG:SY${given}`, `O:SYG:SY${above}`, "file"),
      `O:BAG:SY${want}`,
    ));
}
