import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Finder, type Mutant, mutants } from "./mutant-list.ts";

const SEEDS = "400";
/** Some show only once in a dozen runs of ten seconds; each ends with its first finding. */
const SECONDS = "240";
const LIMIT_MS = 420_000;
/** A copy of the tree that may be spoilt. */
function copied(): string {
  const root = mkdtempSync(join(tmpdir(), "lazuli-mutants-"));
  for (const name of ["src", "test", "tools", "package.json", "tsconfig.json"]) {
    cpSync(name, join(root, name), { recursive: true });
  }
  symlinkSync(resolve("node_modules"), join(root, "node_modules"));
  return root;
}

/** Plants the bug; gives how to take it out again. */
function plant(root: string, { bug, edits }: Mutant): () => void {
  const before = new Map<string, string>();
  for (const [name, from, to] of edits) {
    const path = join(root, name);
    const text = readFileSync(path, "utf8");
    if (text.split(from).length !== 2) {
      throw new Error(`"${bug}": ${name} does not have these words once: ${from}`);
    }
    if (!before.has(path)) before.set(path, text);
    writeFileSync(
      path,
      text.replace(from, () => to),
    );
  }
  return () => {
    for (const [path, text] of before) writeFileSync(path, text);
  };
}

function argsOf(found: Finder): string[] {
  const proof = ["test/proof/proof.ts", "--first"];
  if (found.by === "simulation") return [...proof, "--seconds", "0", "--seeds", SEEDS];
  if (found.by === "test") return ["--test", found.file];
  const only = found.only === undefined ? [] : ["--only", found.only];
  return [...proof, "--seeds", "0", "--seconds", SECONDS, "--faults", found.faults, ...only];
}

/** The line that says what was found, or undefined if the bug was not seen. */
function seen(root: string, mutant: Mutant): string | undefined {
  const { status, stdout, stderr } = spawnSync(process.execPath, argsOf(mutant.found), {
    cwd: root,
    encoding: "utf8",
    timeout: LIMIT_MS,
  });
  if (status === 0 || status === null) return undefined; // one without an end has no finding either
  if (mutant.found.by === "test") return /^.*✖ (.*?) \(/m.exec(stdout)?.[1] ?? "the tests fail";
  const seed = /^seed \d+/m.exec(stdout)?.[0];
  const kind = /^.*(?:no order|failed:|check:|none was|no answer).*$/m.exec(stdout)?.[0].trim();
  // A tree that does not even run proves nothing.
  if (seed === undefined) throw new Error(`"${mutant.bug}" does not run: ${stderr}`);
  return `${seed}: ${kind}`;
}

const root = copied();
const only = process.argv[2];
let missed = 0;
try {
  for (const mutant of mutants.filter(({ bug }) => only === undefined || bug.includes(only))) {
    const remove = plant(root, mutant);
    const begin = performance.now();
    const what = seen(root, mutant);
    remove();
    if (what === undefined) missed++;
    const seconds = Math.round((performance.now() - begin) / 1000);
    const how = mutant.found.by === "test" ? "tests" : mutant.found.by;
    process.stdout.write(`| ${mutant.bug} | ${how} | ${what ?? "NOT FOUND"} | ${seconds} s |\n`);
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}
process.exitCode = missed === 0 ? 0 : 1;
