import assert from "node:assert/strict";
import { createHmac, createSecretKey } from "node:crypto";
import { test } from "node:test";
import golden from "../../test/vectors/shared-key.json" with { type: "json" };
import { errors, StorageError } from "../rules/errors.ts";
import {
  compareHeaderNames,
  isSigned,
  type Scheme,
  type SignedRequest,
  textsToSign,
} from "./shared-key.ts";

// SEMANTICS d.1 and d.2; the vectors were made with the official SDKs.
const key = createSecretKey(Buffer.from(golden.key, "base64"));
const account = golden.account;

type Sent = {
  method: string;
  rawPath: string;
  parameters?: [string, string][];
  headers: readonly (readonly [string, string])[];
  version?: string;
};

/** What the server makes of a request that was sent. */
function request(sent: Sent): SignedRequest {
  const headers = new Map(sent.headers.map(([name, value]) => [name.toLowerCase(), value]));
  return {
    method: sent.method,
    account,
    rawPath: sent.rawPath,
    parameters: sent.parameters ?? [],
    rawHeaders: sent.headers.flat(),
    version: sent.version ?? headers.get("x-ms-version") ?? "2026-04-06",
    header: (name) => headers.get(name),
  };
}

const sign = (text: string) => createHmac("sha256", key).update(text, "utf8").digest("base64");
const accepts = (sent: Sent, scheme: Scheme, text: string) =>
  isSigned(request(sent), scheme, sign(text), key);

function sentIn(vector: (typeof golden.vectors)[number]): Sent {
  const { pathname, searchParams } = new URL(vector.url);
  const parameters = [...searchParams];
  const headers = Object.entries(vector.headers);
  return { method: vector.method, rawPath: pathname, parameters, headers };
}

/** Each text that comes from one by changing one character of it. */
const changes = (text: string): string[] =>
  Array.from(text, (char, i) => text.slice(0, i) + (char === "1" ? "2" : "1") + text.slice(i + 1));

for (const vector of golden.vectors) {
  const sent = sentIn(vector);
  const signature = vector.authorization.slice(vector.authorization.indexOf(":") + 1);
  const signed = (changed: Partial<Sent>, by = signature) =>
    isSigned(request({ ...sent, ...changed }), "SharedKey", by, key);

  test(`textsToSign(): ${vector.name} is among them`, () =>
    assert.ok([...textsToSign(request(sent), "SharedKey")].includes(vector.stringToSign)));

  test(`isSigned(): ${vector.name} is`, () => assert.ok(signed({})));

  test(`isSigned(): ${vector.name} is not, with another method, path or scheme`, () => {
    for (const method of changes(sent.method)) assert.ok(!signed({ method }), method);
    for (const rawPath of changes(sent.rawPath)) assert.ok(!signed({ rawPath }), rawPath);
    assert.ok(!isSigned(request(sent), "SharedKeyLite", signature, key));
  });

  test(`isSigned(): ${vector.name} is not, with another query`, () => {
    const parameters = sent.parameters ?? [];
    for (const [i, [name, value]] of parameters.entries()) {
      for (const other of changes(name)) {
        assert.ok(!signed({ parameters: parameters.with(i, [other, value]) }), other);
      }
      for (const other of changes(value)) {
        assert.ok(!signed({ parameters: parameters.with(i, [name, other]) }), other);
      }
      assert.ok(!signed({ parameters: parameters.toSpliced(i, 1) }), `without ${name}`);
    }
    assert.ok(!signed({ parameters: [...parameters, ["timeout", "1"]] }));
  });

  test(`isSigned(): ${vector.name} is not, with another value of any header`, () => {
    for (const [i, [name, value]] of sent.headers.entries()) {
      if (name === "Authorization") continue;
      for (const other of changes(value)) {
        assert.ok(!signed({ headers: sent.headers.with(i, [name, other]) }), `${name}: ${other}`);
      }
      assert.ok(!signed({ headers: sent.headers.toSpliced(i, 1) }), `without ${name}`);
    }
    assert.ok(!signed({ headers: [...sent.headers, ["x-ms-meta-more", "1"]] }));
    assert.ok(!signed({ headers: [...sent.headers, ["Content-MD5", "1"]] }));
  });

  test(`isSigned(): ${vector.name} is not, with another signature or key`, () => {
    for (const other of changes(signature)) assert.ok(!signed({}, other), other);
    for (const other of ["", "=", signature.slice(4), `AAAA${signature}`]) {
      assert.ok(!signed({}, other), other);
    }
    const another = createSecretKey(Buffer.from("another key"));
    assert.ok(!isSigned(request(sent), "SharedKey", signature, another));
  });
}

// One character more, or another one in the bits that base64 leaves over, is another text.
const written: [what: string, write: (signature: string) => string][] = [
  ["text after its end", (signature) => `${signature}AAAA`],
  ["no padding", (signature) => signature.slice(0, -1)],
  [
    "other bits left over",
    (signature) => `${signature.slice(0, -2)}${nextLetter(signature.at(-2))}=`,
  ],
];
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const nextLetter = (letter = "") => LETTERS[LETTERS.indexOf(letter) + 1];
for (const [what, write] of written) {
  test(`isSigned(): a right signature with ${what} is not`, () => {
    const sent: Sent = { method: "GET", rawPath: "/c", headers: [["x-ms-date", date]] };
    const right = sign(`GET${"\n".repeat(12)}x-ms-date:${date}\n/${account}/c`);
    assert.ok(isSigned(request(sent), "SharedKey", right, key));
    assert.ok(!isSigned(request(sent), "SharedKey", write(right), key));
  });
}

for (const { a, b, sdkFirst } of golden.headerOrder) {
  test(`compareHeaderNames(): ${sdkFirst} stands first of ${a} and ${b}`, () => {
    assert.equal([a, b].sort(compareHeaderNames)[0], sdkFirst);
    assert.equal([b, a].sort(compareHeaderNames)[0], sdkFirst);
    assert.equal(compareHeaderNames(a, a), 0);
  });
}

const date = "Fri, 02 Jan 2026 03:04:05 GMT";
for (const { a, b, sdkFirst, asciiFirst } of golden.headerOrder) {
  for (const first of new Set([sdkFirst, asciiFirst])) {
    test(`isSigned(): of ${a} and ${b}, ${first} may stand first`, () => {
      const second = first === a ? b : a;
      const sent: Sent = {
        method: "GET",
        rawPath: "/c",
        headers: [
          ["x-ms-date", date],
          [b, "1"],
          [a, "1"],
        ],
      };
      const text = `GET${"\n".repeat(12)}x-ms-date:${date}\n${first}:1\n${second}:1\n/${account}/c`;
      assert.ok(accepts(sent, "SharedKey", text));
    });
  }
}

// d.1, line by line: what the client signed, and whether the server reads it so.
const dated: [string, string] = ["x-ms-date", date];
const get = (headers: [string, string][], more: Partial<Sent> = {}): Sent => ({
  method: "GET",
  rawPath: "/c",
  headers: [dated, ...headers],
  ...more,
});
const plain = (lines: string, headers = "", resource = `/${account}/c`) =>
  `${lines}\nx-ms-date:${date}\n${headers}${resource}`;
const empty = `GET${"\n".repeat(11)}`;
const length = (text: string) => `GET\n\n\n${text}${"\n".repeat(8)}`;
const zero: [string, string][] = [["Content-Length", "0"]];
const rows: [what: string, sent: Sent, text: string, want: boolean][] = [
  [
    "a length of 0 is empty in 2015-02-21",
    get(zero, { version: "2015-02-21" }),
    plain(length("")),
    true,
  ],
  ["a length of 0 is empty in the newest", get(zero), plain(length("")), true],
  [
    "a length of 0 is not 0 in 2015-02-21",
    get(zero, { version: "2015-02-21" }),
    plain(length("0")),
    false,
  ],
  [
    "a length of 0 is 0 in 2014-02-14",
    get(zero, { version: "2014-02-14" }),
    plain(length("0")),
    true,
  ],
  [
    "a length of 0 is not empty in 2014-02-14",
    get(zero, { version: "2014-02-14" }),
    plain(length("")),
    false,
  ],
  [
    "the twelve lines stand in their order",
    get([
      ["Range", "bytes=0-1"],
      ["If-Unmodified-Since", "ius"],
      ["If-None-Match", "inm"],
      ["If-Match", "im"],
      ["If-Modified-Since", "ims"],
      ["Content-Type", "type"],
      ["Content-MD5", "md5"],
      ["Content-Length", "5"],
      ["Content-Language", "language"],
      ["Content-Encoding", "encoding"],
    ]),
    plain("GET\nencoding\nlanguage\n5\nmd5\ntype\n\nims\nim\ninm\nius\nbytes=0-1"),
    true,
  ],
  [
    "language before encoding, as the JavaScript SDK has it",
    get([
      ["Content-Language", "language"],
      ["Content-Encoding", "encoding"],
    ]),
    plain(`GET\nlanguage\nencoding${"\n".repeat(9)}`),
    true,
  ],
  [
    "Date is signed where x-ms-date is not sent",
    { method: "GET", rawPath: "/c", headers: [["Date", date]] },
    `GET\n\n\n\n\n\n${date}\n\n\n\n\n\n/${account}/c`,
    true,
  ],
  ["Date is not signed beside x-ms-date", get([["Date", date]]), plain(empty), true],
  [
    "names of headers are in lower case",
    get([["X-Ms-Meta-A", "Value"]]),
    plain(empty, "x-ms-meta-a:Value\n"),
    true,
  ],
  [
    "white space around a value is cut off",
    get([["x-ms-meta-a", "  v  "]]),
    plain(empty, "x-ms-meta-a:v\n"),
    true,
  ],
  [
    "white space inside a value is folded",
    get([["x-ms-meta-a", "v \t w"]]),
    plain(empty, "x-ms-meta-a:v w\n"),
    true,
  ],
  [
    "an empty value is signed since 2016-05-31",
    get([["x-ms-meta-a", ""]], { version: "2016-05-31" }),
    plain(empty, "x-ms-meta-a:\n"),
    true,
  ],
  [
    "an empty value is not signed before",
    get([["x-ms-meta-a", ""]], { version: "2015-12-11" }),
    plain(empty),
    true,
  ],
  [
    "text beyond ASCII is signed as UTF-8",
    get([["x-ms-meta-a", Buffer.from("größe").toString("latin1")]]),
    plain(empty, "x-ms-meta-a:größe\n"),
    true,
  ],
  [
    "parameters are sorted, values of one name too",
    get([], {
      parameters: [
        ["restype", "container"],
        ["include", "b"],
        ["comp", "list"],
        ["include", "a"],
      ],
    }),
    plain(empty, "", `/${account}/c\ncomp:list\ninclude:a,b\nrestype:container`),
    true,
  ],
  [
    "the path is signed as it was sent",
    get([], { rawPath: "/c/a%20b+c" }),
    plain(empty, "", `/${account}/c/a%20b+c`),
    true,
  ],
  ["no path is a slash", get([], { rawPath: "/" }), plain(empty, "", `/${account}/`), true],
  [
    "a secondary's path as sent",
    get([], { rawPath: `/${account}-secondary/c` }),
    plain(empty, "", `/${account}/${account}-secondary/c`),
    true,
  ],
  [
    "a secondary's path as the primary's",
    get([], { rawPath: `/${account}-secondary/c` }),
    plain(empty, "", `/${account}/${account}/c`),
    true,
  ],
  [
    "a secondary's root as the primary's",
    get([], { rawPath: `/${account}-secondary` }),
    plain(empty, "", `/${account}/${account}`),
    true,
  ],
  [
    "a blob whose name looks like a secondary's is not another blob",
    get([], { rawPath: `/${account}/c/${account}-secondary/b` }),
    plain(empty, "", `/${account}/${account}/c/${account}/b`),
    false,
  ],
];
for (const [what, sent, text, want] of rows) {
  test(`isSigned(): ${what}`, () => assert.equal(accepts(sent, "SharedKey", text), want));
}

// d.2: VERB, Content-MD5, Content-Type, Date, headers, and of the query only comp.
const liteRows: [what: string, sent: Sent, text: string][] = [
  [
    "with x-ms-date",
    get([
      ["Content-Type", "type"],
      ["Content-MD5", "md5"],
      ["Content-Length", "5"],
    ]),
    `GET\nmd5\ntype\n\nx-ms-date:${date}\n/${account}/c`,
  ],
  [
    "with Date",
    { method: "PUT", rawPath: "/c", headers: [["Date", date]] },
    `PUT\n\n\n${date}\n/${account}/c`,
  ],
  [
    "with comp and other parameters",
    get([], {
      parameters: [
        ["restype", "container"],
        ["comp", "list"],
        ["prefix", "a"],
      ],
    }),
    `GET\n\n\n\nx-ms-date:${date}\n/${account}/c?comp=list`,
  ],
];
for (const [what, sent, text] of liteRows) {
  test(`isSigned(): SharedKeyLite ${what}`, () => {
    assert.ok(accepts(sent, "SharedKeyLite", text));
    assert.ok(!accepts(sent, "SharedKey", text));
    assert.ok(!accepts({ ...sent, method: "DELETE" }, "SharedKeyLite", text));
    assert.ok(!accepts({ ...sent, rawPath: "/d" }, "SharedKeyLite", text));
  });
}

test("isSigned(): an x-ms header sent twice is refused with 400", () => {
  for (const name of ["x-ms-meta-a", "X-MS-Meta-A"]) {
    const sent = get([
      ["x-ms-meta-a", "1"],
      [name, "1"],
    ]);
    assert.throws(
      () => accepts(sent, "SharedKey", ""),
      (error) => error instanceof StorageError && errors[error.code][0] === 400,
    );
  }
});

// d.3: tables sign no headers but the date, which stands there in either form, and of the query only comp.
const tableSent: Sent = {
  method: "POST",
  rawPath: `/${account}/People(PartitionKey='a%20b',RowKey='%27')`,
  parameters: [
    ["timeout", "5"],
    ["comp", "acl"],
  ],
  headers: [
    ["x-ms-date", "Mon, 16 Nov 2026 03:00:00 GMT"],
    ["x-ms-version", "2019-02-02"],
    ["Content-Type", "application/json"],
    ["Content-MD5", "sum"],
    ["If-Match", "*"],
  ],
};
const tableResource = `/${account}${tableSent.rawPath}?comp=acl`;
const tableDate = "Mon, 16 Nov 2026 03:00:00 GMT";
const datedSent: Sent = { ...tableSent, headers: [["Date", tableDate]], parameters: [] };
const bareResource = `/${account}${tableSent.rawPath}`;
const tableRows: [what: string, sent: Sent, scheme: Scheme, text: string, want: boolean][] = [
  [
    "Shared Key",
    tableSent,
    "SharedKey",
    `POST\nsum\napplication/json\n${tableDate}\n${tableResource}`,
    true,
  ],
  ["Shared Key Lite", tableSent, "SharedKeyLite", `${tableDate}\n${tableResource}`, true],
  ["the Date header", datedSent, "SharedKey", `POST\n\n\n${tableDate}\n${bareResource}`, true],
  ["the Date header, Lite", datedSent, "SharedKeyLite", `${tableDate}\n${bareResource}`, true],
  [
    "another verb",
    tableSent,
    "SharedKey",
    `PUT\nsum\napplication/json\n${tableDate}\n${tableResource}`,
    false,
  ],
  ["no date", tableSent, "SharedKey", `POST\nsum\napplication/json\n\n${tableResource}`, false],
  [
    "all parameters",
    tableSent,
    "SharedKeyLite",
    `${tableDate}\n${bareResource}?comp=acl&timeout=5`,
    false,
  ],
];
for (const [what, sent, scheme, text, want] of tableRows) {
  test(`isSigned(): of tables, ${what}`, () => {
    const signed = { ...request(sent), service: "table" };
    assert.equal(isSigned(signed, scheme, sign(text), key), want);
  });
}
