import assert from "node:assert/strict";
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { connect, createServer } from "node:tls";
import { addressBytes, certificatePem, type Subtree } from "./x509.ts";

const DAY_MS = 86_400_000;
const now = Date.now();
const pair = () => generateKeyPairSync("ec", { namedCurve: "P-256" });

function authorityFor(names: readonly Subtree[]) {
  const signer = pair();
  const pem = certificatePem({
    ...{ subject: "An authority", issuer: "An authority", serial: "0a", signer },
    ...{ from: now - DAY_MS, to: now + DAY_MS, publicKey: signer.publicKey },
    use: { kind: "authority", names },
  });
  return { signer, pem };
}

function serverBy(signer: ReturnType<typeof pair>, hosts: readonly string[], to = now + DAY_MS) {
  const { privateKey, publicKey } = pair();
  const pem = certificatePem({
    ...{ subject: "A server", issuer: "An authority", serial: "ff00000000000001", signer },
    ...{ from: now - 2 * DAY_MS, to, publicKey, use: { kind: "server", hosts } },
  });
  return { pem, key: privateKey.export({ type: "pkcs8", format: "pem" }).toString() };
}

const LOCAL: Subtree[] = [
  { domain: "localhost" },
  { address: "127.0.0.0", bits: 8 },
  { address: "::1", bits: 128 },
];

test("certificatePem(): Node reads back what was written", () => {
  const { signer, pem } = authorityFor(LOCAL);
  const authority = new X509Certificate(pem);
  assert.equal(authority.subject, "CN=An authority");
  assert.ok(authority.ca);
  assert.ok(authority.verify(signer.publicKey));
  const hosts = ["localhost", "*.blob.localhost", "127.0.0.1", "::1"];
  const server = new X509Certificate(serverBy(signer, hosts).pem);
  assert.equal(server.serialNumber, "FF00000000000001");
  assert.ok(!server.ca);
  assert.ok(server.verify(signer.publicKey) && server.checkIssued(authority));
  assert.equal(server.checkHost("localhost"), "localhost");
  assert.equal(server.checkHost("abc.blob.localhost"), "*.blob.localhost");
  assert.equal(server.checkHost("example.com"), undefined);
  assert.equal(server.checkIP("127.0.0.1"), "127.0.0.1");
  assert.equal(server.checkIP("::1"), "::1");
  assert.deepEqual(server.keyUsage, ["1.3.6.1.5.5.7.3.1"]);
  assert.equal(server.validToDate.getTime(), Math.floor((now + DAY_MS) / 1000) * 1000);
});

test("certificatePem(): dates from 2050 on are written in the longer form", () => {
  const { signer } = authorityFor(LOCAL);
  const to = Date.UTC(2051, 0, 2, 3, 4, 5);
  assert.equal(new X509Certificate(serverBy(signer, ["a"], to).pem).validToDate.getTime(), to);
});

/** What a client that trusts the authority says to a server of that certificate. */
async function greeted(hosts: readonly string[], servername: string, to?: number): Promise<string> {
  const { signer, pem } = authorityFor(LOCAL);
  const { pem: cert, key } = serverBy(signer, hosts, to);
  const server = createServer({ cert, key }, (socket) => socket.end()).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  try {
    const socket = connect({ host: "127.0.0.1", port, ca: pem, servername });
    await once(socket, "secureConnect");
    socket.destroy();
    return "welcome";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  } finally {
    server.close();
  }
}

const greetings: [what: string, hosts: string[], servername: string, want: RegExp, to?: number][] =
  [
    ["a name of this machine", ["localhost"], "localhost", /^welcome$/],
    ["a name below it", ["*.blob.localhost"], "abc.blob.localhost", /^welcome$/],
    ["an address", ["127.0.0.1"], "", /^welcome$/],
    [
      "a name beyond the authority",
      ["localhost", "example.com"],
      "localhost",
      /PERMITTED_VIOLATION|UNSPECIFIED/,
    ],
    [
      "an address beyond the authority",
      ["localhost", "8.8.8.8"],
      "localhost",
      /PERMITTED_VIOLATION|UNSPECIFIED/,
    ],
    [
      "a certificate that has expired",
      ["localhost"],
      "localhost",
      /CERT_HAS_EXPIRED/,
      now - DAY_MS,
    ],
  ];
for (const [what, hosts, servername, want, to] of greetings) {
  test(`certificatePem(): ${what}: ${want.source}`, async () =>
    assert.match(await greeted(hosts, servername, to), want));
}

const addresses: [text: string, want: string][] = [
  ["127.0.0.1", "7f000001"],
  ["::1", "00000000000000000000000000000001"],
  ["::", "00000000000000000000000000000000"],
  ["fe80::", "fe800000000000000000000000000000"],
  ["2001:db8::a:b", "20010db80000000000000000000a000b"],
  ["1:2:3:4:5:6:7:8", "00010002000300040005000600070008"],
];
for (const [text, want] of addresses) {
  test(`addressBytes(): ${text}`, () => assert.equal(addressBytes(text).toString("hex"), want));
}
