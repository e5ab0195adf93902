#!/usr/bin/env node
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { flushCompileCache } from "node:module";
import type { AddressInfo, Server as NetServer } from "node:net";
import { dirname, join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY } from "./auth/accounts.ts";
import { randomIds } from "./base/ids.ts";
import { fileLog, type Log } from "./base/log.ts";
import { systemClock } from "./base/time.ts";
import { changeNotes, startChangeFeed } from "./blob/change-feed.ts";
import { Copier } from "./blob/copier.ts";
import { type LifecycleOptions, readLifecycle, startLifecycle } from "./blob/lifecycle.ts";
import { websiteService } from "./blob/website.ts";
import { type Config, ConfigError, type Endpoint, readConfig, USAGE } from "./config.ts";
import { readMark, refuseUnfinished, removeMark } from "./engine/backup-mark.ts";
import { realDisk } from "./engine/disk.ts";
import { diskFiles } from "./engine/disk-files.ts";
import { openDoor } from "./engine/door.ts";
import type { Engine } from "./engine/engine.ts";
import type { ChunkFiles } from "./engine/files.ts";
import { madeDirectory } from "./engine/made-directory.ts";
import { memoryEngine } from "./engine/memory.ts";
import { memoryFiles } from "./engine/memory-files.ts";
import { forbidden, OpenError } from "./engine/open-error.ts";
import { sqliteEngine } from "./engine/sqlite/engine.ts";
import { FileCopier } from "./file/copier.ts";
import { Fronts, type HttpPort } from "./http/fronts.ts";
import type { Service, Surroundings } from "./http/operation.ts";
import { openHere } from "./http/ports.ts";
import { httpService } from "./http/server.ts";
import { copySources } from "./http/source.ts";
import { backUp, checkStore, restore, terminal } from "./maintenance.ts";
import { openSecurity, type Security } from "./security.ts";
import { services } from "./services.ts";
import { type SmbOptions, type SmbServer, smbServer } from "./smb/server.ts";
import { Contents } from "./store/content.ts";
import { Opens } from "./store/opens.ts";
import { startSweeper } from "./store/sweeper.ts";

// Many files are synced at once, and each sync keeps a thread; read by libuv when its pool begins.
process.env.UV_THREADPOOL_SIZE ??= "16";

// A server runs the same code for ever: V8 should optimize it soon, not after the caution that suits a web
// page. Measured: docs/decisions/0005-early-optimization.md.
for (const flag of [
  "--always-sparkplug",
  "--no-lazy-feedback-allocation",
  "--invocation-count-for-turbofan=500",
  "--minimum-invocations-after-ic-update=50",
  "--external-memory-accounted-in-global-limit",
]) {
  setFlagsFromString(flag);
}

const say = (line: string) => void process.stdout.write(`${line}\n`);
for (const out of [process.stdout, process.stderr]) {
  out.on("error", () => {}); // who reads what is said may go, as behind `| head`; what is served goes on
}

async function main(): Promise<void> {
  const config = readConfig(process.argv.slice(2), process.env);
  if (config.command === "help") return say(USAGE);
  if (config.command === "version") return say("lazuli 0.1.0");
  process.umask(0o077); // what is made from here on holds data, in whatever directory it lies
  const { log, reopen } = openLog(config);
  const rules = lifecycleRules(config); // before anything is opened, so that a mistake costs nothing
  if (config.command !== "serve") {
    const problems = await maintained(config);
    process.exitCode = problems === 0 ? 0 : 1;
    return;
  }
  await serve(config, rules, await openStore(config, log), { log, reopen });
}

/** The commands that do not serve; gives how many problems they met. */
function maintained({ command, location, copy }: Config): Promise<number> {
  const out = terminal(process.stdout, process.stderr);
  if (command === "backup") return backUp(location, copy, out);
  if (command === "restore") return restore(copy, location, out);
  return checkStore(location, out);
}

/** The rules of --lifecycle; a file with mistakes is told of, each in a sentence. */
function lifecycleRules({ lifecycleFile: file }: Config): LifecycleOptions["rules"] {
  if (file === undefined) return [];
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new ConfigError(`--lifecycle ${file} cannot be read: ${(error as Error).message}.`);
  }
  const policy = readLifecycle(text);
  if ("rules" in policy) return policy.rules;
  const problems = policy.problems.map((problem) => `--lifecycle ${file}: ${problem}`);
  throw new ConfigError(problems.join("\n"));
}

type Logging = {
  readonly log: Log;
  /** Goes on in a new file of the same name, once the old one was moved away; undefined if there is none. */
  readonly reopen: (() => void) | undefined;
};

function openLog({ debugFile, logLevel }: Config): Logging {
  const now = () => systemClock.now();
  if (debugFile === undefined) {
    return { log: fileLog({ descriptor: 2 }, logLevel, now), reopen: undefined };
  }
  madeDirectory(dirname(debugFile)); // it may be the data directory, which is made later
  try {
    const file = { descriptor: openSync(debugFile, "a") };
    const log = fileLog(file, "debug", now);
    const reopen = () => {
      log.flush();
      try {
        const next = openSync(debugFile, "a");
        closeSync(file.descriptor);
        file.descriptor = next;
      } catch (error) {
        log.error("the log stays in the file that it was in", { error: String(error) });
      }
    };
    return { log, reopen };
  } catch (error) {
    throw new ConfigError(`--debug ${debugFile} cannot be written: ${(error as Error).message}.`);
  }
}

type Store = {
  readonly engine: Engine;
  readonly files: ChunkFiles;
  /** Where backups and checks come in, if others could. */
  readonly door?: { close(): void };
};

async function openStore({ inMemory, location: directory }: Config, log: Log): Promise<Store> {
  const clock = systemClock;
  if (inMemory) return { engine: memoryEngine({ clock }), files: memoryFiles(randomIds) };
  madeDirectory(directory);
  const onFatal = (error: unknown) => {
    log.error(
      "the disk failed to sync; what was acknowledged is safe, and a restart goes on from there",
      {
        error: String(error),
      },
    );
    process.exit(1);
  };
  refuseUnfinished(directory);
  const engine = await sqliteEngine({ directory, clock, disk: realDisk, log, onFatal });
  // From now on a backup that is served is a data directory like any other.
  if (readMark(directory) !== undefined) await removeMark(directory, realDisk);
  const files = await diskFiles({ directory, disk: realDisk, ids: randomIds, log }).catch(
    (error) => {
      throw forbidden(error, directory);
    },
  );
  return { engine, files, door: await openDoor(directory, { engine, files }, log) };
}

async function serve(
  config: Config,
  rules: LifecycleOptions["rules"],
  { engine, files, door }: Store,
  { log, reopen }: Logging,
): Promise<void> {
  const contents = new Contents(engine, files);
  const { rehydrateMs, versioning, immutableStorage, containerRetentionDays } = config;
  const settings = { rehydrateMs, versioning, immutableStorage, containerRetentionDays };
  const security = openSecurity(config, log);
  const { authority, tls } = security;
  const fronts =
    config.httpThreads === 0
      ? undefined
      : new Fronts(config.httpThreads, {
          accounts: () => authority.accounts(),
          onFatal(error) {
            log.error("a thread of HTTP failed", {
              error: String((error as Error).stack ?? error),
            });
            process.exit(1);
          },
        });
  const doors: Surroundings["doors"] = new Map();
  const ports = new Map<number, Service>();
  const sources = copySources({
    ...{ doors, ports, hosts: config.copyHosts },
    isLocal: config.isLocal,
  });
  const copier = { wake: () => {} };
  const around: Surroundings = {
    contents,
    opens: new Opens(),
    ids: randomIds,
    log,
    settings,
    authority,
    doors,
    sources,
    copies: copier,
    ...(config.changeFeedMs === undefined ? {} : { changes: changeNotes({ ids: randomIds }) }),
  };
  const opened = new Map<Service, HttpPort>();
  for (const service of services) {
    const { name } = service;
    const served = httpService({ service, engine, around, tls, clock: systemClock, log });
    const options = { service: name, serve: served, tls, ...config.endpoints[name] };
    const port = await openPort(name, options, (each) =>
      fronts === undefined ? openHere(each, systemClock) : fronts.open(each),
    );
    security.attach(port);
    opened.set(name, port);
    ports.set(port.address.port, name);
  }
  const webOptions = { serve: websiteService({ engine, around, tls, log }), tls };
  const website = await openPort("web", { ...webOptions, ...config.website }, (each) =>
    openHere(each, systemClock),
  );
  security.attach(website);
  const smb = await listenSmb(config, { engine, contents, opens: around.opens, authority, log });
  const copies = [new Copier({ engine, around, log }), new FileCopier({ engine, around, log })];
  const asleep = (error: unknown) => log.error("copies wait", { error: String(error) });
  copier.wake = () => {
    for (const each of copies) void each.wake().catch(asleep);
  };
  copier.wake();
  const sweeper = startSweeper({ engine, files, contents, log }, systemClock);
  const names = () => authority.accounts().keys();
  const feed =
    config.changeFeedMs === undefined
      ? undefined
      : startChangeFeed({ engine, around, accounts: names, log, intervalMs: config.changeFeedMs });
  const lifecycle =
    rules.length === 0
      ? undefined
      : startLifecycle({
          engine,
          around,
          rules,
          accounts: names,
          log,
          intervalMs: config.lifecycleMs,
        });
  const again = [security.reload, reopen].filter((each) => each !== undefined);
  const stopped = signal(again); // who reads that it is ready may stop it at once
  greet(config, security, { ports: opened, website, smb: smb?.server });
  flushCompileCache(); // for the next start, however this one ends
  await stopped;
  door?.close();
  await Promise.all([
    ...[...opened.values(), website].map((port) => port.drained()),
    smb?.drained(),
  ]);
  await fronts?.close();
  await lifecycle?.stop();
  await feed?.stop();
  await sweeper.stop();
  await Promise.all(copies.map((each) => each.stop()));
  await engine.close();
  await files.close();
  log.flush();
}

/** Opens the SMB door to the shares, if it is wanted. */
async function listenSmb(
  { smb }: Config,
  {
    authority,
    ...around
  }: Pick<SmbOptions, "engine" | "contents" | "opens" | "log"> & Pick<Surroundings, "authority">,
): Promise<SmbServer | undefined> {
  if (smb === undefined) return undefined;
  const { isEncryptionRequired } = smb;
  const made = smbServer({
    ...around,
    accounts: () => authority.accounts(),
    clock: systemClock,
    ids: randomIds,
    isEncryptionRequired,
  });
  await openPort("smb", smb, async ({ host, port }) => {
    made.server.listen(port, host);
    await once(made.server, "listening");
  });
  return made;
}

/** Opens one of the doors, or tells in a sentence why it cannot be opened. */
async function openPort<O extends Endpoint, P>(
  name: Service | "web" | "smb",
  options: O,
  open: (options: O) => Promise<P>,
): Promise<P> {
  const { host, port } = options;
  try {
    return await open(options);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new OpenError(
      code === "EADDRINUSE"
        ? `Port ${port} of ${host} is in use: choose another one with --${name}Port.`
        : `The ${name} service cannot listen on ${host}:${port}: ${message}.`,
    );
  }
}

/** Tells where the services are, and the connection string of the first account. */
function greet(
  config: Config,
  security: Security,
  {
    ports,
    website,
    smb,
  }: { ports: ReadonlyMap<Service, HttpPort>; website: HttpPort; smb: NetServer | undefined },
): void {
  const { accounts, isDevelopment, isLocal, inMemory, location } = config;
  const protocol = security.tls === undefined ? "http" : "https";
  const name = accounts.keys().next().value ?? DEVELOPMENT_ACCOUNT;
  const key = isDevelopment ? DEVELOPMENT_KEY : "<key>";
  say(`Lazuli, data ${inMemory ? "in memory" : `in ${location}`}`);
  if (!inMemory && existsSync(join(location, "__azurite_db_blob__.json"))) {
    say(
      "  Azurite's data, which is there too, is not served: docs/azurite.md tells how to move it.",
    );
  }
  let connection = `DefaultEndpointsProtocol=${protocol};AccountName=${name};AccountKey=${key};`;
  for (const [service, { address }] of ports) {
    const title = service.charAt(0).toUpperCase() + service.slice(1);
    const url = `${protocol}://${hostOf(address)}/${name}`;
    say(`  ${title.padEnd(6)}${url}`);
    connection += `${title}Endpoint=${url};`;
  }
  say(`  Web   ${protocol}://${hostOf(website.address)}/`);
  if (smb !== undefined) say(`  Smb   ${hostOf(smb.address() as AddressInfo)}`);
  say(`  ${connection}`);
  if (isDevelopment && !isLocal) {
    say("Others than this machine can come, and the account's key is known to all: --help, Who.");
  }
  for (const line of security.advice) say(line);
  say("Ready");
}

function hostOf({ address, port }: AddressInfo): string {
  return `${address.includes(":") ? `[${address}]` : address}:${port}`;
}

/** Waits until the server is to stop. SIGHUP has files read or opened again, and stops it if there are none. */
async function signal(again: readonly (() => void)[]): Promise<void> {
  const ends = ["SIGTERM", "SIGINT", ...(again.length === 0 ? ["SIGHUP"] : [])];
  for (const each of again) process.on("SIGHUP", each);
  const { promise, resolve } = Promise.withResolvers<void>();
  let since: number | undefined;
  const stop = () => {
    since ??= performance.now();
    // Ctrl-C comes from the terminal, and once more from a parent; who sends it later does not want to wait.
    if (performance.now() - since > SAME_SIGNAL_MS) process.exit(1);
    resolve();
  };
  for (const name of ends) process.on(name, stop);
  await promise;
}

const SAME_SIGNAL_MS = 2000;

try {
  await main();
} catch (error) {
  if (!(error instanceof ConfigError || error instanceof OpenError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(1); // ports that were opened before one that could not be would keep the process
}
