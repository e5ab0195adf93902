import assert from "node:assert/strict";
import http from "node:http";
import { after, before, suite, test } from "node:test";
import { type RawRequest, send, VERSION } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";
import { exchange } from "./signed.ts";

let server: TestServer;

before(async () => {
  server = await startServer();
  for (const name of ["alpha", "beta-1", "beta-2"]) {
    const headers = { "x-ms-meta-owner": name };
    const query = { restype: "container" };
    const reply = await send(server, { method: "PUT", path: `/${name}`, query, headers });
    assert.equal(reply.status, 201);
  }
});

after(() => server.stop());

const minutesFromNow = (minutes: number) => new Date(Date.now() + minutes * 60_000).toUTCString();

suite("Shared Key", () => {
  const listed: RawRequest = { method: "GET", query: { comp: "list" } };
  const rows: [what: string, request: Partial<RawRequest>, status: number, code?: string][] = [
    ["SharedKeyLite is taken", { sign: "SharedKeyLite" }, 200],
    ["a date of 14 minutes ago is taken", { headers: { "x-ms-date": minutesFromNow(-14) } }, 200],
    ["a date in 14 minutes is taken", { headers: { "x-ms-date": minutesFromNow(14) } }, 200],
    ["a future version is taken", { headers: { "x-ms-version": "2099-01-01" } }, 200],
    ["the first version is taken", { headers: { "x-ms-version": "2009-09-19" } }, 200],
    ["another key is refused", { key: "bm90IHRoZSBrZXk=" }, 403, "AuthenticationFailed"],
    [
      "another key is refused with SharedKeyLite",
      { key: "bm90IHRoZSBrZXk=", sign: "SharedKeyLite" },
      403,
      "AuthenticationFailed",
    ],
    [
      "a header that was added later is refused",
      { after: { "x-ms-meta-a": "1" } },
      403,
      "AuthenticationFailed",
    ],
    [
      "a date of 16 minutes ago is refused",
      { headers: { "x-ms-date": minutesFromNow(-16) } },
      403,
      "AuthenticationFailed",
    ],
    [
      "a date in 16 minutes is refused",
      { headers: { "x-ms-date": minutesFromNow(16) } },
      403,
      "AuthenticationFailed",
    ],
    [
      "another account is refused",
      { after: { authorization: "SharedKey other:AAAA" } },
      403,
      "AuthenticationFailed",
    ],
    ...["nonsense", "SharedKey", "SharedKey devstoreaccount1", "Basic dTpw"].map(
      (authorization): [string, Partial<RawRequest>, number, string] => [
        `Authorization "${authorization}" is refused`,
        { after: { authorization } },
        400,
        "InvalidAuthenticationInfo",
      ],
    ),
    ["no Authorization is refused", { sign: "none" }, 401, "NoAuthenticationInformation"],
    [
      "no Authorization is refused the old way before 2019-12-12",
      { sign: "none", headers: { "x-ms-version": "2019-07-07" } },
      404,
      "ResourceNotFound",
    ],
    ...["yesterday", "2021-13-41", "1999-01-01", "2025-11-05x"].map(
      (version): [string, Partial<RawRequest>, number, string] => [
        `the version "${version}" is refused`,
        { headers: { "x-ms-version": version } },
        400,
        "InvalidHeaderValue",
      ],
    ),
  ];
  for (const [what, request, status, code] of rows) {
    test(what, async () => {
      const reply = await send(server, { ...listed, ...request });
      assert.deepEqual([reply.status, reply.code], [status, code]);
    });
  }

  test("no Authorization is answered with a challenge", async () => {
    const reply = await send(server, { ...listed, sign: "none" });
    assert.match(String(reply.headers["www-authenticate"]), /^Bearer authorization_uri=\S+/);
  });

  const dates: [what: string, headers: Record<string, string>, status: number, code?: string][] = [
    ["the Date header stands in for x-ms-date", { date: minutesFromNow(0) }, 200],
    ["an old Date header is refused", { date: minutesFromNow(-16) }, 403, "AuthenticationFailed"],
    ["no date is refused", {}, 403, "AuthenticationFailed"],
    ["a date that is none is refused", { "x-ms-date": "today" }, 403, "AuthenticationFailed"],
  ];
  for (const [what, date, status, code] of dates) {
    test(what, async () => {
      const target = `/${server.account}/?comp=list`;
      const headers = { ...date, "x-ms-version": VERSION };
      const reply = await exchange(server, { method: "GET", target, headers });
      assert.deepEqual([reply.status, reply.code], [status, code]);
    });
  }
});

suite("Addressing", () => {
  const hostStyle = (target: string) => {
    const host = `${server.account}.blob.localhost:${new URL(server.origin).port}`;
    const headers = { host, "x-ms-date": new Date().toUTCString(), "x-ms-version": VERSION };
    return exchange(server, { method: "GET", target, headers });
  };

  test("by host lists containers under the host's own endpoint", async () => {
    const reply = await hostStyle("/?comp=list&prefix=beta");
    assert.equal(reply.status, 200);
    const names = [...reply.text.matchAll(/<Name>([^<]*)</g)].map((match) => match[1]);
    assert.deepEqual(names, ["beta-1", "beta-2"]);
    assert.match(reply.text, /ServiceEndpoint="http:\/\/devstoreaccount1\.blob\.localhost:\d+\/"/);
  });

  test("by path works at a host that has the form of an account's, copies and batches too", async () => {
    const host = `lazuli.web.svc:${new URL(server.origin).port}`;
    const sent = (method: string, path: string, more: Record<string, string>, body = "") => {
      const headers = {
        ...{ host, "x-ms-date": new Date().toUTCString(), "x-ms-version": VERSION },
        ...{ "content-length": String(body.length), ...more },
      };
      return exchange(server, { method, target: `/${server.account}${path}`, headers, body });
    };
    const listed = await sent("GET", "/?comp=list&prefix=beta", { "content-length": "0" });
    assert.match(
      listed.text,
      /ServiceEndpoint="http:\/\/lazuli\.web\.svc:\d+\/devstoreaccount1\/"/,
    );
    await sent("PUT", "/alpha/by-path", { "x-ms-blob-type": "BlockBlob" }, "here");
    const source = `http://${host}/${server.account}/alpha/by-path`;
    const copied = await sent("PUT", "/alpha/by-path-too", { "x-ms-copy-source": source });
    assert.deepEqual([copied.status, copied.headers["x-ms-copy-status"]], [202, "success"]);
    const part = `DELETE /${server.account}/alpha/by-path HTTP/1.1\r\n\r\n`;
    const text = `--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n${part}\r\n--b--\r\n`;
    const type = { "content-type": "multipart/mixed; boundary=b" };
    const batch = await sent("POST", "/alpha?restype=container&comp=batch", type, text);
    assert.match(
      batch.text,
      /HTTP\/1\.1 (401|404) /,
      "its parts are judged, not refused as of elsewhere",
    );
  });

  test("by host finds a container without the account in the path", async () => {
    const reply = await hostStyle("/alpha?restype=container");
    assert.equal(reply.status, 200);
    assert.equal(reply.headers["x-ms-meta-owner"], "alpha");
  });

  test("by host takes the account's name in the path for a container", async () => {
    const reply = await hostStyle(`/${server.account}?restype=container`);
    assert.deepEqual([reply.status, reply.code], [404, "ContainerNotFound"]);
  });

  test("by path takes a slash after the account or none", async () => {
    for (const slash of ["", "/"]) {
      const target = `/${server.account}${slash}?comp=list`;
      const headers = { "x-ms-date": new Date().toUTCString(), "x-ms-version": VERSION };
      assert.equal((await exchange(server, { method: "GET", target, headers })).status, 200);
    }
  });

  test("GET /healthz answers without a signature", async () => {
    const status = await new Promise((resolve, reject) => {
      http
        .get(`${server.origin}/healthz`, (reply) => {
          reply.resume().on("end", () => resolve(reply.statusCode));
        })
        .on("error", reject);
    });
    assert.equal(status, 200);
  });
});
