import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type FileServer, startFiles } from "./files.ts";
import { commands, SmbClient } from "./smb-client.ts";
import {
  access,
  close,
  closeBody,
  create,
  createBody,
  dataOf,
  handleOf,
  LAST,
  list,
  open,
  read,
  readBody,
  write,
} from "./smb-files.ts";

const MEMORY_GROWTH_MAX_MIB = 200;
const KEPT = "what one client wrote";

/** Numbers that look random and are the same for the same seed. */
function dice(seed: number): (sides: number) => number {
  let state = seed >>> 0 || 1;
  return (sides) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % sides;
  };
}

type Roll = (sides: number) => number;

const noise = (roll: Roll, size: number) =>
  Buffer.from(Array.from({ length: size }, () => roll(256)));

/** A few bytes of a message changed, cut off or put in twice; often to values at the ends of their ranges. */
function mangled(roll: Roll, message: Buffer, from: number): Buffer {
  const copy = Buffer.from(message);
  for (let n = roll(4) + 1; n > 0 && copy.length > from; n--) {
    const at = from + roll(copy.length - from);
    const kind = roll(4);
    if (kind === 0) copy[at] = roll(256);
    else if (kind === 1) copy[at] = [0, 1, 0x7f, 0x80, 0xff][roll(5)] ?? 0;
    else if (kind === 2) copy.subarray(at, at + 1 + roll(8)).fill(0xff);
    else copy.subarray(at, at + 1 + roll(8)).fill(0);
  }
  const cut = roll(10);
  if (cut === 0) return copy.subarray(0, from + roll(copy.length - from + 1));
  return cut === 1 ? Buffer.concat([copy, noise(roll, roll(64))]) : copy;
}

const fixed = (size: number, structureSize: number): Buffer => {
  const body = Buffer.alloc(size);
  body.writeUInt16LE(structureSize, 0);
  return body;
};

/** Requests that are right, or nearly; `handle` is put where most of them have one. */
function requests(handle: Buffer): (readonly [command: number, body: Buffer])[] {
  const at = (body: Buffer, place: number) => {
    handle.copy(body, place);
    return body;
  };
  return [
    [commands.create, createBody("fuzzed", { oplock: 9 })],
    [commands.create, createBody("fuzzed\\below", { options: 1 })],
    [
      commands.create,
      createBody("leased", { oplock: 0xff, contexts: [["RqLs", Buffer.alloc(32, 7)]] }),
    ],
    [
      commands.create,
      createBody("kept", {
        contexts: [
          ["DH2Q", Buffer.alloc(32, 1)],
          ["QFid", Buffer.alloc(0)],
        ],
      }),
    ],
    [commands.close, closeBody(handle, 1)],
    [commands.flush, closeBody(handle)],
    [commands.read, readBody(handle, 0, 100)],
    [commands.write, Buffer.concat([at(fixed(48, 49), 16), Buffer.alloc(32)])],
    [commands.lock, at(fixed(48, 48), 8)],
    [commands.ioctl, Buffer.concat([at(fixed(56, 57), 8), Buffer.alloc(64)])],
    [commands.queryDirectory, Buffer.concat([at(fixed(32, 33), 8), Buffer.from("*\0")])],
    [commands.changeNotify, at(fixed(32, 32), 8)],
    [commands.queryInfo, at(fixed(41, 41), 24)],
    [commands.setInfo, Buffer.concat([at(fixed(32, 33), 16), Buffer.alloc(40)])],
    [commands.oplockBreak, at(fixed(24, 24), 8)],
    [commands.oplockBreak, fixed(36, 36)],
    [commands.treeConnect, fixed(16, 9)],
    [commands.echo, fixed(4, 4)],
    [commands.logoff, fixed(4, 4)],
    [commands.sessionSetup, fixed(40, 25)],
    [commands.negotiate, fixed(40, 36)],
  ];
}

const memoryOf = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;

/** Bytes to a fresh connection; whatever comes back, it must end or fall silent without harm. */
async function shout(port: number, bytes: Buffer): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  socket.resume();
  await new Promise<void>((resolve) => {
    socket.on("connect", () => socket.end(bytes));
    socket.on("close", () => resolve());
    setTimeout(() => socket.destroy(), 100).unref();
  });
}

/** A client that logs on and then sends nonsense that is nearly right. */
async function intrude(port: number, share: string, roll: Roll): Promise<void> {
  const client = await SmbClient.open({ port, protection: "plain" }, share);
  // What other nonsense has left open may be in the way.
  const answer = await create(client, `fuzz-${roll(20)}`);
  const handle = answer.status === 0 ? handleOf(answer) : LAST;
  for (let n = 0; n < 40 && !client.isClosed; n++) {
    const all = requests(handle);
    const [command, body] = all[roll(all.length)] ?? [commands.echo, fixed(4, 4)];
    const message = client.message(command, body);
    // The header's number must be right for the rest to be looked at; now and then it is not.
    const sent = roll(20) === 0 ? mangled(roll, message, 4) : mangled(roll, message, 64);
    if (roll(8) === 0 && sent.length >= 64)
      client.send([sent, client.message(command, body, { related: true })]);
    else client.sendRaw(sent);
    if (roll(4) === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await client.end();
}

/** Sends nonsense to the SMB port for a while; a client beside it must not notice. */
export async function fuzzSmb({
  seed,
  durationMs,
}: {
  seed: number;
  durationMs: number;
}): Promise<Readonly<Record<string, number>>> {
  const directory = mkdtempSync(join(tmpdir(), "lazuli-fuzz-"));
  const log = join(directory, "log");
  const files: FileServer = await startFiles({ args: ["--smbPort", "any", "--debug", log] });
  const port = Number(/^\s*Smb\s+[\d.]+:(\d+)$/m.exec(files.server.output())?.[1]);
  const roll = dice(seed);
  const counts = { shouts: 0, intrusions: 0, checks: 0, memoryMiB: 0 };
  try {
    const [mine, theirs] = [await files.share(), await files.share()];
    const good = await SmbClient.open({ port }, mine);
    const handle = await open(good, "mine");
    await write(good, handle, 0, Buffer.from(KEPT));
    const until = Date.now() + durationMs;
    let before = 0;
    while (Date.now() < until) {
      const kind = roll(4);
      const prefix = Buffer.alloc(4);
      if (kind === 0) {
        await shout(port, noise(roll, roll(2000)));
        counts.shouts++;
      } else if (kind === 1) {
        const stranger = await SmbClient.connect({ port });
        const message = mangled(roll, stranger.message(commands.negotiate, fixed(100, 36)), 4);
        await stranger.end();
        prefix.writeUInt32BE(message.length);
        await shout(port, Buffer.concat([prefix, message, noise(roll, roll(200))]));
        counts.shouts++;
      } else {
        await intrude(port, theirs, roll);
        counts.intrusions++;
      }
      assert.equal(dataOf(await read(good, handle, 0, KEPT.length)).toString(), KEPT);
      assert.deepEqual(await list(good, ""), ["mine"], "nothing of one share is in another");
      counts.checks++;
      if (counts.checks === 40) before = memoryOf(files.server.pid);
    }
    counts.memoryMiB = Math.round(memoryOf(files.server.pid));
    if (before > 0)
      assert.ok(
        counts.memoryMiB - before < MEMORY_GROWTH_MAX_MIB,
        `${before} -> ${counts.memoryMiB} MiB`,
      );
    await close(good, handle);
    const again = await open(good, "mine", { access: access.read, disposition: 1 });
    await close(good, again);
    await good.end();
  } finally {
    assert.equal(await files.stop(), 0);
  }
  const failed = readFileSync(log, "utf8")
    .split("\n")
    .filter((line) => line.includes('"level":"error"'));
  assert.deepEqual(failed.slice(0, 3), [], "every refusal has its own answer");
  rmSync(directory, { recursive: true, force: true });
  return counts;
}
