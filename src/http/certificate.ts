import { createPrivateKey, generateKeyPairSync, X509Certificate } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { isIP } from "node:net";
import { join } from "node:path";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import type { Ids } from "../base/ids.ts";
import type { Instant } from "../base/time.ts";
import { certificatePem, type Subtree } from "../base/x509.ts";

/** Where the certificate is: PEM with its key, or PKCS #12 with its password. */
export type CertificateFiles =
  | { readonly cert: string; readonly key: string }
  | { readonly cert: string; readonly password: string };

/** Reads certificate and key; throws a sentence if they cannot be used together. */
export function readCertificate(files: CertificateFiles): SecureContextOptions {
  const options: SecureContextOptions =
    "key" in files
      ? { cert: read(files.cert), key: read(files.key) }
      : { pfx: read(files.cert), passphrase: files.password };
  try {
    createSecureContext(options);
  } catch (error) {
    const { message } = error as Error;
    const [, why] = reasons.find(([pattern]) => pattern.test(message)) ?? [];
    const kind = "key" in files ? 0 : 1;
    throw new Error(`the certificate ${files.cert} cannot be used: ${why?.[kind] ?? message}.`);
  }
  return options;
}

/** What OpenSSL's words mean for PEM and for PFX. */
const reasons: readonly (readonly [RegExp, readonly [pem: string, pfx: string]])[] = [
  [/key values mismatch/, ["the key is that of another one", "its key is that of another one"]],
  [/mac verify failure/, ["the password is wrong", "the password is wrong"]],
  [/bad decrypt|cancelled|bad password/, ["the key needs a password", "the password is wrong"]],
  [
    /no start line|bad end line|bad base64|wrong tag|not enough data|too long|header|asn1|unsupported/i,
    ["it or its key is not written in PEM", "it is no PFX file"],
  ],
];

/** When a certificate in PEM ends; undefined for others, and for what is none. */
export function endOf({ cert }: SecureContextOptions): Instant | undefined {
  if (!Buffer.isBuffer(cert)) return undefined;
  return new X509Certificate(cert).validToDate.getTime();
}

function read(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(`${path} cannot be read: ${(error as Error).message}.`);
  }
}

const DAY_MS = 24 * 60 * 60 * 1000;
const AUTHORITY_DAYS = 3650;
const SERVER_DAYS = 397;
const RENEW_DAYS = 30;
const SERVICES = ["blob", "queue", "table", "file", "dfs"];

/** An authority of this machine alone, and the certificate it made for the server. */
export type Development = {
  /** The file to be trusted. */
  readonly authority: string;
  /** Whether it was made just now, so that nobody trusts it yet. */
  readonly isNew: boolean;
  readonly files: CertificateFiles;
};

export type DevelopmentOptions = {
  readonly directory: string;
  /** Addresses and names that the server is reached by, beside this machine's own. */
  readonly hosts: readonly string[];
  readonly now: Instant;
  readonly ids: Ids;
};

/**
 * Makes a certificate authority and a certificate by it, or finds those of the last time. The authority can
 * vouch for this machine's names and private addresses only, so that its key, if stolen, opens nothing else.
 */
export function developmentCertificate(options: DevelopmentOptions): Development {
  const { directory, now, ids } = options;
  const hosts = hostsOf(options.hosts);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const at = (name: string) => join(directory, name);
  const scope = JSON.stringify({ domains: domainsOf(hosts), addresses: strangersOf(hosts) });
  const isNew = !(isFresh(at("ca.crt"), now) && textOf(at("ca.json")) === scope);
  if (isNew) makeAuthority(options, at, hosts, scope);
  const serial = () => ids.guid().replaceAll("-", "").replace(/^./, "1");
  const listed = JSON.stringify(hosts);
  if (isNew || !isFresh(at("server.crt"), now) || textOf(at("server.json")) !== listed) {
    const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const authority = new X509Certificate(readFileSync(at("ca.crt")));
    const signer = {
      privateKey: createPrivateKey(readFileSync(at("ca.key"))),
      publicKey: authority.publicKey,
    };
    const pem = certificatePem({
      subject: "Lazuli",
      issuer: authority.subject.replace(/^CN=/, ""),
      serial: serial(),
      from: now - DAY_MS,
      to: now + SERVER_DAYS * DAY_MS,
      publicKey,
      signer,
      use: { kind: "server", hosts },
    });
    save(at("server.key"), privateKey.export({ type: "pkcs8", format: "pem" }).toString());
    save(at("server.crt"), pem);
    save(at("server.json"), listed);
  }
  const files = { cert: at("server.crt"), key: at("server.key") };
  return { authority: at("ca.crt"), isNew, files };
}

function makeAuthority(
  { now, ids }: DevelopmentOptions,
  at: (name: string) => string,
  hosts: readonly string[],
  scope: string,
): void {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  // Each has a name of its own, so that one which is trusted is not taken for another.
  const id = ids.guid().replaceAll("-", "");
  const name = `Lazuli development authority ${id.slice(0, 8)}`;
  const names: Subtree[] = [
    ...domainsOf(hosts).map((domain) => ({ domain })),
    ...strangersOf(hosts).map((address) => ({ address, bits: address.includes(":") ? 128 : 32 })),
    ...PRIVATE,
  ];
  const pem = certificatePem({
    subject: name,
    issuer: name,
    serial: id.replace(/^./, "1"),
    from: now - DAY_MS,
    to: now + AUTHORITY_DAYS * DAY_MS,
    publicKey,
    signer: { privateKey, publicKey },
    use: { kind: "authority", names },
  });
  save(at("ca.key"), privateKey.export({ type: "pkcs8", format: "pem" }).toString());
  save(at("ca.crt"), pem);
  save(at("ca.json"), scope);
}

const PRIVATE: readonly Subtree[] = [
  { address: "127.0.0.0", bits: 8 },
  { address: "10.0.0.0", bits: 8 },
  { address: "172.16.0.0", bits: 12 },
  { address: "192.168.0.0", bits: 16 },
  { address: "169.254.0.0", bits: 16 },
  { address: "::1", bits: 128 },
  { address: "fc00::", bits: 7 },
  { address: "fe80::", bits: 10 },
];

const LOCAL = ["localhost", "127.0.0.1", "::1", ...SERVICES.map((name) => `*.${name}.localhost`)];

const hostsOf = (given: readonly string[]): string[] => {
  const named = given.filter((host) => host !== "0.0.0.0" && host !== "::");
  return [...new Set([...LOCAL, ...named])];
};

/** The domains that an authority for these hosts needs; all below `localhost` goes with it. */
const domainsOf = (hosts: readonly string[]): string[] =>
  hosts.filter((host) => isIP(host) === 0 && !host.endsWith(".localhost")).sort();

/** The addresses among them that are not private. */
const strangersOf = (hosts: readonly string[]): string[] =>
  hosts.filter((host) => isIP(host) !== 0 && !/^(127|10|192\.168)\.|^::1$/.test(host)).sort();

function isFresh(path: string, now: Instant): boolean {
  if (!existsSync(path)) return false;
  try {
    const { validToDate } = new X509Certificate(readFileSync(path));
    return validToDate.getTime() - now > RENEW_DAYS * DAY_MS;
  } catch {
    return false;
  }
}

function textOf(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, "utf8") : undefined;
}

/** Whole or not at all, and for nobody else to read. */
function save(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
