import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { type RawRequest, send } from "./raw.ts";
import { ACCOUNT, startServer, type TestServer } from "./server.ts";

const [first, second, third] = Array.from({ length: 3 }, () => randomBytes(32).toString("base64"));
const folder = mkdtempSync(join(tmpdir(), "lazuli-accounts-"));
const file = join(folder, "accounts.json");
let server: TestServer;

const write = (text: string) => writeFileSync(file, text);
const accounts = (...list: object[]) => write(JSON.stringify({ accounts: list }));

before(async () => {
  accounts({ name: ACCOUNT, keys: [first, second] });
  server = await startServer({ args: ["--accounts", file] });
});

after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

const list: RawRequest = { method: "GET", query: { comp: "list" } };
const answer = async (request: Partial<RawRequest>) => {
  const { status, code } = await send(server, { ...list, ...request });
  return code === undefined ? `${status}` : `${status} ${code}`;
};

/** Tells the server to read its files, and waits until it has. */
async function reloaded(isDone: () => Promise<boolean>): Promise<void> {
  process.kill(server.pid, "SIGHUP");
  while (!(await isDone())) await new Promise((resolve) => setTimeout(resolve, 10));
}

suite("Accounts file", () => {
  test("both keys of an account are good, and no other", async () => {
    assert.equal(await answer({ key: first ?? "" }), "200");
    assert.equal(await answer({ key: second ?? "" }), "200");
    assert.equal(await answer({ key: third ?? "" }), "403 AuthenticationFailed");
  });

  test("a key is changed without a restart", async () => {
    accounts({ name: ACCOUNT, keys: [third, second] }, { name: "another1", keys: [first] });
    await reloaded(async () => (await answer({ key: third ?? "" })) === "200");
    assert.equal(await answer({ key: first ?? "" }), "403 AuthenticationFailed");
    assert.equal(await answer({ key: second ?? "" }), "200");
  });

  test("a file that is not good changes nothing, and its keys are not told", async () => {
    write(`{"accounts": [{"name": "${ACCOUNT}", "keys": ["${first}"]`);
    process.kill(server.pid, "SIGHUP");
    // What comes after it on the same loop is answered by the accounts that stood.
    assert.equal(await answer({ key: second ?? "" }), "200");
    assert.ok(!server.output().includes(first ?? ""));
  });

  test("Shared Key can be switched off, and public access too", async () => {
    const key = second ?? "";
    const open = { restype: "container" };
    const headers = { "x-ms-blob-public-access": "blob" };
    const make = (path: string) => answer({ method: "PUT", path, query: open, headers, key });
    assert.equal(await make("/before"), "201");
    accounts({ name: ACCOUNT, keys: [first, second], publicAccess: false });
    await reloaded(async () => (await answer({ key: first ?? "" })) === "200");
    assert.equal(await make("/after"), "409 PublicAccessNotPermitted");
    const read = { path: "/before/b", query: {}, sign: "none" } as const;
    assert.equal(await answer(read), "409 PublicAccessNotPermitted");
    accounts({ name: ACCOUNT, keys: [first, second], sharedKey: false });
    const isOff = "403 KeyBasedAuthenticationNotPermitted";
    await reloaded(async () => (await answer({ key })) === isOff);
  });
});
