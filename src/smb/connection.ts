import type { Socket } from "node:net";
import type { Around } from "./around.ts";
import { Credits } from "./credits.ts";
import {
  type Cipher,
  type Dialect,
  isSealed,
  NO_HASH,
  type Signing,
  SMB_202,
  sealedSession,
  TRANSFORM_SIZE,
} from "./protection.ts";
import type { Session } from "./session.ts";
import { type NtStatus, ProtocolViolation } from "./status.ts";
import { HEADER_SIZE, type Header, isSmb2, readHeader } from "./wire/header.ts";

/** What a client and the server have agreed on. */
export type Negotiated = {
  readonly dialect: Dialect;
  readonly dialects: readonly number[];
  readonly clientGuid: Buffer;
  readonly clientCapabilities: number;
  readonly clientSecurityMode: number;
  readonly capabilities: number;
  readonly securityMode: number;
  readonly cipher: Cipher | undefined;
  readonly signing: Signing;
  readonly sizeMax: number;
};

/** A request that has been told to wait. */
export type Pending = {
  readonly header: Header;
  readonly session: Session | undefined;
  abort(status: NtStatus): void;
};

/** A part of a message: one request with its header. */
export type Part = { readonly header: Header; readonly message: Buffer };

const PREFIX_SIZE = 4;
/** Up to this size it is cheaper to copy a message into one piece than to send its parts. */
const COPIED_MAX = 16 * 1024;
const SMB1 = 0x424d53ff;
const KEEPALIVE = 0x85;
const CANCEL = 12;
/** Before anybody has logged on no request is larger than this. */
const STRANGER_MESSAGE_MAX = 68 * 1024;
const MESSAGE_MAX = 8 * 1024 * 1024 + 64 * 1024;
const PARTS_MAX = 256;
/** What a credit pays for, in a request or its answer (MS-SMB2 3.3.5.2.5). */
const CREDIT_SIZE = 65536;
/**
 * A client whose requests and answers are more than this, or whose answers it does not fetch, is not listened
 * to meanwhile.
 */
const RUNNING_BYTES_MAX = 32 * 1024 * 1024;
const RUNNING_MAX = 512;
const UNSENT_BYTES_MAX = 32 * 1024 * 1024;
/** Strangers must log on within this time; who has logged off counts as one from then on, and has twice of it. */
const LOGON_LIMIT_MS = 30_000;

/** Who runs the requests that a connection receives. */
export type Runner = {
  run(
    connection: Connection,
    parts: readonly Part[],
    sealedBy: Session | undefined,
    over: () => void,
  ): void;
  /** Answers SMB1's negotiate with SMB2's. */
  upgrade(connection: Connection, dialect: number): void;
};

/** One client's connection: frames in, frames out, and no more in memory than the limits above. */
export class Connection {
  readonly around: Around;
  readonly address: string;
  readonly sessions = new Map<bigint, Session>();
  readonly pending = new Map<bigint, Pending>();
  readonly credits = new Credits();
  negotiated: Negotiated | undefined;
  /** SMB1's negotiation has led to SMB2's. */
  isUpgraded = false;
  /** The hash over the negotiation, which sessions go on from. */
  hash: Buffer = NO_HASH;
  isClosed = false;
  readonly #socket: Socket;
  readonly #runner: Runner;
  #chunks: Buffer[] = [];
  #size = 0;
  #lastAsyncId = 0n;
  #running = 0;
  #runningBytes = 0;
  #isPaused = false;
  #isTaking = false;
  readonly #idle: (() => void)[] = [];
  readonly #ended = Promise.withResolvers<void>();
  readonly #logonTimer: NodeJS.Timeout;

  constructor(socket: Socket, around: Around, runner: Runner) {
    this.#socket = socket;
    this.#runner = runner;
    this.around = around;
    this.address = `${socket.remoteAddress ?? ""}:${socket.remotePort ?? 0}`;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("drain", () => this.#resumeIfQuiet());
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#closed());
    let wasKnown = false;
    this.#logonTimer = setInterval(() => {
      if (!this.#isKnown && !wasKnown) socket.destroy();
      wasKnown = this.#isKnown;
    }, LOGON_LIMIT_MS).unref();
  }

  /** Ends the connection because of what the client did. */
  violate(why: string): void {
    if (this.isClosed) return;
    this.around.log.warn("an SMB connection was ended", { why, address: this.address });
    this.#socket.destroy();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Resolves when no request runs but those that wait for something to happen. */
  async idle(): Promise<void> {
    if (this.#running === 0) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  nextAsyncId(): bigint {
    this.#lastAsyncId += 1n;
    return this.#lastAsyncId;
  }

  /** Sends one frame, which may be in parts. */
  send(parts: readonly Uint8Array[]): void {
    if (this.isClosed) return;
    const size = parts.reduce((sum, { length }) => sum + length, 0);
    const prefix = Buffer.alloc(PREFIX_SIZE);
    prefix.writeUInt32BE(size);
    if (size <= COPIED_MAX) this.#socket.write(Buffer.concat([prefix, ...parts]));
    else {
      this.#socket.cork();
      this.#socket.write(prefix);
      for (const part of parts) this.#socket.write(part);
      this.#socket.uncork();
    }
    if (this.#socket.writableLength > UNSENT_BYTES_MAX) this.#pause();
  }

  /** A request begins that keeps so many bytes in memory, or its answer; what this gives is to be called once when it is over. */
  begin(size: number): () => void {
    this.#running++;
    this.#runningBytes += size;
    if (this.#runningBytes > RUNNING_BYTES_MAX || this.#running > RUNNING_MAX) this.#pause();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#running--;
      this.#runningBytes -= size;
      if (this.#running === 0) for (const tell of this.#idle.splice(0)) tell();
      this.#resumeIfQuiet();
    };
  }

  /** Whether anybody has logged on. */
  get #isKnown(): boolean {
    return [...this.sessions.values()].some(({ account }) => account !== undefined);
  }

  #pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  #resumeIfQuiet(): void {
    if (!this.#isPaused || this.isClosed) return;
    const isBusy = this.#runningBytes > RUNNING_BYTES_MAX || this.#running > RUNNING_MAX;
    if (isBusy || this.#socket.writableLength > UNSENT_BYTES_MAX / 2) return;
    this.#isPaused = false;
    this.#socket.resume();
    this.#takeAll();
  }

  #closed(): void {
    this.isClosed = true;
    clearInterval(this.#logonTimer);
    this.#chunks = [];
    for (const session of this.sessions.values()) session.lost();
    for (const pending of this.pending.values()) pending.abort("STATUS_CANCELLED");
    this.around.connections.delete(this);
    this.#ended.resolve();
  }

  /** Resolves when the connection is gone, and what it had open is closed or being closed. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  #take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    this.#takeAll();
  }

  /** Takes up what has come, until there is too much of it: the rest waits, also what came with it. */
  #takeAll(): void {
    if (this.#isTaking) return;
    this.#isTaking = true;
    try {
      while (!this.#isPaused && !this.isClosed && !this.#socket.destroyed) {
        const message = this.#next();
        if (message === undefined) return;
        this.#receive(message);
      }
    } catch (error) {
      if (!(error instanceof ProtocolViolation)) throw error;
      this.violate(error.message);
    } finally {
      this.#isTaking = false;
    }
  }

  /** The next whole message, without its prefix; undefined while it is not there. */
  #next(): Buffer | undefined {
    while (this.#size >= PREFIX_SIZE) {
      let first = this.#chunks[0] as Buffer;
      if (first.length < PREFIX_SIZE) {
        first = Buffer.concat(this.#chunks);
        this.#chunks = [first];
      }
      const type = first[0];
      const size = first.readUIntBE(1, 3);
      if (type === KEEPALIVE && size === 0) {
        this.#drop(PREFIX_SIZE);
        continue;
      }
      if (type !== 0) throw new ProtocolViolation("it sent what is no SMB message");
      const isLong = size > STRANGER_MESSAGE_MAX;
      if (isLong && (size > MESSAGE_MAX || !this.#isKnown)) {
        throw new ProtocolViolation("it sent a message that is too long");
      }
      if (this.#size < PREFIX_SIZE + size) return undefined;
      return this.#drop(PREFIX_SIZE + size).subarray(PREFIX_SIZE);
    }
    return undefined;
  }

  /** Takes bytes off the front. */
  #drop(count: number): Buffer {
    const first = this.#chunks[0] as Buffer;
    this.#size -= count;
    if (first.length >= count) {
      if (first.length === count) this.#chunks.shift();
      else this.#chunks[0] = first.subarray(count);
      return first.subarray(0, count);
    }
    const all = Buffer.allocUnsafeSlow(count);
    let at = 0;
    let used = 0;
    for (const chunk of this.#chunks) {
      const rest = count - at;
      if (chunk.length > rest) {
        chunk.copy(all, at, 0, rest);
        this.#chunks[used] = chunk.subarray(rest);
        break;
      }
      chunk.copy(all, at);
      at += chunk.length;
      used++;
      if (at === count) break;
    }
    this.#chunks = this.#chunks.slice(used);
    return all;
  }

  #receive(message: Buffer): void {
    if (message.length >= 4 && message.readUInt32LE(0) === SMB1) {
      this.#upgrade(message);
      return;
    }
    if (!isSealed(message)) {
      this.#run(message, undefined);
      return;
    }
    if (message.length < TRANSFORM_SIZE) throw new ProtocolViolation("it sent half a header");
    const session = this.sessions.get(sealedSession(message));
    const opened = session?.sealer?.open(message);
    if (opened === undefined) throw new ProtocolViolation("it sent what cannot be decrypted");
    this.#run(opened, session);
  }

  /** SMB1's negotiate is answered only to get to SMB2 (MS-SMB2 3.3.5.3). */
  #upgrade(message: Buffer): void {
    const isNegotiate = message.length > 35 && message[4] === 0x72;
    if (!isNegotiate || this.negotiated !== undefined || this.isUpgraded) {
      throw new ProtocolViolation("it speaks SMB1");
    }
    this.isUpgraded = true;
    const names = message.toString("latin1", 35).split("\0");
    const has = (name: string) => names.includes(`\u0002${name}`);
    const dialect = has("SMB 2.???") ? 0x02ff : has("SMB 2.002") ? SMB_202 : undefined;
    if (dialect === undefined) throw new ProtocolViolation("it speaks SMB1 only");
    this.credits.take(0n, 1);
    this.#runner.upgrade(this, dialect);
  }

  #run(message: Buffer, sealedBy: Session | undefined): void {
    const parts = partsOf(message);
    let charged = 0;
    for (const { header } of parts) {
      if (header.command === CANCEL) continue;
      const isOld = this.negotiated === undefined || this.negotiated.dialect === SMB_202;
      const charge = isOld ? 1 : Math.max(header.creditCharge, 1);
      if (!this.credits.take(header.messageId, charge)) {
        throw new ProtocolViolation("it used a message number that it was not granted");
      }
      if (charge > 1) charged += charge * CREDIT_SIZE;
    }
    const over = this.begin(Math.max(message.length, charged));
    this.#runner.run(this, parts, sealedBy, over);
  }

  /** Cancels a request that waits; one that is not there any more has been answered. */
  cancel(header: Header, session: Session | undefined, isAsync: boolean): void {
    for (const [asyncId, pending] of this.pending) {
      const isMeant = isAsync
        ? asyncId === header.asyncId
        : pending.header.messageId === header.messageId;
      if (!isMeant || pending.session !== session) continue;
      pending.abort("STATUS_CANCELLED");
      return;
    }
  }
}

/** The requests of a message, one after another. */
function partsOf(message: Buffer): Part[] {
  const parts: Part[] = [];
  for (let at = 0; ; ) {
    const rest = message.subarray(at);
    if (!isSmb2(rest) || rest.readUInt16LE(4) !== HEADER_SIZE) {
      const begin = rest.toString("hex", 0, 8);
      throw new ProtocolViolation(
        `it sent what is no SMB2 message: ${rest.length} bytes from ${begin}`,
      );
    }
    const header = readHeader(rest);
    const next = header.nextCommand;
    if (next !== 0 && (next < HEADER_SIZE || next % 8 !== 0 || next >= rest.length)) {
      throw new ProtocolViolation("its compound does not add up");
    }
    parts.push({ header, message: next === 0 ? rest : rest.subarray(0, next) });
    if (next === 0) return parts;
    if (parts.length >= PARTS_MAX) throw new ProtocolViolation("its compound is too long");
    at += next;
  }
}
