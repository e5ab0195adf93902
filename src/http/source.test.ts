import assert from "node:assert/strict";
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
