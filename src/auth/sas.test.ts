import assert from "node:assert/strict";
import { createHmac, createSecretKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type ErrorCode, StorageError } from "../rules/errors.ts";
import type { Service } from "./caller.ts";
import { checkUse, isGenuine, readSas, type SasRequest } from "./sas.ts";

type Vector = {
  readonly name: string;
  readonly service: Service;
  readonly names: readonly string[];
  readonly query: string;
  readonly text: string;
};
type Vectors = {
  readonly account: string;
  readonly key: string;
  readonly vectors: readonly Vector[];
};
const { account, key, vectors } = JSON.parse(
  readFileSync("test/vectors/sas.json", "utf8"),
) as Vectors;
const secret = createSecretKey(Buffer.from(key, "base64"));
const now = Date.UTC(2026, 5, 1);

type Asked = Partial<Omit<SasRequest, "query">> & { readonly query: string | URLSearchParams };

const request = ({ query, ...rest }: Asked): SasRequest => ({
  service: "blob",
  account,
  names: ["c1", "b"],
  client: "1.2.3.5",
  secure: true,
  header: () => undefined,
  ...rest,
  query: new Map(new URLSearchParams(query)),
});

for (const { name, text, ...asked } of vectors) {
  test(`readSas(): the string to sign of "${name}" is the SDK's, and its signature is genuine`, () => {
    const signed = readSas(request(asked), now);
    assert.equal(signed.text, text);
    assert.ok(isGenuine(signed, [secret]));
    assert.ok(isGenuine(signed, [createSecretKey(Buffer.from("another")), secret]));
    assert.ok(!isGenuine(signed, [createSecretKey(Buffer.from("another"))]));
  });

  test(`readSas(): "${name}" with one character changed is not genuine`, () => {
    const parameters = [...new URLSearchParams(asked.query)];
    for (const [parameter, value] of parameters) {
      for (let at = 0; at < value.length; at++) {
        const query = new URLSearchParams(asked.query);
        query.set(parameter, withOther(value, at));
        if (parameter === "tn") assert.ok(!isTaken({ ...asked, query }), `${parameter} ${at}`);
        else if (isSigned(asked.service, parameter, asked.query)) {
          assert.ok(!isTaken({ ...asked, query }), `${parameter} with ${query.get(parameter)}`);
        }
      }
    }
    if (asked.query.includes("srt=")) return;
    for (const [i, part] of asked.names.entries()) {
      // What a container's signature reaches in it is another matter.
      if (i > 0 && /sr=[cs]\b/.test(asked.query)) continue;
      const names = asked.names.with(i, withOther(part, 0));
      assert.ok(!isTaken({ ...asked, names }), names.join("/"));
    }
  });
}

/** The kind is signed since 2018-11-09 and for blobs only; before that the resource tells it. */
const isSigned = (service: Service, parameter: string, query: string) =>
  parameter !== "sr" || (service === "blob" && !query.includes("sv=2015"));

const withOther = (text: string, at: number) =>
  text.slice(0, at) + (text[at] === "1" ? "2" : "1") + text.slice(at + 1);

function isTaken(asked: Asked): boolean {
  try {
    return isGenuine(readSas(request(asked), now), [secret]);
  } catch (error) {
    assert.ok(error instanceof StorageError, String(error));
    return false;
  }
}

test("vectors: there are 26 of SAS, beside 3 of Shared Key", () => {
  assert.equal(vectors.length, 26);
  const { vectors: others } = JSON.parse(readFileSync("test/vectors/shared-key.json", "utf8")) as {
    vectors: unknown[];
  };
  assert.equal(others.length, 3);
});

/** Signs what `readSas` finds the text to be, and reads it again. */
function signed(asked: Asked) {
  const query = new URLSearchParams(asked.query);
  const { text } = readSas(request({ ...asked, query }), now);
  query.set("sig", createHmac("sha256", secret).update(text).digest("base64"));
  return { query, text };
}

// Older forms, which no SDK makes any more: SEMANTICS d.6 and d.7.
const older: [what: string, asked: Asked, text: string][] = [
  [
    "before 2012-02-12",
    { query: "sp=r&se=2030-01-01&sr=b" },
    `r\n\n2030-01-01\n/${account}/c1/b\n`,
  ],
  [
    "2012-02-12",
    { query: "sv=2012-02-12&sp=r&st=2020-01-01&se=2030-01-01&sr=c&si=p" },
    `r\n2020-01-01\n2030-01-01\n/${account}/c1\np\n2012-02-12`,
  ],
  [
    "2013-08-15",
    { query: "sv=2013-08-15&sp=r&se=2030-01-01&sr=b&rscc=no-store&rsct=text/plain" },
    `r\n\n2030-01-01\n/${account}/c1/b\n\n2013-08-15\nno-store\n\n\n\ntext/plain`,
  ],
  [
    "2015-02-21",
    { query: "sv=2015-02-21&sp=r&se=2030-01-01&sr=b&rscd=attachment" },
    `r\n\n2030-01-01\n/blob/${account}/c1/b\n\n2015-02-21\n\nattachment\n\n\n`,
  ],
  [
    "of a queue in 2013-08-15",
    { service: "queue", names: ["q1"], query: "sv=2013-08-15&sp=raup&se=2030-01-01" },
    `raup\n\n2030-01-01\n/${account}/q1\n\n2013-08-15`,
  ],
  [
    "of a table in 2013-08-15",
    { service: "table", names: ["T1"], query: "sv=2013-08-15&sp=r&se=2030-01-01&tn=t1&spk=a" },
    `r\n\n2030-01-01\n/${account}/t1\n\n2013-08-15\na\n\n\n`,
  ],
  [
    "of a version",
    { query: "sv=2020-12-06&sp=r&se=2030-01-01&sr=bv&versionid=v&ses=scope" },
    `r\n\n2030-01-01\n/blob/${account}/c1/b\n\n\n\n2020-12-06\nbv\nv\nscope\n\n\n\n\n`,
  ],
  [
    "of a directory",
    { names: ["c1", "d/e/f"], query: "sv=2020-12-06&sp=r&se=2030-01-01&sr=d&sdd=2" },
    `r\n\n2030-01-01\n/blob/${account}/c1/d/e\n\n\n\n2020-12-06\nd\n\n\n\n\n\n\n`,
  ],
  [
    "of a directory, for itself",
    { names: ["c1", "d/e"], query: "sv=2020-12-06&sp=r&se=2030-01-01&sr=d&sdd=2" },
    `r\n\n2030-01-01\n/blob/${account}/c1/d/e\n\n\n\n2020-12-06\nd\n\n\n\n\n\n\n`,
  ],
  [
    "of a directory, for a list of it",
    { names: ["c1"], query: "sv=2020-12-06&sp=l&se=2030-01-01&sr=d&sdd=2&prefix=d/e/" },
    `l\n\n2030-01-01\n/blob/${account}/c1/d/e\n\n\n\n2020-12-06\nd\n\n\n\n\n\n\n`,
  ],
  [
    "of a queue by a user",
    {
      service: "queue",
      names: ["q1"],
      query: `sv=2025-07-05&sp=p&se=2030-01-01&sr=q&${delegated("q")}&sduoid=u&skdutid=t`,
    },
    `p\n\n2030-01-01\n/queue/${account}/q1\no\nt\n2026-05-31\n2026-06-02\nq\n2025-07-05\nt\nu\n\n\n2025-07-05`,
  ],
  [
    "of a file by a user",
    {
      service: "file",
      names: ["s1", "d/f"],
      query: `sv=2025-07-05&sp=r&se=2030-01-01&sr=f&${delegated("f")}&rsct=a/b`,
    },
    `r\n\n2030-01-01\n/file/${account}/s1/d/f\no\nt\n2026-05-31\n2026-06-02\nf\n2025-07-05\n\n\n\n\n2025-07-05\n\n\n\n\na/b`,
  ],
  [
    "that binds headers and parameters",
    {
      header: (name) => ({ "x-ms-a": "1", "x-ms-b": "2" })[name],
      query: `sv=2026-04-06&sp=r&se=2030-01-01&sr=b&${delegated("b")}&srh=x-ms-A,x-ms-b&srq=Foo&foo=bar`,
    },
    `r\n\n2030-01-01\n/blob/${account}/c1/b\no\nt\n2026-05-31\n2026-06-02\nb\n2025-07-05\n\n\n\n\n\n\n\n2026-04-06\nb\n\n\nx-ms-A:1\nx-ms-b:2\n\n\nFoo:bar\n\n\n\n\n`,
  ],
];
for (const [what, asked, text] of older) {
  test(`readSas(): the string to sign ${what}`, () => {
    const made = signed(asked);
    assert.equal(made.text, text);
    assert.ok(isTaken({ ...asked, query: made.query }));
  });
}

function delegated(service: string): string {
  return `skoid=o&sktid=t&skt=2026-05-31&ske=2026-06-02&sks=${service}&skv=2025-07-05`;
}

const GOOD = "sv=2020-12-06&sp=r&se=2030-01-01&sr=b&sig=AAAA";
const refused: [what: string, asked: Asked, code: ErrorCode, detail: RegExp][] = [
  [
    "a version that is none",
    { query: GOOD.replace("2020-12-06", "new") },
    "AuthenticationFailed",
    /signed version/,
  ],
  ["no expiry", { query: "sv=2020-12-06&sp=r&sr=b" }, "AuthenticationFailed", /expiry/],
  [
    "no permissions",
    { query: "sv=2020-12-06&se=2030-01-01&sr=b" },
    "AuthenticationFailed",
    /permissions/,
  ],
  [
    "a permission twice",
    { query: GOOD.replace("sp=r", "sp=rwr") },
    "AuthenticationFailed",
    /twice/,
  ],
  [
    "a permission that is none",
    { query: GOOD.replace("sp=r", "sp=rZ") },
    "AuthenticationFailed",
    /'Z'/,
  ],
  [
    "an expiry that is none",
    { query: GOOD.replace("2030-01-01", "soon") },
    "AuthenticationFailed",
    /ISO 8601/,
  ],
  ["a start that is none", { query: `${GOOD}&st=soon` }, "AuthenticationFailed", /ISO 8601/],
  [
    "an end before the start",
    { query: `${GOOD}&st=2031-01-01` },
    "AuthenticationFailed",
    /must be after/,
  ],
  [
    "one that has expired",
    { query: GOOD.replace("2030", "2026") },
    "AuthenticationFailed",
    /time frame/,
  ],
  [
    "one that is not valid yet",
    { query: `${GOOD}&st=2029-01-01` },
    "AuthenticationFailed",
    /time frame/,
  ],
  ["a protocol that is none", { query: `${GOOD}&spr=http` }, "AuthenticationFailed", /spr/],
  [
    "a resource that is none",
    { query: GOOD.replace("sr=b", "sr=x") },
    "AuthenticationFailed",
    /sr/,
  ],
  ["no resource", { query: GOOD.replace("&sr=b", "") }, "AuthenticationFailed", /sr/],
  [
    "one thing for what contains it",
    { names: ["c1"], query: GOOD },
    "AuthenticationFailed",
    /contains/,
  ],
  ["anything above a container", { names: [], query: GOOD }, "AuthenticationFailed", /above/],
  [
    "a snapshot's in a version that did not sign that",
    { query: "sv=2015-04-05&sp=r&se=2030-01-01&sr=bs" },
    "AuthenticationFailed",
    /sr/,
  ],
  [
    "a directory's in a version that did not have it",
    { query: "sv=2018-11-09&sp=r&se=2030-01-01&sr=d&sdd=1" },
    "DirectorySasNotSupportedVersion",
    /^$/,
  ],
  [
    "a directory's without its depth",
    { query: GOOD.replace("sr=b", "sr=d") },
    "QueryParameterSasMandatory",
    /^$/,
  ],
  [
    "a directory's of no depth",
    { query: `${GOOD.replace("sr=b", "sr=d")}&sdd=0` },
    "QueryParameterSddInvalid",
    /^$/,
  ],
  [
    "a directory's deeper than the path",
    { query: `${GOOD.replace("sr=b", "sr=d")}&sdd=2` },
    "QueryParameterSddInvalid",
    /^$/,
  ],
  [
    "a list that goes beyond the directory",
    { names: ["c1"], query: `${GOOD.replace("sr=b", "sr=d")}&sdd=1&prefix=dir` },
    "QueryParameterSddInvalid",
    /^$/,
  ],
  [
    "another table's name",
    { service: "table", names: ["t1"], query: "sv=2019-02-02&sp=r&se=2030-01-01&tn=t2" },
    "AuthenticationFailed",
    /tn/,
  ],
  [
    "a row key without its partition",
    { service: "table", names: ["t1"], query: "sv=2019-02-02&sp=r&se=2030-01-01&tn=t1&srk=1" },
    "AuthenticationFailed",
    /spk/,
  ],
  [
    "an account SAS before there were any",
    { query: "sv=2014-02-14&ss=b&srt=o&sp=r&se=2030-01-01" },
    "AuthenticationFailed",
    /account SAS/,
  ],
  [
    "a user's key of another service",
    { query: `${GOOD}&${delegated("q")}` },
    "AuthenticationFailed",
    /blob service/,
  ],
  [
    "a user's key that has expired",
    { query: `${GOOD}&${delegated("b").replace("06-02", "06-01")}` },
    "AuthenticationFailed",
    /time frame/,
  ],
  [
    "a user's key without a tenant",
    { query: `${GOOD}&${delegated("b").replace("&sktid=t", "")}` },
    "AuthenticationFailed",
    /sktid/,
  ],
  [
    "a user's SAS of a table",
    {
      service: "table",
      names: ["t1"],
      query: `sv=2026-04-06&sp=r&se=2030-01-01&${delegated("t")}`,
    },
    "AuthenticationFailed",
    /no user delegation SAS/,
  ],
  [
    "a user's SAS of a queue in an old version",
    { service: "queue", names: ["q"], query: `sv=2024-01-01&sp=r&se=2030-01-01&${delegated("q")}` },
    "AuthenticationFailed",
    /no user delegation SAS/,
  ],
  [
    "a header that would break the reply",
    { query: `${GOOD}&rsct=a%0d%0ab` },
    "InvalidQueryParameterValue",
    /^$/,
  ],
];
for (const [what, asked, code, detail] of refused) {
  test(`readSas(): ${what} is refused with ${code}`, () =>
    assert.throws(
      () => readSas(request(asked), now),
      (error) => {
        assert.ok(error instanceof StorageError);
        assert.equal(error.code, code);
        assert.match(error.details.AuthenticationErrorDetail ?? "", detail);
        return true;
      },
    ));
}

type Use = { query: string; client?: string; secure?: boolean; scope?: string };
const uses: [what: string, use: Use, code?: ErrorCode][] = [
  ["any address", { query: "" }],
  ["the address itself", { query: "sip=1.2.3.4", client: "1.2.3.4" }],
  ["the address itself, as IPv6 writes it", { query: "sip=1.2.3.4", client: "::ffff:1.2.3.4" }],
  ["another address", { query: "sip=1.2.3.4", client: "1.2.3.5" }, "AuthorizationSourceIPMismatch"],
  ["the first of a range", { query: "sip=1.2.3.4-1.2.3.9", client: "1.2.3.4" }],
  ["the last of a range", { query: "sip=1.2.3.4-1.2.3.9", client: "1.2.3.9" }],
  [
    "one before a range",
    { query: "sip=1.2.3.4-1.2.3.9", client: "1.2.3.3" },
    "AuthorizationSourceIPMismatch",
  ],
  [
    "one behind a range",
    { query: "sip=1.2.3.4-1.2.3.9", client: "1.2.3.10" },
    "AuthorizationSourceIPMismatch",
  ],
  ["one in a range of IPv6", { query: "sip=fd00::1-fd00::9", client: "fd00::5" }],
  [
    "IPv6 where IPv4 is meant",
    { query: "sip=1.2.3.4", client: "fd00::5" },
    "AuthorizationSourceIPMismatch",
  ],
  ["no known address", { query: "sip=1.2.3.4", client: "" }, "AuthorizationSourceIPMismatch"],
  ["a range that is none", { query: "sip=here-there" }, "AuthenticationFailed"],
  ["a range that ends before it begins", { query: "sip=1.2.3.9-1.2.3.4" }, "AuthenticationFailed"],
  ["https alone over TLS", { query: "spr=https" }],
  [
    "https alone without TLS",
    { query: "spr=https", secure: false },
    "AuthorizationProtocolMismatch",
  ],
  ["both protocols without TLS", { query: "spr=https,http", secure: false }],
  ["its encryption scope in the header", { query: "ses=one", scope: "one" }],
  [
    "another encryption scope in the header",
    { query: "ses=one", scope: "two" },
    "InvalidHeaderValue",
  ],
];
for (const [what, { query, client = "1.2.3.4", secure = true, scope }, code] of uses) {
  test(`checkUse(): ${what} ${code === undefined ? "is taken" : `is refused with ${code}`}`, () => {
    const asked = request({
      query: `${GOOD}&${query}`,
      client,
      secure,
      header: (name) => (name === "x-ms-encryption-scope" ? scope : undefined),
    });
    const check = () => checkUse(asked, readSas(asked, now).sas);
    if (code === undefined) check();
    else assert.throws(check, { code });
  });
}
