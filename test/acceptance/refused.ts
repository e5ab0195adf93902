import assert from "node:assert/strict";
import { test } from "node:test";
import { type RawRequest, send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

export type Fields = Record<string, string>;

/** What a request is, and the answer: "status code", with "or" where the sources leave it open; a status alone takes any code. */
export type Row = [what: string, request: RawRequest, want: string];

/** A server with the container "bad", the blobs "b" and "big", and a snapshot of "b". */
export type Target = {
  readonly server: TestServer;
  readonly snapshot: string;
  readonly etag: string;
};

/** Stands in a query for the time of the snapshot. */
export const SNAPSHOT = "{snapshot}";
export const MIB = 1_048_576;
export const BLOCK = { "x-ms-blob-type": "BlockBlob" };
export const HEADER = "400 InvalidHeaderValue";
export const REQUIRED = "400 MissingRequiredHeader";
export const QUERY = "400 InvalidQueryParameterValue";

export const at = (path: string, query: Fields = {}, headers: Fields = {}): RawRequest => ({
  ...{ method: "GET", path, query, headers },
});

export const put = (
  path: string,
  query: Fields = {},
  headers: Fields = {},
  body = "",
): RawRequest => ({ ...{ method: "PUT", path, query, headers, body } });

export const putBlob = (headers: Fields, path = "/bad/new"): RawRequest =>
  put(path, {}, { ...BLOCK, ...headers }, "text");

export async function startTarget(): Promise<Target> {
  const server = await startServer();
  try {
    return { server, ...(await filled(server)) };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

async function filled(server: TestServer): Promise<Omit<Target, "server">> {
  const made = await send(server, put("/bad", { restype: "container" }));
  assert.equal(made.status, 201);
  for (const [name, body] of [
    ["b", Buffer.from("hello")],
    ["big", Buffer.alloc(5 * MIB)],
  ] as const) {
    const reply = await send(server, { ...put(`/bad/${name}`, {}, BLOCK), body });
    assert.equal(reply.status, 201, reply.text);
  }
  const taken = await send(server, put("/bad/b", { comp: "snapshot" }));
  return {
    snapshot: String(taken.headers["x-ms-snapshot"]),
    etag: String((await send(server, at("/bad/b"))).headers.etag),
  };
}

const isWanted = (want: string, status: number, code: string | undefined) =>
  want.split(" or ").some((each) => each === `${status} ${code}` || each === String(status));

/** One test for each row. */
export function refuses(target: () => Target, rows: readonly Row[]): void {
  for (const [what, request, want] of rows) {
    test(`${what}: ${want}`, async () => {
      const { server, snapshot } = target();
      const query = Object.entries(request.query ?? {}).map(([name, value]) => [
        name,
        value === SNAPSHOT ? snapshot : value,
      ]);
      const reply = await send(server, { ...request, query: Object.fromEntries(query) });
      const { status, code, text } = reply;
      assert.ok(isWanted(want, status, code), `${status} ${code} ${text.slice(0, 300)}`);
      if (request.method === "HEAD" || reply.headers["x-ms-error-code"] === undefined) return;
      assert.match(text, new RegExp(`<Error>\\s*<Code>${code}</Code>\\s*<Message>`));
    });
  }
}

const namesIn = (text: string) => [...text.matchAll(/<Name>([^<]*)</g)].map((match) => match[1]);

/** The last test of a file: all is as `startTarget` left it. */
export function testUntouched(target: () => Target): void {
  test("What was refused made no container", async () => {
    const reply = await send(target().server, at("/", { comp: "list" }));
    assert.deepEqual(namesIn(reply.text), ["bad"]);
  });

  test("What was refused made no blob, block or snapshot, and changed none", async () => {
    const { server, etag } = target();
    const query = { restype: "container", comp: "list", include: "snapshots,uncommittedblobs" };
    const reply = await send(server, at("/bad", query));
    assert.deepEqual(namesIn(reply.text), ["b", "b", "big"]);
    const blob = await send(server, at("/bad/b"));
    assert.deepEqual([blob.text, blob.headers.etag], ["hello", etag]);
    assert.equal(blob.headers["x-ms-lease-state"], "available");
    const container = await send(server, at("/bad", { restype: "container" }));
    assert.equal(container.headers["x-ms-lease-state"], "available");
  });
}
