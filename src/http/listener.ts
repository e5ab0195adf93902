import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import {
  createServer as createSecureServer,
  type SecureContextOptions,
  type TlsOptions,
} from "node:tls";
import { type Clock, httpDate } from "../base/time.ts";
import { Connection, type Serve, type Shared } from "./connection.ts";

const CHECK_MS = 1_000;
const HANDSHAKE_LIMIT_MS = 20_000;
const SECURE: TlsOptions = { minVersion: "TLSv1.2", handshakeTimeout: HANDSHAKE_LIMIT_MS };

/** A server that speaks HTTP/1.1, with the limits that each of ours has; it is not listening yet. */
export type HttpServer = Server & {
  /** Ends the connections on which nothing is under way; with `close` before, also the others as they end. */
  closeIdleConnections(): void;
  closeAllConnections(): void;
};

export type HttpOptions = {
  readonly serve: Serve;
  /** The certificate, if it speaks TLS. */
  readonly tls: SecureContextOptions | undefined;
  readonly clock: Clock;
};

/** How often connections that became idle are ended at the end, and how long those are left that are not. */
const DRAIN_CHECK_MS = 100;
const DRAIN_LIMIT_MS = 10_000;

/** Takes no new connection, lets running requests finish for some seconds, then ends what is left. */
export async function drained(server: HttpServer): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  const sweep = setInterval(() => server.closeIdleConnections(), DRAIN_CHECK_MS);
  const limit = setTimeout(() => server.closeAllConnections(), DRAIN_LIMIT_MS);
  await closed;
  clearInterval(sweep);
  clearTimeout(limit);
}

/** Decision 11 says why this is not node:http. */
export function httpServer({ serve, tls, clock }: HttpOptions): HttpServer {
  const connections = new Set<Connection>();
  let dateText = "";
  let dateSecond = Number.NaN;
  const shared: Shared = {
    serve(exchange) {
      const { expect } = exchange.head.headers;
      if (expect !== undefined && expect.toLowerCase() !== "100-continue") {
        exchange.reply(417, ["Content-Length", "0"]);
      } else serve(exchange);
    },
    commonLines() {
      const now = clock.now();
      const second = Math.floor(now / 1000);
      if (second !== dateSecond) {
        dateSecond = second;
        dateText = `Date: ${httpDate(now)}\r\n`;
      }
      return dateText;
    },
    get isClosing() {
      return !server.listening;
    },
  };
  const accept = (socket: Socket) => {
    // Who ends its side may wait for an answer; not before there is a request, which comes after TLS's handshake.
    socket.allowHalfOpen = true;
    const connection = new Connection(socket, shared, performance.now());
    connections.add(connection);
    socket.once("close", () => connections.delete(connection));
  };
  const bare: Server =
    tls === undefined
      ? createServer({ noDelay: true }, accept)
      : createSecureServer({ noDelay: true, ...SECURE, ...tls }, accept);
  const sockets = new Set<Socket>(); // also those that are not through with their handshake
  bare.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  const timer = setInterval(() => {
    const now = performance.now();
    for (const connection of connections) connection.check(now);
  }, CHECK_MS).unref();
  bare.once("close", () => clearInterval(timer));
  const server: HttpServer = Object.assign(bare, {
    closeIdleConnections() {
      for (const connection of connections) if (connection.isIdle) connection.socket.destroy();
    },
    closeAllConnections() {
      for (const socket of sockets) socket.destroy();
    },
  });
  return server;
}
