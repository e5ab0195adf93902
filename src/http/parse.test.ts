import assert from "node:assert/strict";
import { test } from "node:test";
import { blobService } from "../blob/operations.ts";
import { type ErrorCode, errors } from "../rules/errors.ts";
import {
  type Address,
  clientIdOf,
  type Message,
  parseAddress,
  parseRequest,
  statedVersion,
} from "./parse.ts";

// SEMANTICS d.14 (host style, path style, secondary), c.1 ($root), 0 (versions, client request id).
type Headers = Record<string, string>;
const PATH_HOST = "127.0.0.1:10000";
const HOST = "abc.blob.core.windows.net";
const incoming = (url: string, headers: Headers = { host: PATH_HOST }): Message => ({
  method: "GET",
  url,
  headers,
  rawHeaders: Object.entries(headers).flat(),
});

const addresses: [what: string, host: string, url: string, want: Partial<Address>][] = [
  [
    "path style",
    PATH_HOST,
    "/abc/c/b",
    {
      account: "abc",
      hostStyle: false,
      secondary: false,
      rawPath: "/abc/c/b",
      segments: ["c", "b"],
      endpoint: `http://${PATH_HOST}/abc/`,
    },
  ],
  [
    "path style by name",
    "localhost",
    "/abc/c",
    { account: "abc", hostStyle: false, segments: ["c"] },
  ],
  ["path style, the service", PATH_HOST, "/abc", { account: "abc", rawPath: "/abc" }],
  [
    "path style, a slash after the account",
    PATH_HOST,
    "/abc/?comp=list",
    { account: "abc", rawPath: "/abc/" },
  ],
  [
    "path style, the secondary",
    PATH_HOST,
    "/abc-secondary/c/b",
    {
      account: "abc",
      rawPath: "/abc-secondary/c/b",
      segments: ["c", "b"],
      endpoint: `http://${PATH_HOST}/abc-secondary/`,
      secondary: true,
    },
  ],
  [
    "host style",
    HOST,
    "/c/b",
    {
      account: "abc",
      hostStyle: true,
      rawPath: "/c/b",
      segments: ["c", "b"],
      endpoint: `http://${HOST}/`,
    },
  ],
  [
    "host style with a port",
    "abc.blob.localhost:10000",
    "/c/b",
    { account: "abc", hostStyle: true, endpoint: "http://abc.blob.localhost:10000/" },
  ],
  [
    "host style in upper case",
    "ABC.Blob.core.windows.net",
    "/c",
    { account: "abc", hostStyle: true },
  ],
  [
    "host style, the secondary",
    "abc-secondary.blob.core.windows.net",
    "/c/b",
    { account: "abc", hostStyle: true, segments: ["c", "b"], secondary: true },
  ],
  [
    "a whole URL",
    PATH_HOST,
    "http://127.0.0.1:10000/abc/c/b?comp=list",
    { account: "abc", rawPath: "/abc/c/b", segments: ["c", "b"], parameters: [["comp", "list"]] },
  ],
  [
    "a whole URL in host style",
    HOST,
    `http://${HOST}/c/b`,
    { account: "abc", rawPath: "/c/b", segments: ["c", "b"] },
  ],
  [
    "a whole URL, whose host counts",
    PATH_HOST,
    `http://${HOST}/c/b`,
    { account: "abc", hostStyle: true, endpoint: `http://${HOST}/`, segments: ["c", "b"] },
  ],
  [
    "names are decoded, the path is kept as sent",
    PATH_HOST,
    "/abc/c/a%20b+c%2Fd",
    { rawPath: "/abc/c/a%20b+c%2Fd", segments: ["c", "a b+c/d"] },
  ],
  ["text beyond ASCII", PATH_HOST, "/abc/c/gr%C3%B6%C3%9Fe", { segments: ["c", "größe"] }],
  [
    "dots are names like others",
    PATH_HOST,
    "/abc/c/../d/./e",
    { segments: ["c", "..", "d", ".", "e"] },
  ],
  ["slashes are part of a name", PATH_HOST, "/abc/c//b/", { segments: ["c", "", "b", ""] }],
  [
    "a query",
    PATH_HOST,
    "/abc?Comp=List&prefix=a%20b%26c",
    {
      parameters: [
        ["comp", "List"],
        ["prefix", "a b&c"],
      ],
    },
  ],
  [
    "a plus in a query is a plus",
    PATH_HOST,
    "/abc?prefix=a+b",
    { parameters: [["prefix", "a+b"]] },
  ],
  [
    "a plus in an option of OData is a space",
    PATH_HOST,
    "/abc?$filter=a+eq+%271%2B2%27&%24top=1",
    {
      parameters: [
        ["$filter", "a eq '1+2'"],
        ["$top", "1"],
      ],
    },
  ],
  [
    "a plus in the texts of a signature is a space, but not in the signature",
    PATH_HOST,
    "/abc?rscd=a+b%2Bc&si=my+policy&SRK=x+y&sig=a+b",
    {
      parameters: [
        ["rscd", "a b+c"],
        ["si", "my policy"],
        ["srk", "x y"],
        ["sig", "a+b"],
      ],
    },
  ],
  [
    "parameters without a value, and none",
    PATH_HOST,
    "/abc?a&b=&&c=d=e",
    {
      parameters: [
        ["a", ""],
        ["b", ""],
        ["c", "d=e"],
      ],
    },
  ],
  [
    "a parameter twice",
    PATH_HOST,
    "/abc?a=1&a=2",
    {
      parameters: [
        ["a", "1"],
        ["a", "2"],
      ],
    },
  ],
  ["a question mark in a query", PATH_HOST, "/abc?a=?", { parameters: [["a", "?"]] }],
];
for (const [what, host, url, want] of addresses) {
  test(`parseAddress(): ${what}`, () => {
    const address = parseAddress(incoming(url, { host }), false);
    const got = Object.fromEntries(
      Object.keys(want).map((name) => [name, address[name as keyof Address]]),
    );
    assert.deepEqual(got, want);
  });
}

test("parseAddress(): the endpoint says https where the connection is", () =>
  assert.equal(parseAddress(incoming("/abc/c"), true).endpoint, `https://${PATH_HOST}/abc/`));

const badUrls: [what: string, url: string, want: ErrorCode, status: number][] = [
  ["a percent sign alone", "/abc/c/100%", "InvalidUri", 400],
  ["digits that are none", "/abc/c/%zz", "InvalidUri", 400],
  ["bytes that are not UTF-8", "/abc/c/%ff", "InvalidUri", 400],
  ["half a character", "/abc/c/%C3", "InvalidUri", 400],
  ["a surrogate", "/abc/c/%ED%A0%80", "InvalidUri", 400],
  ["a bad encoding in the account", "/%ff/c", "InvalidUri", 400],
  ["a star", "*", "InvalidUri", 400],
  ["another protocol", "ftp://127.0.0.1/abc", "InvalidUri", 400],
  ["no slash", "abc/c", "InvalidUri", 400],
  ["an URL without end", `/abc/c/${"a".repeat(40_000)}`, "RequestUrlTooLong", 414],
];
for (const [what, url, want, status] of badUrls) {
  test(`parseAddress(): ${what} is refused`, () => {
    assert.throws(() => parseAddress(incoming(url), false), { code: want });
    assert.equal(errors[want][0], status);
  });
}

test("parseAddress(): a bad encoding in the query is refused with 400", () => {
  for (const url of ["/abc?prefix=%zz", "/abc?%ff=1"]) {
    assert.throws(
      () => parseAddress(incoming(url), false),
      ({ code }: { code: ErrorCode }) => errors[code][0] === 400,
    );
  }
});

const read = (url: string, headers: Headers = {}, defaultVersion?: string) => {
  const message = incoming(url, { host: PATH_HOST, ...headers });
  const ids = { id: "id", clientId: undefined };
  const address = parseAddress(message, false);
  const version = statedVersion(message, address) ?? defaultVersion;
  return parseRequest(message, blobService, address, ids, version);
};

// What a path names: c.1 has a blob of the root container stand right after the account.
const places: [url: string, level: string, container: string, blob: string][] = [
  ["/abc", "service", "", ""],
  ["/abc/", "service", "", ""],
  ["/abc/?comp=list", "service", "", ""],
  ["/abc/c?restype=container", "container", "c", ""],
  ["/abc/c/?restype=container", "container", "c", ""],
  ["/abc/$root?restype=container", "container", "$root", ""],
  ["/abc/c/b", "blob", "c", "b"],
  ["/abc/c/a/b", "blob", "c", "a/b"],
  ["/abc/c/a%2Fb", "blob", "c", "a/b"],
  ["/abc/c/a%5Cb\\c", "blob", "c", "a/b/c"],
  ["/abc/c/a/", "blob", "c", "a/"],
  ["/abc/$root/b", "blob", "$root", "b"],
  ["/abc/b.txt", "blob", "$root", "b.txt"],
];
for (const [url, level, container, blob] of places) {
  test(`parseRequest(): ${url} is ${level} ${container} ${blob}`, () => {
    const request = read(url);
    const names = [container, blob].filter((name) => name !== "");
    assert.deepEqual([request.level, request.names], [level, names]);
  });
}

test("parseRequest(): a slash after a root blob's name is refused with 400", () =>
  assert.throws(() => read("/abc/name/"), { code: "InvalidUri" }));

const versions: [
  what: string,
  url: string,
  headers: Headers,
  fallback: string | undefined,
  want: string,
][] = [
  ["the header", "/abc", { "x-ms-version": "2019-12-12" }, undefined, "2019-12-12"],
  ["the first version", "/abc", { "x-ms-version": "2009-04-14" }, undefined, "2009-04-14"],
  ["a version to come", "/abc", { "x-ms-version": "2031-01-01" }, undefined, "2031-01-01"],
  ["the account's default", "/abc", {}, "2015-04-05", "2015-04-05"],
];
for (const [what, url, headers, fallback, want] of versions) {
  test(`parseRequest(): the version is ${what}`, () =>
    assert.equal(read(url, headers, fallback).version, want));
}

const guid = "12345678-9abc-def0-1234-56789abcdef0";
const badHeaders: [name: string, value: string][] = [
  ["x-ms-version", "yesterday"],
  ["x-ms-version", "2009-04-13"],
  ["x-ms-lease-id", "my lease"],
  ["if-modified-since", "yesterday"],
];
for (const [name, value] of badHeaders) {
  test(`parseRequest(): ${name}: ${value} is refused`, () =>
    assert.throws(() => read("/abc", { [name]: value }), {
      code: "InvalidHeaderValue",
      details: { HeaderName: name, HeaderValue: value },
    }));
}

const stated: [what: string, url: string, headers: Headers, want: string | undefined][] = [
  ["nothing", "/abc/c/b", {}, undefined],
  ["the header", "/abc/c/b?api-version=2016-05-31", { "x-ms-version": "2017-04-17" }, "2017-04-17"],
  ["the parameter", "/abc/c/b?api-version=2016-05-31&sv=2018-11-09&sig=a", {}, "2016-05-31"],
  ["the signature", "/abc/c/b?sv=2018-11-09&sig=a", {}, "2018-11-09"],
  ["a signature's version that is none", "/abc/c/b?sv=new&sig=a", {}, undefined],
  ["no signature", "/abc/c/b?sv=2018-11-09", {}, undefined],
];
for (const [what, url, headers, want] of stated) {
  test(`statedVersion(): ${what} says ${want}`, () => {
    const message = incoming(url, { host: PATH_HOST, ...headers });
    assert.equal(statedVersion(message, parseAddress(message, false)), want);
  });
}

test("parseRequest(): reads lease id, conditions and snapshot", () => {
  const url = "/abc/c/b?snapshot=2011-03-09T01%3A42%3A34.9360000Z";
  const request = read(url, { "x-ms-lease-id": guid.toUpperCase(), "if-match": '"0x1"' });
  assert.equal(request.leaseId, guid);
  assert.deepEqual(request.conditions, { ifMatch: ["0x1"] });
  assert.equal(typeof request.snapshot, "bigint");
});

test("parseRequest(): `include` may be sent once for each value, other parameters with one value only", () => {
  const request = read("/abc/c?include=snapshots&include=metadata&comp=list&COMP=list");
  assert.equal(request.query.get("include"), "snapshots,metadata");
  assert.equal(request.query.get("comp"), "list");
  const twice = read("/abc/c?prefix=a&prefix=b&tag=a&tag=b");
  assert.throws(() => twice.query.get("prefix"), { code: "InvalidQueryParameterValue" });
});

test("parseRequest(): a snapshot that is no time is refused", () =>
  assert.throws(() => read("/abc/c/b?snapshot=yesterday"), { code: "InvalidQueryParameterValue" }));

test("parseRequest(): headersFrom() keeps the case of names and takes the prefix off", () => {
  const request = read("/abc/c/b", {
    "X-Ms-Meta-MyName": "1",
    "x-ms-meta-other": "2",
    "x-ms-met": "3",
  });
  assert.deepEqual(request.headersFrom("x-ms-meta-"), [
    ["MyName", "1"],
    ["other", "2"],
  ]);
});

// x-ms-client-request-id goes back if it has at most 1,024 visible ASCII characters.
const clientIds: [what: string, id: string | undefined, echoed: boolean][] = [
  ["a GUID", guid, true],
  ["1,024 characters", "a".repeat(1024), true],
  ["1,025 characters", "a".repeat(1025), false],
  ["nothing", "", false],
  ["no header", undefined, false],
  ["a letter beyond ASCII", "ä", false],
];
for (const [what, id, echoed] of clientIds) {
  test(`clientIdOf(): ${what} is ${echoed ? "sent back" : "left out"}`, () => {
    const headers: Headers = id === undefined ? {} : { "x-ms-client-request-id": id };
    assert.equal(clientIdOf(incoming("/abc", headers)), echoed ? id : undefined);
  });
}
