import assert from "node:assert/strict";
import { test } from "node:test";
import { crc64 } from "../base/crc64.ts";
import { StorageError } from "../rules/errors.ts";
import { framedReply, segmentsOf, unframed } from "./structured.ts";

async function* streamOf(parts: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts;
}

async function bytesOf(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

const number = (size: 2 | 8, value: number) => {
  const bytes = Buffer.alloc(size);
  bytes.writeUIntLE(value, 0, Math.min(size, 6));
  return bytes;
};
const sum = (content: string) => Buffer.from(crc64(Buffer.from(content)), "base64");

type Changes = { version?: number; size?: number; flags?: number; count?: number; first?: number };

/** A message of these segments, written down by hand; `changes` make it wrong. */
function message(segments: readonly string[], changes: Changes = {}): Buffer {
  const parts = segments.flatMap((content, i) => [
    number(2, i + (changes.first ?? 1)),
    number(8, content.length),
    Buffer.from(content),
    sum(content),
  ]);
  const rest = Buffer.concat([...parts, sum(segments.join(""))]);
  const head = [
    Buffer.from([changes.version ?? 1]),
    number(8, changes.size ?? 13 + rest.length),
    number(2, changes.flags ?? 1),
    number(2, changes.count ?? segments.length),
  ];
  return Buffer.concat([...head, rest]);
}

const read = (bytes: Buffer, size: number, parts: readonly Uint8Array[] = [bytes]) =>
  bytesOf(unframed(streamOf(parts), { size, messageSize: bytes.length }));

test("unframed(): gives the content, wherever the message is cut", async () => {
  const cases = [["hello"], ["hello", " ", "world"], ["", "a", ""], [""], []];
  for (const segments of cases) {
    const bytes = message(segments);
    const want = segments.join("");
    for (let at = 0; at <= bytes.length; at++) {
      const found = await read(bytes, want.length, [bytes.subarray(0, at), bytes.subarray(at)]);
      assert.equal(found.toString(), want);
    }
    const single = [...bytes].map((byte) => Buffer.from([byte]));
    assert.equal((await read(bytes, want.length, single)).toString(), want);
  }
});

test("unframed(): any byte that is changed is found out, and the last content is held back", async () => {
  const bytes = message(["hello", "world"]);
  for (let at = 0; at < bytes.length; at++) {
    const wrong = Buffer.from(bytes);
    wrong[at] = (wrong[at] ?? 0) ^ 1;
    const seen: Uint8Array[] = [];
    await assert.rejects(async () => {
      const stream = unframed(streamOf([wrong]), { size: 10, messageSize: wrong.length });
      for await (const part of stream) seen.push(part);
    }, StorageError);
    assert.ok(
      Buffer.concat(seen).length < 10,
      `all content was given out, though byte ${at} is wrong`,
    );
  }
});

const malformed: [what: string, bytes: Buffer, size: number, code?: string][] = [
  ["another version", message(["a"], { version: 2 }), 1],
  ["no sums", message(["a"], { flags: 0 }), 1],
  ["other flags", message(["a"], { flags: 3 }), 1],
  ["another length", message(["a"], { size: 39 }), 1],
  ["a length of 2^47", message(["a"], { size: 2 ** 47 }), 1],
  ["fewer segments than it has", message(["a", "b"], { count: 1 }), 2],
  ["more segments than it has", message(["a"], { count: 2 }), 1],
  ["65,535 segments and none there", message([], { count: 0xffff }), 0],
  ["segments from 0", message(["a"], { first: 0 }), 1],
  ["more content than was announced", message(["ab"]), 1],
  ["less content than was announced", message(["a"]), 2],
  ["nothing", Buffer.alloc(0), 0],
];
for (const [what, bytes, size] of malformed) {
  test(`unframed(): refuses ${what}`, async () => {
    await assert.rejects(
      read(bytes, size),
      (error) => error instanceof StorageError && error.code === "InvalidInput",
    );
  });
}

test("unframed(): a segment longer than all content is refused before it is read", async () => {
  const bytes = message(["a"]);
  bytes.writeBigUInt64LE(2n ** 64n - 1n, 15);
  await assert.rejects(read(bytes, 1), StorageError);
});

test("unframed(): a wrong message is read to its end", async () => {
  const bytes = message(["hello"], { version: 9 });
  let isRead = false;
  async function* source(): AsyncGenerator<Uint8Array> {
    for (const byte of bytes) yield Buffer.from([byte]);
    isRead = true;
  }
  await assert.rejects(bytesOf(unframed(source(), { size: 5, messageSize: bytes.length })));
  assert.ok(isRead);
});

const reply = (content: Buffer, parts: readonly Uint8Array[] | undefined) =>
  framedReply({
    status: 200,
    headers: { "Content-Length": content.length },
    body: {
      ...(parts === undefined ? {} : { bytes: parts }),
      stream: () => streamOf(parts === undefined ? [content] : []),
      close: () => {},
    },
  });

test("framedReply(): what it frames is unframed again, from memory and from a stream", async () => {
  const sizes = [0, 1, 100, 4 * 1024 * 1024 - 1, 4 * 1024 * 1024, 4 * 1024 * 1024 + 1, 9_000_000];
  for (const size of sizes) {
    const content = Buffer.alloc(size, "lazuli");
    for (const parts of [undefined, [content], [content.subarray(0, 1), content.subarray(1)]]) {
      const { headers, body } = reply(content, parts);
      assert.ok(typeof body === "object");
      const bytes =
        body.bytes === undefined ? await bytesOf(body.stream()) : Buffer.concat(body.bytes);
      assert.equal(headers["Content-Length"], bytes.length);
      assert.equal(headers["x-ms-structured-content-length"], size);
      assert.equal(headers["x-ms-structured-body"], "XSM/1.0; properties=crc64");
      assert.ok((await read(bytes, size)).equals(content));
    }
  }
});

test("segmentsOf(): never more segments than can be counted", () => {
  assert.deepEqual(segmentsOf(0), { segments: 1, segmentSize: 4_194_304 });
  assert.deepEqual(segmentsOf(4_194_305), { segments: 2, segmentSize: 4_194_304 });
  const { segments, segmentSize } = segmentsOf(200 * 2 ** 40);
  assert.ok(segments <= 0xffff && segments * segmentSize >= 200 * 2 ** 40);
});
