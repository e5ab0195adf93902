import { test } from "node:test";
import { fuzz } from "./fuzzer.ts";
import { startServer } from "./server.ts";

// The same bytes in every run; test/soak/fuzz.soak.ts tries others.
const seed = Number(process.env.LAZULI_FUZZ_SEED ?? 1);

test("the port: six seconds of nonsense get no 500 and do no harm", async (t) => {
  const server = await startServer();
  try {
    t.diagnostic(JSON.stringify(await fuzz(server, { seed, durationMs: 6000 })));
  } finally {
    await server.stop();
  }
});
