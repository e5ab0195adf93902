import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, type ErrorDetails, errors } from "../rules/errors.ts";
import { routeKeys, router } from "./match.ts";
import { type Level, type Match, type Request, readOperation, theService } from "./operation.ts";

const row = (name: string, match: Match) =>
  readOperation({
    name,
    match,
    allow: { sas: "r", resource: "o" },
    guard: { on: theService, conditions: "none", lease: "own" },
    apply: async () => ({ status: 200, headers: {} }),
  });

const action = (value: string) => ({ name: "x-ms-lease-action", value });
const route = router([
  row("List Containers", { method: "GET", on: "service", comp: "list" }),
  row("Create Container", { method: "PUT", on: "container", restype: "container" }),
  row("List Blobs", { method: "GET", on: "container", restype: "container", comp: "list" }),
  row("Get Container Properties", {
    method: "GET",
    headToo: true,
    on: "container",
    restype: "container",
  }),
  row("Get Blob", { method: "GET", on: "blob" }),
  row("Get Blob Properties", { method: "HEAD", on: "blob" }),
  row("Put Blob", {
    method: "PUT",
    on: "blob",
    header: { name: "x-ms-blob-type", value: "BlockBlob" },
  }),
  row("Copy Blob", { method: "PUT", on: "blob", header: { name: "x-ms-copy-source" } }),
  row("Peek", { method: "GET", on: "messages", query: { name: "peekonly", value: "true" } }),
  row("Get Messages", { method: "GET", on: "messages" }),
  row("Acquire Lease", { method: "PUT", on: "blob", comp: "lease", header: action("acquire") }),
  row("Renew Lease", { method: "PUT", on: "blob", comp: "lease", header: action("renew") }),
]);

type Asked = [method: string, level: Level, query: string, headers?: Record<string, string>];
const request = ([method, level, query, headers = {}]: Asked) =>
  ({
    method,
    level,
    query: new Map(new URLSearchParams(query)),
    header: (name: string) => headers[name],
  }) as unknown as Request;

const found: [asked: Asked, want: string][] = [
  [["GET", "service", "comp=list"], "List Containers"],
  [["PUT", "container", "restype=container"], "Create Container"],
  [["GET", "container", "restype=container&comp=list"], "List Blobs"],
  [["GET", "container", "restype=container&comp=list&prefix=a&timeout=1"], "List Blobs"],
  [["GET", "container", "restype=container"], "Get Container Properties"],
  [["HEAD", "container", "restype=container"], "Get Container Properties"],
  [["GET", "blob", ""], "Get Blob"],
  [["GET", "blob", "snapshot=x"], "Get Blob"],
  [["HEAD", "blob", ""], "Get Blob Properties"],
  [["PUT", "blob", "", { "x-ms-blob-type": "BlockBlob" }], "Put Blob"],
  [["PUT", "blob", "", { "x-ms-copy-source": "http://a/b" }], "Copy Blob"],
  [["PUT", "blob", "comp=lease", { "x-ms-lease-action": "acquire" }], "Acquire Lease"],
  [["GET", "messages", "peekonly=true&numofmessages=2"], "Peek"],
  [["GET", "messages", "peekonly=True"], "Peek"],
  [["GET", "messages", "peekonly=false"], "Get Messages"],
  [["GET", "messages", ""], "Get Messages"],
  [["PUT", "blob", "comp=lease", { "x-ms-lease-action": "renew" }], "Renew Lease"],
];
for (const [asked, want] of found) {
  const [method, level, query, headers] = asked;
  test(`router(): ${method} ${level} ?${query} ${JSON.stringify(headers ?? {})} is ${want}`, () =>
    assert.equal(route(request(asked)).name, want));
}

// Errors of SEMANTICS h: a header that is missing or wrong, a parameter that is, a verb that does not fit.
const header = (name: string, value?: string): ErrorDetails =>
  value === undefined ? { HeaderName: name } : { HeaderName: name, HeaderValue: value };
const query = (name: string, value: string): ErrorDetails => ({
  QueryParameterName: name,
  QueryParameterValue: value,
});
type Refused = [
  what: string,
  asked: Asked,
  want: ErrorCode,
  status: number,
  details?: ErrorDetails,
];
const refused: Refused[] = [
  [
    "no lease action",
    ["PUT", "blob", "comp=lease"],
    "MissingRequiredHeader",
    400,
    header("x-ms-lease-action"),
  ],
  [
    "an unknown lease action",
    ["PUT", "blob", "comp=lease", { "x-ms-lease-action": "steal" }],
    "InvalidHeaderValue",
    400,
    header("x-ms-lease-action", "steal"),
  ],
  [
    "an empty lease action",
    ["PUT", "blob", "comp=lease", { "x-ms-lease-action": "" }],
    "InvalidHeaderValue",
    400,
    header("x-ms-lease-action", ""),
  ],
  [
    "an unknown comp of a blob",
    ["GET", "blob", "comp=nonsense"],
    "InvalidQueryParameterValue",
    400,
    query("comp", "nonsense"),
  ],
  [
    "an unknown comp of a container",
    ["GET", "container", "restype=container&comp=nonsense"],
    "InvalidQueryParameterValue",
    400,
    query("comp", "nonsense"),
  ],
  [
    "an unknown comp of the service",
    ["GET", "service", "comp=nonsense"],
    "InvalidQueryParameterValue",
    400,
    query("comp", "nonsense"),
  ],
  [
    "an unknown restype",
    ["GET", "container", "restype=nonsense"],
    "InvalidQueryParameterValue",
    400,
    query("restype", "nonsense"),
  ],
  [
    "the service without comp",
    ["GET", "service", ""],
    "MissingRequiredQueryParameter",
    400,
    { QueryParameterName: "comp" },
  ],
  ["a verb that a blob does not take", ["POST", "blob", ""], "UnsupportedHttpVerb", 405],
  [
    "a verb that a list does not take",
    ["DELETE", "service", "comp=list"],
    "UnsupportedHttpVerb",
    405,
  ],
  ["a verb that a lease does not take", ["GET", "blob", "comp=lease"], "UnsupportedHttpVerb", 405],
];
for (const [what, asked, want, status, details = {}] of refused) {
  test(`router(): ${what} is refused with ${want}`, () => {
    assert.throws(() => route(request(asked)), { code: want, details });
    assert.equal(errors[want][0], status);
  });
}

test("router(): no blob type is refused, whatever header is missed", () =>
  assert.throws(() => route(request(["PUT", "blob", ""])), { code: "MissingRequiredHeader" }));

test("router(): a blob type nobody knows is refused as a wrong value, not as a missing one", () =>
  assert.throws(() => route(request(["PUT", "blob", "", { "x-ms-blob-type": "CubeBlob" }])), {
    code: "InvalidHeaderValue",
    details: header("x-ms-blob-type", "CubeBlob"),
  }));

test("routeKeys(): a row that HEAD shares has two keys, and no two rows are taken for one", () => {
  const match: Match = { method: "GET", on: "container", restype: "container" };
  assert.equal(routeKeys(match).length, 1);
  assert.equal(new Set(routeKeys({ ...match, headToo: true })).size, 2);
  assert.notDeepEqual(routeKeys(match), routeKeys({ ...match, comp: "list" }));
  assert.notDeepEqual(routeKeys(match), routeKeys({ ...match, on: "blob" }));
});
