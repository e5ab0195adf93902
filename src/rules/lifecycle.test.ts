import assert from "node:assert/strict";
import { test } from "node:test";
import {
  concernsContainer,
  type LifecycleBlob,
  type LifecycleRule,
  type LifecycleStep,
  lifecycleAction,
} from "./lifecycle.ts";
import { checkedPolicy } from "./lifecycle-policy.ts";

const DAY = 24 * 3600 * 1000;
const now = 1000 * DAY;
const ago = (days: number) => now - days * DAY;

const blob: LifecycleBlob = {
  subject: "baseBlob",
  path: "logs/2024/a.txt",
  type: "BlockBlob",
  tier: "Hot",
  modifiedAt: ago(10),
  createdAt: ago(20),
};

type Parts = Partial<Omit<LifecycleRule, "actions">>;
const rule = (
  steps: readonly LifecycleStep[],
  parts: Parts = {},
  subject: LifecycleBlob["subject"] = "baseBlob",
): LifecycleRule => ({
  name: "rule",
  blobTypes: ["BlockBlob"],
  prefixes: [],
  tags: [],
  ...parts,
  actions: { baseBlob: [], snapshot: [], version: [], [subject]: steps },
});

const del: LifecycleStep = { action: "delete", modified: 5 };
const cool: LifecycleStep = { action: "tierToCool", modified: 5 };
const cold: LifecycleStep = { action: "tierToCold", modified: 5 };
const archive: LifecycleStep = { action: "tierToArchive", modified: 5 };

type Row = [what: string, rules: LifecycleRule[], blob: Partial<LifecycleBlob>, want?: string];
const rows: Row[] = [
  ["no rules, nothing to do", [], {}],
  ["older than the days: delete", [rule([del])], {}, "delete"],
  ["exactly the days: not yet", [rule([{ ...del, modified: 10 }])], {}],
  [
    "a millisecond more: delete",
    [rule([{ ...del, modified: 10 }])],
    { modifiedAt: ago(10) - 1 },
    "delete",
  ],
  ["younger: nothing", [rule([{ ...del, modified: 11 }])], {}],
  [
    "zero days: as soon as it is there",
    [rule([{ ...del, modified: 0 }])],
    { modifiedAt: now - 1 },
    "delete",
  ],
  ["by creation", [rule([{ action: "delete", created: 15 }])], {}, "delete"],
  ["by creation, not yet", [rule([{ action: "delete", created: 20 }])], {}],
  ["both ages must be exceeded", [rule([{ action: "delete", created: 15, modified: 15 }])], {}],
  ["the least expensive action wins: delete", [rule([cool, archive, del, cold])], {}, "delete"],
  ["then archive", [rule([cool, archive, cold])], {}, "tierToArchive"],
  ["then cold", [rule([cool, cold])], {}, "tierToCold"],
  ["then cool", [rule([cool])], {}, "tierToCool"],
  ["also across rules", [rule([cool]), rule([del]), rule([cold])], {}, "delete"],
  ["what is due later does not count", [rule([cool, { ...del, modified: 50 }])], {}, "tierToCool"],
  ["cool to cool: nothing", [rule([cool])], { tier: "Cool" }],
  ["cold to cool: nothing", [rule([cool])], { tier: "Cold" }],
  ["cool to cold", [rule([cold])], { tier: "Cool" }, "tierToCold"],
  ["cold to cold: nothing", [rule([cold])], { tier: "Cold" }],
  ["cold to archive", [rule([archive])], { tier: "Cold" }, "tierToArchive"],
  ["archive to anything: nothing", [rule([cool, cold, archive])], { tier: "Archive" }],
  ["archive can be deleted", [rule([archive, del])], { tier: "Archive" }, "delete"],
  [
    "archive, tier changed lately: nothing",
    [rule([{ ...archive, tierChanged: 7 }])],
    { tierChangedAt: ago(6) },
  ],
  [
    "archive, tier changed long ago",
    [rule([{ ...archive, tierChanged: 7 }])],
    { tierChangedAt: ago(8) },
    "tierToArchive",
  ],
  [
    "archive, tier never changed: since creation",
    [rule([{ ...archive, tierChanged: 7 }])],
    {},
    "tierToArchive",
  ],
  ["another type: nothing", [rule([del])], { type: "AppendBlob" }],
  [
    "append blobs can be deleted",
    [rule([del], { blobTypes: ["AppendBlob"] })],
    { type: "AppendBlob" },
    "delete",
  ],
  [
    "append blobs have no tiers",
    [rule([cool], { blobTypes: ["AppendBlob"] })],
    { type: "AppendBlob" },
  ],
  [
    "page blobs are no rule's",
    [rule([del], { blobTypes: ["BlockBlob", "AppendBlob"] })],
    { type: "PageBlob" },
  ],
  ["a prefix with the container", [rule([del], { prefixes: ["logs/2024/"] })], {}, "delete"],
  ["a prefix of the container's name", [rule([del], { prefixes: ["lo"] })], {}, "delete"],
  ["one of several prefixes", [rule([del], { prefixes: ["x/", "logs/2"] })], {}, "delete"],
  ["another prefix: nothing", [rule([del], { prefixes: ["logs/2023"] })], {}],
  ["a prefix in another case: nothing", [rule([del], { prefixes: ["Logs/"] })], {}],
  [
    "tags that are there",
    [rule([del], { tags: [{ name: "p", value: "1" }] })],
    { tags: { p: "1", q: "2" } },
    "delete",
  ],
  [
    "tags of another value: nothing",
    [rule([del], { tags: [{ name: "p", value: "1" }] })],
    { tags: { p: "2" } },
  ],
  [
    "one tag of two: nothing",
    [
      rule([del], {
        tags: [
          { name: "p", value: "1" },
          { name: "q", value: "1" },
        ],
      }),
    ],
    { tags: { p: "1" } },
  ],
  ["no tags at all: nothing", [rule([del], { tags: [{ name: "p", value: "1" }] })], {}],
  ["snapshots have rules of their own", [rule([del])], { subject: "snapshot" }],
  [
    "a snapshot by its age",
    [rule([{ action: "delete", created: 5 }], {}, "snapshot")],
    { subject: "snapshot" },
    "delete",
  ],
  [
    "a version by its age",
    [rule([{ action: "tierToCool", created: 5 }], {}, "version")],
    { subject: "version" },
    "tierToCool",
  ],
  [
    "rules of versions leave blobs alone",
    [rule([{ action: "delete", created: 5 }], {}, "version")],
    {},
  ],
];
for (const [what, rules, changes, want] of rows) {
  test(`lifecycleAction(): ${what}`, () => {
    assert.equal(lifecycleAction(rules, { ...blob, ...changes }, now)?.action, want);
  });
}

const containers: [prefixes: string[], container: string, want: boolean][] = [
  [[], "logs", true],
  [[], "$root", true],
  [[], "$web", false],
  [["$web/old"], "$web", true],
  [["logs/"], "logs", true],
  [["lo"], "logs", true],
  [["logs/2024"], "logs", true],
  [["logs2"], "logs", false],
  [["logs/"], "logs2", false],
];
for (const [prefixes, container, want] of containers) {
  test(`concernsContainer(): ${JSON.stringify(prefixes)} and ${container}`, () => {
    assert.equal(concernsContainer([rule([del], { prefixes })], container), want);
  });
}

const definition = (actions: unknown, filters: unknown = { blobTypes: ["blockBlob"] }) => ({
  rules: [{ enabled: true, name: "a", type: "Lifecycle", definition: { actions, filters } }],
});
const days = (count: unknown) => ({ daysAfterModificationGreaterThan: count });

test("checkedPolicy(): reads Azure's form", () => {
  const policy = definition(
    {
      baseBlob: {
        tierToCool: days(30),
        tierToArchive: { ...days(90), daysAfterLastTierChangeGreaterThan: 7 },
        delete: { daysAfterCreationGreaterThan: 2555 },
      },
      snapshot: { delete: { daysAfterCreationGreaterThan: 90 } },
      version: { tierToCold: { daysAfterCreationGreaterThan: 1 } },
    },
    {
      blobTypes: ["blockBlob", "appendBlob"],
      prefixMatch: ["container1/wibble"],
      blobIndexMatch: [{ name: "Project", op: "==", value: "x" }],
    },
  );
  const rules = [
    {
      name: "a",
      blobTypes: ["BlockBlob", "AppendBlob"],
      prefixes: ["container1/wibble"],
      tags: [{ name: "Project", value: "x" }],
      actions: {
        baseBlob: [
          { action: "delete", created: 2555 },
          { action: "tierToArchive", modified: 90, tierChanged: 7 },
          { action: "tierToCool", modified: 30 },
        ],
        snapshot: [{ action: "delete", created: 90 }],
        version: [{ action: "tierToCold", created: 1 }],
      },
    },
  ];
  assert.deepEqual(checkedPolicy(JSON.stringify(policy)), { rules });
  assert.deepEqual(checkedPolicy(JSON.stringify({ policy })), { rules });
  const off = { rules: [{ ...policy.rules[0], enabled: false }] };
  assert.deepEqual(checkedPolicy(JSON.stringify(off)), { rules: [] });
});

const one = { baseBlob: { delete: days(1) } };
const wrong: [what: string, policy: unknown, problems: RegExp[]][] = [
  ["no list of rules", {}, [/no list named rules/]],
  ["no rules", { rules: [] }, [/has no rules/]],
  ["a rule that is none", { rules: [1] }, [/Rule 1 has no name/]],
  [
    "two rules of one name",
    { rules: [...definition(one).rules, ...definition(one).rules] },
    [/Two rules are named a/],
  ],
  [
    "no type",
    { rules: [{ ...definition(one).rules[0], type: undefined }] },
    [/type is not "Lifecycle"/],
  ],
  ["no definition", { rules: [{ name: "a", type: "Lifecycle" }] }, [/no definition/]],
  [
    "enabled as a text",
    { rules: [{ ...definition(one).rules[0], enabled: "yes" }] },
    [/neither true nor false/],
  ],
  [
    "no filters",
    { rules: [{ name: "a", type: "Lifecycle", definition: { actions: one } }] },
    [/blobTypes is missing/],
  ],
  ["page blobs", definition(one, { blobTypes: ["pageBlob"] }), [/cannot be "pageBlob"/]],
  [
    "a prefix with a slash in front",
    definition(one, { blobTypes: ["blockBlob"], prefixMatch: ["/a"] }),
    [/does not begin with a container/],
  ],
  [
    "eleven prefixes",
    definition(one, { blobTypes: ["blockBlob"], prefixMatch: Array(11).fill("a/") }),
    [/more than 10/],
  ],
  [
    "another operator",
    definition(one, {
      blobTypes: ["blockBlob"],
      blobIndexMatch: [{ name: "a", op: ">", value: "b" }],
    }),
    [/blobIndexMatch/],
  ],
  [
    "a misspelt filter",
    definition(one, { blobTypes: ["blockBlob"], prefixMatches: [] }),
    [/prefixMatches is not known/],
  ],
  ["no actions", definition({}), [/has no actions/]],
  [
    "a misspelt action",
    definition({ baseBlob: { tierToFrozen: days(1), delete: days(1) } }),
    [/tierToFrozen is not known/],
  ],
  [
    "no condition",
    definition({ baseBlob: { delete: {} } }),
    [/takes one condition of daysAfterModification/],
  ],
  [
    "two conditions",
    definition({ baseBlob: { delete: { ...days(1), daysAfterCreationGreaterThan: 1 } } }),
    [/takes one condition/],
  ],
  [
    "days that are none",
    definition({ baseBlob: { delete: days(-1) } }),
    [/-1 is no number of days/],
  ],
  [
    "days as a text",
    definition({ baseBlob: { delete: days("30") } }),
    [/"30" is no number of days/],
  ],
  [
    "times of access",
    definition({ baseBlob: { tierToCool: { ...days(1), daysAfterLastAccessTimeGreaterThan: 1 } } }),
    [/times of access, which are not kept/],
  ],
  [
    "modification of a snapshot",
    definition({ snapshot: { delete: days(1) } }),
    [/for baseBlob only/],
  ],
  [
    "a tier change before a delete",
    definition({ baseBlob: { delete: { ...days(1), daysAfterLastTierChangeGreaterThan: 1 } } }),
    [/for tierToArchive only/],
  ],
];
for (const [what, policy, problems] of wrong) {
  test(`checkedPolicy(): tells of ${what}`, () => {
    const checked = checkedPolicy(JSON.stringify(policy));
    assert.ok("problems" in checked);
    for (const problem of problems) {
      assert.ok(
        checked.problems.some((text) => problem.test(text)),
        checked.problems.join("\n"),
      );
    }
    for (const text of checked.problems) assert.match(text, /^[A-Z].*\.$/);
  });
}

test("checkedPolicy(): tells of every mistake at once, and of what is no JSON", () => {
  const checked = checkedPolicy(
    JSON.stringify(definition({ baseBlob: { delete: days("x") } }, {})),
  );
  assert.ok("problems" in checked && checked.problems.length === 2);
  const broken = checkedPolicy("{");
  assert.ok("problems" in broken && /no JSON/.test(broken.problems[0] ?? ""));
});
