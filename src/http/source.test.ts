import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ownerOf } from "../auth/caller.ts";
import { copySources } from "./source.ts";

const { local } = copySources({
  doors: new Map(),
  ports: new Map([[10000, "blob"]]),
  hosts: ["*"],
});

// Whom the request was sent to, and what it names as its source.
const rows: [url: string, endpoint: string, isOurs: boolean][] = [
  ["http://127.0.0.1:10000/abc/c/b", "http://127.0.0.1:10000/abc/", true],
  ["http://localhost:10000/abc/c/b", "http://127.0.0.1:10000/abc/", true],
  ["http://abc.blob.localhost:10000/c/b", "http://127.0.0.1:10000/abc/", true],
  ["http://store.lan:10000/abc/c/b", "http://store.lan:10000/abc/", true],
  ["http://abc.blob.store.lan:10000/c/b", "http://store.lan:10000/abc/", true],
  ["http://store.lan:10000/abc/c/b", "http://abc.blob.store.lan:10000/", true],
  ["http://def.blob.store.lan:10000/c/b", "http://abc.blob.store.lan:10000/", true],
  ["http://127.0.0.1:10009/abc/c/b", "http://127.0.0.1:10000/abc/", false],
  ["http://other.lan:10000/abc/c/b", "http://store.lan:10000/abc/", false],
  ["http://abc.blob.other.lan:10000/c/b", "http://127.0.0.1:10000/abc/", false],
  ["http://abc.blob.other.lan:10000/c/b", "http://abc.blob.store.lan:10000/", false],
  ["http://other.lan:10000/abc/c/b", "http://other.lan:99999/abc/", false],
  ["https://abc.blob.core.windows.net/c/b", "http://127.0.0.1:10000/abc/", false],
];
for (const [url, endpoint, isOurs] of rows) {
  test(`copySources(): ${url}, asked for at ${endpoint}, is ${isOurs ? "ours" : "elsewhere"}`, () => {
    const asker = { caller: ownerOf("abc"), account: "abc", endpoint };
    assert.equal(local(new URL(url), asker) !== undefined, isOurs);
  });
}

test("copySources(): what else listens on this machine is read only for this machine, or if it is listed", async () => {
  const other = createServer((_request, response) => response.end("private")).listen(
    0,
    "127.0.0.1",
  );
  await once(other, "listening");
  const url = new URL(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
  const asker = { caller: ownerOf("abc"), account: "abc", endpoint: "http://store.lan/abc/" };
  const opened = (options: { isLocal?: boolean; hosts?: readonly string[] }) =>
    copySources({ doors: new Map(), ports: new Map(), hosts: [], ...options }).open(
      { url, method: "GET", headers: {} },
      asker,
    );
  for (const options of [{ isLocal: true }, { hosts: ["127.0.0.1"] }, { hosts: ["*"] }]) {
    const source = await opened(options);
    assert.equal(source.status, 200);
    source.close();
  }
  for (const options of [{}, { isLocal: false }, { hosts: ["other.lan"] }]) {
    await assert.rejects(opened(options), { code: "CannotVerifyCopySource", status: 403 });
  }
  other.close();
});
