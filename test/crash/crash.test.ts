import assert from "node:assert/strict";
import { randomBytes, randomInt } from "node:crypto";
import { rmSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { send } from "../acceptance/raw.ts";
import { startServer, type TestServer } from "../acceptance/server.ts";
import { run } from "./command.ts";
import { inParallel, Load } from "./load.ts";

const CONTAINER = "crash";
const ROUNDS = 3;

test("SIGKILL under load, three times: nothing acknowledged is lost, nothing is half there", async (t) => {
  const load = new Load({ container: CONTAINER, clients: 64, namesPerClient: 6 });
  let server = await startServer();
  const { directory } = server;
  try {
    await createContainer(server);
    for (let round = 0; round < ROUNDS; round++) {
      const before = load.acknowledged;
      const running = load.run(server);
      await Promise.race([running, wait(1200 + randomInt(600))]);
      load.expectDeath();
      await server.kill();
      await running;
      const done = load.acknowledged - before;
      assert.ok(done > 0, "nothing was acknowledged before the kill");

      server = await startServer({ directory });
      const { names, inDoubt, applied } = await load.verify(server);
      t.diagnostic(
        `round ${round}: ${done} acknowledged, ${names} names checked, ${inDoubt} in doubt of which ${applied} were made`,
      );
    }
    assert.equal(await server.stop("keep"), 0, server.output());
    const checked = await run("check", "--location", directory);
    assert.equal(checked.code, 0, `check: ${checked.stdout}${checked.stderr}`);
  } finally {
    await server.kill().catch(() => {});
    rmSync(directory, { recursive: true, force: true });
  }
});

test("SIGKILL right behind the last acknowledgement: all 200 blobs are there", async () => {
  let server = await startServer();
  const { directory } = server;
  try {
    await createContainer(server);
    const blobs = Array.from({ length: 200 }, (_, index) => ({
      path: `/${CONTAINER}/blob-${index}`,
      body: randomBytes(index % 10 === 0 ? 100_000 : 1000),
    }));
    const headers = { "x-ms-blob-type": "BlockBlob" };
    await inParallel(blobs, async ({ path, body }) => {
      const reply = await send(server, { method: "PUT", path, headers, body });
      assert.equal(reply.status, 201, reply.text);
    });
    await server.kill();
    server = await startServer({ directory });
    await inParallel(blobs, async ({ path, body }) => {
      const reply = await send(server, { method: "GET", path });
      assert.equal(reply.status, 200, `${path}: ${reply.text}`);
      assert.equal(reply.body.compare(body), 0, `${path} is not intact`);
    });
  } finally {
    await server.kill().catch(() => {});
    rmSync(directory, { recursive: true, force: true });
  }
});

async function createContainer(server: TestServer): Promise<void> {
  const query = { restype: "container" };
  const reply = await send(server, { method: "PUT", path: `/${CONTAINER}`, query });
  assert.equal(reply.status, 201, reply.text);
}
