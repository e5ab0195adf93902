import { createHash, hash, type KeyObject } from "node:crypto";
import type { AddressInfo } from "node:net";
import { Server as SecureServer } from "node:tls";
import { parentPort } from "node:worker_threads";
import type { Service } from "../auth/caller.ts";
import { signerOf } from "../auth/signer.ts";
import { Crc64, crc64 } from "../base/crc64.ts";
import { systemClock } from "../base/time.ts";
import { type Exchange, packed } from "./exchange.ts";
import { drained, type HttpServer, httpServer } from "./listener.ts";
import {
  type Asked,
  type FromFront,
  type FrontSums,
  foreseenSums,
  Outbox,
  owned,
  type ToFront,
  WINDOW,
} from "./messages.ts";
import { parseAddress, statedVersion } from "./parse.ts";

/**
 * A thread of HTTP, the other half of fronts.ts: it reads requests and writes replies, verifies what an account's
 * key has signed, and makes the sums of bodies; all else is the main thread's.
 */

/** Bodies up to this size go along with their heads. */
const SMALL_BODY_MAX = 64 * 1024;

/** An exchange that the main thread knows. */
type Known = {
  readonly exchange: Exchange;
  readonly service: Service;
  /** How much of the body is on its way to the main thread. */
  ahead: number;
  /** Called when there is less of it. */
  goOn: (() => void) | undefined;
};

const main = parentPort;
if (main === null) throw new Error("this file is a thread of its own");
const out = new Outbox<FromFront>((list, transfer) => main.postMessage(list, transfer));
const known = new Map<number, Known>();
const servers = new Map<number, HttpServer>();
let keys: ReadonlyMap<string, readonly KeyObject[]> = new Map();
let generation = 0;
let lastId = 0;

function ask(port: number, service: Service, secure: boolean, exchange: Exchange): void {
  const { body } = exchange;
  const isSmall = body.size !== undefined && body.size <= SMALL_BODY_MAX && !exchange.isAwaited;
  if (!isSmall) tell(port, service, secure, exchange, undefined);
  else if (body.isOver) tell(port, service, secure, exchange, body.taken());
  else {
    body.whole().then(
      (bytes) => tell(port, service, secure, exchange, bytes),
      () => {}, // the client is gone, and nobody has heard of it
    );
  }
}

function tell(
  port: number,
  service: Service,
  secure: boolean,
  exchange: Exchange,
  bytes: Buffer | undefined,
): void {
  const id = ++lastId;
  const { head, client, isAwaited } = exchange;
  known.set(id, { exchange, service, ahead: 0, goOn: undefined });
  exchange.onGone = () => {
    if (known.delete(id)) out.add({ kind: "gone", id });
  };
  const { size } = exchange.body;
  const sums = bytes === undefined ? undefined : sumsOf(service, exchange, bytes);
  const signer = signerIn(service, secure, exchange);
  const asked: Omit<Asked, "body"> = {
    kind: "asked",
    id,
    port,
    head: head.text,
    client,
    size,
    isAwaited,
    sums,
    signer,
    generation,
  };
  const sent = bytes === undefined ? undefined : packed(bytes);
  if (sent === undefined || typeof sent === "string") out.add({ ...asked, body: sent });
  else {
    const body = owned(sent);
    out.addWith({ ...asked, body }, body);
  }
}

/** Who has signed the request, as far as it can be told here; the main thread judges all others. */
function signerIn(service: Service, secure: boolean, { head }: Exchange): string | undefined {
  try {
    const address = parseAddress(head, secure);
    const version = statedVersion(head, address);
    if (version === undefined) return undefined;
    const { account, rawPath, parameters } = address;
    const { method, rawHeaders, headers } = head;
    const header = (name: string) => headers[name];
    const request = { service, method, account, rawPath, parameters, rawHeaders, version, header };
    return signerOf(request, keys);
  } catch {
    return undefined; // it is refused, and the main thread says how
  }
}

function sumsOf(service: Service, exchange: Exchange, bytes: Buffer): FrontSums | undefined {
  const wanted = foreseenSums(service, exchange.head);
  if (!wanted.crc64) return undefined;
  return { md5: wanted.md5 ? hash("md5", bytes, "base64") : undefined, crc64: crc64(bytes) };
}

/** Sends a body on, as fast as the main thread uses it. */
async function pump(id: number, each: Known): Promise<void> {
  const { exchange, service } = each;
  const wanted = foreseenSums(service, exchange.head);
  const md5 = wanted.md5 ? createHash("md5") : undefined;
  const crc = wanted.crc64 ? new Crc64() : undefined;
  try {
    for await (const part of exchange.body.stream()) {
      if (!known.has(id)) return;
      md5?.update(part);
      crc?.update(part);
      const isOwn = part.byteLength === part.buffer.byteLength;
      const bytes = isOwn ? part : owned(part);
      each.ahead += bytes.length;
      out.addWith({ kind: "data", id, bytes }, bytes);
      while (each.ahead > WINDOW && known.has(id)) {
        await new Promise<void>((resolve) => {
          each.goOn = resolve;
        });
      }
    }
  } catch {
    return; // the client is gone, which was told
  }
  out.add({ kind: "over", id, sums: { md5: md5?.digest("base64"), crc64: crc?.digest() } });
}

/** Sends a piece of a reply, and tells when the client has taken it. */
function send(id: number, { exchange }: Known, bytes: Uint8Array): void {
  const { length: size } = bytes;
  void exchange.write(bytes, () => out.addWith({ kind: "taken", id, size, room: bytes }, bytes));
}

function open(message: Extract<ToFront, { kind: "open" }>): void {
  const { port, service, tls, listen } = message;
  const serve = (exchange: Exchange) => ask(port, service, tls !== undefined, exchange);
  const server = httpServer({ serve, tls, clock: systemClock });
  servers.set(port, server);
  server.once("error", (error: NodeJS.ErrnoException) => {
    out.add({ kind: "failed", port, code: error.code ?? "", why: error.message });
  });
  server.listen(listen, () => {
    out.add({ kind: "opened", port, address: server.address() as AddressInfo });
  });
}

/** What a message asks for that is about an exchange. */
function answer(message: Exclude<ToFront, { port: number } | { kind: "accounts" }>): void {
  const { id, kind } = message;
  const each = known.get(id);
  if (each === undefined) return; // the client is gone, which was told
  const { exchange } = each;
  if (kind === "reply") {
    forget(id, each);
    exchange.send(message.status, message.head, message.body);
  } else if (kind === "begin") exchange.begin(message.status, message.list);
  else if (kind === "part") send(id, each, message.bytes);
  else if (kind === "end") {
    forget(id, each);
    exchange.end();
  } else if (kind === "destroy") {
    forget(id, each);
    exchange.destroy();
  } else if (kind === "proceed") exchange.proceed();
  else if (kind === "want") void pump(id, each);
  else if (kind === "used") {
    each.ahead -= message.size;
    each.goOn?.();
  }
}

function forget(id: number, each: Known): void {
  known.delete(id);
  each.exchange.onGone = undefined;
  each.goOn?.();
}

main.on("message", (list: readonly ToFront[]) => {
  for (const message of list) {
    if (message.kind === "accounts") ({ generation, keys } = message);
    else if (message.kind === "open") open(message);
    else if (message.kind === "drain") {
      const { port } = message;
      const server = servers.get(port);
      if (server !== undefined) void drained(server).then(() => out.add({ kind: "drained", port }));
    } else if (message.kind === "certificate") {
      const server = servers.get(message.port);
      if (server instanceof SecureServer) server.setSecureContext(message.tls);
    } else answer(message);
  }
});
