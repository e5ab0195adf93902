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
    const connection = new Connection(socket, shared, performance.now());
    connections.add(connection);
    socket.once("close", () => connections.delete(connection));
  };
  // A client may end its side and still wait for its answer.
  const options = { noDelay: true, allowHalfOpen: true };
  const bare: Server =
    tls === undefined
      ? createServer(options, accept)
      : createSecureServer({ ...options, ...SECURE, ...tls }, accept);
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
      for (const { socket } of connections) socket.destroy();
    },
  });
  return server;
}
