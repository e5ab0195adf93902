import assert from "node:assert/strict";
import { test } from "node:test";
import { fileService } from "../../src/file/operations.ts";
import { type Ask, TestService } from "./file-service.ts";
import { Random } from "./power-cut.ts";

const CASES = 2500;

const GUID = "11111111-2222-3333-4444-555555555555";
const paths = [
  ...["/share", "/share/dir", "/share/dir/file", "/share/file", "/share/new", "/share/dir/sub/x"],
  ...["/", "/other", "/share/dir/", "/share//file", "/share/a:b", "/share/..", "/share/FILE"],
  `/share/${"d/".repeat(260)}x`,
  `/share/${"x".repeat(300)}`,
];
const texts = [
  ...["", "0", "1", "-1", "5", "4398046511105", "1e9", "true", "false", "now", "preserve", "*"],
  ...["source", "inherit", "include", "file", "update", "clear", "acquire", "break", "abort"],
  ...["None", "ReadOnly|Hidden", "Directory", "2026-01-01T00:00:00.0000000Z", "2026-02-31T00:00Z"],
  ...["bytes=0-9", "bytes=5-", "bytes=9-1", "bytes=0-99999999999999999999", "O:BAG:SYD:"],
  ...["1*1", "99999999999999999999*1", GUID, `{${GUID}}`, "AAAAAAAAAAA=", "1!!", "1!QUJD!"],
  ...["http://localhost/account/share/file", "http://localhost/account/share/dir", "ftp://x"],
  ...["http://localhost/account/share/%ff", "é\u0000".slice(0, 1), "x".repeat(9000)],
];
const headers = [
  ...["x-ms-type", "x-ms-content-length", "x-ms-write", "x-ms-range", "range", "content-md5"],
  ...["x-ms-lease-action", "x-ms-lease-id", "x-ms-proposed-lease-id", "x-ms-lease-duration"],
  ...["x-ms-lease-break-period", "x-ms-copy-source", "x-ms-copy-action", "x-ms-file-rename-source"],
  ...["x-ms-file-rename-replace-if-exists", "x-ms-file-rename-ignore-readonly", "if-match"],
  ...["x-ms-file-attributes", "x-ms-file-creation-time", "x-ms-file-last-write-time"],
  ...["x-ms-file-change-time", "x-ms-file-permission", "x-ms-file-permission-key"],
  ...["x-ms-file-permission-format", "x-ms-file-permission-copy-mode", "x-ms-share-quota"],
  ...["x-ms-access-tier", "x-ms-delete-snapshots", "x-ms-deleted-share-name", "x-ms-handle-id"],
  ...["x-ms-deleted-share-version", "x-ms-recursive", "x-ms-allow-trailing-dot", "x-ms-meta-a"],
  ...["x-ms-meta-", "x-ms-meta-é-", "x-ms-range-get-content-md5", "x-ms-content-crc64"],
  ...["x-ms-version", "x-ms-file-request-intent", "x-ms-source-range", "x-ms-content-type"],
  ...["x-ms-source-lease-id", "x-ms-destination-lease-id", "x-ms-file-support-rename"],
];
const queries = [
  ...["sharesnapshot", "prevsharesnapshot", "marker", "maxresults", "prefix", "include"],
  ...["copyid", "timeout", "comp", "restype"],
];
const bodies = [
  ...["", "0123456789", "{}", '{"permission":"O:BAG:SYD:"}', '{"permission":5}', "[", "<a>"],
  "<SignedIdentifiers></SignedIdentifiers>",
  "<StorageServiceProperties><Cors></Cors></StorageServiceProperties>",
  "<StorageServiceProperties><ProtocolSettings><SMB/></ProtocolSettings></StorageServiceProperties>",
];

const usual: Readonly<Record<string, readonly string[]>> = {
  service: ["/"],
  share: ["/share"],
  directory: ["/share/dir", "/share/new", "/share"],
  file: ["/share/file", "/share/dir/file", "/share/File"],
};

/** A request for some operation, mostly with what it needs, and with some nonsense beside. */
function nonsense(random: Random): Ask {
  const { match } = random.pick(fileService.operations);
  const text = () => random.pick(texts);
  const query: Record<string, string> = {};
  const sent: Record<string, string> = {};
  if (match.restype !== undefined && random.chance(95)) query.restype = match.restype;
  if (match.comp !== undefined && random.chance(95)) query.comp = match.comp;
  for (const header of [match.header, match.also]) {
    if (header !== undefined && random.chance(95)) sent[header.name] = header.value ?? text();
  }
  if (random.chance(70)) sent["x-ms-content-length"] = random.pick(["0", "10", "1000"]);
  if (random.chance(50)) sent["x-ms-range"] = random.pick(["bytes=0-9", "bytes=0-511"]);
  if (random.chance(60)) sent["x-ms-lease-duration"] = "-1";
  for (let count = random.below(6) - 2; count > 0; count--) sent[random.pick(headers)] = text();
  for (let count = random.below(6) - 3; count > 0; count--) query[random.pick(queries)] = text();
  const isWrite = match.comp === "range";
  const body = Buffer.from(random.chance(80) ? (isWrite ? "0123456789" : "") : random.pick(bodies));
  const path = random.pick(random.chance(80) ? (usual[match.on] ?? paths) : paths);
  return { method: match.method, path, query, headers: sent, body };
}

for (const seed of [1, 2, 3]) {
  test(`Nonsense is answered, never a fault, and does no harm (seed ${seed})`, async () => {
    const random = new Random(seed);
    const service = new TestService(() => random.chance(3));
    const seen = new Map<number, number>();
    for (let i = 0; i < CASES; i++) {
      if (i % 100 === 0) {
        await service.createShare("share");
        await service.createDirectory("/share/dir");
        await service.createFile("/share/file", 1000);
      }
      const ask = nonsense(random);
      const answer = await service.ask(ask).catch((error: Error) => {
        throw new Error(`${error.stack}\ncase ${i}: ${JSON.stringify(ask).slice(0, 2000)}`);
      });
      seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1);
    }
    assert.equal(seen.get(500), undefined);
    const done = [...seen].filter(([status]) => status < 300).reduce((sum, [, n]) => sum + n, 0);
    assert.ok(done > CASES / 20, `only ${done} were done: ${JSON.stringify([...seen])}`);
    await service.sweep();
    assert.deepEqual(await service.problems(), []);
  });
}
