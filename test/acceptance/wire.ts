import { createHmac } from "node:crypto";
import http from "node:http";
import net from "node:net";
import { VERSION } from "./raw.ts";
import type { TestServer } from "./server.ts";

/** A request whose bytes the caller sends by itself: a reply read slowly, or a body cut short. */
export type WireRequest = {
  readonly method: string;
  /** What stands behind the account, as it goes over the wire: encoded. */
  readonly path: string;
  /** Names and values, not encoded. */
  readonly query?: readonly (readonly [name: string, value: string])[];
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
};

export type Signed = {
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
};

// The lines of Shared Key's string-to-sign, between the method and the x-ms- headers.
const SIGNED_HEADERS = [
  "content-encoding",
  "content-language",
  "content-length",
  "content-md5",
  "content-type",
  "date",
  "if-modified-since",
  "if-match",
  "if-none-match",
  "if-unmodified-since",
  "range",
];

const byCode = (one: string, other: string) => (one < other ? -1 : Number(one > other));

/** The request's target and headers, signed with Shared Key. */
export function signed(server: TestServer, request: WireRequest): Signed {
  const query = request.query ?? [];
  const path = `/${server.account}${request.path}`;
  const headers: Record<string, string> = {
    host: new URL(server.origin).host,
    "x-ms-version": VERSION,
    "x-ms-date": new Date().toUTCString(),
    ...request.headers,
  };
  const line = (name: string) => {
    const value = headers[name] ?? "";
    if (name === "date" && "x-ms-date" in headers) return "";
    return name === "content-length" && value === "0" ? "" : value.trim();
  };
  const ours = Object.keys(headers)
    .filter((name) => name.startsWith("x-ms-"))
    .sort(byCode)
    .map((name) => `${name}:${headers[name]?.trim()}`);
  const parameters = query.map(([name, value]) => `${name.toLowerCase()}:${value}`).sort(byCode);
  const text = [
    request.method,
    ...SIGNED_HEADERS.map(line),
    ...ours,
    `/${server.account}${path}`,
    ...parameters,
  ].join("\n");
  const key = Buffer.from(server.key, "base64");
  const signature = createHmac("sha256", key).update(text).digest("base64");
  const pairs = query.map((pair) => pair.map(encodeURIComponent).join("="));
  return {
    target: pairs.length === 0 ? path : `${path}?${pairs.join("&")}`,
    headers: { ...headers, authorization: `SharedKey ${server.account}:${signature}` },
  };
}

/** The head of a signed request, up to and with its empty line. */
export function headOf(server: TestServer, request: WireRequest): string {
  const { target, headers } = signed(server, request);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${request.method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n`;
}

/** Sends a request without a body on a connection of its own; the reply's bytes are left to the caller. */
export function open(server: TestServer, request: WireRequest): Promise<http.IncomingMessage> {
  const { hostname, port } = new URL(server.origin);
  const { target, headers } = signed(server, request);
  return new Promise((resolve, reject) => {
    http
      .request({ hostname, port, method: request.method, path: target, headers, agent: false })
      .on("response", resolve)
      .on("error", reject)
      .end();
  });
}

/** A connection to the server, once it stands. */
export function connect(server: TestServer): Promise<net.Socket> {
  const { hostname, port } = new URL(server.origin);
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: hostname, port: Number(port) });
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      resolve(socket);
    });
  });
}
