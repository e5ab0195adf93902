import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";

/** Which folder may import which. A folder that is not named for another may not be imported by it. */
const layers: Readonly<Record<string, readonly string[]>> = {
  base: [],
  rules: ["base"],
  engine: ["base"],
  store: ["base", "engine", "rules"],
  auth: ["base", "engine", "rules", "store"],
  http: ["auth", "base", "engine", "rules", "store"],
  service: ["auth", "base", "engine", "http", "rules", "store"],
  blob: ["auth", "base", "engine", "http", "rules", "service", "store"],
  queue: ["auth", "base", "engine", "http", "rules", "service", "store"],
  table: ["auth", "base", "engine", "http", "rules", "service", "store"],
  file: ["auth", "base", "engine", "http", "rules", "service", "store"],
  smb: ["auth", "base", "engine", "file", "rules", "store"],
  "services.ts": ["blob", "file", "http", "queue", "table"],
  "config.ts": ["auth", "base"],
  "security.ts": ["auth", "base", "config.ts", "http"],
  "maintenance.ts": ["base", "engine", "store"],
  "main.ts": [
    ...[
      "auth",
      "base",
      "blob",
      "config.ts",
      "engine",
      "file",
      "http",
      "maintenance.ts",
      "security.ts",
      "smb",
      "services.ts",
    ],
    "store",
  ],
};

/** Calls that make a run unrepeatable or go round a contract, and what to use in their place. */
const banned: readonly (readonly [pattern: RegExp, instead: string, except: readonly string[]])[] =
  [
    [/\bDate\.now\(|new Date\(\)/, "a Clock", ["src/base/time.ts"]],
    [/\bMath\.random\(|\brandomUUID\(|\brandomBytes\(/, "an Ids", ["src/base/ids.ts"]],
    [/\bconsole\./, "a Log", []],
    [/\bprocess\.(env|argv)\b/, "the Config", ["src/main.ts"]],
    [
      /from "node:sqlite"/,
      "an Engine",
      ["database", "snapshot", "checkpoint-thread"].map((name) => `src/engine/sqlite/${name}.ts`),
    ],
    [/\bF[I]XME\b|\bTO[D]O\b(?! #\d)/, "a fix before the commit, or an issue's number", []],
  ];

/** An engine is named only where engines are, and where one is chosen. */
const engineNames = /\b(sqliteEngine|memoryEngine|diskFiles|memoryFiles|openSnapshot)\b/;
const engineChoosers = ["src/main.ts", "src/maintenance.ts"];

const sources = globSync("src/**/*.ts").map((path) => ({ path, text: readFileSync(path, "utf8") }));
const product = sources.filter(({ path }) => !/(\.test|conformance)\.ts$/.test(path));

const importsOf = (path: string, text: string) =>
  [...text.matchAll(/from "(\.[^"]+)"/g)].map(([, target]) => join(dirname(path), target ?? ""));

test("every import goes down the layers", () => {
  for (const { path, text } of product) {
    const from = path.split("/")[1] ?? "";
    for (const target of importsOf(path, text)) {
      const to = relative("src", target).split("/")[0] ?? "";
      assert.ok(from === to || layers[from]?.includes(to), `${path}: ${from} may not import ${to}`);
    }
  }
});

test("nothing banned is called", () => {
  for (const { path, text } of product) {
    for (const [pattern, instead, except] of banned) {
      const found = !except.includes(path) && pattern.test(text);
      assert.ok(!found, `${path}: use ${instead}, not ${pattern.source}`);
    }
  }
});

test("no engine is named outside engine/, main.ts and maintenance.ts", () => {
  for (const { path, text } of product) {
    const allowed = path.startsWith("src/engine/") || engineChoosers.includes(path);
    assert.ok(allowed || !engineNames.test(text), `${path} names an engine`);
  }
});

test("no source file is dead: main.ts reaches each", () => {
  const reached = new Set([
    "src/engine/sqlite/checkpoint-thread.ts", // threads, started by their names
    "src/http/front-thread.ts",
  ]);
  const visit = (path: string) => {
    if (reached.has(path)) return;
    reached.add(path);
    const source = sources.find((candidate) => candidate.path === path);
    for (const target of importsOf(path, source?.text ?? "")) visit(target);
  };
  visit("src/main.ts");
  for (const { path } of product) assert.ok(reached.has(path), `${path} is used by nobody`);
});

test("acceptance and crash tests import nothing of src", () => {
  for (const path of globSync("test/{acceptance,crash,soak}/**/*.ts")) {
    for (const target of importsOf(path, readFileSync(path, "utf8"))) {
      assert.ok(!target.startsWith("src"), `${path} imports ${target}`);
    }
  }
});
