import { randomInt } from "node:crypto";
import { test } from "node:test";
import { fuzzSmb } from "../acceptance/smb-fuzzer.ts";

const seed = Number(process.env.LAZULI_FUZZ_SEED ?? randomInt(1_000_000));

test(`the SMB port: two minutes of nonsense (seed ${seed}) do no harm`, async (t) => {
  t.diagnostic(JSON.stringify(await fuzzSmb({ seed, durationMs: 120_000 })));
});
