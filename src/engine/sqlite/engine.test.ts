import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLog } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import { engineConformance } from "../conformance.ts";
import { realDisk } from "../disk.ts";
import type { Engine } from "../engine.ts";
import { sqliteEngine } from "./engine.ts";

const root = mkdtempSync(join(tmpdir(), "lazuli-engine-"));
const directories = new Map<Engine, string>();

async function open(clock: Clock, directory = mkdtempSync(join(root, "data-"))): Promise<Engine> {
  const onFatal = (error: unknown) => {
    throw error;
  };
  const engine = await sqliteEngine({ directory, clock, disk: realDisk, log: silentLog, onFatal });
  directories.set(engine, directory);
  return engine;
}

engineConformance("sqlite", {
  open: (clock) => open(clock),
  async reopen(engine, clock) {
    await engine.close();
    return open(clock, directories.get(engine));
  },
  clean: () => rmSync(root, { recursive: true, force: true }),
});
