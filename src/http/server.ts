import type { SecureContextOptions } from "node:tls";
import type { Account } from "../auth/accounts.ts";
import { authorize } from "../auth/authorize.ts";
import type { Caller } from "../auth/caller.ts";
import type { Log } from "../base/log.ts";
import type { Clock } from "../base/time.ts";
import { isDiskFull, isOutOfFiles } from "../engine/disk-full.ts";
import type { Engine } from "../engine/engine.ts";
import { corsReply, preflightHeaders } from "../rules/cors.ts";
import { missingHeader, StorageError } from "../rules/errors.ts";
import { services } from "../store/keys.ts";
import type { ServiceRecord } from "../store/records.ts";
import { ClientGone } from "./body.ts";
import type { Served } from "./exchange.ts";
import { type Router, router } from "./match.ts";
import type {
  InnerRequest,
  Operation,
  Reply,
  Request,
  ServiceDefinition,
  Surroundings,
} from "./operation.ts";
import {
  type Address,
  clientIdOf,
  type Message,
  parseAddress,
  parseRequest,
  statedVersion,
  type Unauthorized,
} from "./parse.ts";
import { type Envelope, sendError, sendReply } from "./reply.ts";
import { permit, run } from "./run.ts";

export type ListenerOptions = {
  readonly service: ServiceDefinition;
  readonly engine: Engine;
  readonly around: Surroundings;
  /** The certificate, if the service speaks TLS. */
  readonly tls: SecureContextOptions | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** How many requests it works on at a time, where it is not `REQUESTS_MAX`. */
  readonly requestsMax?: number;
};

/**
 * Requests that one port works on at a time. What comes on top is answered with 503 at once, so that those
 * under way end, and memory stays bounded, however many come: each holds some 64 KiB, or two buffers of 1 MiB.
 */
const REQUESTS_MAX = 4_096;
const FULL_TELL_MS = 10_000;

/** One service: parse, match, authorize, run, reply. Gives what serves its requests. */
export function httpService(options: ListenerOptions): (exchange: Served) => void {
  const door = new Door(options);
  options.around.doors.set(options.service.name, door);
  return (exchange) => void door.serve(exchange);
}

class Door {
  readonly #options: ListenerOptions;
  readonly #route: Router;
  readonly #serverName: string;
  readonly #requestsMax: number;
  #open = 0;
  #fullToldAt = 0;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#route = router(options.service.operations);
    this.#requestsMax = options.requestsMax ?? REQUESTS_MAX;
    const { name: service } = options.service;
    const name = service.charAt(0).toUpperCase() + service.slice(1);
    this.#serverName = `Windows-Azure-${name}/1.0 Microsoft-HTTPAPI/2.0 Lazuli`;
  }

  async serve(exchange: Served): Promise<void> {
    const { head } = exchange;
    const begin = performance.now();
    const envelope: { -readonly [K in keyof Envelope]: Envelope[K] } = {
      requestId: this.#options.around.ids.guid(),
      clientId: clientIdOf(head),
      version: undefined,
      server: this.#serverName,
      cors: undefined,
    };
    let operation: Operation | undefined;
    this.#open++;
    try {
      if (head.url === "/healthz") {
        exchange.reply(200, ["Content-Type", "text/plain", "Content-Length", "3"], "OK\n");
        return;
      }
      if (this.#open > this.#requestsMax) throw new StorageError("ServerBusy");
      operation = await this.#answer(exchange, envelope);
    } catch (error) {
      this.#fail(exchange, envelope, error);
    } finally {
      this.#open--;
      if (this.#options.log.requests) this.#tell(exchange, envelope, begin, operation);
    }
  }

  async #answer(
    exchange: Served,
    envelope: { -readonly [K in keyof Envelope]: Envelope[K] },
  ): Promise<Operation | undefined> {
    const { engine, around } = this.#options;
    const { head, body, client, signer } = exchange;
    const secure = this.#options.tls !== undefined;
    const address = this.#address(head, secure);
    const account = this.#account(address);
    const stated = statedVersion(head, address);
    const settings = needsSettings(head, stated) ? await this.#settings(account) : undefined;
    const { cors = [] } = settings ?? {};
    if (head.method === "OPTIONS") {
      await sendReply(exchange, envelope, preflight(head, cors));
      return undefined;
    }
    envelope.cors = corsReply(cors, head.headers.origin, head.method);
    const version = stated ?? settings?.defaultServiceVersion;
    const inner = { message: head, secure, body, client, version };
    const taken = this.#take(inner, address, account, envelope, signer);
    const { operation, request } = taken instanceof Promise ? await taken : taken;
    if (exchange.isAwaited) {
      permit(operation, request);
      exchange.proceed();
    }
    const reply = await run(operation, request, engine, around);
    const sending = sendReply(exchange, envelope, overridden(reply, operation, request));
    if (sending !== undefined) await sending;
    return operation;
  }

  /** Answers a request that has no connection of its own: a part of a batch, or the source of a copy. */
  async answer(inner: InnerRequest): Promise<Reply> {
    const { engine, around } = this.#options;
    const address = this.#address(inner.message, inner.secure);
    const account = this.#account(address);
    const version =
      statedVersion(inner.message, address) ??
      inner.version ??
      (await this.#settings(account))?.defaultServiceVersion;
    const ids = { requestId: around.ids.guid() };
    const { operation, request } = await this.#take({ ...inner, version }, address, account, ids);
    if (inner.only !== undefined && !inner.only.includes(operation.name)) {
      throw new StorageError("UnsupportedHttpVerb");
    }
    return run(operation, request, engine, around);
  }

  /** A host like azurite.web.svc has the form of an account's; if it is none of ours, the path names the account. */
  #address(message: Message, secure: boolean): Address {
    const address = parseAddress(message, secure);
    const accounts = this.#options.around.authority.accounts();
    if (!address.hostStyle || accounts.has(address.account)) return address;
    const byPath = parseAddress(message, secure, "path");
    return accounts.has(byPath.account) ? byPath : address;
  }

  #account({ account }: Address): Account {
    const found = this.#options.around.authority.accounts().get(account);
    if (found === undefined) throw new StorageError("ResourceNotFound");
    return found;
  }

  /** The settings of the service: what a request without a version is taken as, and CORS. */
  #settings({ name }: Account): Promise<ServiceRecord | undefined> {
    const { engine, service } = this.#options;
    return engine.read((tx) => services.get(tx, name, service.name));
  }

  /** Parses, finds out who asks, and matches; it waits only for what a token needs. */
  #take(
    { message, secure, body, client, caller, version }: InnerRequest,
    address: Address,
    account: Account,
    envelope: { requestId: string; clientId?: string | undefined; version?: string | undefined },
    signer?: Account,
  ): Taken | Promise<Taken> {
    const { service, clock, around } = this.#options;
    const ids = { id: envelope.requestId, clientId: envelope.clientId };
    const parsed = parseRequest(message, service, address, ids, version, body);
    envelope.version = parsed.version;
    const take = (who: Caller): Taken => {
      const request = sentBy(parsed, who, client);
      const operation = this.#route(request);
      if (address.secondary && operation.kind !== "read") {
        throw new StorageError("InsufficientAccountPermissions");
      }
      service.refuse?.(operation, request);
      return { operation, request };
    };
    if (caller !== undefined) return take(caller);
    const presented = {
      account: account.name,
      rawPath: address.rawPath,
      parameters: address.parameters,
      rawHeaders: message.rawHeaders,
      method: message.method,
      version: parsed.version,
      header: parsed.header,
      service: parsed.service,
      names: parsed.names,
      query: parsed.query,
      hasVersion: version !== undefined,
      isSigned: signer === account,
      secure,
      client,
    };
    const who = authorize(presented, account, around.authority, clock.now());
    return who instanceof Promise ? who.then(take) : take(who);
  }

  #fail(exchange: Served, envelope: Envelope, error: unknown): void {
    const { log, clock, service } = this.#options;
    const isFull = isDiskFull(error);
    if (isFull) this.#tellFull();
    else if (!(error instanceof StorageError || error instanceof ClientGone)) {
      const fault = error instanceof Error ? error : new Error(String(error));
      log.error("a request failed", { requestId: envelope.requestId, error: fault.stack });
    }
    if (error instanceof ClientGone || exchange.isGone || exchange.isBegun) {
      exchange.destroy();
      return;
    }
    const answer =
      error instanceof StorageError
        ? error
        : new StorageError(
            isFull ? "DiskIsFull" : isOutOfFiles(error) ? "ServerBusy" : "InternalError",
          );
    const write = service.errorBody?.(exchange.head.url);
    sendError(exchange, envelope, answer, new Date(clock.now()), write);
  }

  /** Says so now and then: every write fails for the same reason. */
  #tellFull(): void {
    const { log, clock } = this.#options;
    const now = clock.now();
    if (now - this.#fullToldAt < FULL_TELL_MS) return;
    this.#fullToldAt = now;
    log.error("the disk is full: requests that write are refused until there is room", {});
  }

  #tell(
    exchange: Served,
    envelope: Envelope,
    begin: number,
    operation: Operation | undefined,
  ): void {
    const { method, url } = exchange.head;
    const end = url.indexOf("?"); // the query may hold a signature
    this.#options.log.info("request", {
      requestId: envelope.requestId,
      clientRequestId: envelope.clientId,
      client: exchange.client,
      method,
      path: end === -1 ? url : url.slice(0, end),
      operation: operation?.name,
      status: exchange.status,
      ms: Math.round((performance.now() - begin) * 100) / 100,
    });
  }
}

type Taken = { readonly operation: Operation; readonly request: Request };

// Differs from Azure: a reply to a request with an Authorization header and no Origin carries no Vary,
// whatever the CORS rules are; no shared cache keeps such a reply (RFC 9111, 3.5).
/**
 * Whether the settings of the service matter: for browsers and for what caches may keep, and to requests
 * without a version. Others are spared the look-up.
 */
const needsSettings = ({ headers }: Message, stated: string | undefined): boolean =>
  stated === undefined || headers.origin !== undefined || headers.authorization === undefined;

/** The request with its sender; a signature that names an encryption scope speaks for a header. */
function sentBy(request: Unauthorized, caller: Caller, client: string | undefined): Request {
  const scope = caller.kind === "sas" ? caller.sas.encryptionScope : undefined;
  if (scope === undefined) {
    const known = request as unknown as { -readonly [K in keyof Request]: Request[K] };
    known.caller = caller;
    known.client = client;
    return known;
  }
  const header = (name: string) =>
    name === "x-ms-encryption-scope" ? scope : request.header(name);
  return { ...request, caller, client, header };
}

/** The reply with the headers that a signed URL replaces, where it is an object that is read. */
function overridden(reply: Reply, { allow, kind }: Operation, { caller, query }: Request): Reply {
  if (caller.kind !== "sas" || caller.sas.overrides === undefined) return reply;
  if (kind !== "read" || allow.resource !== "o" || query.has("comp")) return reply;
  return { ...reply, headers: { ...reply.headers, ...caller.sas.overrides } };
}

function preflight({ headers: sent }: Message, rules: NonNullable<ServiceRecord["cors"]>): Reply {
  const required = (name: string) => {
    const value = sent[name];
    if (value === undefined || value === "") throw missingHeader(name);
    return value;
  };
  const origin = required("origin");
  const method = required("access-control-request-method");
  const wanted = sent["access-control-request-headers"];
  const headers = preflightHeaders(rules, { origin, method, headers: wanted });
  if (headers === undefined) throw new StorageError("CorsPreflightFailure");
  return { status: 200, headers };
}
