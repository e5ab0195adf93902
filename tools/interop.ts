import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { ACCOUNT, KEY, type Served, served } from "../test/interop/server.ts";
import {
  differences,
  passesOfSamba,
  SUITES,
  type Suite,
  secondsOf,
} from "../test/interop/suites.ts";

/**
 * The SMB server before foreign clients: smbclient in every dialect, impacket, Samba's own test suite. As root
 * on Debian it installs what is missing of them. With names of suites or tests, only those are run.
 */
const { positionals } = parseArgs({ allowPositionals: true });

const PACKAGES = ["smbclient", "samba-testsuite", "python3-impacket"];
const INSTALL_LIMIT_MS = 300_000;
const CLIENT_LIMIT_MS = 60_000;
const SUITE_LIMIT_MS = 420_000;
/** How many suites run at once, each in a share of its own: most of their time they wait. */
const JOBS = 4;

const say = (line: string) => void process.stdout.write(`${line}\n`);
const secondsSince = (from: number) => `${((performance.now() - from) / 1000).toFixed(1)} s`;

let failures = 0;
function check(what: string, isFine: boolean, detail = ""): void {
  if (!isFine) failures++;
  say(`${isFine ? "ok  " : "FAIL"} ${what}${isFine || detail === "" ? "" : `: ${detail.trim()}`}`);
}

const succeeds = (program: string, args: readonly string[]) =>
  spawnSync(program, args, { stdio: "ignore" }).status === 0;
const isInstalled = () =>
  succeeds("which", ["smbclient"]) &&
  succeeds("which", ["smbtorture"]) &&
  succeeds("/usr/bin/python3", ["-c", "import impacket"]);

/** Whether the clients are there in the end; a machine that cannot have them is not at fault. */
function install(): "ready" | "skipped" | "failed" {
  if (isInstalled()) return "ready";
  if (process.getuid?.() !== 0 || !existsSync("/etc/debian_version")) {
    say(
      `skipped: the interop tests need ${PACKAGES.join(", ")}, which only root can install, and only on Debian.`,
    );
    return "skipped";
  }
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  for (const args of [["update"], ["install", "-y", "--no-install-recommends", ...PACKAGES]]) {
    const done = spawnSync("apt-get", args, { env, encoding: "utf8", timeout: INSTALL_LIMIT_MS });
    if (done.status === 0) continue;
    say(`apt-get ${args.join(" ")} failed: ${done.stderr.trim().slice(-300)}`);
    return "failed";
  }
  return "ready";
}

function smbclient(port: number, args: readonly string[]): { isFine: boolean; output: string } {
  const all = ["-p", String(port), ...args];
  const { status, stdout, stderr } = spawnSync("smbclient", all, {
    encoding: "utf8",
    timeout: CLIENT_LIMIT_MS,
  });
  return { isFine: status === 0 && !stdout.includes("NT_STATUS"), output: stdout + stderr };
}

const login = ["-U", `${ACCOUNT}%${KEY}`];

/** A file there and back, a directory, a rename and deletes. */
function useShare(port: number, folder: string, args: readonly string[], what: string): void {
  const [sent, got] = [join(folder, "sent"), join(folder, "got")];
  writeFileSync(sent, Buffer.alloc(3_000_000, what));
  rmSync(got, { force: true });
  const script = [
    `put ${sent} f; mkdir d; put ${sent} d/g; rename d/g d/h; ls d/*; get d/h ${got}`,
    "del d/h; rmdir d; del f",
  ].join(";");
  const done = smbclient(port, ["//127.0.0.1/interop-1", ...login, ...args, "-c", script]);
  const isSame = existsSync(got) && readFileSync(got).equals(readFileSync(sent));
  check(`smbclient ${what}`, done.isFine && isSame, done.output.slice(-300));
}

function clients(port: number, folder: string): void {
  for (const dialect of ["SMB2_02", "SMB2_10", "SMB3_00", "SMB3_02", "SMB3_11"]) {
    for (const protection of ["off", "sign", "encrypt"]) {
      if (protection === "encrypt" && dialect.startsWith("SMB2")) continue;
      const args = ["-m", dialect, `--client-protection=${protection}`];
      useShare(port, folder, args, `${dialect} ${protection}`);
    }
  }
  for (const cipher of ["AES-128-CCM", "AES-128-GCM", "AES-256-CCM", "AES-256-GCM"]) {
    const option = `--option=client smb3 encryption algorithms=${cipher}`;
    useShare(port, folder, ["-m", "SMB3_11", "--client-protection=encrypt", option], cipher);
  }
  for (const signing of ["HMAC-SHA256", "AES-128-CMAC", "AES-128-GMAC"]) {
    const option = `--option=client smb3 signing algorithms=${signing}`;
    useShare(port, folder, ["-m", "SMB3_11", "--client-protection=sign", option], signing);
  }
  const listed = smbclient(port, ["-L", "127.0.0.1", ...login]);
  check("smbclient -L", /interop-1\s+Disk/.test(listed.output), listed.output);
  const share = "//127.0.0.1/interop-1";
  const nobody = smbclient(port, [share, "-N", "-c", "ls"]);
  check("smbclient as nobody is refused", /ACCESS_DENIED|LOGON_FAILURE/.test(nobody.output));
  const stranger = smbclient(port, [share, "-U", `${ACCOUNT}%wrong`, "-c", "ls"]);
  check("smbclient with a wrong key is refused", /LOGON_FAILURE/.test(stranger.output));
}

/** impacket's own signatures are wrong in 3.1.1, so that dialect is left out. */
function impacket(port: number): void {
  const script = `
import io
from impacket.smbconnection import SMBConnection
from impacket.smb3structs import *
for dialect in (SMB2_DIALECT_002, SMB2_DIALECT_21, SMB2_DIALECT_30):
    c = SMBConnection('127.0.0.1', '127.0.0.1', sess_port=${port}, preferredDialect=dialect, timeout=30)
    c.login('${ACCOUNT}', '${KEY}')
    assert 'interop-1' in [s['shi1_netname'][:-1] for s in c.listShares()]
    c.putFile('interop-1', 'by-impacket', io.BytesIO(b'hello').read)
    got = io.BytesIO()
    c.getFile('interop-1', 'by-impacket', got.write)
    assert got.getvalue() == b'hello'
    c.deleteFile('interop-1', 'by-impacket')
    c.logoff()
`;
  const { status, stderr } = spawnSync("/usr/bin/python3", ["-c", script], {
    encoding: "utf8",
    timeout: CLIENT_LIMIT_MS,
  });
  check("impacket at 2.0.2, 2.1 and 3.0", status === 0, stderr.slice(-300));
}

/** Where one of several smbtortures at work has its share and its files. */
type Desk = { readonly port: number; readonly share: string; readonly home: string };

function deskAt(folder: string, port: number, number: number): Desk {
  const home = join(folder, `desk-${number}`);
  mkdirSync(home);
  const places = ["private dir", "lock directory", "state directory", "cache directory"];
  const lines = [...places, "pid directory", "ncalrpc dir"].map((name) => `${name} = ${home}`);
  const settings = ["[global]", "client min protocol = SMB2_02", ...lines];
  writeFileSync(join(home, "smb.conf"), `${settings.join("\n")}\n`);
  const mode = 0o600;
  writeFileSync(join(home, "login"), `username = ${ACCOUNT}\npassword = ${KEY}\n`, { mode });
  return { port, share: `interop-${number}`, home };
}

type Outcome = { readonly word: string; readonly why: string };

/** Runs tests by name, and gives the outcome of each. */
async function torture(desk: Desk, names: readonly string[]): Promise<Map<string, Outcome>> {
  const { port, share, home } = desk;
  const where = [`//127.0.0.1/${share}`, "-p", String(port)];
  const settings = ["-s", join(home, "smb.conf"), "-A", join(home, "login"), "--basedir", home];
  const child = spawn("smbtorture", [...where, ...settings, "--fullname", ...names], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const limit = setTimeout(() => child.kill("SIGKILL"), SUITE_LIMIT_MS);
  const outcomes = new Map<string, Outcome>();
  let told = "";
  for await (const line of createInterface({ input: child.stdout })) {
    const [, word, name = "", more] =
      /^(success|failure|error|skip): (.*?)( \[)?$/.exec(line) ?? [];
    if (word !== undefined) {
      outcomes.set(name, { word, why: "" });
      told = more === undefined ? "" : name;
    } else if (line === "]") told = "";
    else if (told !== "") {
      const before = outcomes.get(told);
      if (before !== undefined) outcomes.set(told, { ...before, why: `${before.why} ${line}` });
    }
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  clearTimeout(limit);
  return outcomes;
}

/** Runs a suite beside Samba's results; what fails for no known reason gets a second try, alone. */
async function judge(desk: Desk, suite: Suite): Promise<void> {
  const from = performance.now();
  const outcomes = await torture(desk, [`smb2.${suite}`]);
  const ofSuite = (name: string) => name === `smb2.${suite}` || name.startsWith(`smb2.${suite}.`);
  const passes = passesOfSamba().filter(ofSuite);
  const behind = passes.filter((name) => outcomes.get(name)?.word !== "success");
  const unexplained = behind.filter((name) => differences[name] === undefined);
  const again =
    unexplained.length === 0 ? new Map<string, Outcome>() : await torture(desk, unexplained);
  const lost = unexplained.filter((name) => again.get(name)?.word !== "success");
  const ahead = [...outcomes].filter(
    ([name, { word }]) => word === "success" && !passes.includes(name),
  );
  const figures = [
    `${passes.length - behind.length} of the ${passes.length} that Samba passes`,
    ...(ahead.length > 0 ? [`${ahead.length} that it does not`] : []),
    secondsSince(from),
  ].join(", ");
  const reasons = lost.map((name) => `\n       ${name}:${again.get(name)?.why || " no outcome"}`);
  check(`smbtorture ${suite} (${figures})`, lost.length === 0, reasons.join(""));
  for (const name of unexplained) {
    if (!lost.includes(name)) say(`       ${name}: passed when it was run again, alone`);
  }
  for (const name of behind) {
    if (differences[name]) say(`       ${name} differs: ${differences[name]}`);
  }
}

/** Several suites at once, those that take longest first. */
async function torturing(port: number, folder: string, suites: readonly Suite[]): Promise<void> {
  const left = [...suites].sort((one, other) => secondsOf(other) - secondsOf(one));
  const work = async (desk: Desk) => {
    for (let suite = left.shift(); suite !== undefined; suite = left.shift()) {
      await judge(desk, suite);
    }
  };
  const desks = Array.from({ length: JOBS }, (_, index) => deskAt(folder, port, index + 1));
  await Promise.all(desks.map(work));
}

async function interop(folder: string): Promise<void> {
  const shares = Array.from({ length: JOBS }, (_, index) => `interop-${index + 1}`);
  const server: Served = await served(folder, shares);
  try {
    if (positionals.length === 0) {
      clients(server.port, folder);
      impacket(server.port);
    }
    await torturing(server.port, folder, positionals.length > 0 ? positionals : SUITES);
    check("the server is still there", server.isRunning());
  } finally {
    await server.stop();
  }
  const faults = server.faults();
  check("the server logged no error", faults.length === 0, faults.slice(0, 3).join("\n"));
}

const readiness = install();
if (readiness === "ready") {
  const from = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "lazuli-interop-"));
  try {
    await interop(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const verdict = failures === 0 ? "All is well" : `${failures} failed`;
  say(`${verdict}, after ${secondsSince(from)}.`);
}
process.exitCode = failures > 0 || readiness === "failed" ? 1 : 0;
