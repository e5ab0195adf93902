import type { ByteStream } from "../base/bytes.ts";
import { Crc64 } from "../base/crc64.ts";
import { invalidHeader, missingHeader, StorageError } from "../rules/errors.ts";
import type { Opened } from "../store/content.ts";
import { bodySize } from "./body.ts";
import type { Reply, Request, RequestBody } from "./operation.ts";

/**
 * Structured messages: content cut into segments, with a CRC-64 behind each and one of all at the end, so
 * that both sides see damage on the way. All numbers are little-endian:
 *
 *   message   version u8, size u64, flags u16, segments u16, segments…, CRC-64 of the content
 *   segment   number u16 from 1, size u64, content, CRC-64 of it
 */
const HEADER = "x-ms-structured-body";
const SIZE_HEADER = "x-ms-structured-content-length";
const FORM = /^XSM\/1\.0;\s*properties=crc64$/i;
const VALUE = "XSM/1.0; properties=crc64";

const VERSION = 1;
const WITH_CRC64 = 1;
const HEAD_SIZE = 13;
const SEGMENT_HEAD_SIZE = 10;
const SUM_SIZE = 8;
const SEGMENTS_MAX = 0xffff;
const SEGMENT_SIZE = 4 * 1024 * 1024;

/** Whether the request wants structured messages; throws if it wants any that we do not know. */
export function wantsStructured(request: Request): boolean {
  const text = request.header(HEADER);
  if (text === undefined) return false;
  if (!FORM.test(text.trim())) throw invalidHeader(HEADER, text);
  return true;
}

export const unsupportedStructured = (): StorageError =>
  new StorageError("UnsupportedHeader", { HeaderName: HEADER });

/** The same request with its body taken out of the message; its size is the content's. */
export async function unframedRequest(request: Request): Promise<Request> {
  const text = request.header(SIZE_HEADER);
  if (text === undefined) throw missingHeader(SIZE_HEADER);
  if (!/^\d{1,15}$/.test(text)) throw invalidHeader(SIZE_HEADER, text);
  const size = Number(text);
  const messageSize = bodySize(request.body, size + overhead(SEGMENTS_MAX));
  const stream = () => unframed(request.body.stream(), { size, messageSize });
  const body: RequestBody = { size, stream, whole: () => gathered(stream()) };
  // Nobody reads a body of no bytes, but its message must be right too.
  if (size === 0) await body.whole();
  return { ...request, body };
}

async function gathered(stream: ByteStream): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

const overhead = (segments: number): number =>
  HEAD_SIZE + segments * (SEGMENT_HEAD_SIZE + SUM_SIZE) + SUM_SIZE;

type Sizes = { readonly size: number; readonly messageSize: number };

/**
 * The content of a message. Its last bytes are given out only after every sum has been found right. A
 * message that is wrong is read to its end before that is said, so that the client gets to see the answer.
 */
export async function* unframed(message: ByteStream, sizes: Sizes): AsyncGenerator<Uint8Array> {
  const unframing = new Unframing(sizes);
  let held: Uint8Array | undefined;
  let problem: unknown;
  for await (const bytes of message) {
    if (problem !== undefined) continue;
    const parts: Uint8Array[] = [];
    try {
      for (const part of unframing.feed(bytes)) parts.push(part);
    } catch (error) {
      problem = error;
      continue;
    }
    for (const part of parts) {
      if (held !== undefined) yield held;
      held = part;
    }
  }
  if (problem !== undefined) throw problem;
  unframing.finish();
  if (held !== undefined) yield held;
}

const malformed = (reason: string) =>
  new StorageError("InvalidInput", { Reason: `The structured message is malformed: ${reason}.` });

/** Takes a message apart as its bytes come, in whatever portions. */
class Unframing {
  readonly #sizes: Sizes;
  #state: "head" | "segment" | "content" | "sum" | "trailer" | "end" = "head";
  /** Bytes of a part that is not whole yet. */
  readonly #part = Buffer.alloc(HEAD_SIZE);
  #partSize = 0;
  #segments = 0;
  #number = 0;
  /** What is left of the segment, and of all content. */
  #segmentLeft = 0;
  #left: number;
  #segmentSum = new Crc64();
  readonly #sum = new Crc64();

  constructor(sizes: Sizes) {
    this.#sizes = sizes;
    this.#left = sizes.size;
  }

  /** The content that these bytes hold. */
  *feed(bytes: Uint8Array): Generator<Uint8Array> {
    let rest = bytes;
    while (rest.length > 0) {
      if (this.#state === "end") throw malformed("it goes on behind its end");
      if (this.#state === "content") {
        const content = rest.subarray(0, this.#segmentLeft);
        rest = rest.subarray(content.length);
        this.#segmentSum.update(content);
        this.#sum.update(content);
        this.#segmentLeft -= content.length;
        if (this.#segmentLeft === 0) this.#state = "sum";
        yield content;
        continue;
      }
      const wanted = PART_SIZES[this.#state];
      const taken = rest.subarray(0, wanted - this.#partSize);
      this.#part.set(taken, this.#partSize);
      this.#partSize += taken.length;
      rest = rest.subarray(taken.length);
      if (this.#partSize < wanted) return;
      this.#partSize = 0;
      this.#step();
    }
  }

  finish(): void {
    if (this.#state !== "end") throw malformed("it breaks off");
  }

  /** Understands a part that has become whole. */
  #step(): void {
    if (this.#state === "head") {
      this.#readHead();
      this.#state = this.#segments === 0 ? this.#afterSegments() : "segment";
    } else if (this.#state === "segment") {
      this.#readSegment();
      this.#state = this.#segmentLeft === 0 ? "sum" : "content";
    } else if (this.#state === "sum") {
      this.#compare(this.#segmentSum);
      this.#segmentSum = new Crc64();
      this.#state = this.#number < this.#segments ? "segment" : this.#afterSegments();
    } else {
      this.#compare(this.#sum);
      this.#state = "end";
    }
  }

  #readHead(): void {
    if (this.#part[0] !== VERSION) throw malformed("its version is not 1");
    if (this.#part.readBigUInt64LE(1) !== BigInt(this.#sizes.messageSize)) {
      throw malformed("its length is not that of the body");
    }
    if (this.#part.readUInt16LE(9) !== WITH_CRC64) throw malformed("its flags do not say CRC-64");
    this.#segments = this.#part.readUInt16LE(11);
    if (this.#sizes.messageSize !== this.#sizes.size + overhead(this.#segments)) {
      throw malformed("its length does not fit its content and segments");
    }
  }

  #readSegment(): void {
    this.#number++;
    if (this.#part.readUInt16LE(0) !== this.#number) throw malformed("a segment is out of order");
    const size = this.#part.readBigUInt64LE(2);
    if (size > BigInt(this.#left)) throw malformed("its segments are longer than the content");
    this.#segmentLeft = Number(size);
    this.#left -= this.#segmentLeft;
  }

  #afterSegments(): "trailer" {
    if (this.#left > 0) throw malformed("its segments are shorter than the content");
    return "trailer";
  }

  #compare(sum: Crc64): void {
    const sent = this.#part.toString("base64", 0, SUM_SIZE);
    const found = sum.digest();
    if (sent !== found) {
      throw new StorageError("Crc64Mismatch", {
        UserSpecifiedCrc64: sent,
        ServerCalculatedCrc64: found,
      });
    }
  }
}

const PART_SIZES = {
  head: HEAD_SIZE,
  segment: SEGMENT_HEAD_SIZE,
  sum: SUM_SIZE,
  trailer: SUM_SIZE,
} as const;

/** Tells that the body was taken as a structured message. */
export const withStructuredHeader = (reply: Reply): Reply => ({
  ...reply,
  headers: { ...reply.headers, [HEADER]: VALUE },
});

/** The reply with its bytes in a structured message; Content-Length becomes the message's. */
export function framedReply(reply: Reply): Reply {
  const { body, headers } = reply;
  if (body === undefined || typeof body === "string") return reply;
  const size = Number(headers["Content-Length"]);
  const { segments, segmentSize } = segmentsOf(size);
  const frame = { size, segments, segmentSize };
  const framedBody: Opened = {
    ...(body.bytes === undefined ? {} : { bytes: [...new Framing(frame).all(body.bytes)] }),
    stream: () => framed(body.stream(), frame),
    close: () => body.close(),
  };
  return {
    ...withStructuredHeader({
      ...reply,
      headers: {
        ...headers,
        "Content-Length": size + overhead(segments),
        [SIZE_HEADER]: size,
      },
    }),
    body: framedBody,
  };
}

type Frame = { readonly size: number; readonly segments: number; readonly segmentSize: number };

/** Segments of 4 MiB, or larger ones where there would be too many; at least one, though it be empty. */
export function segmentsOf(size: number): { segments: number; segmentSize: number } {
  const segmentSize = Math.max(SEGMENT_SIZE, Math.ceil(size / SEGMENTS_MAX));
  return { segments: Math.max(1, Math.ceil(size / segmentSize)), segmentSize };
}

async function* framed(content: ByteStream, frame: Frame): AsyncGenerator<Uint8Array> {
  const framing = new Framing(frame);
  yield framing.head();
  for await (const bytes of content) yield* framing.feed(bytes);
  yield framing.trailer();
}

/** Puts content into segments as it comes. */
class Framing {
  readonly #frame: Frame;
  #number = 0;
  #segmentLeft = 0;
  #left: number;
  #segmentSum = new Crc64();
  readonly #sum = new Crc64();

  constructor(frame: Frame) {
    this.#frame = frame;
    this.#left = frame.size;
  }

  *all(parts: readonly Uint8Array[]): Generator<Uint8Array> {
    yield this.head();
    for (const part of parts) yield* this.feed(part);
    yield this.trailer();
  }

  head(): Buffer {
    const { size, segments } = this.#frame;
    const head = Buffer.alloc(HEAD_SIZE);
    head[0] = VERSION;
    head.writeBigUInt64LE(BigInt(size + overhead(segments)), 1);
    head.writeUInt16LE(WITH_CRC64, 9);
    head.writeUInt16LE(segments, 11);
    return head;
  }

  *feed(bytes: Uint8Array): Generator<Uint8Array> {
    for (let rest = bytes; rest.length > 0; ) {
      if (this.#segmentLeft === 0) yield this.#begin();
      const content = rest.subarray(0, this.#segmentLeft);
      rest = rest.subarray(content.length);
      this.#segmentSum.update(content);
      this.#sum.update(content);
      this.#segmentLeft -= content.length;
      yield content;
      if (this.#segmentLeft === 0) yield this.#end();
    }
  }

  /** What comes last: the sum of all, behind an empty segment if there was no content. */
  trailer(): Buffer {
    const parts = this.#number === 0 ? [this.#begin(), this.#end()] : [];
    return Buffer.concat([...parts, Buffer.from(this.#sum.digest(), "base64")]);
  }

  #begin(): Buffer {
    this.#number++;
    this.#segmentLeft = Math.min(this.#frame.segmentSize, this.#left);
    this.#left -= this.#segmentLeft;
    const head = Buffer.alloc(SEGMENT_HEAD_SIZE);
    head.writeUInt16LE(this.#number, 0);
    head.writeBigUInt64LE(BigInt(this.#segmentLeft), 2);
    return head;
  }

  #end(): Buffer {
    const sum = Buffer.from(this.#segmentSum.digest(), "base64");
    this.#segmentSum = new Crc64();
    return sum;
  }
}
