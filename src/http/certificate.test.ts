import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { randomIds } from "../base/ids.ts";
import { developmentCertificate, endOf, readCertificate } from "./certificate.ts";

const folder = mkdtempSync(join(tmpdir(), "lazuli-certificate-"));
after(() => rmSync(folder, { recursive: true }));
const DAY_MS = 86_400_000;
const start = Date.UTC(2026, 0, 1);

const made = (days: number, hosts: readonly string[] = []) => {
  const now = start + days * DAY_MS;
  const { authority, isNew, files } = developmentCertificate({
    ...{ directory: folder, hosts, now, ids: randomIds },
  });
  const server = new X509Certificate(readFileSync(files.cert));
  const by = new X509Certificate(readFileSync(authority));
  assert.ok(server.verify(by.publicKey));
  return { isNew, authority: by.serialNumber, server };
};

// One after another, on one directory, as starts of a server are.
test("developmentCertificate(): keeps, renews and makes anew what must be", () => {
  const first = made(0);
  assert.ok(first.isNew);
  const second = made(300);
  assert.deepEqual([second.isNew, second.server.serialNumber], [false, first.server.serialNumber]);
  const renewed = made(370);
  assert.deepEqual([renewed.isNew, renewed.authority], [false, first.authority]);
  assert.notEqual(renewed.server.serialNumber, first.server.serialNumber);
  const nearby = made(370, ["192.168.0.7", "0.0.0.0"]);
  assert.deepEqual([nearby.isNew, nearby.authority], [false, first.authority]);
  assert.equal(nearby.server.checkIP("192.168.0.7"), "192.168.0.7");
  const named = made(370, ["store.example"]);
  assert.ok(named.isNew, "a name that the authority may not vouch for needs another");
  assert.equal(named.server.checkHost("store.example"), "store.example");
  const old = made(370 + 3640, ["store.example"]);
  assert.ok(old.isNew, "an authority ends too");
});

test("readCertificate(): what cannot be used is a sentence, and the end is known", () => {
  const other = mkdtempSync(join(folder, "other-"));
  const at = (directory: string) => {
    const options = { directory, hosts: [], now: start, ids: randomIds };
    const { files } = developmentCertificate(options);
    assert.ok("key" in files);
    return files;
  };
  const [mine, theirs] = [at(join(other, "1")), at(join(other, "2"))];
  const empty = join(other, "empty");
  writeFileSync(empty, "");
  const pfx = "test/vectors/server.pfx";
  for (const [files, why] of [
    [{ cert: mine.cert, key: theirs.key }, "the key is that of another one"],
    [{ cert: mine.key, key: mine.key }, "it or its key is not written in PEM"],
    [{ cert: mine.cert, key: empty }, "it or its key is not written in PEM"],
    [{ cert: pfx, password: "wrong" }, "the password is wrong"],
    [{ cert: mine.cert, password: "" }, "it is no PFX file"],
    [{ cert: empty, password: "" }, "it is no PFX file"],
  ] as const) {
    const message = `the certificate ${files.cert} cannot be used: ${why}.`;
    assert.throws(() => readCertificate(files), { message });
  }
  assert.equal(endOf(readCertificate(mine)), start + 397 * DAY_MS);
});
