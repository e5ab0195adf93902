import { randomInt } from "node:crypto";
import { test } from "node:test";
import { fuzz } from "../acceptance/fuzzer.ts";
import { startServer } from "../acceptance/server.ts";

const seed = Number(process.env.LAZULI_FUZZ_SEED ?? randomInt(1_000_000));

test(`the port: a minute of nonsense (seed ${seed}) gets no 500 and does no harm`, async (t) => {
  const server = await startServer();
  try {
    t.diagnostic(JSON.stringify(await fuzz(server, { seed, durationMs: 60_000 })));
  } finally {
    await server.stop();
  }
});
