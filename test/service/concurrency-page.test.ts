import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  DELETE,
  noOplock,
  type RangeLock,
  READ,
  type Rights,
  WRITE,
} from "../../src/rules/sharing.ts";
import { shares } from "../../src/store/keys.ts";
import { type Attempt, fileAttempts, LEASE, OTHER_LEASE } from "../acceptance/attempts.ts";
import { eachAction, pageTable } from "../acceptance/page.ts";
import { type Answer, TestService } from "../simulation/file-service.ts";
import { SECOND, World } from "./world.ts";

// The tables of docs/concurrency.md that need a clock or an SMB client's handle, tried.

const FILE = "/share/file";
const OTHER = "/share/other";
const FREE = "/share/free";
const URL_BASE = "http://localhost/account";

const bits = (text: string): Rights =>
  (/Read/.test(text) ? READ : 0) |
  (/Write/.test(text) ? WRITE : 0) |
  (/Delete/.test(text) ? DELETE : 0);

/** What the table says of a handle: its access, what it shares, its locks, and whether the file is doomed. */
function handleOf(words: string) {
  const [access = "", sharing] = words.split(", shares ");
  const shown = sharing === undefined ? "Read Write Delete" : sharing;
  const isLock = words.startsWith("has locked bytes");
  const exclusive = words.endsWith("exclusively");
  const isDoomed = words === "has marked it to be deleted";
  const locks: RangeLock[] = isLock ? [{ start: 0n, count: 1n, exclusive }] : [];
  const given = isLock ? READ : isDoomed ? DELETE : bits(access);
  return { access: given, shares: bits(shown), locks, isDoomed };
}

/** How each operation of the table of uses is tried, while `FILE` is open. */
const attempts: Readonly<Record<string, Attempt & { path: string }>> = {
  ...Object.fromEntries(
    Object.entries(fileAttempts(`${URL_BASE}${OTHER}`)).map(([name, attempt]) => [
      name,
      { ...attempt, path: FILE },
    ]),
  ),
  "the source of Copy File": {
    ...{ method: "PUT", path: FREE },
    headers: { "x-ms-copy-source": `${URL_BASE}${FILE}` },
  },
  "the source of Rename File": {
    ...{ method: "PUT", path: FREE, query: { comp: "rename" } },
    headers: { "x-ms-file-rename-source": `${URL_BASE}${FILE}` },
  },
  "a file that Rename File replaces": {
    ...{ method: "PUT", path: FILE, query: { comp: "rename" } },
    headers: {
      "x-ms-file-rename-source": `${URL_BASE}${OTHER}`,
      "x-ms-file-rename-replace-if-exists": "true",
    },
  },
};

/** The File service with a file that an SMB client has open in this way. */
async function beside(words: string, isLeased: boolean): Promise<TestService> {
  const service = new TestService();
  await service.createShare("share");
  for (const path of [FILE, OTHER]) assert.equal((await service.createFile(path, 4)).status, 201);
  if (isLeased) {
    const headers = {
      "x-ms-lease-action": "acquire",
      "x-ms-lease-duration": "-1",
      "x-ms-proposed-lease-id": LEASE,
    };
    const reply = await service.ask({
      method: "PUT",
      path: FILE,
      query: { comp: "lease" },
      headers,
    });
    assert.equal(reply.status, 201);
  }
  const record = await service.engine.read((tx) => shares.get(tx, "account", "share"));
  const { header } = await service.ask({ method: "HEAD", path: FILE });
  const identity = {
    share: BigInt(`0x${record?.id}`),
    file: BigInt(header("x-ms-file-id") ?? -1),
  };
  const { isDoomed, ...handle } = handleOf(words);
  service.opens.enter({
    ...{ ...identity, ...handle, handle: 1n, oplock: noOplock },
    holder: { session: 1n, address: "10.0.0.1:445", name: "client", openedAt: 0 },
    breakOplock: () => {},
    closed: () => {},
  });
  service.opens.setDeletePending(identity, isDoomed);
  return service;
}

const outcome = ({ status, code }: Answer, passes?: string): string =>
  status < 300 || (code !== undefined && code === passes) ? "done" : `${status} ${code}`;

suite("The table of REST beside SMB", () => {
  const columns = pageTable("uses of files");
  for (const [handle, ...cells] of pageTable("REST beside SMB")) {
    assert.equal(cells.length, columns.length, "a column for each use");
    for (const [index, [use, , operations = ""]] of columns.entries()) {
      const want = cells[index];
      for (const name of operations.split("; ").flatMap(eachAction)) {
        test(`${name} (${use}), while an SMB client's handle ${handle}: ${want}`, async () => {
          const attempt = attempts[name];
          assert.ok(attempt, `nobody tries ${name}`);
          const { first, passes, body, ...request } = attempt;
          const service = await beside(handle, first === "leased");
          const bytes = body === undefined ? {} : { body: Buffer.from(body) };
          assert.equal(outcome(await service.ask({ ...request, ...bytes }), passes), want);
        });
      }
    }
  }
});

suite("The table of lease actions", () => {
  const ids: Readonly<Record<string, string>> = { A: LEASE, B: OTHER_LEASE };
  const states = ["available", "leased", "breaking", "broken", "expired"];
  const BLOB = "/box/blob";
  const lease = (world: World, action: string, headers: Record<string, string> = {}) =>
    world.send("PUT", BLOB, {
      query: { comp: "lease" },
      headers: { "x-ms-lease-action": action, ...headers },
    });

  /** A blob whose lease, if it has one, is A's and in this state. */
  async function inState(state: string): Promise<World> {
    const world = new World();
    await world.create("box");
    await world.put(BLOB, "data");
    if (state === "available") return world;
    const given = { "x-ms-lease-duration": "60", "x-ms-proposed-lease-id": LEASE };
    assert.equal((await lease(world, "acquire", given)).status, 201);
    if (state === "expired") world.pass(61 * SECOND);
    const period = { breaking: "30", broken: "0" }[state];
    if (period !== undefined) await lease(world, "break", { "x-ms-lease-break-period": period });
    const { headers } = await world.must("200", "HEAD", BLOB);
    assert.equal(headers["x-ms-lease-state"], state);
    return world;
  }

  function headersOf(words: readonly string[]): Record<string, string> {
    const [action = "", id = "", , to = ""] = words;
    if (action === "acquire") {
      const proposed = ids[id] === undefined ? {} : { "x-ms-proposed-lease-id": ids[id] };
      return { "x-ms-lease-duration": "60", ...proposed };
    }
    if (action === "break,") return { "x-ms-lease-break-period": id === "in" ? "10" : "0" };
    const proposed = ids[to] === undefined ? {} : { "x-ms-proposed-lease-id": ids[to] };
    return { "x-ms-lease-id": ids[id] ?? "", ...proposed };
  }

  for (const [what, ...cells] of pageTable("lease actions")) {
    for (const [index, state] of states.entries()) {
      test(`${what}, when ${state}: ${cells[index]}`, async () => {
        const world = await inState(state);
        const words = what.split(" ");
        const { status, code } = await lease(
          world,
          (words[0] ?? "").replace(",", ""),
          headersOf(words),
        );
        const { headers } = await world.must("200", "HEAD", BLOB);
        const got = status < 300 ? headers["x-ms-lease-state"] : `${status} ${code}`;
        assert.equal(got, cells[index]);
      });
    }
  }
});
