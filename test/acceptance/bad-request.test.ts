import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { type RawRequest, VERSION } from "./raw.ts";
import {
  at,
  BLOCK,
  type Fields,
  HEADER,
  put,
  putBlob,
  QUERY,
  REQUIRED,
  type Row,
  refuses,
  SNAPSHOT,
  startTarget,
  type Target,
  testUntouched,
} from "./refused.ts";
import { exchange } from "./signed.ts";

// Every request here is refused with the code of Azure's error tables, and leaves nothing behind.

let target: Target;

before(async () => {
  target = await startTarget();
});

after(() => target.server.stop());

const refused = (rows: readonly Row[]) => refuses(() => target, rows);

for (const [what, path, query] of [
  ["Lease Container", "/bad", { restype: "container", comp: "lease" }],
  ["Lease Blob", "/bad/b", { comp: "lease" }],
] as const) {
  suite(what, () => {
    const lease = (action: string, headers: Fields = {}): RawRequest =>
      put(path, query, { "x-ms-lease-action": action, ...headers });
    const durations = ["14", "61", "0", "-2", "abc", "15.5", ""].map((seconds): Row => {
      const request = lease("acquire", { "x-ms-lease-duration": seconds });
      return [
        `a duration of "${seconds}"`,
        request,
        seconds === "" ? `${HEADER} or ${REQUIRED}` : HEADER,
      ];
    });
    const periods = ["61", "-1", "abc"].map(
      (seconds): Row => [
        `a break period of "${seconds}"`,
        lease("break", { "x-ms-lease-break-period": seconds }),
        HEADER,
      ],
    );
    const without = ["renew", "release", "change"].map(
      (action): Row => [
        `${action} without an id`,
        lease(action, { "x-ms-proposed-lease-id": "aaaaaaaa-0000-4000-8000-000000000001" }),
        REQUIRED,
      ],
    );
    refused([
      ["no action", put(path, query), REQUIRED],
      ["an unknown action", lease("steal"), HEADER],
      ["acquire without a duration", lease("acquire"), REQUIRED],
      ...durations,
      ...periods,
      ...without,
      [
        "a proposed id that is no GUID",
        lease("acquire", { "x-ms-lease-duration": "-1", "x-ms-proposed-lease-id": "mine" }),
        HEADER,
      ],
      ["an id that is no GUID", lease("renew", { "x-ms-lease-id": "mine" }), HEADER],
      [
        "change without a proposed id",
        lease("change", { "x-ms-lease-id": "aaaaaaaa-0000-4000-8000-000000000001" }),
        REQUIRED,
      ],
    ]);
  });
}

const OUT_OF_RANGE = "400 OutOfRangeQueryParameterValue";

suite("List Blobs", () => {
  const list = (query: Fields): RawRequest =>
    at("/bad", { restype: "container", comp: "list", ...query });
  refused([
    ["maxresults in words", list({ maxresults: "abc" }), `${QUERY} or ${OUT_OF_RANGE}`],
    ["maxresults 0", list({ maxresults: "0" }), OUT_OF_RANGE],
    ["maxresults -1", list({ maxresults: "-1" }), OUT_OF_RANGE],
    ["an unknown include", list({ include: "everything" }), QUERY],
    ["an unknown include among known ones", list({ include: "metadata,everything" }), QUERY],
    ["a marker that nobody gave out", list({ marker: "!!!" }), `${QUERY} or 400 OutOfRangeInput`],
    ["a delimiter beside snapshots", list({ delimiter: "/", include: "snapshots" }), QUERY],
    [
      "showonly, which asks for directories",
      list({ showonly: "files" }),
      "400 UnsupportedQueryParameter",
    ],
  ]);
});

const NO_OPERATION = `${QUERY} or 405 UnsupportedHttpVerb or 400 InvalidUri`;

suite("Operations", () => {
  const verb = (method: string, path: string): RawRequest => ({ method, path, body: "" });
  refused([
    ["an unknown comp of the service", at("/", { comp: "nothing" }), NO_OPERATION],
    [
      "an unknown comp of a container",
      at("/bad", { restype: "container", comp: "nothing" }),
      NO_OPERATION,
    ],
    ["an unknown comp of a blob", at("/bad/b", { comp: "nothing" }), NO_OPERATION],
    [
      "an unknown comp beside what Put Blob needs",
      put("/bad/new", { comp: "nothing" }, BLOCK, "text"),
      NO_OPERATION,
    ],
    ["an unknown restype", at("/bad", { restype: "nothing" }), NO_OPERATION],
    ["POST on a blob", verb("POST", "/bad/new"), "405 UnsupportedHttpVerb or 400"],
    ["PATCH on a blob", verb("PATCH", "/bad/new"), "405 UnsupportedHttpVerb or 400"],
    ["DELETE of the service", verb("DELETE", "/"), "405 UnsupportedHttpVerb or 400"],
    ["a timeout in words", at("/bad/b", { timeout: "soon" }), QUERY],
  ]);
});

suite("Snapshots and tiers", () => {
  const onSnapshot = (comp: string, headers: Fields = {}): RawRequest =>
    put("/bad/b", { ...(comp === "" ? {} : { comp }), snapshot: SNAPSHOT }, headers);
  const WRITE = `${QUERY} or 400 InvalidOperation or 400 UnsupportedQueryParameter`;
  const remove = (query: Fields, snapshots: string): RawRequest => ({
    ...{ method: "DELETE", path: "/bad/b", query },
    headers: { "x-ms-delete-snapshots": snapshots },
  });
  const infinite = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
  refused([
    ["a snapshot that is no time", at("/bad/b", { snapshot: "yesterday" }), QUERY],
    ["deleting with an unknown choice of snapshots", remove({}, "all"), HEADER],
    [
      "deleting a snapshot with its snapshots",
      remove({ snapshot: SNAPSHOT }, "include"),
      `${HEADER} or ${QUERY}`,
    ],
    ["Put Blob on a snapshot", onSnapshot("", BLOCK), WRITE],
    ["Set Blob Metadata on a snapshot", onSnapshot("metadata", { "x-ms-meta-a": "1" }), WRITE],
    ["Set Blob Properties on a snapshot", onSnapshot("properties"), WRITE],
    ["Lease Blob on a snapshot", onSnapshot("lease", infinite), WRITE],
    ["Snapshot Blob on a snapshot", onSnapshot("snapshot"), WRITE],
    ["no tier", put("/bad/b", { comp: "tier" }), REQUIRED],
    [
      "an unknown tier",
      put("/bad/b", { comp: "tier" }, { "x-ms-access-tier": "Warm" }),
      `${HEADER} or 400 InvalidBlobTier`,
    ],
  ]);
});

suite("The wire", () => {
  const many = Object.fromEntries(
    Array.from({ length: 300 }, (_, index) => [`x-ms-meta-a${index}`, "1"]),
  );
  refused([
    [
      "a URL over 32 KiB",
      at("/bad", { restype: "container", comp: "list", prefix: "p".repeat(33 * 1_024) }),
      "414",
    ],
    ["300 headers", putBlob(many), "431 or 400"],
    ["headers over 64 KiB", putBlob({ "x-ms-meta-a": "v".repeat(70_000) }), "431"],
  ]);

  /** Puts a blob of the name as it is encoded. */
  const putRaw = (name: string, headers: Fields) =>
    exchange(target.server, {
      method: "PUT",
      target: `/${target.server.account}/bad/${name}`,
      headers: { "x-ms-date": new Date().toUTCString(), "x-ms-version": VERSION, ...headers },
      body: "text",
    });

  for (const name of ["%zz", "a%", "%ff", "%c3%28"]) {
    test(`a path with "${name}": 400`, async () => {
      const reply = await putRaw(name, { ...BLOCK, "content-length": "4" });
      assert.equal(reply.status, 400, reply.text);
      assert.match(String(reply.code), /^(InvalidUri|InvalidInput|RequestUrlFailedToParse)$/);
    });
  }

  test("a body without its length: 411 MissingContentLengthHeader", async () => {
    const reply = await putRaw("new", { ...BLOCK, "transfer-encoding": "chunked" });
    assert.deepEqual([reply.status, reply.code], [411, "MissingContentLengthHeader"]);
  });
});

testUntouched(() => target);
