import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import http from "node:http";
import { TableClient, TableServiceClient } from "@azure/data-tables";
import type { TestServer } from "./server.ts";

type Fields = Readonly<Record<string, string>>;

/** One request to the Table service by hand; `path` begins after the account and is encoded already. */
export type TableCall = {
  readonly method: string;
  readonly path: string;
  readonly query?: Fields;
  /** Names in lower case. */
  readonly headers?: Fields;
  readonly body?: string | Buffer;
  readonly sign?: "SharedKey" | "SharedKeyLite" | "none";
  readonly key?: string;
  readonly agent?: http.Agent;
};

export type TableReply = {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
  /** The body, if it is JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: replies of many shapes, each looked at by its test
  readonly json: any;
  /** The code of the header, or of the body. */
  readonly code: string | undefined;
};

export const NO_METADATA = { accept: "application/json;odata=nometadata" };
export const MINIMAL = { accept: "application/json;odata=minimalmetadata" };
export const FULL = { accept: "application/json;odata=fullmetadata" };
export const ANY = { "if-match": "*" };

/** The endpoint of the Table service, without a slash at the end. */
export const urlOf = (server: TestServer): string => server.urls.table ?? "";

const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };

/** The SDK's client of one table; it does not repeat what fails. */
export const tableClient = (server: TestServer, table: string): TableClient =>
  TableClient.fromConnectionString(server.connectionString, table, options);

export const tableServiceClient = (server: TestServer): TableServiceClient =>
  TableServiceClient.fromConnectionString(server.connectionString, options);

/** Sends one request, signed in the form that tables have, and gathers the whole reply. */
export function ask(server: TestServer, call: TableCall): Promise<TableReply> {
  const { method, path, query = {}, sign = "SharedKey" } = call;
  const url = new URL(urlOf(server));
  const whole = `${url.pathname}${path}`;
  const parameters = Object.entries(query).map(
    ([name, value]) => `${name}=${encodeURIComponent(value)}`,
  );
  const headers: Record<string, string> = {
    "x-ms-version": "2019-02-02",
    "x-ms-date": new Date().toUTCString(),
    dataserviceversion: "3.0",
    ...(call.body === undefined ? {} : { "content-type": "application/json" }),
    ...call.headers,
  };
  const body = call.body === undefined ? undefined : Buffer.from(call.body);
  if (body !== undefined) headers["content-length"] ??= String(body.length);
  if (sign !== "none") {
    const { date, comp } = { date: headers["x-ms-date"], comp: query.comp };
    const resource = `/${server.account}${whole}${comp === undefined ? "" : `?comp=${comp}`}`;
    const lines = [method, headers["content-md5"] ?? "", headers["content-type"] ?? "", date];
    const text = `${sign === "SharedKey" ? lines.join("\n") : date}\n${resource}`;
    const key = Buffer.from(call.key ?? server.key, "base64");
    const signature = createHmac("sha256", key).update(text).digest("base64");
    headers.authorization = `${sign} ${server.account}:${signature}`;
  }
  return new Promise((resolve, reject) => {
    const outgoing = http.request(
      {
        ...{ host: url.hostname, port: url.port, method, headers },
        path: parameters.length === 0 ? whole : `${whole}?${parameters.join("&")}`,
        ...(call.agent === undefined ? {} : { agent: call.agent }),
      },
      (reply) => {
        let text = "";
        reply.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        reply.on("error", reject);
        reply.on("end", () => {
          const isJson = /^application\/json/.test(reply.headers["content-type"] ?? "");
          const json = isJson && text !== "" ? JSON.parse(text) : undefined;
          const code = reply.headers["x-ms-error-code"] ?? json?.["odata.error"]?.code;
          resolve({ status: reply.statusCode ?? 0, headers: reply.headers, text, json, code });
        });
      },
    );
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

/** Fails unless the reply has this status, and this code if one is given. */
export function assertReply(reply: TableReply, status: number, code?: string): TableReply {
  const found = `${reply.status} ${reply.code ?? ""} ${reply.text.slice(0, 400)}`;
  assert.equal(reply.status, status, found);
  if (code !== undefined) assert.equal(reply.code, code, found);
  return reply;
}

const quoted = (text: string) => encodeURIComponent(text.replaceAll("'", "''"));

/** The path of an entity. */
export const at = (table: string, partitionKey: string, rowKey: string): string =>
  `/${table}(PartitionKey='${quoted(partitionKey)}',RowKey='${quoted(rowKey)}')`;

export async function createTable(server: TestServer, table: string): Promise<void> {
  const body = JSON.stringify({ TableName: table });
  assertReply(await ask(server, { method: "POST", path: "/Tables", body }), 201);
}

export const insert = (
  server: TestServer,
  table: string,
  entity: Record<string, unknown> | string,
  headers: Fields = {},
): Promise<TableReply> =>
  ask(server, {
    ...{ method: "POST", path: `/${table}`, headers },
    body: typeof entity === "string" ? entity : JSON.stringify(entity),
  });

export const get = (
  server: TestServer,
  path: string,
  headers: Fields = NO_METADATA,
  query: Fields = {},
): Promise<TableReply> => ask(server, { method: "GET", path, headers, query });

/** One request of a batch. */
export type BatchPart = {
  readonly method: string;
  /** Behind the account, encoded. */
  readonly path: string;
  readonly headers?: Fields;
  readonly body?: Record<string, unknown> | string;
};

const CRLF = "\r\n";

/** A change set as SDKs write it. */
export function changeSet(server: TestServer, parts: readonly BatchPart[]): string {
  const all = parts.map((part) => `--changeset_1${CRLF}${partText(server, part)}`);
  return `--batch_1${CRLF}Content-Type: multipart/mixed; boundary=changeset_1${CRLF}${CRLF}${all.join("")}--changeset_1--${CRLF}--batch_1--${CRLF}`;
}

export function partText(
  server: TestServer,
  { method, path, headers = {}, body }: BatchPart,
): string {
  const lines = [
    "Content-Type: application/http",
    "Content-Transfer-Encoding: binary",
    "",
    `${method} ${urlOf(server)}${path} HTTP/1.1`,
    ...(body === undefined ? [] : ["Content-Type: application/json"]),
    "Accept: application/json;odata=minimalmetadata",
    "DataServiceVersion: 3.0",
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    "",
    body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body),
  ];
  return `${lines.join(CRLF)}${CRLF}`;
}

export const sendBatch = (
  server: TestServer,
  body: string | Buffer,
  headers: Fields = {},
): Promise<TableReply> =>
  ask(server, {
    ...{ method: "POST", path: "/$batch", body },
    headers: { "content-type": "multipart/mixed; boundary=batch_1", ...headers },
  });

/** The parts of a batch's reply: status, headers in lower case, body. */
export function partsIn({ text }: TableReply): {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}[] {
  return text
    .split(/^--(?:changeset|batch)response_[^\r\n]*\r\n/m)
    .filter((part) => part.includes("HTTP/1.1 "))
    .map((part) => {
      const [head = "", ...rest] = part.slice(part.indexOf("HTTP/1.1 ")).split("\r\n\r\n");
      const [line = "", ...lines] = head.split("\r\n");
      const headers = lines.map((each): [string, string] => {
        const colon = each.indexOf(": ");
        return [each.slice(0, colon).toLowerCase(), each.slice(colon + 2)];
      });
      const status = Number(line.split(" ")[1]);
      return { status, headers: Object.fromEntries(headers), body: rest.join("\r\n\r\n").trim() };
    });
}
