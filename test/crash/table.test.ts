import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { rmSync } from "node:fs";
import http from "node:http";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { startServer, type TestServer } from "../acceptance/server.ts";
import {
  ask,
  at,
  type BatchPart,
  changeSet,
  createTable,
  get,
  NO_METADATA,
} from "../acceptance/tables.ts";
import { run } from "./command.ts";

const TABLE = "Crash";
const CLIENTS = 16;
const SIZE = 10;
const ROUNDS = 2;

/** What one client knows of its partition: the value that all its entities have, and the one that is in doubt. */
type Partition = {
  readonly name: string;
  acknowledged: number | undefined;
  inDoubt: number | undefined;
  etags: Set<string>;
};

test("SIGKILL under change sets: nothing acknowledged is lost, and never half of one is there", async (t) => {
  const partitions = Array.from({ length: CLIENTS }, (_, i): Partition => {
    return { name: `client-${i}`, acknowledged: undefined, inDoubt: undefined, etags: new Set() };
  });
  let server = await startServer();
  const { directory } = server;
  let written = 0;
  try {
    await createTable(server, TABLE);
    for (let round = 0; round < ROUNDS; round++) {
      let isDying = false;
      let done = 0;
      const agent = new http.Agent({ keepAlive: true });
      const clients = partitions.map(async (partition) => {
        for (;;) {
          partition.inDoubt = ++written;
          try {
            await write(server, agent, partition, partition.inDoubt);
          } catch (error) {
            const { code } = error as NodeJS.ErrnoException;
            if (!isDying || code === undefined || !/^(ECONN|EPIPE)/.test(code)) throw error;
            return;
          }
          partition.acknowledged = partition.inDoubt;
          partition.inDoubt = undefined;
          done++;
        }
      });
      await Promise.race([Promise.all(clients), wait(800 + randomInt(400))]);
      isDying = true;
      await server.kill();
      await Promise.all(clients);
      agent.destroy();
      assert.ok(done > 0, "nothing was acknowledged before the kill");
      server = await startServer({ directory });
      for (const partition of partitions) await verify(server, partition);
      t.diagnostic(`round ${round}: ${done} change sets acknowledged`);
    }
    assert.equal(await server.stop("keep"), 0, server.output());
    const checked = await run("check", "--location", directory);
    assert.equal(checked.code, 0, `check: ${checked.stdout}${checked.stderr}`);
  } finally {
    await server.kill().catch(() => {});
    rmSync(directory, { recursive: true, force: true });
  }
});

/** Sets all entities of a partition to one value, by kinds of changes that take turns. */
async function write(
  server: TestServer,
  agent: http.Agent,
  { name, etags }: Partition,
  n: number,
): Promise<void> {
  const parts = Array.from({ length: SIZE }, (_, i): BatchPart => {
    const method = (n + i) % 2 === 0 ? "PUT" : "MERGE";
    return { method, path: at(TABLE, name, String(i)), body: { n } };
  });
  const headers = { "content-type": "multipart/mixed; boundary=batch_1" };
  const body = changeSet(server, parts);
  const reply = await ask(server, { method: "POST", path: "/$batch", headers, body, agent });
  assert.equal(reply.status, 202, reply.text);
  const found = [...reply.text.matchAll(/^ETag: (.*)$/gm)].map(([, etag = ""]) => etag);
  assert.equal(found.length, SIZE, reply.text);
  for (const etag of found) {
    assert.ok(!etags.has(etag), `the ETag ${etag} was given twice`);
    etags.add(etag);
  }
}

async function verify(server: TestServer, partition: Partition): Promise<void> {
  const { name, acknowledged, inDoubt } = partition;
  const query = { $filter: `PartitionKey eq '${name}'` };
  const { json } = await get(server, `/${TABLE}()`, NO_METADATA, query);
  const values = json.value.map(({ n }: { n: number }) => n);
  const [value] = values;
  const isWhole = new Set(values).size <= 1 && (values.length === SIZE || values.length === 0);
  assert.ok(isWhole, `half of a change set is in ${name}: ${values}`);
  const isKnown = value === acknowledged || (inDoubt !== undefined && value === inDoubt);
  assert.ok(
    isKnown,
    `${name} has ${value}; ${acknowledged} was acknowledged, ${inDoubt} is in doubt`,
  );
  partition.acknowledged = value;
  partition.inDoubt = undefined;
}
