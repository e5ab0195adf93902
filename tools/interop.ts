import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { ShareServiceClient } from "@azure/storage-file-share";

/**
 * The SMB server before foreign clients: smbclient in every dialect, Samba's own test suite, impacket.
 * Debian's packages are installed if they are missing and that is possible; with --ifPossible it is no failure
 * if it is not.
 */
const { values, positionals } = parseArgs({
  options: {
    ifPossible: { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
  },
  allowPositionals: true,
});

const ACCOUNT = "devstoreaccount1";
const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** What a server like Azure Files has to do; the names are smbtorture's. */
const SUITES = (
  "connect tcon session session-id create read rw mkdir dir fileid getinfo setinfo rename openattr winattr " +
  "maxfid timestamps sharemode deny delete-on-close-perms lock compound compound_find compound_async credits " +
  "oplock lease durable-open durable-v2-open durable-open-disconnect notify ioctl create_no_streams " +
  "maximum_allowed secleak charset"
).split(" ");
const QUICK = "connect tcon session-id create read rw rename sharemode lock compound credits".split(
  " ",
);

/** Where we answer otherwise than Samba, and mean to: docs/smb.md tells the same. */
const SUPERUSER =
  "the account's key opens everything, whatever the access list says, as in Azure Files";
const ANONYMOUS = "nobody logs on without a key";
const AT_ONCE =
  "a write changes the time at once, as Windows does and later versions of this test ask for";
const differences: Readonly<Record<string, string>> = {
  "smb2.session.reauth2": ANONYMOUS,
  "smb2.session.reauth3": ANONYMOUS,
  "smb2.create.nulldacl": SUPERUSER,
  "smb2.compound.related4": SUPERUSER,
  "smb2.compound.related7": SUPERUSER,
  "smb2.delete-on-close-perms.OVERWRITE_IF Existing": SUPERUSER,
  "smb2.delete-on-close-perms.CREATE_IF Existing": SUPERUSER,
  "smb2.timestamps.delayed-write-vs-seteof": AT_ONCE,
  "smb2.timestamps.delayed-write-vs-flush": AT_ONCE,
  "smb2.timestamps.delayed-write-vs-setbasic": AT_ONCE,
  "smb2.timestamps.delayed-2write": AT_ONCE,
  "smb2.notify.mask-change":
    "a directory that is open without sharing deletion keeps its files from being renamed: smb2.rename asks for it, and Samba fails there",
};

const SUITE_LIMIT_MS = 240_000;
const say = (line: string) => void process.stdout.write(`${line}\n`);

function giveUp(why: string): never {
  say(why);
  process.exit(values.ifPossible ? 0 : 1);
}

const has = (program: string) => spawnSync("which", [program]).status === 0;
const hasImpacket = () => spawnSync("/usr/bin/python3", ["-c", "import impacket"]).status === 0;

function install(): void {
  if (has("smbclient") && has("smbtorture") && hasImpacket()) return;
  if (process.getuid?.() !== 0 || !has("apt-get")) {
    giveUp(
      "Interop tests need smbclient, samba-testsuite and python3-impacket; only root can install them by apt.",
    );
  }
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const packages = ["smbclient", "samba-testsuite", "python3-impacket"];
  for (const args of [["update"], ["install", "-y", "--no-install-recommends", ...packages]]) {
    const { status } = spawnSync("apt-get", args, { env, stdio: "ignore", timeout: 600_000 });
    if (status !== 0) giveUp(`apt-get ${args.join(" ")} failed: no interop tests on this machine.`);
  }
}

type Server = { readonly child: ChildProcess; readonly port: number };

async function serve(directory: string): Promise<Server> {
  const ports = ["blob", "queue", "table", "file", "web"].flatMap((name) => [`--${name}Port`, "0"]);
  const args = ["src/main.ts", "--location", directory, ...ports, "--smbPort", "any"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  for await (const line of createInterface({ input: child.stdout })) {
    output += `${line}\n`;
    if (line === "Ready") break;
  }
  const connection = /^\s*(DefaultEndpointsProtocol=.*)$/m.exec(output)?.[1] ?? "";
  const port = Number(/^\s*Smb\s+[\d.]+:(\d+)$/m.exec(output)?.[1]);
  const service = ShareServiceClient.fromConnectionString(connection);
  for (const share of ["interop", "golden"]) await service.getShareClient(share).create();
  return { child, port };
}

let failures = 0;
function check(what: string, isFine: boolean, detail = ""): void {
  if (!isFine) failures++;
  say(`${isFine ? "ok  " : "FAIL"} ${what}${isFine ? "" : ` ${detail}`}`);
}

/** A file there and back, a directory, a rename and deletes, by smbclient. */
function smbclient(port: number, directory: string, args: readonly string[], what: string): void {
  const [sent, got] = [join(directory, "sent"), join(directory, "got")];
  writeFileSync(sent, Buffer.alloc(3_000_000, what));
  rmSync(got, { force: true });
  const script = [
    ...[
      `put ${sent} f`,
      "mkdir d",
      `put ${sent} d/g`,
      "rename d/g d/h",
      "ls d/*",
      `get d/h ${got}`,
    ],
    ...["del d/h", "rmdir d", "del f"],
  ];
  const { status, stdout } = spawnSync(
    "smbclient",
    [
      "//127.0.0.1/interop",
      "-p",
      String(port),
      "-U",
      `${ACCOUNT}%${KEY}`,
      ...args,
      "-c",
      script.join(";"),
    ],
    { encoding: "utf8", timeout: 60_000 },
  );
  const isSame = existsSync(got) && readFileSync(got).equals(readFileSync(sent));
  check(
    `smbclient ${what}`,
    status === 0 && isSame && !stdout.includes("NT_STATUS"),
    stdout.slice(-300),
  );
}

function clients(port: number, directory: string): void {
  for (const dialect of ["SMB2_02", "SMB2_10", "SMB3_00", "SMB3_02", "SMB3_11"]) {
    for (const protection of ["off", "sign", "encrypt"]) {
      if (protection === "encrypt" && dialect.startsWith("SMB2")) continue;
      const args = ["-m", dialect, `--client-protection=${protection}`];
      smbclient(port, directory, args, `${dialect} ${protection}`);
    }
  }
  for (const cipher of ["AES-128-CCM", "AES-128-GCM", "AES-256-CCM", "AES-256-GCM"]) {
    const option = `--option=client smb3 encryption algorithms=${cipher}`;
    smbclient(port, directory, ["-m", "SMB3_11", "--client-protection=encrypt", option], cipher);
  }
  for (const signing of ["HMAC-SHA256", "AES-128-CMAC", "AES-128-GMAC"]) {
    const option = `--option=client smb3 signing algorithms=${signing}`;
    smbclient(port, directory, ["-m", "SMB3_11", "--client-protection=sign", option], signing);
  }
  const listed = spawnSync(
    "smbclient",
    ["-L", "127.0.0.1", "-p", String(port), "-U", `${ACCOUNT}%${KEY}`],
    {
      encoding: "utf8",
      timeout: 60_000,
    },
  );
  check("smbclient -L", /interop\s+Disk/.test(listed.stdout), listed.stdout);
  for (const [who, args] of [
    ["nobody", ["-N"]],
    ["a wrong key", ["-U", `${ACCOUNT}%wrong`]],
  ] as const) {
    const { status } = spawnSync(
      "smbclient",
      ["//127.0.0.1/interop", "-p", String(port), ...args, "-c", "ls"],
      {
        timeout: 60_000,
      },
    );
    check(`smbclient as ${who} is refused`, status !== 0);
  }
}

function impacket(port: number): void {
  const script = `
import sys
from impacket.smbconnection import SMBConnection
from impacket.smb3structs import *
for dialect in (SMB2_DIALECT_002, SMB2_DIALECT_21, SMB2_DIALECT_30):
    c = SMBConnection('127.0.0.1', '127.0.0.1', sess_port=${port}, preferredDialect=dialect, timeout=30)
    c.login('${ACCOUNT}', '${KEY}')
    assert 'interop' in [s['shi1_netname'][:-1] for s in c.listShares()]
    c.putFile('interop', 'by-impacket', iter([b'hello', b'']).__next__)
    c.deleteFile('interop', 'by-impacket')
`;
  const { status, stderr } = spawnSync("/usr/bin/python3", ["-c", script], {
    encoding: "utf8",
    timeout: 60_000,
  });
  check("impacket at 2.0.2, 2.1 and 3.0", status === 0, stderr.slice(-300));
}

/** The outcomes of one suite by test. */
async function torture(port: number, home: string, suite: string): Promise<Map<string, string>> {
  const outcomes = new Map<string, string>();
  const args = [
    "//127.0.0.1/interop",
    "-p",
    String(port),
    "-s",
    join(home, "smb.conf"),
    "-A",
    join(home, "login"),
  ];
  const child = spawn("smbtorture", [...args, "--basedir", home, "--fullname", `smb2.${suite}`], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const limit = setTimeout(() => child.kill("SIGKILL"), SUITE_LIMIT_MS);
  for await (const line of createInterface({ input: child.stdout })) {
    const [, word, name = ""] = /^(success|failure|error|skip): (.*?)(?: \[)?$/.exec(line) ?? [];
    if (word !== undefined) outcomes.set(name, word);
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  clearTimeout(limit);
  return outcomes;
}

async function torturing(
  port: number,
  directory: string,
  suites: readonly string[],
): Promise<void> {
  const folders = [
    "private dir",
    "lock directory",
    "state directory",
    "cache directory",
    "pid directory",
    "ncalrpc dir",
  ];
  const lines = [
    "[global]",
    "client min protocol = SMB2_02",
    ...folders.map((name) => `${name} = ${directory}`),
  ];
  writeFileSync(join(directory, "smb.conf"), `${lines.join("\n")}\n`);
  writeFileSync(join(directory, "login"), `username = ${ACCOUNT}\npassword = ${KEY}\n`, {
    mode: 0o600,
  });
  const passes = readFileSync(new URL("../test/interop/samba-passes.txt", import.meta.url), "utf8")
    .trim()
    .split("\n");
  for (const suite of suites) {
    const outcomes = await torture(port, directory, suite);
    const ofSuite = (name: string) => name === `smb2.${suite}` || name.startsWith(`smb2.${suite}.`);
    const behind = passes.filter((name) => ofSuite(name) && outcomes.get(name) !== "success");
    const count = (word: string) => [...outcomes.values()].filter((each) => each === word).length;
    const unexplained = behind.filter((name) => differences[name] === undefined);
    const figures = `${count("success")} passed, ${count("failure") + count("error")} failed, ${count("skip")} skipped`;
    check(
      `smbtorture ${suite}: ${figures}`,
      unexplained.length === 0,
      `behind Samba: ${unexplained.join(", ")}`,
    );
    for (const name of behind) if (differences[name]) say(`       ${name}: ${differences[name]}`);
  }
}

install();
const directory = mkdtempSync(join(tmpdir(), "lazuli-interop-"));
const { child, port } = await serve(join(directory, "data"));
try {
  if (positionals.length === 0) {
    clients(port, directory);
    impacket(port);
  }
  await torturing(
    port,
    directory,
    positionals.length > 0 ? positionals : values.quick ? QUICK : SUITES,
  );
  check("the server is still there", child.exitCode === null);
} finally {
  child.kill("SIGTERM");
  if (child.exitCode === null) await once(child, "exit");
  rmSync(directory, { recursive: true, force: true });
}
say(failures === 0 ? "All is well." : `${failures} failed.`);
process.exitCode = failures === 0 ? 0 : 1;
