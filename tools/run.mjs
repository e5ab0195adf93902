// Runs a TypeScript file of the project: `npm start` and `npm test` call it on whatever Node there is.
// It installs what is missing first. On a Node that can run the file it does so in this very process; else it
// starts the Node that was installed.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const NODE_MIN = 24;
/** Where compiled code is kept: a start takes half as long with it. */
const COMPILED = "node_modules/.cache/compiled";

const root = new URL("..", import.meta.url);
/** To serve takes less than to test or to show: no SDKs, no browser. */
const isForTests = /^(?:tools|examples)\//.test(process.argv[2] ?? "");

/** The packages that are needed of those a lock file names, with their versions. */
function packagesOf(path) {
  const { packages } = JSON.parse(readFileSync(new URL(path, root), "utf8"));
  return new Map(
    Object.entries(packages)
      .filter(([name, { optional, dev }]) => name !== "" && !optional && (isForTests || !dev))
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

function install() {
  process.stderr.write("Installing what is missing (npm ci) …\n");
  const needed = isForTests ? [] : ["--omit=dev"];
  const npm = process.env.npm_execpath;
  const [command, first] = npm ? [process.execPath, [npm]] : ["npm", []];
  const args = [...first, "ci", ...needed, "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync(command, args, {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (status === 0) return;
  process.stderr.write("npm ci failed: what it printed above says why.\n");
  process.exit(1);
}

/** Goes on in the Node that came with the packages, as if it were this process. */
function handOver() {
  const node = fileURLToPath(new URL("node_modules/.bin/node", root));
  if (!existsSync(node)) {
    process.stderr.write(`Lazuli needs Node ${NODE_MIN} or newer; this is ${process.version}.\n`);
    process.exit(1);
  }
  const env = { NODE_COMPILE_CACHE: fileURLToPath(new URL(COMPILED, root)), ...process.env };
  const child = spawn(node, process.argv.slice(1), { stdio: "inherit", env });
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"])
    process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => process.exit(code ?? (signal === null ? 0 : 1)));
}

if (!isInstalled()) install();
if (Number.parseInt(process.versions.node, 10) < NODE_MIN) handOver();
else {
  const { enableCompileCache } = await import("node:module");
  enableCompileCache(process.env.NODE_COMPILE_CACHE ?? fileURLToPath(new URL(COMPILED, root)));
  const script = new URL(process.argv[2], root);
  process.argv.splice(1, 2, fileURLToPath(script));
  await import(script.href);
}
