import assert from "node:assert/strict";
import { test } from "node:test";
import { corsReply, exposedNames, type Preflight, preflightHeaders, type Rule } from "./cors.ts";

const rule = (origins: string, more: Partial<Rule> = {}): Rule => ({
  origins,
  methods: "GET,PUT",
  allowedHeaders: "x-ms-*,content-type",
  exposedHeaders: "x-ms-meta-*,ETag",
  maxAgeSeconds: 60,
  ...more,
});
const all = rule("*");
const exact = rule("http://a.test");
const domain = rule("https://*.example.com");

// SEMANTICS d.13.
const asked = (more: Partial<Preflight> = {}): Preflight => ({
  origin: "http://a.test",
  method: "PUT",
  headers: undefined,
  ...more,
});
const preflights: [what: string, rules: Rule[], asked: Preflight, want: boolean][] = [
  ["no rules", [], asked(), false],
  ["everybody", [all], asked(), true],
  ["the origin itself", [exact], asked(), true],
  ["another origin", [exact], asked({ origin: "http://b.test" }), false],
  ["the origin in another case", [exact], asked({ origin: "http://A.test" }), false],
  ["the origin with another port", [exact], asked({ origin: "http://a.test:81" }), false],
  ["one of several origins", [rule("http://b.test, http://a.test")], asked(), true],
  ["below a domain", [domain], asked({ origin: "https://x.y.example.com" }), true],
  ["the domain itself", [domain], asked({ origin: "https://example.com" }), false],
  [
    "the domain with nothing before its dot",
    [domain],
    asked({ origin: "https://.example.com" }),
    false,
  ],
  ["one that only ends so", [domain], asked({ origin: "https://badexample.com" }), false],
  ["below a domain by another scheme", [domain], asked({ origin: "http://x.example.com" }), false],
  ["another method", [all], asked({ method: "DELETE" }), false],
  ["a header by its name", [all], asked({ headers: "Content-Type" }), true],
  ["a header by its beginning", [all], asked({ headers: "X-Ms-Date,x-ms-version" }), true],
  ["a header that is not allowed", [all], asked({ headers: "x-ms-date,authorization" }), false],
  ["any header", [rule("*", { allowedHeaders: "*" })], asked({ headers: "authorization" }), true],
  ["no header where none is allowed", [rule("*", { allowedHeaders: "" })], asked(), true],
  [
    "a later rule whose headers fit is not asked",
    [rule("*", { allowedHeaders: "" }), all],
    asked({ headers: "x-ms-date" }),
    false,
  ],
  ["a later rule whose method fits is", [rule("*", { methods: "GET" }), all], asked(), true],
];
for (const [what, rules, preflight, want] of preflights) {
  test(`preflightHeaders(): ${what}: ${want ? "yes" : "no"}`, () =>
    assert.equal(preflightHeaders(rules, preflight) !== undefined, want));
}

test("preflightHeaders(): an origin of its own is echoed, with credentials", () =>
  assert.deepEqual(preflightHeaders([exact], asked({ headers: "x-ms-date, content-type" })), {
    "Access-Control-Allow-Origin": "http://a.test",
    "Access-Control-Allow-Credentials": "true",
    "Access-Control-Allow-Methods": "PUT",
    "Access-Control-Allow-Headers": "x-ms-date,content-type",
    "Access-Control-Max-Age": 60,
    Vary: "Origin",
  }));

test("preflightHeaders(): everybody is a star, without credentials", () =>
  assert.deepEqual(preflightHeaders([all], asked()), {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "PUT",
    "Access-Control-Max-Age": 60,
    Vary: "Origin",
  }));

// The table of SEMANTICS d.13, row by row; then what is not GET or HEAD.
const VARY = "Vary: Origin";
const STAR = "Access-Control-Allow-Origin: *";
const ECHO = "Access-Control-Allow-Origin: http://a.test";
const CREDENTIALS = "Access-Control-Allow-Credentials: true";
const replies: [
  origin: string | undefined,
  rules: Rule[],
  method: string,
  want: string[],
  exposed: boolean,
][] = [
  [undefined, [], "GET", [], false],
  [undefined, [exact], "GET", [VARY], false],
  [undefined, [all], "GET", [STAR], true],
  ["http://a.test", [], "GET", [], false],
  ["http://a.test", [exact], "GET", [ECHO, CREDENTIALS, VARY], true],
  ["http://b.test", [exact], "GET", [VARY], false],
  ["http://a.test", [all], "GET", [STAR], true],
  ["http://a.test", [rule("*", { methods: "PUT" })], "GET", [VARY], false],
  ["http://a.test", [exact], "PUT", [ECHO, CREDENTIALS], true],
  ["http://b.test", [exact], "PUT", [], false],
  [undefined, [all], "PUT", [], false],
  ["http://a.test", [all], "PUT", [STAR], true],
];
for (const [origin, rules, method, want, exposed] of replies) {
  test(`corsReply(): ${method} from ${origin} with ${rules.map(({ origins }) => origins)}: ${want}`, () => {
    const reply = corsReply(rules, origin, method);
    const headers = (reply?.headers ?? []).map((pair) => pair.join(": "));
    assert.deepEqual(headers, want);
    assert.equal((reply?.exposed.length ?? 0) > 0, exposed);
  });
}

const exposures: [exposed: string[], names: string[], want: string[]][] = [
  [[], ["ETag"], []],
  [["etag"], ["ETag"], ["ETag"]],
  [["x-ms-error-code"], ["ETag"], ["x-ms-error-code"]],
  [["x-ms-meta-*"], ["x-ms-meta-a", "x-ms-version", "x-ms-meta-B"], ["x-ms-meta-a", "x-ms-meta-B"]],
  [["*"], ["ETag", "Date"], ["ETag", "Date"]],
];
for (const [exposed, names, want] of exposures) {
  test(`exposedNames(): ${exposed} of ${names}: ${want}`, () =>
    assert.deepEqual(exposedNames(exposed, names), want));
}
