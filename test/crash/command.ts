import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";

/** How a run of the command line ended, and all it printed. */
export type Ended = {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
};

const RUN_LIMIT_MS = 20_000;

/** Runs the server's command line to its end; what does not end by itself is killed and has no code. */
export async function run(...args: string[]): Promise<Ended> {
  const child = spawn(process.execPath, ["src/main.ts", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    timeout: RUN_LIMIT_MS,
    killSignal: "SIGKILL",
  });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "exit") as Promise<[number | null]>,
  ]);
  return { code, stdout, stderr };
}
