import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";

/** The one gate: format and lint, types, then all tests; the first that fails ends it. */
const tests = [
  "src/**/*.test.ts",
  "tools/*.test.ts",
  "test/{acceptance,crash,proof,service,simulation}/*.test.ts",
];
const TEST_LIMIT_MS = 120_000;

const steps: readonly (readonly [name: string, command: string, args: readonly string[]])[] = [
  ["format and lint", "biome", ["check", "--error-on-warnings", "."]],
  ["types", "tsc", []],
  [
    "tests",
    process.execPath,
    ["--test", `--test-timeout=${TEST_LIMIT_MS}`, "--test-concurrency=2", ...globSync(tests)],
  ],
];

for (const [name, command, args] of steps) {
  process.stdout.write(`── ${name}\n`);
  const { status, error } = spawnSync(command, args, { stdio: ["ignore", "inherit", "inherit"] });
  if (error !== undefined) process.stderr.write(`${command}: ${error.message}\n`);
  if (status !== 0) process.exit(status ?? 1);
}
