import { test } from "node:test";
import { fuzzSmb } from "./smb-fuzzer.ts";

// The same bytes in every run; test/soak/smb-fuzz.soak.ts tries others.
const seed = Number(process.env.LAZULI_FUZZ_SEED ?? 1);

test("the SMB port: five seconds of nonsense do no harm", async (t) => {
  t.diagnostic(JSON.stringify(await fuzzSmb({ seed, durationMs: 5000 })));
});
