import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { domainToASCII } from "node:url";
import { parseArgs } from "node:util";
import {
  type Accounts,
  DEVELOPMENT_ACCOUNT,
  DEVELOPMENT_KEY,
  parseAccounts,
  parseAccountsFile,
} from "./auth/accounts.ts";
import { parseRoles, type Roles } from "./auth/roles.ts";
import { isTrusted } from "./auth/tokens.ts";
import { type LogLevel, logLevels } from "./base/log.ts";

const commands = ["serve", "check", "backup", "restore"] as const;
type Command = (typeof commands)[number];

/** All that argv and environment say; nobody else reads them. */
export type Config = {
  readonly command: Command | "help" | "version";
  readonly location: string;
  /** Where `backup` puts the copy, and `restore` takes it from. */
  readonly copy: string;
  readonly inMemory: boolean;
  /** Where each service listens. */
  readonly endpoints: Readonly<Record<Service, Endpoint>>;
  /** Where static websites are served. */
  readonly website: Endpoint;
  /** Threads that speak HTTP; 0 if the main one does. */
  readonly httpThreads: number;
  /** Where the shares are served by SMB; undefined if they are not. */
  readonly smb: (Endpoint & { readonly isEncryptionRequired: boolean }) | undefined;
  readonly accounts: Accounts;
  /** The files that accounts and roles come from, if they do; they are read again when they change. */
  readonly accountsFile: string | undefined;
  readonly rolesFile: string | undefined;
  /** Which tokens are taken: none, any that look right, or those of an issuer. */
  readonly oauth: "off" | "basic" | { readonly issuer: string };
  readonly tls: TlsConfig;
  /** Whether the account is the well-known one, whose key may be printed. */
  readonly isDevelopment: boolean;
  readonly logLevel: LogLevel;
  readonly debugFile: string | undefined;
  readonly rehydrateMs: number;
  readonly versioning: boolean;
  readonly immutableStorage: boolean;
  readonly containerRetentionDays: number;
  readonly copyHosts: readonly string[];
  /** Whether only this machine can ask: all services listen on loopback addresses. */
  readonly isLocal: boolean;
  /** The file with the rules by which blobs are tiered and deleted, if there is one. */
  readonly lifecycleFile: string | undefined;
  readonly lifecycleMs: number;
  /** How often changes are written to the change feed; undefined if there is none. */
  readonly changeFeedMs: number | undefined;
};

/** Whether and with what certificate the services speak TLS. */
export type TlsConfig =
  | "off"
  | "auto"
  | { readonly cert: string; readonly key: string }
  | { readonly cert: string; readonly password: string };

export type Service = "blob" | "queue" | "table" | "file";
export type Endpoint = { readonly host: string; readonly port: number };

/** What is wrong with the command line or environment, as a sentence. */
export class ConfigError extends Error {}

export const USAGE = `Lazuli serves Azure Storage from this machine.

  lazuli [serve] [options]     serve until SIGTERM or Ctrl-C
  lazuli check                 read all data below --location and report what is damaged
  lazuli backup --to DIR       copy all data below --location into DIR; the next time, only what is new
  lazuli restore --from DIR    make a new --location of a backup, and check it
                               check and backup work beside a running server; docs/operating.md

Where
  --location DIR, -l           the data directory (./data)
  --inMemoryPersistence        keep everything in memory; it is gone at the end
  --blobHost HOST              address to listen on (127.0.0.1)
  --blobPort PORT              (10000); 0 takes a free one
  --queueHost, --queuePort     the same for queues (127.0.0.1, 10001)
  --tableHost, --tablePort     the same for tables (127.0.0.1, 10002)
  --fileHost, --filePort       the same for files (127.0.0.1, 10003)
  --smbHost HOST, --smbPort PORT
                               the shares by SMB 2 and 3 (127.0.0.1, 10445); any takes a free port, 0 is off
  --smbEncryption required     refuse SMB clients that do not encrypt (offered)
  --httpThreads N              threads that speak HTTP (1 on four cores or more, else 0); 0: the main thread does it
  --webHost HOST, --webPort PORT
                               static websites (127.0.0.1, 10004): what is in $web, of the first account or of
                               the one that the host names, as http://account.web.localhost:10004/ does

Who
  LAZULI_ACCOUNTS              environment: name:key1[:key2];…  (also AZURITE_ACCOUNTS)
                               Without it: devstoreaccount1 and its well-known key.
  --accounts FILE              accounts from a JSON file, read again when it changes or on SIGHUP
  --oauth basic                take bearer tokens that look right; their signatures are not verified
  --oauth ISSUER               take tokens of this OpenID issuer (an https:// address), by its published keys
  --roles FILE                 who may do what with a token; read again when it changes or on SIGHUP

TLS
  --cert FILE --key FILE       certificate and key in PEM; read again when they change or on SIGHUP
  --cert FILE --pwd PASSWORD   the same as a PFX file; without --pwd the environment's LAZULI_PWD
  --tls auto                   make a development authority and a certificate by it, in the data directory

What is said
  --logLevel LEVEL             debug, info (a line for each request), warn (the default), error, off
  --silent, -s                 the same as --logLevel off
  --debug FILE, -d             a line for each request and more, into a file
  --help, -h    --version, -v

Details
  --versioning                 keep every state of a blob as a version
  --immutableStorage           versions can be made immutable (means --versioning too)
  --containerRetention DAYS    how long a deleted container can be restored (0: not at all)
                               Deleted blobs: Set Blob Service Properties, DeleteRetentionPolicy.
  --copySources HOSTS          hosts that copies may read from, beside this server: names, *.domain,
                               or * for all, with commas between (what listens on this machine, as long as
                               the server is for this machine alone)
  --lifecycle FILE             rules that tier and delete blobs by their age: JSON, as Azure's management policies
  --lifecycleInterval SECONDS  how long it takes from one run of them to the next (3600)
  --changeFeed                 keep a log of all changes of blobs in the container $blobchangefeed
  --changeFeedInterval SECONDS how long changes take to get there (60)
  --rehydrateDelay SECONDS     how long a blob takes to leave the archive (10)
  --skipApiVersionCheck, --disableTelemetry, --loose, --extentMemoryLimit MIB, --disableProductStyleUrl,
  --blobKeepAliveTimeout SECONDS, --queueKeepAliveTimeout SECONDS, --tableKeepAliveTimeout SECONDS
                               taken for Azurite's sake: every version is served, nothing is sent home, memory has
                               no limit of its own, a host names an account only as account.blob.… does, if there
                               is that account, and connections stay open for 75 seconds`;

const PORT_MAX = 65_535;
const text = { type: "string" } as const;
const flag = { type: "boolean", default: false } as const;

const OPTIONS = {
  location: { ...text, short: "l", default: "data" },
  to: text,
  from: text,
  inMemoryPersistence: flag,
  blobHost: { ...text, default: "127.0.0.1" },
  blobPort: { ...text, default: "10000" },
  queueHost: { ...text, default: "127.0.0.1" },
  queuePort: { ...text, default: "10001" },
  tableHost: { ...text, default: "127.0.0.1" },
  tablePort: { ...text, default: "10002" },
  fileHost: { ...text, default: "127.0.0.1" },
  filePort: { ...text, default: "10003" },
  webHost: { ...text, default: "127.0.0.1" },
  webPort: { ...text, default: "10004" },
  smbHost: { ...text, default: "127.0.0.1" },
  smbPort: { ...text, default: "10445" },
  smbEncryption: { ...text, default: "offered" },
  httpThreads: text,
  accounts: text,
  oauth: text,
  roles: text,
  cert: text,
  key: text,
  pwd: text,
  tls: text,
  logLevel: { ...text, default: "warn" },
  silent: { ...flag, short: "s" },
  debug: { ...text, short: "d" },
  help: { ...flag, short: "h" },
  version: { ...flag, short: "v" },
  rehydrateDelay: { ...text, default: "10" },
  versioning: flag,
  immutableStorage: flag,
  containerRetention: { ...text, default: "0" },
  copySources: { ...text, default: "" },
  lifecycle: text,
  lifecycleInterval: { ...text, default: "3600" },
  changeFeed: flag,
  changeFeedInterval: { ...text, default: "60" },
  skipApiVersionCheck: flag,
  disableTelemetry: flag,
  loose: { ...flag, short: "L" },
  extentMemoryLimit: text,
  disableProductStyleUrl: flag,
  blobKeepAliveTimeout: text,
  queueKeepAliveTimeout: text,
  tableKeepAliveTimeout: text,
} as const;

const HTTP_THREADS_MAX = 16;

/** On few cores the threads would only take turns with the main one, and each hop costs time. */
const usualThreads = (cores: number): number => (cores < 4 ? 0 : 1);

/** Reads the command line and environment once. */
export function readConfig(argv: readonly string[], env: NodeJS.ProcessEnv): Config {
  const { values, positionals } = parsed(argv);
  refuseEmpty(values);
  const [given = "serve", ...rest] = positionals;
  const command = commands.find((name) => name === given);
  if (command === undefined || rest.length > 0) {
    throw new ConfigError(
      `"${positionals.join(" ")}" is no command: there are ${commands.join(", ")}.`,
    );
  }
  const endpoint = (service: Service | "web"): Endpoint => ({
    host: values[`${service}Host`],
    port: wholeNumber(`--${service}Port`, values[`${service}Port`], PORT_MAX),
  });
  const level = values.silent ? "off" : values.logLevel;
  if (!logLevels.includes(level)) {
    throw new ConfigError(`--logLevel ${level} is none of ${logLevels.join(", ")}.`);
  }
  const source = env.LAZULI_ACCOUNTS === undefined ? "AZURITE_ACCOUNTS" : "LAZULI_ACCOUNTS";
  const named = env[source];
  const endpoints = {
    blob: endpoint("blob"),
    queue: endpoint("queue"),
    table: endpoint("table"),
    file: endpoint("file"),
  };
  return Object.freeze({
    command: values.help ? "help" : values.version ? "version" : command,
    location: resolve(values.location),
    copy: copyOf(values.help || values.version ? "serve" : command, values),
    inMemory: values.inMemoryPersistence,
    endpoints,
    smb: smbOf(values),
    website: endpoint("web"),
    httpThreads:
      values.httpThreads === undefined
        ? usualThreads(availableParallelism())
        : wholeNumber("--httpThreads", values.httpThreads, HTTP_THREADS_MAX),
    accounts:
      values.accounts === undefined
        ? accountsOf(source, named ?? `${DEVELOPMENT_ACCOUNT}:${DEVELOPMENT_KEY}`)
        : readAccounts(values.accounts),
    accountsFile: values.accounts,
    rolesFile: values.roles,
    oauth: oauthOf(values),
    tls: tlsOf(values, env.LAZULI_PWD),
    isDevelopment: named === undefined && values.accounts === undefined,
    logLevel: level as LogLevel,
    debugFile: values.debug,
    versioning: values.versioning || values.immutableStorage,
    immutableStorage: values.immutableStorage,
    containerRetentionDays: wholeNumber("--containerRetention", values.containerRetention, 365),
    copyHosts: values.copySources
      .split(",")
      .map((host) => host.trim())
      .filter(Boolean)
      .map(copyHost),
    isLocal: Object.values(endpoints).every(({ host }) => LOOPBACK.test(host)),
    lifecycleFile: values.lifecycle,
    lifecycleMs: interval("--lifecycleInterval", values.lifecycleInterval),
    changeFeedMs: values.changeFeed
      ? interval("--changeFeedInterval", values.changeFeedInterval)
      : undefined,
    rehydrateMs: wholeNumber("--rehydrateDelay", values.rehydrateDelay, 1_000_000) * 1000,
  });
}

/** Port 0 is off here, as a share that nobody knows the port of helps nobody; `any` takes a free one. */
function smbOf({
  smbHost: host,
  smbPort,
  smbEncryption,
}: {
  smbHost: string;
  smbPort: string;
  smbEncryption: string;
}): Config["smb"] {
  if (smbEncryption !== "offered" && smbEncryption !== "required") {
    throw new ConfigError(`--smbEncryption ${smbEncryption} is neither offered nor required.`);
  }
  const isEncryptionRequired = smbEncryption === "required";
  if (smbPort === "any") return { host, port: 0, isEncryptionRequired };
  const port = wholeNumber("--smbPort", smbPort, PORT_MAX);
  return port === 0 ? undefined : { host, port, isEncryptionRequired };
}

function parsed(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new ConfigError(
      `${mistake(error as NodeJS.ErrnoException)}; --help tells what there is.`,
    );
  }
}

/** What parseArgs found wrong; its own words speak of arguments that are ambiguous. */
function mistake({ code, message }: NodeJS.ErrnoException): string {
  const [, name = ""] = /'(?:-\w, )?(--?[^\s']*)/.exec(message) ?? [];
  if (code === "ERR_PARSE_ARGS_UNKNOWN_OPTION") {
    const isNear = (option: string) => `--${option}`.toLowerCase() === name.toLowerCase();
    const near = Object.keys(OPTIONS).find(isNear);
    return near === undefined ? `There is no ${name}` : `There is no ${name}, but --${near}`;
  }
  if (code !== "ERR_PARSE_ARGS_INVALID_OPTION_VALUE") return message.split(/[.\n]/)[0] ?? "";
  return message.includes("does not take")
    ? `${name} takes no value`
    : `${name} has no value (one that begins with a dash stands behind the equals sign of --name=VALUE)`;
}

/**
 * A script whose variable is not set gives an empty text, which would mean more than anybody wants: as a
 * location the directory it runs in, as a host every network. A password may well be empty.
 */
function refuseEmpty(values: Values): void {
  const { pwd: _, copySources: __, ...others } = values;
  for (const [name, value] of Object.entries(others)) {
    if (value === "") throw new ConfigError(`--${name} is empty.`);
  }
}

function wholeNumber(name: string, value: string, max: number): number {
  const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
  if (!(number <= max)) throw new ConfigError(`${name} ${value} is no whole number up to ${max}.`);
  return number;
}

const INTERVAL_MAX = 1_000_000;

/** A time between two runs, which is not zero. */
function interval(name: string, value: string): number {
  const seconds = wholeNumber(name, value, INTERVAL_MAX);
  if (seconds === 0) throw new ConfigError(`${name} 0 leaves no time between two runs.`);
  return seconds * 1000;
}

const LOOPBACK = /^(?:127\.[\d.]+|::1|localhost)$/i;

/** A host as URLs spell it; what can be none would never be met, and is a mistake. */
function copyHost(given: string): string {
  if (given === "*") return given;
  const wild = given.startsWith("*.") ? "*." : "";
  const name = given.slice(wild.length).replace(/^\[(.*)\]$/, "$1");
  const isName = /^(?:[\p{L}\p{N}_-]+\.)*[\p{L}\p{N}_-]+$/u.test(name);
  const inUrl = isIP(name) === 6 ? new URL(`http://[${name}]`).hostname.slice(1, -1) : "";
  const host = isName ? domainToASCII(name) : inUrl;
  if (host === "") {
    throw new ConfigError(
      `--copySources ${given} is no host: it takes names, *.domain, or * for all, with commas between.`,
    );
  }
  return wild + host;
}

type Values = ReturnType<typeof parsed>["values"];

/** The directory that --to or --from names, where the command takes it. */
function copyOf(command: Command, { to, from, inMemoryPersistence }: Values): string {
  for (const [flag, owner, value] of [
    ["--to", "backup", to],
    ["--from", "restore", from],
  ] as const) {
    if (command !== owner && value !== undefined) {
      throw new ConfigError(`${flag} belongs to the command ${owner}.`);
    }
    if (command === owner && (value === undefined || value === "")) {
      throw new ConfigError(`The command ${owner} needs ${flag} DIR.`);
    }
  }
  if (command !== "serve" && inMemoryPersistence) {
    throw new ConfigError(`The command ${command} needs data on a disk.`);
  }
  return resolve(to ?? from ?? "");
}

function oauthOf({ oauth, roles, cert, tls }: Values): Config["oauth"] {
  if (oauth === undefined) {
    if (roles !== undefined) throw new ConfigError("--roles means nothing without --oauth.");
    return "off";
  }
  if (cert === undefined && tls === undefined) {
    throw new ConfigError(
      "--oauth needs TLS, by --cert or --tls auto: tokens are taken over HTTPS only.",
    );
  }
  if (oauth === "basic") return "basic";
  if (!isTrusted(oauth)) {
    throw new ConfigError(
      `--oauth ${oauth} is neither basic nor an issuer at an address of https (or http on this machine).`,
    );
  }
  if (roles === undefined) {
    throw new ConfigError("--oauth with an issuer needs --roles, or nobody could do anything.");
  }
  return { issuer: oauth };
}

/** The password may come from the environment: everybody on the machine can read a command line. */
function tlsOf({ cert, key, tls, ...values }: Values, secret: string | undefined): TlsConfig {
  const isAsked = cert !== undefined && key === undefined;
  const pwd = values.pwd ?? (isAsked ? secret : undefined);
  if (tls !== undefined && tls !== "auto") throw new ConfigError(`--tls ${tls} is not auto.`);
  if (tls !== undefined && cert !== undefined) {
    throw new ConfigError("--tls auto makes a certificate, and --cert gives one: choose.");
  }
  if (cert === undefined) {
    if (key !== undefined || pwd !== undefined) {
      throw new ConfigError("--key and --pwd mean nothing without --cert.");
    }
    return tls === undefined ? "off" : "auto";
  }
  if ((key === undefined) === (pwd === undefined)) {
    throw new ConfigError("--cert needs either --key (PEM) or --pwd (PFX).");
  }
  return key === undefined ? { cert, password: pwd ?? "" } : { cert, key };
}

/** Reads the accounts file; throws a sentence, without showing a key. */
export const readAccounts = (path: string): Accounts =>
  readFile("--accounts", path, parseAccountsFile);

/** Reads the roles file. */
export const readRoles = (path: string): Roles => readFile("--roles", path, parseRoles);

function readFile<T>(flag: string, path: string, parse: (text: string) => T): T {
  try {
    return parse(readFileSync(path, "utf8"));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new ConfigError(
      code === undefined
        ? `${flag} ${path}: ${message}`
        : `${flag} ${path} cannot be read: ${code}.`,
    );
  }
}

function accountsOf(source: string, given: string): Accounts {
  try {
    return parseAccounts(given);
  } catch (error) {
    throw new ConfigError(`${source}: ${(error as Error).message}`);
  }
}
