// Installs what is missing, and nothing else: run by `npm start` and `npm test` on whatever Node there is.
// A second run finds everything in place and costs a few milliseconds.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

const root = new URL("..", import.meta.url);

/** The packages that a lock file names, with their versions; those for other machines left out. */
function packagesOf(path) {
  const { packages } = JSON.parse(readFileSync(new URL(path, root), "utf8"));
  return new Map(
    Object.entries(packages)
      .filter(([name, { optional }]) => name !== "" && !optional)
      .map(([name, { version }]) => [name, version]),
  );
}

function isInstalled() {
  try {
    const wanted = packagesOf("package-lock.json");
    const found = packagesOf("node_modules/.package-lock.json");
    return [...wanted].every(([name, version]) => found.get(name) === version);
  } catch {
    return false;
  }
}

if (!isInstalled()) {
  process.stderr.write("Installing what is missing (npm ci) …\n");
  const npm = process.env.npm_execpath;
  const [command, first] = npm ? [process.execPath, [npm]] : ["npm", []];
  const { status } = spawnSync(
    command,
    [...first, "ci", "--no-audit", "--no-fund", "--loglevel=error"],
    {
      cwd: root,
      stdio: ["ignore", "inherit", "inherit"],
    },
  );
  if (status !== 0) {
    process.stderr.write("npm ci failed: what it printed above says why.\n");
    process.exit(1);
  }
}
