import { SmbError } from "./status.ts";

/** Reads parameters of a remote call: 4-byte numbers and texts (C706, "Transfer Syntax NDR"). */
export class NdrReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  u32(): number {
    this.#at = Math.ceil(this.#at / 4) * 4;
    if (this.#at + 4 > this.#bytes.length) throw new SmbError("STATUS_INVALID_PARAMETER");
    this.#at += 4;
    return this.#bytes.readUInt32LE(this.#at - 4);
  }

  /** A text with its sizes before it. */
  text(): string {
    this.u32();
    this.u32();
    const count = this.u32();
    const end = this.#at + 2 * count;
    if (end > this.#bytes.length) throw new SmbError("STATUS_INVALID_PARAMETER");
    const text = this.#bytes.toString("utf16le", this.#at, end);
    this.#at = end;
    return text.replace(/\0.*$/s, "");
  }

  /** A text that may be left out. */
  optionalText(): string | undefined {
    return this.u32() === 0 ? undefined : this.text();
  }
}

/** Writes the results of a remote call. Texts that are pointed to follow what points to them. */
export class NdrWriter {
  readonly #parts: Buffer[] = [];
  #waiting: string[] = [];
  #lastPointer = 0x20000;

  u32(value: number): this {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value >>> 0);
    this.#parts.push(bytes);
    return this;
  }

  /** A pointer to something that the caller writes next. */
  pointer(): this {
    this.#lastPointer += 4;
    return this.u32(this.#lastPointer);
  }

  /** A pointer to a text, which comes with the next `texts`. */
  text(value: string): this {
    this.#waiting.push(value);
    return this.pointer();
  }

  texts(): this {
    for (const value of this.#waiting) {
      const bytes = Buffer.from(`${value}\0`, "utf16le");
      const count = bytes.length / 2;
      this.u32(count).u32(0).u32(count);
      this.#parts.push(bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4));
    }
    this.#waiting = [];
    return this;
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }
}
