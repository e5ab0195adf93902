import type { KeyObject } from "node:crypto";
import type { AddressInfo } from "node:net";
import type { SecureContextOptions } from "node:tls";
import type { Service } from "../auth/caller.ts";
import type { Head } from "./wire.ts";

/** What the main thread and those of HTTP tell each other; each way they come in lists, all of one turn together. */
export type FromFront =
  | Asked
  /** A piece of a body that was wanted. */
  | { readonly kind: "data"; readonly id: number; readonly bytes: Uint8Array }
  | { readonly kind: "over"; readonly id: number; readonly sums: FrontSums }
  /** The system has taken so many bytes of a reply that is sent in pieces; their room comes back. */
  | {
      readonly kind: "taken";
      readonly id: number;
      readonly size: number;
      readonly room: Uint8Array;
    }
  /** The connection is broken, and the reply not sent. */
  | { readonly kind: "gone"; readonly id: number }
  | { readonly kind: "opened"; readonly port: number; readonly address: AddressInfo }
  | { readonly kind: "failed"; readonly port: number; readonly code: string; readonly why: string }
  | { readonly kind: "drained"; readonly port: number };

/** A request whose head is there. */
export type Asked = {
  readonly kind: "asked";
  /** By which everything else about it is told. */
  readonly id: number;
  readonly port: number;
  /** As it was sent, Latin-1, without the empty line at its end. */
  readonly head: string;
  readonly client: string | undefined;
  readonly size: number | undefined;
  /** Whether the client holds its body back until it is told to send it. */
  readonly isAwaited: boolean;
  /** All of a small body: bytes, or Latin-1 where they are few; undefined where it is to be asked for. */
  readonly body: Uint8Array | string | undefined;
  readonly sums: FrontSums | undefined;
  /** Whose key has signed it, by the accounts of which generation; undefined if that is to be found out. */
  readonly signer: string | undefined;
  readonly generation: number;
};

/** Sums of a body, as far as the thread has made them. */
export type FrontSums = { readonly md5: string | undefined; readonly crc64: string | undefined };

export type ToFront =
  | {
      readonly kind: "reply";
      readonly id: number;
      readonly status: number;
      readonly head: string;
      /** Bytes, or Latin-1 where they are few. */
      readonly body: string | Uint8Array | undefined;
    }
  | {
      readonly kind: "begin";
      readonly id: number;
      readonly status: number;
      readonly list: string[];
    }
  | { readonly kind: "part"; readonly id: number; readonly bytes: Uint8Array }
  | { readonly kind: "end" | "destroy" | "proceed" | "want"; readonly id: number }
  /** So many bytes of a body have been used. */
  | { readonly kind: "used"; readonly id: number; readonly size: number }
  | {
      readonly kind: "open";
      readonly port: number;
      readonly service: Service;
      readonly listen: {
        readonly port: number;
        readonly host: string;
        readonly reusePort: boolean;
      };
      readonly tls: SecureContextOptions | undefined;
    }
  | { readonly kind: "certificate"; readonly port: number; readonly tls: SecureContextOptions }
  | { readonly kind: "drain"; readonly port: number }
  | {
      readonly kind: "accounts";
      readonly generation: number;
      readonly keys: ReadonlyMap<string, readonly KeyObject[]>;
    };

/** Which sums of a body will be wanted, as far as the head tells; the main thread makes itself what is missing. */
export function foreseenSums(service: Service, { method, url, headers }: Head): WillSum {
  const isBytes = method === "PUT" && (service === "blob" || service === "file");
  const isTold = service === "file" || !/[?&]comp=/.test(url); // by the reply, whether it was sent or not
  const isSent = headers["content-md5"] !== undefined;
  return { md5: isBytes && (isTold || isSent), crc64: isBytes };
}

export type WillSum = { readonly md5: boolean; readonly crc64: boolean };

/** How far a body may run ahead of whoever uses it, in either direction. */
export const WINDOW = 1024 * 1024;

/** So many go at once: the other thread begins with them while more are being made. */
const TOGETHER = 4;

/** Gathers what is to be told, and sends what has come together in a turn. */
export class Outbox<T> {
  readonly #send: (list: T[], transfer: ArrayBuffer[]) => void;
  #list: T[] = [];
  #transfer: ArrayBuffer[] = [];
  #isDue = false;

  constructor(send: (list: T[], transfer: ArrayBuffer[]) => void) {
    this.#send = send;
  }

  add(message: T): void {
    this.#list.push(message);
    if (this.#list.length >= TOGETHER) {
      this.#flush();
      return;
    }
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      if (this.#list.length > 0) this.#flush();
    });
  }

  #flush(): void {
    const list = this.#list;
    const transfer = this.#transfer;
    this.#list = [];
    this.#transfer = [];
    this.#send(list, transfer);
  }

  /** The same, and the bytes are handed over: nobody here may use them any more. */
  addWith(message: T, bytes: Uint8Array): void {
    this.#transfer.push(bytes.buffer as ArrayBuffer);
    this.add(message);
  }
}

/** Bytes as they may be handed over: in memory of their own. */
export const owned = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes);

const ROOM_MIN = 64 * 1024;
const ROOM_MAX = 1024 * 1024;
const ROOMS_SIZE = 8 * 1024 * 1024;

/** Memory that goes to and fro with the pieces of replies, so that a long one leaves none behind to be collected. */
export class Rooms {
  readonly #free = new Map<number, ArrayBuffer[]>();
  #size = 0;

  /** A copy of bytes, in memory that can be handed over. */
  filled(bytes: Uint8Array): Uint8Array {
    if (bytes.length < ROOM_MIN || bytes.length > ROOM_MAX) return owned(bytes);
    let size = ROOM_MIN;
    while (size < bytes.length) size *= 2;
    const known = this.#free.get(size)?.pop();
    if (known !== undefined) this.#size -= size;
    const copy = new Uint8Array(known ?? new ArrayBuffer(size), 0, bytes.length);
    copy.set(bytes);
    return copy;
  }

  /** Takes memory back. */
  take({ buffer }: Uint8Array): void {
    const size = buffer.byteLength;
    if (size < ROOM_MIN || (size & (size - 1)) !== 0 || this.#size + size > ROOMS_SIZE) return;
    const free = this.#free.get(size) ?? [];
    free.push(buffer as ArrayBuffer);
    this.#free.set(size, free);
    this.#size += size;
  }
}
