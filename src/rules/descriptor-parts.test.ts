import assert from "node:assert/strict";
import { test } from "node:test";
import {
  chosenParts,
  DACL,
  GROUP,
  OWNER,
  partsIn,
  replacedParts,
  SACL,
} from "./descriptor-parts.ts";
import { binaryOf, sddlOf } from "./security-descriptor.ts";

const bytes = (sddl: string): Buffer => {
  const made = binaryOf(sddl);
  assert.ok(made !== undefined);
  return made;
};

const WHOLE = "O:SYG:WDD:PAI(A;OICI;FA;;;WD)(D;;0x1;;;BA)S:AI(AU;SAFA;0x1;;;WD)";

test("chosenParts(): all of a descriptor is the same one, some of it only that", () => {
  const all = chosenParts(bytes(WHOLE), OWNER | GROUP | DACL | SACL);
  assert.equal(sddlOf(all ?? Buffer.alloc(0)), WHOLE);
  for (const part of [OWNER, GROUP, DACL, SACL, OWNER | DACL, 0]) {
    assert.equal(partsIn(chosenParts(bytes(WHOLE), part) ?? Buffer.alloc(0)), part);
  }
  assert.equal(chosenParts(bytes(WHOLE), OWNER)?.length, 20 + 12, "a head and one SID");
});

const rows: [given: string, parts: number, want: string][] = [
  ["O:BAG:BAD:", OWNER, "O:BAG:WDD:PAI(A;OICI;FA;;;WD)(D;;0x1;;;BA)S:AI(AU;SAFA;0x1;;;WD)"],
  ["O:BAG:BAD:", GROUP, "O:SYG:BAD:PAI(A;OICI;FA;;;WD)(D;;0x1;;;BA)S:AI(AU;SAFA;0x1;;;WD)"],
  ["O:BAG:BAD:", DACL, "O:SYG:WDD:S:AI(AU;SAFA;0x1;;;WD)"],
  ["O:BAG:BAD:", SACL, "O:SYG:WDD:PAI(A;OICI;FA;;;WD)(D;;0x1;;;BA)"],
  ["O:BAG:BAD:NO_ACCESS_CONTROL", DACL | SACL, "O:SYG:WDD:NO_ACCESS_CONTROL"],
  ["O:BAG:BAD:AR(A;;FA;;;SY)", OWNER | GROUP | DACL | SACL, "O:BAG:BAD:AR(A;;FA;;;SY)"],
];
for (const [given, parts, want] of rows) {
  test(`replacedParts(): ${parts} of ${given}`, () => {
    const made = replacedParts(bytes(WHOLE), bytes(given), parts);
    assert.equal(sddlOf(made ?? Buffer.alloc(0)), want);
  });
}

test("bytes that do not add up are no descriptor, and nothing throws", () => {
  const whole = bytes(WHOLE);
  for (let size = 0; size < 60; size++) chosenParts(whole.subarray(0, size), OWNER);
  assert.equal(chosenParts(whole.subarray(0, 30), DACL), undefined);
  for (let at = 0; at < whole.length; at++) {
    const changed = Buffer.from(whole);
    changed[at] = 0xff;
    replacedParts(whole, changed, OWNER | GROUP | DACL | SACL);
  }
});
