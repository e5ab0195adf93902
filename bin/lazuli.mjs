#!/usr/bin/env node
// The command of the installed package: on a Node that is too old it goes on in the one that came along.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const NODE_MIN = 24;

/** The Node among the optional packages, if there is one for this machine. */
function installedNode() {
  const name = `node-${process.platform}-${process.arch}`;
  try {
    return createRequire(import.meta.url).resolve(`${name}/bin/node`);
  } catch {
    return undefined;
  }
}

if (Number.parseInt(process.versions.node, 10) >= NODE_MIN) await import("../dist/main.js");
else {
  const node = installedNode();
  if (node === undefined) {
    process.stderr.write(`Lazuli needs Node ${NODE_MIN} or newer; this is ${process.version}.\n`);
    process.exit(1);
  }
  const child = spawn(node, process.argv.slice(1), { stdio: "inherit" });
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) {
    process.on(signal, () => child.kill(signal));
  }
  child.on("exit", (code, signal) => process.exit(code ?? (signal === null ? 0 : 1)));
}
