import assert from "node:assert/strict";
import { test } from "node:test";
import { Rpc } from "./rpc.ts";
import type { ServerFacts } from "./srvsvc.ts";
import { SmbError } from "./status.ts";

const FRAGMENTS_MAX = 64;

/** A part of a call with one byte of parameters, neither the first nor the last. */
function fragment(): Buffer {
  const bytes = Buffer.alloc(25);
  bytes[0] = 5;
  bytes.writeUInt32LE(0x10, 4);
  bytes.writeUInt16LE(bytes.length, 8);
  return bytes;
}

test("a call that comes in ever more parts is broken off", async () => {
  const rpc = new Rpc({} as ServerFacts, "srvsvc");
  for (let n = 0; n < FRAGMENTS_MAX; n++) await rpc.write(fragment());
  const broken = (error: unknown) =>
    error instanceof SmbError && error.status === "STATUS_PIPE_BROKEN";
  await assert.rejects(rpc.write(fragment()), broken);
});
