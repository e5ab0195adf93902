import { type SpawnSyncOptions, spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import { resolve } from "node:path";

/** The one gate: format and lint, types, then all tests; the first that fails ends it. */
const tests = [
  "src/**/*.test.ts",
  "tools/*.test.ts",
  "test/{acceptance,crash,proof,service,simulation}/*.test.ts",
];
const TEST_LIMIT_MS = 120_000;

/**
 * Hundreds of processes are started by the tests, and each would strip and compile the same sources again: that
 * was half of what a backup in a test takes.
 */
const env = { NODE_COMPILE_CACHE: resolve("node_modules/.cache/compiled"), ...process.env };

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
  const options: SpawnSyncOptions = { env, stdio: ["ignore", "inherit", "inherit"] };
  const { status, error } = spawnSync(command, args, options);
  if (error !== undefined) process.stderr.write(`${command}: ${error.message}\n`);
  if (status !== 0) process.exit(status ?? 1);
}
