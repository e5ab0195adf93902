import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, test } from "node:test";

const { version, bin, files } = JSON.parse(readFileSync("package.json", "utf8"));
const folder = mkdtempSync(join(tmpdir(), "lazuli-package-"));
after(() => rmSync(folder, { recursive: true }));

test("package: what it lists is there, and what README and documents link to is in it", () => {
  for (const name of files) assert.ok(name === "dist" || existsSync(name), name);
  const shipped = (path: string) =>
    ["README.md", "LICENSE"].includes(path) ||
    files.some((name: string) => path === name || path.startsWith(`${name}/`));
  for (const page of [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    ...globSync("docs/**/*.md"),
  ]) {
    for (const [, target = ""] of readFileSync(page, "utf8").matchAll(/\]\(([^)#:]+)[^):]*\)/g)) {
      const path = join(page, "..", target);
      assert.ok(existsSync(path), `${page}: ${target} is not there`);
      assert.ok(shipped(path), `${page}: ${target} is not in the package`);
    }
  }
});

test("package: the command is what the build makes, without tests", () => {
  const out = join(folder, "dist");
  const args = ["--project", "tsconfig.build.json", "--outDir", out];
  const built = spawnSync("node_modules/.bin/tsc", args, { encoding: "utf8" });
  assert.equal(built.status, 0, built.stdout);
  assert.deepEqual(globSync(join(out, "**/*{test,conformance}.js")), []);
  cpSync("bin", join(folder, "bin"), { recursive: true });
  cpSync("package.json", join(folder, "package.json"));
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  const said = spawnSync(process.execPath, [join(folder, bin.lazuli), "--version"], {
    encoding: "utf8",
  });
  assert.deepEqual([said.status, said.stdout, said.stderr], [0, `lazuli ${version}\n`, ""]);
});
