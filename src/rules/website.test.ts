import assert from "node:assert/strict";
import { test } from "node:test";
import { pageOf, type WebsiteSettings, websiteAccountOf } from "./website.ts";

const index: WebsiteSettings = { enabled: true, indexDocument: "index.html" };
const fallback: WebsiteSettings = { enabled: true, defaultIndexDocumentPath: "/app/main.html" };
const none: WebsiteSettings = { enabled: true };

const pages: [path: string, settings: WebsiteSettings, want: string | undefined][] = [
  ["/", index, "index.html"],
  ["/docs/", index, "docs/index.html"],
  ["/docs", index, "docs"],
  ["/docs/a.html", index, "docs/a.html"],
  ["//", index, "/index.html"],
  ["/", fallback, "app/main.html"],
  ["/docs/", fallback, "app/main.html"],
  ["/docs", fallback, "docs"],
  ["/", none, undefined],
  ["/docs/", none, undefined],
  ["/a", none, "a"],
];
for (const [path, settings, want] of pages) {
  test(`pageOf(): ${path} with ${JSON.stringify(settings)}`, () => {
    assert.equal(pageOf(path, settings), want);
  });
}

const hosts: [host: string, want: string | undefined][] = [
  ["abc.web.localhost:10004", "abc"],
  ["ABC.z6.web.core.windows.net", "abc"],
  ["abc-secondary.z21.web.core.windows.net", "abc"],
  ["127.0.0.1:10004", undefined],
  ["localhost", undefined],
  ["abc.blob.core.windows.net", undefined],
  ["abc.zx.web.core.windows.net", undefined],
];
for (const [host, want] of hosts) {
  test(`websiteAccountOf(): ${host}`, () => assert.equal(websiteAccountOf(host), want));
}
