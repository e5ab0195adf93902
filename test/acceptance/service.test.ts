import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { type RawRequest, send, VERSION } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";
import { exchange } from "./signed.ts";

let server: TestServer;
let service: BlobServiceClient;

const NAMES = ["alpha", "beta-1", "beta-2", "beta-3", "gamma"];

before(async () => {
  server = await startServer();
  service = BlobServiceClient.fromConnectionString(server.connectionString);
  // Not in order, so that the order of a listing is the server's.
  for (const name of ["beta-3", "gamma", "beta-1", "alpha", "beta-2"]) {
    await service.getContainerClient(name).create({ metadata: { Owner: name } });
  }
});

after(() => server.stop());

const list = (query: Record<string, string> = {}) =>
  send(server, { method: "GET", query: { comp: "list", ...query } });

const namesIn = (text: string) => [...text.matchAll(/<Name>([^<]*)<\/Name>/g)].map((m) => m[1]);

const elementIn = (text: string, name: string) =>
  new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1];

suite("List Containers", () => {
  test("gives all in order, with the endpoint, and echoes nothing that was not sent", async () => {
    const reply = await list();
    assert.equal(reply.status, 200);
    assert.match(String(reply.headers["content-type"]), /^application\/xml/);
    assert.deepEqual(namesIn(reply.text), NAMES);
    const endpoint = /<EnumerationResults ServiceEndpoint="([^"]*)"/.exec(reply.text)?.[1];
    assert.equal(endpoint, `${server.url}/`);
    for (const name of ["Prefix", "Marker", "MaxResults"]) {
      assert.doesNotMatch(reply.text, new RegExp(`<${name}\\b`));
    }
    assert.match(reply.text, /<NextMarker ?\/>|<NextMarker><\/NextMarker>/);
    assert.doesNotMatch(reply.text, /<Metadata>/);
    assert.match(
      reply.text,
      /<Last-Modified>\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT<\/Last-Modified>/,
    );
    assert.match(reply.text, /<LeaseStatus>unlocked<\/LeaseStatus>/);
    assert.match(reply.text, /<LeaseState>available<\/LeaseState>/);
  });

  test("gives only the names with the prefix, and echoes it", async () => {
    const reply = await list({ prefix: "beta-" });
    assert.deepEqual(namesIn(reply.text), ["beta-1", "beta-2", "beta-3"]);
    assert.equal(elementIn(reply.text, "Prefix"), "beta-");
  });

  test("gives no names for a prefix that none has", async () => {
    const reply = await list({ prefix: "zzz" });
    assert.equal(reply.status, 200);
    assert.deepEqual(namesIn(reply.text), []);
  });

  test("pages by maxresults and marker, and echoes both", async () => {
    const first = await list({ maxresults: "2" });
    assert.deepEqual(namesIn(first.text), ["alpha", "beta-1"]);
    assert.equal(elementIn(first.text, "MaxResults"), "2");
    const marker = elementIn(first.text, "NextMarker") ?? "";
    assert.notEqual(marker, "");
    const second = await list({ maxresults: "2", marker });
    assert.deepEqual(namesIn(second.text), ["beta-2", "beta-3"]);
    assert.equal(elementIn(second.text, "Marker"), marker);
    const third = await list({
      maxresults: "2",
      marker: elementIn(second.text, "NextMarker") ?? "",
    });
    assert.deepEqual(namesIn(third.text), ["gamma"]);
    assert.equal(elementIn(third.text, "NextMarker") ?? "", "");
  });

  test("gives no marker when the page ends with the last name", async () => {
    const reply = await list({ maxresults: "5" });
    assert.deepEqual(namesIn(reply.text), NAMES);
    assert.equal(elementIn(reply.text, "NextMarker") ?? "", "");
  });

  test("takes maxresults over 5000 as 5000", async () => {
    const reply = await list({ maxresults: "5001" });
    assert.equal(reply.status, 200);
    assert.match(elementIn(reply.text, "MaxResults") ?? "", /^500[01]$/);
  });

  for (const maxresults of ["0", "-1"]) {
    test(`refuses maxresults ${maxresults}`, async () => {
      const reply = await list({ maxresults });
      assert.deepEqual([reply.status, reply.code], [400, "OutOfRangeQueryParameterValue"]);
    });
  }

  test("gives metadata, names in the case they came in, when it is included", async () => {
    const reply = await list({ include: "metadata", prefix: "alpha" });
    assert.match(reply.text, /<Metadata>\s*<Owner>alpha<\/Owner>\s*<\/Metadata>/);
    const upper = await list({ include: "Metadata", prefix: "alpha" });
    assert.match(upper.text, /<Owner>alpha<\/Owner>/);
  });

  test("pages through the SDK", async () => {
    const pages: string[][] = [];
    for await (const page of service.listContainers().byPage({ maxPageSize: 3 })) {
      pages.push(page.containerItems.map((item) => item.name));
    }
    assert.deepEqual(pages, [NAMES.slice(0, 3), NAMES.slice(3)]);
  });
});

const PROPERTIES = { restype: "service", comp: "properties" };
const setProperties = (body: string) =>
  send(server, { method: "PUT", query: PROPERTIES, body, headers: { "content-type": "text/xml" } });
const properties = (inner: string) =>
  `<?xml version="1.0" encoding="utf-8"?><StorageServiceProperties>${inner}</StorageServiceProperties>`;
const rule = (changes: Record<string, string> = {}) => {
  const fields = {
    AllowedOrigins: "https://a.example",
    AllowedMethods: "GET,PUT",
    AllowedHeaders: "x-ms-*",
    ExposedHeaders: "*",
    MaxAgeInSeconds: "60",
    ...changes,
  };
  const inner = Object.entries(fields).map(([name, value]) => `<${name}>${value}</${name}>`);
  return `<CorsRule>${inner.join("")}</CorsRule>`;
};
const retention = (days: string) =>
  `<DeleteRetentionPolicy><Enabled>true</Enabled><Days>${days}</Days></DeleteRetentionPolicy>`;

suite("Set Blob Service Properties", () => {
  test("Get Blob Service Properties gives back what was set through the SDK", async () => {
    const off = { enabled: false };
    const set = {
      blobAnalyticsLogging: {
        ...{ version: "1.0", deleteProperty: true, read: false, write: true },
        retentionPolicy: { enabled: true, days: 7 },
      },
      hourMetrics: {
        ...{ version: "1.0", enabled: true, includeAPIs: true },
        retentionPolicy: { enabled: true, days: 3 },
      },
      minuteMetrics: { version: "1.0", enabled: false, retentionPolicy: off },
      cors: [
        {
          ...{ allowedOrigins: "https://a.example", allowedMethods: "GET,PUT" },
          ...{ allowedHeaders: "x-ms-*", exposedHeaders: "*", maxAgeInSeconds: 60 },
        },
      ],
      deleteRetentionPolicy: { enabled: true, days: 9 },
      staticWebsite: { ...off, indexDocument: undefined, errorDocument404Path: undefined },
    };
    const done = await service.setProperties({ ...set, staticWebsite: off });
    assert.equal(done._response.status, 202);
    const got = await service.getProperties();
    assert.deepEqual(got.blobAnalyticsLogging, set.blobAnalyticsLogging);
    assert.deepEqual(got.hourMetrics, set.hourMetrics);
    assert.equal(got.minuteMetrics?.enabled, false);
    assert.deepEqual(got.cors, set.cors);
    assert.equal(got.deleteRetentionPolicy?.enabled, true);
    assert.equal(got.deleteRetentionPolicy?.days, 9);
    assert.equal(got.staticWebsite?.enabled, false);
  });

  test("keeps the values of the roots that are left out", async () => {
    assert.equal((await setProperties(properties(retention("12")))).status, 202);
    const got = await service.getProperties();
    assert.equal(got.deleteRetentionPolicy?.days, 12);
    assert.equal(got.cors?.length, 1);
    assert.equal(got.blobAnalyticsLogging?.retentionPolicy.days, 7);
    assert.equal(got.hourMetrics?.enabled, true);
  });

  for (const days of ["1", "365"]) {
    test(`takes a retention of ${days} days`, async () => {
      assert.equal((await setProperties(properties(retention(days)))).status, 202);
      const got = await service.getProperties();
      assert.equal(got.deleteRetentionPolicy?.days, Number(days));
    });
  }

  const version = "<DefaultServiceVersion>yesterday</DefaultServiceVersion>";
  const refused: [what: string, body: string, codes: string[]][] = [
    ["XML that ends early", "<StorageServiceProperties><Cors>", ["InvalidXmlDocument"]],
    ["JSON", '{"Cors":[]}', ["InvalidXmlDocument"]],
    ["another root", "<Properties/>", ["InvalidXmlDocument", "UnsupportedXmlNode"]],
    ["0 days", properties(retention("0")), ["InvalidXmlNodeValue"]],
    ["366 days", properties(retention("366")), ["InvalidXmlNodeValue"]],
    ["days in words", properties(retention("nine")), ["InvalidXmlNodeValue"]],
    ["a version that is no date", properties(version), ["InvalidXmlNodeValue"]],
    [
      "a version of metrics that there is not",
      properties("<HourMetrics><Version>2.0</Version><Enabled>false</Enabled></HourMetrics>"),
      ["InvalidXmlNodeValue"],
    ],
    [
      "a version of logs that there is not",
      properties(
        "<Logging><Version>0.9</Version><Delete>false</Delete><Read>false</Read><Write>false</Write><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging>",
      ),
      ["InvalidXmlNodeValue"],
    ],
    [
      "a boolean that is none",
      properties(
        "<DeleteRetentionPolicy><Enabled>perhaps</Enabled><Days>1</Days></DeleteRetentionPolicy>",
      ),
      ["InvalidXmlNodeValue"],
    ],
    [
      "a retention without its days",
      properties("<DeleteRetentionPolicy><Enabled>true</Enabled></DeleteRetentionPolicy>"),
      ["InvalidXmlNodeValue", "MissingRequiredXmlNode", "InvalidXmlDocument"],
    ],
    [
      "a method that CORS does not know",
      properties(`<Cors>${rule({ AllowedMethods: "FLY" })}</Cors>`),
      ["InvalidXmlNodeValue"],
    ],
    [
      "a negative age",
      properties(`<Cors>${rule({ MaxAgeInSeconds: "-1" })}</Cors>`),
      ["InvalidXmlNodeValue"],
    ],
    [
      "six CORS rules",
      properties(`<Cors>${rule().repeat(6)}</Cors>`),
      ["InvalidXmlNodeValue", "InvalidXmlDocument", "InvalidInput"],
    ],
  ];
  for (const [what, body, codes] of refused) {
    test(`refuses ${what} and changes nothing`, async () => {
      const get: RawRequest = { method: "GET", query: PROPERTIES };
      const earlier = await send(server, get);
      const reply = await setProperties(body);
      assert.equal(reply.status, 400);
      assert.ok(codes.includes(reply.code ?? ""), `${reply.code} is none of ${codes.join(", ")}`);
      const later = await send(server, get);
      assert.equal(later.text, earlier.text);
    });
  }

  test("takes five CORS rules, and an empty Cors clears them", async () => {
    const five = await setProperties(properties(`<Cors>${rule().repeat(5)}</Cors>`));
    assert.equal(five.status, 202);
    assert.equal((await service.getProperties()).cors?.length, 5);
    assert.equal((await setProperties(properties("<Cors/>"))).status, 202);
    const got = await service.getProperties();
    assert.deepEqual(got.cors ?? [], []);
    assert.equal(got.deleteRetentionPolicy?.enabled, true);
  });

  test("sets the version of requests that name none", async () => {
    const wanted = "2021-08-06";
    const body = properties(`<DefaultServiceVersion>${wanted}</DefaultServiceVersion>`);
    assert.equal((await setProperties(body)).status, 202);
    assert.equal((await service.getProperties()).defaultServiceVersion, wanted);
    const reply = await exchange(server, {
      method: "GET",
      target: `/${server.account}/?comp=list`,
      headers: { "x-ms-date": new Date().toUTCString() },
    });
    assert.deepEqual([reply.status, reply.headers["x-ms-version"]], [200, wanted]);
  });
});

suite("Get Account Information", () => {
  const query = { restype: "account", comp: "properties" };
  for (const method of ["GET", "HEAD"]) {
    for (const path of ["/", "/alpha", "/alpha/no-such-blob"]) {
      test(`answers ${method} ${path}`, async () => {
        const { status, headers, text } = await send(server, { method, path, query });
        assert.equal(status, 200);
        assert.match(String(headers["x-ms-sku-name"]), /^(Standard|Premium)_[A-Z]+$/);
        assert.equal(headers["x-ms-account-kind"], "StorageV2");
        assert.equal(headers["x-ms-is-hns-enabled"], "false");
        assert.equal(text, "");
      });
    }
  }
});

suite("Every reply", () => {
  const requests: [what: string, status: number, request: RawRequest][] = [
    ["of a listing", 200, { method: "GET", query: { comp: "list" } }],
    ["of a container", 200, { method: "HEAD", path: "/alpha", query: { restype: "container" } }],
    ["of a missing blob", 404, { method: "GET", path: "/alpha/none" }],
    ["of a wrong signature", 403, { method: "GET", path: "/alpha/none", key: "AAAA" }],
    ["of no signature", 401, { method: "GET", path: "/alpha/none", sign: "none" }],
    ["of an unknown operation", 400, { method: "GET", path: "/alpha", query: { comp: "none" } }],
  ];
  for (const [what, status, request] of requests) {
    test(`${what} carries the common headers`, async () => {
      const reply = await send(server, {
        ...request,
        headers: { "x-ms-client-request-id": "my~id!1", ...request.headers },
      });
      assert.equal(reply.status, status);
      assert.match(String(reply.headers["x-ms-request-id"]), /^[0-9a-f-]{36}$/);
      assert.equal(reply.headers["x-ms-version"], VERSION);
      assert.ok(Math.abs(Date.parse(String(reply.headers.date)) - Date.now()) < 60_000);
      assert.match(String(reply.headers.server), /^\S+\/\S+/);
      assert.equal(reply.headers["x-ms-client-request-id"], "my~id!1");
    });
  }

  const ids: [what: string, id: string, echo: string | undefined][] = [
    ["echoes a client request id of 1024 characters", "i".repeat(1024), "i".repeat(1024)],
    ["leaves out a client request id of 1025 characters", "i".repeat(1025), undefined],
  ];
  for (const [what, id, echo] of ids) {
    test(what, async () => {
      const headers = { "x-ms-client-request-id": id };
      const reply = await send(server, { method: "GET", query: { comp: "list" }, headers });
      assert.deepEqual([reply.status, reply.headers["x-ms-client-request-id"]], [200, echo]);
    });
  }

  test("leaves out a client request id beyond ASCII", async () => {
    const headers = { "x-ms-client-request-id": "caf\u00e9" };
    // Not signed: clients and servers differ in the bytes they sign of such a header.
    const reply = await send(server, { method: "GET", path: "/alpha/b", sign: "none", headers });
    assert.deepEqual([reply.status, reply.headers["x-ms-client-request-id"]], [401, undefined]);
  });

  test("has a request id of its own", async () => {
    const replies = await Promise.all([list(), list(), list()]);
    assert.equal(new Set(replies.map((reply) => reply.headers["x-ms-request-id"])).size, 3);
  });

  test("that is an error has code, message, request id and time in its body", async () => {
    const reply = await send(server, { method: "GET", path: "/alpha/none" });
    assert.equal(reply.headers["x-ms-error-code"], "BlobNotFound");
    assert.match(String(reply.headers["content-type"]), /^application\/xml/);
    const body = reply.text.replace(/^\uFEFF/, "");
    const id = String(reply.headers["x-ms-request-id"]);
    const shape = [
      '^<\\?xml version="1.0" encoding="utf-8"\\?>\\s*<Error>\\s*<Code>BlobNotFound</Code>\\s*',
      `<Message>The specified blob does not exist\\.\\nRequestId:${id}\\n`,
      "Time:\\d{4}-\\d\\d-\\d\\dT[\\d:]{8}\\.\\d{7}Z</Message>\\s*</Error>\\s*$",
    ];
    assert.match(body, new RegExp(shape.join("")));
  });

  test("that is an error to a HEAD has its code in the header and no body", async () => {
    const reply = await send(server, { method: "HEAD", path: "/alpha/none" });
    assert.equal(reply.status, 404);
    assert.equal(reply.headers["x-ms-error-code"], "BlobNotFound");
    assert.equal(reply.headers["content-type"], undefined);
    assert.equal(reply.body.length, 0);
  });
});
