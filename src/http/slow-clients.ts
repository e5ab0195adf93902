import type { Server } from "node:http";
import { Server as SecureServer } from "node:https";
import type { Socket } from "node:net";
import { XML_DECLARATION } from "../base/xml.ts";
import { type ErrorCode, errors } from "../rules/errors.ts";

const CHECK_MS = 30_000;
const LEAST_BYTES = 1024;

/**
 * Ends connections that keep a request open and hardly move: fewer than 1 KiB in half a minute, while the
 * client still owes us its body or does not take what we send. Silent ones fall to the socket's time limit.
 */
export function watchSlowClients(server: Server): void {
  const moved = new Map<Socket, number>();
  // Under TLS a request names the socket inside, not the one that was accepted.
  const event = server instanceof SecureServer ? "secureConnection" : "connection";
  server.on(event, (socket: Socket) => {
    moved.set(socket, 0);
    socket.once("close", () => moved.delete(socket));
  });
  const owing = new Set<Socket>();
  server.on("request", (incoming, outgoing) => {
    const { socket } = incoming;
    owing.add(socket);
    outgoing.once("close", () => owing.delete(socket));
  });
  const timer = setInterval(() => {
    for (const [socket, before] of moved) {
      const now = socket.bytesRead + socket.bytesWritten - socket.writableLength;
      if (owing.has(socket) && before > 0 && now - before < LEAST_BYTES && isWaiting(socket)) {
        socket.destroy();
      }
      moved.set(socket, owing.has(socket) ? now : 0);
    }
  }, CHECK_MS).unref();
  server.once("close", () => clearInterval(timer));
}

/** Whether it is the client that keeps us waiting, not we the client. */
const isWaiting = (socket: Socket): boolean => socket.writableLength > 0 || !socket.isPaused();

/** Answers what Node cannot even parse, with the error that fits, and closes the connection. */
export function refuseBrokenRequests(server: Server): void {
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (!socket.writable || error.code === "ECONNRESET") {
      socket.destroy();
      return;
    }
    const code = codeOf(error.code);
    const [status, message] = errors[code];
    const body = `${XML_DECLARATION}<Error><Code>${code}</Code><Message>${message}</Message></Error>`;
    socket.end(
      `HTTP/1.1 ${status} ${message}\r\nx-ms-error-code: ${code}\r\nContent-Type: application/xml\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
    );
  });
}

function codeOf(code: string | undefined): ErrorCode {
  if (code === "HPE_HEADER_OVERFLOW") return "RequestHeaderFieldsTooLarge";
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return "RequestTimeout";
  return "InvalidInput";
}
