import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import type { Engine, Given, WriteTx } from "../../src/engine/engine.ts";
import { memoryEngine } from "../../src/engine/memory.ts";
import { commands, type SmbClient, status } from "../acceptance/smb-client.ts";
import {
  closeBody,
  disposition,
  type Handle,
  open,
  options,
  rename,
  write,
  writeBody,
} from "../acceptance/smb-files.ts";
import { clock, SHARE, type SmbWorld, smbWorld } from "./smb-world.ts";

/** An engine in memory whose disk takes as long as the test likes. */
class GatedEngine implements Engine {
  readonly #inner = memoryEngine({ clock });
  #gate = Promise.resolve();

  /** From here on nothing becomes durable until what this gives is called. */
  shut(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#gate = promise;
    return resolve;
  }

  read: Engine["read"] = (body) => this.#inner.read(body);

  async write<T>(body: (tx: WriteTx) => Promise<T>, given: Given = "durable"): Promise<T> {
    const result = await this.#inner.write(body);
    if (given === "durable") await this.#gate;
    return result;
  }

  settled = (): Promise<void> => this.#gate;
  close = (): Promise<void> => this.#inner.close();
}

const DATA = Buffer.from("data");
const changed = async (client: SmbClient, handle: Handle) =>
  void (await write(client, handle, 0, DATA));

/** What is asked of an open handle, after `first`, and whether its answer waits for the disk. */
const cases: readonly {
  readonly name: string;
  readonly waits: boolean;
  readonly command: number;
  readonly body: (handle: Handle) => Buffer;
  readonly options?: number;
  readonly first?: typeof changed;
}[] = [
  { name: "FLUSH", waits: true, command: commands.flush, body: closeBody, first: changed },
  {
    name: "CLOSE of what was written to",
    waits: true,
    command: commands.close,
    body: closeBody,
    first: changed,
  },
  {
    name: "CLOSE that deletes",
    waits: true,
    command: commands.close,
    body: closeBody,
    options: options.deleteOnClose,
  },
  {
    name: "CLOSE after a rename",
    waits: true,
    command: commands.close,
    body: closeBody,
    first: async (client, handle) => void (await rename(client, handle, "renamed")),
  },
  {
    name: "WRITE that is to go through",
    waits: true,
    command: commands.write,
    body: (handle) => writeBody(handle, 0, DATA, true),
  },
  {
    name: "WRITE to a handle that writes through",
    waits: true,
    command: commands.write,
    body: (handle) => writeBody(handle, 0, DATA),
    options: options.writeThrough,
  },
  {
    name: "WRITE",
    waits: false,
    command: commands.write,
    body: (handle) => writeBody(handle, 0, DATA),
  },
];

suite("SMB on a disk that keeps one waiting", () => {
  const engine = new GatedEngine();
  let world: SmbWorld;

  before(async () => {
    world = await smbWorld(engine);
  });
  after(() => world.end());

  for (const [index, { name, waits, command, body, options: way = 0, first }] of cases.entries()) {
    test(`${name} is answered ${waits ? "when it is durable" : "at once"}`, async () => {
      const { client } = world;
      const asked = { disposition: disposition.create, options: way };
      const handle = await open(client, `file-${index}`, asked);
      const finish = engine.shut();
      await first?.(client, handle); // none of these waits itself
      let isAnswered = false;
      const { answer } = await client.begin(command, body(handle));
      const answered = answer.then((told) => {
        isAnswered = true;
        return told;
      });
      if (!waits) assert.equal((await answered).status, status.ok);
      // Whoever is to answer has had the time for it when these are.
      for (let i = 0; i < 20; i++) await client.request(commands.echo, Buffer.of(4, 0, 0, 0));
      assert.equal(isAnswered, !waits);
      finish();
      assert.equal((await answered).status, status.ok);
    });
  }
});

suite("SMB on a disk that fails", () => {
  test("who logs off has nothing open any more", async () => {
    const inner = memoryEngine({ clock });
    let isBroken = false;
    const world = await smbWorld({
      read: (body) => inner.read(body),
      write: (body) => inner.write(body),
      settled: () => (isBroken ? Promise.reject(new Error("broken")) : Promise.resolve()),
      close: () => inner.close(),
    });
    for (const name of ["one", "two"]) await open(world.client, name);
    isBroken = true;
    await world.client.request(commands.logoff, Buffer.of(4, 0, 0, 0));
    assert.equal(world.opens.inShare(SHARE).length, 0);
    isBroken = false;
    await world.end();
  });
});
