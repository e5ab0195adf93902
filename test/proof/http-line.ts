import { createHmac } from "node:crypto";
import http from "node:http";
import { ACCOUNT, KEY, type TestServer } from "../acceptance/server.ts";
import { signed } from "../acceptance/wire.ts";
import type { Answer, Sent, ServiceName } from "./traffic.ts";

/** How a request fails to be answered. */
export class NoAnswer extends Error {
  /** Whether the server cannot have had the whole of it, so that nothing of it may have happened. */
  readonly isHarmless: boolean;

  constructor(message: string, isHarmless: boolean) {
    super(message);
    this.isHarmless = isHarmless;
  }
}

/** A client's fault: it goes away in the middle of its body, or before the answer. */
export type Leaves = "in the body" | "before the answer";

const ANSWER_LIMIT_MS = 20_000;

/** Sends one request over HTTP; `leaves` says when the client goes away, if it does. */
export function sendHttp(
  ports: Readonly<Record<string, number>>,
  agent: http.Agent,
  sent: Sent,
  leaves?: Leaves,
): Promise<Answer> {
  const port = ports[sent.service] ?? 0;
  const body = Buffer.from(sent.body ?? "", "latin1");
  const { target, headers } = signedFor(port, sent, body);
  return new Promise((resolve, reject) => {
    const fail = (isHarmless: boolean) => (error: Error) =>
      reject(new NoAnswer(error.message, isHarmless));
    const request = http.request(
      { host: "127.0.0.1", port, method: sent.method, path: target, headers, agent },
      (reply) => {
        const parts: Buffer[] = [];
        reply.on("data", (part: Buffer) => parts.push(part));
        reply.on("error", fail(false));
        reply.on("end", () => resolve(answerOf(reply, Buffer.concat(parts))));
      },
    );
    request.setTimeout(ANSWER_LIMIT_MS, () => request.destroy(new Error("no answer in time")));
    request.on("error", (error: NodeJS.ErrnoException) => {
      const neverCame = error.code === "ECONNREFUSED" || leaves === "in the body";
      fail(neverCame)(error);
    });
    if (leaves === "in the body") {
      request.write(body.subarray(0, body.length >> 1), () => request.destroy(new Error("left")));
    } else if (leaves === "before the answer") {
      request.end(body, () => request.destroy(new Error("left")));
    } else request.end(body);
  });
}

function answerOf(reply: http.IncomingMessage, bytes: Buffer): Answer {
  const text = bytes.toString("latin1");
  const header = reply.headers["x-ms-error-code"];
  const inBody = /<Code>(\w+)</.exec(text)?.[1] ?? /"code":"(\w+)"/.exec(text)?.[1];
  const status = reply.statusCode ?? 0;
  const code = typeof header === "string" ? header : status >= 300 ? inBody : undefined;
  const headers = reply.headers as Record<string, string | undefined>;
  return { status, code: status === 304 ? undefined : code, headers, text };
}

function signedFor(port: number, sent: Sent, body: Buffer) {
  const size = { "content-length": String(body.length) };
  const { source } = sent;
  const origin = `http://127.0.0.1:${port}`;
  const named = source && { [source.header]: `${origin}/${ACCOUNT}${source.path}` };
  const headers = { ...size, ...sent.headers, ...named };
  const query = Object.entries(sent.query ?? {});
  if (sent.service === "table") return signedForTables(sent, headers, query);
  const path = sent.path.split("/").map(encodeURIComponent).join("/");
  const server = { origin, account: ACCOUNT, key: KEY } as TestServer;
  return signed(server, { method: sent.method, path, query, headers });
}

/** Tables sign fewer headers ("Authorize with Shared Key", Table service). */
function signedForTables(
  { method, path }: Sent,
  given: Readonly<Record<string, string>>,
  query: readonly (readonly [string, string])[],
) {
  const whole = `/${ACCOUNT}${path}`;
  const date = new Date().toUTCString();
  const lines = [method, "", given["content-type"] ?? "", date, `/${ACCOUNT}${whole}`];
  const key = Buffer.from(KEY, "base64");
  const signature = createHmac("sha256", key).update(lines.join("\n")).digest("base64");
  const headers = {
    "x-ms-version": "2019-02-02",
    "x-ms-date": date,
    authorization: `SharedKey ${ACCOUNT}:${signature}`,
    ...given,
  };
  const parameters = query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  const target = parameters.length === 0 ? whole : `${whole}?${parameters.join("&")}`;
  return { target, headers };
}

export const serviceNames: readonly ServiceName[] = ["blob", "queue", "table", "file"];
