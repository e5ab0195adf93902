import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;
let count = 0;

before(async () => {
  server = await startServer();
});

after(() => server.stop());

type Headers = Record<string, string>;

const on = (name: string, method: string, comp: string, headers: Headers = {}) => {
  const query = { restype: "container", ...(comp === "" ? {} : { comp }) };
  return send(server, { method, path: `/${name}`, query, headers });
};

const OTHER = '"0x8D0000000000000"';
const HOUR_MS = 3_600_000;

type Current = { readonly etag: string; readonly modified: string; readonly earlier: string };

// SEMANTICS a.3 for writes; DESIGN section 6: the four container writes honour all four headers.
const NOT_MET = "412 ConditionNotMet";
const MULTIPLE = "400 MultipleConditionHeadersNotSupported";
const rows: [what: string, headers: (now: Current) => Headers, want: string][] = [
  ["If-Match with its ETag", ({ etag }) => ({ "if-match": etag }), "ok"],
  ["If-Match with its ETag unquoted", ({ etag }) => ({ "if-match": etag.slice(1, -1) }), "ok"],
  ["If-Match with any", () => ({ "if-match": "*" }), "ok"],
  ["If-Match with another", () => ({ "if-match": OTHER }), NOT_MET],
  ["If-None-Match with another", () => ({ "if-none-match": OTHER }), "ok"],
  ["If-None-Match with its ETag", ({ etag }) => ({ "if-none-match": etag }), NOT_MET],
  ["If-Modified-Since before", ({ earlier }) => ({ "if-modified-since": earlier }), "ok"],
  ["If-Modified-Since at", ({ modified }) => ({ "if-modified-since": modified }), NOT_MET],
  ["If-Unmodified-Since at", ({ modified }) => ({ "if-unmodified-since": modified }), "ok"],
  ["If-Unmodified-Since before", ({ earlier }) => ({ "if-unmodified-since": earlier }), NOT_MET],
  [
    "If-Match that holds beside If-Unmodified-Since that does not",
    ({ etag, earlier }) => ({ "if-match": etag, "if-unmodified-since": earlier }),
    "ok",
  ],
  [
    "If-None-Match that holds beside If-Modified-Since that does not",
    ({ modified }) => ({ "if-none-match": OTHER, "if-modified-since": modified }),
    "ok",
  ],
  [
    "If-Match beside If-None-Match",
    ({ etag }) => ({ "if-match": etag, "if-none-match": OTHER }),
    MULTIPLE,
  ],
  [
    "If-Modified-Since beside If-Unmodified-Since",
    ({ earlier, modified }) => ({
      "if-modified-since": earlier,
      "if-unmodified-since": modified,
    }),
    MULTIPLE,
  ],
  [
    "If-Match with two ETags",
    ({ etag }) => ({ "if-match": `${etag}, ${OTHER}` }),
    "400 InvalidHeaderValue",
  ],
  [
    "If-Modified-Since that is no date",
    () => ({ "if-modified-since": "yesterday" }),
    "400 InvalidHeaderValue",
  ],
];

const operations: [what: string, method: string, comp: string, headers: Headers, ok: number][] = [
  ["Set Container Metadata", "PUT", "metadata", { "x-ms-meta-a": "2" }, 200],
  ["Set Container ACL", "PUT", "acl", { "x-ms-blob-public-access": "blob" }, 200],
  [
    "Lease Container",
    "PUT",
    "lease",
    { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" },
    201,
  ],
  ["Delete Container", "DELETE", "", {}, 202],
];

for (const [operation, method, comp, headers, ok] of operations) {
  suite(operation, () => {
    for (const [what, conditions, want] of rows) {
      test(`${what}: ${want}`, async () => {
        const name = `when-${process.pid}-${++count}`;
        const created = await on(name, "PUT", "", { "x-ms-meta-a": "1" });
        assert.equal(created.status, 201);
        const modified = String(created.headers["last-modified"]);
        const now: Current = {
          etag: String(created.headers.etag),
          modified,
          earlier: new Date(Date.parse(modified) - HOUR_MS).toUTCString(),
        };
        const reply = await on(name, method, comp, { ...headers, ...conditions(now) });
        if (want === "ok") {
          assert.equal(reply.status, ok, reply.text);
          return;
        }
        assert.equal(`${reply.status} ${reply.code}`, want);
        const later = await on(name, "GET", "");
        assert.equal(later.headers.etag, now.etag);
        assert.equal(later.headers["x-ms-meta-a"], "1");
        assert.equal(later.headers["x-ms-blob-public-access"], undefined);
        assert.equal(later.headers["x-ms-lease-state"], "available");
      });
    }
  });
}
