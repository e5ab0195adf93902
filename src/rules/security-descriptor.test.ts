import assert from "node:assert/strict";
import { test } from "node:test";
import { ROOT_PERMISSION } from "./sddl.ts";
import { binaryOf, sddlOf } from "./security-descriptor.ts";

// The bytes of MS-DTYP's layout, written out by hand: owner SYSTEM, group Administrators, Everyone may read.
const small = Buffer.from(
  [
    "01000480", // revision, control: self-relative, access list present
    "14000000", // owner at 20
    "20000000", // group at 32
    "00000000", // no audit list
    "30000000", // access list at 48
    "010100000000000512000000", // S-1-5-18
    "01020000000000052000000020020000", // S-1-5-32-544
    "02001c0001000000", // list: revision 2, 28 bytes, one entry
    "0000140089001200", // allow, no flags, 20 bytes, 0x120089
    "010100000000000100000000", // S-1-1-0
  ].join(""),
  "hex",
);

test("binaryOf() and sddlOf(): the layout, byte for byte", () => {
  assert.equal(binaryOf("O:SYG:BAD:(A;;FR;;;WD)")?.toString("hex"), small.toString("hex"));
  assert.equal(sddlOf(small), "O:SYG:BAD:(A;;FR;;;WD)");
});

const same = [
  "O:BAG:SYD:",
  "O:BAG:SYD:PAI(A;OICI;FA;;;SY)(D;ID;0x1200a9;;;S-1-5-21-1-2-3-4294967295)",
  "O:S-1-5-21-2127521184-1604012920-1887927527-21560751G:BUD:(A;OICINPIO;GA;;;CO)",
  "O:BAG:SYD:AI(A;;FX;;;AU)S:PAR(AU;SAFA;FW;;;WD)",
  "O:BAG:SYD:NO_ACCESS_CONTROL",
];
for (const sddl of same) {
  test(`binaryOf() and back: ${sddl}`, () => {
    const bytes = binaryOf(sddl);
    assert.ok(bytes !== undefined);
    assert.equal(sddlOf(bytes), sddl);
  });
}

const meaning: [sddl: string, want: string][] = [
  ["O:S-1-5-18G:S-1-5-32-544D:(A;;0x1f01ff;;;S-1-1-0)", "O:SYG:BAD:(A;;FA;;;WD)"],
  ["O:SYG:BAD:(A;;CCLC;;;WD)", "O:SYG:BAD:(A;;0x5;;;WD)"],
  ["O:SYG:BAD:(A;;GRGX;;;WD)", "O:SYG:BAD:(A;;0xa0000000;;;WD)"],
];
for (const [sddl, want] of meaning) {
  test(`sddlOf() says the same in its own words: ${sddl}`, () =>
    assert.equal(sddlOf(binaryOf(sddl) ?? Buffer.alloc(0)), want));
}

test("binaryOf(): what has no such form has none", () => {
  assert.equal(binaryOf("nonsense"), undefined);
  assert.equal(binaryOf("O:SYG:BAD:(OA;;FA;;;WD)"), undefined);
  const guid = "00000000-0000-0000-0000-000000000000";
  assert.equal(binaryOf(`O:SYG:BAD:(A;;FA;${guid};;WD)`), undefined);
});

test("sddlOf(): every cut and every changed byte is refused or read, never a fault", () => {
  const bytes = binaryOf(ROOT_PERMISSION) ?? Buffer.alloc(0);
  for (let size = 0; size < bytes.length; size++) {
    assert.equal(sddlOf(bytes.subarray(0, size)), undefined, `cut at ${size}`);
  }
  for (let at = 0; at < bytes.length; at++) {
    for (const value of [0, 1, 0x7f, 0xff]) {
      const changed = Buffer.from(bytes);
      changed[at] = value;
      const sddl = sddlOf(changed);
      assert.ok(sddl === undefined || typeof sddl === "string");
    }
  }
});
