import assert from "node:assert/strict";
import { resolve } from "node:path";
import { test } from "node:test";
import { DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY } from "./auth/accounts.ts";
import { type Config, ConfigError, readConfig, USAGE } from "./config.ts";

// DESIGN 7: Azurite's flags, ports and development account.
const key = Buffer.from("a key").toString("base64");

const at = (port: number) => ({ host: "127.0.0.1", port });
const ENDPOINTS = { blob: at(10_000), queue: at(10_001), table: at(10_002), file: at(10_003) };

const flags: [argv: string, want: Partial<Config>][] = [
  ["", { command: "serve", inMemory: false, endpoints: ENDPOINTS }],
  ["", { logLevel: "warn", debugFile: undefined, isDevelopment: true, rehydrateMs: 10_000 }],
  ["", { location: resolve("data") }],
  ["serve", { command: "serve" }],
  ["check", { command: "check" }],
  ["check --location /tmp/x", { command: "check", location: "/tmp/x" }],
  ["backup --to /tmp/x", { command: "backup", copy: "/tmp/x" }],
  ["restore --from /tmp/x -l /tmp/y", { command: "restore", copy: "/tmp/x", location: "/tmp/y" }],
  ["--help", { command: "help" }],
  ["-h", { command: "help" }],
  ["--version", { command: "version" }],
  ["-v", { command: "version" }],
  ["--location /tmp/x", { location: "/tmp/x" }],
  ["--location=/tmp/x", { location: "/tmp/x" }],
  ["-l /tmp/x", { location: "/tmp/x" }],
  ["--location some/where", { location: resolve("some/where") }],
  ["--inMemoryPersistence", { inMemory: true }],
  ["--blobHost 0.0.0.0", { endpoints: { ...ENDPOINTS, blob: { host: "0.0.0.0", port: 10_000 } } }],
  ["--blobPort 0", { endpoints: { ...ENDPOINTS, blob: at(0) } }],
  ["--blobPort 65535", { endpoints: { ...ENDPOINTS, blob: at(65_535) } }],
  ["--logLevel debug", { logLevel: "debug" }],
  ["--logLevel info", { logLevel: "info" }],
  ["--logLevel error", { logLevel: "error" }],
  ["--logLevel off", { logLevel: "off" }],
  ["--silent", { logLevel: "off" }],
  ["-s", { logLevel: "off" }],
  ["--debug /tmp/log", { debugFile: "/tmp/log" }],
  ["-d /tmp/log", { debugFile: "/tmp/log" }],
  ["--rehydrateDelay 0", { rehydrateMs: 0 }],
  ["--rehydrateDelay 3", { rehydrateMs: 3_000 }],
  ["--queuePort 10001 --tablePort 10002 --filePort 10003 --smbPort 10445", { command: "serve" }],
  [
    "--queueHost a --tableHost b --fileHost c --smbHost d",
    {
      endpoints: {
        blob: at(10_000),
        queue: { host: "a", port: 10_001 },
        table: { host: "b", port: 10_002 },
        file: { host: "c", port: 10_003 },
      },
    },
  ],
  ["--skipApiVersionCheck --disableTelemetry --loose -L", { command: "serve" }],
  ["--inMemoryPersistence --extentMemoryLimit 512", { inMemory: true }],
  ["--disableProductStyleUrl", { command: "serve" }],
  [
    "--blobKeepAliveTimeout 5 --queueKeepAliveTimeout 5 --tableKeepAliveTimeout 5",
    { command: "serve" },
  ],
  ["", { oauth: "off", tls: "off", accountsFile: undefined, rolesFile: undefined }],
  ["--tls auto", { tls: "auto" }],
  ["--copySources *", { copyHosts: ["*"] }],
  ["--copySources a.de,*.B.de,,[::1]", { copyHosts: ["a.de", "*.b.de", "::1"] }],
  ["--copySources 10.1.2.3,bücher.de", { copyHosts: ["10.1.2.3", "xn--bcher-kva.de"] }],
  ["", { isLocal: true }],
  ["--blobHost localhost --queueHost ::1 --tableHost 127.0.0.2", { isLocal: true }],
  ["--fileHost 0.0.0.0", { isLocal: false }],
  ["--blobHost store.lan", { isLocal: false }],
  ["--cert c --key k", { tls: { cert: "c", key: "k" } }],
  ["--cert c --pwd p", { tls: { cert: "c", password: "p" } }],
  ["--oauth basic --tls auto", { oauth: "basic" }],
  ["--oauth basic --cert c --key k --roles r", { oauth: "basic", rolesFile: "r" }],
  [
    "--oauth https://login.test/t --tls auto --roles r",
    { oauth: { issuer: "https://login.test/t" }, rolesFile: "r" },
  ],
];
for (const [argv, want] of flags) {
  test(`readConfig(): "${argv}" means ${JSON.stringify(want)}`, () => {
    const config = readConfig(argv.split(" ").filter(Boolean), {});
    const got = Object.fromEntries(
      Object.keys(want).map((name) => [name, config[name as keyof Config]]),
    );
    assert.deepEqual(got, want);
  });
}

test("readConfig(): gives one frozen value", () => assert.ok(Object.isFrozen(readConfig([], {}))));

type Env = NodeJS.ProcessEnv;
const environments: [what: string, env: Env, names: string[], isDevelopment: boolean][] = [
  ["nothing is the development account", {}, [DEVELOPMENT_ACCOUNT], true],
  ["LAZULI_ACCOUNTS", { LAZULI_ACCOUNTS: `abc:${key};def:${key}:${key}` }, ["abc", "def"], false],
  ["AZURITE_ACCOUNTS", { AZURITE_ACCOUNTS: `abc:${key}` }, ["abc"], false],
  [
    "LAZULI_ACCOUNTS beats AZURITE_ACCOUNTS",
    { LAZULI_ACCOUNTS: `abc:${key}`, AZURITE_ACCOUNTS: `def:${key}` },
    ["abc"],
    false,
  ],
];
for (const [what, env, names, isDevelopment] of environments) {
  test(`readConfig(): ${what}`, () => {
    const config = readConfig([], env);
    assert.deepEqual([...config.accounts.keys()], names);
    assert.equal(config.isDevelopment, isDevelopment);
  });
}

test("readConfig(): a password that is not on the command line comes from LAZULI_PWD", () => {
  const env = { LAZULI_PWD: "secret" };
  const tls = (argv: string) => readConfig(argv.split(" "), env).tls;
  assert.deepEqual(tls("--cert c"), { cert: "c", password: "secret" });
  assert.deepEqual(tls("--cert c --pwd p"), { cert: "c", password: "p" });
  assert.deepEqual(tls("--cert c --key k"), { cert: "c", key: "k" });
  assert.equal(tls("--silent"), "off");
});

test("readConfig(): the development account has its well-known key", () => {
  const exported = readConfig([], {}).accounts.get(DEVELOPMENT_ACCOUNT)?.keys[0]?.export();
  assert.equal(exported?.toString("base64"), DEVELOPMENT_KEY);
});

// What is wrong is one sentence, on one line, that names what was given.
const bad: [argv: string, env: Env, says: string][] = [
  ["--blobPort 65536", {}, "--blobPort 65536"],
  ["--blobPort -1", {}, "blobPort"],
  ["backup", {}, "backup needs --to DIR"],
  ["restore -l x", {}, "restore needs --from DIR"],
  ["check --to x", {}, "--to belongs to the command backup"],
  ["backup --to x --from y", {}, "--from belongs to the command restore"],
  ["check --inMemoryPersistence", {}, "check needs data on a disk"],
  ["--blobPort=-1", {}, "--blobPort -1"],
  ["--blobPort ten", {}, "--blobPort ten"],
  ["--blobPort 1.5", {}, "--blobPort 1.5"],
  ["--blobPort=", {}, "--blobPort"],
  ["--blobPort", {}, "blobPort"],
  ["--location=", {}, "--location is empty"],
  ["--blobHost=", {}, "--blobHost is empty"],
  ["--accounts=", {}, "--accounts is empty"],
  ["--queuePort x", {}, "--queuePort x"],
  ["--smbPort 70000", {}, "--smbPort 70000"],
  ["--logLevel loud", {}, "--logLevel loud"],
  ["--rehydrateDelay soon", {}, "--rehydrateDelay soon"],
  ["--rehydrateDelay=-1", {}, "--rehydrateDelay -1"],
  ["--location", {}, "--location has no value"],
  ["--location --silent", {}, "--location has no value"],
  ["-l -s", {}, "-l has no value"],
  ["--blobport 1", {}, "no --blobport, but --blobPort"],
  ["--copySources ***", {}, "--copySources *** is no host"],
  ["--copySources http://x/", {}, "--copySources http://x/ is no host"],
  ["--copySources a,b:80", {}, "--copySources b:80 is no host"],
  ["--copySources *.", {}, "--copySources *. is no host"],
  ["--tls yes", {}, "--tls yes"],
  ["--tls auto --cert c --key k", {}, "choose"],
  ["--cert c", {}, "--cert"],
  ["--cert c --key k --pwd p", {}, "--cert"],
  ["--key k", {}, "--cert"],
  ["--oauth basic", {}, "TLS"],
  ["--oauth http://login.test --tls auto --roles r", {}, "http://login.test"],
  ["--oauth https://login.test --tls auto", {}, "--roles"],
  ["--roles r", {}, "--oauth"],
  ["--accounts nowhere.json", {}, "nowhere.json cannot be read"],
  ["--accounts README.md", {}, "README.md"],
  ["--nonsense", {}, "--nonsense"],
  ["-z", {}, "-z"],
  ["--silent=yes", {}, "--silent takes no value"],
  ["dance", {}, "dance"],
  ["serve twice", {}, "serve twice"],
  ["", { LAZULI_ACCOUNTS: "abc" }, "abc"],
  ["", { LAZULI_ACCOUNTS: "" }, "LAZULI_ACCOUNTS"],
  ["", { LAZULI_ACCOUNTS: `A:${key}` }, "LAZULI_ACCOUNTS"],
  ["", { LAZULI_ACCOUNTS: "abc:!" }, "LAZULI_ACCOUNTS"],
  ["", { LAZULI_ACCOUNTS: key }, "LAZULI_ACCOUNTS"],
  ["", { AZURITE_ACCOUNTS: "abc" }, "abc"],
];
for (const [argv, env, says] of bad) {
  test(`readConfig(): "${argv}" ${JSON.stringify(env)} is refused in one sentence`, () =>
    assert.throws(
      () => readConfig(argv.split(" ").filter(Boolean), env),
      (error) => {
        assert.ok(error instanceof ConfigError);
        assert.match(error.message, /^[^\n]+\.$/);
        assert.ok(error.message.includes(says), error.message);
        assert.ok(!error.message.includes(key), "no key is shown");
        return true;
      },
    ));
}

test("USAGE: names every flag that means something", () => {
  const names =
    "location inMemoryPersistence blobHost blobPort logLevel silent debug rehydrateDelay accounts oauth roles cert key pwd tls";
  for (const name of names.split(" ")) assert.ok(USAGE.includes(`--${name}`), name);
});
