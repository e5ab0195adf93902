import type { Socket } from "node:net";
import type { Account } from "../auth/accounts.ts";
import { ClientGone } from "./body.ts";
import type { RequestBody } from "./operation.ts";
import { Chunks, type Head, headText, reasonOf } from "./wire.ts";

/** What a body may run ahead of its reader before the client has to wait. */
const AHEAD_MAX = 256 * 1024;
/** Up to this size a body goes out in one piece with its head, which is one call of the system less. */
const SMALL_BODY_MAX = 8 * 1024;
const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";

/** What an exchange needs of its connection. */
export type Line = {
  readonly socket: Socket;
  /** The lines that every reply begins with: the date. */
  commonLines(): string;
  /** Whether no further request is taken. */
  readonly isClosing: boolean;
  /** Called once, when the reply is handed over; what is left of the body is not wanted. */
  answered(): void;
  resume(): void;
  pause(): void;
};

/** The body of a request as it comes in; it is read once, whole or piece by piece. */
export class IncomingBody implements RequestBody {
  readonly size: number | undefined;
  /** Whether all of it has come. */
  isOver: boolean;
  readonly #line: Line;
  readonly #chunks: Chunks | undefined;
  #left: number;
  #parts: Buffer[] = [];
  #ahead = 0;
  #isGone = false;
  #isDropped = false;
  /** Called when there is news: more bytes, the end, or that the client is gone. */
  #tell: (() => void) | undefined;

  constructor(line: Line, size: number | undefined) {
    this.#line = line;
    this.size = size;
    this.#left = size ?? 0;
    this.#chunks = size === undefined ? new Chunks() : undefined;
    this.isOver = size === 0;
  }

  /** Takes what is its own of some more bytes, and gives the rest. */
  take(bytes: Buffer): Buffer {
    let used: number;
    if (this.#chunks === undefined) {
      used = Math.min(bytes.length, this.#left);
      this.#left -= used;
      this.#add(used === bytes.length ? bytes : bytes.subarray(0, used));
      this.isOver = this.#left === 0;
    } else {
      used = this.#chunks.take(bytes, (data) => this.#add(data));
      this.isOver = this.#chunks.isOver;
    }
    this.#tell?.();
    return bytes.subarray(used);
  }

  #add(data: Buffer): void {
    if (this.#isDropped || data.length === 0) return;
    this.#parts.push(data);
    this.#ahead += data.length;
    if (this.#ahead > AHEAD_MAX) this.#line.pause();
  }

  /** Nobody wants the rest of it. */
  drop(): void {
    this.#isDropped = true;
    this.#parts = [];
    this.#line.resume();
  }

  /** The client is gone. */
  lose(): void {
    this.#isGone = true;
    this.#tell?.();
  }

  /** All of it, where it has come. */
  taken(): Buffer {
    const parts = this.#parts;
    this.#parts = [];
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
  }

  whole(): Promise<Buffer> {
    if (this.isOver) return Promise.resolve(this.taken());
    return new Promise((resolve, reject) => {
      // Whoever asks for all of it knows that it is small; so it need not wait for its reader.
      this.#tell = () => {
        if (this.isOver) resolve(this.taken());
        else if (this.#isGone) reject(new ClientGone());
        else this.#line.resume();
      };
      this.#tell();
    });
  }

  async *stream(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const parts = this.#parts;
      this.#parts = [];
      this.#ahead = 0;
      if (parts.length > 0) yield* parts;
      else if (this.isOver) return;
      else if (this.#isGone) throw new ClientGone();
      else await this.#news();
    }
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = () => {
        this.#tell = undefined;
        resolve();
      };
      this.#line.resume();
    });
  }
}

/** One request and its reply, as whoever serves it sees them. */
export type Served = {
  readonly head: Head;
  readonly body: RequestBody;
  readonly client: string | undefined;
  /** The account whose key is known to have signed the request; undefined if nobody has looked yet. */
  readonly signer: Account | undefined;
  /** Whether the client holds its body back until it is told to send it. */
  readonly isAwaited: boolean;
  readonly isBegun: boolean;
  readonly isGone: boolean;
  /** The status that was sent; 0 before. */
  readonly status: number;
  /** Tells the client to send its body. */
  proceed(): void;
  /** Sends a whole reply; the list has a Content-Length where there is to be one. */
  reply(status: number, list: readonly string[], body?: string | Uint8Array, reason?: string): void;
  /** Begins a reply whose body follows by `write`, up to `end`. */
  begin(status: number, list: readonly string[]): void;
  /** Gives a promise where the next piece must wait for it. */
  write(bytes: Uint8Array): Promise<void> | undefined;
  end(): void;
  /** Breaks the connection off: the only way left to say that a reply is not whole. */
  destroy(): void;
};

/** One request and its reply on a connection. */
export class Exchange implements Served {
  readonly head: Head;
  readonly body: IncomingBody;
  readonly signer = undefined;
  /** Called if the client goes before the whole reply is handed over. */
  onGone: (() => void) | undefined;
  readonly #line: Line;
  #keepAlive: boolean;
  status = 0;
  /** Whether the whole reply is handed over. */
  isAnswered = false;
  /** Whether the connection serves another request after this one; known when the reply begins. */
  staysOpen = false;
  #isChunked = false;
  /** Whether the client holds its body back until it is told to send it. */
  #isAwaited: boolean;

  constructor(line: Line, head: Head, size: number | undefined, keepAlive: boolean) {
    this.#line = line;
    this.head = head;
    this.#keepAlive = keepAlive;
    this.#isAwaited = head.headers.expect !== undefined && size !== 0 && head.minor === 1;
    this.body = new IncomingBody(line, size);
  }

  get client(): string | undefined {
    return this.#line.socket.remoteAddress;
  }

  get isAwaited(): boolean {
    return this.#isAwaited && !this.body.isOver;
  }

  get isBegun(): boolean {
    return this.status !== 0;
  }

  get isGone(): boolean {
    return this.#line.socket.destroyed;
  }

  proceed(): void {
    if (!this.#isAwaited) return;
    this.#isAwaited = false;
    this.#line.socket.write(CONTINUE, "latin1");
  }

  reply(
    status: number,
    list: readonly string[],
    body?: string | Uint8Array,
    reason: string = reasonOf(status),
  ): void {
    this.send(status, headText(status, reason, list), body === undefined ? body : packed(body));
  }

  /** The same with a head that is written already, but for the lines that are the connection's; texts are Latin-1. */
  send(status: number, text: string, body: string | Uint8Array | undefined): void {
    const head = this.#headOf(status, text);
    const { socket } = this.#line;
    if (body === undefined || body.length === 0 || this.#isBare(status)) {
      socket.write(head, "latin1");
    } else if (typeof body === "string") socket.write(head + body, "latin1");
    else {
      socket.cork();
      socket.write(head, "latin1");
      socket.write(body);
      socket.uncork();
    }
    this.#end();
  }

  begin(status: number, list: readonly string[]): void {
    const more = [...list];
    if (!hasLength(list) && !this.#isBare(status)) {
      // A client of HTTP/1.0 sees the end of the body by that of the connection.
      this.#isChunked = this.head.minor === 1;
      if (this.#isChunked) more.push("Transfer-Encoding", "chunked");
      else this.#keepAlive = false;
    }
    const text = headText(status, reasonOf(status), more);
    this.#line.socket.write(this.#headOf(status, text), "latin1");
  }

  /** `sent` is called when the system has the bytes, or will never have them: their memory is free again. */
  write(bytes: Uint8Array, sent: () => void = ignore): Promise<void> | undefined {
    const { socket } = this.#line;
    if (socket.destroyed || bytes.length === 0 || this.#isBare(this.status)) {
      sent();
      return undefined;
    }
    if (!this.#isChunked) return socket.write(bytes, sent) ? undefined : drained(socket);
    socket.cork();
    socket.write(`${bytes.length.toString(16)}\r\n`, "latin1");
    socket.write(bytes, sent);
    const hasRoom = socket.write("\r\n", "latin1");
    socket.uncork();
    return hasRoom ? undefined : drained(socket);
  }

  end(): void {
    if (this.#isChunked) this.#line.socket.write("0\r\n\r\n", "latin1");
    this.#end();
  }

  destroy(): void {
    this.#line.socket.destroy();
  }

  /** Whether a reply has no body, whatever its headers say. */
  #isBare(status: number): boolean {
    return this.head.method === "HEAD" || status === 204 || status === 304;
  }

  #headOf(status: number, text: string): string {
    this.status = status;
    this.staysOpen = this.#keepAlive && !this.isAwaited && !this.#line.isClosing;
    return `${text}${this.#line.commonLines()}${this.staysOpen ? KEPT : CLOSED}`;
  }

  #end(): void {
    if (this.isAnswered) return;
    this.isAnswered = true;
    if (!this.body.isOver) this.body.drop();
    this.#line.answered();
  }
}

const ignore = () => {};

/** Whether one of the names is that of the length: a blob's metadata may well have it for a value. */
const hasLength = (list: readonly string[]): boolean =>
  list.some((text, i) => i % 2 === 0 && text === "Content-Length");

/** How long a connection may stay without a request. */
export const KEEP_ALIVE_MS = 75_000;
const KEPT = `Connection: keep-alive\r\nKeep-Alive: timeout=${KEEP_ALIVE_MS / 1000}\r\n\r\n`;
const CLOSED = "Connection: close\r\n\r\n";

/** A body as it travels best: few bytes as Latin-1, which goes out in one piece with the head. */
export function packed(body: string | Uint8Array): string | Uint8Array {
  if (typeof body === "string") {
    return Buffer.byteLength(body) === body.length ? body : packed(Buffer.from(body));
  }
  return body.length <= SMALL_BODY_MAX ? latin1(body) : body;
}

const latin1 = ({ buffer, byteOffset, byteLength }: Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString("latin1");

function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      socket.off("drain", done);
      socket.off("close", done);
      resolve();
    };
    socket.on("drain", done);
    socket.on("close", done);
  });
}
