import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { type RawReply, type RawRequest, send } from "./raw.ts";
import { at, startServer, type TestServer } from "./server.ts";

let server: TestServer;
/** A message of the queue "full", as it was put. */
let id = "";
let receipt = "";

const TEXT = "<QueueMessage><MessageText>text</MessageText></QueueMessage>";
const NOBODY = "01234567-89ab-4def-a123-456789abcdef";
const OLD = "AQAAAAAAAAAAAAAAAAAA";

before(async () => {
  server = at(await startServer(), "queue");
  assert.equal((await send(server, put("/full"))).status, 201);
  const reply = await send(server, post("/full/messages", {}, TEXT));
  id = /<MessageId>([^<]*)/.exec(reply.text)?.[1] ?? "";
  receipt = /<PopReceipt>([^<]*)/.exec(reply.text)?.[1] ?? "";
});

after(() => server.stop());

type Fields = Record<string, string>;
const get = (path: string, query: Fields = {}): RawRequest => ({ method: "GET", path, query });
const put = (path: string, query: Fields = {}, body = "", headers: Fields = {}): RawRequest => ({
  ...{ method: "PUT", path, query, body, headers },
});
const post = (path: string, query: Fields = {}, body = ""): RawRequest => ({
  ...{ method: "POST", path, query, body },
});
const del = (path: string, query: Fields = {}): RawRequest => ({ method: "DELETE", path, query });

const text = (content: string) =>
  `<QueueMessage><MessageText>${content}</MessageText></QueueMessage>`;
const policies = (inner: string) => `<SignedIdentifiers>${inner}</SignedIdentifiers>`;
const policy = (name: string, inner = "") =>
  `<SignedIdentifier><Id>${name}</Id><AccessPolicy>${inner}</AccessPolicy></SignedIdentifier>`;

const FULL = "/full/messages";
const RANGE = "400 OutOfRangeQueryParameterValue";
const QUERY = "400 InvalidQueryParameterValue";
const MISSING = "400 MissingRequiredQueryParameter";
const XML = "400 InvalidXmlDocument";
const NODE = "400 InvalidXmlNodeValue";
const NO_QUEUE = "404 QueueNotFound";
const NO_MESSAGE = "404 MessageNotFound";

/** `{id}` and `{receipt}` stand for those of the message that is there. */
type Row = [what: string, request: RawRequest, want: string];

const message = (query: Fields, named = "{id}") => put(`${FULL}/${named}`, query);

const names: Row[] = [
  ["Create Queue: a short name", put("/ab"), "400 OutOfRangeInput"],
  ["Create Queue: a long name", put(`/${"a".repeat(64)}`), "400 OutOfRangeInput"],
  ["Create Queue: capitals", put("/Queue"), "400 InvalidResourceName"],
  ["Create Queue: two dashes", put("/a--b"), "400 InvalidResourceName"],
  ["Create Queue: a dash first", put("/-ab"), "400 InvalidResourceName"],
  ["Create Queue: a dash last", put("/ab-"), "400 InvalidResourceName"],
  ["Create Queue: an underscore", put("/a_b"), "400 InvalidResourceName"],
  ["Create Queue: a special container's name", put("/$root"), "400 InvalidResourceName"],
  ["Get Messages: no name for a queue", get("/A/messages"), "400 OutOfRangeInput"],
  ["a path below a queue that is none", get("/full/other"), "400 InvalidUri"],
  ["a path below a message", del(`${FULL}/a/b`), "400 InvalidUri"],
  ["another method on a queue", post("/full"), "405 UnsupportedHttpVerb"],
  ["another method on messages", put(FULL), "405 UnsupportedHttpVerb"],
  ["another method on a message", get(`${FULL}/${NOBODY}`), "405 UnsupportedHttpVerb"],
  ["a comp that is none", get("/full", { comp: "lease" }), QUERY],
  ["nothing asked of the service", get("/"), MISSING],
  ["a snapshot", get(FULL, { snapshot: "2030-01-01T00:00:00.0000000Z" }), QUERY],
  [
    "a conditional header",
    { ...get(FULL), headers: { "if-none-match": "*" } },
    "400 ConditionHeadersNotSupported",
  ],
];

const missing: Row[] = [
  ["Delete Queue", del("/none"), NO_QUEUE],
  ["Get Queue Metadata", get("/none", { comp: "metadata" }), NO_QUEUE],
  [
    "Get Queue Metadata (HEAD)",
    { ...get("/none", { comp: "metadata" }), method: "HEAD" },
    NO_QUEUE,
  ],
  ["Set Queue Metadata", put("/none", { comp: "metadata" }), NO_QUEUE],
  ["Get Queue ACL", get("/none", { comp: "acl" }), NO_QUEUE],
  ["Set Queue ACL", put("/none", { comp: "acl" }), NO_QUEUE],
  ["Put Message", post("/none/messages", {}, TEXT), NO_QUEUE],
  ["Get Messages", get("/none/messages"), NO_QUEUE],
  ["Peek Messages", get("/none/messages", { peekonly: "true" }), NO_QUEUE],
  ["Clear Messages", del("/none/messages"), NO_QUEUE],
  ["Delete Message", del(`/none/messages/${NOBODY}`, { popreceipt: OLD }), NO_QUEUE],
  [
    "Update Message",
    put(`/none/messages/${NOBODY}`, { popreceipt: OLD, visibilitytimeout: "0" }),
    NO_QUEUE,
  ],
];

const metadata: Row[] = ["/full", "/new"].flatMap((path): Row[] => {
  const query: Fields = path === "/full" ? { comp: "metadata" } : {};
  const name = path === "/full" ? "Set Queue Metadata" : "Create Queue";
  return [
    [`${name}: no name`, put(path, query, "", { "x-ms-meta-": "a" }), "400 EmptyMetadataKey"],
    [`${name}: a dash`, put(path, query, "", { "x-ms-meta-a-b": "a" }), "400 InvalidMetadata"],
    [`${name}: a digit first`, put(path, query, "", { "x-ms-meta-1": "a" }), "400 InvalidMetadata"],
    [
      `${name}: more than 8 KiB`,
      put(path, query, "", { "x-ms-meta-a": "x".repeat(8192) }),
      "400 MetadataTooLarge",
    ],
  ];
});

const acl: Row[] = [
  ["no XML", put("/full", { comp: "acl" }, "policies"), XML],
  ["another document", put("/full", { comp: "acl" }, "<a/>"), XML],
  [
    "six policies",
    put(
      "/full",
      { comp: "acl" },
      policies(["1", "2", "3", "4", "5", "6"].map((n) => policy(n)).join("")),
    ),
    XML,
  ],
  ["a long id", put("/full", { comp: "acl" }, policies(policy("i".repeat(65)))), NODE],
  ["an id twice", put("/full", { comp: "acl" }, policies(policy("a") + policy("a"))), NODE],
  [
    "no id",
    put("/full", { comp: "acl" }, policies("<SignedIdentifier/>")),
    "400 MissingRequiredXmlNode",
  ],
  [
    "a permission that queues do not have",
    put("/full", { comp: "acl" }, policies(policy("a", "<Permission>rw</Permission>"))),
    NODE,
  ],
  [
    "a date that is none",
    put("/full", { comp: "acl" }, policies(policy("a", "<Start>soon</Start>"))),
    NODE,
  ],
].map(([what, request, want]) => [`Set Queue ACL: ${what}`, request, want] as Row);

const list: Row[] = [
  ["List Queues: no page", get("/", { comp: "list", maxresults: "0" }), RANGE],
  ["List Queues: no number", get("/", { comp: "list", maxresults: "x" }), QUERY],
  [
    "List Queues: a marker that is none",
    get("/", { comp: "list", marker: "x" }),
    "400 InvalidMarker",
  ],
  ["List Queues: a prefix that XML cannot hold", get("/", { comp: "list", prefix: "\0" }), QUERY],
  ["List Queues: something to include", get("/", { comp: "list", include: "all" }), QUERY],
];

const putting: Row[] = (
  [
    ["no body", {}, "", XML],
    ["no XML", {}, "text", XML],
    ["another document", {}, "<Message/>", XML],
    ["no text", {}, "<QueueMessage></QueueMessage>", "400 MissingRequiredXmlNode"],
    ["a document type", {}, `<!DOCTYPE a>${TEXT}`, XML],
    ["a character that XML has not", {}, text("\u0002"), XML],
    ["64 KiB and a byte", {}, text("x".repeat(65_537)), "400 MessageTooLarge"],
    ["64 KiB and a byte in UTF-8", {}, text(`${"ö".repeat(32_768)}x`), "400 MessageTooLarge"],
    ["a megabyte", {}, text("x".repeat(1_048_576)), "413 RequestBodyTooLarge"],
    ["no time to live", { messagettl: "0" }, TEXT, QUERY],
    ["less than none", { messagettl: "-2" }, TEXT, QUERY],
    ["a time to live that is no number", { messagettl: "week" }, TEXT, QUERY],
    ["a time to live beyond all", { messagettl: "2147483648" }, TEXT, RANGE],
    ["a delay of more than a week", { visibilitytimeout: "604801" }, TEXT, RANGE],
    ["a delay below nothing", { visibilitytimeout: "-1" }, TEXT, RANGE],
    ["a delay that is no number", { visibilitytimeout: "1s" }, TEXT, QUERY],
    ["a delay as long as the life", { visibilitytimeout: "5", messagettl: "5" }, TEXT, QUERY],
  ] as [string, Fields, string, string][]
).map(([what, query, body, want]) => [`Put Message: ${what}`, post(FULL, query, body), want]);

const getting: Row[] = (
  [
    [{ numofmessages: "0" }, RANGE],
    [{ numofmessages: "33" }, RANGE],
    [{ numofmessages: "many" }, QUERY],
    [{ visibilitytimeout: "0" }, RANGE],
    [{ visibilitytimeout: "604801" }, RANGE],
    [{ visibilitytimeout: "soon" }, QUERY],
    [{ peekonly: "maybe" }, QUERY],
    [{ peekonly: "true", numofmessages: "0" }, RANGE],
    [{ peekonly: "true", numofmessages: "33" }, RANGE],
  ] as [Fields, string][]
).map(([query, want]) => [
  `${query.peekonly === "true" ? "Peek" : "Get"} Messages: ${JSON.stringify(query)}`,
  get(FULL, query),
  want,
]);

const changing: Row[] = [
  ["Delete Message: no receipt", del(`${FULL}/{id}`), MISSING],
  ["Delete Message: no form of one", del(`${FULL}/{id}`, { popreceipt: "x" }), QUERY],
  ["Delete Message: an old receipt", del(`${FULL}/{id}`, { popreceipt: OLD }), NO_MESSAGE],
  [
    "Delete Message: another message",
    del(`${FULL}/${NOBODY}`, { popreceipt: "{receipt}" }),
    NO_MESSAGE,
  ],
  ["Delete Message: an id that is none", del(`${FULL}/x`, { popreceipt: "{receipt}" }), NO_MESSAGE],
  ["Update Message: no receipt", message({ visibilitytimeout: "0" }), MISSING],
  ["Update Message: no form of one", message({ popreceipt: "ä", visibilitytimeout: "0" }), QUERY],
  ["Update Message: no time", message({ popreceipt: "{receipt}" }), MISSING],
  [
    "Update Message: an old receipt",
    message({ popreceipt: OLD, visibilitytimeout: "0" }),
    NO_MESSAGE,
  ],
  [
    "Update Message: another message",
    message({ popreceipt: "{receipt}", visibilitytimeout: "0" }, NOBODY),
    NO_MESSAGE,
  ],
  [
    "Update Message: below nothing",
    message({ popreceipt: "{receipt}", visibilitytimeout: "-1" }),
    RANGE,
  ],
  [
    "Update Message: more than a week",
    message({ popreceipt: "{receipt}", visibilitytimeout: "604801" }),
    RANGE,
  ],
  [
    "Update Message: beyond its expiry",
    message({ popreceipt: "{receipt}", visibilitytimeout: "604800" }),
    RANGE,
  ],
  [
    "Update Message: 64 KiB and a byte",
    put(
      `${FULL}/{id}`,
      { popreceipt: "{receipt}", visibilitytimeout: "0" },
      text("x".repeat(65_537)),
    ),
    "400 MessageTooLarge",
  ],
  [
    "Update Message: no XML",
    put(`${FULL}/{id}`, { popreceipt: "{receipt}", visibilitytimeout: "0" }, "text"),
    XML,
  ],
];

const filledIn = (value: string) => value.replace("{id}", id).replace("{receipt}", receipt);

function ask({ path = "/", query = {}, ...rest }: RawRequest): Promise<RawReply> {
  const pairs = Object.entries(query).map(([name, value]) => [name, filledIn(value)]);
  return send(server, { ...rest, path: filledIn(path), query: Object.fromEntries(pairs) });
}

for (const [group, rows] of Object.entries({
  ...{ names, missing, metadata, acl, list, putting, getting, changing },
})) {
  suite(`refused: ${group}`, () => {
    for (const [what, request, want] of rows) {
      test(`${what}: ${want}`, async () => {
        const reply = await ask(request);
        assert.equal(`${reply.status} ${reply.code}`, want, reply.text);
        if (request.method === "HEAD") return assert.equal(reply.text, "");
        assert.match(reply.text, new RegExp(`<Error><Code>${reply.code}</Code><Message>`));
      });
    }
  });
}

test("a value out of range is told with its bounds", async () => {
  const { text: told } = await ask(get(FULL, { numofmessages: "50" }));
  assert.match(
    told,
    /<QueryParameterName>numofmessages<\/QueryParameterName><QueryParameterValue>50<\/QueryParameterValue><MinimumAllowed>1<\/MinimumAllowed><MaximumAllowed>32<\/MaximumAllowed>/,
  );
});

test("a receipt of no form is told with the reason", async () => {
  const { text: told } = await ask(del(`${FULL}/{id}`, { popreceipt: "x" }));
  assert.match(
    told,
    /<QueryParameterName>popreceipt<.*<Reason>Invalid pop receipt format<\/Reason>/,
  );
});

test("an unsigned request is refused", async () => {
  const reply = await ask({ ...get(FULL), sign: "none" });
  assert.equal(`${reply.status} ${reply.code}`, "401 NoAuthenticationInformation");
  const wrong = await ask({ ...get(FULL), key: Buffer.from("wrong").toString("base64") });
  assert.equal(`${wrong.status} ${wrong.code}`, "403 AuthenticationFailed");
});

test("Shared Key Lite signs too", async () => {
  const reply = await ask({ ...get("/full", { comp: "metadata" }), sign: "SharedKeyLite" });
  assert.equal(reply.status, 200);
});

test("what was refused made and changed nothing", async () => {
  const { text: listed } = await ask(get("/", { comp: "list", include: "metadata" }));
  assert.match(
    listed,
    /<Queues><Queue><Name>full<\/Name><Metadata><\/Metadata><\/Queue><\/Queues>/,
  );
  const counted = await ask(get("/full", { comp: "metadata" }));
  assert.equal(counted.headers["x-ms-approximate-messages-count"], "1");
  const { text: peeked } = await ask(get(FULL, { peekonly: "true", numofmessages: "32" }));
  assert.equal([...peeked.matchAll(/<DequeueCount>0<.*?<MessageText>text</g)].length, 1);
  const deleted = await ask(del(`${FULL}/{id}`, { popreceipt: "{receipt}" }));
  assert.equal(deleted.status, 204);
});
