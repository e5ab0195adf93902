import { resolve } from "node:path";
import { parseArgs } from "node:util";
import {
  type Accounts,
  DEVELOPMENT_ACCOUNT,
  DEVELOPMENT_KEY,
  parseAccounts,
} from "./auth/accounts.ts";
import { type LogLevel, logLevels } from "./base/log.ts";

/** All that argv and environment say; nobody else reads them. */
export type Config = {
  readonly command: "serve" | "check" | "help" | "version";
  readonly location: string;
  readonly inMemory: boolean;
  readonly blobHost: string;
  readonly blobPort: number;
  readonly accounts: Accounts;
  /** Whether the account is the well-known one, whose key may be printed. */
  readonly isDevelopment: boolean;
  readonly logLevel: LogLevel;
  readonly debugFile: string | undefined;
  readonly rehydrateMs: number;
};

/** What is wrong with the command line or environment, as a sentence. */
export class ConfigError extends Error {}

export const USAGE = `Lazuli serves Azure Storage from this machine.

  lazuli [serve] [options]     serve until SIGTERM or Ctrl-C
  lazuli check [options]       read all data of a stopped server and report what is damaged

Where
  --location DIR, -l           the data directory (./data)
  --inMemoryPersistence        keep everything in memory; it is gone at the end
  --blobHost HOST              address to listen on (127.0.0.1)
  --blobPort PORT              (10000); 0 takes a free one
  --queuePort, --tablePort, --filePort, --smbPort and their Host flags are taken and not used yet

Who
  LAZULI_ACCOUNTS              environment: name:key1[:key2];…  (also AZURITE_ACCOUNTS)
                               Without it: devstoreaccount1 and its well-known key.

What is said
  --logLevel LEVEL             debug, info (a line for each request), warn (the default), error, off
  --silent, -s                 the same as --logLevel off
  --debug FILE, -d             a line for each request and more, into a file
  --help, -h    --version, -v

Details
  --rehydrateDelay SECONDS     how long a blob takes to leave the archive (10)
  --skipApiVersionCheck, --disableTelemetry, --loose
                               taken for Azurite's sake; every version is served, nothing is sent home`;

const text = { type: "string" } as const;
const flag = { type: "boolean", default: false } as const;

const OPTIONS = {
  location: { ...text, short: "l", default: "data" },
  inMemoryPersistence: flag,
  blobHost: { ...text, default: "127.0.0.1" },
  blobPort: { ...text, default: "10000" },
  queueHost: text,
  queuePort: text,
  tableHost: text,
  tablePort: text,
  fileHost: text,
  filePort: text,
  smbHost: text,
  smbPort: text,
  logLevel: { ...text, default: "warn" },
  silent: { ...flag, short: "s" },
  debug: { ...text, short: "d" },
  help: { ...flag, short: "h" },
  version: { ...flag, short: "v" },
  rehydrateDelay: { ...text, default: "10" },
  skipApiVersionCheck: flag,
  disableTelemetry: flag,
  loose: { ...flag, short: "L" },
} as const;

/** Reads the command line and environment once. */
export function readConfig(argv: readonly string[], env: NodeJS.ProcessEnv): Config {
  const { values, positionals } = parsed(argv);
  const [command = "serve", ...rest] = positionals;
  if ((command !== "serve" && command !== "check") || rest.length > 0) {
    throw new ConfigError(`"${positionals.join(" ")}" is no command: there are serve and check.`);
  }
  for (const name of ["blobPort", "queuePort", "tablePort", "filePort", "smbPort"] as const) {
    if (values[name] !== undefined) wholeNumber(`--${name}`, values[name], 65_535);
  }
  const level = values.silent ? "off" : values.logLevel;
  if (!logLevels.includes(level)) {
    throw new ConfigError(`--logLevel ${level} is none of ${logLevels.join(", ")}.`);
  }
  const source = env.LAZULI_ACCOUNTS === undefined ? "AZURITE_ACCOUNTS" : "LAZULI_ACCOUNTS";
  const given = env[source];
  return Object.freeze({
    command: values.help ? "help" : values.version ? "version" : command,
    location: resolve(values.location),
    inMemory: values.inMemoryPersistence,
    blobHost: values.blobHost,
    blobPort: Number(values.blobPort),
    accounts: accountsOf(source, given ?? `${DEVELOPMENT_ACCOUNT}:${DEVELOPMENT_KEY}`),
    isDevelopment: given === undefined,
    logLevel: level as LogLevel,
    debugFile: values.debug,
    rehydrateMs: wholeNumber("--rehydrateDelay", values.rehydrateDelay, 1_000_000) * 1000,
  });
}

function parsed(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    const [first = ""] = (error as Error).message.split(/[.\n]/);
    throw new ConfigError(`${first}; --help tells what there is.`);
  }
}

function wholeNumber(name: string, value: string, max: number): number {
  const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
  if (!(number <= max)) throw new ConfigError(`${name} ${value} is no whole number up to ${max}.`);
  return number;
}

function accountsOf(source: string, given: string): Accounts {
  try {
    return parseAccounts(given);
  } catch (error) {
    throw new ConfigError(`${source}: ${(error as Error).message}`);
  }
}
