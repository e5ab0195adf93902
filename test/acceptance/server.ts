import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

/** A server that tests speak to: ours, started for them, or the one LAZULI_TEST_ENDPOINT names. */
export type TestServer = {
  /** http://127.0.0.1:PORT */
  readonly origin: string;
  /** The origin with the account's name behind it. */
  readonly url: string;
  /** The same for every service that the server serves, by its name in lower case: "blob", "queue", … */
  readonly urls: Readonly<Record<string, string>>;
  readonly account: string;
  readonly key: string;
  readonly connectionString: string;
  readonly directory: string;
  readonly pid: number;
  /** All the server printed so far. */
  output(): string;
  /** SIGTERM, and waits for the end; gives the exit code. The data goes too, unless it is `keep`. */
  stop(keep?: "keep"): Promise<number | null>;
  /** SIGKILL to the whole process group, and waits for the end; the data stays. */
  kill(): Promise<void>;
};

export const ACCOUNT = "devstoreaccount1";
export const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

export type StartOptions = {
  /** Where the data is; a fresh folder if not given. */
  readonly directory?: string;
  /** Further flags for the command line. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
};

const START_LIMIT_MS = 30_000;

/** Starts a server on free ports and resolves when it answers. */
/** One half of the test files goes through threads of HTTP, the other not; which, their names decide. */
const httpThreads = (): number => [...basename(process.argv[1] ?? "")].length % 2;

export async function startServer(options: StartOptions = {}): Promise<TestServer> {
  const given = process.env.LAZULI_TEST_ENDPOINT;
  if (given !== undefined) return external(given);
  const directory = options.directory ?? mkdtempSync(join(tmpdir(), "lazuli-test-"));
  const ports = ["blob", "queue", "table", "file", "smb", "web"].flatMap((name) => [
    `--${name}Port`,
    "0",
  ]);
  const args = [
    "src/main.ts",
    "--location",
    directory,
    ...ports,
    "--silent",
    "--httpThreads",
    String(httpThreads()),
    ...(options.args ?? []),
  ];
  const child = spawn(process.execPath, args, {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...options.env },
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const exited = once(child, "exit");
  const urls = await listening(child, () => output);
  return {
    ...addresses(urls),
    account: ACCOUNT,
    key: KEY,
    directory,
    pid: child.pid ?? 0,
    output: () => output,
    async stop(keep) {
      child.kill("SIGTERM");
      const [code] = (await exited) as [number | null];
      if (keep === undefined) rmSync(directory, { recursive: true, force: true });
      return code;
    },
    async kill() {
      process.kill(-(child.pid ?? 0), "SIGKILL");
      await exited;
    },
  };
}

/** The server as tests of another service see it: raw requests go there. */
export function at(server: TestServer, service: string): TestServer {
  const url = server.urls[service] ?? "";
  return { ...server, url, origin: originOf(url) };
}

const originOf = (url: string) => new URL(url).origin;

function addresses(urls: Readonly<Record<string, string>>) {
  const url = urls.blob ?? "";
  const endpoints = Object.entries(urls).map(
    ([name, each]) => `${name.charAt(0).toUpperCase()}${name.slice(1)}Endpoint=${each};`,
  );
  const account = `DefaultEndpointsProtocol=${new URL(url).protocol.slice(0, -1)};AccountName=${ACCOUNT};AccountKey=${KEY};`;
  return { origin: originOf(url), url, urls, connectionString: account + endpoints.join("") };
}

/** Where each service is, from the lines that the server prints when it listens. */
async function listening(
  child: ChildProcess,
  output: () => string,
): Promise<Readonly<Record<string, string>>> {
  const until = Date.now() + START_LIMIT_MS;
  for (;;) {
    if (/^Ready\b/m.test(output())) {
      const lines = output().matchAll(/^\s*([A-Z][a-z]+)\s+(https?:\/\/[\w.]+:\d+\/\w+)$/gm);
      return Object.fromEntries(
        [...lines].map(([, name = "", url = ""]) => [name.toLowerCase(), url]),
      );
    }
    if (child.exitCode !== null || Date.now() > until) {
      child.kill("SIGKILL");
      throw new Error(`the server did not start:\n${output()}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** The services of another server stand on ports one after another, as ours do by default. */
function external(origin: string): TestServer {
  const next = (index: number) => {
    const url = new URL(origin);
    url.port = String(Number(url.port) + index);
    return `${url.origin}/${ACCOUNT}`;
  };
  const names = ["blob", "queue", "table", "file"];
  return {
    ...addresses(Object.fromEntries(names.map((name, index) => [name, next(index)]))),
    account: ACCOUNT,
    key: KEY,
    directory: "",
    pid: 0,
    output: () => "",
    stop: async () => 0,
    kill: async () => {},
  };
}
