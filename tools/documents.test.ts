import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { routeKeys } from "../src/http/match.ts";
import { services } from "../src/services.ts";
import { documents } from "./documents.ts";

const all = services.flatMap(({ name: service, operations }) =>
  operations.map((operation) => ({ service, ...operation })),
);

for (const [path, make] of Object.entries(documents)) {
  test(`${path} is what the code says; \`npm run docs\` makes it anew`, () => {
    assert.equal(readFileSync(path, "utf8"), make());
  });
}

test("no two operations match the same request", () => {
  const seen = new Map<string, string>();
  for (const { service, name, match } of all) {
    for (const route of routeKeys(match)) {
      const headers = [match.header, match.also].map(
        (header) => `${header?.name}=${header?.value}`,
      );
      const { query } = match;
      const key = `${service} ${route} ${headers.join(" ")} ${query?.name}=${query?.value}`;
      assert.equal(seen.get(key), undefined, `${name} and ${seen.get(key)} both match ${key}`);
      seen.set(key, name);
    }
  }
});

test("every operation is named by an acceptance test", () => {
  const texts = globSync("test/acceptance/*.test.ts").map((path) => readFileSync(path, "utf8"));
  const text = texts.join("\n");
  const missing = all
    .map(({ name }) => name.replace(/ \(.*\)$/, ""))
    .filter((name) => !text.includes(name.replace(/: .*$/, "")));
  assert.deepEqual(missing, []);
});
