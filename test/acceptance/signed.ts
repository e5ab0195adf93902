import { createHmac } from "node:crypto";
import http from "node:http";
import type { TestServer } from "./server.ts";

/** One request as it stands on the wire, for what `send` would put right; header names in any case. */
export type WireRequest = {
  readonly method: string;
  /** The request target, already encoded. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
};

export type WireReply = {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  /** Names and values in turn, names as the server spelt them. */
  readonly rawHeaders: readonly string[];
  readonly text: string;
  readonly code: string | undefined;
};

const byCode = (a: string, b: string) => (a < b ? -1 : 1);

/** Signs what is given with Shared Key, adds nothing else, and gathers the whole reply. */
export function exchange(server: TestServer, request: WireRequest): Promise<WireReply> {
  const url = new URL(server.origin);
  const signature = createHmac("sha256", Buffer.from(server.key, "base64"))
    .update(textToSign(server.account, request))
    .digest("base64");
  const options = {
    host: url.hostname,
    port: url.port,
    method: request.method,
    path: request.target,
    headers: { ...request.headers, authorization: `SharedKey ${server.account}:${signature}` },
  };
  return new Promise((resolve, reject) => {
    const outgoing = http.request(options, (reply) => {
      let text = "";
      reply.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      reply.on("error", reject);
      reply.on("end", () => {
        const { statusCode = 0, headers, rawHeaders } = reply;
        const header = headers["x-ms-error-code"];
        const code = typeof header === "string" ? header : /<Code>(\w+)</.exec(text)?.[1];
        resolve({ status: statusCode, headers, rawHeaders, text, code });
      });
    });
    outgoing.on("error", reject);
    outgoing.end(request.body);
  });
}

function textToSign(account: string, request: WireRequest): string {
  const headers = new Map(
    Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  const size = headers.get("content-length");
  if (size === "0") headers.delete("content-length");
  if (headers.has("x-ms-date")) headers.delete("date");
  const standard = [
    ...["content-encoding", "content-language", "content-length", "content-md5", "content-type"],
    ...["date", "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"],
  ].map((name) => headers.get(name) ?? "");
  const ours = [...headers]
    .filter(([name]) => name.startsWith("x-ms-"))
    .map(([name, value]) => `${name}:${value}`)
    .sort(byCode);
  const [path, query = ""] = request.target.split("?");
  const parameters = [...new URLSearchParams(query)]
    .map(([name, value]) => `${name.toLowerCase()}:${value}`)
    .sort(byCode);
  return [request.method, ...standard, ...ours, `/${account}${path}`, ...parameters].join("\n");
}
