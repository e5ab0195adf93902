import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Conditions,
  type ConditionUse,
  failedCondition,
  noConditions,
  unusableConditions,
} from "./conditions.ts";
import { type ErrorCode, errors } from "./errors.ts";

// SEMANTICS a.2 to a.4. The target changed in the middle of a second, as headers cannot say.
const second = 1_700_000_000_000;
const target = { etag: "0x8D1", modifiedAt: second + 500 };

type Outcome = "absent" | "ok" | "fail";
const outcomes: readonly Outcome[] = ["absent", "ok", "fail"];
type Asked = { im: Outcome; ius: Outcome; inm: Outcome; ims: Outcome };

/** Headers of which each is left out, holds for the target, or does not. */
function headers({ im, ius, inm, ims }: Asked): Conditions {
  return {
    ...(im === "absent" ? {} : { ifMatch: [im === "ok" ? "0x8D1" : "0x8D2"] }),
    ...(ius === "absent" ? {} : { ifUnmodifiedSince: ius === "ok" ? second : second - 1000 }),
    ...(inm === "absent" ? {} : { ifNoneMatch: [inm === "ok" ? "0x8D2" : "0x8D1"] }),
    ...(ims === "absent" ? {} : { ifModifiedSince: ims === "ok" ? second - 1000 : second }),
  };
}

const combinations: Asked[] = outcomes.flatMap((im) =>
  outcomes.flatMap((ius) =>
    outcomes.flatMap((inm) => outcomes.map((ims) => ({ im, ius, inm, ims }))),
  ),
);
const none: Asked = { im: "absent", ius: "absent", inm: "absent", ims: "absent" };
const shown = ({ im, ius, inm, ims }: Asked) => `IM ${im}, IUS ${ius}, INM ${inm}, IMS ${ims}`;

/** The formula of a.2: IM && IUS && (INM || IMS); in the group only headers that are there count. */
function readOracle({ im, ius, inm, ims }: Asked): 200 | 304 | 412 {
  const and = (outcome: Outcome) => outcome !== "fail";
  if (!(and(im) && and(ius))) return 412;
  const group = [inm, ims].filter((outcome) => outcome !== "absent");
  return group.length === 0 || group.some((outcome) => outcome === "ok") ? 200 : 304;
}

const statusOf = (code: ErrorCode | undefined) => (code === undefined ? 200 : errors[code][0]);

// a.2: all 81 combinations, for reads (304) and for Snapshot Blob (412 in place of 304, DESIGN 6).
for (const asked of combinations) {
  const want = readOracle(asked);
  test(`failedCondition(): a read with ${shown(asked)} gives ${want}`, () => {
    const code = failedCondition(headers(asked), target, "read");
    assert.equal(statusOf(code), want);
    assert.equal(unusableConditions(headers(asked), "read"), undefined);
  });
  test(`failedCondition(): a snapshot with ${shown(asked)} never gives 304`, () => {
    const code = failedCondition(headers(asked), target, "snapshot");
    assert.equal(code, want === 200 ? undefined : "ConditionNotMet");
    assert.equal(unusableConditions(headers(asked), "snapshot"), undefined);
  });
}

// a.2: the rows of the table as they stand there.
const any = outcomes;
const okOrAbsent: readonly Outcome[] = ["ok", "absent"];
const absentOrFail: readonly Outcome[] = ["absent", "fail"];
type Cell = readonly Outcome[];
const readRows: [im: Cell, ius: Cell, inm: Cell, ims: Cell, want: ErrorCode | undefined][] = [
  [["fail"], any, any, any, "ConditionNotMet"],
  [any, ["fail"], any, any, "ConditionNotMet"],
  [okOrAbsent, okOrAbsent, ["fail"], absentOrFail, "NotModified"],
  [okOrAbsent, okOrAbsent, absentOrFail, ["fail"], "NotModified"],
  [okOrAbsent, okOrAbsent, ["fail"], ["ok"], undefined],
  [okOrAbsent, okOrAbsent, ["ok"], ["fail"], undefined],
];
for (const [im, ius, inm, ims, want] of readRows) {
  const cells = [im, ius, inm, ims].map((cell) => cell.join("/")).join(" | ");
  test(`failedCondition(): the row | ${cells} | of reads gives ${want ?? "200"}`, () => {
    const matching = combinations.filter(
      (asked) =>
        im.includes(asked.im) &&
        ius.includes(asked.ius) &&
        inm.includes(asked.inm) &&
        ims.includes(asked.ims),
    );
    assert.ok(matching.length > 0);
    for (const asked of matching) {
      assert.equal(failedCondition(headers(asked), target, "read"), want, shown(asked));
    }
  });
}

test("errors: a failed read says 304 and the code ConditionNotMet", () => {
  assert.equal(errors.NotModified[0], 304);
  assert.equal(errors.NotModified[2], "ConditionNotMet");
  assert.equal(errors.ConditionNotMet[0], 412);
});

// a.2: lists in If-Match are joined by OR, in If-None-Match by AND.
const listRows: [what: string, when: Conditions, want: ErrorCode | undefined][] = [
  ["If-Match holds if one of its tags is the target's", { ifMatch: ["0x1", "0x8D1"] }, undefined],
  ["If-Match fails if none of its tags is", { ifMatch: ["0x1", "0x2"] }, "ConditionNotMet"],
  ["If-None-Match holds if none of its tags is", { ifNoneMatch: ["0x1", "0x2"] }, undefined],
  ["If-None-Match fails if one of its tags is", { ifNoneMatch: ["0x1", "0x8D1"] }, "NotModified"],
];
for (const [what, when, want] of listRows) {
  test(`failedCondition(): in a read, ${what}`, () => {
    assert.equal(unusableConditions(when, "read"), undefined);
    assert.equal(failedCondition(when, target, "read"), want);
  });
}

// a.3: which headers of a write may stand together, and which of a pair decides.
type Header = keyof Asked;
const allowed: [sent: Header[], decides: Header | undefined][] = [
  [[], undefined],
  [["im"], "im"],
  [["ius"], "ius"],
  [["inm"], "inm"],
  [["ims"], "ims"],
  [["inm", "ims"], "inm"],
  [["im", "ius"], "im"],
];
const sentIn = (asked: Asked) =>
  (["im", "ius", "inm", "ims"] as const).filter((name) => asked[name] !== "absent");

for (const use of ["write", "create"] as const) {
  for (const asked of combinations) {
    const sent = sentIn(asked);
    const pair = allowed.find(
      ([names]) => names.length === sent.length && names.every((name) => sent.includes(name)),
    );
    if (pair === undefined) {
      test(`unusableConditions(): a ${use} cannot combine ${shown(asked)}`, () =>
        assert.equal(
          unusableConditions(headers(asked), use),
          "MultipleConditionHeadersNotSupported",
        ));
      continue;
    }
    const [, decides] = pair;
    const want = decides && asked[decides] === "fail" ? "ConditionNotMet" : undefined;
    test(`failedCondition(): a ${use} with ${shown(asked)} is judged by ${decides ?? "none"}`, () => {
      assert.equal(unusableConditions(headers(asked), use), undefined);
      assert.equal(failedCondition(headers(asked), target, use), want);
    });
  }
}

const manyTags: [when: Conditions, use: ConditionUse, want: ErrorCode | undefined][] = [
  [{ ifMatch: ["0x8D1", "0x2"] }, "write", "InvalidHeaderValue"],
  [{ ifNoneMatch: ["0x1", "0x2"] }, "write", "InvalidHeaderValue"],
  [{ ifMatch: ["0x8D1", "0x2"] }, "create", "InvalidHeaderValue"],
  [{ ifNoneMatch: ["0x1", "0x2"] }, "create", "InvalidHeaderValue"],
  [{ ifMatch: ["0x8D1", "0x2"], ifUnmodifiedSince: second }, "write", "InvalidHeaderValue"],
  [{ ifMatch: ["0x8D1", "0x2"] }, "read", undefined],
  [{ ifNoneMatch: ["0x1", "0x2"] }, "read", undefined],
];
for (const [when, use, want] of manyTags) {
  test(`unusableConditions(): more than one ETag in a ${use}, ${JSON.stringify(when)}`, () =>
    assert.equal(unusableConditions(when, use), want));
}

// a.4: the star, and what is not there; DESIGN 6 for a read that finds nothing.
type Detail = [
  what: string,
  when: Conditions,
  found: boolean,
  use: ConditionUse,
  want: ErrorCode | undefined,
];
const details: Detail[] = [
  [
    "If-None-Match: * on a create of what is there",
    star("None"),
    true,
    "create",
    "BlobAlreadyExists",
  ],
  ["If-None-Match: * on a create of what is not", star("None"), false, "create", undefined],
  ["If-None-Match: * on another write", star("None"), true, "write", "ConditionNotMet"],
  [
    "If-None-Match: * on another write of nothing is left to 404",
    star("None"),
    false,
    "write",
    undefined,
  ],
  ["If-Match: * on what is there, read", star(""), true, "read", undefined],
  ["If-Match: * on what is there, write", star(""), true, "write", undefined],
  ["If-Match: * on what is there, create", star(""), true, "create", undefined],
  ["If-Match: * on a create of what is not there", star(""), false, "create", "ConditionNotMet"],
  ["If-Match: * on another write of nothing is left to 404", star(""), false, "write", undefined],
  [
    "If-Match on a create of what is not there",
    { ifMatch: ["0x8D1"] },
    false,
    "create",
    "ConditionNotMet",
  ],
  [
    "If-Match on a read of nothing is left to 404",
    { ifMatch: ["0x8D1"] },
    false,
    "read",
    undefined,
  ],
  [
    "If-None-Match on a create of what is not there",
    { ifNoneMatch: ["0x8D1"] },
    false,
    "create",
    undefined,
  ],
  [
    "If-Modified-Since on a create of what is not there",
    { ifModifiedSince: second },
    false,
    "create",
    undefined,
  ],
  [
    "If-Unmodified-Since on a create of what is not there",
    { ifUnmodifiedSince: second },
    false,
    "create",
    undefined,
  ],
  ["a stale If-Match on a create", { ifMatch: ["0x8D0"] }, true, "create", "ConditionNotMet"],
];
function star(kind: "" | "None"): Conditions {
  return kind === "" ? { ifMatch: ["*"] } : { ifNoneMatch: ["*"] };
}
for (const [what, when, found, use, want] of details) {
  test(`failedCondition(): ${what}`, () => {
    assert.equal(unusableConditions(when, use), undefined);
    assert.equal(failedCondition(when, found ? target : undefined, use), want);
  });
}

test("unusableConditions(): If-None-Match: * on a read cannot be satisfied", () => {
  assert.equal(unusableConditions(star("None"), "read"), "UnsatisfiableCondition");
  assert.equal(errors.UnsatisfiableCondition[0], 400);
});

// a.4 Precision: whole seconds; IMS passes if LMT > value, IUS passes if LMT <= value.
const times: [what: string, when: Conditions, passes: boolean][] = [
  ["If-Modified-Since, a second before", { ifModifiedSince: second - 1000 }, true],
  ["If-Modified-Since, the same second", { ifModifiedSince: second }, false],
  ["If-Modified-Since, a second after", { ifModifiedSince: second + 1000 }, false],
  ["If-Unmodified-Since, a second before", { ifUnmodifiedSince: second - 1000 }, false],
  ["If-Unmodified-Since, the same second", { ifUnmodifiedSince: second }, true],
  ["If-Unmodified-Since, a second after", { ifUnmodifiedSince: second + 1000 }, true],
];
for (const [what, when, passes] of times) {
  for (const part of [0, 1, 500, 999]) {
    test(`failedCondition(): ${what}, changed ${part} ms into its second`, () => {
      const changed = { etag: "0x8D1", modifiedAt: second + part };
      for (const use of ["read", "snapshot", "write", "create"] as const) {
        assert.equal(failedCondition(when, changed, use) === undefined, passes, use);
      }
    });
  }
}

test("failedCondition(): no headers never fail", () => {
  for (const use of ["read", "snapshot", "write", "create"] as const) {
    for (const found of [target, undefined]) {
      assert.equal(unusableConditions(noConditions, use), undefined);
      assert.equal(failedCondition(noConditions, found, use), undefined);
      assert.equal(failedCondition(headers(none), found, use), undefined);
    }
  }
});

test("failedCondition(): an ETag compares as text, case and all", () => {
  assert.equal(failedCondition({ ifMatch: ["0x8d1"] }, target, "read"), "ConditionNotMet");
  assert.equal(failedCondition({ ifMatch: ["0x8D"] }, target, "write"), "ConditionNotMet");
});
