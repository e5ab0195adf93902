import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { rmSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { send } from "../acceptance/raw.ts";
import { at, startServer } from "../acceptance/server.ts";
import { run } from "./command.ts";
import { Consumers } from "./consumers.ts";

const QUEUE = "crash";
const ROUNDS = 3;

test("SIGKILL under 64 consumers, three times: no message is lost, none is handed out twice, none comes back", async (t) => {
  const consumers = new Consumers(QUEUE, 64);
  let server = await startServer();
  const { directory } = server;
  try {
    const created = await send(at(server, "queue"), { method: "PUT", path: `/${QUEUE}` });
    assert.equal(created.status, 201, created.text);
    for (let round = 0; round < ROUNDS; round++) {
      const before = { ...consumers.done };
      const running = consumers.run(at(server, "queue"));
      await Promise.race([running, wait(900 + randomInt(400))]);
      consumers.expectDeath();
      await server.kill();
      await running;
      const { put, got, deleted } = consumers.done;
      t.diagnostic(
        `round ${round}: ${put - before.put} put, ${got - before.got} retrieved, ${deleted - before.deleted} deleted`,
      );
      assert.ok(put > before.put && got > before.got && deleted > before.deleted);
      server = await startServer({ directory });
    }
    const left = await consumers.drain(at(server, "queue"));
    t.diagnostic(`${left} messages were left at the end`);
    assert.equal(await server.stop("keep"), 0, server.output());
    const checked = await run("check", "--location", directory);
    assert.equal(checked.code, 0, `check: ${checked.stdout}${checked.stderr}`);
  } finally {
    await server.kill().catch(() => {});
    rmSync(directory, { recursive: true, force: true });
  }
});
