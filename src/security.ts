import { hostname } from "node:os";
import { join } from "node:path";
import type { SecureContextOptions } from "node:tls";
import type { Authority } from "./auth/authorize.ts";
import { basicTokens, issuerTokens, type Tokens } from "./auth/tokens.ts";
import { randomIds } from "./base/ids.ts";
import type { Log } from "./base/log.ts";
import { type Reloaded, reloaded } from "./base/reloaded.ts";
import { systemClock } from "./base/time.ts";
import { type Config, ConfigError, readAccounts, readRoles } from "./config.ts";
import {
  type CertificateFiles,
  developmentCertificate,
  endOf,
  readCertificate,
} from "./http/certificate.ts";

/** Who may come, and what the server proves itself with; both follow their files while it runs. */
export type Security = {
  readonly authority: Authority;
  readonly tls: SecureContextOptions | undefined;
  /** What people should be told at the start. */
  readonly advice: readonly string[];
  /** Keeps a server's certificate up to date. */
  attach(port: { setCertificate(tls: SecureContextOptions): void }): void;
  /** Reads all files again; undefined if there are none. */
  readonly reload: (() => void) | undefined;
};

export function openSecurity(config: Config, log: Log): Security {
  const { accountsFile, rolesFile } = config;
  const accounts =
    accountsFile === undefined
      ? undefined
      : reloaded({
          what: "the accounts",
          paths: [accountsFile],
          read: () => readAccounts(accountsFile),
          log,
        });
  const roles =
    rolesFile === undefined
      ? undefined
      : reloaded({ what: "the roles", paths: [rolesFile], read: () => readRoles(rolesFile), log });
  const ports: Parameters<Security["attach"]>[0][] = [];
  const { certificate, advice } = openCertificate(config, log, (options) => {
    for (const port of ports) port.setCertificate({ ...options, minVersion: "TLSv1.2" });
  });
  const followed = [accounts, roles, certificate].filter((file) => file !== undefined);
  return {
    authority: {
      accounts: () => accounts?.get() ?? config.accounts,
      roles: () => roles?.get(),
      tokens: tokensOf(config, log),
    },
    tls: certificate?.get(),
    advice,
    attach: (port) => void ports.push(port),
    reload:
      followed.length === 0
        ? undefined
        : () => {
            for (const file of followed) file.reload();
          },
  };
}

function tokensOf({ oauth }: Config, log: Log): Tokens | undefined {
  if (oauth === "off") return undefined;
  if (oauth === "basic") return basicTokens(systemClock);
  return issuerTokens({ issuer: oauth.issuer, clock: systemClock, log });
}

type Certified = {
  readonly certificate: Reloaded<SecureContextOptions> | undefined;
  readonly advice: readonly string[];
};

const RENEWAL_CHECK_MS = 12 * 60 * 60 * 1000;

function openCertificate(
  config: Config,
  log: Log,
  onChange: (options: SecureContextOptions) => void,
): Certified {
  if (config.tls === "off") return { certificate: undefined, advice: [] };
  const follow = (files: CertificateFiles) =>
    reloaded({
      what: "the certificates",
      paths: "key" in files ? [files.cert, files.key] : [files.cert],
      read() {
        const certificate = readCertificate(files);
        const end = endOf(certificate) ?? Number.POSITIVE_INFINITY;
        if (end <= systemClock.now()) {
          const ended = new Date(end).toISOString();
          log.warn("the certificate has expired: clients refuse it", { file: files.cert, ended });
        }
        return certificate;
      },
      log,
      onChange,
    });
  try {
    if (config.tls !== "auto") return { certificate: follow(config.tls), advice: [] };
    const directory = join(config.location, "tls");
    const given = Object.values(config.endpoints).map(({ host }) => host);
    const isOpen = given.some((host) => host === "0.0.0.0" || host === "::");
    const hosts = isOpen ? [...given, hostname()] : given;
    const made = () =>
      developmentCertificate({ directory, hosts, now: systemClock.now(), ids: randomIds });
    const { authority, isNew, files } = made();
    setInterval(made, RENEWAL_CHECK_MS).unref(); // one that is made anew is read like any other change
    return { certificate: follow(files), advice: adviceOn(authority, isNew) };
  } catch (error) {
    throw new ConfigError(`TLS cannot be set up: ${(error as Error).message}`);
  }
}

const adviceOn = (path: string, isNew: boolean): string[] => [
  `TLS by the development authority ${path}${isNew ? ", made just now" : ""}; to trust it:`,
  `  Node      NODE_EXTRA_CA_CERTS=${path}`,
  `  curl      --cacert ${path}`,
  `  Python    REQUESTS_CA_BUNDLE=${path}`,
  `  Debian    sudo cp ${path} /usr/local/share/ca-certificates/lazuli.crt && sudo update-ca-certificates`,
  `  macOS     sudo security add-trusted-cert -d -k /Library/Keychains/System.keychain ${path}`,
  `  Windows   certutil -addstore Root ${path}`,
];
