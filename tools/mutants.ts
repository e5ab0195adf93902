import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** A known bug: what is put in the place of which words of a file, and what is to find it. */
type Mutant = {
  readonly bug: string;
  readonly edits: readonly (readonly [path: string, from: string, to: string])[];
  readonly found: Finder;
};

/** Simulated seeds; a fault over HTTP; or a file of tests, where neither can see it. */
type Finder =
  | { readonly by: "simulation" }
  | { readonly by: "HTTP"; readonly faults: string }
  | { readonly by: "test"; readonly file: string };

const SEEDS = "400";
const SECONDS = "60";
const LIMIT_MS = 180_000;
const simulation: Finder = { by: "simulation" };
const over = (faults: string): Finder => ({ by: "HTTP", faults });

const RUN = "src/http/run.ts";
const ENGINE = "src/engine/sqlite/engine.ts";

const mutants: readonly Mutant[] = [
  {
    bug: "the lease is not checked",
    edits: [[RUN, "refuse(failedLease(state, request.leaseId, lease, on.leaseCodes));", ""]],
    found: simulation,
  },
  {
    bug: "conditions are not checked",
    edits: [[RUN, "refuse(failedCondition(judged.conditions, found, conditions));", ""]],
    found: simulation,
  },
  {
    bug: "lease and conditions are checked before the transaction",
    edits: [
      [
        RUN,
        "return await finished(() =>\n      engine.write(",
        "const tooEarly = await engine.read((tx) => guarded(operation, tx, { request, judged, around }));\n    return await finished(() =>\n      engine.write(",
      ],
      [
        RUN,
        "const target = await guarded(operation, tx, { request, judged, around });\n        const reply",
        "const target = tooEarly;\n        const reply",
      ],
    ],
    found: simulation,
  },
  {
    bug: "headers come from a later version than the body",
    edits: [
      [
        RUN,
        "return operation.finish === undefined ? reply :",
        "const later = await finished(() => engine.read(async (tx) => operation.apply({ tx, ...call, ...(await guarded(operation, tx, { request, judged, around })) })));\n      if (reply.body !== undefined && typeof reply.body !== 'string') return { ...later, body: reply.body };\n      return operation.finish === undefined ? reply :",
      ],
    ],
    found: simulation,
  },
  {
    bug: "Append Block forgets to change the ETag",
    edits: [
      [
        "src/blob/append-blob.ts",
        "...changedBlob(found, changedNow(tx), tx.now),\n    size: end,",
        "...found, size: end,",
      ],
    ],
    found: simulation,
  },
  {
    bug: "a change set that is refused keeps what it has done",
    edits: [["src/table/batch.ts", "throw new Refused(changesReply(", "return (changesReply("]],
    found: simulation,
  },
  {
    bug: "an update does not look at the entity's ETag",
    edits: [["src/table/change.ts", 'ifMatch !== "*" && ifMatch !== etagOf(found)', "false"]],
    found: simulation,
  },
  {
    bug: "a message that is received stays where it is, too",
    edits: [["src/queue/messages.ts", "leavePlace(tx, generation, before);", ""]],
    found: simulation,
  },
  {
    bug: "any id releases a lease",
    edits: [
      [
        "src/rules/lease.ts",
        'if (lease.state === "available" || !sameId(lease.id, id)) {\n    return "LeaseIdMismatchWithLeaseOperation";\n  }\n  return available;',
        "return available;",
      ],
    ],
    found: simulation,
  },
  {
    bug: "a write keeps a lease that has ended",
    edits: [["src/rules/lease.ts", "(isHeld(lease) ? lease : available)", "lease"]],
    found: simulation,
  },
  {
    bug: "time runs backwards for reads when the clock does",
    edits: [
      [
        "src/engine/buffered.ts",
        "Math.max(this.#now, clock, instantOf",
        "Math.max(clock, instantOf",
      ],
    ],
    found: simulation,
  },
  {
    bug: "Delete Blob with If-Match drops blocks where the blob is gone",
    edits: [
      [
        "src/blob/blob.ts",
        "found === undefined && call.request.conditions.ifMatch !== undefined",
        "false",
      ],
    ],
    found: simulation,
  },
  {
    bug: "a body that is cut short is taken for whole",
    edits: [
      ["src/http/body.ts", "reject(new ClientGone())", "resolve(Buffer.concat(parts)), reject"],
    ],
    found: over("none"),
  },
  {
    bug: "a write is acknowledged before the sync",
    edits: [
      [
        ENGINE,
        "this.#syncing = group;\n",
        "this.#syncing = group;\n    for (const settle of group.settled.splice(0)) settle();\n",
      ],
    ],
    found: over("power cut"),
  },
  {
    bug: "a write that a full disk undid is acknowledged",
    edits: [
      [
        ENGINE,
        "for (const fail of group?.failed ?? []) fail(error);\n    //",
        "for (const settle of group?.settled ?? []) settle();\n    //",
      ],
    ],
    found: over("full disk"),
  },
  {
    bug: "requests that are open are not counted",
    edits: [["src/http/server.ts", "if (this.#open > this.#requestsMax)", "if (false)"]],
    found: over("overload"),
  },
  {
    bug: "a read tells what is not synced yet",
    edits: [[ENGINE, "if (view.seen === undefined) settle();", "if (view) settle();"]],
    found: { by: "test", file: "src/engine/sqlite/durability.test.ts" },
  },
  {
    bug: "a file of bytes is named before it is synced",
    edits: [["src/engine/disk-files.ts", "await this.#disk.sync(this.#file);", ""]],
    found: { by: "test", file: "test/simulation/power-cut.test.ts" },
  },
];

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
  return [...proof, "--seeds", "0", "--seconds", SECONDS, "--faults", found.faults];
}

/** The line that says what was found, or undefined if the bug was not seen. */
function seen(root: string, mutant: Mutant): string | undefined {
  const { status, stdout, stderr } = spawnSync(process.execPath, argsOf(mutant.found), {
    cwd: root,
    encoding: "utf8",
    timeout: LIMIT_MS,
  });
  if (status === 0) return undefined;
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
