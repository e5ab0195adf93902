import type { Socket } from "node:net";
import { XML_DECLARATION } from "../base/xml.ts";
import { type ErrorCode, errors } from "../rules/errors.ts";
import { Exchange, KEEP_ALIVE_MS, type Line } from "./exchange.ts";
import { BrokenRequest, bodySizeOf, isHost, keepsAlive, parseHead } from "./wire.ts";

export const HEAD_SIZE_MAX = 64 * 1024;
/** A request's head must be there so long after its first byte, or after the connection was made. */
const HEAD_LIMIT_MS = 20_000;
/**
 * During a request so many bytes must move in this time, while it is the client that keeps us waiting. It waits
 * for us as long as it likes: a blob from a slow URL may take an hour.
 */
const SLOW_WINDOW_MS = 30_000;
const SLOW_BYTES = 1024;

const HEAD_END = Buffer.from("\r\n\r\n");
/** How a head ends whose lines end in LF alone; we take none, and whoever sent it waits for an answer. */
const BARE_END = Buffer.from("\n\n");
const CR = 0x0d;
const LF = 0x0a;
const nothing = Buffer.alloc(0);

export type Serve = (exchange: Exchange) => void;

/** What the connections of a server share. */
export type Shared = {
  readonly serve: Serve;
  commonLines(): string;
  readonly isClosing: boolean;
};

/**
 * One client's connection (RFC 9112): requests one after another, each served when the one before it is
 * answered. Bytes are read only as far as somebody wants them, so a client fills no memory.
 */
export class Connection implements Line {
  readonly socket: Socket;
  readonly #shared: Shared;
  #exchange: Exchange | undefined;
  /** What has come and is not used yet: the begin of a head, or requests that were sent ahead. */
  #rest: Buffer = nothing;
  /** Whether bytes are being worked on: an exchange that ends at once does not begin the next one itself. */
  #isFeeding = false;
  /** Whether the client has ended its side, and we ours. */
  #isEnded = false;
  #isEnding = false;
  /** Whether it has been served before, and whether the next head has begun. */
  #isKnown = false;
  #hasBegun = false;
  /** When it was made, when its last request was answered, when the next head began, when it was ended. */
  #since: number;
  /** When the bytes of this exchange were last counted; 0 if not yet. */
  #windowAt = 0;
  #windowMoved = 0;

  constructor(socket: Socket, shared: Shared, now: number) {
    this.socket = socket;
    this.#shared = shared;
    this.#since = now;
    socket.on("data", (bytes: Buffer) => this.#feed(bytes));
    socket.on("error", () => {}); // "close" follows
    socket.on("end", () => this.#ended());
    socket.on("close", () => this.#lost());
    socket.on("drain", () => this.#goOn());
  }

  commonLines(): string {
    return this.#shared.commonLines();
  }

  get isClosing(): boolean {
    return this.#shared.isClosing;
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    if (this.socket.isPaused()) this.socket.resume();
  }

  get isIdle(): boolean {
    return this.#exchange === undefined && this.#rest.length === 0;
  }

  /** Nobody wants the rest of the body, or it is there: the next request begins behind it. */
  answered(): void {
    const exchange = this.#exchange;
    if (exchange === undefined) return;
    if (!exchange.staysOpen) {
      // What the client still sends is read, so that the system does not take the reply back from it.
      this.#end();
    } else if (exchange.body.isOver) this.#goOn();
  }

  #end(): void {
    this.#isEnding = true;
    this.#since = performance.now();
    this.socket.end();
    this.resume();
  }

  /** Works on what has come, as far as the exchange under way lets it. */
  #feed(bytes: Buffer): void {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#goOn();
  }

  #goOn(): void {
    if (this.#isFeeding || this.socket.destroyed) return; // `#lost` has told all who wait for one that is gone
    this.#isFeeding = true;
    try {
      while (this.#step());
      if (this.#isEnded && this.#exchange === undefined) this.socket.end(); // all it asked for is answered
    } catch (error) {
      if (!(error instanceof BrokenRequest)) throw error;
      this.#refuse(error.code);
    } finally {
      this.#isFeeding = false;
    }
  }

  /** One step on; false if there is nothing to do until something happens. */
  #step(): boolean {
    const exchange = this.#exchange;
    if (exchange === undefined) return this.#rest.length > 0 && this.#begin();
    if (!exchange.body.isOver) {
      if (this.#rest.length === 0) return false;
      const bytes = this.#rest;
      this.#rest = nothing; // before the body tells its reader, who may answer at once
      this.#rest = exchange.body.take(bytes);
      return true;
    }
    if (this.#isEnding) {
      this.#rest = nothing;
      return false;
    }
    if (!exchange.isAnswered) {
      if (this.#rest.length > 0) this.pause(); // a request sent ahead waits for its turn
      return false;
    }
    if (this.socket.writableNeedDrain) {
      this.pause(); // a client that takes no replies sends no more requests
      return false;
    }
    this.#exchange = undefined;
    this.#since = performance.now();
    this.resume();
    return true;
  }

  /** Begins the next exchange if the whole head is there. */
  #begin(): boolean {
    let from = 0;
    while (this.#rest[from] === CR || this.#rest[from] === LF) from++; // some clients send a line too many
    const end = this.#rest.indexOf(HEAD_END, from);
    if (end === -1) {
      if (this.#rest.length > HEAD_SIZE_MAX) throw new BrokenRequest("RequestHeaderFieldsTooLarge");
      if (this.#rest.includes(BARE_END, from)) throw new BrokenRequest();
      if (!this.#hasBegun) this.#since = performance.now();
      this.#hasBegun = true;
      return false;
    }
    this.#hasBegun = false;
    this.#isKnown = true;
    if (end - from > HEAD_SIZE_MAX) throw new BrokenRequest("RequestHeaderFieldsTooLarge");
    const head = parseHead(this.#rest.toString("latin1", from, end));
    const { host } = head.headers;
    if (host === undefined ? head.minor === 1 : !isHost(host)) throw new BrokenRequest(); // RFC 9112, 3.2
    const size = bodySizeOf(head);
    this.#rest = this.#rest.subarray(end + HEAD_END.length);
    const exchange = new Exchange(this, head, size, keepsAlive(head));
    this.#exchange = exchange;
    this.#windowAt = 0;
    if (!exchange.body.isOver && this.#rest.length > 0) {
      const bytes = this.#rest;
      this.#rest = nothing;
      this.#rest = exchange.body.take(bytes);
    }
    if (this.#rest.length > 0) this.#rest = Buffer.from(this.#rest); // let the large buffer go
    if (this.#isEnded && !exchange.body.isOver) {
      this.#end(); // the rest of its body will not come
      return false;
    }
    this.#shared.serve(exchange);
    return true;
  }

  #lost(): void {
    const exchange = this.#exchange;
    exchange?.body.lose();
    if (exchange?.isAnswered === false) exchange.onGone?.();
  }

  /** The client sends no more; what it has asked for is still answered. */
  #ended(): void {
    this.#isEnded = true;
    if (this.#exchange === undefined) this.socket.end();
    else if (!this.#exchange.body.isOver) {
      if (this.#exchange.isAnswered) this.#end();
      else this.socket.destroy();
    }
  }

  #refuse(code: ErrorCode): void {
    const { socket } = this;
    // In the middle of a reply there is no way to say more.
    if (!socket.writable || this.#exchange?.isBegun) {
      socket.destroy();
      return;
    }
    this.#exchange?.body.lose();
    const [status, message] = errors[code];
    const body = `${XML_DECLARATION}<Error><Code>${code}</Code><Message>${message}</Message></Error>`;
    this.#isEnding = true;
    this.#since = performance.now();
    socket.end(
      `HTTP/1.1 ${status} ${message}\r\nx-ms-error-code: ${code}\r\nContent-Type: application/xml\r\nContent-Length: ${body.length}\r\n${this.commonLines()}Connection: close\r\n\r\n${body}`,
    );
    socket.removeAllListeners("data");
    socket.resume();
  }

  /** Ends the connection if it is time; called every second or so. */
  check(now: number): void {
    if (this.#isEnding) {
      if (now - this.#since > HEAD_LIMIT_MS) this.socket.destroy();
    } else if (this.#exchange === undefined) this.#checkWaiting(now);
    else this.#checkMoving(now);
  }

  #checkWaiting(now: number): void {
    const waited = now - this.#since;
    if (this.isIdle && this.#isKnown) {
      if (waited > KEEP_ALIVE_MS) this.socket.destroy();
    } else if (waited > HEAD_LIMIT_MS) this.#refuse("RequestTimeout");
  }

  #checkMoving(now: number): void {
    const { socket } = this;
    const moved = socket.bytesRead + socket.bytesWritten - socket.writableLength;
    if (this.#windowAt !== 0) {
      if (now - this.#windowAt < SLOW_WINDOW_MS) return;
      if (moved - this.#windowMoved < SLOW_BYTES && this.#isKeptWaiting()) socket.destroy();
    }
    this.#windowAt = now;
    this.#windowMoved = moved;
  }

  /** Whether it is the client that keeps us waiting, not we the client. */
  #isKeptWaiting(): boolean {
    const { socket } = this;
    if (socket.writableLength > 0) return true;
    return this.#exchange?.body.isOver === false && !socket.isPaused();
  }
}
