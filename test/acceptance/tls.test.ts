import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import tls from "node:tls";
import { BlobServiceClient } from "@azure/storage-blob";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

const folder = mkdtempSync(join(tmpdir(), "lazuli-tls-"));
after(() => rmSync(folder, { recursive: true }));

/** Runs a test against a server of its own. */
async function withServer(
  args: readonly string[],
  body: (server: TestServer) => Promise<void>,
  directory?: string,
): Promise<void> {
  const server = await startServer({ args, ...(directory === undefined ? {} : { directory }) });
  try {
    await body(server);
  } finally {
    await server.stop(directory === undefined ? undefined : "keep");
  }
}

type Shown = { readonly serial: string; readonly protocol: string | null };

/** Connects, and tells what the server showed; throws if it is not trusted. */
function connect(server: TestServer, options: tls.ConnectionOptions): Promise<Shown> {
  const port = Number(new URL(server.origin).port);
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ host: "127.0.0.1", port, ...options }, () => {
      const { serialNumber } = socket.getPeerCertificate();
      resolve({ serial: serialNumber, protocol: socket.getProtocol() });
      socket.destroy();
    });
    socket.on("error", reject);
  });
}

const trust = (path: string) =>
  tls.setDefaultCACertificates([...tls.getCACertificates("default"), readFileSync(path, "utf8")]);

suite("TLS", () => {
  test("--tls auto makes an authority that can be trusted, and tells how", async () => {
    const directory = join(folder, "auto");
    const authority = join(directory, "tls", "ca.crt");
    let serial = "";
    await withServer(
      ["--tls", "auto"],
      async (server) => {
        assert.match(server.origin, /^https:/);
        assert.ok(server.output().includes(`NODE_EXTRA_CA_CERTS=${authority}`));
        assert.match(server.output(), /DefaultEndpointsProtocol=https;.*BlobEndpoint=https:/);
        const ca = readFileSync(authority);
        ({ serial } = await connect(server, { ca }));
        for (const servername of ["localhost", "abc.blob.localhost"]) {
          await connect(server, { ca, servername });
        }
        await assert.rejects(connect(server, { ca, servername: "example.com" }), {
          code: "ERR_TLS_CERT_ALTNAME_INVALID",
        });
        await assert.rejects(connect(server, {}), /self-signed|unable to verify/);
        trust(authority);
        const service = BlobServiceClient.fromConnectionString(server.connectionString);
        const { containerClient } = await service.createContainer("over-tls");
        await containerClient.getBlockBlobClient("b").upload("text", 4);
        const text = await containerClient.getBlobClient("b").downloadToBuffer();
        assert.equal(String(text), "text");
        assert.equal((await fetch(`${server.origin}/healthz`)).status, 200);
      },
      directory,
    );
    for (const name of ["ca.key", "server.key"]) {
      assert.equal(statSync(join(directory, "tls", name)).mode & 0o077, 0, `${name} is private`);
    }
    await withServer(
      ["--tls", "auto"],
      async (server) => {
        const again = await connect(server, { ca: readFileSync(authority) });
        assert.equal(again.serial, serial, "a restart keeps the certificate");
      },
      directory,
    );
  });

  test("speaks TLS 1.2 and 1.3, and nothing older", async () => {
    await withServer(["--tls", "auto"], async (server) => {
      const ca = readFileSync(join(server.directory, "tls", "ca.crt"));
      const by = (version: tls.SecureVersion) =>
        connect(server, { ca, minVersion: version, maxVersion: version });
      assert.equal((await by("TLSv1.3")).protocol, "TLSv1.3");
      assert.equal((await by("TLSv1.2")).protocol, "TLSv1.2");
      const old = {
        minVersion: "TLSv1",
        maxVersion: "TLSv1.1",
        ciphers: "ALL@SECLEVEL=0",
      } as const;
      await assert.rejects(connect(server, { ca, ...old }));
    });
  });

  test("--cert and --pwd take a PFX file", async () => {
    const args = ["--cert", "test/vectors/server.pfx", "--pwd", "opensesame"];
    await withServer(args, async (server) => {
      await connect(server, { ca: readFileSync("test/vectors/server.crt") });
    });
  });

  test("--cert and --key are read again when they change", async () => {
    const cert = join(folder, "server.crt");
    const key = join(folder, "server.key");
    const made: string[] = [];
    for (const name of ["one", "two"]) {
      const directory = join(folder, name);
      made.push(directory);
      await withServer(["--tls", "auto"], async () => {}, directory);
    }
    const use = (directory = "") => {
      copyFileSync(join(directory, "tls", "server.crt"), cert);
      copyFileSync(join(directory, "tls", "server.key"), key);
    };
    const serials = made.map(
      (directory) =>
        new X509Certificate(readFileSync(join(directory, "tls", "server.crt"))).serialNumber,
    );
    use(made[0]);
    await withServer(["--cert", cert, "--key", key], async (server) => {
      const shown = async () => (await connect(server, { rejectUnauthorized: false })).serial;
      assert.equal(await shown(), serials[0]);
      use(made[1]);
      process.kill(server.pid, "SIGHUP");
      while ((await shown()) !== serials[1])
        await new Promise((resolve) => setTimeout(resolve, 10));
      copyFileSync(join(made[0] ?? "", "tls", "server.key"), key); // of another certificate
      process.kill(server.pid, "SIGHUP");
      assert.equal(await shown(), serials[1], "what does not fit together is not used");
    });
  });

  test("plain HTTP on a TLS port is no answer and no harm", async () => {
    await withServer(["--tls", "auto"], async (server) => {
      const plain = { ...server, origin: server.origin.replace("https", "http") };
      await assert.rejects(send(plain, { method: "GET", query: { comp: "list" } }));
      const ca = readFileSync(join(server.directory, "tls", "ca.crt"));
      await connect(server, { ca });
    });
  });

  const bad: [args: string[], says: RegExp][] = [
    [["--cert", "nowhere.crt", "--key", "nowhere.key"], /nowhere\.crt cannot be read/],
    [["--cert", "package.json", "--key", "package.json"], /package\.json cannot be used/],
    [["--cert", "test/vectors/server.pfx", "--pwd", "wrong"], /server\.pfx cannot be used/],
  ];
  for (const [args, says] of bad) {
    test(`${args.join(" ")} ends the start with one sentence`, async () => {
      await assert.rejects(startServer({ args }), (error: Error) => {
        assert.match(error.message, says);
        assert.doesNotMatch(error.message, /\n\s+at /);
        return true;
      });
    });
  }
});
