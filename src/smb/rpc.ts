import { called, type ServerFacts } from "./srvsvc.ts";
import { SmbError } from "./status.ts";
import { layout, raw, u8, u16, u32 } from "./wire/layout.ts";

const REQUEST = 0;
const RESPONSE = 2;
const FAULT = 3;
const BIND = 11;
const BIND_ACK = 12;
const ALTER_CONTEXT = 14;
const ALTER_CONTEXT_ANSWER = 15;

const FIRST = 1;
const LAST = 2;
const NO_SUCH_CALL = 0x1c010002;

const FRAGMENT_MAX = 4280;
const INPUT_MAX = 64 * 1024;
const CONTEXTS_MAX = 32;
/** A call comes in so many parts at most, however small they are. */
const FRAGMENTS_MAX = 64;

const SRVSVC = Buffer.from("c84f324b7016d30112785a47bf6ee18803000000", "hex");
const NDR32 = Buffer.from("045d888aeb1cc9119fe808002b10486002000000", "hex");

const headLayout = layout({
  version: u8,
  minor: u8,
  type: u8,
  flags: u8,
  representation: u32,
  fragmentSize: u16,
  authSize: u16,
  callId: u32,
});
const bindLayout = layout({ sendMax: u16, receiveMax: u16, group: u32, count: u8, pad: raw(3) });
const contextLayout = layout({ id: u16, count: u8, pad: u8, syntax: raw(20) });
const requestLayout = layout({ hint: u32, context: u16, number: u16 });
const responseLayout = layout({ hint: u32, context: u16, cancels: u8, pad: u8 });
const faultLayout = layout({
  hint: u32,
  context: u16,
  cancels: u8,
  pad: u8,
  status: u32,
  pad2: u32,
});

/** The remote procedures behind a pipe (C706, connection-oriented): bytes in, bytes out. */
export class Rpc {
  readonly #facts: ServerFacts;
  readonly #pipe: string;
  #input: Buffer = Buffer.alloc(0);
  #stub: Buffer[] = [];
  #output: Buffer = Buffer.alloc(0);

  constructor(facts: ServerFacts, pipe: string) {
    this.#facts = facts;
    this.#pipe = pipe;
  }

  /** Takes bytes from the client; what they ask for can be read afterwards. */
  async write(bytes: Buffer): Promise<void> {
    if (this.#input.length + bytes.length > INPUT_MAX) throw new SmbError("STATUS_PIPE_BROKEN");
    this.#input = Buffer.concat([this.#input, bytes]);
    while (this.#input.length >= headLayout.size) {
      const head = headLayout.read(this.#input);
      if (head.version !== 5 || head.fragmentSize < headLayout.size) {
        throw new SmbError("STATUS_PIPE_BROKEN");
      }
      if (this.#input.length < head.fragmentSize) return;
      const fragment = this.#input.subarray(0, head.fragmentSize);
      this.#input = this.#input.subarray(head.fragmentSize);
      const answer = await this.#answer(head, fragment.subarray(headLayout.size));
      if (answer !== undefined) this.#output = Buffer.concat([this.#output, answer]);
      if (this.#output.length > 16 * INPUT_MAX) throw new SmbError("STATUS_PIPE_BROKEN");
    }
  }

  /** The next bytes for the client, and whether there are more. */
  read(max: number): { readonly bytes: Buffer; readonly isMore: boolean } {
    const bytes = this.#output.subarray(0, max);
    this.#output = this.#output.subarray(bytes.length);
    return { bytes, isMore: this.#output.length > 0 };
  }

  async #answer(
    { type, flags, callId }: { type: number; flags: number; callId: number },
    body: Buffer,
  ): Promise<Buffer | undefined> {
    if (type === BIND || type === ALTER_CONTEXT) {
      return this.#bound(body, callId, type === BIND ? BIND_ACK : ALTER_CONTEXT_ANSWER);
    }
    if (type !== REQUEST) throw new SmbError("STATUS_PIPE_BROKEN");
    const { context, number } = requestLayout.read(body);
    if ((flags & FIRST) !== 0) this.#stub = [];
    this.#stub.push(body.subarray(requestLayout.size));
    const size = this.#stub.reduce((sum, { length }) => sum + length, 0);
    if (size > INPUT_MAX || this.#stub.length > FRAGMENTS_MAX) {
      throw new SmbError("STATUS_PIPE_BROKEN");
    }
    if ((flags & LAST) === 0) return undefined;
    const result = await called(this.#facts, number, Buffer.concat(this.#stub));
    this.#stub = [];
    if (result === undefined) {
      const fault = faultLayout.bytes({ context, status: NO_SUCH_CALL });
      return fragmentOf(FAULT, FIRST | LAST, callId, fault);
    }
    return responseOf(result, context, callId);
  }

  #bound(body: Buffer, callId: number, type: number): Buffer {
    const { count } = bindLayout.read(body);
    if (count > CONTEXTS_MAX) throw new SmbError("STATUS_PIPE_BROKEN");
    const results: Buffer[] = [];
    let at = bindLayout.size;
    for (let i = 0; i < count; i++) {
      const context = contextLayout.read(body, at);
      at += contextLayout.size;
      const syntaxes: Buffer[] = [];
      for (let n = 0; n < context.count; n++) {
        if (at + 20 > body.length) throw new SmbError("STATUS_PIPE_BROKEN");
        syntaxes.push(body.subarray(at, at + 20));
        at += 20;
      }
      const isService = context.syntax.equals(SRVSVC);
      const isKnown = isService && syntaxes.some((syntax) => syntax.equals(NDR32));
      // Refused by the provider: one for the service itself, the other for the way it is written.
      const refused = Buffer.concat([Buffer.of(2, 0, isService ? 2 : 1, 0), Buffer.alloc(20)]);
      results.push(isKnown ? Buffer.concat([Buffer.alloc(4), NDR32]) : refused);
    }
    const name = Buffer.from(`\\pipe\\${this.#pipe}\0`, "latin1");
    const address = Buffer.concat([Buffer.of(name.length, 0), name]);
    const fixed = bindLayout.bytes({ sendMax: FRAGMENT_MAX, receiveMax: FRAGMENT_MAX, group: 1 });
    const head = Buffer.concat([fixed.subarray(0, 8), address]);
    const gap = Buffer.alloc((4 - ((headLayout.size + head.length) % 4)) % 4);
    const all = Buffer.concat([head, gap, Buffer.of(count, 0, 0, 0), ...results]);
    return fragmentOf(type, FIRST | LAST, callId, all);
  }
}

function fragmentOf(type: number, flags: number, callId: number, body: Buffer): Buffer {
  const head = headLayout.bytes({
    version: 5,
    type,
    flags,
    representation: 0x10, // numbers have their low byte first
    fragmentSize: headLayout.size + body.length,
    callId,
  });
  return Buffer.concat([head, body]);
}

function responseOf(result: Buffer, context: number, callId: number): Buffer {
  const room = FRAGMENT_MAX - headLayout.size - responseLayout.size;
  const fragments: Buffer[] = [];
  for (let at = 0; at === 0 || at < result.length; at += room) {
    const flags = (at === 0 ? FIRST : 0) | (at + room >= result.length ? LAST : 0);
    const head = responseLayout.bytes({ hint: result.length - at, context });
    const body = Buffer.concat([head, result.subarray(at, at + room)]);
    fragments.push(fragmentOf(RESPONSE, flags, callId, body));
  }
  return Buffer.concat(fragments);
}
