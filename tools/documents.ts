import { globSync, readFileSync } from "node:fs";
import type { Level, Operation, ServiceDefinition } from "../src/http/operation.ts";
import { errors } from "../src/rules/errors.ts";
import { services } from "../src/services.ts";
import { concurrencyPage } from "./concurrency.ts";

/** The documents that are made from the code; docs.ts writes them, documents.test.ts proves them fresh. */
export const documents: Readonly<Record<string, () => string>> = {
  "docs/operations.md": operationsPage,
  "docs/errors.md": errorsPage,
  "docs/compatibility.md": compatibilityPage,
  "docs/concurrency.md": concurrencyPage,
};

const made = "<!-- Made by `npm run docs` from the code; edit that. -->";

const paths: Readonly<Record<Level, string>> = {
  service: "/",
  container: "/{container}",
  blob: "/{container}/{blob}",
  queue: "/{queue}",
  messages: "/{queue}/messages",
  message: "/{queue}/messages/{message}",
  tables: "/Tables",
  table: "/Tables('{table}')",
  entities: "/{table}()",
  entity: "/{table}(PartitionKey='{key}',RowKey='{key}')",
  batch: "/$batch",
  metadata: "/$metadata",
  share: "/{share}",
  directory: "/{share}/{directory}",
  file: "/{share}/{directory}/{file}",
};

function request({ match }: Operation): string {
  const { method, headToo, on, restype, comp, header, also } = match;
  const path = paths[on];
  const query = [
    restype && `restype=${restype}`,
    comp && `comp=${comp}`,
    match.query && `${match.query.name}=${match.query.value}`,
  ]
    .filter(Boolean)
    .join("&");
  const verbs = headToo ? `${method}, HEAD` : method;
  const headers = [header, also].flatMap((one) =>
    one === undefined ? [] : [`\`${one.name}${one.value ? `: ${one.value}` : ""}\``],
  );
  const when = headers.length === 0 ? "" : ` with ${headers.join(" and ")}`;
  return `\`${verbs} ${path}${query === "" ? "" : `?${query}`}\`${when}`;
}

function tableOf({ name, operations }: ServiceDefinition): string {
  const rows = operations.map((operation) => {
    const { conditions, lease } = operation.guard;
    const sas =
      operation.allow.sas === ""
        ? "–"
        : `${operation.allow.resource}${operation.allow.orResource ?? ""} / ${operation.allow.sas}`;
    const snapshots = operation.snapshots ? "yes" : "";
    return `| ${operation.name} | ${request(operation)} | ${conditions === "none" ? "" : conditions} | ${lease === "own" ? "" : lease} | ${snapshots} | ${sas} |`;
  });
  return `## ${name.charAt(0).toUpperCase()}${name.slice(1)} service

| Operation | Request | Conditions | Lease | ?snapshot | SAS |
|---|---|---|---|---|---|
${rows.join("\n")}
`;
}

function operationsPage(): string {
  return `# Operations

${made}

Conditions: "read" takes any combination of the four headers and answers 304; "snapshot" the same, but 412;
"write" and "create" take one header or a documented pair and answer 412. Where the column is empty, a
conditional header is refused with 400; "own" is told in [concurrency.md](concurrency.md).
Lease: "guarded" needs the id of a lease that is held; "free" needs none, but one that is sent must be right.
SAS: the account SAS resource types any of which will do, and the permissions any of which allows it.

${services.map(tableOf).join("\n")}`;
}

function errorsPage(): string {
  const rows = Object.entries(errors)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(
      ([code, [status, message, wire]]: [string, readonly [number, string, string?]]) =>
        `| ${wire ?? code} | ${status} | ${message} |`,
    );
  return `# Errors

${made}

| Code | Status | Message |
|---|---|---|
${rows.join("\n")}
`;
}

function compatibilityPage(): string {
  const notes = globSync("src/**/*.ts")
    .sort()
    .flatMap((path) =>
      [
        ...readFileSync(path, "utf8").matchAll(/\/\/ Differs from Azure: (.*(?:\n\s*\/\/ .*)*)/g),
      ].map(([, text = ""]) => `- ${text.replace(/\n\s*\/\/ /g, " ")} (\`${path}\`)`),
    );
  return `# Where Lazuli differs from Azure

${made}

${notes.join("\n")}
`;
}
