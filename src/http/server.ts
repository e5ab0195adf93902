import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Accounts } from "../auth/accounts.ts";
import { authorize } from "../auth/authorize.ts";
import type { Log } from "../base/log.ts";
import type { Clock } from "../base/time.ts";
import type { Engine } from "../engine/engine.ts";
import { StorageError } from "../rules/errors.ts";
import { services } from "../store/keys.ts";
import { ClientGone, receiveBody } from "./body.ts";
import { type Router, router } from "./match.ts";
import type {
  InnerRequest,
  Operation,
  Reply,
  Request,
  ServiceDefinition,
  Surroundings,
} from "./operation.ts";
import { clientIdOf, type Message, parseAddress, parseRequest } from "./parse.ts";
import { type Envelope, sendError, sendReply } from "./reply.ts";
import { run } from "./run.ts";
import { refuseBrokenRequests, watchSlowClients } from "./slow-clients.ts";

export type ListenerOptions = {
  readonly service: ServiceDefinition;
  readonly engine: Engine;
  readonly around: Surroundings;
  readonly accounts: Accounts;
  readonly clock: Clock;
  readonly log: Log;
};

const HEADER_SIZE_MAX = 64 * 1024;
const HEADERS_LIMIT_MS = 20_000;
const IDLE_LIMIT_MS = 120_000;
const KEEP_ALIVE_MS = 75_000;

/** One service on one port: parse, match, authorize, run, reply. It is not listening yet. */
export function httpService(options: ListenerOptions): Server {
  const door = new Door(options);
  options.around.doors.set(options.service.name, door);
  return limitedServer((incoming, outgoing) => void door.serve(incoming, outgoing));
}

/** A server with the limits that each of ours has; it is not listening yet. */
export function limitedServer(
  serve: (incoming: IncomingMessage, outgoing: ServerResponse) => void,
): Server {
  const server = createServer(
    {
      maxHeaderSize: HEADER_SIZE_MAX,
      headersTimeout: HEADERS_LIMIT_MS,
      requestTimeout: 0, // bodies may be large; watchSlowClients ends those that do not come on
      keepAliveTimeout: KEEP_ALIVE_MS,
      noDelay: true,
    },
    serve,
  );
  server.maxHeadersCount = 0; // counted in parse.ts, where one too many is an error and not dropped
  server.setTimeout(IDLE_LIMIT_MS);
  server.on("checkContinue", serve);
  refuseBrokenRequests(server);
  watchSlowClients(server);
  return server;
}

class Door {
  readonly #options: ListenerOptions;
  readonly #route: Router;
  readonly #serverName: string;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#route = router(options.service.operations);
    const { name: service } = options.service;
    const name = service.charAt(0).toUpperCase() + service.slice(1);
    this.#serverName = `Windows-Azure-${name}/1.0 Microsoft-HTTPAPI/2.0 Lazuli`;
  }

  async serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const begin = performance.now();
    const envelope: { -readonly [K in keyof Envelope]: Envelope[K] } = {
      requestId: this.#options.around.ids.guid(),
      clientId: clientIdOf(incoming),
      version: undefined,
      server: this.#serverName,
    };
    let operation: Operation | undefined;
    outgoing.on("error", () => {}); // the client is gone; "close" says so too
    try {
      if (incoming.url === "/healthz") {
        outgoing.writeHead(200, { "Content-Type": "text/plain" }).end("OK\n");
        return;
      }
      operation = await this.#answer(incoming, outgoing, envelope);
    } catch (error) {
      this.#fail(incoming, outgoing, envelope, error);
    } finally {
      if (this.#options.log.requests) this.#tell(incoming, outgoing, envelope, begin, operation);
    }
  }

  async #answer(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    envelope: { -readonly [K in keyof Envelope]: Envelope[K] },
  ): Promise<Operation> {
    const secure = "encrypted" in (incoming.socket as Socket & { encrypted?: boolean });
    const taken = await this.#take(
      { message: incoming, secure, body: receiveBody(incoming) },
      envelope,
    );
    if (incoming.headers.expect !== undefined) outgoing.writeContinue();
    const { engine, around } = this.#options;
    const reply = await run(taken.operation, taken.request, engine, around);
    await sendReply(outgoing, envelope, reply);
    return taken.operation;
  }

  /** Answers a request that has no connection of its own: a part of a batch, or the source of a copy. */
  async answer(inner: InnerRequest): Promise<Reply> {
    const { engine, around } = this.#options;
    const { operation, request } = await this.#take(inner, { requestId: around.ids.guid() });
    if (inner.only !== undefined && !inner.only.includes(operation.name)) {
      throw new StorageError("UnsupportedHttpVerb");
    }
    return run(operation, request, engine, around);
  }

  /** Parses, authorizes and matches. */
  async #take(
    { message, secure, body, isTrusted = false, version: given }: InnerRequest,
    envelope: { requestId: string; clientId?: string | undefined; version?: string | undefined },
  ): Promise<{ operation: Operation; request: Request }> {
    const { service, accounts, clock, engine } = this.#options;
    const address = parseAddress(message, secure);
    const account = accounts.get(address.account);
    if (account === undefined) throw new StorageError("ResourceNotFound");
    const version =
      header(message, "x-ms-version") ??
      given ??
      (await this.#defaultVersion(engine, account.name));
    const ids = { id: envelope.requestId, clientId: envelope.clientId };
    const request = parseRequest(message, service, address, ids, version, body);
    envelope.version = request.version;
    const signed = {
      ...address,
      method: request.method,
      version: request.version,
      header: request.header,
      rawHeaders: message.rawHeaders,
    };
    if (!isTrusted) authorize(signed, account, clock.now());
    const operation = this.#route(request);
    if (address.secondary && operation.kind !== "read") {
      throw new StorageError("InsufficientAccountPermissions");
    }
    service.refuse?.(operation, request);
    return { operation, request };
  }

  /** What a request without a version is taken as: the account's choice, else the newest. */
  async #defaultVersion(engine: Engine, account: string): Promise<string | undefined> {
    const { service } = this.#options;
    const record = await engine.read((tx) => services.get(tx, account, service.name));
    return record?.defaultServiceVersion;
  }

  #fail(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    envelope: Envelope,
    error: unknown,
  ): void {
    const { log, clock } = this.#options;
    if (!(error instanceof StorageError || error instanceof ClientGone)) {
      const fault = error instanceof Error ? error : new Error(String(error));
      log.error("a request failed", { requestId: envelope.requestId, error: fault.stack });
    }
    if (error instanceof ClientGone || outgoing.destroyed) {
      outgoing.destroy();
      return;
    }
    if (outgoing.headersSent) {
      outgoing.destroy();
      return;
    }
    const answer = error instanceof StorageError ? error : new StorageError("InternalError");
    // What is still on its way is read and dropped, so that the client gets to see the answer; a client that
    // waits to be told to send its body is not told, and the connection ends.
    if (incoming.headers.expect === undefined) incoming.resume();
    else if (!incoming.complete) outgoing.shouldKeepAlive = false;
    sendError(incoming, outgoing, envelope, answer, new Date(clock.now()));
  }

  #tell(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    envelope: Envelope,
    begin: number,
    operation: Operation | undefined,
  ): void {
    const url = incoming.url ?? "";
    const end = url.indexOf("?"); // the query may hold a signature
    this.#options.log.info("request", {
      requestId: envelope.requestId,
      clientRequestId: envelope.clientId,
      client: incoming.socket.remoteAddress,
      method: incoming.method,
      path: end === -1 ? url : url.slice(0, end),
      operation: operation?.name,
      status: outgoing.statusCode,
      ms: Math.round((performance.now() - begin) * 100) / 100,
    });
  }
}

function header(incoming: Message, name: string): string | undefined {
  const value = incoming.headers[name];
  return typeof value === "string" ? value : undefined;
}
