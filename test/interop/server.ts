import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { ShareServiceClient } from "@azure/storage-file-share";

export const ACCOUNT = "devstoreaccount1";
export const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** A server with an SMB port, and what it logged. */
export type Served = {
  readonly port: number;
  isRunning(): boolean;
  /** What it logged as errors. */
  faults(): readonly string[];
  stop(): Promise<void>;
};

/** Starts a server on free ports and makes some shares. */
export async function served(folder: string, shares: readonly string[]): Promise<Served> {
  const ports = ["blob", "queue", "table", "file", "web"].flatMap((name) => [`--${name}Port`, "0"]);
  const place = ["--location", join(folder, "data")];
  const args = ["src/main.ts", ...place, ...ports, "--smbPort", "any"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  const faults: string[] = [];
  createInterface({ input: child.stderr }).on("line", (line) => {
    if (!/"level":"(?:info|warn)"/.test(line)) faults.push(line);
  });
  let output = "";
  for await (const line of createInterface({ input: child.stdout })) {
    output += `${line}\n`;
    if (line === "Ready") break;
  }
  const connection = /^\s*(DefaultEndpointsProtocol=.*)$/m.exec(output)?.[1] ?? "";
  const port = Number(/^\s*Smb\s+[\d.]+:(\d+)$/m.exec(output)?.[1]);
  const service = ShareServiceClient.fromConnectionString(connection);
  for (const share of shares) await service.getShareClient(share).create();
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  return {
    port,
    isRunning,
    faults: () => faults,
    async stop() {
      child.kill("SIGTERM");
      if (isRunning()) await once(child, "exit");
    },
  };
}
