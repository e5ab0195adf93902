import { createHmac } from "node:crypto";
import http from "node:http";
import https from "node:https";
import type { TestServer } from "./server.ts";

/** One request by hand; names in lower case. `path` begins after the account: "/container/blob", not encoded. */
export type RawRequest = {
  readonly method: string;
  readonly path?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string;
  /** How to sign; "none" sends no Authorization. */
  readonly sign?: "SharedKey" | "SharedKeyLite" | "none";
  /** The key to sign with, where it is not the account's. */
  readonly key?: string;
  /** Headers put on after signing, to break the signature. */
  readonly after?: Readonly<Record<string, string>>;
  readonly agent?: http.Agent;
};

export type RawReply = {
  readonly status: number;
  readonly reason: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
  readonly text: string;
  /** The error code of header or body. */
  readonly code: string | undefined;
};

export const VERSION = "2025-11-05";

const encodedPath = (path: string) => path.split("/").map(encodeURIComponent).join("/");

/** Sends one signed request and gathers the whole reply. */
export function send(server: TestServer, request: RawRequest): Promise<RawReply> {
  const url = new URL(server.origin);
  const path = `/${server.account}${encodedPath(request.path ?? "/")}`;
  const query = Object.entries(request.query ?? {});
  const target = `${path}${query.length === 0 ? "" : "?"}${query
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .join("&")}`;
  const headers: Record<string, string> = {
    "x-ms-version": VERSION,
    "x-ms-date": new Date().toUTCString(),
    ...request.headers,
  };
  const body = request.body === undefined ? undefined : Buffer.from(request.body);
  if (!("content-length" in headers) && (body !== undefined || request.method !== "GET")) {
    headers["content-length"] = String(body?.length ?? 0);
  }
  const { sign = "SharedKey" } = request;
  if (sign !== "none") {
    const text = textToSign(sign, request.method, headers, `/${server.account}${path}`, query);
    const key = Buffer.from(request.key ?? server.key, "base64");
    const signature = createHmac("sha256", key).update(text).digest("base64");
    headers.authorization = `${sign} ${server.account}:${signature}`;
  }
  Object.assign(headers, request.after);
  return new Promise((resolve, reject) => {
    const { request: begin } = url.protocol === "https:" ? https : http;
    const outgoing = begin(
      {
        host: url.hostname,
        port: url.port,
        method: request.method,
        path: target,
        headers,
        ...(request.agent === undefined ? {} : { agent: request.agent }),
      },
      (reply) => {
        const parts: Buffer[] = [];
        reply.on("data", (part: Buffer) => parts.push(part));
        reply.on("error", reject);
        reply.on("end", () => {
          const bytes = Buffer.concat(parts);
          const text = bytes.toString("utf8");
          const header = reply.headers["x-ms-error-code"];
          resolve({
            status: reply.statusCode ?? 0,
            reason: reply.statusMessage ?? "",
            headers: reply.headers,
            body: bytes,
            text,
            code: typeof header === "string" ? header : /<Code>(\w+)<\/Code>/.exec(text)?.[1],
          });
        });
      },
    );
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

function textToSign(
  scheme: "SharedKey" | "SharedKeyLite",
  method: string,
  headers: Readonly<Record<string, string>>,
  resource: string,
  query: readonly (readonly [string, string])[],
): string {
  const value = (name: string) => headers[name] ?? "";
  const date = "x-ms-date" in headers ? "" : value("date");
  const ours = Object.keys(headers)
    .filter((name) => name.startsWith("x-ms-"))
    .sort((a, b) => (a < b ? -1 : 1))
    .map((name) => `${name}:${headers[name]}\n`)
    .join("");
  if (scheme === "SharedKeyLite") {
    const comp = query.find(([name]) => name === "comp");
    const suffix = comp === undefined ? "" : `?comp=${comp[1]}`;
    const lines = [method, value("content-md5"), value("content-type"), date];
    return `${lines.join("\n")}\n${ours}${resource}${suffix}`;
  }
  const size = value("content-length");
  const lines = [
    method,
    value("content-encoding"),
    value("content-language"),
    size === "0" ? "" : size,
    value("content-md5"),
    value("content-type"),
    date,
    value("if-modified-since"),
    value("if-match"),
    value("if-none-match"),
    value("if-unmodified-since"),
    value("range"),
  ];
  const parameters = query
    .map(([name, text]) => `\n${name.toLowerCase()}:${text}`)
    .sort((a, b) => (a < b ? -1 : 1))
    .join("");
  return `${lines.join("\n")}\n${ours}${resource}${parameters}`;
}
