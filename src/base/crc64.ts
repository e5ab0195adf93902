/**
 * CRC-64/NVME, the checksum of `x-ms-content-crc64`: reflected polynomial 0x9A6C9329AC4BC9B5, all ones
 * in and out. JavaScript has no fast 64-bit integers and WebAssembly has, so the loop is written for it
 * below, instruction by instruction: sixteen bytes at a step, one table look-up for each. It is about three
 * times as fast as the same in JavaScript.
 */
const POLYNOMIAL = 0x9a6c9329ac4bc9b5n;
const STEP = 16;
const TABLE_SIZE = 256 * 8;
const INPUT_AT = STEP * TABLE_SIZE;
const PAGE_SIZE = 64 * 1024;
const PAGES = 3;
const INPUT_SIZE = PAGES * PAGE_SIZE - INPUT_AT;

// WebAssembly's instructions, as far as the loop needs them.
const op = {
  block: [0x02, 0x40],
  loop: [0x03, 0x40],
  end: [0x0b],
  branch: (depth: number) => [0x0c, depth],
  branchIf: (depth: number) => [0x0d, depth],
  get: (local: number) => [0x20, local],
  set: (local: number) => [0x21, local],
  loadByte: (offset: number) => [0x31, 0, ...unsigned(offset)],
  load: (offset: number) => [0x29, 0, ...unsigned(offset)],
  i32: (value: number) => [0x41, ...signed(value)],
  i64: (value: number) => [0x42, ...signed(value)],
  atLeast: [0x4f],
  add: [0x6a],
  sub: [0x6b],
  and: [0x71],
  shiftLeft: [0x74],
  xor64: [0x85],
  shiftRight64: [0x88],
  wrap: [0xa7],
};

function unsigned(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...unsigned(value >>> 7)];
}

function signed(value: number): number[] {
  const isLast = value >= -0x40 && value < 0x40;
  return isLast ? [value & 0x7f] : [(value & 0x7f) | 0x80, ...signed(value >> 7)];
}

const [AT, END, CRC, FIRST, SECOND] = [0, 1, 2, 3, 4] as const;

/** The entry of a table for the lowest byte of the 64-bit number on the stack. */
const entry = (table: number) => [
  ...op.wrap,
  ...op.i32(255),
  ...op.and,
  ...op.i32(3),
  ...op.shiftLeft,
  ...op.load(table * TABLE_SIZE),
];

/** One look-up for each byte of a step; the bytes that come first pass through most tables. */
const lookUps = Array.from({ length: STEP }, (_, i) => [
  ...op.get(i < 8 ? FIRST : SECOND),
  ...op.i64((i % 8) * 8),
  ...op.shiftRight64,
  ...entry(STEP - 1 - i),
  ...(i === 0 ? [] : op.xor64),
]).flat();

const advance = (count: number) => [...op.get(AT), ...op.i32(count), ...op.add, ...op.set(AT)];

const code = [
  ...op.block,
  ...op.loop,
  ...op.get(AT),
  ...op.get(END),
  ...op.i32(STEP - 1),
  ...op.sub,
  ...op.atLeast,
  ...op.branchIf(1),
  ...op.get(CRC),
  ...op.get(AT),
  ...op.load(0),
  ...op.xor64,
  ...op.set(FIRST),
  ...op.get(AT),
  ...op.load(8),
  ...op.set(SECOND),
  ...lookUps,
  ...op.set(CRC),
  ...advance(STEP),
  ...op.branch(0),
  ...op.end,
  ...op.end,
  ...op.block,
  ...op.loop,
  ...op.get(AT),
  ...op.get(END),
  ...op.atLeast,
  ...op.branchIf(1),
  ...op.get(CRC),
  ...op.get(AT),
  ...op.loadByte(0),
  ...op.xor64,
  ...entry(0),
  ...op.get(CRC),
  ...op.i64(8),
  ...op.shiftRight64,
  ...op.xor64,
  ...op.set(CRC),
  ...advance(1),
  ...op.branch(0),
  ...op.end,
  ...op.end,
  ...op.get(CRC),
  ...op.end,
];

const section = (id: number, bytes: readonly number[]) => [id, ...unsigned(bytes.length), ...bytes];
const [I32, I64] = [0x7f, 0x7e];
const name = (text: string) => [text.length, ...Buffer.from(text)];

const body = [1, 2, I64, ...code]; // two more locals, both 64 bits
const wasm = Uint8Array.from([
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
  ...section(1, [1, 0x60, 3, I32, I32, I64, 1, I64]),
  ...section(3, [1, 0]),
  ...section(5, [1, 0, PAGES]),
  ...section(7, [2, ...name("memory"), 2, 0, ...name("update"), 0, 0]),
  ...section(10, [1, ...unsigned(body.length), ...body]),
]);

/** As much of WebAssembly as is used here; neither TypeScript's library nor Node's types have it. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
};

type Exports = {
  readonly memory: { readonly buffer: ArrayBuffer };
  update(at: number, end: number, crc: bigint): bigint;
};
const instance = new WebAssembly.Instance(new WebAssembly.Module(wasm));
const { memory, update } = instance.exports as Exports;
const input = new Uint8Array(memory.buffer, INPUT_AT, INPUT_SIZE);

function fillTables(): void {
  const tables = new BigUint64Array(memory.buffer, 0, STEP * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = BigInt(byte);
    for (let bit = 0; bit < 8; bit++) crc = crc & 1n ? (crc >> 1n) ^ POLYNOMIAL : crc >> 1n;
    tables[byte] = crc;
  }
  for (let index = 256; index < tables.length; index++) {
    const before = tables[index - 256] ?? 0n;
    tables[index] = (before >> 8n) ^ (tables[Number(before & 0xffn)] ?? 0n);
  }
}
fillTables();

const ALL_ONES = 0xffff_ffff_ffff_ffffn;

/** A checksum that grows with the bytes it is given. */
export class Crc64 {
  #crc = ALL_ONES;

  update(bytes: Uint8Array): this {
    for (let at = 0; at < bytes.length; at += INPUT_SIZE) {
      const part = bytes.length <= INPUT_SIZE ? bytes : bytes.subarray(at, at + INPUT_SIZE);
      input.set(part);
      this.#crc = BigInt.asUintN(64, update(INPUT_AT, INPUT_AT + part.length, this.#crc));
    }
    return this;
  }

  /** The eight bytes as the header has them: little-endian, in base64. */
  digest(): string {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeBigUInt64LE(this.#crc ^ ALL_ONES);
    return bytes.toString("base64");
  }
}

export const crc64 = (bytes: Uint8Array): string => new Crc64().update(bytes).digest();
